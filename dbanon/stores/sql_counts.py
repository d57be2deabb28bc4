"""Counts of a written relation: its classes, and the values in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dbanon.data.counts import ClassValueCounts, CountRequests, Recount
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.sessions import recount_statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import ordered_by_value

if TYPE_CHECKING:
    from dbanon.measures.unpaired import ColumnMoments

_NUMBER = "CAST({} AS DOUBLE PRECISION)"


def column_moments(session: Session, relation: RelationName, names: Sequence[str]) -> ColumnMoments:
    """Compute means and covariances of number columns."""
    from dbanon.measures.unpaired import ColumnMoments

    p = len(names)
    numbers = [_NUMBER.format(quote(name)) for name in names]
    aggregates = ", ".join(f"avg({x}), min({x}), max({x})" for x in numbers)
    [row] = session.rows(f"SELECT {aggregates} FROM {relation.quoted}")
    moments = np.array([np.nan if value is None else float(value) for value in row]).reshape(p, 3)
    means = moments[:, 0]
    covariances = np.full((p, p), np.nan)
    # Center first: sums of squares of large numbers would lose the variance to rounding.
    centred = ", ".join(f"{x} - {_NUMBER.format('?')} AS c{i}" for i, x in enumerate(numbers))
    for i in range(p):
        pairs = ", ".join(
            f"count(c{i} + c{j}), sum(c{i} + 0 * c{j}), sum(c{j} + 0 * c{i}), sum(c{i} * c{j})"
            for j in range(i, p)
        )
        [row] = session.rows(
            f"SELECT {pairs} FROM (SELECT {centred} FROM {relation.quoted}) AS t",
            tuple(float(mean) for mean in np.nan_to_num(means)),
        )
        for at, j in enumerate(range(i, p)):
            count, sum_i, sum_j, product = row[4 * at : 4 * at + 4]
            if count and int(count) > 1:
                n = int(count)
                covariances[i, j] = covariances[j, i] = (
                    float(product) - float(sum_i) * float(sum_j) / n
                ) / (n - 1)
    with np.errstate(invalid="ignore"):
        return ColumnMoments(means, covariances, moments[:, 1] < moments[:, 2])


def rows_of(session: Session, relation: RelationName) -> int:
    """The number of rows."""
    return int(session.rows(f"SELECT count(*) FROM {relation.quoted}")[0][0])


def class_sizes(session: Session, relation: RelationName, names: Sequence[str]) -> dict[int, int]:
    """The number of classes of each size, by size."""
    return dict(sorted(session.recount(relation, names).histogram.items()))


def entropy_of(session: Session, relation: RelationName, name: str) -> float:
    """The entropy of a text column in bits, without NULLs."""
    column = quote(name)
    frequencies = session.rows(
        "SELECT n, count(*) FROM (SELECT count(*) AS n"
        f" FROM {relation.quoted} WHERE {column} IS NOT NULL GROUP BY {column}) AS held GROUP BY n"
    )
    sizes = np.array([float(n) for n, _ in frequencies])
    often = np.array([float(count) for _, count in frequencies])
    total = float((sizes * often).sum())
    shares = sizes / total if total else sizes
    return float(-(often * shares * np.log2(shares)).sum()) + 0.0


def count_classes(session: Session, counted: RelationName, questions: CountRequests) -> Recount:
    """Count the classes of a written relation with GROUP BY.

    Raises
    ------
    RecountFailed : the class sizes do not add up to the rows.
    """

    def recounted(columns: Sequence[str]) -> Recount:
        recount = session.recount(counted, columns)
        _require_all(recount.rows, rows, f"classes of {counted}")
        return recount

    rows = rows_of(session, counted)
    return questions.recount_classes(recounted)


def count_sets(
    session: Session, counted: RelationName, questions: CountRequests
) -> tuple[Recount, ...]:
    """Count value combinations of further column sets of a written relation with GROUP BY.

    Raises
    ------
    RecountFailed : the counts do not add up to the rows.
    """
    recounts = tuple(session.recount(counted, columns) for columns in questions.further_sets)
    rows = rows_of(session, counted) if recounts else 0
    for recount in recounts:
        _require_all(recount.rows, rows, f"combinations of columns of {counted}")
    return recounts


def _require_all(counted: int, rows: int, description: str) -> None:
    """Check that counts add up to the rows: a server setting can truncate a GROUP BY silently.

    Raises
    ------
    RecountFailed : they do not.
    """
    if counted != rows:
        raise RecountFailed(
            f"The {description} hold {counted} rows in all, and there are {rows}: the database's"
            " answer is incomplete.",
            hint="Remove settings of the server or the account that limit the rows of an answer,"
            " then"
            " run it again.",
        )


def cells_of(
    session: Session, relation: Relation, counted: RelationName, questions: CountRequests
) -> Mapping[str, ClassValueCounts]:
    """Count the values in each class, for each sensitive column in question, with GROUP BY.

    Parameters
    ----------
    relation : the source, for the columns' types.
    counted : the written relation.
    """
    cells_by_name: dict[str, ClassValueCounts] = {}
    rows: int | None = None
    keys = session.display_keys(counted, questions.columns) if questions.sensitive else []
    for name in questions.sensitive:
        attribute = relation.attribute(name)
        text = session.text_of(attribute)
        cells = session.rows(recount_statements.recount_values(counted, keys, text))
        ranked = None if name in questions.leaf_columns else attribute
        cells_by_name[name] = cells_of_rows(session, counted, ranked, cells)
        rows = rows_of(session, counted) if rows is None else rows
        _require_all(int(cells_by_name[name].sizes.sum()), rows, f'values of "{name}" in {counted}')
    return cells_by_name


def cells_of_rows(
    session: Session,
    counted: RelationName,
    attribute: Attribute | None,
    rows: Sequence[Sequence[Any]],
) -> ClassValueCounts:
    """Build cells from rows of class, value, size and, if counted, persons.

    Parameters
    ----------
    attribute : the column of ``counted`` that orders the values; None to order them as text.
    """
    texts = sorted({row[1] for row in rows if row[1] is not None})
    code_of: dict[str | None, int] = {text: index for index, text in enumerate(texts)}
    code_of[None] = -1
    column = CodedColumn(np.array([code_of[row[1]] for row in rows], np.int32), tuple(texts))
    if attribute is not None:
        column = ordered_by_value(session, counted, attribute, column)
    classes, sizes, *persons = (
        np.array([int(row[index]) for row in rows], np.int64)
        for index in range(len(rows[0]) if rows else 3)
        if index != 1
    )
    return ClassValueCounts(classes - 1, column, sizes, persons[0] if persons else None)
