"""Inspect a release: read its record in the ledger, and count its released values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dbanon.data.schema import Attribute, Role
from dbanon.ledger import entries, recorded_report
from dbanon.ledger.recorded_report import RecordedRelease, require_classes
from dbanon.ledger.tables import LedgerEntry
from dbanon.release.distribution import Distribution, build_distribution
from dbanon.release.private_report import PrivateReport
from dbanon.run.verify import build_reader_queries
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.statements import (
    rare_values,
    shared_values,
    value_counts,
)
from dbanon.sessions.store import Store

_K_COUNTS_THESE = "k counts these."
# A column with more distinct released values than this is shown without a distribution.
_MAX_VALUES = 2_000_000


@dataclass(frozen=True)
class ReleaseInspection:
    """The current content of a release.

    Parameters
    ----------
    record : the release as the ledger has it.
    recount_queries : the counts that any reader of the release can make: pairs of a description and
        a SQL query.
    distributions : the distributions of the values of each released quasi-identifier and sensitive
        column.
    """

    record: RecordedRelease
    recount_queries: tuple[tuple[str, str], ...]
    distributions: tuple[Distribution, ...]


def inspect_release(store: Store, relation: RelationName) -> ReleaseInspection:
    """Read a release's record and count its released values, without reading originals.

    Raises
    ------
    ReleaseNotFound, TableNotFound : the ledger has no such release, or its table is gone.
    LedgerNotTrusted : the ledger cannot be relied on.
    InsufficientRights : the relation may not be read.
    """
    with store.session(write=False) as session:
        entry = entries.find_release(session, relation)
        # Raises InvalidParameter for synthetic rows.
        require_classes(entry)
        record = recorded_report.read(session, entry)
        return ReleaseInspection(
            record,
            tuple(_list_reader_queries(session, entry)),
            _count_distributions(session, entry, record),
        )


def read_private_report(store: Store, relation: RelationName) -> PrivateReport | None:
    """Read the report of a differentially private release; None if the release has classes.

    Reading a report from the ledger draws no noise and charges no budget.

    Raises
    ------
    ReleaseNotFound, TableNotFound : the ledger has no such release, or its table is gone.
    LedgerNotTrusted : the ledger cannot be relied on.
    """
    with store.session(write=False) as session:
        entry = entries.find_release(session, relation)
        return None if entry.epsilon is None else recorded_report.read_private(session, entry)


def _list_reader_queries(session: Session, entry: LedgerEntry) -> Iterator[tuple[str, str]]:
    """Yield what any reader can count: a description, and the query.

    Nothing can be counted if the relation no longer has a column.
    """
    guarantee = entry.guarantee
    requests = guarantee.count_requests(entry.quasi_identifiers)
    schema = session.catalog.find_source(entry.name).schema
    if not set(requests.columns) <= {attribute.name for attribute in schema.attributes}:
        return
    queries = build_reader_queries(session, entry.name, requests)
    within_strata = f", within each stratum of {', '.join(guarantee.by)}" if guarantee.by else ""
    if requests.null_agrees:
        yield f"Rows that agree, NULL with every value: {_K_COUNTS_THESE}", queries[0]
        return
    # Only releases per attribute have ``attribute_columns``: for each quasi-identifier, its columns
    # and those of the strata.
    for columns, query in zip(requests.attribute_columns, queries, strict=False):
        yield f"{columns[0]} by itself{within_strata}: {_K_COUNTS_THESE}", query
    if requests.attribute_columns:
        row_requests = replace(requests, attribute_columns=())
        [whole_rows_query] = build_reader_queries(session, entry.name, row_requests)
        yield "Whole rows: nothing is guaranteed for them.", whole_rows_query
        return
    count_text = _K_COUNTS_THESE
    # There is at most one entity column.
    for name in requests.entity_columns:
        count_text = (
            f'k counts persons, by "{name}". A class may have fewer persons than rows. The release'
            " does not show which person a row belongs to, so only the run could count them."
        )
    yield f"Rows that share all quasi-identifiers{within_strata}: {count_text}", queries[0]


def _count_distributions(
    session: Session, entry: LedgerEntry, record: RecordedRelease
) -> tuple[Distribution, ...]:
    """Count the distributions of the quasi-identifiers and sensitive columns.

    Columns that the relation no longer has are left out.
    """
    # Check the relation like a source: its owner may have replaced it by a view.
    released_relation = session.catalog.find_source(entry.name)
    attributes = {attribute.name: attribute for attribute in released_relation.schema.attributes}
    shown_roles = (Role.QUASI_IDENTIFIER.value, Role.SENSITIVE.value)
    return tuple(
        _count_distribution(session, entry, attributes[column.name], column.role)
        for column in record.columns
        if column.role in shown_roles and column.name in attributes
    )


def _count_distribution(
    session: Session, entry: LedgerEntry, attribute: Attribute, role: str
) -> Distribution:
    """Build the distribution of a column, from the number of rows with each released value."""
    # SQL for the column's values as text.
    text_sql = session.dialect.text_of(attribute)

    # ``build_distribution`` calls ``count_values`` to draw bins of numbers or dates, and
    # ``count_labels`` to draw labels.
    def count_values() -> list[tuple[str, int]] | None:
        """Return all values and their row counts; None if there are too many values."""
        value_rows = session.rows(value_counts(entry.name, text_sql))
        if len(value_rows) > _MAX_VALUES:
            return None
        return [(str(value), int(n_rows)) for value, n_rows in value_rows if value is not None]

    def count_labels(min_rows: int) -> tuple[list[tuple[str, int]], int, int]:
        """Return the labels with at least ``min_rows`` rows and their row counts.

        Then follow the number of other labels, and the number of their rows.
        """
        shared_rows = session.rows(shared_values(entry.name, text_sql, min_rows))
        [(n_rare_values, n_rare_rows)] = session.rows(rare_values(entry.name, text_sql, min_rows))
        label_rows = [
            ("NULL" if value is None else str(value), int(n_rows)) for value, n_rows in shared_rows
        ]
        return label_rows, int(n_rare_values), int(n_rare_rows)

    return build_distribution(
        attribute.name,
        role,
        entry.k_requested,
        attribute.kind,
        counts_persons=bool(entry.guarantee.entity_columns),
        count_values=count_values,
        count_labels=count_labels,
    )
