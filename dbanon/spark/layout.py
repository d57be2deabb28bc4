"""How rows stand while Spark moves them: columns by role, under names of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbanon.data.schema import Attribute

# Beside the columns of the table: the row's number, the block and the task that it is in, its class
# there, where the class stands, its size and sensitive values, and what a worker says, pickled.
KEY, BLOCK, TASK, LABEL = "_key", "_block", "_task", "_label"
PLACE, SIZE, VALUES, FACTS = "_place", "_size", "_values", "_facts"
# What rows and classes are packed in, on their way from stage to stage.
ROWS, CLASSES = "_rows", "_classes"


@dataclass(frozen=True)
class Layout:
    """The columns that are read, by role.

    Parameters
    ----------
    quasi_identifiers : with their kinds; they stand as q0, q1, …
    by : the columns of strata, told apart by their texts: b0, b1, …
    persons : whether a column says whose a row is, by its text: e0.
    sensitive : what privacy models ask for, as texts: s0, s1, …
    kept : what is released as it is, as it is: o0, o1, …
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[str, ...] = ()
    persons: bool = False
    sensitive: tuple[Attribute, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def looked_at(self) -> list[str]:
        """What classes depend on, as it stands."""
        return [
            KEY,
            *_numbered("q", len(self.quasi_identifiers)),
            *self.strata,
            *self.entity,
            *_numbered("s", len(self.sensitive)),
        ]

    @property
    def strata(self) -> list[str]:
        """The columns of strata, as they stand."""
        return _numbered("b", len(self.by))

    @property
    def entity(self) -> list[str]:
        """The column of persons, as it stands; none where records are one each."""
        return ["e0"] if self.persons else []

    @property
    def carried(self) -> list[str]:
        """What is released as it is, as it stands."""
        return _numbered("o", len(self.kept))

    def place(self, found: Callable[[Attribute], bool]) -> list[int]:
        """The positions of some of the quasi-identifiers."""
        return [i for i, attribute in enumerate(self.quasi_identifiers) if found(attribute)]


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]
