"""Measure what releases of one source reveal together about persons, in a chain or not.

A person's *joint history* is the person's class, or absence, in each release. An attacker who knows
it can narrow the person down to those with the same joint history, and the person's sensitive value
to those that occur in all of these classes. Nothing is written.

The rows of a person in different releases are matched by the ledger's record of persons, or by an
identifying column that all releases have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.types import JsonObject
from dbanon.errors import ColumnNotFound, InvalidParameter, NullInEntity, pluralize
from dbanon.ledger import entries, person_record, recorded_report
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store

_RELEASE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
# A chain of mode ``measure`` only counts the persons who share a history. It stores hashes of their
# identifiers itself, so its releases need no column that identifies persons.
_MISSING_IDENTIFIER_HINT = (
    "Make each release again, where nobody else can read it, with that column in `keep`. Or name"
    " another column that all of them have. Without one, dbanon cannot know which rows"
    " belong to the same person. For later releases: a chain of mode measure counts them by keyed"
    " hashes of the column (dbanon chain create … --mode measure), whatever their readers see."
)


# The sensitive values that a person may have; None if no release has restricted them.
_PossibleValues: TypeAlias = "frozenset[str | None] | None"


@dataclass(frozen=True)
class JointHistoryCounts:
    """Counts of persons by their joint histories over the first n releases of a sequence.

    Parameters
    ----------
    releases : the number n of these releases.
    persons : number of persons with a row in at least one of them.
    below : number of persons whose joint history is shared by fewer than k persons.
    alone : number of persons with a unique joint history.
    read_off : by sensitive column, number of persons for whom only one value remains possible.
    """

    releases: int
    persons: int
    below: int
    alone: int
    read_off: Mapping[str, int]


@dataclass(frozen=True)
class MeasuredReleases:
    """Counts of what several releases reveal together.

    Parameters
    ----------
    releases : the names of the releases, in the order in which they are combined.
    entity : the column that identifies persons.
    k : the number of persons who should share each joint history.
    known : what readers know after each release: counts over the first release, over the first two,
        and so on.
    """

    releases: tuple[str, ...]
    entity: str
    k: int
    known: tuple[JointHistoryCounts, ...]

    def to_dict(self) -> JsonObject:
        """The counts as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        # The last item of ``known`` covers all releases.
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
            for name, n_revealed in counts.read_off.items():
                text += f'; only one value of "{name}" is possible for {n_revealed}'
            lines.append((f"after {pluralize(counts.releases, 'release')}", text))
        return lines


