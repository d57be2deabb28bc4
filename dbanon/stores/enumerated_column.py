"""Columns of a public list of values in a database: read as places in the list, and released.

The list is staged, and the database looks each value up in it: no value travels that is not in the
list, and none makes the reading fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import is_text
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DatabaseFailure, InvalidParameter
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session

# What the place of a value is that is in no list.
UNLISTED = -1


@dataclass(frozen=True)
class ListedColumn:
    """A column as it is read and as it is released, of listed values.

    Parameters
    ----------
    attribute : with the type that it has in the release.
    source : as the source has it.
    labels : all that released values may be, in order.
    """

    attribute: Attribute
    source: Attribute
    labels: tuple[str, ...]

    @property
    def ends(self) -> list[str]:
        """Nothing: a list has no bounds."""
        return []

    def released(self, values: NDArray[Any]) -> ReleasedColumn:
        """Values as staging holds them."""
        return ReleasedColumn(self.attribute, np.asarray(values, object))

    def values(self, indexes: NDArray[np.float64]) -> NDArray[Any]:
        """The values at places as they were read, objects (n,): None for what is in no list."""
        listed = np.array([*self.labels, None], object)
        # -1 is the last one.
        texts: NDArray[Any] = listed[np.nan_to_num(indexes, nan=UNLISTED).astype(np.int64)]
        return texts


def listed_column(session: Session, source: Attribute, labels: Sequence[str]) -> ListedColumn:
    """A column of listed values, in the type that this database has for it.

    An enumerated type stays where its own labels are the list; else it is text, as lengths and
    collations are not those of other values.

    Raises
    ------
    InvalidParameter : this database cannot hold a value of the list.
    """
    of_type = bool(source.order) and set(source.order) == set(labels)
    attribute = replace(
        source,
        # Never a domain over it, whose checks may refuse a value of the list.
        sql_type=(source.enum_type or source.sql_type) if of_type else session.type_of(source),
        enum_type=source.enum_type if of_type else "",
        order=(),
        nullable=False,
    )
    if not all(is_text(label) and "\0" not in label for label in labels) or not _round_trips(
        session, labels
    ):
        raise InvalidParameter(
            f'The list of "{source.name}" has a value that this database cannot hold.',
            hint="Spell it as its encoding can.",
        )
    return ListedColumn(attribute, source, tuple(labels))


def _round_trips(session: Session, labels: Sequence[str]) -> bool:
    """Whether the database gives these texts back as they are."""
    query, parameter = session.texts(labels)
    try:
        return {text for (text,) in session.rows(query, (parameter,))} == set(labels)
    except DatabaseFailure:
        return False


def stage_lists(session: Session, columns: Sequence[ListedColumn]) -> None:
    """Stage the lists beside each other, each value at its place."""
    most = max(len(column.labels) for column in columns)
    session.load_classes(
        [
            ReleasedColumn(
                Attribute(column.attribute.name, Kind.CATEGORY),
                np.array([*column.labels, *[""] * (most - len(column.labels))], object),
            )
            for column in columns
        ],
        most,
    )


def drop_lists(session: Session) -> None:
    """Make room for what is released."""
    session.run(f"DROP TABLE {quote(statements.CLASSES)}")


def index_expression(session: Session, list_index: int, listed: ListedColumn) -> tuple[str, str]:
    """SQL of a value's place in its list as a double, NULL where it is; and the JOIN of that list.

    Parameters
    ----------
    list_index : of the list among those that are staged.
    """
    alias, value = f"d{list_index}", statements.value_column(list_index)
    index = f"CAST(coalesce({alias}.class, {UNLISTED}) AS DOUBLE PRECISION)"
    column = f"s.{quote(listed.source.name)}"
    join = (
        f" LEFT JOIN {quote(statements.CLASSES)} AS {alias}"
        f" ON {session.text_of(listed.source)} = {alias}.{value}"
        # Below it stands what only fills up the longest list.
        f" AND {alias}.class < {len(listed.labels)}"
    )
    return f"CASE WHEN {column} IS NOT NULL THEN {index} END", join
