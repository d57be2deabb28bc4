"""The recount of privacy models: a single failing class refuses a release."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.errors import RecountFailed
from dbanon.measures import Model
from dbanon.measures.recount import require_models

# Levels that the class [2, 2] reaches and the class [3, 1] does not.
LEVELS = {
    "distinct_l": 2,
    "entropy_l": 1.9,
    "recursive_cl": 2,
    "alpha_k": 0.5,
    "t_closeness": 0.01,
    "beta_likeness": 0.01,
    "delta_disclosure": 0.01,
}
EVEN, UNEVEN, HOMOGENEOUS = [2, 2], [3, 1], [4, 0]


def recount(kind: str, *classes: list[int], persons: bool = False) -> float:
    counts = np.array(classes)
    sizes = counts.sum(axis=1) if persons else None
    [level] = require_models([Model(kind, "ill", LEVELS[kind])], {"ill": counts}, sizes)
    return level.achieved


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("kind", ["distinct_l", "entropy_l", "recursive_cl", "alpha_k"])
def test_one_failing_class_is_enough(kind: str, persons: bool) -> None:
    recount(kind, EVEN, EVEN, EVEN, persons=persons)
    failing = HOMOGENEOUS if kind == "distinct_l" else UNEVEN
    for position in range(3):
        classes = [EVEN, EVEN, EVEN]
        classes[position] = failing
        with pytest.raises(RecountFailed, match=r"^1 of 3 counted classes violate"):
            recount(kind, *classes, persons=persons)


@pytest.mark.parametrize("kind", ["t_closeness", "beta_likeness", "delta_disclosure"])
def test_one_class_unlike_the_table_is_enough(kind: str) -> None:
    """The larger class has the distribution of the table, almost."""
    recount(kind, [200, 200], [2, 2])
    with pytest.raises(RecountFailed, match=r"^1 of 2 counted classes violate"):
        recount(kind, [200, 200], [3, 1])


def test_every_model_is_counted() -> None:
    """A class that fails the second model fails the release, though the first one holds."""
    models = [Model("distinct_l", "ill", 2), Model("alpha_k", "ill", 0.6)]
    counts = {"ill": np.array([EVEN, UNEVEN])}
    require_models(models[:1], counts)
    with pytest.raises(RecountFailed, match=r"^1 of 2 counted classes violate alpha_k"):
        require_models(models, counts)


def test_recursive_diversity_fails_at_equality() -> None:
    """Its definition is r_1 < c (r_l + ...): with 3 and 1, c = 3 fails and any larger c holds."""
    counts, table = np.array([[3, 1], [6, 2], [4, 2]]), np.array([13 / 18, 5 / 18])
    exactly, slightly_above = 3.0, np.nextafter(3.0, 4.0)
    for level, expected in ((exactly, [False, False, True]), (slightly_above, [True] * 3)):
        model = Model("recursive_cl", "ill", level, l=2)
        assert model.is_satisfied(counts, table).tolist() == expected
        assert model.is_satisfied(counts, table, counts.sum(axis=1)).tolist() == expected
    with pytest.raises(RecountFailed, match=r"^2 of 3 counted classes"):
        require_models([Model("recursive_cl", "ill", exactly, l=2)], {"ill": counts})
