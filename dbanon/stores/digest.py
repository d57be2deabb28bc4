"""Order-independent digests of a table's rows, with which ``verify`` checks a release.

The database adds up one hash per row, so row order is irrelevant and equal rows do not cancel each
other out. A row's hash depends on every value, on each column's position, and on a salt, which is
random for each digest. The text of a digest is ``METHOD:SALT:PROBE:ROWS:SUM``. ``PROBE`` is the
hash of fixed values: if it differs, this version of the database hashes differently, so digests
cannot be compared. ``ROWS`` is the number of rows, and ``SUM`` the sum of their hashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.base import Relation, random_salt
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

# The results of ``compare``.
UNCHANGED = "unchanged"
CHANGED = "changed"
NOT_RECORDED = "not recorded"
OTHER_VERSION = "recorded by another version of the database"


def digest_relation(session: Session, relation: RelationName) -> str:
    """Compute the digest of a relation's current rows under a new salt."""
    return _compute_digest(session, relation, random_salt())


def hash_columns(
    session: Session, relation: Relation, names: Sequence[str], salt: int
) -> tuple[str | int, ...]:
    """Hash the rows that a run reads, over the columns in ``names``.

    Returns the method, the probe, the number of rows and the sum of their hashes. Never store the
    result: the difference of two sums under the same salt reveals the hashes of changed rows.
    """
    n_rows, hash_sum = session.digests.of_columns(relation, names, salt)
    return session.digests.method, session.digests.probe(), n_rows, hash_sum


def compare(session: Session, relation: RelationName, recorded_digest: str | None) -> str:
    """Compare the current rows with a recorded digest, which is None if there is none."""
    if recorded_digest is None:
        return NOT_RECORDED
    method, salt, probe, *_ = recorded_digest.split(":")
    if (method, probe) != (session.digests.method, session.digests.probe()):
        return OTHER_VERSION
    return (
        UNCHANGED if _compute_digest(session, relation, int(salt)) == recorded_digest else CHANGED
    )


def _compute_digest(session: Session, relation: RelationName, salt: int) -> str:
    n_rows, hash_sum = session.digests.of_rows(relation, salt)
    return f"{session.digests.method}:{salt}:{session.digests.probe()}:{n_rows}:{hash_sum}"
