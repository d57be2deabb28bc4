"""What a caller may say about how classes are released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbanon.data.partition import Levels
from dbanon.hierarchy.tree import Hierarchy

RANGE = "range"
INTERVALS = ("text", "bounds", "midpoint", RANGE)


@dataclass(frozen=True)
class Settings:
    """Settings of recodings; each uses those that it knows.

    Parameters
    ----------
    hierarchies : by column.
    intervals : how a range of numbers is written: ``text``, as in ``[30, 40)``; ``bounds``, two
        columns; ``midpoint``, one number; or ``range``, a value of the database's own range type.
    local_range : True releases a class's own smallest and largest number, which are values of
        members; False the borders of a fixed grid around them.
    steps : width of the grid by column, in the column's unit (days, microseconds); about a
        twentieth of the column's range where not named.
    levels : of a full domain, which are then released: not what a class has in common, but the
        nodes and parts that its records are in. None otherwise.
    """

    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: str = "text"
    local_range: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    levels: Levels | None = None
