"""The record of who is in which class of a release, by which joint histories are counted.

A person is a hash of the identifier under a salt of the source and entity, a class is a number.
Whoever reads the record and the salt can try identifiers; ``docs/guarantees.md`` says who can.
Databases of PostgreSQL pack and count in SQL (``ledger.postgresql_persons``).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import JointHistories
from dbanon.ledger import entries
from dbanon.ledger.source_history import EarlierRelease
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# A person of a release: 8 bytes of the hash, and the number of a class.
PERSON = np.dtype([("person", ">u8"), ("class", ">i4")])
# The persons of a row of the ledger's table.
_A_ROW = 65_536


def new_salt(earlier: Sequence[EarlierRelease]) -> str:
    """The salt of a source's persons: that of its first release with a record, or another one."""
    return next((one.salt for one in earlier if one.salt is not None), secrets.token_hex(32))


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
        counts = joint_counts(records, k)[-1]
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


def without_record(session: Session, releases: Sequence[str]) -> set[str]:
    """Those of some releases that have no record of their persons with the salt of the first."""
    salt = entries.newer(session, "person_salt")
    table = session.ledger_name("release").quoted
    found = {
        str(release): value
        for release, value in session.rows(
            f"SELECT CAST(release_id AS VARCHAR(36)), {salt} FROM {table}"
        )
    }
    salts = [found.get(release) for release in releases]
    return {
        release
        for release, one in zip(releases, salts, strict=True)
        if one is None or one != salts[0]
    }


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


def joint_counts(records: Sequence[NDArray[Any]], k: int) -> list[tuple[int, int, int]]:
    """Persons, those whose history fewer than k share, and those alone, after each release.

    Parameters
    ----------
    records : of each release its persons and their classes, of type ``PERSON``. Who has rows in
        several classes is in several records.
    """
    everybody = np.concatenate([np.unique(one["person"]) for one in records])
    known = np.unique(everybody.astype(np.uint64))
    # Of a history the sum of one random number for each of its classes.
    history, seen = np.zeros(len(known), np.uint64), np.zeros(len(known), np.bool_)
    rng = np.random.default_rng()
    counts = []
    for record in records:
        at = np.searchsorted(known, record["person"].astype(np.uint64))
        classes, numbers = np.unique(record["class"], return_inverse=True)
        drawn = rng.integers(0, 2**64, len(classes), np.uint64)
        np.add.at(history, at, drawn[numbers.reshape(-1)])
        seen[at] = True
        _, sizes = np.unique(history[seen], return_counts=True)
        counts.append((int(seen.sum()), int(sizes[sizes < k].sum()), int((sizes == 1).sum())))
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
    return persons[np.argsort(persons["person"])]
