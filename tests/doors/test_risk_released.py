"""``dbanon.disclosure_risk`` of a sample next to that of its release."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import ColumnNotFound, InvalidParameter, TableNotFound

RNG = np.random.default_rng(57)
N = 240
SURVEY = pd.DataFrame(
    {
        "pid": np.arange(N),
        "sex": [*RNG.choice(["f", "m"], N - 1), "qzrare"],
        "age": RNG.integers(18, 90, N),
        "home": np.arange(N) // 3,
        "w": RNG.integers(10, 30, N).astype(float),
    }
)
KEYS = ["sex", "age"]
RELEASED, _ = dbanon.anonymize_frame(SURVEY, quasi_identifiers=KEYS, k=4, method="gaa_cp")


def compare(released: pd.DataFrame = RELEASED, **options: Any) -> dbanon.RiskComparison:
    return dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS, released=released, **options)


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"weight": "w", "household": "home", "suda": True}])
def test_the_sample_has_the_figures_it_has_alone(options: dict[str, Any]) -> None:
    alone = dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS, **options)
    assert compare(**options).before == alone


def test_records_with_the_same_released_values_match() -> None:
    result = compare()
    sizes = Counter(RELEASED[KEYS].itertuples(index=False, name=None))
    smallest = min(sizes.values())
    assert smallest >= 4
    assert result.after.classes == len(sizes)
    assert result.after.total.expected_reidentifications == pytest.approx(len(sizes))
    assert result.after.prosecutor.highest == 1 / smallest <= 1 / 4
    assert result.before.prosecutor.highest == 1
    assert (result.before.basis, result.after.basis) == ("census", "census")
    assert f"the rarest record matches {smallest} records, itself included" in str(result)


@pytest.mark.parametrize("missing", ["category", "wildcard"])
def test_a_suppressed_cell_is_a_value_of_its_own(missing: str) -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y", "z"], "b": [1, 1, 1, 1]})
    released = frame.assign(a=["x", "x", None, None])
    result = dbanon.disclosure_risk(
        frame, quasi_identifiers=["a", "b"], released=released, missing=missing
    )
    assert result.before.highest == 1
    # A wildcard is like all four records.
    assert result.after.total.expected_reidentifications == {"category": 2, "wildcard": 1}[missing]
    words = {"category": "and so is NULL", "wildcard": "NULL equals every value"}
    assert words[missing] in str(result)


def test_kept_weights_are_used_and_others_replaced_by_the_sampling_fraction() -> None:
    kept = compare(RELEASED.assign(w=SURVEY.w), weight="w")
    assert kept.after.basis == "weights"
    assert 'weights are those in the column "w" of the release' in str(kept)
    mean = SURVEY.w.mean()
    for released in (RELEASED, RELEASED.assign(w="10 to 30"), RELEASED.assign(w=None)):
        dropped = compare(released, weight="w")
        equal = dbanon.disclosure_risk(RELEASED, quasi_identifiers=KEYS, sampling_fraction=1 / mean)
        assert dropped.after.basis == "sampling_fraction"
        assert dropped.after.total.rate == pytest.approx(equal.total.rate)
        assert f"each record stands for {mean:.4g} persons" in str(dropped)
    by_fraction = compare(sampling_fraction=0.1)
    assert by_fraction.after.basis == "sampling_fraction"
    assert "does not have the weights" not in str(by_fraction)


def test_a_population_is_that_of_the_sample_only() -> None:
    population = pd.concat([SURVEY, SURVEY, SURVEY])
    result = compare(population=population)
    assert result.before.basis == "population"
    assert (result.after.basis, result.after.population) == ("sampling_fraction", None)
    assert result.after.population_size == pytest.approx(3 * N)
    assert "cannot be looked up in the population table" in str(result)


def test_households_are_measured_where_they_were_kept() -> None:
    without = compare(household="home")
    assert without.before.household is not None
    assert without.after.household is None
    assert 'does not have the households "home"' in str(without)
    kept = compare(RELEASED.assign(home=SURVEY.home), household="home")
    assert kept.after.household is not None
    assert kept.before.household is not None
    assert kept.after.household.households == N // 3
    assert kept.after.household.rate < kept.before.household.rate
    assert "no household" not in str(kept)


def test_bounds_stand_for_their_column_and_other_columns_are_left_out() -> None:
    bounds, _ = dbanon.anonymize_frame(
        SURVEY, quasi_identifiers=KEYS, k=4, method="gaa_cp", intervals="bounds"
    )
    result = compare(bounds, suda=True, sampling_fraction=0.1)
    assert list(bounds.columns) == ["sex", "age_low", "age_high"]
    assert result.after.quasi_identifiers == ("sex", "age")
    assert result.after == compare(suda=True, sampling_fraction=0.1).after
    assert "does not have" not in str(result)
    blank = compare(bounds.assign(age_low=None, age_high=None), missing="wildcard")
    assert blank.after.incomplete == N
    fewer = compare(RELEASED[["age"]], suda_size=2)
    assert fewer.after.quasi_identifiers == ("age",)
    assert 'the release does not have "sex"' in str(fewer)
    with pytest.raises(ColumnNotFound):
        compare(SURVEY[["pid", "home"]])


def test_a_release_may_have_fewer_records() -> None:
    result = compare(RELEASED[:200])
    assert (result.before.records, result.after.records) == (N, 200)
    assert "the release has 200 records, the sample has 240" in str(result)


# --- its forms -----------------------------------------------------------------------------------


def test_the_result_is_plain_and_shows_no_value() -> None:
    result = compare(weight="w", household="home", suda=True)
    assert pickle.loads(pickle.dumps(result)) == result
    plain = result.to_dict()
    assert plain["before"] == result.before.to_dict()
    assert plain["after"] == result.after.to_dict()
    texts = [str(result), result._repr_html_(), json.dumps(plain), str([*result.measure_rows()])]
    for text in texts:
        assert "qzrare" not in text
    assert texts[0].splitlines()[0].split() == ["before", "after"]
    assert "not for publication" in texts[0]
    assert "not for publication" in texts[1]
    rows = {label: (before, after) for label, before, after in result.table_rows()}
    assert rows["records"] == (str(N), str(N))
    assert rows["sample uniques"] == (str(result.before.sample_uniques), "0")
    assert rows["household risk"][1] == "–"


def test_the_list_of_records_is_that_of_the_sample(tmp_path: Path) -> None:
    paths = [tmp_path / "alone.csv", tmp_path / "next.csv"]
    dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS, records=paths[0])
    compare(records=paths[1])
    assert paths[0].read_text() == paths[1].read_text()


def test_progress_is_reported() -> None:
    calls: list[tuple[str, float]] = []
    compare(progress=lambda phase, share: calls.append((phase, share)))
    assert calls[-1] == ("measure", 1.0)
    assert [share for _, share in calls] == sorted(share for _, share in calls)


def test_the_command_prints_both(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'survey.duckdb'}"
    with duckdb.connect(str(tmp_path / "survey.duckdb")) as connection:
        connection.execute("CREATE TABLE survey AS SELECT * FROM SURVEY")
        connection.execute("CREATE TABLE released AS SELECT * FROM RELEASED")
    words = ["risk", url, "--table", "survey", "-q", "sex,age", "--weight", "w"]
    words += ["--released", "released"]
    completed = CliRunner().invoke(main, [*words, "--format", "json"])
    assert completed.exit_code == 0, completed.output
    plain, expected = json.loads(completed.stdout), compare(weight="w")
    for name, risk in (("before", expected.before), ("after", expected.after)):
        assert {**plain[name], "source": ""} == {**risk.to_dict(), "source": ""}
    text = CliRunner().invoke(main, words)
    assert text.exit_code == 0, text.output
    assert "before" in text.stdout
    assert "not for publication" in text.stdout
    missing = CliRunner().invoke(main, [*words[:-1], "nothing"])
    assert missing.exit_code == TableNotFound.exit_code


@pytest.mark.parametrize("released", ["people", 7, SURVEY.to_numpy()])
def test_other_releases_are_refused(released: Any) -> None:
    with pytest.raises(InvalidParameter):
        compare(released)


# --- pictures ------------------------------------------------------------------------------------


def pictures_of(result: dbanon.SampleRisk | dbanon.RiskComparison) -> list[ElementTree.Element]:
    found = re.findall(r'<svg class="picture.*?</svg>', result._repr_html_(), re.DOTALL)
    return [ElementTree.fromstring(picture) for picture in found]


def test_pictures_show_the_shares_of_records() -> None:
    result = compare(sampling_fraction=0.1)
    bars, curves = pictures_of(result)
    for picture in (bars, curves):
        assert picture.get("role") == "img"
        ids = str(picture.get("aria-labelledby")).split()
        assert ids == [str(child.get("id")) for child in (picture[0], picture[1])]
        assert [child.tag for child in (picture[0], picture[1])] == ["title", "desc"]
    filled = [
        float(bar.get("height", 0)) for bar in bars.iter("rect") if bar.get("class") == "mark"
    ]
    counts = [count for count in result.before.distribution.values() if count]
    # The area between the axes is 176 units high, and every bar is visible.
    assert filled == [round(max(176 * count / N, 2.0), 1) for count in counts]
    outlined = [bar for bar in bars.iter("rect") if bar.get("class") == "curve curve1"]
    assert len(outlined) == sum(count > 0 for count in result.after.distribution.values())
    lines = [str(line.get("points")).split() for line in curves.iter("polyline")]
    for line, risk in zip(lines, (result.before, result.after), strict=True):
        above = [190 - 176 * sum([*risk.distribution.values()][i:]) / N for i in range(9)]
        assert [float(point.split(",")[1]) for point in line] == pytest.approx(above, abs=0.06)
    # Colors are those of the style sheet, which knows dark pages, too.
    for picture in (bars, curves):
        assert not re.search(r"#[0-9a-f]{3,6}|style=", ElementTree.tostring(picture, "unicode"))


def test_a_sample_alone_has_one_series() -> None:
    bars, curves = pictures_of(dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS))
    assert not [bar for bar in bars.iter("rect") if bar.get("class") != "mark"]
    assert len([*curves.iter("polyline")]) == 1
