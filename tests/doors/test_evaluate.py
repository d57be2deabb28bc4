"""dbanon.evaluate: released tables of any origin with their originals, as arrays and frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import (
    ColumnNotFound,
    DbanonError,
    InvalidParameter,
    RowsNotAligned,
    UnsupportedType,
)
from dbanon.hierarchy import Hierarchy
from tests.prerequisites import import_or_skip

CITIES = Hierarchy.from_nested({"*": {"north": ["Kiel", "Bremen"], "south": ["Ulm", "Passau"]}})


def people(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "id": rng.permutation(n) + 1000,
            "age": rng.integers(18, 90, n),
            "income": np.round(np.exp(rng.normal(8, 1, n)), 2),
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20000, n), "D"),
            "city": rng.choice(["Kiel", "Bremen", "Ulm", "Passau"], n),
            "size": rng.choice(["small", "medium", "large"], n),
        }
    )


def means(table: pd.DataFrame, columns: list[str], k: int = 5) -> tuple[pd.DataFrame, Any]:
    """The table with class means, in its original order, as other tools return it."""
    classes = dbanon.partition(table[columns], k)
    released = table.copy()
    for column in columns:
        released[column] = table.groupby(np.asarray(classes.labels))[column].transform("mean")
    return released, classes


NUMBERS = ["age", "income"]


def test_arrays_and_frames_say_the_same() -> None:
    table = people()
    released, classes = means(table, NUMBERS)
    evaluation = dbanon.evaluate(table[NUMBERS], released[NUMBERS])
    assert evaluation.losses["sse_loss"] == pytest.approx(
        dbanon.information_loss(table[NUMBERS], classes), rel=1e-12
    )
    assert evaluation.risks["class_risk"] == 1 / classes.sizes.min()
    arrays = dbanon.evaluate(table[NUMBERS].to_numpy(), released[NUMBERS].to_numpy())
    assert (arrays.losses, arrays.risks) == (evaluation.losses, evaluation.risks)
    assert list(arrays.columns) == ["column 0", "column 1"]
    named = dbanon.evaluate(table, released, quasi_identifiers=NUMBERS, classes=classes)
    assert named.to_dict() == evaluation.to_dict()


def test_the_frames_of_a_release_and_of_this_door_agree() -> None:
    """With a key in both, rows shuffled by anonymize_frame are matched again."""
    table = people()
    released, report = dbanon.anonymize_frame(
        table,
        quasi_identifiers=["age", "city"],
        keep=["id"],
        k=5,
        method="gaa_cp",
        hierarchies={"city": CITIES},
        evaluate=True,
    )
    evaluation = dbanon.evaluate(
        table, released, quasi_identifiers=["age", "city"], key="id", hierarchies={"city": CITIES}
    )
    assert report.evaluation is not None
    for kind in ("losses", "risks"):
        for name, value in report.internal.evaluation[kind].items():
            measured = getattr(evaluation, kind)[name]
            assert measured == (None if value is None else pytest.approx(value, rel=1e-9)), name


def test_rows_that_are_missing_or_all_stars_are_suppressed() -> None:
    table = people()
    released, _ = means(table, NUMBERS)
    fewer = dbanon.evaluate(
        table, released.sample(frac=1, random_state=1)[:50], quasi_identifiers=NUMBERS, key=["id"]
    )
    assert (fewer.rows, fewer.suppressed) == (50, 10)
    starred = released[NUMBERS].astype(object)
    starred.iloc[3] = "*"
    starred.iloc[7, 0] = "*"
    evaluation = dbanon.evaluate(table[NUMBERS], starred)
    assert (evaluation.rows, evaluation.suppressed) == (59, 1)
    everything = dbanon.evaluate(table[NUMBERS], starred.assign(age="*", income="*"))
    assert (everything.rows, everything.suppressed) == (0, 60)
    assert set(everything.losses.values()) == {None}
    nobody = dbanon.evaluate(table, released[:0], quasi_identifiers=NUMBERS, key="id")
    assert (nobody.rows, nobody.suppressed) == (0, 60)


def test_intervals_labels_and_orders_in_arx_format() -> None:
    table = people()
    low = table["age"] // 10 * 10
    released = pd.DataFrame(
        {
            "age": "[" + low.astype(str) + ", " + (low + 10).astype(str) + "[",
            "city": table["city"].map(
                {"Kiel": "north", "Bremen": "north", "Ulm": "south", "Passau": "*"}
            ),
            "size": table["size"].where(table["size"] != "small", "medium"),
        }
    )
    names = list(released.columns)
    evaluation = dbanon.evaluate(
        table,
        released,
        quasi_identifiers=names,
        hierarchies={"city": CITIES},
        orders={"size": ["small", "medium", "large"]},
    )
    assert evaluation.columns["city"]["direct_loss"] == 0
    assert evaluation.columns["age"]["direct_loss"] == 0
    share = float((table["size"] == "small").mean())
    assert evaluation.columns["size"]["direct_loss"] == pytest.approx(share / 3)
    assert 0 < evaluation.risks["linkage_risk"] <= evaluation.risks["class_risk"]


def test_any_perturbation() -> None:
    table = people(200)
    rng = np.random.default_rng(0)
    noise = table[NUMBERS] + rng.normal(0, table[NUMBERS].std().to_numpy() / 100, (200, 2))
    evaluation = dbanon.evaluate(table[NUMBERS], noise)
    assert evaluation.risks["class_risk"] == 1
    assert evaluation.risks["linkage_risk"] > 0.8
    swapped = table[["city"]].sample(frac=1, random_state=2).reset_index(drop=True)
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table[["city"]], swapped)
    numbered = [frame.assign(id=range(200)) for frame in (table[["city"]], swapped)]
    permuted = dbanon.evaluate(numbered[0], numbered[1], key="id")
    assert permuted.losses["entropy_change"] == 0
    assert 0 < permuted.losses["direct_loss"] < 1


def test_nulls_and_dates() -> None:
    table = people()
    table.loc[::5, "income"] = np.nan
    released = table.copy()
    released["income"] = table["income"].mean()
    released.loc[::5, "income"] = np.nan
    released["born"] = released["born"].dt.floor("365D")
    evaluation = dbanon.evaluate(table, released, quasi_identifiers=["income", "born"])
    assert evaluation.columns["income"]["sse_loss"] == pytest.approx(1)
    assert 0 < evaluation.columns["born"]["sse_loss"] < 1


def test_nulls_of_pandas_own() -> None:
    before = people()
    after, _ = means(before, ["age"])
    before["age"], after["age"] = before["age"].astype("Int64"), after["age"].astype("Float64")
    after["city"] = pd.array(["*"] * 59 + [None], "string")
    after.loc[0, "age"] = pd.NA
    evaluation = dbanon.evaluate(before, after, quasi_identifiers=["age", "city"])
    after["age"], after["city"] = after["age"].astype(float), after["city"].astype(object)
    plain = dbanon.evaluate(before, after, quasi_identifiers=["age", "city"])
    assert evaluation.suppressed == plain.suppressed == 0
    assert evaluation.to_dict() == plain.to_dict()
    with pytest.raises(InvalidParameter, match="seed"):
        dbanon.evaluate(before, after, seed=float("inf"))  # type: ignore[arg-type]


def test_arrow_and_rows() -> None:
    arrow = import_or_skip("pyarrow")
    table = people()[["age", "income", "city"]]
    released, _ = means(table, NUMBERS)
    plain = dbanon.evaluate(table, released).to_dict()
    tables = arrow.Table.from_pandas(table), arrow.Table.from_pandas(released)
    assert dbanon.evaluate(*tables).to_dict() == plain
    assert dbanon.evaluate(tables[0], released).to_dict() == plain
    rows = table.to_dict("records"), released.to_dict("records")
    assert dbanon.evaluate(*rows).to_dict() == plain


def test_weights_and_samples() -> None:
    table = people()
    released, _ = means(table, NUMBERS)
    evaluation = dbanon.evaluate(
        table[NUMBERS],
        released[NUMBERS],
        lambdas=[0, 0, 1],
        taus=(1, 0),
        gammas=(0, 1),
        interval_percents=[5],
        sample=20,
        seed=1,
    )
    assert evaluation.losses["statistics_loss"] == evaluation.losses["structure_loss"]
    assert evaluation.risks["score"] == evaluation.risks["nearest_linkage_risk"]
    assert evaluation.parameters["interval_percents"] == [5]


SECRET = "rareword"
BAD: dict[str, tuple[dict[str, Any], type[DbanonError], str]] = {
    "rows": ({"released": people()[:59]}, InvalidParameter, "60 rows, the release 59"),
    "no column": ({"quasi_identifiers": ["wieght"]}, ColumnNotFound, "wieght"),
    "a text": ({"quasi_identifiers": "age"}, InvalidParameter, "list of names"),
    "twice": ({"quasi_identifiers": ["age", "age"]}, InvalidParameter, "more than once"),
    "key": ({"key": "city"}, InvalidParameter, "key of the original is not unique"),
    "null key": (
        {"key": "id", "released": people().assign(id=lambda t: t["id"].where(t["id"] > 1001))},
        InvalidParameter,
        "key of the release contains NULL",
    ),
    "strangers": (
        {"key": "id", "released": people().assign(id=lambda t: t["id"] + 5)},
        InvalidParameter,
        "5 rows whose key is not in",
    ),
    "label": (
        {"released": people().assign(age=SECRET)},
        InvalidParameter,
        "1 labels that are neither",
    ),
    "unknown label": (
        {"released": people().assign(city=SECRET)},
        InvalidParameter,
        "1 labels that are not in its hierarchy",
    ),
    "type": ({"released": people().assign(born=7)}, UnsupportedType, "born"),
    "classes": ({"classes": [0] * 59}, InvalidParameter, "59 records, the data 60"),
    "mixed classes": ({"classes": [0] * 60}, InvalidParameter, "different values"),
    "no classes": ({"classes": "x"}, InvalidParameter, "classes must be"),
    "weights": ({"lambdas": (1, 1, 1)}, InvalidParameter, "add up to 1"),
    "no weights": ({"taus": "ab"}, InvalidParameter, "taus must be numbers"),
    "seed": ({"seed": 0.5}, InvalidParameter, "seed must be"),
    "nothing in common": (
        {"released": pd.DataFrame({"x": range(60)})},
        InvalidParameter,
        "no column in common",
    ),
    "an array": ({"released": np.zeros((60, 5))}, InvalidParameter, "both"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_calls(case: str) -> None:
    changes, kind, words = BAD[case]
    arguments = {"original": people(), "released": people(), **changes}
    with pytest.raises(kind, match=words) as error:
        dbanon.evaluate(arguments.pop("original"), arguments.pop("released"), **arguments)
    assert SECRET not in str(error.value)
    assert "1000" not in str(error.value)


def test_arrays_must_be_tables_of_numbers() -> None:
    numbers = np.zeros((4, 2))
    for other in (np.zeros((4, 3)), np.zeros(4), [["a", "b"]] * 4):
        with pytest.raises(InvalidParameter):
            dbanon.evaluate(numbers, other)
    with pytest.raises(DbanonError, match="no records"):
        dbanon.evaluate(numbers[:0], numbers[:0])
