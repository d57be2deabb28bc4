"""Counts of a written relation: its classes, and the values in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dbanon.data.counts import ClassValueCounts, CountRequests, Recount
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute
from dbanon.data.types import SqlRow
from dbanon.errors import RecountFailed
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.job import DEFAULT_CHUNK_ROWS
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.sessions import recount_statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import recode_in_value_order

if TYPE_CHECKING:
    from dbanon.measures.unpaired import ColumnMoments

_AS_DOUBLE = "CAST({} AS DOUBLE PRECISION)"
# The index of the value in result rows of class number, value, row count and person count.
_VALUE_INDEX = 1


def compute_column_moments(
    session: Session, relation: RelationName, names: Sequence[str]
) -> ColumnMoments:
    """Compute the means and covariances of numeric columns, in the order of ``names``."""
    from dbanon.measures.unpaired import ColumnMoments

    n_columns = len(names)
    number_expressions = [_AS_DOUBLE.format(quote(name)) for name in names]
    aggregates = ", ".join(f"avg({x}), min({x}), max({x})" for x in number_expressions)
    [row] = session.rows(f"SELECT {aggregates} FROM {relation.quoted}")
    mean_min_max = np.array([np.nan if value is None else float(value) for value in row]).reshape(
        n_columns, 3
    )
    means = mean_min_max[:, 0]
    covariances = np.full((n_columns, n_columns), np.nan)
    # Subtract means first: in large numbers, the rounding of squares could exceed the variance.
    centered_columns = ", ".join(
        f"{x} - {_AS_DOUBLE.format('?')} AS c{i}" for i, x in enumerate(number_expressions)
    )
    for i in range(n_columns):
        # Add 0 * cj to ci to leave out rows in which cj is NULL.
        pair_aggregates = ", ".join(
            f"count(c{i} + c{j}), sum(c{i} + 0 * c{j}), sum(c{j} + 0 * c{i}), sum(c{i} * c{j})"
            for j in range(i, n_columns)
        )
        [row] = session.rows(
            f"SELECT {pair_aggregates}"
            f" FROM (SELECT {centered_columns} FROM {relation.quoted}) AS t",
            tuple(float(mean) for mean in np.nan_to_num(means)),
        )
        for pair_index, j in enumerate(range(i, n_columns)):
            count, sum_i, sum_j, sum_of_products = row[4 * pair_index : 4 * pair_index + 4]
            if count and int(count) > 1:
                n = int(count)
                covariances[i, j] = covariances[j, i] = (
                    float(sum_of_products) - float(sum_i) * float(sum_j) / n
                ) / (n - 1)
    with np.errstate(invalid="ignore"):
        is_varying = mean_min_max[:, 1] < mean_min_max[:, 2]
        return ColumnMoments(means, covariances, is_varying)


def count_rows(session: Session, relation: RelationName) -> int:
    """Count the rows."""
    return int(session.rows(f"SELECT count(*) FROM {relation.quoted}")[0][0])


def count_classes_by_size(
    session: Session, relation: RelationName, names: Sequence[str]
) -> dict[int, int]:
    """Count the classes of each size; returns the number of classes by class size in rows."""
    return dict(sorted(session.recount(relation, names).histogram.items()))


def compute_entropy(session: Session, relation: RelationName, name: str) -> float:
    """Compute the entropy of a text column's non-NULL values, in bits."""
    column = quote(name)
    value_counts = session.rows(
        "SELECT n, count(*) FROM (SELECT count(*) AS n"
        f" FROM {relation.quoted} WHERE {column} IS NOT NULL GROUP BY {column})"
        " AS frequencies GROUP BY n"
    )
    # n_values[i] values occur in frequencies[i] rows each.
    frequencies = np.array([float(n) for n, _ in value_counts])
    n_values = np.array([float(count) for _, count in value_counts])
    n_rows = float((frequencies * n_values).sum())
    shares = frequencies / n_rows if n_rows else frequencies
    # Adding 0.0 turns -0.0 into 0.0.
    return float(-(n_values * shares * np.log2(shares)).sum()) + 0.0


def count_classes(
    session: Session, written_relation: RelationName, requests: CountRequests
) -> Recount:
    """Count the classes of a written relation with GROUP BY.

    Raises
    ------
    RecountFailed : the class sizes do not add up to the rows.
    """

    n_rows = count_rows(session, written_relation)

    def recount_columns(columns: Sequence[str]) -> Recount:
        recount = session.recount(written_relation, columns)
        _require_all_rows(recount.rows, n_rows, f"classes of {written_relation}")
        return _count_agreement(session, written_relation, columns, requests, recount)

    # The requests say which columns form classes, and call the function for each set of them.
    return requests.recount_classes(recount_columns)


def count_sets(
    session: Session, written_relation: RelationName, requests: CountRequests
) -> tuple[Recount, ...]:
    """Count the combinations of values of each set of columns in ``requests.further_sets``.

    These are sets beside the columns that form classes; the policy asks for k in them, too.

    Raises
    ------
    RecountFailed : the counts do not add up to the rows.
    """
    recounts = tuple(
        session.recount(written_relation, columns) for columns in requests.further_sets
    )
    n_rows = count_rows(session, written_relation) if recounts else 0
    for recount in recounts:
        _require_all_rows(recount.rows, n_rows, f"combinations of columns of {written_relation}")
    return tuple(
        _count_agreement(session, written_relation, columns, requests, recount)
        for columns, recount in zip(requests.further_sets, recounts, strict=True)
    )


