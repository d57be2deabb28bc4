"""What releases of one source tell together about their persons, whether or not they are a chain.

Whoever knows in which class a person is in each release has only those left who share all of them:
who have the same joint history, absences included. Of a sensitive column the values remain that
stand in each of a person's classes. Nothing is written.

Persons are found by the record that the ledger has of them, or by a column of the releases that
says whose a row is: nothing else tells which rows of two releases are the same person's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ColumnNotFound, InvalidParameter, NullInEntity, counted
from dbanon.ledger import entries, person_record, recorded
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_HINT = (
    "Make each release once more, where nobody else can read it, with that column kept. Or"
    " name another column that all of them have. Without one, dbanon cannot know which rows"
    " belong to the same person. For later releases: a chain of mode measure counts them by keyed"
    " hashes of the column (dbanon chain create … --mode measure), whatever their readers see."
)


_Values: TypeAlias = "frozenset[str | None] | None"


@dataclass(frozen=True)
class Known:
    """What is known after some of the releases.

    Parameters
    ----------
    releases : how many, from the first.
    persons : who has a row in one of them.
    below, alone : of these, whose joint history fewer than k share, and whose is theirs alone.
    read_off : by sensitive column, the persons of whom one value is left.
    """

    releases: int
    persons: int
    below: int
    alone: int
    read_off: Mapping[str, int]


@dataclass(frozen=True)
class MeasuredReleases:
    """What releases reveal together.

    Parameters
    ----------
    releases : their names, in the order in which they are taken together.
    entity : the column that persons were found by.
    known : after the first, the first two, and so on.
    """

    releases: tuple[str, ...]
    entity: str
    k: int
    known: tuple[Known, ...]

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        found = [
            ("releases", ", ".join(self.releases)),
            ("persons", f'{self.known[-1].persons}, by "{self.entity}"'),
        ]
        for one in self.known:
            text = (
                f"{one.below} ({one.below / one.persons if one.persons else 0.0:.1%}) share their"
                f" joint history with fewer than {self.k - 1} others, {one.alone} with nobody"
            )
            for name, many in one.read_off.items():
                text += f'; one value of "{name}" is left of {many}'
            found.append((f"after {counted(one.releases, 'release')}", text))
        return found


@dataclass(frozen=True)
class _Read:
    """The rows of a release: whose, in which class, and what sensitive columns hold."""

    persons: list[str]
    classes: list[int]
    values: dict[str, list[str | None]]


def together(
    store: Store,
    releases: Sequence[str],
    entity: str | None = None,
    k: int | None = None,
    sensitive: Sequence[str] | None = None,
) -> MeasuredReleases:
    """Count what releases tell together.

    Parameters
    ----------
    releases : names of outputs. Without ``entity`` also ids, and one alone is measured together
        with all earlier releases that have persons of its source.
    entity : a column of each of them that says whose a row is; None to count by the record that the
        ledger has of their persons.
    k : what histories are counted against; the least of the releases' own when None.
    sensitive : columns of each of them; those that were released as sensitive when None.

    Raises
    ------
    InvalidParameter : fewer than two releases, of several sources, ``entity`` is no identifier, or
        a release has no record of its persons.
    ReleaseNotFound : the ledger does not know one of them.
    ColumnNotFound : a release does not have a column.
    NullInEntity : a row is nobody's.
    """
    if len(releases) < (2 if entity else 1) or len(set(releases)) < len(releases):
        raise InvalidParameter(
            "Two or more releases are measured together, each named once.",
            hint="A chain is named alone, beside its key.",
        )
    if k is not None and k < 2:
        raise InvalidParameter("k must be 2 or more.")
    if not entity:
        with store.session(write=False) as session:
            return _by_record(session, releases, k, sensitive)
    found = []
    with store.session(write=False) as session:
        for name in releases:
            entry = entries.find_release(session, parse_relation(name))
            recorded.require_classes(entry)
            found.append(recorded.read(session, entry))
        _require_one_source(found)
        if sensitive is None:
            of_all = [set(one.report.sensitive) for one in found]
            sensitive = sorted(set.intersection(*of_all))
        reads = [_read(session, name, entity, sensitive) for name in releases]
    k = min(int(one.report.request.k) for one in found) if k is None else k
    return MeasuredReleases(tuple(releases), entity, k, _known(reads, k, sensitive))


def _by_record(
    session: Session, names: Sequence[str], k: int | None, sensitive: Sequence[str] | None
) -> MeasuredReleases:
    """What releases tell together by the record of their persons.

    One release is measured together with all earlier ones that have persons of its source.

    Raises
    ------
    InvalidParameter, ReleaseNotFound : as ``together``.
    """
    if sensitive:
        raise InvalidParameter(
            "The ledger's record has persons and classes, and no sensitive values.",
            hint="Leave out the sensitive columns, or name the column of the person that each"
            " release has (`entity`).",
        )
    known = person_record.recorded_persons(session)
    ids = [_release_id(session, name) for name in names]
    missing = [name for name, id_ in zip(names, ids, strict=True) if id_ not in known]
    if missing:
        raise InvalidParameter(
            f"Not measured: the ledger has no record of the persons of {', '.join(missing)}.",
            detail="A release has one if it names its entity and belongs to no chain, and if its"
            " source is in the database of the ledger. Earlier versions kept none.",
            hint="Name the column of the person that each of these releases has (`entity`).",
        )
    measured = [known[id_] for id_ in ids]
    if len(measured) == 1:
        older = list(known.values())[: list(known).index(ids[0]) + 1]
        measured = [one for one in older if one.has_persons_of(measured[0])]
    if not all(one.has_persons_of(measured[0]) for one in measured):
        raise InvalidParameter(
            "The releases are of several sources, or of several entities.",
            hint="Persons are compared by the identifiers of one column of one source.",
        )
    k = min(one.k for one in measured) if k is None else k
    counts = person_record.measure_each(session, [one.release_id for one in measured], k)
    return MeasuredReleases(
        tuple(one.output for one in measured),
        measured[0].entity,
        k,
        tuple(Known(one.releases, one.persons, one.below, one.alone, {}) for one in counts),
    )


def _release_id(session: Session, release: str) -> str:
    """The id of a release, by its id or the name of its output."""
    if _ID.fullmatch(release):
        return release.lower()
    return entries.find_release(session, parse_relation(release)).release_id


def _require_one_source(found: Sequence[recorded.Recorded]) -> None:
    sources = sorted({one.report.source for one in found})
    if len(sources) > 1:
        raise InvalidParameter(
            f"The releases are of {len(sources)} sources: {', '.join(sources)}.",
            hint="Persons are compared by a column of one source.",
        )


def _read(session: Session, name: str, entity: str, sensitive: Sequence[str]) -> _Read:
    """What a release says of each person.

    Raises
    ------
    ColumnNotFound, InvalidParameter, NullInEntity : as ``together``.
    """
    entry = entries.find_release(session, parse_relation(name))
    relation = session.find_source(entry.name)
    attributes = {attribute.name: attribute for attribute in relation.schema.attributes}
    for wanted in (entity, *sensitive):
        if wanted not in attributes:
            raise ColumnNotFound(
                f'Release {name} has no column "{wanted}".',
                hint=_HINT if wanted == entity else "Name those that all releases have.",
            )
    if entity in entry.quasi_identifiers:
        raise InvalidParameter(
            f'Column "{entity}" of release {name} is a quasi-identifier: its values are those of'
            " classes, and tell nobody apart.",
            hint=_HINT,
        )
    shared = ", ".join(session.compared(attributes[column]) for column in entry.quasi_identifiers)
    columns = [session.text_of(attributes[column]) for column in (entity, *sensitive)]
    rows = session.rows(
        f"SELECT dense_rank() OVER (ORDER BY {shared}), {', '.join(columns)}"
        f" FROM {entry.name.quoted} AS s"
    )
    nobodys = sum(1 for row in rows if row[1] is None)
    if nobodys:
        raise NullInEntity(
            f'Column "{entity}" holds NULL in {nobodys} of {len(rows)} rows of release {name}.',
            hint="Persons are found by it: name another one, or leave these rows out in a view.",
        )
    return _Read(
        [str(row[1]) for row in rows],
        [int(row[0]) for row in rows],
        {column: [row[2 + at] for row in rows] for at, column in enumerate(sensitive)},
    )


def _known(reads: Sequence[_Read], k: int, sensitive: Sequence[str]) -> tuple[Known, ...]:
    """What is known after the first release, the first two, and so on."""
    number: dict[str, int] = {}
    for read in reads:
        for person in read.persons:
            number.setdefault(person, len(number))
    joint = np.zeros(len(number), np.int64)
    seen = np.zeros(len(number), np.bool_)
    left: dict[str, list[_Values]] = {name: [None] for name in sensitive}
    found = []
    for at, read in enumerate(reads, 1):
        now, classes_of = _classes(read, number)
        seen |= now >= 0
        before, own = np.column_stack([joint, now]), joint
        _, first, joint = np.unique(before, axis=0, return_index=True, return_inverse=True)
        joint = joint.reshape(-1)
        # Who is in none of the releases yet is no candidate.
        sizes = np.bincount(joint[seen], minlength=len(first))
        read_off = {}
        for name in sensitive:
            stand = _standing(read, read.values[name])
            left[name] = [
                _common(
                    left[name][own[person]],
                    [stand[one] for one in classes_of.get(int(now[person]), ())],
                )
                for person in first.tolist()
            ]
            one_left = np.array([values is not None and len(values) == 1 for values in left[name]])
            read_off[name] = int(sizes[one_left].sum())
        below, alone = int(sizes[sizes < k].sum()), int((sizes == 1).sum())
        found.append(Known(at, int(seen.sum()), below, alone, read_off))
    return tuple(found)


def _classes(
    read: _Read, number: Mapping[str, int]
) -> tuple[NDArray[np.int64], dict[int, tuple[int, ...]]]:
    """By person, int64 (n,), a number of the classes that rows of theirs stand in, -1 for none.

    Beside it the classes that each number stands for: a person with several rows may be in several.
    """
    of_person: dict[int, set[int]] = {}
    for person, its in zip(read.persons, read.classes, strict=True):
        of_person.setdefault(number[person], set()).add(its)
    numbers: dict[tuple[int, ...], int] = {}
    now = np.full(len(number), -1, np.int64)
    for who, classes in of_person.items():
        now[who] = numbers.setdefault(tuple(sorted(classes)), len(numbers))
    return now, {at: classes for classes, at in numbers.items()}


def _standing(read: _Read, values: Sequence[str | None]) -> dict[int, set[str | None]]:
    """The values that stand in each class."""
    found: dict[int, set[str | None]] = {}
    for its, value in zip(read.classes, values, strict=True):
        found.setdefault(its, set()).add(value)
    return found


def _common(before: _Values, stand: Sequence[set[str | None]]) -> _Values:
    """The values that are left; None where no release has told of any."""
    if not stand:
        return before
    now = frozenset[str | None]().union(*stand)
    return now if before is None else before & now
