"""Record and count the persons in classes of a release on PostgreSQL, in SQL only."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from dbanon.data.words import json_text
from dbanon.ledger.postgresql import PERSONS_WRITER
from dbanon.ledger.postgresql_persons import joint_histories, pack_persons
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.sessions.statements import RELEASE_PERSONS, SALT

_STAGED = pack_persons(quote(RELEASE_PERSONS))
# The server evaluates the array, so it never passes through the client.
_COUNT = "SELECT dbanon._joint_histories(?::jsonb, {persons})::text"
_IS_SALTED = "SELECT person_salt IS NOT NULL FROM dbanon.release WHERE release_id = ?::uuid"
_READABLE = "SELECT has_table_privilege('dbanon.release_person', 'SELECT')"
_RECORD = (
    "INSERT INTO dbanon.release_person (release_id, part, persons)"
    f" SELECT ?::uuid, p.part, p.persons FROM unnest({_STAGED}) WITH ORDINALITY"
    " AS p(persons, part)"
)


class PostgresqlPersons(Session):
    """The part of a session that records persons of releases."""

    @abstractmethod
    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the catalog."""

    def stage_salt(self, salt: bytes) -> None:
        self.run(statements.create_staging(SALT, [("salt", "bytea")], self.staging_suffix))
        # Sent as text, since a backend cannot pass bytes.
        self.run(f"INSERT INTO {quote(SALT)} SELECT decode(?::text, 'hex')", (salt.hex(),))

    def salted_hash(self, text: str) -> str:
        salted = f"(SELECT salt FROM {quote(SALT)}) || convert_to({text}, 'UTF8')"
        return f"substr(sha256({salted}), 1, 8)"

    def joint_histories(
        self, releases: Sequence[str], k: int, proof: tuple[str, RelationName, RelationName] | None
    ) -> tuple[int, int, int] | None:
        if proof is None and self.look_up(_READABLE) == [(True,)]:
            # The caller then reads the records once, and counts after each release.
            return None
        request: dict[str, Any] = {"releases": list(releases), "k": k}
        persons = "NULL::bytea[]" if proof is None else _STAGED
        if proof is not None:
            release_id, relation, source = proof
            request |= {
                "release_id": release_id,
                "relation_oid": self._number(relation),
                "source_oid": self._number(source),
            }
        if self.look_up(PERSONS_WRITER):
            rows = self.rows(_COUNT.format(persons=persons), (json_text(request),))
        else:
            ids = "ARRAY(SELECT jsonb_array_elements_text(?::jsonb)::uuid)"
            query = joint_histories(ids, persons, str(int(k)))
            rows = self.rows(
                f"SELECT counted::text FROM ({query}) AS q(counted)", (json.dumps(list(releases)),)
            )
        counts = json.loads(rows[0][0])
        return int(counts["persons"]), int(counts["below"]), int(counts["alone"])

    def have_persons_recorded(self, release_id: str) -> bool:
        # Entries without the oid of their source have no salt.
        if self.rows(_IS_SALTED, (release_id,)) == [(True,)]:
            if self.look_up(PERSONS_WRITER):
                self.rows(f"SELECT dbanon._record_persons(?::uuid, {_STAGED})", (release_id,))
            else:
                self.run(_RECORD, (release_id,))
        # The next release of this transaction creates its own table.
        self.run(f"DROP TABLE pg_temp.{quote(RELEASE_PERSONS)}")
        return True

    def _number(self, name: RelationName) -> int | None:
        existing = self.find_existing(name)
        return None if existing is None else existing.oid
