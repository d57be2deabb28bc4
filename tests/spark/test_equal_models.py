"""Privacy models on Spark: by the table's distribution, with blocks that can satisfy them."""

from __future__ import annotations

import numpy as np
import pytest

import dbanon
import dbanon.spark
from dbanon import Model
from dbanon.errors import InvalidParameter, ModelInfeasible
from tests.spark.test_equal_local import both, in_files, table

ARGUMENTS = {"quasi_identifiers": ["x", "z"], "sensitive": ["illness"], "k": 4, "block_size": 1000}
TWO = Model("distinct_l", "illness", 2)
NEAR = Model("t_closeness", "illness", 0.4, distance="equal")

CASES = {
    "means": ARGUMENTS | {"models": [TWO], "refine": "pass"},
    "generalization": ARGUMENTS
    | {"quasi_identifiers": ["x", "z", "place"], "method": "gaa_cp", "models": [TWO, NEAR]},
    "strata": ARGUMENTS | {"models": [NEAR], "by": ["region"], "k": 5},
    "persons": ARGUMENTS
    | {"models": [TWO], "entity": "person", "block_size": 800, "refine": "pass"},
}


@pytest.mark.parametrize(
    "name",
    ["generalization", "persons"]
    + [pytest.param(name, marks=pytest.mark.campaign) for name in ("means", "strata")],
)
def test_models_as_on_one_machine(spark, name, tmp_path):
    _, report = both(spark, table(6000), tmp_path, **CASES[name])
    assert len(report.models) == len(CASES[name]["models"])


def told_by_x(n: int = 3000):
    """A sensitive value determined by a quasi-identifier: blocks have one or two values."""
    frame = table(n)
    frame["x"] *= 100
    bins = np.searchsorted(np.quantile(frame["x"], np.linspace(0.1, 0.9, 9)), frame["x"])
    frame["illness"] = np.array(list("abcdefghij"), object)[bins]
    return frame


@pytest.mark.parametrize("method", ["mdav", pytest.param("gaa_cp", marks=pytest.mark.campaign)])
def test_blocks_that_fail_join_others(spark, method, tmp_path):
    options = ARGUMENTS | {"models": [Model("distinct_l", "illness", 4)], "method": method}
    _, report = both(spark, told_by_x(), tmp_path, **options | {"block_size": 300})
    # A block of 300 rows has two or three values.
    assert report.models[0].achieved >= 4


def test_requirements_that_the_table_cannot_meet_are_refused(spark, tmp_path):
    rows = in_files(spark, table(3000), tmp_path)
    with pytest.raises(ModelInfeasible, match="distinct_l"):
        dbanon.spark.anonymize(
            rows, key=["id"], **ARGUMENTS | {"models": [Model("distinct_l", "illness", 5)]}
        )


def test_models_that_classes_do_not_keep_together_are_refused(spark, tmp_path):
    rows = in_files(spark, table(600), tmp_path)
    for more in (
        {"models": [Model("delta_disclosure", "illness", 1.0)]},
        {"models": [TWO], "method": "gaa_cp", "refine": "fast"},
    ):
        with pytest.raises(InvalidParameter, match="Spark does not have"):
            dbanon.spark.anonymize(rows, key=["id"], **ARGUMENTS | more)
