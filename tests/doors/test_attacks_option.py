"""Attacks as an option of a release: who gets the figures, and who does not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter
from dbanon.stores.postgresql.summary import _readable_evaluation

NAMES = {"singling_out", "linkability", "attribute_inference"}


def people(n: int) -> pd.DataFrame:
    """Numbers and a category, with an outlier."""
    rng = np.random.default_rng(4)
    age = rng.normal(size=n).round(3)
    return pd.DataFrame(
        {"age": age, "height": (age + rng.normal(size=n)).round(3), "job": rng.choice([*"abc"], n)}
    )


@pytest.fixture(scope="module")
def report() -> dbanon.FrameReport:
    frame = people(200)
    frame.loc[3, "age"] = 98765.4
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame), k=4, method="gaa_cp", evaluate=True, attacks=True
    )
    return report


def test_figures_are_in_the_report_and_in_its_json(report: dbanon.FrameReport) -> None:
    assert report.evaluation is not None
    attacks = json.loads(json.dumps(report.to_dict()))["evaluation"]["attacks"]
    assert set(attacks["results"]) == NAMES
    assert (attacks["originals"], attacks["controls"], attacks["released"]) == (100, 100, 100)
    linked = attacks["results"]["linkability"]
    assert linked["interval"][0] <= linked["risk"] <= linked["interval"][1]
    # A guess among at least four equal rows.
    assert linked["attack"] <= 0.5
    assert "linkability" in str(report)
    assert "98765" not in json.dumps(attacks)


def test_the_page_has_them_with_their_intervals(report: dbanon.FrameReport, tmp_path: Path) -> None:
    assert report.evaluation is not None
    report.page(str(tmp_path / "people.html"))
    page = (tmp_path / "people.html").read_text(encoding="utf-8")
    section = page.partition('id="attacks"')[2].partition("</section>")[0]
    low, high = report.evaluation["attacks"]["results"]["attribute_inference"]["interval"]
    assert f"{low:.3f} to {high:.3f}" in section
    assert "not for publication" in section


def test_readers_of_a_release_get_none_of_it(report: dbanon.FrameReport) -> None:
    published = json.loads(str(_readable_evaluation(report.evaluation, 4)))
    assert "linkage_risk" in published["risks"]
    assert "attacks" not in published


def test_half_of_too_few_records_fails_the_attacks_alone() -> None:
    frame = people(9)
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame), k=5, method="gaa_cp", evaluate=True, attacks=True
    )
    assert report.evaluation is not None
    assert report.evaluation["attacks"] == {
        "failed": "Half of the records are too few for a class."
    }
    assert "NOT ATTACKED" in str(report)


def test_attacks_need_an_evaluation() -> None:
    with pytest.raises(InvalidParameter, match="part of an evaluation"):
        dbanon.anonymize_frame(people(20), quasi_identifiers=["age"], k=3, attacks=True)


def test_without_the_option_no_attacks_are_run() -> None:
    _, report = dbanon.anonymize_frame(
        people(40), quasi_identifiers=["age", "height"], k=3, evaluate=True
    )
    assert report.evaluation is not None
    assert "attacks" not in report.evaluation
    assert "attacks" not in report.seconds


def test_rows_of_a_person_stay_in_the_same_half() -> None:
    """If persons were in both halves, attacks would succeed on controls as on members."""
    single_rows = people(200)
    frame = single_rows.loc[single_rows.index.repeat(4)].reset_index(drop=True)
    frame["who"] = frame.index // 4
    options = {"k": 2, "method": "gaa_cp", "evaluate": True, "attacks": True}
    attributes = list(single_rows)
    _, several = dbanon.anonymize_frame(
        frame, quasi_identifiers=attributes, entity="who", **options
    )
    _, single_report = dbanon.anonymize_frame(single_rows, quasi_identifiers=attributes, **options)
    assert several.evaluation is not None
    assert single_report.evaluation is not None
    repeated_risks, single_risks = (
        report.evaluation["attacks"]["results"] for report in (several, single_report)
    )
    assert several.evaluation["attacks"]["controls"] == 400
    for name in ("linkability", "attribute_inference"):
        assert repeated_risks[name]["risk"] > single_risks[name]["risk"] - 0.1, name


def test_sets_of_columns_make_the_classes_of_the_half_coarser_too() -> None:
    frame = people(400)
    options = {"quasi_identifiers": list(frame), "k": 2, "evaluate": True, "attacks": True}
    inferences = []
    for more in ({}, {"also_k": [{"columns": ["age"], "k": 50}]}):
        _, report = dbanon.anonymize_frame(frame, method="gaa_cp", **options, **more)
        assert report.evaluation is not None
        inferences.append(report.evaluation["attacks"]["results"]["attribute_inference"])
    assert inferences[0] != inferences[1]


def test_small_strata_are_omitted_without_a_count() -> None:
    frame = people(60).assign(site=["m"] * 53 + ["f"] * 7)
    options = {"quasi_identifiers": ["age", "height"], "k": 5, "evaluate": True, "attacks": True}
    _, report = dbanon.anonymize_frame(frame, by=["site"], **options)
    assert report.evaluation is not None
    attacks = report.evaluation["attacks"]
    assert set(attacks["results"]) == NAMES
    assert attacks["originals"] + attacks["controls"] in (53, 52)


def test_the_reason_for_missing_figures_contains_no_count() -> None:
    """The only record with another illness is in the half, or else the half satisfies no model."""
    reasons = set()
    for row in range(4):
        frame = people(40).assign(ill="flu")
        frame.loc[row, "ill"] = "gout"
        _, report = dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["age", "height"],
            k=3,
            sensitive=["ill"],
            evaluate=True,
            attacks=True,
            models=[dbanon.Model("distinct_l", "ill", 2)],
        )
        assert report.evaluation is not None
        reasons.add(report.evaluation["attacks"].get("failed"))
    assert len(reasons) == 2
    [failed] = reasons - {None}
    assert "cannot be released with the same options: " in failed
    assert not any(letter.isdigit() for letter in failed)
