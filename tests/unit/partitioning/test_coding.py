"""Coding before classes are made, against a plain reference: a frame whose values were coded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.schema import Kind
from dbanon.errors import DbanonError, InvalidParameter, TooFewRecords, UnsupportedType
from dbanon.job.policy import Policy
from dbanon.methods import METHODS
from dbanon.partitioning.coding import code_columns
from dbanon.stores.frame.microdata import microdata_from_frame

BORDERS = [0, 18, 30, 45, 65]
LABELS = ["<0", "0-17", "18-29", "30-44", "45-64", "65+"]


def survey(n: int = 200, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, n),
            "rooms": rng.integers(1, 8, n),
            "income": np.round(rng.lognormal(10, 1, n), 2),
            "who": rng.integers(0, n // 3, n),
        }
    )


def label_of(age: int) -> str:
    """The band of an age, in plain code."""
    for low, high, label in zip(BORDERS, BORDERS[1:], LABELS[1:-1], strict=False):
        if low <= age < high:
            return label
    return LABELS[0] if age < BORDERS[0] else LABELS[-1]


def texts(frame: pd.DataFrame, names: list[str]) -> list[tuple[str, ...]]:
    # NULL is None in text columns, and NaN in others.
    values = frame[names].astype(object).where(frame[names].notna(), None)
    return sorted(tuple(map(str, row)) for row in values.to_numpy(object).tolist())


@pytest.mark.filterwarnings("ignore::dbanon.errors.RowsNotAnonymous")
@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if m.max_attributes != 1])
def test_every_method_makes_the_release_of_coded_values(method: str) -> None:
    frame = survey()
    coded = frame.assign(age=[label_of(age) for age in frame["age"]])
    options: dict[str, Any] = {"quasi_identifiers": ["age", "rooms"], "k": 4, "method": method}
    if not METHODS[method].result_type.has_row_classes:
        options["guarantee"] = "per_attribute"
    try:
        expected, expected_report = dbanon.anonymize_frame(coded, orders={"age": LABELS}, **options)
    except DbanonError as error:
        # A method that takes no text with an order refuses coded columns alike.
        with pytest.raises(type(error)):
            dbanon.anonymize_frame(frame, recode={"age": BORDERS}, **options)
        return
    released, report = dbanon.anonymize_frame(frame, recode={"age": BORDERS}, **options)
    assert report.information_loss == expected_report.information_loss
    assert report.k_achieved == expected_report.k_achieved
    if report.loss_measure != "iloss":
        assert texts(released, ["age", "rooms"]) == texts(expected, ["age", "rooms"])
        return
    # Ranges of ranks are the two ends there, and the label of their union here.
    unions = {
        "[<0, 0-17]": "<18",
        "[<0, 65+]": "*",
    } | {
        f"[{low}, {high}]": union
        for low, high, union in [
            ("0-17", "18-29", "0-29"),
            ("0-17", "30-44", "0-44"),
            ("0-17", "45-64", "0-64"),
            ("0-17", "65+", "0+"),
            ("18-29", "30-44", "18-44"),
            ("18-29", "45-64", "18-64"),
            ("18-29", "65+", "18+"),
            ("30-44", "45-64", "30-64"),
            ("30-44", "65+", "30+"),
            ("45-64", "65+", "45+"),
        ]
    }
    expected["age"] = expected["age"].replace(unions)
    assert texts(released, ["age", "rooms"]) == texts(expected, ["age", "rooms"])


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"sensitive": ["ill"], "models": [dbanon.Model("t_closeness", "ill", 0.4)]},
        {"by": ["site"], "refine": "fast"},
        {"entity": "who", "persons": "rows"},
        {"keep": ["ill"], "also_k": [["age", "ill"]], "max_suppression": 0.6},
        {"block_size": 100, "weights": {"age": 2.0}},
        {"standardize": "mahalanobis", "certificate": 1.0},
        {"evaluate": True, "attacks": True, "recoding": "representative"},
        {"evaluate": True, "recoding": "generalization", "intervals": "bounds"},
    ],
)
def test_options_see_coded_values_as_any_text_with_an_order(options: dict[str, Any]) -> None:
    frame = survey()
    frame["ill"] = frame["rooms"].map(lambda rooms: "abcd"[rooms % 4])
    frame["site"] = np.where(frame.index % 2, "north", "south")
    coded = frame.assign(age=[label_of(age) for age in frame["age"]])
    options = {"quasi_identifiers": ["age", "rooms"], "k": 4, "recoding": "median", **options}
    expected, expected_report = dbanon.anonymize_frame(coded, orders={"age": LABELS}, **options)
    released, report = dbanon.anonymize_frame(frame, recode={"age": BORDERS}, **options)
    assert report.information_loss == expected_report.information_loss
    assert report.evaluation == expected_report.evaluation
    assert list(released.columns) == list(expected.columns)
    assert texts(released, list(released.columns)) == texts(expected, list(expected.columns))


@pytest.mark.parametrize("recoding", ["median", "medoid", "representative", "generalization"])
def test_every_recoding_releases_labels(recoding: str) -> None:
    released, report = dbanon.anonymize_frame(
        survey(),
        quasi_identifiers=["age", "rooms"],
        k=4,
        recoding=recoding,
        top={"age": 90},
        bottom={"age": 10},
    )
    assert report.k_achieved >= 4
    for label in set(released["age"]):
        parts = label.removesuffix("+").removeprefix("<").split("-")
        assert all(10 <= int(part) <= 90 for part in parts)
    if recoding != "generalization":
        assert {"90+", "<10"} <= set(released["age"])


def test_thresholds_keep_the_numbers_between_them() -> None:
    frame = survey()
    microdata = code_columns(
        microdata_from_frame(frame, ["income", "age"]),
        Policy(2, top={"age": 90}, recode={"income": [10_000, 50_000.5]}),
    )
    income, age = microdata.attributes
    assert age.kind is income.kind is Kind.ORDINAL
    labels = np.array(age.order)[microdata.numbers[:, 1].astype(int)]
    assert labels.tolist() == [str(x) if x < 90 else "90+" for x in frame["age"]]
    # Ranks differ as the numbers do, so distances are those of the numbers.
    ranks = microdata.numbers[:, 1] - microdata.numbers[:, 1].min()
    assert (ranks == np.minimum(frame["age"], 90) - frame["age"].min()).all()
    assert income.order == ("<10000", "[10000, 50000.5)", "50000.5+")
    bands = np.array(income.order)[microdata.numbers[:, 0].astype(int)]
    assert bands.tolist() == [
        "<10000" if x < 10_000 else "[10000, 50000.5)" if x < 50_000.5 else "50000.5+"
        for x in frame["income"]
    ]


def test_the_side_without_a_threshold_shows_no_smallest_or_largest_value() -> None:
    def first_and_last(values: list[int], **options: Any) -> tuple[str, str]:
        microdata = microdata_from_frame(pd.DataFrame({"age": values}), ["age"])
        [age] = code_columns(microdata, Policy(2, **options)).attributes
        return age.order[0], age.order[-1]

    # Neither depends on the extreme value, nor on a value beyond the threshold.
    for extreme in (21, 27):
        assert first_and_last([extreme, 50, 95, 95], top={"age": 90}) == ("0", "90+")
        assert first_and_last([extreme, 50, 5, 5], bottom={"age": 18}) == ("<18", "99")
    for extreme in (96, 5_000_000):
        assert first_and_last([21, extreme, 95], top={"age": 90}) == ("0", "90+")


def test_null_remains_null() -> None:
    frame = survey().astype({"age": "Int64"})
    frame.loc[frame.index % 4 == 0, "age"] = pd.NA
    released, _ = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age", "rooms"],
        k=4,
        nulls="category",
        recoding="median",
        recode={"age": BORDERS},
    )
    assert released["age"].isna().sum() == 50
    assert set(released["age"].dropna()) <= set(LABELS)


def test_whole_numbers_that_a_frame_holds_as_floats() -> None:
    frame = survey().astype({"age": float})
    frame.loc[::10, "age"] = np.nan
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": 4, "nulls": "category"}
    released, _ = dbanon.anonymize_frame(frame, recode={"age": BORDERS}, **options)
    assert set(released["age"].dropna()) <= set(LABELS)


@pytest.mark.parametrize("entity", [None, "who"])
def test_a_tail_has_k_or_nobody(entity: str | None) -> None:
    frame = survey()
    frame.loc[:, "age"] = np.where(frame["age"] >= 90, 60, frame["age"])
    frame.loc[:3, "age"] = [95, 96, 97, 98]
    frame.loc[:3, "who"] = [1, 1, 2, 3]
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "entity": entity, "k": 4}
    options["keep"] = ["rooms"]
    if entity is None:
        released, _ = dbanon.anonymize_frame(frame, top={"age": 90}, **options)
        assert (released["age"] == "90+").sum() >= 4
        options["k"] = 5
    with pytest.raises(TooFewRecords, match='"age" are at or above its') as caught:
        dbanon.anonymize_frame(frame, top={"age": 90}, **options)
    assert ("persons" if entity else "rows") in str(caught.value)
    # No value is in the text; a tail without rows is no error.
    assert not any(value in str(caught.value) for value in ("95", "96", "97", "98"))
    dbanon.anonymize_frame(frame, top={"age": 99}, **options)


GROUPS = {"North": ["N1", "N2"], "South": ["S1"], "Other": "*"}


def regions(n: int = 200) -> pd.DataFrame:
    frame = survey(n)
    draw = np.random.default_rng(8)
    return frame.assign(region=draw.choice(["N1", "N2", "S1", "E1", "E2"], n))


def group_of(region: str) -> str:
    """The group of a region, in plain code."""
    return {"N1": "North", "N2": "North", "S1": "South"}.get(region, "Other")


@pytest.mark.parametrize("method", ["mdav", "gaa_cp", "mondrian", "full_domain", "kmember"])
def test_groups_give_the_release_of_grouped_values(method: str) -> None:
    frame = regions()
    grouped = frame.assign(region=frame["region"].map(group_of))
    options: dict[str, Any] = {"quasi_identifiers": ["region", "rooms"], "k": 4, "method": method}
    options["recoding"] = None if METHODS[method].recoding == "generalization" else "representative"
    expected, expected_report = dbanon.anonymize_frame(grouped, **options)
    released, report = dbanon.anonymize_frame(frame, recode={"region": GROUPS}, **options)
    assert report.information_loss == expected_report.information_loss
    assert texts(released, ["region", "rooms"]) == texts(expected, ["region", "rooms"])
    assert set(released["region"]) <= {*GROUPS, "*"}
    # The ledger and the report have the names of groups, and no value.
    recorded = {"North": {"values": 2}, "South": {"values": 1}, "Other": "*"}
    assert report.arguments["recode"] == {"region": recorded}
    assert "region (recode North, South, Other)" in str(report)
    assert "N1" not in str(report.to_dict())


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "str", "category"])
def test_groups_of_codes(dtype: str) -> None:
    codes = pd.Series(np.random.default_rng(2).integers(1, 5, 100))
    # A frame holds whole numbers as floats if one of them is NULL.
    column = codes.astype(object).astype(dtype) if dtype != "category" else codes.astype(dtype)
    missing = pd.Series(codes.index % 10 == 3)
    if dtype != "int64":
        column = column.mask(missing)
    released, _ = dbanon.anonymize_frame(
        pd.DataFrame({"walls": column}),
        quasi_identifiers=["walls"],
        k=3,
        nulls="category",
        method="full_domain",
        recode={"walls": {"wood": [1, 2], "brick": ["3", "4"]}},
    )
    present = codes if dtype == "int64" else codes[~missing]
    expected = present.map({1: "wood", 2: "wood", 3: "brick", 4: "brick"}).value_counts()
    assert released["walls"].value_counts().to_dict() == expected.to_dict()


@pytest.mark.filterwarnings("ignore::dbanon.errors.RowsLinkable")
def test_an_evaluation_with_the_groups_as_a_hierarchy() -> None:
    frame = regions()[["region"]]
    groups = {"North": ["N1", "N2"], "South": ["S1"], "East": ["E1", "E2"]}
    released, _ = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["region"],
        k=4,
        method="full_domain",
        recode={"region": groups},
        rows="input",
    )
    assert set(released["region"]) == {*groups}
    tree = {"tree": {"*": {"North": ["N1", "N2"], "South": ["S1"], "East": ["E1", "E2"]}}}
    evaluation = dbanon.evaluate(
        frame,
        released,
        quasi_identifiers=["region"],
        hierarchies={"region": tree},
    )
    assert 0 < evaluation.to_dict()["losses"]["label_loss"] < 1


def test_evaluations_measure_the_coded_values() -> None:
    # One band is one value: nothing more can be lost.
    _, report = dbanon.anonymize_frame(
        survey(),
        quasi_identifiers=["age"],
        k=4,
        recode={"age": [1000]},
        recoding="median",
        evaluate=True,
    )
    assert report.internal is not None
    assert report.internal.loss.released == 0
    assert "coded before classes are made" in str(report)
    assert "measured against the coded values" in str(report)
    assert report.arguments["recode"] == {"age": [1000]}


@pytest.mark.parametrize("method", ["mdav", "gaa_cp", "full_domain"])
def test_an_evaluation_of_the_originals_includes_what_coding_lost(method: str) -> None:
    frame = survey()[["age"]]
    released, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        k=25,
        method=method,
        recoding="generalization",
        recode={"age": BORDERS},
        evaluate=True,
    )
    assert report.evaluation is not None
    coded_loss = report.evaluation["losses"]["label_loss"]
    figure = report.evaluate(frame).to_dict()["losses"]["label_loss"]
    # The widths of the labels in years, in plain code.
    least, most = frame["age"].min(), frame["age"].max()
    widths = []
    for label in released["age"]:
        low, high = (least, most) if label == "*" else (0, 0)
        if label.startswith("<"):
            low, high = least, int(label[1:]) - 1
        elif label.endswith("+"):
            low, high = int(label[:-1]), most
        elif "-" in label:
            low, high = map(int, label.split("-"))
        widths.append((high - low) / (most - least))
    assert figure == pytest.approx(np.mean(widths))
    assert figure > coded_loss


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"recode": {"age": []}}, InvalidParameter, 'bands of "age" have no border'),
        ({"recode": {"age": [30, 18]}}, InvalidParameter, 'borders of "age" in `recode` do not'),
        ({"recode": {"age": [18, 18]}}, InvalidParameter, "do not ascend, so a band would be"),
        ({"recode": {"age": [2**53, 2**53 + 1]}}, InvalidParameter, "do not ascend"),
        ({"recode": {"age": [18]}, "top": {"age": 90}}, InvalidParameter, "first and last band"),
        ({"top": {"age": 18}, "bottom": {"age": 18}}, InvalidParameter, "must be below"),
        ({"top": {"age": 90.5}}, InvalidParameter, "`top` has a fraction"),
        ({"recode": {"age": [18, 30.5]}}, InvalidParameter, "`recode` has a fraction"),
        ({"top": {"nobody": 90}}, InvalidParameter, '"nobody", named in `top`, is neither'),
        ({"bottom": {"income": 90}}, InvalidParameter, '"income", named in `bottom`, is neither'),
        ({"recode": {"town": [1, 2]}}, UnsupportedType, '"town" of type'),
        ({"recode": {"born": [1, 2]}}, UnsupportedType, "does not hold numbers"),
        ({"top": {"height": 190}}, UnsupportedType, '"height" holds numbers with fractions'),
        ({"top": {"big": 10**12}}, UnsupportedType, '"big" holds too many numbers'),
        ({"bottom": {"huge": 18}}, UnsupportedType, '"huge" holds too many numbers'),
        ({"top": {"huge": 1e308}}, UnsupportedType, '"huge" holds too many numbers'),
        ({"recode": {"town": {"A": ["a"]}}}, InvalidParameter, r'"town" has 1 value in \d+ rows'),
        ({"recode": {"born": {"A": ["a"]}}}, UnsupportedType, "holds neither texts nor numbers"),
        ({"recode": {"town": {"A": []}}}, InvalidParameter, "A group has no value"),
        ({"recode": {"nobody": {"A": ["a"]}}}, InvalidParameter, "is neither a quasi-identifier"),
        (
            {"recode": {"age": {"A": [1], "B": "*"}}, "top": {"age": 9}},
            InvalidParameter,
            "have groups in `recode`, and also a threshold",
        ),
        (
            {"recode": {"town": {"A": ["a", "b"]}}, "orders": {"town": ["a", "b"]}},
            InvalidParameter,
            "have groups in `recode`, and also an order",
        ),
        (
            {"recode": {"town": {"A": "*"}}, "hierarchies": {"town": {"tree": {"*": ["a", "b"]}}}},
            InvalidParameter,
            "hierarchy or a step",
        ),
        ({"recode": {"wide": [0, 10]}}, UnsupportedType, '"wide" has numbers of more than 15'),
        ({"top": {"age": 90}, "steps": {"age": 5}}, InvalidParameter, "hierarchy or a step"),
        (
            {"recode": {"age": [18]}, "hierarchies": {"age": {"intervals": [10]}}},
            InvalidParameter,
            "hierarchy or a step",
        ),
        ({"top": {"age": "p100"}}, InvalidParameter, "top must be numbers, or percentiles"),
        ({"recode": {"age": "18,30"}}, InvalidParameter, "recode must be lists of numbers"),
        ({"recode": {"age": ["18"]}}, InvalidParameter, "recode must be lists of numbers"),
        ({"top": {"age": float("nan")}}, InvalidParameter, "top must be numbers, or percentiles"),
    ],
)
def test_wrong_inputs(options: dict[str, Any], error: type[DbanonError], message: str) -> None:
    frame = survey()
    frame["town"] = np.where(frame["age"] > 40, "a", "b")
    frame["born"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(frame["age"], "D")
    frame["height"] = frame["age"] + 0.5
    frame["big"] = frame["age"] * 10**9
    frame["wide"] = frame["age"] + 2**60
    names = ["age"]
    frame["huge"] = frame["age"] * 1e306
    for name in ("town", "born", "height", "big", "wide", "huge"):
        if any(name in columns for columns in options.values()):
            names.append(name)
    with pytest.raises(error, match=message) as caught:
        dbanon.anonymize_frame(
            frame, quasi_identifiers=names, k=4, recoding="representative", **options
        )
    assert type(caught.value) is error
    assert caught.value.hint