@dataclass(frozen=True)
class _ReleaseRows:
    """The rows of a release, in one order in all fields.

    Parameters
    ----------
    persons, classes : the person identifier and the class number of each row.
    values : by sensitive column, the value of each row.
    """

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
    """Count the persons whose joint history over several releases is shared by fewer than k.

    Parameters
    ----------
    releases : names of outputs. Without ``entity``, they may also be release ids, and a single
        release is combined with all earlier ones with the same source and entity.
    entity : a column in each release that identifies persons; None to use the ledger's record of
        persons.
    k : the number of persons who should share each history; None for the smallest k of the
        releases.
    sensitive : columns of each release; None for those that all of them released as sensitive.

    Raises
    ------
    InvalidParameter : there are fewer than two releases, or several sources; ``entity`` does not
        identify persons; or the ledger has no record of a release's persons.
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
            return _measure_by_record(session, releases, k, sensitive)
    records = []
    with store.session(write=False) as session:
        for name in releases:
            entry = entries.find_release(session, parse_relation(name))
            # Raises InvalidParameter for synthetic rows, which have no classes.
            recorded_report.require_classes(entry)
            records.append(recorded_report.read(session, entry))
        _require_one_source(records)
        if sensitive is None:
            sensitive_by_release = [set(record.report.sensitive) for record in records]
            sensitive = sorted(set.intersection(*sensitive_by_release))
        rows_by_release = [_read_rows(session, name, entity, sensitive) for name in releases]
    k = min(int(record.report.request.k) for record in records) if k is None else k
    counts = _count_joint_histories(rows_by_release, k, sensitive)
    return MeasuredReleases(tuple(releases), entity, k, counts)


def _measure_by_record(
    session: Session, names: Sequence[str], k: int | None, sensitive: Sequence[str] | None
) -> MeasuredReleases:
    """Measure releases by the ledger's record of their persons.

    Parameters
    ----------
    names : names of outputs, or release ids. A single release is combined with all earlier ones
        with the same source and entity.
    k : the number of persons who should share each history; None for the smallest k of the
        releases.
    sensitive : must be empty or None, because the ledger has no sensitive values.

    Raises
    ------
    InvalidParameter : ``sensitive`` is given, the releases have several sources or entities, or the
        ledger has no record of a release's persons.
    ReleaseNotFound : the ledger does not have a release.
    """
    if sensitive:
        raise InvalidParameter(
            "The ledger's record has persons and classes, but no sensitive values.",
            hint="Leave out `sensitive`, or name the column that identifies persons in each"
            " release: `entity`.",
        )
    records = person_record.find_recorded_persons(session)
    release_ids = [_find_release_id(session, name) for name in names]
    unrecorded_names = [
        name
        for name, release_id in zip(names, release_ids, strict=True)
        if release_id not in records
    ]
    if unrecorded_names:
        raise InvalidParameter(
            "Not measured: the ledger has no record of the persons of"
            f" {', '.join(unrecorded_names)}.",
            detail="A release has one if it names its entity and belongs to no chain, and if its"
            " source is in the database of the ledger. Earlier versions of dbanon kept no records.",
            hint="Name the column of the person that each of these releases has (`entity`).",
        )
    measured_records = [records[release_id] for release_id in release_ids]
    if len(measured_records) == 1:
        # ``records`` is in the order in which the releases were made.
        index = list(records).index(release_ids[0])
        releases_until_then = list(records.values())[: index + 1]
        measured_records = [
            record for record in releases_until_then if record.has_persons_of(measured_records[0])
        ]
    if not all(record.has_persons_of(measured_records[0]) for record in measured_records):
        raise InvalidParameter(
            "The releases have several sources, or several entities.",
            hint="Name only releases of one source with one entity.",
        )
    k = min(record.k for record in measured_records) if k is None else k
    counts = person_record.count_cumulative_joint_histories(
        session, [record.release_id for record in measured_records], k
    )
    return MeasuredReleases(
        tuple(record.output for record in measured_records),
        measured_records[0].entity,
        k,
        tuple(
            JointHistoryCounts(
                history.releases, history.persons, history.n_below_k, history.n_unique, read_off={}
            )
            for history in counts
        ),
    )


def _find_release_id(session: Session, release: str) -> str:
    """Find the id of a release by its id or the name of its output."""
    if _RELEASE_ID.fullmatch(release):
        return release.lower()
    return entries.find_release(session, parse_relation(release)).release_id


def _require_one_source(records: Sequence[recorded_report.RecordedRelease]) -> None:
    """Check that all releases have the same source."""
    sources = sorted({record.report.source for record in records})
    if len(sources) > 1:
        raise InvalidParameter(
            f"The releases have {len(sources)} different sources: {', '.join(sources)}.",
            hint="Name only releases of one source with one entity.",
        )


def _read_rows(session: Session, name: str, entity: str, sensitive: Sequence[str]) -> _ReleaseRows:
    """Read the persons, classes and sensitive values of a release.

    Raises
    ------
    ColumnNotFound : the release lacks one of the columns.
    InvalidParameter : ``entity`` is a quasi-identifier of the release.
    NullInEntity : a row has no person.
    """
    entry = entries.find_release(session, parse_relation(name))
    relation = session.catalog.find_source(entry.name)
    attributes = {attribute.name: attribute for attribute in relation.schema.attributes}
    for column in (entity, *sensitive):
        if column not in attributes:
            raise ColumnNotFound(
                f'Release {name} has no column "{column}".',
                hint=_MISSING_IDENTIFIER_HINT
                if column == entity
                else "Name columns that every release has: `sensitive`.",
            )
    if entity in entry.quasi_identifiers:
        raise InvalidParameter(
            f'Column "{entity}"'
            f" of release {name} is a quasi-identifier: its values are shared by classes, and do"
            " not identify persons.",
            hint=_MISSING_IDENTIFIER_HINT,
        )
    class_columns = ", ".join(
        session.dialect.grouping_sql(attributes[column]) for column in entry.quasi_identifiers
    )
    columns = [session.dialect.text_of(attributes[column]) for column in (entity, *sensitive)]
    rows = session.rows(
        f"SELECT dense_rank() OVER (ORDER BY {class_columns}), {', '.join(columns)}"
        f" FROM {entry.name.quoted} AS s"
    )
    n_unidentified = sum(1 for _, person, *_ in rows if person is None)
    if n_unidentified:
        raise NullInEntity(
            f'Column "{entity}" holds NULL in {n_unidentified} of {len(rows)} rows of release'
            f" {name}.",
            hint="Name a column without NULL: `entity`. Or release the source again without these"
            " rows.",
        )
    return _ReleaseRows(
        persons=[str(person) for _, person, *_ in rows],
        classes=[int(class_number) for class_number, *_ in rows],
        values={
            column: [row_values[index] for _, _, *row_values in rows]
            for index, column in enumerate(sensitive)
        },
    )


def _count_joint_histories(
    rows_by_release: Sequence[_ReleaseRows], k: int, sensitive: Sequence[str]
) -> tuple[JointHistoryCounts, ...]:
    """Count joint histories over the first release, over the first two, and so on.

    Parameters
    ----------
    rows_by_release : the rows of each release, in order.
    """
    index_of_person: dict[str, int] = {}
    for rows in rows_by_release:
        for person in rows.persons:
            index_of_person.setdefault(person, len(index_of_person))
    # For each person, a number that identifies the joint history over the releases so far.
    history_of_person = np.zeros(len(index_of_person), np.int64)
    was_in_release = np.zeros(len(index_of_person), np.bool_)
    # By sensitive column, the possible values of each joint history.
    possible_values: dict[str, list[_PossibleValues]] = {name: [None] for name in sensitive}
    results = []
    for n_releases, rows in enumerate(rows_by_release, 1):
        class_sets, classes_of_set = _number_class_sets(rows, index_of_person)
        was_in_release |= class_sets >= 0
        previous_history = history_of_person
        extended_histories = np.column_stack([previous_history, class_sets])
        # ``first_persons`` has the index of one person for each joint history.
        _, first_persons, history_of_person = np.unique(
            extended_histories, axis=0, return_index=True, return_inverse=True
        )
        history_of_person = history_of_person.reshape(-1)
        # Persons who are in none of the releases so far are not counted.
        sizes = np.bincount(history_of_person[was_in_release], minlength=len(first_persons))
        read_off = {}
        for name in sensitive:
            class_values = _values_by_class(rows.classes, rows.values[name])
            possible_values[name] = [
                _intersect_values(
                    possible_values[name][previous_history[person]],
                    # A person who is not in the release has the set number -1, which no set has.
                    [
                        class_values[class_number]
                        for class_number in classes_of_set.get(int(class_sets[person]), ())
                    ],
                )
                for person in first_persons.tolist()
            ]
            has_one_value = np.array(
                [values is not None and len(values) == 1 for values in possible_values[name]]
            )
            read_off[name] = int(sizes[has_one_value].sum())
        below, unique = int(sizes[sizes < k].sum()), int((sizes == 1).sum())
        n_persons = int(was_in_release.sum())
        results.append(JointHistoryCounts(n_releases, n_persons, below, unique, read_off))
    return tuple(results)


def _number_class_sets(
    rows: _ReleaseRows, index_of_person: Mapping[str, int]
) -> tuple[NDArray[np.int64], dict[int, tuple[int, ...]]]:
    """Number the sets of classes that persons are in.

    A person with several rows may be in several classes. Returns the number of each person's set,
    int64 (n,), which is -1 for persons without rows; and the classes of each set, by its number.

    Parameters
    ----------
    index_of_person : the index of each person among the n persons of all releases.
    """
    classes_by_person: dict[int, set[int]] = {}
    for person, class_number in zip(rows.persons, rows.classes, strict=True):
        classes_by_person.setdefault(index_of_person[person], set()).add(class_number)
    set_numbers: dict[tuple[int, ...], int] = {}
    class_sets = np.full(len(index_of_person), -1, np.int64)
    for person_index, classes in classes_by_person.items():
        class_sets[person_index] = set_numbers.setdefault(tuple(sorted(classes)), len(set_numbers))
    return class_sets, {number: classes for classes, number in set_numbers.items()}


def _values_by_class(
    classes: Sequence[int], values: Sequence[str | None]
) -> dict[int, set[str | None]]:
    """Collect the values that occur in each class, given the class and the value of each row."""
    values_of_class: dict[int, set[str | None]] = {}
    for class_number, value in zip(classes, values, strict=True):
        values_of_class.setdefault(class_number, set()).add(value)
    return values_of_class


def _intersect_values(
    earlier_values: _PossibleValues, class_values: Sequence[set[str | None]]
) -> _PossibleValues:
    """Return the values that remain possible for a person, given those in the person's classes."""
    # A release without the person rules out no values.
    if not class_values:
        return earlier_values
    values = frozenset[str | None]().union(*class_values)
    return values if earlier_values is None else earlier_values & values
