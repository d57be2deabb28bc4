"""A part of a table that is given the table's measures is treated as the table, everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import CodedColumn, Microdata
from dbanon.data.partition import AttributePartition, ClusteringResult, Levels, Partition
from dbanon.data.scales import STANDARDIZATIONS
from dbanon.data.schema import Attribute, Kind
from dbanon.hierarchy.leaves import take_records
from dbanon.job.policy import Policy
from dbanon.measures import Model, sensitive_counts
from dbanon.methods import METHODS
from dbanon.partitioning.classes import find_attribute_classes, find_classes
from dbanon.partitioning.partition_for import partition_for
from dbanon.recoding import INTERVALS, RECODINGS
from dbanon.release.recode import recode

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.RowsNotAnonymous")

N, K = 240, 4
HALF = np.arange(0, N, 2)
GRADES = ("none", "low", "middle", "high")


def table(numeric: bool, holes: bool) -> Microdata:
    """Records whose first half of ages differs in every way from the others: the ends are odd."""
    rng = np.random.default_rng(11)
    attributes = [
        Attribute("age", Kind.INTEGER),
        Attribute("size", Kind.FLOAT),
        Attribute("grade", Kind.ORDINAL, order=GRADES),
        Attribute("day", Kind.DATE),
        Attribute("place", Kind.CATEGORY),
    ]
    age = rng.integers(20, 60, N).astype(float)
    age[1::2] = rng.integers(0, 3000, N // 2)
    size = rng.normal(size=N)
    size[1::2] *= 50
    day = rng.integers(0, 900, N).astype(float)
    day[1::2] *= 40
    grade = rng.integers(0, 2, N).astype(np.int32)
    grade[1::2] = rng.integers(0, 4, N // 2)
    town = rng.integers(0, 3, N).astype(np.int32)
    town[1::2] = rng.integers(0, 9, N // 2)
    valid = np.ones((N, 5), bool)
    if holes:
        valid[: N // 3, 1] = False
    codes, n_attributes = np.column_stack([grade, town]), 5
    categories = [sorted(GRADES), [f"place {i}" for i in range(9)]]
    if numeric:
        codes, n_attributes, categories = codes[:, :1], 4, categories[:1]
    chunk = Chunk(
        np.arange(N, dtype=np.int64).reshape(-1, 1),
        np.column_stack([age, size, day]),
        codes.astype(np.int32),
        valid[:, :n_attributes],
    )
    return microdata_from_chunks(attributes[:n_attributes], [chunk], categories=categories)


def columns(microdata: Microdata, places: list[int]) -> Microdata:
    """Some of the numeric attributes."""
    return replace(
        microdata,
        attributes=tuple(microdata.attributes[position] for position in places),
        numbers=np.ascontiguousarray(microdata.numbers[:, places]),
        codes=microdata.codes[:, :0],
        categories=(),
        valid=None if microdata.valid is None else microdata.valid[:, places],
    )


def spied(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """The spaces that the method is given from now on."""
    seen: list[Any] = []
    method = METHODS[name]

    def run(space: Any, *args: Any, **more: Any) -> Any:
        seen.append(space)
        return method.run(space, *args, **more)

    monkeypatch.setitem(METHODS, name, replace(method, run=run))
    return seen


def rows(space: Any) -> set[bytes]:
    """The records as the method sees them."""
    space = getattr(space, "mixed", space)
    points = space.codes if hasattr(space, "codes") else space.points
    return {row.tobytes() for row in np.ascontiguousarray(points)}


def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*args: Any, **more: Any) -> ColumnStatistics:
        raise AssertionError("a part of a table was measured by itself")

    monkeypatch.setattr(ColumnStatistics, "of", of)


CASES = [
    (name, how, holes, mixed)
    for name, method in METHODS.items()
    for how in STANDARDIZATIONS
    for holes in (False, True)
    for mixed in (False, True)
    if not (mixed and (not method.takes_points or method.takes_categories))
    and not (mixed and how == "mahalanobis")
    and not (method.takes_categories and how != "zscore")
    and not (method.result_type is AttributePartition and how == "mahalanobis")
    and not (method.max_attributes == 1 and holes)
    # It sees codes of cells, of which only equality counts.
    and not method.suppresses_cells
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how", "holes", "mixed"), CASES)
def test_methods_see_a_part_as_they_see_the_table(
    monkeypatch: pytest.MonkeyPatch, name: str, how: str, holes: bool, mixed: bool
) -> None:
    method = METHODS[name]
    complete = table(not (method.takes_categories or mixed), holes)
    if method.max_attributes == 1:
        complete = columns(complete, [0])
    recoding = "representative" if mixed else method.recoding
    if not RECODINGS[recoding].takes_ranks:
        complete = columns(complete, [0, 1, 3])
    options = {"generations": 2} if "generations" in {o.name for o in method.options} else {}
    policy = Policy(
        k=K, method=name, standardize=how, nulls="category", options=options, recoding=recoding
    )
    find = find_attribute_classes if method.result_type is AttributePartition else find_classes
    column_statistics = ColumnStatistics.of(complete, covariance=how == "mahalanobis")
    seen = spied(monkeypatch, name)
    find(complete, policy)
    of_whole = set().union(*map(rows, seen))
    seen.clear()
    no_measuring(monkeypatch)
    find(take_records(complete, HALF), policy, column_statistics=column_statistics)
    of_half = set().union(*map(rows, seen))
    assert of_half < of_whole
    assert len(of_half) > N // 8
    # The half is another table by itself, so that this could fail.
    monkeypatch.undo()
    seen = spied(monkeypatch, name)
    find(take_records(complete, HALF), policy)
    if how != "none":
        assert not set().union(*map(rows, seen)) <= of_whole


@pytest.mark.parametrize("name", ["mdav", "gaa_cp", "mondrian", "kward"])
@pytest.mark.parametrize("refine", [None, "fast"])
def test_blocks_are_measured_by_the_table(
    monkeypatch: pytest.MonkeyPatch, name: str, refine: str | None
) -> None:
    complete = table(not METHODS[name].takes_categories, False)
    seen = spied(monkeypatch, name)
    find_classes(complete, Policy(k=K, method=name))
    [at_once] = seen
    seen.clear()
    partition = find_classes(complete, Policy(k=K, method=name, block_size=60, refine=refine))
    assert len(seen) == 4
    assert set().union(*map(rows, seen)) == rows(at_once)
    assert partition.sizes.min() >= K


SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"recoding": name} for name in ("mean", "median", "medoid", "representative")},
    "secure": {"recoding": "secure", "method": "secure_kward", "options": {"epsilon": 0.4}},
    **{
        f"{intervals}{' local' * local}": {
            "recoding": "generalization",
            "intervals": intervals,
            "local_range": local,
        }
        for intervals in INTERVALS
        for local in (False, True)
    },
    "steps": {"recoding": "generalization", "steps": {"age": 7}},
}


def test_all_recodings_are_asked() -> None:
    # Common values need no statistics: they are those of the class, or NULL.
    recodings = {options["recoding"] for options in SETTINGS.values()} | {"common"}
    assert recodings == set(RECODINGS)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("holes", [False, True])
def test_the_release_of_a_class_does_not_depend_on_other_classes(
    monkeypatch: pytest.MonkeyPatch, setting: str, holes: bool
) -> None:
    options = SETTINGS[setting]
    complete = table(not RECODINGS[options["recoding"]].takes_categories, holes)
    if not RECODINGS[options["recoding"]].takes_ranks:
        complete = columns(complete, [0, 1, 3])
    policy = Policy(k=K, **{"nulls": "category", **options})
    # Classes of the even records first, which are narrower in every way.
    patterns = np.zeros(N, int) if complete.valid is None else ~complete.valid[:, 1]
    kind = (np.arange(N) % 2) * 2 + patterns
    order = np.lexsort((complete.numbers[:, 0], kind))
    labels = np.empty(N, int)
    labels[order] = np.unique(
        np.column_stack([kind[order], np.arange(N) // (2 * K)]), axis=0, return_inverse=True
    )[1].reshape(-1)
    part = Partition(labels[HALF])
    of_whole = recode(complete, ClusteringResult(Partition(labels)), policy, lambda *_: {})
    column_statistics = ColumnStatistics.of(complete)
    half_release = recode(
        take_records(complete, HALF), ClusteringResult(part), policy, lambda *_: {}
    )
    no_measuring(monkeypatch)
    of_half = recode(
        take_records(complete, HALF),
        ClusteringResult(part, None, column_statistics),
        policy,
        lambda *_: {},
    )
    for half, all_of_it in zip(of_half.columns, of_whole.columns, strict=True):
        expected_column = all_of_it.take(np.arange(part.n_classes))
        assert half.attribute == expected_column.attribute
        for name in ("values", "upper", "missing", "unrounded"):
            actual, expected = getattr(half, name), getattr(expected_column, name)
            assert (actual is None) is (expected is None)
            if actual is not None and actual.dtype == float:
                np.testing.assert_allclose(actual, expected, rtol=1e-12)
            elif actual is not None:
                present = slice(None) if half.missing is None else ~half.missing
                assert actual[present].tolist() == expected[present].tolist()
        if half.losses is not None:
            assert all_of_it.losses is not None
            np.testing.assert_allclose(half.losses, all_of_it.losses[: part.n_classes], rtol=1e-12)
    # Measured separately, the half has another spread, and so loses another share.
    assert half_release.loss != pytest.approx(of_half.loss, rel=0.05)
    assert of_half.loss < half_release.loss


@pytest.mark.parametrize("distance", ["equal", "ordered"])
def test_models_compare_a_part_with_the_table(
    monkeypatch: pytest.MonkeyPatch, distance: str
) -> None:
    complete = table(False, False)
    rng = np.random.default_rng(2)
    codes = rng.choice(5, N, p=[0.3, 0.3, 0.2, 0.1, 0.1]).astype(np.int32)
    # The half has low values, the others high ones.
    codes[HALF] = np.where(rng.random(len(HALF)) < 0.5, codes[HALF] // 2, codes[HALF])
    codes[1::2] = np.maximum(codes[1::2], 1)
    codes[HALF] = np.minimum(codes[HALF], 3)
    values = tuple("abcde")
    complete = replace(complete, sensitive={"ill": CodedColumn(codes, values)})
    model = Model("t_closeness", "ill", 0.25, distance=distance)
    policy = Policy(k=K, method="gaa_cp", models=(model,))
    column_statistics = ColumnStatistics.of(complete)
    half = take_records(complete, HALF)
    # A part has its own dictionary.
    half = replace(half, sensitive={"ill": CodedColumn(codes[HALF], values[:4])})
    attributes = {"ill": Attribute("ill", Kind.CATEGORY)}
    by_itself = partition_for(half, policy, sensitive=attributes)
    no_measuring(monkeypatch)
    result = partition_for(half, policy, sensitive=attributes, column_statistics=column_statistics)
    assert result.column_statistics is column_statistics
    assert isinstance(result.classes, Partition)
    assert isinstance(by_itself.classes, Partition)
    counts = sensitive_counts(result.classes, codes[HALF], 5)
    assert model.is_satisfied(counts, np.bincount(codes) / N).all()
    assert result.classes.n_classes > 3
    # By its own shares the half forms other classes, but the table's shares refuse them.
    half_counts = sensitive_counts(by_itself.classes, codes[HALF], 5)
    assert not model.is_satisfied(half_counts, np.bincount(codes) / N).all()


def test_a_run_measures_its_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = table(False, False)
    rng = np.random.default_rng(2)
    complete = replace(
        complete,
        sensitive={"ill": CodedColumn(rng.integers(0, 5, N).astype(np.int32), tuple("abcde"))},
    )
    policy = Policy(k=K, method="gaa_cp", models=(Model("distinct_l", "ill", 2),), refine="fast")
    measured, of = [], ColumnStatistics.of

    def counting(*args: Any, **more: Any) -> ColumnStatistics:
        measured.append(args[0])
        return of(*args, **more)

    monkeypatch.setattr(ColumnStatistics, "of", counting)
    attributes = {"ill": Attribute("ill", Kind.CATEGORY)}
    result = partition_for(complete, policy, sensitive=attributes)
    recode(complete, result, policy, lambda *_: {})
    assert len(measured) == 1


def test_levels_that_withhold_are_measured_again() -> None:
    """Withheld rows influence no scale: the others are measured like a table of their own."""
    complete = table(False, False)
    policy = Policy(
        k=8, method="full_domain", options={"suppression": 0.2}, max_suppression=0.2, nulls="error"
    )
    levels = find_classes(complete, policy)
    assert isinstance(levels, Levels)
    assert levels.n_suppressed
    records = np.flatnonzero(levels.labels >= 0)
    remaining = find_classes(
        take_records(complete, records), replace(policy, options={"suppression": 0.0})
    )
    assert levels.labels[records].tolist() == remaining.labels.tolist()
