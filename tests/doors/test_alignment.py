"""Rows of two frames that do not belong together are refused; the report of the run pairs them."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.doors.html.page import page
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    RowsLinkable,
    RowsLinkableRefused,
    RowsNotAligned,
)
from dbanon.release.report import Report
from tests.prerequisites import import_or_skip

QUASI = ["age", "income"]
AGES = {"age": {"intervals": [5, 10, 20]}}


def people(n: int = 300, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "pid": np.arange(n) // 2,
            "age": rng.integers(18, 90, n),
            "income": np.round(np.exp(rng.normal(8, 1, n)), 2),
            "city": rng.choice(["Kiel", "Bremen", "Ulm"], n),
        },
        index=[f"row {i}" for i in range(n)],
    )


def released(table: Any, **more: Any) -> tuple[Any, Report]:
    given: dict[str, Any] = {"quasi_identifiers": QUASI, "k": 5, "evaluate": True}
    return dbanon.anonymize_frame(table, **(given | more))


def without_mark(table: pd.DataFrame) -> pd.DataFrame:
    made = table.copy()
    made.attrs = {}
    return made


def test_shuffled_rows_are_refused_and_not_measured() -> None:
    """They gave a loss of 1.9 for one of .1, and hardly any risk."""
    table = people()
    found, _ = released(table)
    with pytest.raises(RowsNotAligned, match="random order") as error:
        dbanon.evaluate(table, found)
    assert error.value.code == "rows_not_aligned"
    assert "report" in str(error.value.hint)
    with pytest.raises(RowsNotAligned, match="random order"):
        dbanon.evaluate(table[QUASI], found[QUASI].copy())


def in_another_order(report: Any) -> Any:
    """Places of released rows. One in 750 orders, drawn anew, is nearer than chance allows."""
    rows = report.alignment.rows()
    return rows[np.random.default_rng(1).permutation(len(rows))]


@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_rows_of_any_origin_are_tried_against_chance(method: str) -> None:
    table = people()
    trees: Any = AGES | {"income": {"intervals": [1000, 4000]}} if method == "gaa_cp" else None
    found, report = released(table, method=method, hierarchies=trees)
    assert report.alignment is not None
    ordered = without_mark(found).iloc[report.alignment.rows()]
    other = without_mark(found).iloc[in_another_order(report)]
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table[QUASI], other, hierarchies=trees)
    told = dbanon.evaluate(table[QUASI], ordered, hierarchies=trees)
    assert told.losses.keys() == report.evaluation["losses"].keys()


def test_arrays_are_tried_against_chance() -> None:
    table = people()[QUASI].to_numpy(float)
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table, np.random.default_rng(1).permutation(table))
    assert dbanon.evaluate(table, table).losses["sse_loss"] == 0


CASES: dict[str, dict[str, Any]] = {
    "numbers": {},
    "persons and strata": {"entity": "pid", "by": ["city"], "k": 3},
    "labels": {"method": "gaa_cp", "hierarchies": AGES | {"income": {"intervals": [1000, 4000]}}},
    "withheld": {"nulls": "suppress", "max_suppression": 0.3},
    "input": {"rows": "input"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::dbanon.errors.RowsLinkable")
def test_the_report_of_the_run_pairs_them(case: str) -> None:
    """All figures are those that the run itself found."""
    table, more = people(), CASES[case]
    if case == "persons and strata":
        table["city"] = np.repeat(["Kiel", "Ulm", "Bremen"], 100)
    if case == "withheld":
        table.loc[table.index[::7], "income"] = np.nan
    found, report = released(table, **more)
    told = dbanon.evaluate(table, found, report=report, hierarchies=more.get("hierarchies"))
    assert report.evaluation is not None
    assert (told.rows, told.suppressed) == (
        report.evaluation["rows"],
        report.evaluation["suppressed"],
    )
    for kind in ("losses", "risks"):
        for name, value in report.internal.evaluation[kind].items():
            one = getattr(told, kind)[name]
            assert one == (None if value is None else pytest.approx(value, rel=1e-9)), name


def test_tables_of_arrow() -> None:
    arrow = import_or_skip("pyarrow")
    table = arrow.Table.from_pandas(people(), preserve_index=False)
    found, report = released(table)
    assert dbanon.evaluate(table, found, report=report).losses["sse_loss"] < 0.2
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table.select(QUASI), found.take(in_another_order(report)))


def test_frames_that_are_not_those_of_the_run() -> None:
    table = people()
    found, report = released(table)
    other, theirs = released(table)
    wrong: list[tuple[str, pd.DataFrame, pd.DataFrame, Report]] = [
        ("release", table, found.sort_values("age"), report),
        ("release", table, found[1:], report),
        ("release", table, other, report),
        ("release", table, found, theirs),
        ("original", table.sort_values("age"), found, report),
        ("original", table[1:], found, report),
    ]
    for what, one, another, its in wrong:
        with pytest.raises(RowsNotAligned, match=f"The {what} is not as it was"):
            dbanon.evaluate(one, another, report=its)
    with pytest.raises(InvalidParameter, match="one of both"):
        dbanon.evaluate(table, found, report=report, key="pid")
    found, of_persons = released(table, entity="pid")
    with pytest.raises(ColumnNotFound, match="pid"):
        dbanon.evaluate(table[QUASI], found, report=of_persons)


def test_nothing_that_is_written_of_a_report_says_which_row_became_which() -> None:
    table = people()
    found, report = released(table)
    bare = replace(report)
    assert report.alignment is not None
    assert bare.alignment is None
    assert report == bare
    assert json.dumps(report.to_dict()) == json.dumps(bare.to_dict())
    assert str(report) == str(bare)
    assert repr(report) == repr(bare)
    assert repr(asdict(report)) == repr(asdict(bare))
    assert report._repr_html_() == bare._repr_html_()
    again = pickle.loads(pickle.dumps(report))
    for one in (again, copy.deepcopy(report), report.with_provenance(), bare):
        assert one.alignment is None
        with pytest.raises(RowsNotAligned, match="does not know"):
            dbanon.evaluate(table, found, report=one)
    places = report.alignment.places
    assert places.astype("<i8").tobytes() not in pickle.dumps(report)
    assert str(places[:5]).strip("[]") not in repr(vars(report)["alignment"])
    assert set(found.attrs) == {"dbanon"}
    assert found.attrs["dbanon"] == {"rows": "shuffled"}


def test_rows_of_the_input_on_demand() -> None:
    table = people()
    with pytest.warns(RowsLinkable, match="do not hand it on"):
        found, report = released(table, rows="input", keep=["pid"])
    assert list(found.index) == list(table.index)
    assert found["pid"].equals(table["pid"])
    assert found.attrs["dbanon"]["rows"] == "input"
    assert report.arguments["rows"] == "input"
    assert "ROWS LINK TO THEIR ORIGINALS" in str(report)
    assert "ROWS LINK TO THEIR ORIGINALS" in page(report)
    assert "those of the input" in report.seed_policy
    assert any("do not hand it on" in text for text in report.warned)
    told = dbanon.evaluate(table, found, quasi_identifiers=QUASI)
    assert report.evaluation is not None
    assert told.losses["sse_loss"] == pytest.approx(
        report.internal.evaluation["losses"]["sse_loss"]
    )
    turned = found[::-1]
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table, turned, quasi_identifiers=QUASI)


def test_rows_of_the_input_without_those_withheld() -> None:
    table = people()
    table.loc[table.index[::7], "income"] = np.nan
    with pytest.warns(RowsLinkable):
        found, _ = released(table, rows="input", nulls="suppress", max_suppression=0.3)
    assert list(found.index) == [name for i, name in enumerate(table.index) if i % 7]


def test_the_usual_order_is_fresh_and_says_nothing_of_it() -> None:
    table = people()
    (one, report), (other, _) = released(table, keep=["pid"]), released(table, keep=["pid"])
    assert not one["pid"].equals(other["pid"])
    assert list(one.index) == list(range(300))
    assert "rows" not in report.arguments
    assert "LINK" not in str(report)


def test_rows_of_the_input_are_refused_where_strict() -> None:
    with pytest.raises(RowsLinkableRefused) as error:
        released(people(), rows="input", strict=True)
    assert (error.value.code, error.value.exit_code) == ("rows_linkable", 6)
    with pytest.raises(InvalidParameter, match="shuffled or input"):
        released(people(), rows="sorted")


def test_what_is_no_report_is_refused_in_words() -> None:
    frame = people()
    released, report = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], k=5)
    with pytest.raises(InvalidParameter, match="report must be"):
        dbanon.evaluate(frame, released, report=report.to_dict())  # type: ignore[arg-type]
