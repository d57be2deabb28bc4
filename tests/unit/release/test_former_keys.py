"""JSON keys and attributes that got a readable name have their former name beside it until 1.0."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.advice.nulls import NullChoice
from dbanon.data.words import FORMER_KEYS, also_under_former_key, read_key_or_former_key
from dbanon.release.words import describe_attacks, describe_counts, describe_nearness

POINTS = np.random.default_rng(3).normal(size=(60, 2))


def _with_disclosive_column() -> dbanon.FrameReport:
    frame = pd.DataFrame({"age": range(60), "copy": range(60), "ill": ["a", "b", "c"] * 20})
    with pytest.warns(dbanon.errors.KeptColumnTells):
        _, report = dbanon.anonymize_frame(
            frame, quasi_identifiers=["age"], keep=["copy"], sensitive=["ill"], k=4
        )
    return report


def test_a_report_has_both_keys() -> None:
    report = _with_disclosive_column()
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["disclosive_columns"] == plain["telling"] != []
    assert plain["lost_columns"] == plain["lost"] == []
    arguments = plain["arguments"]
    assert arguments["disclosive_columns"] == arguments["telling"] != []
    assert report.disclosive_columns == report.telling
    assert report.lost_columns == report.lost


def test_counts_by_the_method_have_both_keys() -> None:
    frame = pd.DataFrame(POINTS, columns=["a", "b"])
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=["a", "b"], k=4, method="dcm")
    counts = report.arguments["method_counts"]
    assert counts == report.arguments["told"] == report.method_counts != {}
    classes = dbanon.partition(POINTS, 4, method="dcm")
    assert dict(classes.told) == dict(classes.method_counts) == dict(counts)


@pytest.mark.filterwarnings("ignore::dbanon.errors.NotDifferentiallyPrivate")
def test_notes_on_synthetic_rows_have_both_names() -> None:
    synthetic = dbanon.synthesize(
        POINTS, method="dcmdp", k=8, epsilon=1.0, guarantee="as_published"
    )
    assert synthetic.method_notes == synthetic.told != ()


def test_a_bound_has_both_keys() -> None:
    certificate = dbanon.certificate(POINTS, 4, seconds=5)
    plain = certificate.to_dict()
    assert plain["method"] == plain["way"] == certificate.method == certificate.way


def test_attacks_have_both_keys() -> None:
    frame = pd.DataFrame(POINTS, columns=["a", "b"])
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=["a", "b"], k=4, evaluate=True, attacks=True
    )
    assert report.evaluation is not None
    attacks = report.evaluation["attacks"]
    assert attacks["results"] == attacks["found"] != {}


def test_advice_has_both_keys() -> None:
    plain = NullChoice("category", 0.0, {"category": 0.25, "suppress": 0.5}).to_dict()
    assert plain["loss_shares"] == plain["lost"] == {"category": 0.25, "suppress": 0.5}
    frame = pd.DataFrame({"age": range(300), "town": [i % 7 for i in range(300)]})
    singling = dbanon.advise(frame, k=[5], quasi_identifiers=["age", "town"]).to_dict()["singling"]
    assert singling["chosen"]["unique"] == singling["chosen"]["alone"]
    assert singling["unique_share_drops"] == singling["falls"] != {}


@pytest.mark.parametrize("names", [["former"], ["present"], ["former", "present"]])
def test_entries_of_earlier_versions_are_read(names: list[str]) -> None:
    """Texts from arguments that have the former key alone, the present key alone, or both."""

    def entry(key: str, value: Any) -> dict[str, Any]:
        return {{"former": FORMER_KEYS[key], "present": key}[name]: value for name in names}

    assert read_key_or_former_key(entry("disclosive_columns", [1]), "disclosive_columns") == [1]
    pairs = describe_counts(entry("method_counts", {"core points": 7}))
    assert pairs[-1][1] == "core points: 7"
    assert "(pairs)" in describe_nearness({"above": 0.1, **entry("method", "pairs")})
    attack = {"risk": None, "note": "too few"}
    figures = {"attacks": {**entry("results", {"singling_out": attack}), "linked": [["a"], ["b"]]}}
    assert any("none: too few" in text for _, text in describe_attacks(figures))


def test_each_former_key_is_another_word() -> None:
    for key, former in FORMER_KEYS.items():
        assert also_under_former_key(key, 1) == {key: 1, former: 1}
        assert key != former
