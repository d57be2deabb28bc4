"""The measures that benchmarks use, on small tables."""

import importlib
import inspect
import math

import numpy as np
import pandas as pd
import pytest

import dbanon
from benchmarks.__main__ import NAMES, WITH_ANOTHER, WITH_BIG
from benchmarks.adult import Adult
from benchmarks.beside import medians, versions
from benchmarks.markdown import table
from benchmarks.models_adult import entropy
from benchmarks.synthesis_forecast import summarize_choices
from dbanon.hierarchy.tree import Hierarchy
from tests.prerequisites import import_or_skip

WAYS = {"a": ["a", "x", "*"], "b": ["b", "x", "*"], "c": ["c", "y", "*"]}


def _small():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 200), "place": rng.choice(list(WAYS), 200)})
    trees = {"place": Hierarchy.from_levels(WAYS.values())}
    return Adult(frame, {"place": "place.csv"}, trees, (None, WAYS))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_begun(name):
    """Each by its name, with the arguments of the command; benchmarks of minutes are run by
    hand.
    """
    arguments = (
        {"other_python": None}
        if name in WITH_ANOTHER
        else {"big": False}
        if name in WITH_BIG
        else {}
    )
    run = importlib.import_module(f"benchmarks.{name}").run
    inspect.signature(run).bind(True, **arguments)


def test_the_evaluator_and_the_package_agree_and_withheld_rows_lose_all():
    data = _small()
    partition = dbanon.partition(data.frame, 4, method="gaa_cp", hierarchies=data.trees)
    ours = dbanon.generalization_loss(data.frame, partition, hierarchies=data.trees)
    assert data.iloss(partition.labels) == pytest.approx(ours, rel=1e-12)
    labels = partition.labels.copy()
    labels[partition.members[: partition.sizes[0]]] = -1
    fewer = dbanon.data.partition.Partition(np.where(labels < 0, -1, labels - 1))
    ours = dbanon.generalization_loss(data.frame, fewer, hierarchies=data.trees)
    assert data.iloss(fewer.labels) == pytest.approx(ours + 2 * partition.sizes[0], rel=1e-12)


def test_tables_are_the_same_every_time():
    data = _small()
    for make in (lambda: data.resampled(500), lambda: data.rows(50)):
        pd.testing.assert_frame_equal(make().frame, make().frame)
    assert data.first(1).trees == data.first(1).files == {}
    resampled = data.resampled(2000).frame
    assert set(resampled["place"]) == set(WAYS)
    assert len(resampled.drop_duplicates()) > len(data.frame.drop_duplicates())


def test_tables_as_markdown():
    assert table(["a", "b"], [[1, 0.123456], ["x", 2.0]]) == (
        "| a | b |\n| --- | --- |\n| 1 | 0.1235 |\n| x | 2 |\n"
    )


def test_medians_of_two_versions_side_by_side():
    measured = {
        ("db", "this"): [{"read": 3.0, "digest": 0.5}, {"read": 1.0, "digest": 0.1}],
        ("db", "0.1"): [{"read": 1.0}, {"read": 3.0}, {"read": 4.0}],
    }
    assert medians(measured, ["read", "digest"]) == (
        "\n| ratio | median of runs in turn | phase | this | 0.1 |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| 0.6667 | db | read | 2 | 3 |\n"
        "|  | db | digest | 0.3 | 0 |\n"
    )
    assert medians({("db", "this"): [{"read": 1.0}]}, ["read"]) == ""
    assert [version.name for version in versions(None)] == ["this"]


@pytest.mark.slow
def test_figures_are_the_same_every_time(tmp_path):
    import_or_skip("matplotlib")
    from benchmarks import figures

    curve = {"one": ([1, 2, 4], [3.0, 1.0, 2.0]), "two": ([1, 2, 4], [1.0, 0.5, 0.1])}
    files = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for file in files:
        figures.draw(file, {"left": curve, "right": curve}, "k", "iloss")
    texts = [file.read_text() for file in files]
    assert texts[0] == texts[1]
    assert ">iloss<" in texts[0]
    assert "dc:date" not in texts[0]


def test_entropy_of_labels():
    """For a, a, b, c: x covers three rows, * all; one of 20, 20, 30, 40 in [20, 31) is one of 3."""
    rows = [[20, "a"], [20, "a"], [30, "b"], [40, "c"]]
    released = [["[20, 31)", "x"]] * 3 + [["40", "*"]]
    lost_bits = 2 * (2 * math.log2(3 / 2) + math.log2(3)) + 2
    total_bits = 2 * (2 * 1 + 2 * 2)
    assert entropy(rows, released, (None, WAYS)) == pytest.approx(lost_bits / total_bits)
    assert entropy(rows, [["20", "a"], ["20", "a"], ["30", "b"], ["40", "c"]], (None, WAYS)) == 0


def test_choices_are_summed_up_by_how_near_the_best_they_are():
    choices = [
        ["a", "x", "0.1000", "x", "0.1000"],
        ["b", "x", "0.1030", "y", "0.1000"],
        ["c", "x", "0.1200", "y", "0.1000"],
        ["d", "-", "-", "-", "-"],
    ]
    assert summarize_choices(choices) == (
        "Of 3 choices, 1 have the least error, and 1 at most 1.05 times it; the worst has 1.20"
        " times it."
    )
