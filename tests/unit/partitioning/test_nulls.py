"""Rare patterns of NULLs: which join which, and that each pattern that is released holds k."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dbanon
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, SuppressionOverBudget, TooFewRecords
from dbanon.job.policy import Policy
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.partition_for import partition_for
from tests.reference.null_patterns import merged


def microdata(
    valid: NDArray[np.bool_],
    strata: NDArray[np.int32] | None = None,
    persons: NDArray[np.int32] | None = None,
) -> Microdata:
    """Numbers and texts by turns, with these cells."""
    n, d = valid.shape
    kinds = [Kind.INTEGER if column % 2 == 0 else Kind.CATEGORY for column in range(d)]
    attributes = tuple(Attribute(f"c{i}", kind) for i, kind in enumerate(kinds))
    rng = np.random.default_rng(d)
    numbers = np.where(valid, rng.integers(0, 9, (n, d)), 0)[:, ::2].astype(np.float64)
    codes = np.where(valid, rng.integers(0, 3, (n, d)), -1)[:, 1::2].astype(np.int32)
    return Microdata(
        attributes,
        np.arange(n, dtype=np.int64).reshape(-1, 1),
        numbers,
        codes,
        (("a", "b", "c"),) * (d // 2),
        None if valid.all() else valid,
        strata=strata,
        entities=persons,
    )


def random_valid(rng: np.random.Generator, n: int, d: int) -> NDArray[np.bool_]:
    return rng.random((n, d)) >= rng.choice([0.02, 0.05, 0.3, 0.6], d)


@pytest.mark.parametrize("seed", range(60))
def test_patterns_join_as_the_reference_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(1, 90)), int(rng.integers(1, 6)), int(rng.integers(2, 8))
    valid = random_valid(rng, n, d)
    strata = rng.integers(0, 3, n).astype(np.int32) if seed % 3 == 0 else None
    persons = rng.integers(0, n // 2 + 1, n).astype(np.int32) if seed % 4 == 0 else None
    original = microdata(valid, strata, persons)
    result = merge_nulls(
        original, Policy(k=k, method="gaa_cp", nulls="merge", max_suppression=None)
    )
    expected, withheld = merged(valid, k, strata, persons)
    assert np.array_equal(expected, np.ones_like(valid) if result.valid is None else result.valid)
    assert (result.suppressed is None) == np.array_equal(valid, expected)
    if result.suppressed is not None:
        assert np.array_equal(result.suppressed, valid & ~expected)
    # No value is released that was NULL, and each pattern that stays holds k.
    assert not (expected & ~valid).any()
    counts: dict[tuple[int, ...], set[int]] = {}
    for record in range(n):
        if record not in withheld:
            pattern = (0 if strata is None else int(strata[record]), *expected[record].tolist())
            counts.setdefault(pattern, set()).add(
                record if persons is None else int(persons[record])
            )
    assert all(len(members) >= k for members in counts.values())


def test_of_patterns_as_near_the_larger_then_the_first_is_joined() -> None:
    """One record without a; supersets are (a, b), (a, c) and (a, b, c)."""

    def joined(*rows: tuple[str, int]) -> Counter[str]:
        valid = np.array(
            [[c not in missing for c in "abc"] for missing, times in rows for _ in range(times)]
        )
        policy = Policy(k=3, method="gaa_cp", nulls="merge")
        merged = merge_nulls(microdata(valid), policy)
        assert merged.valid is not None
        return Counter(
            "".join(c for c, is_present in zip("abc", row, strict=True) if not is_present)
            for row in merged.valid.tolist()
        )

    # The nearest, though another is larger.
    assert joined(("", 4), ("a", 1), ("ab", 3), ("abc", 9)) == {"": 4, "ab": 4, "abc": 9}
    # Of two equally near patterns, the larger one.
    assert joined(("", 4), ("a", 1), ("ab", 3), ("ac", 4)) == {"": 4, "ab": 3, "ac": 5}
    # Of two equally large patterns, the one whose NULLs come first in column order.
    assert joined(("", 4), ("a", 1), ("ab", 3), ("ac", 3)) == {"": 4, "ab": 4, "ac": 3}
    # One with which it has k, though another is nearer.
    assert joined(("", 4), ("a", 1), ("ab", 1), ("abc", 3)) == {"": 4, "abc": 5}
    # Two that no superset was left for.
    assert joined(("", 4), ("a", 2), ("b", 1)) == {"": 4, "ab": 3}


def test_suppressed_cells_hold_no_value_and_leave_no_trace() -> None:
    valid = np.ones((9, 2), np.bool_)
    valid[4:, 1] = False
    valid[3, 0] = False
    valid[4:, 0] = [False, True, True, True, True]
    policy = Policy(k=4, method="gaa_cp", nulls="merge", max_suppression=0.5)
    merged = merge_nulls(microdata(valid), policy)
    assert merged.suppressed is not None
    assert merged.codes[merged.suppressed[:, 1], 0].tolist() == [-1] * int(
        merged.suppressed[:, 1].sum()
    )
    assert not merged.numbers[merged.suppressed[:, 0]].any()
    used = set(np.unique(merged.codes)) - {-1}
    assert len(merged.categories[0]) == len(used)


def frame() -> pd.DataFrame:
    """40 rows; two without a, three without a and b, four without b."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "a": rng.normal(50, 9, 40).round(2),
            "b": rng.normal(0, 1, 40),
            "s": rng.integers(0, 2, 40),
        }
    )
    table.loc[:4, "a"] = None
    table.loc[2:8, "b"] = None
    return table


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"method": "gaa_cp"},
        {"recoding": "representative"},
        {"method": "full_domain"},
        {"method": "individual_ranking", "guarantee": "per_attribute"},
    ],
    ids=lambda variant: "_".join(variant.values()) or "mean",
)
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_suppressed_cells_count_as_lost(variant: dict[str, Any]) -> None:
    """As many as the report says, each counted as an entirely lost cell."""
    options: dict[str, Any] = {"quasi_identifiers": ["a", "b"], "k": 4, **variant}
    table = frame()
    released, report = dbanon.anonymize_frame(table, nulls="merge", **options)
    assert (report.rows_out, report.suppressed, report.null_rows) == (40, 0, 9)
    assert report.suppressed_cells == {"b": 2}
    assert "rare patterns of NULLs" in report.guarantee
    assert "rare cells released as NULL" in dict(report.rows())
    if variant.get("method") not in ("gaa_cp", "full_domain"):
        assert released["b"].isna().sum() == 9
        assert released["a"].isna().sum() == 5
    # The same cells, NULL in the source already, lose nothing.
    blank = table.copy()
    blank.loc[:1, "b"] = None
    other, same = dbanon.anonymize_frame(blank, nulls="category", **options)
    order = list(released.columns)
    assert released.sort_values(order, ignore_index=True).equals(
        other.sort_values(order, ignore_index=True)
    )
    measured = report.internal.column_losses["b"].released
    before = same.internal.column_losses["b"].released
    cells, n_lost = 33, 2
    if report.loss_measure == "iloss":
        assert measured == pytest.approx(before + n_lost / 40)
    else:
        # The squares of z-scores add up to one less than there are cells.
        most = cells - n_lost - (report.loss_measure == "sse")
        assert measured == pytest.approx((before * most + n_lost) / (most + n_lost), rel=1e-6)
    assert report.internal.information_loss > same.internal.information_loss
    assert report.information_loss >= same.information_loss


