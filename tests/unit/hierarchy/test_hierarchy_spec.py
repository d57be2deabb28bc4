"""Hierarchy specifications are the same in all interfaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import HierarchyBroken, InvalidParameter
from dbanon.hierarchy import builders as hierarchy_builders
from dbanon.hierarchy.edges import HierarchyProblem
from dbanon.hierarchy.spec import KINDS, HierarchySource, HierarchySpec, build, parse, parse_all
from dbanon.hierarchy.tree import Hierarchy

LUNGS = Hierarchy.from_levels([["flu", "lungs", "*"], ["cough", "lungs", "*"]])


@pytest.mark.parametrize(
    "source",
    [
        {"tree": {"*": {"lungs": ["flu", "cough"]}}},
        {"tree": [["*", None], ["lungs", "*"], ["flu", "lungs"], ["cough", "lungs"]]},
        {"levels": [["flu", "lungs", "*"], ["cough", "lungs", "*"]]},
        {"levels": (("flu", "lungs", "*"), ("cough", "lungs", "*"))},
        {"tree": (("*", None), ("lungs", "*"), ("flu", "lungs"), ("cough", "lungs"))},
        {"tree": {"*": {"lungs": ("flu", "cough")}}},
        '{"levels": [["flu", "lungs", "*"], ["cough", "lungs", "*"]]}',
    ],
)
def test_trees_written_out(source: Any) -> None:
    for files in (True, False):
        assert parse(source, files=files) == LUNGS


def test_files_only_where_they_may_be_read(tmp_path: Path) -> None:
    file = tmp_path / "tree.csv"
    file.write_text(LUNGS.to_csv())
    nested = tmp_path / "tree.json"
    nested.write_text(json.dumps(LUNGS.to_pairs()))
    for path in (file, nested):
        assert parse(path, files=True) == parse(str(path), files=True) == LUNGS
        for source in (path, str(path)):
            with pytest.raises(InvalidParameter, match="JSON object"):
                parse(source, files=False)
    with pytest.raises(InvalidParameter, match="does not exist"):
        parse("nowhere.csv", files=True)
    file.write_bytes(b"\xff;root\n")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        parse(file, files=True)


@pytest.mark.parametrize("text", ["table:ref.tree", "name:education"])
def test_short_forms(text: str) -> None:
    kind, _, value = text.partition(":")
    spec = parse(text, files=False)
    assert isinstance(spec, HierarchySpec)
    assert (spec.kind, spec.value) == (kind, value)
    assert spec == parse({kind: value}, files=True)
    with pytest.raises(InvalidParameter, match='of "x" is read from a database'):
        build(spec, ["a"], "x")


NUMBERS = ["7", "8", "12", "33"]
ZIPS = ["23119", "23208"]
DAYS = ["2024-05-17", "2024-06-01", "2031-01-01"]


@pytest.mark.parametrize(
    ("source", "values", "path"),
    [
        ({"intervals": [5, 10]}, NUMBERS, ("7", "[5, 10)", "[0, 10)", "*")),
        ({"intervals": [10], "origin": 2}, NUMBERS, ("12", "[12, 22)", "*")),
        ({"dates": ["month", "5y"]}, DAYS, ("2024-05-17", "2024-05", "2020 to 2024", "*")),
        ({"mask": True}, ZIPS, ("23208", "2320*", "232**", "23***", "2****", "*****")),
        ({"mask": [3], "character": "#"}, ZIPS, ("23208", "232##", "#####")),
        ({"ordered": True}, ["a", "b", "c"], ("a", "a to b", "*")),
        ({"ordered": ["lo", "mid", "hi"]}, [], ("mid", "lo to mid", "*")),
        ({"ordered": ["lo", "mid", "hi"], "fanout": 3}, [], ("mid", "*")),
        ({"grouped": [1, 2]}, ["a", "b", "c"], ("c", "b to c", "*")),
        ({"grouped": [2, 1], "order": ["c", "b", "a"]}, [], ("b", "c to b", "*")),
    ],
)
def test_builders(source: dict[str, Any], values: list[str], path: tuple[str, ...]) -> None:
    spec = parse(source, files=False)
    tree = spec if isinstance(spec, Hierarchy) else build(spec, values, "x")
    assert tree.path(path[0]) == path


def test_every_kind_is_tried_here() -> None:
    tried = {"table", "name", "tree", "levels", "intervals", "dates", "mask", "ordered", "grouped"}
    assert tried | {"enum"} == set(KINDS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "Known kinds: table, name"),
        ({"interval": [5]}, 'Did you mean "intervals"'),
        ({"table": "a", "name": "b"}, "one key that says its kind"),
        ({"intervals": [5], "orign": 1}, "Known keys: intervals, origin"),
        ({"intervals": []}, '"intervals" must be a list of widths'),
        ({"intervals": [True]}, '"intervals" must be'),
        ({"intervals": "5"}, '"intervals" must be'),
        ({"dates": "year"}, '"dates" must be a list of day, week, month'),
        ({"mask": [2], "character": "**"}, '"character" must be one character'),
        ({"mask": False}, '"mask" must be true'),
        ({"ordered": ["a"], "fanout": 1}, '"fanout" must be a whole number, 2 or more'),
        ({"grouped": [1.5]}, '"grouped" must be'),
        ({"enum": "grade"}, '"enum" must be true'),
        ({"table": ""}, '"table" must be the name of a table'),
        ({"tree": {"*": "abc"}}, "cannot be read"),
        ({"tree": {"*": [None]}}, "cannot be read"),
        ({"tree": {"*": [{"a": []}]}}, "cannot be read"),
        ({"tree": {"*": [True]}}, "cannot be read"),
        ({"tree": [["a"]]}, "cannot be read"),
        ({"tree": ["ab"]}, "cannot be read"),
        ({"levels": [["a", None]]}, '"levels" must be'),
        ([["a", "*"]], "must be a JSON object"),
        (7, "must be a JSON object"),
        ("{", "not valid JSON"),
    ],
)
def test_invalid_specifications_are_refused(source: Any, message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse(source, files=False)
    assert message in str(caught.value)
    with pytest.raises(InvalidParameter, match=r'^Column "x": '):
        parse_all({"x": source}, files=False)


def test_a_deep_tree_is_refused_not_a_crash() -> None:
    tree: Any = []
    for _ in range(50_000):
        tree = {"x": tree}
    with pytest.raises(InvalidParameter, match="cannot be read"):
        parse({"tree": tree}, files=False)


def test_the_error_of_a_broken_tree_lists_all_problems_without_labels() -> None:
    with pytest.raises(HierarchyBroken) as caught:
        parse_all({"x": {"levels": [["a", "b", "*"], ["a", "c", "*"], ["d", "e"]]}}, files=False)
    assert str(caught.value).startswith('Column "x": The hierarchy is not a tree: 2 problems.')
    kinds = {
        problem.kind for problem in caught.value.problems if isinstance(problem, HierarchyProblem)
    }
    assert kinds == {"second parent", "second root"}


def frame(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 4000, n), "D")
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, n),
            "zip": [f"{x:05}" for x in rng.integers(23000, 23999, n)],
            "born": days,
            "ill": rng.choice(["a", "b", "c"], n),
            "cost": rng.choice([5, 10, 100], n),
        }
    )


BUILT: dict[str, HierarchySource] = {
    "age": {"intervals": [5, 20]},
    "zip": {"mask": [4, 2]},
    "born": {"dates": ["year", "5y"]},
}


def test_builders_take_a_frames_values() -> None:
    columns = frame()[["age", "zip"]]
    by_hand = {
        "age": hierarchy_builders.intervals([str(x) for x in sorted(set(columns.age))], [5, 20]),
        "zip": hierarchy_builders.prefixes(list(columns.zip), [4, 2]),
    }
    built = {name: BUILT[name] for name in by_hand}
    classes = dbanon.partition(columns, 4, method="gaa_cp", hierarchies=built)
    same = dbanon.partition(columns, 4, method="gaa_cp", hierarchies=by_hand)
    assert (classes.labels == same.labels).all()
    loss = dbanon.generalization_loss(columns, classes, hierarchies=built)
    assert loss == dbanon.generalization_loss(columns, classes, hierarchies=by_hand)


def test_a_release_of_a_frame_with_builders() -> None:
    original = frame()
    model = dbanon.Model("t_closeness", "cost", 0.5, distance={"intervals": [20]})
    released, report = dbanon.anonymize_frame(
        original,
        quasi_identifiers=["age", "zip", "born"],
        sensitive=["cost"],
        k=4,
        method="gaa_cp",
        hierarchies=BUILT,
        models=[model],
    )
    assert released.groupby(["age", "zip", "born"]).size().min() >= 4
    assert report.models[0].achieved <= 0.5 + 1e-9
    assert set(released.zip.str.count(r"\*")) <= {0, 1, 3, 5}
    assert report.arguments["hierarchies"]["zip"]["height"] == 3


def test_hierarchies_of_unknown_columns_are_refused(tmp_path: Path) -> None:
    columns = frame()[["age"]]
    for hierarchies in ({"agee": {"intervals": [5]}}, {"agee": LUNGS}):
        with pytest.raises(InvalidParameter, match="does not name a quasi-identifier"):
            dbanon.partition(columns, 4, method="gaa_cp", hierarchies=hierarchies)
    with pytest.raises(InvalidParameter, match='Column "age": A value is not a date'):
        dbanon.partition(columns, 4, method="gaa_cp", hierarchies={"age": {"dates": ["year"]}})
    with pytest.raises(InvalidParameter, match="read from a database"):
        dbanon.partition(columns, 4, method="gaa_cp", hierarchies={"age": {"enum": True}})


def test_a_models_hierarchy_must_be_known_when_it_is_measured() -> None:
    model = dbanon.Model("t_closeness", "cost", 0.5, distance="name:cost")
    with pytest.raises(InvalidParameter, match="not been read"):
        model.is_satisfied(np.array([[1, 2]]), np.array([0.5, 0.5]))
    with pytest.raises(InvalidParameter, match="does not exist"):
        dbanon.Model("t_closeness", "cost", 0.5, distance="orderd")
