"""The record of who is in which class of a release, by which joint histories are counted.

A person is a hash of the identifier under a salt of the source and entity, a class is a number.
Whoever reads the record and the salt can try identifiers; ``docs/guarantees.md`` says who can.
Databases of PostgreSQL pack and count in SQL (``ledger.postgresql_persons``).
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

# A person of a release: 8 bytes of the hash, and the number of a class.
PERSON = np.dtype([("person", ">u8"), ("class", ">i4")])
# How many earlier releases a report counts, as each takes its time: five years of months.
MOST = 60
# The persons of a row of the ledger's table.
_A_ROW = 65_536


def new_salt(earlier: Sequence[EarlierRelease]) -> str:
    """The salt of a source's persons: that of its first release with a record, or another one."""
    return next((one.salt for one in earlier if one.salt is not None), os.urandom(32).hex())


def measure(
    session: Session,
    releases: Sequence[str],
    k: int,
    proof: tuple[str, RelationName, RelationName] | None = None,
) -> JointHistories:
    """The joint histories over recorded releases, and over the staged persons of one more.

    Parameters
    ----------
    proof : of the one that is being made: its id, the table that it was written to, its source.
    """
    counts = session.joint_histories(releases, k, proof)
    if counts is None:
        records = [_record(session, release) for release in releases]
        if proof is not None:
            records.append(_staged(session))
        [counts] = joint_counts(records, k, each=False)
    return JointHistories(len(releases) + (proof is not None), k, *counts)


def measure_each(session: Session, releases: Sequence[str], k: int) -> list[JointHistories]:
    """The joint histories over the first recorded release, the first two, and so on."""
    counts = [
        session.joint_histories(releases[:count], k, None) for count in range(1, len(releases) + 1)
    ]
    known = [one for one in counts if one is not None]
    if len(known) < len(releases):
        known = joint_counts([_record(session, release) for release in releases], k)
    return [JointHistories(number, k, *one) for number, one in enumerate(known, 1)]


@dataclass(frozen=True)
class RecordedPersons:
    """A release whose persons the ledger has a record of.

    Parameters
    ----------
    salt, source : what persons are hashed with, and the source's name and numbers.
    entity, k : as the release was made.
    """

    release_id: str
    output: str
    salt: str
    source: tuple[Any, ...]
    entity: str
    k: int

    def has_persons_of(self, other: RecordedPersons) -> bool:
        """Whether both are of one source, and have one hash for a person."""
        (name, number, owner), (own, own_number, own_owner) = other.source, self.source
        same = number is not None and number == own_number
        return self.salt == other.salt and (same or (name, owner) == (own, own_owner))


def recorded_persons(session: Session) -> dict[str, RecordedPersons]:
    """The releases that have a record of their persons, by id, oldest first."""
    if not entries.trusted(session) or entries.newer(session, "person_salt") == "NULL":
        return {}
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, person_salt, source,"
        f" source_oid, source_owner_oid, CAST(arguments AS {LONG_TEXT}), k_requested"
        f" FROM {session.ledger_name('release').quoted} WHERE person_salt IS NOT NULL"
        " ORDER BY created_at, release_id"
    )
    return {
        str(release_id): RecordedPersons(
            str(release_id), str(RelationName(schema, name)), str(salt), (source, oid, owner),
            argument(arguments, "entity") or "", int(k or 0),
        )
        for release_id, schema, name, salt, source, oid, owner, arguments, k in rows
    }  # fmt: skip


def write(session: Session, release_id: str) -> None:
    """Record the staged persons of a release whose entry this transaction wrote."""
    if session.have_persons_recorded(release_id):
        return
    persons = _staged(session)
    rows = [
        (release_id, part, persons[start : start + _A_ROW].tobytes())
        for part, start in enumerate(range(0, len(persons), _A_ROW), 1)
    ]
    if rows:
        columns = ["release_id", "part", "persons"]
        session.insert_rows(session.ledger_name("release_person"), columns, rows)


def joint_counts(
    records: Sequence[NDArray[Any]], k: int, *, each: bool = True
) -> list[tuple[int, int, int]]:
    """Persons, those whose history fewer than k share, and those alone, after each release.

    Parameters
    ----------
    records : of each release its persons and their classes, of type ``PERSON``. Who has rows in
        several classes is in several records.
    each : False for the counts after the last release alone.
    """
    # In this machine's order of bytes, in which they are compared several times as fast.
    persons = [record["person"].astype(np.uint64) for record in records]
    known = np.unique(np.concatenate(persons))
    # Of a history the sum of one random number for each of its classes.
    history, seen = np.zeros(len(known), np.uint64), np.zeros(len(known), np.bool_)
    rng = np.random.default_rng()
    counts = []
    for number, (record, whose) in enumerate(zip(records, persons, strict=True), 1):
        at = np.searchsorted(known, whose)
        classes, numbers = np.unique(record["class"].astype(np.int32), return_inverse=True)
        drawn = rng.integers(0, 2**64, len(classes), np.uint64)
        np.add.at(history, at, drawn[numbers.reshape(-1)])
        seen[at] = True
        if each or number == len(records):
            _, sizes = np.unique(history[seen], return_counts=True)
            below, alone = int(sizes[sizes < k].sum()), int((sizes == 1).sum())
            counts.append((int(seen.sum()), below, alone))
    return counts


def _record(session: Session, release: str) -> NDArray[Any]:
    """The persons of a recorded release."""
    rows = session.rows(
        f"SELECT persons FROM {session.ledger_name('release_person').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? ORDER BY part",
        (release,),
    )
    # What somebody else wrote may be of any length.
    parts = [bytes(part)[: len(part) // PERSON.itemsize * PERSON.itemsize] for (part,) in rows]
    return np.frombuffer(b"".join(parts), PERSON)


def _staged(session: Session) -> NDArray[Any]:
    """The persons of the release that is being made, by their hashes: rows have another order."""
    rows = session.rows(f"SELECT person, class FROM {quote(statements.RELEASE_PERSONS)}")
    persons = np.empty(len(rows), PERSON)
    persons["person"] = np.frombuffer(b"".join(bytes(one) for one, _ in rows), ">u8")
    persons["class"] = [int(one) for _, one in rows]
    return persons[np.argsort(persons["person"].astype(np.uint64))]
