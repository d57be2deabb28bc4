"""Measure what releases of one source reveal together about persons, as a chain or not.

An attacker who knows a person's class in each release can narrow the person down to those with the
same joint history, absences included. For a sensitive column, only values that occur in all of the
person's classes remain. Nothing is written.

Persons are matched by the ledger's record of persons, or by a column of the releases that
identifies them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ColumnNotFound, InvalidParameter, NullInEntity, counted
from dbanon.ledger import entries, person_record, recorded_report
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_HINT = (
    "Make each release again, where nobody else can read it, with that column in `keep`. Or name"
    " another column that all of them have. Without one, dbanon cannot know which rows"
    " belong to the same person. For later releases: a chain of mode measure counts them by keyed"
    " hashes of the column (dbanon chain create … --mode measure), whatever their readers see."
)


_Values: TypeAlias = "frozenset[str | None] | None"


@dataclass(frozen=True)
class JointHistoryCounts:
    """Counts of joint histories over the first releases.

    Parameters
    ----------
    releases : the number of releases, from the first.
    persons : persons with a row in at least one of them.
    below, alone : persons whose joint history fewer than k share, and persons with a unique one.
    read_off : by sensitive column, persons for whom a single value remains.
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
    releases : their names, in the order in which they are combined.
    entity : the column that identifies persons.
    known : counts after the first release, the first two, and so on.
    """

    releases: tuple[str, ...]
    entity: str
    k: int
    known: tuple[JointHistoryCounts, ...]

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        lines = [
            ("releases", ", ".join(self.releases)),
            ("persons", f'{self.known[-1].persons}, by "{self.entity}"'),
        ]
        for counts in self.known:
            share = counts.below / counts.persons if counts.persons else 0.0
            text = (
                f"{counts.below} ({share:.1%}) share their"
                f" joint history with fewer than {self.k - 1} others, {counts.alone} with no one"
            )
            for name, many in counts.read_off.items():
                text += f'; one value of "{name}" is left of {many}'
            lines.append((f"after {counted(counts.releases, 'release')}", text))
        return lines


@dataclass(frozen=True)
class _ReleaseRows:
    """The rows of a release: person, class, and sensitive values."""

    persons: list[str]
    classes: list[int]
    values: dict[str, list[str | None]]


def measure_together(
    store: Store,
    releases: Sequence[str],
    entity: str | None = None,
    k: int | None = None,
    sensitive: Sequence[str] | None = None,
) -> MeasuredReleases:
    """Count the persons whom releases expose together.

    Parameters
    ----------
    releases : names of outputs. Without ``entity`` also ids; a single release is combined with all
        earlier releases that have persons of its source.
    entity : a column of each release that identifies persons; None to use the ledger's record of
        persons.
    k : the threshold for shared histories; None for the smallest k of the releases.
    sensitive : columns of each release; None for those that were released as sensitive.

    Raises
    ------
    InvalidParameter : fewer than two releases, several sources, ``entity`` is no identifier, or a
        release has no record of its persons.
    ReleaseNotFound : the ledger does not have a release.
    ColumnNotFound : a release does not have a column.
    NullInEntity : a row has no person.
    """
    if len(releases) < (2 if entity else 1) or len(set(releases)) < len(releases):
        raise InvalidParameter(
            "Name two or more releases to measure together, each once.",
            hint="Name two releases or more. To measure a chain, name it alone, with its key.",
        )
    if k is not None and k < 2:
        raise InvalidParameter("k must be 2 or more.")
    if not entity:
        with store.session(write=False) as session:
            return _by_record(session, releases, k, sensitive)
    records = []
    with store.session(write=False) as session:
        for name in releases:
            entry = entries.find_release(session, parse_relation(name))
            recorded_report.require_classes(entry)
            records.append(recorded_report.read(session, entry))
        _require_one_source(records)
        if sensitive is None:
            of_all = [set(record.report.sensitive) for record in records]
            sensitive = sorted(set.intersection(*of_all))
        reads = [_read_rows(session, name, entity, sensitive) for name in releases]
    k = min(int(record.report.request.k) for record in records) if k is None else k
    return MeasuredReleases(tuple(releases), entity, k, _count_joint_histories(reads, k, sensitive))


def _by_record(
    session: Session, names: Sequence[str], k: int | None, sensitive: Sequence[str] | None
) -> MeasuredReleases:
    """Measure releases by the ledger's record of their persons.

    A single release is combined with all earlier ones that have persons of its source.

    Raises
    ------
    InvalidParameter, ReleaseNotFound : as ``measure_together``.
    """
    if sensitive:
        raise InvalidParameter(
            "The ledger's record has persons and classes, but no sensitive values.",
            hint="Leave out `sensitive`, or name the column that identifies persons in each"
            " release: `entity`.",
        )
    records = person_record.recorded_persons(session)
    ids = [_release_id(session, name) for name in names]
    missing = [name for name, id_ in zip(names, ids, strict=True) if id_ not in records]
    if missing:
        raise InvalidParameter(
            f"Not measured: the ledger has no record of the persons of {', '.join(missing)}.",
            detail="A release has one if it names its entity and belongs to no chain, and if its"
            " source is in the database of the ledger. Earlier versions kept none.",
            hint="Name the column of the person that each of these releases has (`entity`).",
        )
    measured = [records[id_] for id_ in ids]
    if len(measured) == 1:
        older = list(records.values())[: list(records).index(ids[0]) + 1]
        measured = [record for record in older if record.has_persons_of(measured[0])]
    if not all(record.has_persons_of(measured[0]) for record in measured):
        raise InvalidParameter(
            "The releases are of several sources, or of several entities.",
            hint="Name only releases of one source with one entity.",
        )
    k = min(record.k for record in measured) if k is None else k
    counts = person_record.count_cumulative_joint_histories(
        session, [record.release_id for record in measured], k
    )
    return MeasuredReleases(
        tuple(record.output for record in measured),
        measured[0].entity,
        k,
        tuple(
            JointHistoryCounts(record.releases, record.persons, record.below, record.alone, {})
            for record in counts
        ),
    )


def _release_id(session: Session, release: str) -> str:
    """The id of a release, given its id or the name of its output."""
    if _ID.fullmatch(release):
        return release.lower()
    return entries.find_release(session, parse_relation(release)).release_id


def _require_one_source(records: Sequence[recorded_report.RecordedRelease]) -> None:
    sources = sorted({record.report.source for record in records})
    if len(sources) > 1:
        raise InvalidParameter(
            f"The releases are of {len(sources)} sources: {', '.join(sources)}.",
            hint="Name only releases of one source with one entity.",
        )


def _read_rows(session: Session, name: str, entity: str, sensitive: Sequence[str]) -> _ReleaseRows:
    """Read the persons, classes and sensitive values of a release.

    Raises
    ------
    ColumnNotFound, InvalidParameter, NullInEntity : as ``measure_together``.
    """
    entry = entries.find_release(session, parse_relation(name))
    relation = session.find_source(entry.name)
    attributes = {attribute.name: attribute for attribute in relation.schema.attributes}
    for required in (entity, *sensitive):
        if required not in attributes:
            raise ColumnNotFound(
                f'Release {name} has no column "{required}".',
                hint=_HINT
                if required == entity
                else "Name columns that every release has: `sensitive`.",
            )
    if entity in entry.quasi_identifiers:
        raise InvalidParameter(
            f'Column "{entity}"'
            f" of release {name} is a quasi-identifier: its values are shared by classes, and do"
            " not identify persons.",
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
            hint="Name a column without NULL: `entity`. Or release the source again without these"
            " rows.",
        )
    return _ReleaseRows(
        [str(row[1]) for row in rows],
        [int(row[0]) for row in rows],
        {column: [row[2 + at] for row in rows] for at, column in enumerate(sensitive)},
    )


def _count_joint_histories(
    reads: Sequence[_ReleaseRows], k: int, sensitive: Sequence[str]
) -> tuple[JointHistoryCounts, ...]:
    """Count joint histories after the first release, the first two, and so on."""
    number: dict[str, int] = {}
    for read in reads:
        for person in read.persons:
            number.setdefault(person, len(number))
    joint = np.zeros(len(number), np.int64)
    seen = np.zeros(len(number), np.bool_)
    left: dict[str, list[_Values]] = {name: [None] for name in sensitive}
    results = []
    for at, read in enumerate(reads, 1):
        now, classes_of = _classes(read, number)
        seen |= now >= 0
        before, previous = np.column_stack([joint, now]), joint
        _, first, joint = np.unique(before, axis=0, return_index=True, return_inverse=True)
        joint = joint.reshape(-1)
        # Persons who are in none of the releases so far are no candidates.
        sizes = np.bincount(joint[seen], minlength=len(first))
        read_off = {}
        for name in sensitive:
            class_values = _values_by_class(read, read.values[name])
            left[name] = [
                _intersect_values(
                    left[name][previous[person]],
                    [
                        class_values[class_number]
                        for class_number in classes_of.get(int(now[person]), ())
                    ],
                )
                for person in first.tolist()
            ]
            one_left = np.array([values is not None and len(values) == 1 for values in left[name]])
            read_off[name] = int(sizes[one_left].sum())
        below, unique = int(sizes[sizes < k].sum()), int((sizes == 1).sum())
        results.append(JointHistoryCounts(at, int(seen.sum()), below, unique, read_off))
    return tuple(results)


def _classes(
    read: _ReleaseRows, number: Mapping[str, int]
) -> tuple[NDArray[np.int64], dict[int, tuple[int, ...]]]:
    """Number the set of classes of each person, int64 (n,), -1 for none; and these sets by number.

    A person with several rows may be in several classes.
    """
    of_person: dict[int, set[int]] = {}
    for person, its in zip(read.persons, read.classes, strict=True):
        of_person.setdefault(number[person], set()).add(its)
    numbers: dict[tuple[int, ...], int] = {}
    now = np.full(len(number), -1, np.int64)
    for who, classes in of_person.items():
        now[who] = numbers.setdefault(tuple(sorted(classes)), len(numbers))
    return now, {at: classes for classes, at in numbers.items()}


def _values_by_class(
    read: _ReleaseRows, values: Sequence[str | None]
) -> dict[int, set[str | None]]:
    """The values that occur in each class."""
    values_of_class: dict[int, set[str | None]] = {}
    for its, value in zip(read.classes, values, strict=True):
        values_of_class.setdefault(its, set()).add(value)
    return values_of_class


def _intersect_values(before: _Values, stand: Sequence[set[str | None]]) -> _Values:
    """The values that remain possible; None if no release has restricted them."""
    if not stand:
        return before
    now = frozenset[str | None]().union(*stand)
    return now if before is None else before & now
