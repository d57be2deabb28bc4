"""The ledger's records of the persons in releases, on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from dbanon.data.words import json_text
from dbanon.ledger.postgresql import FIND_PERSONS_WRITER
from dbanon.ledger.postgresql_persons import build_joint_histories_query, pack_persons
from dbanon.sessions.base import ExistingRelation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.statements import RELEASE_PERSONS
from dbanon.stores.postgresql.connection import PostgresqlConnection

# SQL of the persons of the release in progress, packed as the ledger stores them.
_STAGED_PERSONS = pack_persons(quote(RELEASE_PERSONS))
# Counts persons by joint history: the classes that they have in these releases. ``{persons}`` is
# SQL of the persons of a release in progress, an array that stays on the server.
_COUNT_JOINT_HISTORIES = "SELECT dbanon._joint_histories(?::jsonb, {persons})::text"
_IS_SALTED = "SELECT person_salt IS NOT NULL FROM dbanon.release WHERE release_id = ?::uuid"
_MAY_READ_PERSONS = "SELECT has_table_privilege('dbanon.release_person', 'SELECT')"
_RECORD_PERSONS = (
    "INSERT INTO dbanon.release_person (release_id, part, persons)"
    f" SELECT ?::uuid, p.part, p.persons FROM unnest({_STAGED_PERSONS}) WITH ORDINALITY"
    " AS p(persons, part)"
)


class PostgresqlPersonRecords(PersonRecords):
    """The records of a PostgreSQL database, where functions of the ledger's owner count persons.

    Parameters
    ----------
    find_existing : returns the relation that has a name, or None.
    """

    _connection: PostgresqlConnection

    def __init__(
        self,
        connection: PostgresqlConnection,
        find_existing: Callable[[RelationName], ExistingRelation | None],
    ) -> None:
        super().__init__(connection)
        self._find_existing = find_existing

    def count_joint_histories(
        self,
        releases: Sequence[str],
        k: int,
        in_progress: tuple[str, RelationName, RelationName] | None,
    ) -> tuple[int, int, int] | None:
        # ``in_progress`` has the id, the output table and the source of the release in progress.
        if in_progress is None and self._connection.look_up(_MAY_READ_PERSONS) == [(True,)]:
            # This role may read the table of persons, so let the caller read it once and count.
            return None
        request: dict[str, object] = {"releases": list(releases), "k": k}
        persons = "NULL::bytea[]" if in_progress is None else _STAGED_PERSONS
        if in_progress is not None:
            release_id, relation, source = in_progress
            request |= {
                "release_id": release_id,
                "relation_oid": self._oid_of(relation),
                "source_oid": self._oid_of(source),
            }
        # With dbanon's functions installed, only the ledger's owner can read persons, so a function
        # with the owner's rights counts them.
        if self._connection.look_up(FIND_PERSONS_WRITER):
            rows = self._connection.rows(
                _COUNT_JOINT_HISTORIES.format(persons=persons), (json_text(request),)
            )
        else:
            ids = "ARRAY(SELECT jsonb_array_elements_text(?::jsonb)::uuid)"
            query = build_joint_histories_query(ids, persons, str(int(k)))
            rows = self._connection.rows(
                f"SELECT counts::text FROM ({query}) AS q(counts)", (json.dumps(list(releases)),)
            )
        [(counts_json,)] = rows
        counts = json.loads(counts_json)
        # All persons, those whose history fewer than k share, and those with a unique history.
        return int(counts["persons"]), int(counts["below"]), int(counts["alone"])

    def record_in_database(self, release_id: str) -> bool:
        # Persons are recorded only for releases whose ledger entry has a salt. An entry without the
        # oid of its source has none.
        if self._connection.rows(_IS_SALTED, (release_id,)) == [(True,)]:
            if self._connection.look_up(FIND_PERSONS_WRITER):
                self._connection.rows(
                    f"SELECT dbanon._record_persons(?::uuid, {_STAGED_PERSONS})", (release_id,)
                )
            else:
                self._connection.run(_RECORD_PERSONS, (release_id,))
        # Another release in the same transaction creates this table again.
        self._connection.run(f"DROP TABLE pg_temp.{quote(RELEASE_PERSONS)}")
        return True

    def _oid_of(self, name: RelationName) -> int | None:
        existing_relation = self._find_existing(name)
        return None if existing_relation is None else existing_relation.oid
