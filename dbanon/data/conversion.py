"""Convert dates and times to a numpy unit, such as microseconds.

Values that the unit cannot represent become NaT. For such values, numpy 2.4 silently returns wrong
dates, and numpy 2.5 raises OverflowError.

``is_numeric_text`` recognizes columns of decimal numbers that a database driver returns as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Kind

# The units in which columns of these kinds are numbers since 1970-01-01.
TIME_UNITS = {Kind.DATE: "D", Kind.TIMESTAMP: "us"}


def is_numeric_text(arrow_type: object) -> bool:
    """Whether an Arrow type is that of PostgreSQL's ``numeric``, as ADBC returns it.

    It is an extension type over strings, and its name is ``numeric``.
    """
    storage = str(getattr(arrow_type, "storage_type", ""))
    name = getattr(arrow_type, "type_name", "")
    return name == "numeric" and storage in ("string", "large_string")


def texts_to_numbers(texts: Sequence[str | None], unit: str) -> NDArray[np.float64]:
    """Convert texts of dates or times to numbers since 1970-01-01, float64 (n,); 0 for None.

    Parameters
    ----------
    unit : a numpy unit, such as "D" or "us".

    Raises
    ------
    ValueError, OverflowError : a text is no date or time of the unit.
    """
    moments = np.array(
        ["1970-01-01" if text is None else text for text in texts], f"datetime64[{unit}]"
    )
    return moments.astype(np.int64).astype(np.float64)


def to_unit(moments: NDArray[np.datetime64], unit: str) -> NDArray[np.datetime64]:
    """Convert datetime64 (n,) to another unit.

    Times are rounded down to the unit, and become NaT if the unit cannot represent them.

    Parameters
    ----------
    unit : a numpy unit, such as "D" or "us".
    """
    source_type, target_type = moments.dtype, np.dtype(f"datetime64[{unit}]")
    if np.datetime_data(source_type)[0] == "generic":
        # Only NaT has no unit.
        return np.full(moments.shape, "NaT", target_type)
    if np.can_cast(source_type, target_type, "safe"):
        # The target unit is finer, so its range is smaller. ``largest`` is the end of that range,
        # in units of the source type.
        largest = np.array(2**63 - 1).astype(target_type).astype(source_type).astype(np.int64)
        counts = moments.astype(np.int64)
        in_range = (-largest < counts) & (counts < largest)
        moments = np.where(in_range, moments, np.array("NaT", source_type))
    return moments.astype(target_type)


def to_moment(value: object, unit: str) -> np.datetime64:
    """Convert a text, a date or a time to datetime64 of a unit; NaT if it is empty or out of range.

    Raises
    ------
    TypeError, ValueError : the value is not a text, a date or a time.
    """
    # The type stubs list every unit, so a variable unit needs Any.
    datetime64: Any = np.datetime64
    not_a_time: np.datetime64 = datetime64("NaT", unit)
    try:
        # Pass the unit to test for NaT: without a unit, numpy refuses all numbers, even the number
        # that stands for NaT.
        if not np.isnat(datetime64(value, unit)):
            moment = datetime64(value)
            converted: np.datetime64 = moment.astype(f"datetime64[{unit}]")
            # If the value is out of range, numpy 2.4 returns another year, and numpy 2.5 raises.
            if moment.astype("datetime64[Y]") == converted.astype("datetime64[Y]"):
                return converted
    except OverflowError:
        pass
    return not_a_time
