"""What a job of a file expects of its source: how many rows, persons and NULLs it has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter

ROWS, PERSONS, SHARE_NULL = "rows", "persons", "share_null"
EXPECTATIONS = (ROWS, PERSONS, SHARE_NULL)
# Of a product of a count and a share, which floating point may put beside a whole number.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Bounds:
    """The least and the most that a count may be.

    Parameters
    ----------
    change : the share, 0.3 for 30 %, by which it may differ from the count of the last release;
        None where that is not looked at.
    least, most : None for no limit.
    """

    change: float | None = None
    least: int | None = None
    most: int | None = None

    def describe(self, count: int, before: int | None) -> str | None:
        """What is wrong with a count, as the end of a sentence; None if it is as expected.

        Parameters
        ----------
        before : the count of the last release; None where it is not known.
        """
        if self.change is not None and before is not None:
            least = math.ceil(before * (1 - self.change) - _ROUNDING)
            most = math.floor(before * (1 + self.change) + _ROUNDING)
            if not least <= count <= most:
                return f"the last release had {before}, and {max(least, 0)} to {most} are expected"
        if self.least is not None and count < self.least:
            return f"at least {self.least} are expected"
        if self.most is not None and count > self.most:
            return f"at most {self.most} are expected"
        return None


@dataclass(frozen=True)
class Expectations:
    """What a job expects of its source.

    Parameters
    ----------
    counts : how many there may be, by ``rows`` and ``persons``.
    share_null : by column, the largest share of rows that may be NULL, 0 to 1.
    """

    counts: Mapping[str, Bounds] = field(default_factory=dict)
    share_null: Mapping[str, float] = field(default_factory=dict)


def require_accepted(accept_counts: object) -> None:
    """Check the names of expectations that a run need not meet; raises InvalidParameter."""
    if (
        not isinstance(accept_counts, Sequence)
        or isinstance(accept_counts, str)
        or not all(name in EXPECTATIONS for name in accept_counts)
    ):
        names = ", ".join(EXPECTATIONS)
        raise InvalidParameter(
            f"accept_counts must be a list of {names}.",
            hint='Name what the error names, as in `accept_counts=["rows"]`.',
        )
