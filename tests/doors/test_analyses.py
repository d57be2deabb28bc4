"""Analyses of readers in Python: tables of any kind, files with problems, results."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dbanon
from dbanon.errors import (
    AnalysesInvalid,
    ColumnNotFound,
    InvalidParameter,
    NonFiniteValue,
    UnsupportedType,
)

DRAW = np.random.default_rng(4)
N = 300
FRAME = pd.DataFrame(
    {
        "age": DRAW.integers(18, 90, N),
        "sex": DRAW.choice(["f", "m"], N),
        "town": DRAW.choice(["a1", "a2", "b1", "b2"], N),
        "income": DRAW.lognormal(8, 0.4, N).round(),
        "code": DRAW.integers(1, 4, N),
        "w": DRAW.integers(1, 9, N).astype(float),
    }
)
FRAME["vote"] = np.where(DRAW.uniform(size=N) < FRAME["age"] / 90, "yes", "no")
TREE = dbanon.Hierarchy.from_nested({"*": {"a": ["a1", "a2"], "b": ["b1", "b2"]}})
EVERYTHING: dict[str, Any] = {
    "weight": "w",
    "nominal": ["code"],
    "analyses": [
        {"mean": "income", "by": ["sex", "town"]},
        {"total": "income", "by": "code"},
        {"quantiles": "income"},
        {"gini": "income"},
        {"correlation": ["age", "income", "code"]},
        {"table": "code"},
        {"rare": "town", "below": 0.3},
        {"table": ["sex", "town"]},
        {"regression": "income", "on": ["age", "town", "code"]},
        {"regression": "vote", "on": "age", "model": "logistic"},
        {"classify": "vote", "by": ["age", "sex", "code"], "folds": 3},
    ],
}


def compare(original: Any, released: Any, *analyses: Any, **options: Any) -> Any:
    return dbanon.compare_analyses(original, released, list(analyses), **options)


def only(comparison: Any) -> Any:
    """The only analysis, its estimates by name."""
    [analysis] = comparison.analyses
    return {estimate.name: estimate for estimate in analysis.estimates}


# --- the figures ---------------------------------------------------------------------------------


def test_a_table_compared_with_itself_loses_nothing() -> None:
    comparison = dbanon.compare_analyses(FRAME, FRAME, EVERYTHING)
    assert (comparison.original_rows, comparison.released_rows) == (N, N)
    names = [analysis.name for analysis in comparison.analyses]
    assert names[0] == "mean of income by sex, town"
    assert names[4] == "correlation of age, income, code"
    assert names[6] == "rare categories of town"
    assert names[7] == "table of sex by town"
    assert names[9] == "logistic regression of vote on age"
    for analysis in comparison.analyses:
        assert (analysis.original_rows, analysis.released_rows) == (N, N)
        for estimate in analysis.estimates:
            if analysis.kind != "classify" or "seen" in estimate.name:
                assert estimate.difference == pytest.approx(0, abs=1e-12), estimate
                assert estimate.overlap in (None, pytest.approx(1))


def test_the_order_of_rows_and_copies_of_them_change_nothing() -> None:
    shuffled = FRAME.sample(frac=1, random_state=1)
    twice = pd.concat([shuffled, shuffled])
    comparison = dbanon.compare_analyses(FRAME, twice, EVERYTHING)
    for analysis in comparison.analyses:
        for estimate in analysis.estimates:
            if analysis.kind not in ("total", "classify"):
                assert estimate.difference == pytest.approx(0, abs=1e-6), estimate
            if analysis.kind == "total":
                assert estimate.relative_difference == pytest.approx(1)


def test_figures_by_hand() -> None:
    original = pd.DataFrame({"x": [1, 2, 3, 10], "g": ["a", "a", "b", "b"], "w": [1, 1, 1, 1]})
    released = pd.DataFrame({"x": ["[1, 3)", "[1, 3)", "*", None], "g": ["a", "*", "b", "b"]})
    found = compare(original, released, {"mean": "x", "by": "g"})
    assert (found.analyses[0].original_rows, found.analyses[0].released_rows) == (4, 1)
    groups = only(found)
    assert (groups["g = a"].original, groups["g = a"].released) == (1.5, 1.5)
    assert (groups["g = b"].original, groups["g = b"].released) == (6.5, None)
    assert groups["g = b"].note == "no row in the release"
    total = only(compare(original, released, {"total": "x"}))[""]
    assert (total.original, total.released, total.difference) == (16, 3, -13)
    assert total.relative_difference == -13 / 16
    table = only(compare(original, released, {"table": "g"}))["total variation distance"]
    # Half and half, and one to two.
    assert table.difference == pytest.approx(1 / 6)
    assert (table.original, table.released) == (None, None)


def test_weights() -> None:
    original = pd.DataFrame({"x": [1.0, 5.0, 9.0], "w": [3.0, 1.0, None]})
    released = pd.DataFrame({"x": [1.0, 5.0, 9.0], "w": [1.0, 1.0, 0.0]})
    found = dbanon.compare_analyses(
        original, released, {"weight": "w", "analyses": [{"mean": "x"}]}
    )
    assert (found.analyses[0].original_rows, found.analyses[0].released_rows) == (2, 2)
    assert (only(found)[""].original, only(found)[""].released) == (2, 3)
    with pytest.raises(InvalidParameter, match="is negative"):
        dbanon.compare_analyses(original, -released, {"weight": "w", "analyses": [{"mean": "x"}]})
    labelled = original.assign(w="a")
    with pytest.raises(UnsupportedType, match='weight "w" does not hold numbers') as refused:
        dbanon.compare_analyses(labelled, labelled, {"weight": "w", "analyses": [{"mean": "x"}]})
    assert "Name a column of numbers as weight" in str(refused.value)


def test_labels_that_readers_cannot_tell_apart_have_no_coefficients() -> None:
    released = FRAME.assign(town=FRAME["town"].str[0])
    terms = only(
        compare(
            FRAME,
            released,
            {"regression": "income", "on": ["age", "town"]},
            hierarchies={"town": TREE},
        )
    )
    assert terms["age"].released is not None
    towns = [term for name, term in terms.items() if name.startswith("town")]
    assert len(towns) == 3
    assert any(term.note == "release: not determined by the rows" for term in towns)
    assert all(term.original is not None for term in towns)


def test_a_separated_outcome_says_so() -> None:
    released = FRAME.assign(vote=np.where(FRAME["age"] > 50, "yes", "no"))
    term = only(compare(FRAME, released, {"regression": "vote", "on": "age", "model": "logistic"}))
    assert term["age"].released is None
    assert term["age"].note == "release: no finite solution"


def test_the_event_of_a_logistic_regression() -> None:
    def coefficient(**options: Any) -> float:
        analysis = {"regression": "vote", "on": "age", "model": "logistic", **options}
        return float(only(compare(FRAME, FRAME, analysis))["age"].original)

    assert coefficient() == coefficient(event="yes") == pytest.approx(-coefficient(event="no"))
    ones = FRAME.assign(vote=(FRAME["vote"] == "yes").astype(int))
    analysis = {"regression": "vote", "on": "age", "model": "logistic"}
    assert only(compare(ones, ones, analysis))["age"].original == pytest.approx(coefficient())
    for event in (1, 1.0, "1", "1.00"):
        as_code = {**analysis, "event": event}
        assert only(compare(ones, ones, as_code))["age"].original == pytest.approx(coefficient())


def test_errors_do_not_name_the_event() -> None:
    frame = pd.DataFrame({"a": [f"a{i // 2}" for i in range(600)], "y": ["secret", "other"] * 300})
    frame["b"] = [f"b{(i + 1) // 2}" for i in range(600)]
    analysis = {"regression": "y", "on": ["a", "b"], "model": "logistic", "event": "secret"}
    with pytest.raises(InvalidParameter, match="logistic regression of y on a, b has") as refused:
        compare(frame, frame, analysis)
    assert "secret" not in str(refused.value)


def test_the_classifier_of_originals_is_tested_on_persons_that_it_has_not_seen() -> None:
    """Of random classes, a classifier that has seen the persons looks better than it is."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"x": draw.integers(0, 60, 200).astype(str)})
    frame["y"] = draw.choice(["p", "q"], 200)
    analysis = {"classify": "y", "by": "x"}
    found = only(compare(frame, frame, analysis))
    assert found["accuracy"].original < 0.6 < found["accuracy, persons seen"].original
    assert found["accuracy"].released == found["accuracy, persons seen"].original
    assert found["accuracy"].note.startswith("the most frequent class alone: 0.5")
    again = only(compare(frame, frame, analysis, seed=0))
    assert again == found
    assert only(compare(frame, frame, analysis, seed=1))["accuracy"] != found["accuracy"]


