"""Shares of records: a share given as sufficient is sufficient, and rounding loses no record."""

from __future__ import annotations

import pytest

from dbanon.data.partition import max_count_of_share, required_share_text


@pytest.mark.parametrize("n", [1, 3, 7, 100, 250, 1000])
def test_what_is_said_to_be_needed_is_enough(n: int) -> None:
    for count in range(n + 1):
        assert max_count_of_share(count / n, n) == count
        assert max_count_of_share(float(required_share_text(count, n)), n) >= count


def test_no_share_allows_more() -> None:
    assert [max_count_of_share(share, 100) for share in (0.0, 0.0099, 0.28, 0.29, 0.2999, 1.0)] == [
        0,
        0,
        28,
        29,
        29,
        100,
    ]
    assert max_count_of_share(1.0, 0) == max_count_of_share(0.5, 1) == 0
    assert required_share_text(1, 3) == "0.333334"
