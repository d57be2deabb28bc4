"""A digest of a relation's rows, whatever their order: what ``verify`` knows a release by.

The database adds up one hash a row, so that the order of rows changes nothing and equal rows do
not cancel each other out. A row's hash depends on every value, on its column's place, and on a salt
that each digest draws anew. The text of a digest is ``WAY:SALT:PROBE:ROWS:SUM``: the way it was
computed, and the hash of fixed values, by which another version of the database that hashes in
another way is told from rows that changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.base import Relation, random_salt
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

UNCHANGED = "unchanged"
CHANGED = "changed"
NOT_RECORDED = "not recorded"
OTHER_VERSION = "recorded by another version of the database"


def take(session: Session, relation: RelationName) -> str:
    """The digest of a relation as it is now, under a salt of its own."""
    return _compute(session, relation, random_salt())


def of_columns(
    session: Session, relation: Relation, names: Sequence[str], salt: int
) -> tuple[str | int, ...]:
    """What tells the rows that are read of a relation, by these columns, from others; no text.

    It is a sum that can be subtracted from another one under the same salt: never to be kept.
    """
    rows, total = session.digest_columns(relation, names, salt)
    return session.digest_way, session.digest_probe(), rows, total


def compare(session: Session, relation: RelationName, recorded: str | None) -> str:
    """One of the four words above: what a recorded digest says of a relation as it is now."""
    if recorded is None:
        return NOT_RECORDED
    method, salt, probe, *_ = recorded.split(":")
    if (method, probe) != (session.digest_way, session.digest_probe()):
        return OTHER_VERSION
    return UNCHANGED if _compute(session, relation, int(salt)) == recorded else CHANGED


def _compute(session: Session, relation: RelationName, salt: int) -> str:
    rows, total = session.digest_rows(relation, salt)
    return f"{session.digest_way}:{salt}:{session.digest_probe()}:{rows}:{total}"
