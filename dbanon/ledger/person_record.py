"""Record the classes of each person in a release, to count joint histories over releases.

The *joint history* of a person is the set of the person's classes in several releases. If fewer
than k persons share it, the releases together protect these persons less than each of them does.

A person is recorded as a salted hash of the identifier, with one salt per source and entity column.
Anyone who can read both the record and the salt can test identifiers; see ``docs/guarantees.md``.
PostgreSQL packs and counts these records in SQL (``ledger.postgresql_persons``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import JointHistories
from dbanon.data.frozen import dataclass
from dbanon.data.types import SqlRow
from dbanon.ledger import entries
from dbanon.ledger.source_history import EarlierRelease, string_argument
from dbanon.ledger.tables import LONG_TEXT
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# A person's class in a release, as the ledger stores it: eight bytes of the person's salted hash,
# and the class number.
PERSON_DTYPE = np.dtype([("person", ">u8"), ("class", ">i4")])
# Records of this type.
PersonRecords: TypeAlias = NDArray[np.void]
# A report counts joint histories over at most this many earlier releases (five years of monthly
# ones), to limit the time.
MAX_COUNTED_RELEASES = 60
# Persons per row of the ledger's table.
_PERSONS_PER_ROW = 65_536


def choose_salt(earlier_releases: Sequence[EarlierRelease]) -> str:
    """Return the salt of the first earlier release that has one, or else a new random salt.

    Parameters
    ----------
    earlier_releases : the earlier releases of the same source and entity column.
    """
    return next(
        (release.salt for release in earlier_releases if release.salt is not None),
        os.urandom(32).hex(),
    )


def count_joint_histories(
    session: Session,
    releases: Sequence[str],
    k: int,
    in_progress: tuple[str, RelationName, RelationName] | None = None,
) -> JointHistories:
    """Count joint histories over recorded releases and the release in progress, if any.

    Parameters
    ----------
    releases : ids of recorded releases.
    k : the number of persons who should share each history.
    in_progress : the id, the output table and the source of the release in progress; None if there
        is none.
    """
    # None if the client has to count: the database cannot, or it lets this role read the persons.
    counts = session.persons.count_joint_histories(releases, k, in_progress)
    if counts is None:
        records = [_read_persons(session, release) for release in releases]
        if in_progress is not None:
            records.append(_read_staged_persons(session))
        [counts] = count_joint_histories_of_records(records, k, after_each_release=False)
    return JointHistories(len(releases) + (in_progress is not None), k, *counts)


def count_cumulative_joint_histories(
    session: Session, releases: Sequence[str], k: int
) -> list[JointHistories]:
    """Count joint histories over the first recorded release, the first two, and so on.

    Parameters
    ----------
    releases : ids of recorded releases.
    k : the number of persons who should share each history.
    """
    counts_in_database = [
        session.persons.count_joint_histories(releases[:n_releases], k, in_progress=None)
        for n_releases in range(1, len(releases) + 1)
    ]
    counts = [three_counts for three_counts in counts_in_database if three_counts is not None]
    if len(counts) < len(releases):
        # The database returned None for all of them: it leaves counting to the client.
        counts = count_joint_histories_of_records(
            [_read_persons(session, release) for release in releases], k
        )
    return [
        JointHistories(n_releases, k, *three_counts)
        for n_releases, three_counts in enumerate(counts, 1)
    ]


@dataclass(frozen=True)
class RecordedPersons:
    """A release whose persons are recorded in the ledger.

    Parameters
    ----------
    salt : the salt of the hashes under which the persons are recorded.
    source : three values: the name, the oid and the owner's oid of the source; None for oids that
        are not recorded.
    entity, k : the person identifier and the requested k of the release.
    """

    release_id: str
    output: str
    salt: str
    source: SqlRow
    entity: str
    k: int

    def has_persons_of(self, other: RecordedPersons) -> bool:
        """Return True if both releases have the same source, and the same hash for each person."""
        (name, oid, owner), (own_name, own_oid, own_owner) = other.source, self.source
        is_same_table = oid is not None and oid == own_oid
        # Some tables are recreated under their name by the same owner, and then have another oid.
        is_same_source = is_same_table or (name, owner) == (own_name, own_owner)
        return self.salt == other.salt and is_same_source


def find_recorded_persons(session: Session) -> dict[str, RecordedPersons]:
    """Return the releases whose persons are recorded, by id, oldest first."""
    # Older ledgers have no column for the salt, and record no persons.
    if (
        not entries.has_trusted_ledger(session)
        or entries.optional_column(session, "person_salt") == "NULL"
    ):
        return {}
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, person_salt, source,"
        f" source_oid, source_owner_oid, CAST(arguments AS {LONG_TEXT}), k_requested"
        f" FROM {session.ledger.table('release').quoted} WHERE person_salt IS NOT NULL"
        " ORDER BY created_at, release_id"
    )
    return {
        str(release_id): RecordedPersons(
            release_id=str(release_id),
            output=str(RelationName(schema, name)),
            salt=str(salt),
            source=(source, oid, owner),
            entity=string_argument(arguments, "entity") or "",
            k=int(k or 0),
        )
        for release_id, schema, name, salt, source, oid, owner, arguments, k in rows
    }


def record_persons(session: Session, release_id: str) -> None:
    """Record the staged persons of a release; its entry is written in the same transaction."""
    if session.persons.record_in_database(release_id):
        return
    # The database has no function that records them.
    persons = _read_staged_persons(session)
    rows = [
        (release_id, part, persons[start : start + _PERSONS_PER_ROW].tobytes())
        for part, start in enumerate(range(0, len(persons), _PERSONS_PER_ROW), 1)
    ]
    if rows:
        columns = ["release_id", "part", "persons"]
        session.connection.insert_rows(session.ledger.table("release_person"), columns, rows)


def count_joint_histories_of_records(
    records: Sequence[PersonRecords], k: int, *, after_each_release: bool = True
) -> list[tuple[int, int, int]]:
    """Count all persons, those whose history fewer than k share, and those with a unique history.

    Returns these three counts after each release, or only after the last one.

    Parameters
    ----------
    records : for each release its persons and classes, of type ``PERSON_DTYPE``. A person with rows
        in several classes has several records.
    after_each_release : True for counts after each release, False for those after the last one.
    """
    # Comparisons are several times as fast in native byte order.
    persons = [release_records["person"].astype(np.uint64) for release_records in records]
    all_persons = np.unique(np.concatenate(persons))
    # Each class gets a random number as its hash. The hash of a history is the sum of the hashes of
    # its classes, modulo 2**64.
    history_hashes = np.zeros(len(all_persons), np.uint64)
    # Whether a person was in one of the releases so far.
    is_seen = np.zeros(len(all_persons), np.bool_)
    rng = np.random.default_rng()
    counts = []
    for n_releases, (release_records, release_persons) in enumerate(
        zip(records, persons, strict=True), 1
    ):
        positions = np.searchsorted(all_persons, release_persons)
        classes, class_indices = np.unique(
            release_records["class"].astype(np.int32), return_inverse=True
        )
        class_hashes = rng.integers(0, 2**64, len(classes), np.uint64)
        np.add.at(history_hashes, positions, class_hashes[class_indices.reshape(-1)])
        is_seen[positions] = True
        if after_each_release or n_releases == len(records):
            _, group_sizes = np.unique(history_hashes[is_seen], return_counts=True)
            n_below_k = int(group_sizes[group_sizes < k].sum())
            n_unique = int((group_sizes == 1).sum())
            counts.append((int(is_seen.sum()), n_below_k, n_unique))
    return counts


def _read_persons(session: Session, release: str) -> PersonRecords:
    """Read the persons of a recorded release."""
    rows = session.rows(
        f"SELECT persons FROM {session.ledger.table('release_person').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? ORDER BY part",
        (release,),
    )
    # Cut incomplete records, which only another program can have written.
    parts = [
        bytes(part)[: len(part) // PERSON_DTYPE.itemsize * PERSON_DTYPE.itemsize]
        for (part,) in rows
    ]
    return np.frombuffer(b"".join(parts), PERSON_DTYPE)


def _read_staged_persons(session: Session) -> PersonRecords:
    """Read the persons of the release in progress, sorted by hash to hide the order of rows."""
    rows = session.rows(f"SELECT person, class FROM {quote(statements.RELEASE_PERSONS)}")
    persons = np.empty(len(rows), PERSON_DTYPE)
    persons["person"] = np.frombuffer(b"".join(bytes(value) for value, _ in rows), ">u8")
    persons["class"] = [int(value) for _, value in rows]
    return persons[np.argsort(persons["person"].astype(np.uint64))]
