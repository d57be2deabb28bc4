"""What is counted in a relation that was written: its classes, and the values in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbanon.data.counts import Cells, Questions, Recount
from dbanon.data.microdata import Coded
from dbanon.data.schema import Attribute
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import in_order


def count_classes(session: Session, counted: RelationName, questions: Questions) -> Recount:
    """The classes of a written relation, by GROUP BY."""
    return questions.recounted(lambda columns: session.recount(counted, columns))


def cells_of(
    session: Session, relation: Relation, counted: RelationName, questions: Questions
) -> Mapping[str, Cells]:
    """Classes and values of a written relation, by GROUP BY, of each sensitive column asked for.

    Parameters
    ----------
    relation : what the columns are.
    counted : where they are counted.
    """
    found = {}
    for name in questions.sensitive:
        attribute = relation.attribute(name)
        text = session.text_of(attribute)
        cells = session.rows(statements.recount_values(counted, questions.columns, text))
        ranked = None if name in questions.leaves else attribute
        found[name] = cells_of_rows(session, counted, ranked, cells)
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
