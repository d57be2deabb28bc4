"""Expectations of a job file: how many rows, persons and NULLs its source should have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter

ROWS, PERSONS, SHARE_NULL = "rows", "persons", "share_null"
# What a job may expect: numbers of rows and persons, and the share of NULLs in columns.
EXPECTATIONS = (ROWS, PERSONS, SHARE_NULL)
# Tolerance for rounding errors in a count times a fraction.
_ROUNDING_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Bounds:
    """Limits of a count of rows or persons.

    Parameters
    ----------
    change : largest allowed relative change since the last release, 0.3 for 30 %; None for no
        limit.
    least, most : smallest and largest allowed count; None for no limit.
    """

    change: float | None = None
    least: int | None = None
    most: int | None = None

    def describe_violation(self, count: int, previous_count: int | None) -> str | None:
        """Describe how a count violates the limits; None if it does not.

        Parameters
        ----------
        count : the number of rows or persons now.
        previous_count : their number at the last release; None if unknown.
        """
        if self.change is not None and previous_count is not None:
            least = math.ceil(previous_count * (1 - self.change) - _ROUNDING_TOLERANCE)
            most = math.floor(previous_count * (1 + self.change) + _ROUNDING_TOLERANCE)
            if not least <= count <= most:
                return (
                    f"the last release had {previous_count}, and {max(least, 0)} to {most} are"
                    " expected"
                )
        if self.least is not None and count < self.least:
            return f"at least {self.least} are expected"
        if self.most is not None and count > self.most:
            return f"at most {self.most} are expected"
        return None


@dataclass(frozen=True)
class Expectations:
    """The expectations of a job about its source.

    Parameters
    ----------
    counts : limits of the number of ``rows`` and of ``persons``, by these words.
    share_null : by column, the largest allowed fraction of NULLs, 0 to 1.
    """

    counts: Mapping[str, Bounds] = field(default_factory=dict)
    share_null: Mapping[str, float] = field(default_factory=dict)


def require_expectation_names(accept_counts: object) -> None:
    """Check the option ``accept_counts``: the names of expectations that a run need not meet.

    Raises
    ------
    InvalidParameter : it is not a list of names in ``EXPECTATIONS``.
    """
    if (
        not isinstance(accept_counts, Sequence)
        or isinstance(accept_counts, str)
        or not all(name in EXPECTATIONS for name in accept_counts)
    ):
        names = ", ".join(EXPECTATIONS)
        # The hint means the error UnexpectedCounts of the run that was refused.
        raise InvalidParameter(
            f"accept_counts must be a list of {names}.",
            hint='Name what the error names, as in `accept_counts=["rows"]`.',
        )
