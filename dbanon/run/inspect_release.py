"""Looking at a release: what the ledger has of it, and how its released values are distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dbanon.data.schema import Attribute, Role
from dbanon.ledger import entries, recorded_report
from dbanon.ledger.recorded_report import RecordedRelease, require_classes
from dbanon.ledger.tables import LedgerEntry
from dbanon.release.distribution import Distribution, build_distribution
from dbanon.release.private_report import PrivateReport
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.statements import (
    rare_values,
    recount_for_people,
    shared_values,
    value_counts,
)
from dbanon.sessions.store import Store

# A released value has k rows at least, so that there are not too many; more are not looked at.
_MOST_VALUES = 2_000_000


@dataclass(frozen=True)
class ReleaseInspection:
    """A release as it stands in its database.

    Parameters
    ----------
    recorded : what the ledger has of it.
    counting : what anyone can count again: in words, and the query.
    distributions : of the released quasi-identifiers and sensitive columns, in their order.
    """

    recorded: RecordedRelease
    counting: tuple[tuple[str, str], ...]
    distributions: tuple[Distribution, ...]


def look(store: Store, relation: RelationName) -> ReleaseInspection:
    """Look at the release of this name. No original is read.

    Raises
    ------
    ReleaseNotFound, TableNotFound, LedgerNotTrusted : as ``entries.find_release``.
    InsufficientRights : it may not be read.
    """
    with store.session(write=False) as session:
        entry = entries.find_release(session, relation)
        require_classes(entry)
        record = recorded_report.read(session, entry)
        return ReleaseInspection(
            record,
            tuple(
                (words, recount_for_people(entry.name, columns))
                for words, columns in _counted_again(entry)
            ),
            _distributions(session, entry, record),
        )


def private_report(store: Store, relation: RelationName) -> PrivateReport | None:
    """The report of a release if it is differentially private; None if it has classes.

    It is read from the ledger: no noise is drawn, and no budget is charged.

    Raises
    ------
    ReleaseNotFound, TableNotFound, LedgerNotTrusted : as ``entries.find_release``.
    """
    with store.session(write=False) as session:
        entry = entries.find_release(session, relation)
        return None if entry.epsilon is None else recorded_report.read_private(session, entry)


def _counted_again(entry: LedgerEntry) -> Iterator[tuple[str, Sequence[str]]]:
    """What whoever has the release can count: in words, and by which columns."""
    guarantee = entry.guarantee
    questions = guarantee.questions(entry.quasi_identifiers)
    within_strata = f", within each stratum of {', '.join(guarantee.by)}" if guarantee.by else ""
    for columns in questions.attribute_columns:
        yield f"{columns[0]} by itself{within_strata}: k counts these.", columns
    if questions.attribute_columns:
        yield "Whole rows: nothing is guaranteed of them.", questions.columns
        return
    counts = "k counts these."
    for name in questions.persons:
        counts = (
            f'k counts persons, by "{name}", who are at most as many in a class. The release does'
            " not show which person a row belongs to, so only the run could count them."
        )
    yield f"Rows that share all quasi-identifiers{within_strata}: {counts}", questions.columns


def _distributions(
    session: Session, entry: LedgerEntry, record: RecordedRelease
) -> tuple[Distribution, ...]:
    """Of each quasi-identifier and sensitive column that is in the relation still."""
    source = session.find_source(entry.name)
    attributes = {attribute.name: attribute for attribute in source.schema.attributes}
    shown_roles = (Role.QUASI_IDENTIFIER.value, Role.SENSITIVE.value)
    return tuple(
        _distribution(session, entry, attributes[column.name], column.role)
        for column in record.columns
        if column.role in shown_roles and column.name in attributes
    )


def _distribution(
    session: Session, entry: LedgerEntry, attribute: Attribute, role: str
) -> Distribution:
    text = session.text_of(attribute)

    def values() -> list[tuple[str, int]] | None:
        counted = session.rows(value_counts(entry.name, text))
        if len(counted) > _MOST_VALUES:
            return None
        return [(str(value), int(size)) for value, size in counted if value is not None]

    def labels(bound: int) -> tuple[list[tuple[str, int]], int, int]:
        shared = session.rows(shared_values(entry.name, text, bound))
        others, rows = session.rows(rare_values(entry.name, text, bound))[0]
        named = [("NULL" if value is None else str(value), int(size)) for value, size in shared]
        return named, int(others), int(rows)

    return build_distribution(
        attribute.name,
        role,
        entry.k_requested,
        attribute.kind,
        persons=bool(entry.guarantee.persons),
        values=values,
        labels=labels,
    )