def test_a_release_without_rows() -> None:
    comparison = dbanon.compare_analyses(FRAME, FRAME.iloc[:0], EVERYTHING)
    for analysis in comparison.analyses:
        assert analysis.released_rows == 0
        for estimate in analysis.estimates:
            assert estimate.released is None or analysis.kind == "total", estimate
            assert estimate.difference is None
    json.dumps(comparison.to_dict(), allow_nan=False)
    assert str(comparison)


def test_tables_without_rows() -> None:
    no_rows = FRAME.iloc[:0]
    without_logistic = [a for a in EVERYTHING["analyses"] if a.get("model") != "logistic"]
    without_texts = FRAME.assign(sex=None, town=None, vote=None)
    for released in (without_texts, no_rows):
        comparison = dbanon.compare_analyses(
            no_rows, released, {**EVERYTHING, "analyses": without_logistic}
        )
        for analysis in comparison.analyses:
            assert analysis.original_rows == 0
            for estimate in analysis.estimates:
                assert estimate.original is None, estimate
        json.dumps(comparison.to_dict(), allow_nan=False)


# --- tables --------------------------------------------------------------------------------------


def test_releases_of_dbanon_of_each_form() -> None:
    analyses = [{"mean": "age"}, {"table": ["sex", "town"]}]
    options: dict[str, Any] = {"quasi_identifiers": ["age", "sex", "town"], "k": 5}
    for intervals in ("text", "bounds", "midpoint"):
        released, _ = dbanon.anonymize_frame(
            FRAME, **options, method="gaa_cp", hierarchies={"town": TREE}, intervals=intervals
        )
        found = dbanon.compare_analyses(FRAME, released, analyses, hierarchies={"town": TREE})
        assert abs(found.analyses[0].estimates[0].relative_difference) < 0.05, intervals
    means, _ = dbanon.anonymize_frame(FRAME[["age", "code"]], quasi_identifiers=["age"], k=5)
    assert abs(only(compare(FRAME, means, {"mean": "age"}))[""].difference) < 0.5


