"""Order-independent digests of a table's rows, by which ``verify`` recognizes a release.

The database adds up one hash per row, so row order is irrelevant and equal rows do not cancel each
other out. A row's hash depends on every value, on each column's position, and on a salt drawn anew
for each digest. A digest reads ``WAY:SALT:PROBE:ROWS:SUM``. ``WAY`` names the method, and ``PROBE``
is the hash of fixed values: it distinguishes a database version that hashes differently from rows
that changed.
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


def of_relation(session: Session, relation: RelationName) -> str:
    """Compute the digest of a relation's current rows under a new salt."""
    return _compute(session, relation, random_salt())


def of_columns(
    session: Session, relation: Relation, names: Sequence[str], salt: int
) -> tuple[str | int, ...]:
    """Fingerprint the rows that a run reads, over these columns only.

    Sums under the same salt can be subtracted from each other, so never store the result.
    """
    rows, total = session.digest_columns(relation, names, salt)
    return session.digest_method, session.digest_probe(), rows, total


def compare(session: Session, relation: RelationName, recorded: str | None) -> str:
    """Compare a recorded digest with the current rows; returns one of the four states above."""
    if recorded is None:
        return NOT_RECORDED
    method, salt, probe, *_ = recorded.split(":")
    if (method, probe) != (session.digest_method, session.digest_probe()):
        return OTHER_VERSION
    return UNCHANGED if _compute(session, relation, int(salt)) == recorded else CHANGED


def _compute(session: Session, relation: RelationName, salt: int) -> str:
    rows, total = session.digest_rows(relation, salt)
    return f"{session.digest_method}:{salt}:{session.digest_probe()}:{rows}:{total}"
