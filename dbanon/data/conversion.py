"""Dates and times in the unit of a column: NaT where the unit does not reach them.

Beyond the range of a unit numpy 2.4 wraps around silently, and numpy 2.5 raises OverflowError.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_numeric_text(arrow_type: Any) -> bool:
    """Whether a type of Arrow is PostgreSQL's ``numeric`` as ADBC hands it out: as texts."""
    storage = str(getattr(arrow_type, "storage_type", ""))
    name = getattr(arrow_type, "type_name", "")
    return name == "numeric" and storage in ("string", "large_string")


def to_unit(moments: NDArray[np.datetime64], unit: str) -> NDArray[np.datetime64]:
    """Convert datetime64 (n,) to another unit, rounded down; NaT beyond its range."""
    source, target = moments.dtype, np.dtype(f"datetime64[{unit}]")
    if np.datetime_data(source)[0] == "generic":
        # Without a unit there is nothing but NaT.
        return np.full(moments.shape, "NaT", target)
    if np.can_cast(source, target, "safe"):
        # The target is the finer unit, which reaches fewer years.
        reach = np.array(2**63 - 1).astype(target).astype(source).astype(np.int64)
        counts = moments.astype(np.int64)
        in_range = (-reach < counts) & (counts < reach)
        moments = np.where(in_range, moments, np.array("NaT", source))
    return moments.astype(target)


def to_moment(value: Any, unit: str) -> np.datetime64:
    """Convert a text, a date or a time to a unit; NaT where it is empty or beyond the unit's range.

    Raises
    ------
    TypeError, ValueError : it is none of these.
    """
    # Its types list every unit.
    datetime64: Any = np.datetime64
    nothing: np.datetime64 = datetime64("NaT", unit)
    try:
        # The unit comes first: numpy has no NaT without one. A number is a date with a unit only.
        if not np.isnat(datetime64(value, unit)):
            moment = datetime64(value)
            converted: np.datetime64 = moment.astype(f"datetime64[{unit}]")
            if moment.astype("datetime64[Y]") == converted.astype("datetime64[Y]"):
                return converted
    except OverflowError:
        # numpy 2.5; 2.4 converts it to another year.
        pass
    return nothing
