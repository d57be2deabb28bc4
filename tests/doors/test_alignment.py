"""Frames whose rows do not correspond are refused; a run's report aligns them."""

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
from dbanon.doors.html.page import render_page
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
    arguments: dict[str, Any] = {"quasi_identifiers": QUASI, "k": 5, "evaluate": True}
    return dbanon.anonymize_frame(table, **(arguments | more))


def without_mark(table: pd.DataFrame) -> pd.DataFrame:
    copied = table.copy()
    copied.attrs = {}
    return copied


def test_shuffled_rows_are_refused_and_not_measured() -> None:
    """They used to give a loss of 1.9 instead of .1, and hardly any risk."""
    table = people()
    release, _ = released(table)
    with pytest.raises(RowsNotAligned, match="random order") as error:
        dbanon.evaluate(table, release)
    assert error.value.code == "rows_not_aligned"
    assert "report" in str(error.value.hint)
    with pytest.raises(RowsNotAligned, match="random order"):
        dbanon.evaluate(table[QUASI], release[QUASI].copy())


def in_another_order(report: Any) -> Any:
    """Positions of released rows; redraws the one order in 750 that is too close by chance."""
    rows = report.alignment.row_of_original()
    return rows[np.random.default_rng(1).permutation(len(rows))]


@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_rows_of_any_origin_are_tried_against_chance(method: str) -> None:
    table = people()
    trees: Any = AGES | {"income": {"intervals": [1000, 4000]}} if method == "gaa_cp" else None
    release, report = released(table, method=method, hierarchies=trees)
    assert report.alignment is not None
    ordered = without_mark(release).iloc[report.alignment.row_of_original()]
    other = without_mark(release).iloc[in_another_order(report)]
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table[QUASI], other, hierarchies=trees)
    evaluation = dbanon.evaluate(table[QUASI], ordered, hierarchies=trees)
    assert evaluation.losses.keys() == report.evaluation["losses"].keys()


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
    """All figures equal those computed by the run."""
    table, more = people(), CASES[case]
    if case == "persons and strata":
        table["city"] = np.repeat(["Kiel", "Ulm", "Bremen"], 100)
    if case == "withheld":
        table.loc[table.index[::7], "income"] = np.nan
    release, report = released(table, **more)
    evaluation = dbanon.evaluate(table, release, report=report, hierarchies=more.get("hierarchies"))
    assert report.evaluation is not None
    assert (evaluation.rows, evaluation.suppressed) == (
        report.evaluation["rows"],
        report.evaluation["suppressed"],
    )
    for kind in ("losses", "risks"):
        for name, value in report.internal.evaluation[kind].items():
            measured = getattr(evaluation, kind)[name]
            assert measured == (None if value is None else pytest.approx(value, rel=1e-9)), name


def test_tables_of_arrow() -> None:
    arrow = import_or_skip("pyarrow")
    table = arrow.Table.from_pandas(people(), preserve_index=False)
    release, report = released(table)
    assert dbanon.evaluate(table, release, report=report).losses["sse_loss"] < 0.2
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table.select(QUASI), release.take(in_another_order(report)))


def test_frames_of_another_run_are_refused() -> None:
    table = people()
    release, report = released(table)
    other, theirs = released(table)
    wrong: list[tuple[str, pd.DataFrame, pd.DataFrame, Report]] = [
        ("release", table, release.sort_values("age"), report),
        ("release", table, release[1:], report),
        ("release", table, other, report),
        ("release", table, release, theirs),
        ("original", table.sort_values("age"), release, report),
        ("original", table[1:], release, report),
    ]
    for label, first, another, its in wrong:
        with pytest.raises(RowsNotAligned, match=f"The {label} has changed since"):
            dbanon.evaluate(first, another, report=its)
    with pytest.raises(InvalidParameter, match="one of the two"):
        dbanon.evaluate(table, release, report=report, key="pid")
    release, of_persons = released(table, entity="pid")
    with pytest.raises(ColumnNotFound, match="pid"):
        dbanon.evaluate(table[QUASI], release, report=of_persons)


def test_no_serialized_report_links_rows() -> None:
    table = people()
    release, report = released(table)
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
    for unaligned in (again, copy.deepcopy(report), report.with_provenance(), bare):
        assert unaligned.alignment is None
        with pytest.raises(RowsNotAligned, match="does not record which released row"):
            dbanon.evaluate(table, release, report=unaligned)
    places = report.alignment.original_of_row
    assert places.astype("<i8").tobytes() not in pickle.dumps(report)
    assert str(places[:5]).strip("[]") not in repr(vars(report)["alignment"])
    assert set(release.attrs) == {"dbanon"}
    assert release.attrs["dbanon"] == {"rows": "shuffled"}


def test_rows_of_the_input_on_demand() -> None:
    table = people()
    with pytest.warns(RowsLinkable, match="do not pass it on"):
        release, report = released(table, rows="input", keep=["pid"])
    assert list(release.index) == list(table.index)
    assert release["pid"].equals(table["pid"])
    assert release.attrs["dbanon"]["rows"] == "input"
    assert report.arguments["rows"] == "input"
    assert "ROWS LINK TO THEIR ORIGINALS" in str(report)
    assert "ROWS LINK TO THEIR ORIGINALS" in render_page(report)
    assert "those of the input" in report.seed_policy
    assert any("do not pass it on" in text for text in report.warning_texts)
    evaluation = dbanon.evaluate(table, release, quasi_identifiers=QUASI)
    assert report.evaluation is not None
    assert evaluation.losses["sse_loss"] == pytest.approx(
        report.internal.evaluation["losses"]["sse_loss"]
    )
    turned = release[::-1]
    with pytest.raises(RowsNotAligned, match="paired at random"):
        dbanon.evaluate(table, turned, quasi_identifiers=QUASI)


def test_rows_of_the_input_without_those_withheld() -> None:
    table = people()
    table.loc[table.index[::7], "income"] = np.nan
    with pytest.warns(RowsLinkable):
        release, _ = released(table, rows="input", nulls="suppress", max_suppression=0.3)
    assert list(release.index) == [name for i, name in enumerate(table.index) if i % 7]


def test_the_default_order_is_random() -> None:
    table = people()
    (first, report), (other, _) = released(table, keep=["pid"]), released(table, keep=["pid"])
    assert not first["pid"].equals(other["pid"])
    assert list(first.index) == list(range(300))
    assert "rows" not in report.arguments
    assert "LINK" not in str(report)


def test_rows_of_the_input_are_refused_where_strict() -> None:
    with pytest.raises(RowsLinkableRefused) as error:
        released(people(), rows="input", strict=True)
    assert (error.value.code, error.value.exit_code) == ("rows_linkable", 6)
    with pytest.raises(InvalidParameter, match="shuffled or input"):
        released(people(), rows="sorted")


def test_objects_that_are_no_report_are_refused_clearly() -> None:
    frame = people()
    released, report = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], k=5)
    with pytest.raises(InvalidParameter, match="report must be"):
        dbanon.evaluate(frame, released, report=report.to_dict())  # type: ignore[arg-type]