def test_other_kinds_of_tables() -> None:
    expected = only(compare(FRAME, FRAME[5:], {"mean": "age"}))
    for original, released in (
        (pl.from_pandas(FRAME), pl.from_pandas(FRAME[5:])),
        (FRAME.to_dict("records"), FRAME[5:]),
        (FRAME.astype({"sex": "category"}), FRAME[5:].astype({"age": "float32"})),
    ):
        assert only(compare(original, released, {"mean": "age"})) == expected
    array = FRAME[["age", "income"]].to_numpy(float)
    assert only(compare(array, array[5:], {"mean": "column 0"})) == expected


def test_ordered_texts_and_truth_values() -> None:
    sizes = ["small", "medium", "large"]
    original = pd.DataFrame({"size": sizes * 4, "ill": [True, False] * 6})
    released = pd.DataFrame({"size": ["[small, medium]", "large"] * 6, "ill": [True, False] * 6})
    found = compare(original, released, {"table": ["size", "ill"]}, orders={"size": sizes})
    by_name = only(found)
    # Of one third each, a quarter, a quarter and a half became.
    assert only(compare(original, released, {"table": "size"}, orders={"size": sizes}))[
        "total variation distance"
    ].difference == pytest.approx(1 / 6)
    assert by_name["Cramér's V"].original == pytest.approx(0)
    assert by_name["Cramér's V"].released == pytest.approx(1)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("analysis", "error", "match"),
    [
        ({"mean": "town"}, UnsupportedType, "does not hold numbers"),
        ({"mean": "nothing"}, ColumnNotFound, "nothing"),
        ({"mean": "day"}, UnsupportedType, "which analyses cannot take"),
        (
            {"regression": "town", "on": "age", "model": "logistic"},
            InvalidParameter,
            "has 4 values",
        ),
        (
            {"regression": "town", "on": "age", "model": "logistic", "event": "a3"},
            InvalidParameter,
            "does not hold the event",
        ),
        (
            {"regression": "code", "on": "age", "model": "logistic"},
            UnsupportedType,
            "other than 0 and 1",
        ),
        ({"table": "row"}, InvalidParameter, "has 600 values"),
        ({"mean": "age", "by": ["age", "income"]}, InvalidParameter, "more than 500 groups"),
        ({"regression": "w", "on": ["row2", "row3"]}, InvalidParameter, "coefficients"),
    ],
)
def test_columns_that_do_not_fit(analysis: Any, error: Any, match: str) -> None:
    frame = pd.concat([FRAME, FRAME], ignore_index=True)
    frame["row"] = [f"r{i}" for i in range(2 * N)]
    frame["row2"], frame["row3"] = [f"r{i // 2}" for i in range(2 * N)], frame["row"].str[:3]
    frame["row3"] = [f"s{i // 2}" for i in range(2 * N)]
    frame["day"] = pd.Timestamp("2020-01-01")
    with pytest.raises(error, match=match) as refused:
        compare(frame, frame, analysis)
    assert "r17" not in str(refused.value)
    assert "a1" not in str(refused.value)


