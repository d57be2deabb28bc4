"""Forecasts by trials: how seconds of small samples grow to those of a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import TooFewRecords
from dbanon.job.policy import Policy
from dbanon.methods.forecast import Shape
from dbanon.partitioning import trials
from dbanon.partitioning.forecast import forecast_refinement
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.trials import forecast_by_trials

N = 12_800
TWO = Shape(2)


def table(n: int = N) -> Microdata:
    numbers = np.random.default_rng(1).normal(size=(n, 2))
    attributes = tuple(Attribute(name, Kind.FLOAT) for name in "ab")
    keys = np.arange(n, dtype=np.int64)[:, None]
    return Microdata(attributes, keys, numbers, np.empty((n, 0), np.int32), ())


def grow(monkeypatch: pytest.MonkeyPatch, exponent: float, scale: float) -> list[int]:
    """Let trials take scale times n^exponent seconds; return the sizes of those that are run."""
    sizes: list[int] = []

    def measure(records: Microdata, policy: Policy, trees: object) -> float:
        assert policy.refine is None
        assert policy.block_size is None
        sizes.append(records.n_records)
        return float(scale * records.n_records**exponent)

    monkeypatch.setattr(trials, "_measure_seconds", measure)
    return sizes


@pytest.mark.parametrize("exponent", [1.0, 1.3, 1.9])
def test_seconds_grow_as_those_of_trials(monkeypatch: pytest.MonkeyPatch, exponent: float) -> None:
    sizes = grow(monkeypatch, exponent, 1e-9)
    seconds = forecast_by_trials(table(), Policy(k=5), 10**6, TWO)
    assert seconds is not None
    assert sizes == [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800]
    assert seconds.method == pytest.approx(1e-9 * 10 ** (6 * exponent))
    assert seconds.refinement == 0


@pytest.mark.parametrize(("exponent", "used_exponent"), [(0.2, 0.9), (3.0, 2.0)])
def test_growth_has_bounds(
    monkeypatch: pytest.MonkeyPatch, exponent: float, used_exponent: float
) -> None:
    grow(monkeypatch, exponent, 1e-13)
    seconds = forecast_by_trials(table(), Policy(k=5), 10 * N, TWO)
    assert seconds is not None
    assert seconds.method == pytest.approx(1e-13 * N**exponent * 10**used_exponent)


def test_slow_methods_are_tried_on_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = grow(monkeypatch, 1.0, 1e-3)
    seconds = forecast_by_trials(table(), Policy(k=5), 10**6, TWO)
    assert sizes == [100, 200, 400, 800, 1_600]
    assert seconds is not None
    assert seconds.method == pytest.approx(1_000)


def test_blocks_and_refinements_count(monkeypatch: pytest.MonkeyPatch) -> None:
    grow(monkeypatch, 2.0, 1e-12)
    policy = Policy(k=5, refine="fast", block_size=20_000)
    seconds = forecast_by_trials(table(), policy, 200_000, TWO)
    assert seconds is not None
    assert seconds.method == pytest.approx(10 * 1e-12 * 20_000**2)
    assert seconds.refinement == forecast_refinement(policy, 200_000, TWO)
    unknown = replace(policy, block_size=None, refine_iterations=3)
    assert forecast_by_trials(table(), unknown, 200_000, TWO) is None


def test_trials_that_are_too_small_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(records: Microdata, policy: Policy, trees: object) -> float:
        if records.n_records < smallest:
            raise TooFewRecords("Too few.")
        return records.n_records * 1e-6

    monkeypatch.setattr(trials, "_measure_seconds", measure)
    smallest = 3_000
    seconds = forecast_by_trials(table(), Policy(k=5), 10**6, TWO)
    assert seconds is not None
    assert seconds.method == pytest.approx(1.0)
    smallest = 6_000
    assert forecast_by_trials(table(), Policy(k=5), 10**6, TWO) is None


def test_trials_cluster_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take random records of the whole sample, and find classes of k."""
    calls: list[tuple[Microdata, int]] = []

    def cluster(records: Microdata, policy: Policy, *, trees: object) -> None:
        classes = partition_for(records, policy).classes
        assert isinstance(classes, Partition)
        calls.append((records, int(classes.sizes.min())))

    monkeypatch.setattr(trials, "partition_for", cluster)
    sample = table(2_000)
    assert forecast_by_trials(sample, Policy(k=7), 10**6, TWO) is not None
    assert [records.n_records for records, _ in calls] == [15, 31, 62, 125, 250, 500, 1_000, 2_000]
    assert all(smallest >= 7 for _, smallest in calls)
    assert calls[3][0].keys.min() < 500
    assert calls[3][0].keys.max() > 1_500
