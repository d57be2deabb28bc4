"""Find the earlier releases of a source.

They include superseded releases, since readers may still have copies of these.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import field

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import MALFORMED_ERRORS
from dbanon.ledger.tables import LONG_TEXT
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class EarlierRelease:
    """A release of a source, as the ledger records it.

    Parameters
    ----------
    output : the name under which it was published.
    entity : the person identifier, whose values k counts; None if k counts rows.
    is_private : whether it is differentially private.
    is_chained : whether it belongs to a chain. Chains record their persons themselves, under a key.
    normalize : how values of the entity were normalized before comparison; None if they were not.
    salt : the salt of the hashes under which its persons are recorded; None without such a record.
    date_shift : the recorded ``shift_dates``; empty if no dates were shifted.
    """

    release_id: str
    output: str
    entity: str | None
    is_private: bool
    is_chained: bool = False
    normalize: str | None = None
    salt: str | None = None
    date_shift: JsonMapping = field(default_factory=dict)

    @property
    def shifted_columns(self) -> tuple[str, ...]:
        """The columns whose dates were shifted."""
        columns = self.date_shift.get("columns")
        return tuple(columns) if isinstance(columns, list) else ()


@dataclass(frozen=True)
class SourceHistory:
    """The earlier releases of a source.

    Parameters
    ----------
    releases : oldest first.
    supports_chains : whether the source's database supports chains; for sources of files, whether
        the target database does.
    file_url : the URL of the files; None if the source is a table.
    is_persistent : False if the ledger is temporary, so that earlier releases are unknown.
    """

    releases: tuple[EarlierRelease, ...] = ()
    supports_chains: bool = True
    file_url: str | None = None
    is_persistent: bool = True

    def releases_with_classes(self) -> tuple[EarlierRelease, ...]:
        """The releases that have classes, which an attacker could intersect with other classes."""
        return tuple(release for release in self.releases if not release.is_private)

    def releases_of_entity(self, entity: str) -> tuple[EarlierRelease, ...]:
        """The releases with classes in which k counted the values of this column."""
        return tuple(
            release for release in self.releases_with_classes() if release.entity == entity
        )


NO_HISTORY = SourceHistory()


def earlier_releases(
    session: Session, source: str, source_state: JsonMapping
) -> tuple[EarlierRelease, ...]:
    """Return the releases of a source in a ledger, oldest first.

    PostgreSQL tables are identified by oid, or by name and owner: a table with the same name but
    another owner is a different source.

    Parameters
    ----------
    source : the name of the source, as in reports.
    source_state : the result of ``Source.describe_state``; empty if the source is in another
        database, so that only its name is known.
    """
    if not entries.has_trusted_ledger(session):
        return ()
    # ``condition`` selects the releases, and ``counted_condition`` those among them over which
    # joint histories are counted. Other releases are returned without their salt. First the
    # conditions for a source that only its name identifies.
    condition, parameters, counted_condition = "source = ?", [source], "true"
    oid = source_state.get("oid")
    request, source_oid, epsilon, chain_id, salt = entries.optional_columns(
        session, ("request", "source_oid", "epsilon", "chain_id", "person_salt")
    )
    request = f"CAST({request} AS {LONG_TEXT})"
    has_source_oids = oid is not None and source_oid != "NULL"
    if has_source_oids:
        from dbanon.ledger.postgresql_persons import EARLIER_RELEASES

        name = parse_relation(source)
        query = f"SELECT e.release_id FROM ({EARLIER_RELEASES}) AS e"
        counted_condition = f"release_id IN ({query} WHERE e.is_counted)"
        condition = f"release_id IN ({query})"
        # Each condition contains the query once.
        parameters = [source, str(name.schema), name.name] * 2
    elif oid is not None:
        # An older ledger on PostgreSQL has the oid of the source only in the recorded request. The
        # pattern also matches longer numbers; such rows are left out below.
        condition += f" OR {request} LIKE ?"
        parameters.append(f'%"oid": {int(oid)}%')
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, source,"
        f" CAST(arguments AS {LONG_TEXT}), {request}, {epsilon},"
        f" CAST({chain_id} AS VARCHAR(36)), CASE WHEN {counted_condition} THEN {salt} END"
        f" FROM {session.ledger.table('release').quoted}"
        f" WHERE {condition} ORDER BY created_at, release_id",
        parameters,
    )
    return tuple(
        EarlierRelease(
            release_id=str(release_id),
            output=str(RelationName(schema, name)),
            entity=string_argument(arguments, "entity"),
            is_private=epsilon is not None,
            is_chained=chain is not None,
            normalize=string_argument(arguments, "entity_normalize"),
            salt=salt,
            date_shift=_read_date_shift(arguments),
        )
        for release_id, schema, name, entry_source, arguments, request, epsilon, chain, salt in rows
        if has_source_oids
        or entry_source == source
        or (oid is not None and _source_oid(request) == oid)
    )


def string_argument(arguments: object, name: str) -> str | None:
    """Return a string among an entry's arguments; None if it is missing or the entry is malformed.

    Parameters
    ----------
    arguments : the arguments of the entry, as JSON text or parsed.
    """
    with suppress(*MALFORMED_ERRORS):
        value = entries.parse_json(arguments).get(name)
        return value if isinstance(value, str) else None
    return None


def _read_date_shift(arguments: object) -> JsonMapping:
    """Return the recorded shift of dates; empty if there is none or the entry is malformed."""
    with suppress(*MALFORMED_ERRORS):
        value = entries.parse_json(arguments).get("shift_dates")
        return value if isinstance(value, dict) else {}
    return {}


def _source_oid(request: str) -> object:
    """Return the oid of the source in a request (JSON text); None if there is none."""
    with suppress(*MALFORMED_ERRORS):
        return json.loads(request)["source"]["oid"]
    return None
