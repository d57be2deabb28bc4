"""Sets of columns that are k-anonymous by themselves, on frames, counted by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import kernels
from dbanon.errors import InvalidParameter, MemoryLimit, SuppressionOverBudget
from dbanon.job.sets import ColumnSet

METHODS = ("mdav", "mondrian", "gaa_cp", "full_domain")


def people(seed: int, n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "zip": rng.integers(100, 130, n),
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["flu", "cough", "gastritis", "rare"], n, p=[0.5, 0.3, 0.19, 0.01]),
            "who": rng.integers(0, n // 2, n),
        }
    )


def release(frame: pd.DataFrame, *sets: Any, **more: Any) -> tuple[pd.DataFrame, dbanon.Report]:
    options = {"quasi_identifiers": ["age", "zip"], "sensitive": ["ill"], "k": 4}
    result: tuple[pd.DataFrame, dbanon.Report] = dbanon.anonymize_frame(
        frame, **{"also_k": list(sets), **options, **more}
    )
    return result


def smallest(frame: pd.DataFrame, columns: list[str]) -> int:
    groups = Counter(tuple(row) for row in frame[columns].astype(str).to_numpy().tolist())
    return min(groups.values())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=4)
def test_each_set_holds_and_so_does_k(method: str, seed: int) -> None:
    frame = people(seed)
    k_by_columns = {("age",): 30, ("age", "ill"): 3, ("zip",): 9, ("ill",): 6}
    sets = [{"columns": list(columns), "k": k} for columns, k in k_by_columns.items()]
    out, report = release(frame, *sets, method=method, max_suppression=0.2)
    assert smallest(out, ["age", "zip"]) >= 4
    for recorded, (columns, k) in zip(
        report.arguments["also_k"], k_by_columns.items(), strict=True
    ):
        assert recorded["columns"] == list(columns)
        assert recorded["counted"] == smallest(out, list(columns)) >= k
    # Rows are withheld only for values that fewer rows share than the sets require.
    rare = frame.ill.map(frame.ill.value_counts()) < 6
    assert report.suppressed == rare.sum() == len(frame) - len(out)


def test_columns_of_no_set_lose_nothing() -> None:
    frame = people(1)
    _, plain = release(frame)
    _, with_set = release(frame, {"columns": ["age"], "k": 40})
    assert with_set.internal.column_losses["zip"] == plain.internal.column_losses["zip"]
    assert (
        with_set.internal.column_losses["age"].released
        > plain.internal.column_losses["age"].released
    )
    # Classes that have one age now and one zip are one to readers.
    assert with_set.k_achieved >= 4
    assert with_set.classes <= plain.classes
    # Classes of 40 for all columns lose more of the other one.
    _, coarse = release(frame, k=40)
    assert (
        coarse.internal.column_losses["zip"].released
        > 2 * with_set.internal.column_losses["zip"].released
    )


def test_a_set_of_quasi_identifiers_with_the_k_of_the_release_changes_nothing() -> None:
    frame = people(2)
    _, plain = release(frame)
    _, with_set = release(frame, ["age", "zip"], ColumnSet(("zip",)))
    assert with_set.internal.column_losses == plain.internal.column_losses
    assert [record["k"] for record in with_set.arguments["also_k"]] == [4, 4]


def test_persons_are_counted_and_withheld_with_all_their_rows() -> None:
    frame = people(3)
    out, report = release(
        frame.assign(mark=frame.who),
        {"columns": ["age", "ill"], "k": 3},
        entity="who",
        max_suppression=0.3,
        keep=["mark"],
    )
    fewest = out.groupby(["age", "ill"]).mark.nunique().min()
    assert report.arguments["also_k"][0]["counted"] == fewest >= 3
    withheld_persons = set(frame.who) - set(out.mark)
    assert report.suppressed == frame.who.isin(withheld_persons).sum() > 0


@pytest.mark.parametrize("intervals", ["text", "bounds", "midpoint"])
def test_ranges_and_strata(intervals: str) -> None:
    out, report = release(
        people(4),
        {"columns": ["age", "sex", "ill"], "k": 3},
        ["zip"],
        by=["sex"],
        method="mondrian",
        intervals=intervals,
        max_suppression=0.3,
    )
    for recorded in report.arguments["also_k"]:
        assert smallest(out, recorded["columns"]) == recorded["counted"] >= recorded["k"]
    if intervals == "bounds":
        assert report.arguments["also_k"][1]["columns"] == ["zip_low", "zip_high"]


@pytest.mark.parametrize("method", ["gaa_cp", "full_domain"])
def test_hierarchies_and_weights_of_some_columns(method: str) -> None:
    trees = {"age": {"intervals": [10, 20]}, "zip": {"mask": [2, 1]}}
    out, report = release(
        people(10),
        {"columns": ["zip", "ill"], "k": 3},
        method=method,
        hierarchies=trees,
        weights={"age": 3},
        max_suppression=0.3,
    )
    [recorded] = report.arguments["also_k"]
    assert smallest(out, ["zip", "ill"]) == recorded["counted"] >= 3


def test_nulls_stay_within_their_pattern() -> None:
    frame = people(5, 400).astype({"age": "Int64"})
    frame.loc[::5, "age"] = pd.NA
    out, report = release(
        frame,
        {"columns": ["zip"], "k": 25},
        {"columns": ["age", "ill"], "k": 2},
        nulls="category",
        max_suppression=0.3,
    )
    assert out.age.isna().sum() == report.null_rows > 0
    for recorded in report.arguments["also_k"]:
        assert smallest(out, recorded["columns"]) >= recorded["k"]


def test_models_hold_together_with_sets() -> None:
    model = dbanon.Model("distinct_l", "ill", 2)
    out, report = release(
        people(6),
        {"columns": ["age"], "k": 20},
        models=[model],
        method="gaa_cp",
    )
    assert out.groupby(["age", "zip"]).ill.nunique().min() >= 2
    assert report.models[0].achieved >= 2
    assert smallest(out, ["age"]) >= 20


def test_what_is_out_of_reach_is_refused_with_what_would_do() -> None:
    frame = people(7)
    rare = int((frame.ill == "rare").sum())
    with pytest.raises(SuppressionOverBudget) as refused:
        release(frame, {"columns": ["age", "ill"], "k": 10})
    assert f"{rare} of 200 records" in refused.value.message
    assert "rare" not in refused.value.message.replace("(age, ill)", "")
    share = float(str(refused.value.hint).split("max_suppression=")[1].split()[0])
    out, _ = release(frame, {"columns": ["age", "ill"], "k": 10}, max_suppression=share)
    assert len(out) == 200 - rare
    with pytest.raises(SuppressionOverBudget):
        release(frame, {"columns": ["age"], "k": 201}, max_suppression=None)


@pytest.mark.parametrize(
    ("sets", "more"),
    [
        ([["nobody"]], {}),
        ([["age", "age"]], {}),
        ([[]], {}),
        ([{"columns": ["age"], "k": 1}], {}),
        ([{"columns": "age"}], {}),
        ([{"columns": ["age"], "l": 2}], {}),
        ([["who"]], {"entity": "who"}),
        ([["age"]], {"method": "individual_ranking", "guarantee": "per_attribute"}),
        ([["age"]], {"method": "secure_kward"}),
        ([["age"]], {"models": [dbanon.Model("delta_disclosure", "ill", 2.0)]}),
    ],
)
def test_what_is_no_set_is_refused(sets: list[Any], more: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        release(people(8), *sets, **more)


def test_counts_beyond_memory_are_refused() -> None:
    from dbanon.data.partition import ClusteringResult, Partition
    from dbanon.job.job import Job
    from dbanon.job.policy import Policy
    from dbanon.partitioning.sets import coarsen_for_column_sets
    from dbanon.run.plan import plan
    from dbanon.stores.frame.source import FRAME_NAME, FrameSource

    frame = people(9)
    policy = Policy(k=4, also_k=(ColumnSet(("age", "ill"), 2),))
    columns = {"quasi_identifiers": ("age",), "sensitive": ("ill",)}
    job = Job(table=FRAME_NAME, output=FRAME_NAME, policy=policy, **columns)
    source = FrameSource(frame)
    planned = plan(job, source)
    microdata = source.read(planned.relation, planned.roles, job, lambda share: None)
    result = ClusteringResult(Partition(np.arange(200) // 4))
    with pytest.raises(MemoryLimit):
        coarsen_for_column_sets(microdata, result, policy, memory_limit=100)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 9))
def test_the_kernel_counts_what_lacks(counts: list[int], k: int) -> None:
    models = kernels.Models(np.array([len(counts)], np.int32))
    none = np.empty(0, np.int32)
    models.add("each_k", 0, float(k), 1, np.zeros(len(counts)), none, np.empty((0, 2), np.int32))
    count_array = np.array(counts, np.int32)
    lacks = sum(k - count for count in counts if 0 < count < k)
    if any(counts):
        assert models.lack(count_array) == lacks
        assert models.keeps(count_array) is (lacks == 0)
