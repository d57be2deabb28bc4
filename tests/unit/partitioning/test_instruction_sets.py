"""Mixed data has the same classes by every instruction set: each method, and each refinement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon import kernels
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import REFINEMENTS

N, K = 420, 4
# dcm forms a single class here; the others take seconds, and only use points.
LEFT_OUT = ("dcm", "genetic", "two_step")
CURVES = [
    (method.name, refine)
    for method in dbanon.METHODS.values()
    if (method.takes_categories or method.takes_points) and method.name not in LEFT_OUT
    for refine in (None, *(REFINEMENTS if method.refine else ()))
    if refine is None or method.name in ("gaa_cp", "mdav")
]


@pytest.fixture(autouse=True)
def level_stays() -> Iterator[None]:
    before = kernels.simd_level()
    yield
    kernels.set_simd_level(before)


def table(seed: int) -> pd.DataFrame:
    """Numbers that tie, leaves of an even and of an uneven tree, categories few and many."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, N),
            "income": np.round(rng.lognormal(9, 1, N), -2),
            "place": np.array([f"{i:03d}" for i in range(400)])[rng.integers(0, 400, N) // 2],
            "illness": np.array([f"i{i}" for i in range(40)])[rng.integers(0, 40, N)],
            "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
            "job": np.array([f"j{i}" for i in range(90)])[np.minimum(rng.geometric(0.08, N), 89)],
        }
    )


def trees() -> dict[str, Hierarchy]:
    places = [[f"{i:03d}", f"{i // 10}.", f"{i // 100}..", "*"] for i in range(400)]
    illnesses = [[f"i{i}", *([f"of {i // 7}"] if i % 3 else []), "*"] for i in range(40)]
    levels_by_name = {"place": places, "illness": illnesses}
    return {name: Hierarchy.from_levels(rows) for name, rows in levels_by_name.items()}


@pytest.mark.parametrize(("method", "refine"), CURVES)
def test_classes_are_the_same(method: str, refine: str | None) -> None:
    frame, hierarchies = table(7), trees()
    options: dict[str, Any] = {"seed": 3}
    if refine not in (None, "pass"):
        options["refine_iterations"] = 60
    if dbanon.METHODS[method].suppresses_cells:
        hierarchies = {}
    if not dbanon.METHODS[method].takes_categories:
        options["recoding"] = "representative"
    labels_by_level = {}
    for level in kernels.simd_levels():
        kernels.set_simd_level(level)
        partition = dbanon.partition(
            frame, K, method=method, refine=refine, hierarchies=hierarchies, **options
        )
        labels_by_level[level] = partition.labels
    first, *others = labels_by_level.values()
    assert first.max() > 5
    for other in others:
        np.testing.assert_array_equal(first, other)
