"""Dates and times in another unit, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.data.conversion import to_moment, to_unit

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "D": 86_400 * 10**9}
COUNTS = [0, 1, -1, 2**31, -(2**31), 106_751_990, 106_751_992, 2**62, -(2**62), 2**63 - 1]


@pytest.mark.parametrize("source", NANOSECONDS)
@pytest.mark.parametrize("target", NANOSECONDS)
def test_a_moment_is_rounded_down_or_beyond_the_unit(source: str, target: str) -> None:
    moments = np.array(COUNTS, np.int64).astype(f"datetime64[{source}]")
    converted = to_unit(moments, target)
    assert converted.dtype == np.dtype(f"datetime64[{target}]")
    exact = [count * NANOSECONDS[source] // NANOSECONDS[target] for count in COUNTS]
    # The last unit of the source is not whole in the target.
    reach = 2**63 - NANOSECONDS[source] // NANOSECONDS[target]
    expected = [count if abs(count) < max(reach, 2**62 + 1) else None for count in exact]
    rounded = [None if np.isnat(m) else int(m.astype(np.int64)) for m in converted]
    assert rounded == expected


def test_nothing_is_not_a_moment() -> None:
    assert np.isnat(to_unit(np.array(["NaT", "NaT"], "datetime64[s]"), "us")).all()
    assert np.isnat(to_unit(np.array([-(2**63)]).view("M8"), "us")).all()
    for empty in ("", "NaT", None, np.datetime64("NaT", "s")):
        moment = to_moment(empty, "us")
        assert np.isnat(moment)
        assert moment.dtype == np.dtype("datetime64[us]")


def test_one_moment() -> None:
    assert str(to_moment("2020-01-02T03:04:05.123456789", "us")) == "2020-01-02T03:04:05.123456"
    assert str(to_moment("1969-12-31T12:00", "D")) == "1969-12-31"
    assert str(to_moment("300000-01-01", "D")) == "300000-01-01"
    for far in ("300000-01-01", "-300000-01-01", np.datetime64("300000", "Y")):
        assert np.isnat(to_moment(far, "us"))
    for wrong in (5, 5.5, "x", "2020-02-30"):
        with pytest.raises((TypeError, ValueError)):
            to_moment(wrong, "us")
