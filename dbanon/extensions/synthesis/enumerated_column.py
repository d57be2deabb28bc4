"""Columns with a public list of values, which are read as indexes into the list.

Synthetic releases have such columns, beside columns with public bounds. The list is loaded into a
staging table, in which the database looks up each value. A value that is not in the list is never
read, and cannot make the query fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.option import is_text
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DatabaseFailure, InvalidParameter
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session

# The index of a value that is not in the list.
UNLISTED = -1


@dataclass(frozen=True)
class ListedColumn:
    """A column with a list of values, in the source and in the release.

    Parameters
    ----------
    attribute : the column with its type in the release.
    source : the column as the source has it.
    labels : the allowed values, in order.
    """

    attribute: Attribute
    source: Attribute
    labels: tuple[str, ...]

    @property
    def bounds(self) -> list[str]:
        """The bounds as SQL text; always empty, because only columns without a list have bounds."""
        return []

    def to_released(self, values: AnyArray) -> ReleasedColumn:
        """Wrap the values, objects (n,), as a column to stage."""
        return ReleasedColumn(self.attribute, np.asarray(values, object))

    def values(self, indexes: NDArray[np.float64]) -> AnyArray:
        """Return the values at these indexes, objects (n,); None for ``UNLISTED`` and NaN."""
        labels_and_null = np.array([*self.labels, None], object)
        # UNLISTED, -1, picks the None at the end.
        texts: AnyArray = labels_and_null[np.nan_to_num(indexes, nan=UNLISTED).astype(np.int64)]
        return texts


def to_listed_column(session: Session, source: Attribute, labels: Sequence[str]) -> ListedColumn:
    """Choose the type of a column of listed values in the release.

    An enumerated type is kept if its labels are the listed values. Otherwise the column is text:
    the listed values may be longer than the source's declared length, or not fit its collation.

    Raises
    ------
    InvalidParameter : this database cannot hold a value of the list.
    """
    # ``order`` holds the labels of an enumerated type; it is empty for other types.
    keeps_enum_type = bool(source.order) and set(source.order) == set(labels)
    attribute = replace(
        source,
        # Not a domain over the type: its checks could reject a value of the list. For other
        # columns, ``type_of`` returns the name of this database's type.
        sql_type=(source.enum_type or source.sql_type)
        if keeps_enum_type
        else session.dialect.type_of(source),
        enum_type=source.enum_type if keeps_enum_type else "",
        order=(),
        nullable=False,
    )
    if not all(is_text(label) and "\0" not in label for label in labels) or not _round_trips(
        session, labels
    ):
        raise InvalidParameter(
            f'The list of "{source.name}" has a value that this database cannot hold.',
            hint="Leave out characters that the database cannot store, such as NUL.",
        )
    return ListedColumn(attribute, source, tuple(labels))


def _round_trips(session: Session, labels: Sequence[str]) -> bool:
    """Whether the database returns these texts unchanged."""
    # A query that returns the texts of its single parameter, a row each.
    query, parameter = session.dialect.texts_query(labels)
    try:
        return {text for (text,) in session.rows(query, (parameter,))} == set(labels)
    except DatabaseFailure:
        return False


def stage_lists(session: Session, columns: Sequence[ListedColumn]) -> None:
    """Stage the lists as columns of one table: row i holds the i-th value of each list.

    The staging table of classes is used for this: its class number is the index in the lists.
    Shorter lists are padded with empty texts.
    """
    n_rows = max(len(column.labels) for column in columns)
    session.load_classes(
        [
            ReleasedColumn(
                Attribute(column.attribute.name, Kind.CATEGORY),
                np.array([*column.labels, *[""] * (n_rows - len(column.labels))], object),
            )
            for column in columns
        ],
        n_rows,
    )


def drop_lists(session: Session) -> None:
    """Drop the staged lists: the staging table of classes must be free for released values."""
    session.run(f"DROP TABLE {quote(statements.CLASSES)}")


def index_expression(
    session: Session, list_index: int, listed_column: ListedColumn
) -> tuple[str, str]:
    """Build SQL for a value's index in its list, as a double, and the JOIN to that list.

    The index of NULL is NULL. In the query, the source has the alias s.

    Parameters
    ----------
    list_index : the position of the list among the columns that ``stage_lists`` staged.
    """
    # ``value`` is the column of the staging table that holds this list.
    alias, value = f"d{list_index}", statements.value_column(list_index)
    index = f"CAST(coalesce({alias}.class, {UNLISTED}) AS DOUBLE PRECISION)"
    column = f"s.{quote(listed_column.source.name)}"
    join = (
        f" LEFT JOIN {quote(statements.CLASSES)} AS {alias}"
        f" ON {session.dialect.text_of(listed_column.source)} = {alias}.{value}"
        # The rows after the list are padding; empty texts in them must not match.
        f" AND {alias}.class < {len(listed_column.labels)}"
    )
    return f"CASE WHEN {column} IS NOT NULL THEN {index} END", join
