"""What is counted in a relation that was written: its classes, and the values in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dbanon.data.counts import Cells, Questions, Recount
from dbanon.data.microdata import Coded
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.sessions import recount_statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import in_order

if TYPE_CHECKING:
    from dbanon.measures.unpaired import ColumnMoments

_NUMBER = "CAST({} AS DOUBLE PRECISION)"


def side_of(session: Session, relation: RelationName, names: Sequence[str]) -> ColumnMoments:
    """Means and covariances of columns that hold numbers."""
    from dbanon.measures.unpaired import ColumnMoments

    p = len(names)
    numbers = [_NUMBER.format(quote(name)) for name in names]
    asked = ", ".join(f"avg({x}), min({x}), max({x})" for x in numbers)
    [row] = session.rows(f"SELECT {asked} FROM {relation.quoted}")
    found = np.array([np.nan if value is None else float(value) for value in row]).reshape(p, 3)
    means = found[:, 0]
    covariances = np.full((p, p), np.nan)
    # Around the means: the sums of squares of large numbers would not tell how they spread.
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
            count, one, other, product = row[4 * at : 4 * at + 4]
            if count and int(count) > 1:
                n = int(count)
                covariances[i, j] = covariances[j, i] = (
                    float(product) - float(one) * float(other) / n
                ) / (n - 1)
    with np.errstate(invalid="ignore"):
        return ColumnMoments(means, covariances, found[:, 1] < found[:, 2])


def rows_of(session: Session, relation: RelationName) -> int:
    """The number of rows."""
    return int(session.rows(f"SELECT count(*) FROM {relation.quoted}")[0][0])


def class_sizes(session: Session, relation: RelationName, names: Sequence[str]) -> dict[int, int]:
    """How many classes of rows there are of each size."""
    return dict(sorted(session.recount(relation, names).histogram.items()))


def entropy_of(session: Session, relation: RelationName, name: str) -> float:
    """The entropy of a column of text, in bits; NULLs are left out."""
    column = quote(name)
    found = session.rows(
        "SELECT n, count(*) FROM (SELECT count(*) AS n"
        f" FROM {relation.quoted} WHERE {column} IS NOT NULL GROUP BY {column}) AS held GROUP BY n"
    )
    sizes = np.array([float(n) for n, _ in found])
    often = np.array([float(count) for _, count in found])
    total = float((sizes * often).sum())
    shares = sizes / total if total else sizes
    return float(-(often * shares * np.log2(shares)).sum()) + 0.0


def count_classes(session: Session, counted: RelationName, questions: Questions) -> Recount:
    """The classes of a written relation, by GROUP BY.

    Raises
    ------
    RecountFailed : the sizes of the classes do not add up to the rows.
    """

    def recounted(columns: Sequence[str]) -> Recount:
        found = session.recount(counted, columns)
        _require_all(found.rows, rows, f"classes of {counted}")
        return found

    rows = rows_of(session, counted)
    return questions.recounted(recounted)


def count_sets(
    session: Session, counted: RelationName, questions: Questions
) -> tuple[Recount, ...]:
    """The combinations of other sets of columns of a written relation, by GROUP BY.

    Raises
    ------
    RecountFailed : their sizes do not add up to the rows.
    """
    found = tuple(session.recount(counted, columns) for columns in questions.also)
    rows = rows_of(session, counted) if found else 0
    for one in found:
        _require_all(one.rows, rows, f"combinations of columns of {counted}")
    return found


def _require_all(found: int, rows: int, what: str) -> None:
    """Check that sizes add up to the rows: a setting of a server can cut a GROUP BY, and be silent.

    Raises
    ------
    RecountFailed : they do not.
    """
    if found != rows:
        raise RecountFailed(
            f"The {what} hold {found} rows in all, and there are {rows}: the database left some out"
            " of its answer.",
            hint="Look for settings of the server or the account that limit results or groups.",
        )


def cells_of(
    session: Session, relation: Relation, counted: RelationName, questions: Questions
) -> Mapping[str, Cells]:
    """Classes and values of a written relation, by GROUP BY, of each sensitive column asked for.

    Parameters
    ----------
    relation : what the columns are.
    counted : where they are counted.
    """
    found: dict[str, Cells] = {}
    rows: int | None = None
    keys = session.display_keys(counted, questions.columns) if questions.sensitive else []
    for name in questions.sensitive:
        attribute = relation.attribute(name)
        text = session.text_of(attribute)
        cells = session.rows(recount_statements.recount_values(counted, keys, text))
        ranked = None if name in questions.leaves else attribute
        found[name] = cells_of_rows(session, counted, ranked, cells)
        rows = rows_of(session, counted) if rows is None else rows
        _require_all(int(found[name].sizes.sum()), rows, f'values of "{name}" in {counted}')
    return found


def cells_of_rows(
    session: Session,
    counted: RelationName,
    attribute: Attribute | None,
    rows: Sequence[Sequence[Any]],
) -> Cells:
    """Cells of rows of class, value, size and, where they were counted, persons.

    Parameters
    ----------
    attribute : the column of ``counted`` whose order the values have; None for that of their texts.
    """
    texts = sorted({row[1] for row in rows if row[1] is not None})
    place_of: dict[str | None, int] = {text: place for place, text in enumerate(texts)}
    place_of[None] = -1
    column = Coded(np.array([place_of[row[1]] for row in rows], np.int32), tuple(texts))
    if attribute is not None:
        column = in_order(session, counted, attribute, column)
    classes, sizes, *persons = (
        np.array([int(row[place]) for row in rows], np.int64)
        for place in range(len(rows[0]) if rows else 3)
        if place != 1
    )
    return Cells(classes - 1, column, sizes, persons[0] if persons else None)
