"""Classes that are released alike keep to the models as one, on what the databases count."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import dbanon
from dbanon.errors import RecountFailed
from dbanon.run import run
from tests.stores.databases import Database
from tests.stores.model_evaluator import counted, reached

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

ILLS = ["flu", "cough", "gastritis", "asthma", None]
DELTA = dbanon.Model("delta_disclosure", "ill", 1.0)


def load(database: Database, seed: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    kind = "bigint" if wide else "integer"
    columns = {"id": "integer PRIMARY KEY", "age": kind, "ill": database.types["text"]}
    rows = [
        (
            i + 1,
            int(rng.integers(20, 60)) // (10 if wide else 1) + wide * 2**60,
            ILLS[rng.choice(5, p=[0.45, 0.25, 0.1, 0.1, 0.1])],
        )
        for i in range(120)
    ]
    database.load(f"people{seed}", columns, rows)


@pytest.mark.parametrize("released", ["labels", "means of wide numbers"])
def test_delta_of_what_is_written(database: Database, released: str) -> None:
    refused = 0
    wide = released != "labels"
    options: dict[str, Any] = {
        "quasi_identifiers": ["age"],
        "sensitive": ["ill"],
        "models": [DELTA],
    } | ({"method": "mdav"} if wide else {"method": "gaa_cp", "steps": {"age": 10}})
    for seed in (0, 3):
        load(database, seed, wide)
        options["table"] = f"people{seed}"
        report = database.anonymize(**options, output=f"release.people{seed}")
        relation = database.relation(f"release.people{seed}")
        classes = counted(database.rows, relation, ["age"], "ill")
        level_reached = reached("delta_disclosure", classes)
        assert level_reached <= 1 + 1e-9
        assert report.models[0].achieved == pytest.approx(level_reached)
        assert report.classes == len(classes)
        [model] = dbanon.verify(database.url, f"release.people{seed}").models
        assert model.counted == pytest.approx(level_reached)
        with mock.patch.object(run, "_merge_indistinguishable_classes", lambda *args: args[-1]):
            try:
                database.anonymize(**options, output=f"release.without{seed}")
            except RecountFailed:
                refused += 1
    assert refused, "without this step no release would have been refused"
