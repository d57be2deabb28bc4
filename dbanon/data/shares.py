"""Shares of records: how many a share allows, and the share that so many need."""

from __future__ import annotations


def most_of(share: float, n: int) -> int:
    """The most of n records that are no larger share, as 29 of 100 for 0.29.

    Not what the product is rounded to: 0.29 * 100 is below 29.
    """
    most = min(int(share * n) + 1, n)
    while most > 0 and most / n > share:
        most -= 1
    return most


def share_needed(count: int, n: int) -> str:
    """The share of n records, more than none, that so many need: rounded up, as text."""
    return f"{-(-count * 10**6 // n) / 10**6:.6f}"
