"""Record which person is in which class of a release, to count joint histories.

A person is recorded as a hash of the identifier, salted per source and entity; a class is a number.
Anyone who can read both the record and the salt can test identifiers; see ``docs/guarantees.md``.
PostgreSQL packs and counts these records in SQL (``ledger.postgresql_persons``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import JointHistories
from dbanon.data.frozen import dataclass
from dbanon.ledger import entries
from dbanon.ledger.source_history import EarlierRelease, argument
from dbanon.ledger.tables import LONG_TEXT
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# Eight bytes of a person's hash, and a class number.
PERSON = np.dtype([("person", ">u8"), ("class", ">i4")])
# A report counts at most this many earlier releases (five years of months), to limit the time.
MOST_RELEASES = 60
# Persons per row of the ledger's table.
_PERSONS_PER_ROW = 65_536


def new_salt(earlier: Sequence[EarlierRelease]) -> str:
    """Return the salt of the first release that has one, or a new random salt."""
    return next(
        (release.salt for release in earlier if release.salt is not None), os.urandom(32).hex()
    )


def measure(
    session: Session,
    releases: Sequence[str],
    k: int,
    in_progress: tuple[str, RelationName, RelationName] | None = None,
) -> JointHistories:
    """Count joint histories over recorded releases and the release in progress, if any.

    Parameters
    ----------
    in_progress : id, output table and source of the release in progress; None without one.
    """
    counts = session.joint_histories(releases, k, in_progress)
    if counts is None:
        records = [_read_persons(session, release) for release in releases]
        if in_progress is not None:
            records.append(_read_staged_persons(session))
        [counts] = joint_counts(records, k, each=False)
    return JointHistories(len(releases) + (in_progress is not None), k, *counts)


def measure_each(session: Session, releases: Sequence[str], k: int) -> list[JointHistories]:
    """Count joint histories over the first recorded release, the first two, and so on."""
    counts = [
        session.joint_histories(releases[:count], k, None) for count in range(1, len(releases) + 1)
    ]
    histories = [history for history in counts if history is not None]
    if len(histories) < len(releases):
        histories = joint_counts([_read_persons(session, release) for release in releases], k)
    return [JointHistories(number, k, *history) for number, history in enumerate(histories, 1)]


@dataclass(frozen=True)
class RecordedPersons:
    """A release whose persons are recorded in the ledger.

    Parameters
    ----------
    salt : the salt of the hashes.
    source : name, oid and owner's oid of the source.
    entity, k : options of the release.
    """

    release_id: str
    output: str
    salt: str
    source: tuple[Any, ...]
    entity: str
    k: int

    def has_persons_of(self, other: RecordedPersons) -> bool:
        """Return True if both have the same source and hash a person to the same value."""
        (name, oid, owner), (own_name, own_oid, own_owner) = other.source, self.source
        same = oid is not None and oid == own_oid
        return self.salt == other.salt and (same or (name, owner) == (own_name, own_owner))


def recorded_persons(session: Session) -> dict[str, RecordedPersons]:
    """Return the releases whose persons are recorded, by id, oldest first."""
    if (
        not entries.has_trusted_ledger(session)
        or entries.optional_column(session, "person_salt") == "NULL"
    ):
        return {}
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, person_salt, source,"
        f" source_oid, source_owner_oid, CAST(arguments AS {LONG_TEXT}), k_requested"
        f" FROM {session.ledger_name('release').quoted} WHERE person_salt IS NOT NULL"
        " ORDER BY created_at, release_id"
    )
    return {
        str(release_id): RecordedPersons(
            str(release_id),
            str(RelationName(schema, name)),
            str(salt),
            (source, oid, owner),
            argument(arguments, "entity") or "",
            int(k or 0),
        )
        for release_id, schema, name, salt, source, oid, owner, arguments, k in rows
    }


def write(session: Session, release_id: str) -> None:
    """Record the staged persons of a release whose entry is written in this transaction."""
    if session.record_persons_in_database(release_id):
        return
    persons = _read_staged_persons(session)
    rows = [
        (release_id, part, persons[start : start + _PERSONS_PER_ROW].tobytes())
        for part, start in enumerate(range(0, len(persons), _PERSONS_PER_ROW), 1)
    ]
    if rows:
        columns = ["release_id", "part", "persons"]
        session.insert_rows(session.ledger_name("release_person"), columns, rows)


def joint_counts(
    records: Sequence[NDArray[Any]], k: int, *, each: bool = True
) -> list[tuple[int, int, int]]:
    """Count persons, those sharing their history with fewer than k, and unique ones, per release.

    Parameters
    ----------
    records : for each release its persons and classes, of type ``PERSON``. A person with rows in
        several classes has several records.
    each : whether to count after each release, or only after the last one.
    """
    # Native byte order compares several times as fast.
    persons = [record["person"].astype(np.uint64) for record in records]
    all_persons = np.unique(np.concatenate(persons))
    # A history is hashed as the sum of a random number for each of its classes.
    history, seen = np.zeros(len(all_persons), np.uint64), np.zeros(len(all_persons), np.bool_)
    rng = np.random.default_rng()
    counts = []
    for number, (record, release_persons) in enumerate(zip(records, persons, strict=True), 1):
        at = np.searchsorted(all_persons, release_persons)
        classes, numbers = np.unique(record["class"].astype(np.int32), return_inverse=True)
        class_hashes = rng.integers(0, 2**64, len(classes), np.uint64)
        np.add.at(history, at, class_hashes[numbers.reshape(-1)])
        seen[at] = True
        if each or number == len(records):
            _, sizes = np.unique(history[seen], return_counts=True)
            below, unique_persons = int(sizes[sizes < k].sum()), int((sizes == 1).sum())
            counts.append((int(seen.sum()), below, unique_persons))
    return counts


def _read_persons(session: Session, release: str) -> NDArray[Any]:
    """Read the persons of a recorded release."""
    rows = session.rows(
        f"SELECT persons FROM {session.ledger_name('release_person').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? ORDER BY part",
        (release,),
    )
    # Another writer may have stored parts of any length.
    parts = [bytes(part)[: len(part) // PERSON.itemsize * PERSON.itemsize] for (part,) in rows]
    return np.frombuffer(b"".join(parts), PERSON)


def _read_staged_persons(session: Session) -> NDArray[Any]:
    """Read the persons of the release in progress, sorted by hash to hide the order of rows."""
    rows = session.rows(f"SELECT person, class FROM {quote(statements.RELEASE_PERSONS)}")
    persons = np.empty(len(rows), PERSON)
    persons["person"] = np.frombuffer(b"".join(bytes(value) for value, _ in rows), ">u8")
    persons["class"] = [int(value) for _, value in rows]
    return persons[np.argsort(persons["person"].astype(np.uint64))]
