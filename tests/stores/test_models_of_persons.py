"""Privacy models with an entity, on random tables: counted over persons, as a brute force says."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.errors import ModelInfeasible, RecountFailed, TooFewRecords
from dbanon.measures.recount import require_models
from tests.conftest import CAMPAIGN
from tests.stores.model_evaluator import in_order
from tests.stores.person_evaluator import (
    Class,
    choices,
    diversity,
    equal_distance,
    least_diverse,
    ordered_distance,
    reached,
    tree_distance,
)

TREE = dbanon.Hierarchy.from_levels(
    [["0", "low", "*"], ["7", "low", "*"], ["14", "high", "*"], ["21", "high", "*"]]
)
PATHS = {
    int(leaf): [leaf, above, "*"]
    for leaf, above in (("0", "low"), ("7", "low"), ("14", "high"), ("21", "high"))
}
PATHS[None] = ["NULL", "NULL", "*"]
LEVELS = {
    "distinct_l": st.integers(1, 3),
    "entropy_l": st.floats(1, 1.7),
    "recursive_cl": st.floats(1, 8),
    "equal": st.floats(0.1, 0.9),
    "ordered": st.floats(0.05, 0.9),
    "hierarchical": st.floats(0.1, 0.9),
    "alpha_k": st.floats(0.5, 1),
    "beta_likeness": st.floats(0.2, 2),
    "delta_disclosure": st.floats(0.3, 3),
}
AT_LEAST = ("distinct_l", "entropy_l")
DISTANCES: dict[str, Any] = {"equal": "equal", "ordered": "ordered", "hierarchical": TREE}


def far_of(kind: str, values: list[Any]) -> dict[tuple[Any, Any], float]:
    if kind == "hierarchical":
        return tree_distance({value: PATHS[value] for value in values})
    return ordered_distance(values) if kind == "ordered" else equal_distance(values)


def level_of(kind: str, classes: list[Class]) -> float:
    values = in_order(
        {v for members in classes for person_values in members.values() for v in person_values}
    )
    return reached("t_closeness" if kind in DISTANCES else kind, classes, far_of(kind, values))


def table_of(seed: int, n: int, persons: int, most: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = 7 * rng.integers(0, most, n).astype(float)
    ill[ill == 28] = np.nan
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "who": rng.integers(0, persons, n) * 3 - 7,
            "age": rng.integers(0, 20, n),
            "site": rng.integers(0, 2, n),
            "ill": pd.array(ill, dtype="Int64"),
        }
    )


def classes_of(out: pd.DataFrame, frame: pd.DataFrame, columns: list[str]) -> list[Class]:
    who = dict(zip(frame.id, frame.who, strict=True))
    classes: dict[Any, Class] = defaultdict(lambda: defaultdict(set))
    for *key, row, ill in out[[*columns, "id", "ill"]].itertuples(index=False, name=None):
        classes[tuple(key)][who[row]].add(None if ill is pd.NA else int(ill))
    return [dict(members) for members in classes.values()]


@pytest.mark.parametrize("kind", LEVELS)
@given(data=st.data())
# Nine classes of each kind: all models counted in persons share the counts.
@settings(max_examples=60 if CAMPAIGN else 15, deadline=None)
def test_every_class_keeps_to_it_over_persons(kind: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(8, 40))
    persons, most = data.draw(st.integers(4, 30)), data.draw(st.integers(2, 5))
    by = data.draw(st.sampled_from([[], [], ["site"]]))
    withhold = data.draw(st.sampled_from([0.0, 0.0, 0.3]))
    frame = table_of(data.draw(st.integers(0, 10**6)), n, persons, most)
    level = data.draw(LEVELS[kind])
    model_kind = "t_closeness" if kind in DISTANCES else kind
    model = dbanon.Model(model_kind, "ill", level, distance=DISTANCES.get(kind, "equal"))
    try:
        out, report = dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["age"],
            sensitive=["ill"],
            keep=["id"],
            entity="who",
            by=by,
            k=2,
            method="gaa_cp",
            models=[model],
            withhold_failing=withhold > 0,
            max_suppression=withhold,
        )
    except TooFewRecords:
        event("too few")
        return
    except ModelInfeasible:
        event("infeasible")
        one_class = classes_of(frame.assign(age=0), frame, ["age"])
        level_reached = level_of(kind, one_class)
        assert by or (
            level_reached < level + 1e-6 if kind in AT_LEAST else level_reached > level - 1e-6
        )
        return
    if not len(out):
        return
    classes = classes_of(out, frame, ["age", *by])
    level_reached = level_of(kind, classes)
    assert level_reached >= level - 1e-6 if kind in AT_LEAST else level_reached <= level + 1e-6
    [recorded] = report.models
    assert recorded.achieved == pytest.approx(level_reached, abs=1e-8)
    assert recorded.model == f"{model.describe()}, counted in persons"
    assert recorded.model in report.guarantee.replace(" in each class", "")
    assert report.arguments["models"][0]["counted_in"] == "persons"


SETS = st.lists(st.sets(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", ["distinct_l", "entropy_l", "recursive_cl", "alpha_k"])
@given(person_values=SETS, l=st.integers(2, 3))
@settings(max_examples=100, deadline=None)
def test_the_level_holds_whichever_value_is_looked_at(
    kind: str,
    person_values: list[set[int]],
    l: int,  # noqa: E741
) -> None:
    """The level that person identifiers give is no better than any choice of one value a person."""
    members = dict(enumerate(person_values))
    counts = np.zeros((1, 5), np.int64)
    for values in person_values:
        counts[0, list(values)] += 1
    model = dbanon.Model(kind, "ill", 1 if kind == "alpha_k" else 2, l=l)
    level_reached = model.reached_level(
        counts, counts[0] / len(person_values), np.array([len(person_values)])
    )
    assert level_reached == pytest.approx(diversity(kind, least_diverse(members), l))
    levels = [diversity(kind, chosen, l) for chosen in choices(members)]
    if kind in AT_LEAST:
        assert level_reached <= min(levels) + 1e-9
    else:
        assert level_reached >= max(levels) - 1e-9
    if all(len(values) == 1 for values in person_values):
        assert level_reached == pytest.approx(levels[0])


def test_entropy_of_classes_with_equal_released_values() -> None:
    """Each keeps to it, both together do not: the release is refused, and says what helps."""
    counts = np.array([[10, 10, 10, 10, 10, 10], [83, 5, 4, 4, 4, 0]])
    persons = np.array([20, 100])
    overall = counts.sum(axis=0) / persons.sum()
    level = 1.99
    model = dbanon.Model("entropy_l", "ill", level)
    assert model.is_satisfied(counts, overall, persons).all()
    together = counts.sum(axis=0, keepdims=True)
    assert not model.is_satisfied(together, overall, persons.sum(keepdims=True)).any()
    with pytest.raises(RecountFailed, match="violate") as failure:
        require_models([model], {"ill": together}, persons.sum(keepdims=True))
    assert "same released values" in str(failure.value)