def test_rare_strata_are_withheld_within_the_budget() -> None:
    table = frame().dropna(ignore_index=True)
    table.loc[:2, "s"] = 7
    options: dict[str, Any] = {"quasi_identifiers": ["a", "b"], "by": ["s"], "k": 4}
    n = len(table)
    with pytest.raises(TooFewRecords, match="only 3 records") as caught:
        dbanon.anonymize_frame(table, **options)
    assert "max_suppression" in str(caught.value.hint)
    with pytest.raises(SuppressionOverBudget, match=f"3 of {n} records"):
        dbanon.anonymize_frame(table, max_suppression=2 / n, **options)
    released, report = dbanon.anonymize_frame(table, max_suppression=3 / n, **options)
    assert (report.suppressed, len(released)) == (3, n - 3)
    # The result equals that of a table without such rows.
    without_rare, _ = dbanon.anonymize_frame(table[3:].reset_index(drop=True), **options)
    order = list(released.columns)
    assert released.sort_values(order, ignore_index=True).equals(
        without_rare.sort_values(order, ignore_index=True)
    )
    with pytest.raises(TooFewRecords):
        dbanon.anonymize_frame(table, max_suppression=1, **(options | {"k": 30}))


def test_a_rare_pattern_is_withheld_within_the_budget() -> None:
    options: dict[str, Any] = {"quasi_identifiers": ["a", "b"], "k": 4, "nulls": "category"}
    _, report = dbanon.anonymize_frame(frame(), max_suppression=5 / 40, **options)
    assert (report.suppressed, report.rows_out, report.null_rows) == (5, 35, 4)
    with pytest.raises(SuppressionOverBudget, match="5 of 40"):
        dbanon.anonymize_frame(frame(), max_suppression=4 / 40, **options)


def test_partition_merges_too() -> None:
    table = frame()[["a", "b"]]
    partition = dbanon.partition(table, 4, nulls="merge")
    assert partition.n_suppressed == 0
    # The five without a are together.
    assert len(set(partition.labels[:5].tolist())) == 1
    assert not set(partition.labels[:5].tolist()) & set(partition.labels[5:].tolist())


def test_of_persons_each_counts_once() -> None:
    """Five records without a of two persons: no class of three persons."""
    valid = np.ones((30, 2), np.bool_)
    valid[:5, 0] = False
    valid[:9, 1] = False
    persons = np.array([0, 0, 1, 1, 1, *range(2, 27)], np.int32)
    policy = Policy(k=3, method="gaa_cp", nulls="merge", max_suppression=0.5)
    merged = merge_nulls(microdata(valid, persons=persons), policy)
    classes = partition_for(merged, policy).classes
    assert (classes.labels[:5] == -1).all()
    assert (classes.labels[5:] >= 0).all()


@pytest.mark.parametrize(
    "overrides",
    [
        {"spill": "/tmp", "block_size": 50, "memory_limit": 10**9},
        {"chain": {"name": "people", "key": "file:people.key"}, "entity": "id"},
    ],
    ids=["spill", "chain"],
)
def test_what_cannot_merge_refuses_it(overrides: dict[str, Any]) -> None:
    options = {"table": "t", "output": "r.t", "quasi_identifiers": ["a"], "k": 4, "nulls": "merge"}
    with pytest.raises(InvalidParameter) as refused:
        dbanon.anonymize("duckdb:///:memory:", **options, **overrides)
    assert "nulls" in str(refused.value)
