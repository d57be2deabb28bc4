"""Rates of several guesses a record: what they are worth, and how often their intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.extensions.attacks.rates import AttackResult, Rate


def guesses(
    rng: np.random.Generator, records: int, questions: int, n_repeats: float
) -> tuple[np.ndarray, np.ndarray]:
    """Records, and whether guesses are right: as most of a person's are, or by themselves."""
    person = rng.random(records) < 0.4
    record_rates = rng.random((questions, records)) < 0.4
    right = np.where(rng.random((questions, records)) < n_repeats, person, record_rates)
    return np.tile(np.arange(records), questions), right.reshape(-1)


@pytest.mark.parametrize("n_repeats", [0.0, 0.5, 0.9, 1.0])
def test_worth_as_many_as_a_bootstrap_of_records_says(n_repeats: float) -> None:
    rng = np.random.default_rng(3)
    records, right = guesses(rng, 300, 8, n_repeats)
    rate = Rate.of_records(records, right)
    shares = right.reshape(8, 300).mean(axis=0)
    sample = [shares[rng.integers(300, size=300)].mean() for _ in range(4000)]
    share = right.mean()
    assert rate == Rate(int(right.sum()), 2400)
    assert rate.n_effective == pytest.approx(share * (1 - share) / np.var(sample), rel=0.1)


def test_where_all_are_alike_records_count() -> None:
    records = np.repeat(np.arange(20), 5)
    for right in (np.ones(100, bool), np.zeros(100, bool)):
        rate = Rate.of_records(records, right)
        assert rate.n_effective == 20
        assert rate.interval() == Rate(20 * bool(right[0]), 20).interval()
    assert Rate.of_records(records[:0], np.zeros(0, bool)).interval() == (0.0, 1.0)


def test_intervals_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    n_covered = {"records": 0, "guesses": 0}
    for _ in range(400):
        attack, random = guesses(rng, 150, 10, 0.9), guesses(rng, 150, 10, 0.9)
        rates = Rate.of_records(*attack), Rate.of_records(*random)
        plain = [Rate(rate.right, rate.guesses) for rate in rates]
        for kind, (attack_rates, other) in (("records", rates), ("guesses", plain)):
            low, high = AttackResult(attack_rates, other).interval or (1, 0)
            n_covered[kind] += low <= 0 <= high
    # Both rates are .4, so the risk is 0.
    assert n_covered["records"] / 400 >= 0.95
    assert n_covered["guesses"] / 400 < 0.85