def test_synthetic_rows_are_compared_without_pairs() -> None:
    """Fewer rows, in an order of their own: correlations, rare towns, and a single value."""
    towns = ["a"] * 94 + ["b"] * 4 + ["c"] * 2
    original = pd.DataFrame({"x": range(100), "y": range(100), "town": towns, "z": 1})
    released = original.iloc[49:0:-1].assign(town=["a"] * 47 + ["c"] * 2)
    correlations = only(compare(original, released, {"correlation": ["x", "y", "z"]}))
    assert list(correlations) == ["x, y", "x, z", "y, z"]
    assert correlations["x, y"].released == pytest.approx(1)
    assert correlations["x, z"].original is None
    assert correlations["x, z"].note == "a column has a single value"
    rare = only(compare(original, released, {"rare": "town", "below": 0.05}))
    assert (rare["categories"].original, rare["categories"].released) == (2, 1)
    error = rare["mean relative error of their shares"].difference
    assert error == pytest.approx((1 + (2 / 49 / 0.02 - 1)) / 2)
    assert (
        only(compare(original, released, {"rare": "town", "below": 0.01}))[
            "mean relative error of their shares"
        ].note
        == "no category is rare"
    )
    nothing = only(compare(original, released.iloc[:0], {"rare": "town"}))
    assert nothing["categories"].note == "no rows"


def test_a_database_takes_names_of_tables() -> None:
    with pytest.raises(InvalidParameter, match="names of tables"):
        compare(FRAME, FRAME, {"mean": "age"}, database="duckdb:///nothing.duckdb")
    for seed in (-1, True, 1.5):
        with pytest.raises(InvalidParameter, match="seed must be"):
            compare(FRAME, FRAME, {"mean": "age"}, seed=seed)


def problems(text: str, path: Path) -> list[str]:
    (path / "analyses.yaml").write_text(text)
    with pytest.raises(AnalysesInvalid) as refused:
        dbanon.compare_analyses(FRAME, FRAME, path / "analyses.yaml")
    assert refused.value.code == "analyses_invalid"
    assert f"has {len(refused.value.problems)} problem" in refused.value.message
    return [str(problem) for problem in refused.value.problems]