def _count_agreement(
    session: Session,
    written_relation: RelationName,
    columns: Sequence[str],
    requests: CountRequests,
    recount: Recount,
) -> Recount:
    """Add the smallest number of rows that agree with a row, if the requests ask for it.

    The database numbers the values, and counts the rows of each class.

    Raises
    ------
    RecountFailed : the counts do not add up to the rows.
    """
    if not requests.null_agrees:
        return recount
    # Imported here, as few releases need it.
    from dbanon.measures.agreement import (
        MISSING_CODE,
        count_fewest_matches,
        number_distinct_rows,
    )

    keys = session.catalog.columns_as_displayed(written_relation, columns)
    query = recount_statements.number_classes(written_relation, keys)
    chunks = [np.empty((0, len(columns) + 1)), *session.read_numbers(query, DEFAULT_CHUNK_ROWS)]
    numbers = np.concatenate(chunks)
    sizes = numbers[:, -1].astype(np.int64)
    _require_all_rows(int(sizes.sum()), recount.rows, f"numbered classes of {written_relation}")
    # NaN is NULL.
    codes = np.where(np.isnan(numbers), MISSING_CODE, numbers)[:, :-1].astype(np.int32)
    classes, _ = number_distinct_rows(codes)
    if len(classes) != recount.classes:
        raise RecountFailed(
            f"{len(classes)} classes of {written_relation} were numbered, and {recount.classes}"
            " counted.",
            hint=REPORT_IT,
        )
    return replace(recount, agreeing_rows=count_fewest_matches(codes, sizes))


def _require_all_rows(n_counted: int, n_rows: int, description: str) -> None:
    """Check that counts by group add up to the number of rows.

    A server setting can silently truncate the result of a GROUP BY.

    Parameters
    ----------
    n_counted : the sum of the counts.
    description : the groups, for the error message.

    Raises
    ------
    RecountFailed : the counts do not add up.
    """
    if n_counted != n_rows:
        raise RecountFailed(
            f"The {description} hold {n_counted} rows in all, but there are {n_rows}: the"
            " database's answer is incomplete.",
            hint="Remove settings of the server or the account that limit the rows of an answer,"
            " then run it again.",
        )


def count_class_values(
    session: Session, relation: Relation, written_relation: RelationName, requests: CountRequests
) -> Mapping[str, ClassValueCounts]:
    """Count the values in each class, for each sensitive column of ``requests``, with GROUP BY.

    Parameters
    ----------
    relation : the source, for the columns' types.
    written_relation : the table of the release.

    Raises
    ------
    RecountFailed : the counts do not add up to the rows.
    """
    counts_by_name: dict[str, ClassValueCounts] = {}
    n_rows: int | None = None
    # SQL that is equal for values that look the same to readers.
    class_keys = (
        session.catalog.columns_as_displayed(written_relation, requests.columns)
        if requests.sensitive
        else []
    )
    for name in requests.sensitive:
        attribute = relation.attribute(name)
        text = session.dialect.text_of(attribute)
        value_rows = session.rows(
            recount_statements.recount_values(written_relation, class_keys, text)
        )
        # Privacy models compare values of these columns by their hierarchy, so they need no order.
        ordering_attribute = None if name in requests.hierarchy_columns else attribute
        counts_by_name[name] = to_class_value_counts(
            session, written_relation, ordering_attribute, value_rows
        )
        n_rows = count_rows(session, written_relation) if n_rows is None else n_rows
        _require_all_rows(
            int(counts_by_name[name].sizes.sum()),
            n_rows,
            f'values of "{name}" in {written_relation}',
        )
    return counts_by_name


def to_class_value_counts(
    session: Session,
    written_relation: RelationName,
    attribute: Attribute | None,
    rows: Sequence[SqlRow],
) -> ClassValueCounts:
    """Convert result rows of class number, value, row count and, if counted, person count.

    Parameters
    ----------
    attribute : the column of ``written_relation`` by which to order the values; None for the order
        of their texts.
    """
    labels = [row[_VALUE_INDEX] for row in rows]
    texts = sorted({label for label in labels if label is not None})
    code_of: dict[str | None, int] = {text: index for index, text in enumerate(texts)}
    code_of[None] = -1
    column = CodedColumn(np.array([code_of[label] for label in labels], np.int32), tuple(texts))
    if attribute is not None:
        column = recode_in_value_order(session, written_relation, attribute, column)
    # Without rows, take the columns of a result without persons.
    classes, sizes, *persons = (
        np.array([int(row[index]) for row in rows], np.int64)
        for index in range(len(rows[0]) if rows else 3)
        if index != _VALUE_INDEX
    )
    # SQL numbers classes from 1.
    return ClassValueCounts(classes - 1, column, sizes, persons[0] if persons else None)


def count_values(session: Session, relation: RelationName, name: str) -> dict[str | None, int]:
    """Count the rows of a relation by their value in a column of labels or numbers."""
    column = quote(name)
    counts = session.rows(f"SELECT {column}, count(*) FROM {relation.quoted} GROUP BY {column}")
    return {value: int(count) for value, count in counts}


def count_homogeneous_classes(
    session: Session, relation: RelationName, columns: Sequence[str], name: str
) -> ClassHomogeneity:
    """Count the classes of a relation in which all rows share one value of a column.

    Parameters
    ----------
    columns : the columns whose combinations of values are classes.
    """
    class_expressions = session.catalog.columns_as_displayed(relation, columns)
    [value_expressions] = session.catalog.columns_as_displayed(relation, [name])
    query = recount_statements.count_homogeneous_classes(
        relation, class_expressions, value_expressions
    )
    [(n_classes, n_rows, n_single_valued, n_rows_in_single_valued)] = session.rows(query)
    return ClassHomogeneity(
        name, int(n_single_valued), int(n_rows_in_single_valued), int(n_classes), int(n_rows)
    )