def test_all_problems_of_a_file_with_line_and_key(tmp_path: Path) -> None:
    text = """\
wieght: w
nominal: [code]
analyses:
  - {mean: income, by: [sex, sex]}
  - {quantiles: income, probabilities: [0.1, 1]}
  - {table: [sex, town, code]}
  - {mean: income, total: income}
  - {regresion: income, on: [age]}
  - {regression: income, modell: linear}
  - {regression: income, on: [age], event: yes}
  - {regression: income, on: [income]}
  - {regression: income, on: [age], event: "1"}
  - {classify: vote, by: [age], folds: 1}
  - {classify: vote, by: [vote]}
  - {gini: }
  - {gini: [income]}
  - {correlation: income}
  - {rare: town, below: 1}
"""
    kinds = "mean, total, quantiles, gini, correlation, table, rare, regression, classify"
    assert problems(text, tmp_path) == [
        'line 1: wieght: unknown key; did you mean "weight"?',
        "line 4: analyses.0.by: names a column twice",
        "line 5: analyses.1.probabilities: must be numbers between 0 and 1, as in [0.1, 0.5, 0.9]",
        "line 6: analyses.2.table: must be one column or two",
        f"line 7: analyses.3: must have exactly one of {kinds}",
        f"line 8: analyses.4: must have exactly one of {kinds}",
        'line 9: analyses.5.modell: unknown key; did you mean "model"?',
        "line 9: analyses.5.on: is missing",
        "line 10: analyses.6.event: this is read as true or false by some programs, as text by"
        " others: put it in quotes if it is text, write a number in plain digits, and write a"
        " truth value as true or false",
        "line 11: analyses.7: explains a column by itself: name it only once",
        "line 12: analyses.8: event needs model: logistic",
        "line 13: analyses.9.folds: must be 2 or more",
        "line 14: analyses.10: predicts a column by itself: name it only once",
        "line 15: analyses.11.gini: has no value",
        "line 16: analyses.12.gini: must be text",
        "line 17: analyses.13.correlation: must be two columns or more",
        "line 18: analyses.14.below: must be a number between 0 and 1, as in 0.01",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: is empty"),
        ("5", "line 1: must be a list of analyses, or keys with values: analyses"),
        ("analyses: []", "line 1: analyses: must not be empty"),
        ("weight: w", "line 1: analyses: is missing"),
        ("- {mean: a}\n- {mean: [}", "line 2: is not YAML"),
        ("\n- {mean: 5}", "line 2: analyses.0.mean: must be text"),
        (
            "nominal: [x]\nanalyses: [{mean: a}]",
            "line 1: nominal names a column that is in no analysis",
        ),
    ],
)
def test_a_problem(text: str, problem: str, tmp_path: Path) -> None:
    [found] = problems(text, tmp_path)
    assert found.startswith(problem)


def test_a_list_in_a_file_or_in_python(tmp_path: Path) -> None:
    (tmp_path / "analyses.yaml").write_text("- mean: age\n  by: sex\n")
    of_file = dbanon.compare_analyses(FRAME, FRAME, str(tmp_path / "analyses.yaml"))
    of_python = dbanon.compare_analyses(FRAME, FRAME, ({"mean": "age", "by": ("sex",)},))
    assert of_file.to_dict() == of_python.to_dict()
    with os.scandir(tmp_path) as entries:
        [entry] = entries
    assert dbanon.compare_analyses(FRAME, FRAME, entry).to_dict() == of_python.to_dict()
    with pytest.raises(AnalysesInvalid, match="cannot be read"):
        dbanon.compare_analyses(FRAME, FRAME, tmp_path / "nothing.yaml")
    with pytest.raises(AnalysesInvalid) as refused:
        compare(FRAME, FRAME, {"mean": "age", "by": []})
    assert "analyses.0.by: must be a column, or a list of columns" in (refused.value.detail or "")


# --- the result ----------------------------------------------------------------------------------


def test_the_result_in_each_form() -> None:
    released = FRAME.assign(age=FRAME["age"] // 10 * 10)
    comparison = dbanon.compare_analyses(FRAME, released, EVERYTHING)
    values = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert (
        values["note"]
        == "computed from the originals: for the owner of the data, not for publication"
    )
    assert values["analyses"][8]["estimates"][1]["name"] == "age"
    assert {*values["analyses"][6]["estimates"][1]} == {
        "name", "original", "released", "original_error", "released_error", "overlap", "distance",
        "note", "difference", "relative_difference",
    }  # fmt: skip
    text, page = str(comparison), comparison._repr_html_()
    for form in (text, page.lower()):
        assert "for the owner of the data, not for publication" in form
        assert "linear regression of income on age, town, code" in form
    assert len(comparison.table_rows()) == sum(len(a.estimates) for a in comparison.analyses)
    with pytest.raises(dataclasses.FrozenInstanceError):
        comparison.weight = None
    assert comparison.weight == "w"


def test_labels_are_escaped_in_the_card() -> None:
    frame = FRAME.assign(sex=FRAME["sex"].map({"f": "<script>", "m": "m"}))
    page = compare(frame, frame, {"mean": "age", "by": "sex"})._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_hints_of_frames_name_no_view() -> None:
    infinite = FRAME.assign(income=np.inf)
    with pytest.raises(NonFiniteValue) as error:
        compare(FRAME, infinite, {"mean": "income"})
    assert "Exclude these rows in the data frame" in str(error.value)
