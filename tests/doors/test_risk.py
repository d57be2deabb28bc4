"""``dbanon.disclosure_risk`` of data frames, and the command ``dbanon risk`` of files."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import stat
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    DuplicateKeys,
    InvalidParameter,
    OutputExists,
    TooFewRecords,
    UnsupportedType,
)
from tests.prerequisites import require_reference

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
RNG = np.random.default_rng(57)
N = 300
# Each combination of values is that of a row, and one row has values of its own.
SURVEY = pd.DataFrame(
    {
        "pid": np.arange(N) + 1000,
        "sex": [*RNG.choice(["f", "m"], N - 1), "qzrare"],
        "region": [*RNG.integers(1, 6, N - 1), 737_373],
        "age": [*RNG.integers(3, 8, N - 1) * 10, 997],
        "home": np.arange(N) // 3,
        "w": np.full(N, 20.0),
    }
)
NAMED: dict[str, Any] = {"quasi_identifiers": ["sex", "region", "age"]}


def groups_of(frame: pd.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    return list(frame[names].itertuples(index=False, name=None))


def read_list(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- figures -------------------------------------------------------------------------------------


def test_without_a_weight_the_risk_is_that_of_a_census() -> None:
    result = dbanon.disclosure_risk(SURVEY, **NAMED)
    rows = groups_of(SURVEY, NAMED["quasi_identifiers"])
    sizes = Counter(rows)
    risks = [1 / sizes[row] for row in rows]
    assert result.basis == "census"
    assert "taken as the entire population" in str(result)
    assert result.total.expected_reidentifications == pytest.approx(sum(risks))
    assert (result.highest, result.prosecutor.highest) == (1.0, 1.0)
    assert result.sample_uniques == sum(size == 1 for size in sizes.values())
    assert result.classes == len(sizes)
    assert result.prosecutor == result.journalist
    assert result.prosecutor.share_above == sum(risk > 0.2 for risk in risks) / N
    assert result.marketer == pytest.approx(len(sizes) / N)
    assert (result.uniqueness, result.log_linear, result.suda) == (None, None, None)
    borders = [0, *result.distribution]
    counts = [sum(low < risk <= high for risk in risks) for low, high in pairwise(borders)]
    assert list(result.distribution.values()) == counts


def test_equal_weights_are_a_sampling_fraction() -> None:
    by_weight = dbanon.disclosure_risk(SURVEY, **NAMED, weight="w")
    by_fraction = dbanon.disclosure_risk(SURVEY, **NAMED, sampling_fraction=0.05)
    assert (by_weight.basis, by_fraction.basis) == ("weights", "sampling_fraction")
    assert by_weight.population_size == by_fraction.population_size == 20 * N
    assert by_weight.total == by_fraction.total
    assert by_weight.uniqueness == by_fraction.uniqueness
    assert by_weight.log_linear == by_fraction.log_linear
    assert by_weight.highest == pytest.approx(np.log(20) / 19)
    assert by_weight.journalist.highest == 0.05
    assert by_weight.uniqueness is not None
    assert by_weight.uniqueness.uniques > 0


def test_weights_that_are_scaled_to_a_mean_of_1_are_noticed() -> None:
    result = dbanon.disclosure_risk(SURVEY.assign(w=1.0), **NAMED, weight="w")
    assert result.total == dbanon.disclosure_risk(SURVEY, **NAMED).total
    assert "scaled to a mean of 1" in str(result)
    assert result.uniqueness is None


def test_the_household_risk_is_that_of_its_members() -> None:
    households = SURVEY.home.astype(object).where(SURVEY.home > 0, None)
    result = dbanon.disclosure_risk(
        SURVEY.assign(home=households), **NAMED, weight="w", household="home"
    )
    alone = dbanon.disclosure_risk(SURVEY[:3], **NAMED, sampling_fraction=0.05)
    assert result.household is not None
    assert alone.household is None
    assert result.household.households == N // 3 - 1
    assert result.household.highest > result.highest
    assert result.household.rate > result.total.rate


@pytest.mark.parametrize("missing", ["category", "wildcard"])
def test_null_is_a_value_of_its_own_or_equals_every_value(missing: str) -> None:
    frame = pd.DataFrame({"a": ["x", "x", "x", None], "b": [1, 1, 1, 1]})
    result = dbanon.disclosure_risk(frame, quasi_identifiers=["a", "b"], missing=missing)
    expected = {"category": (1, 2.0), "wildcard": (0, 1.0)}[missing]
    assert (result.sample_uniques, result.total.expected_reidentifications) == expected
    assert result.incomplete == 1
    words = {"category": "it is a value of its own", "wildcard": "it equals every value"}
    assert words[missing] in str(result)


def test_a_population_is_counted_and_not_estimated() -> None:
    population = pd.concat([SURVEY, SURVEY[SURVEY.pid % 3 == 0]])
    result = dbanon.disclosure_risk(SURVEY, **NAMED, population=population)
    sizes = Counter(groups_of(population, NAMED["quasi_identifiers"]))
    rows = groups_of(SURVEY, NAMED["quasi_identifiers"])
    assert result.basis == "population"
    assert result.total.expected_reidentifications == pytest.approx(
        sum(1 / sizes[row] for row in rows)
    )
    assert result.population is not None
    assert result.population.persons == len(population)
    assert result.population.k_map == min(sizes[row] for row in rows)
    assert result.population.below == sum(sizes[row] < 5 for row in rows)
    assert result.population.highest_presence == 1.0
    assert result.journalist.highest == 1 / result.population.k_map
    weighted = dbanon.disclosure_risk(SURVEY, **NAMED, population=population, weight="w")
    assert weighted.basis == "weights"
    assert weighted.population == result.population


def test_a_population_may_have_a_row_for_several_persons() -> None:
    names = NAMED["quasi_identifiers"]
    population = pd.concat([SURVEY, SURVEY[SURVEY.pid % 3 == 0]])
    counted = population.groupby(names, as_index=False).agg(persons=("pid", "size"))
    results = [
        dbanon.disclosure_risk(SURVEY, **NAMED, population=table, population_count=column)
        for table, column in ((population, None), (counted, "persons"))
    ]
    assert results[0] == results[1]
    with pytest.raises(InvalidParameter, match='Column "persons"'):
        dbanon.disclosure_risk(
            SURVEY, **NAMED, population=counted.assign(persons=0), population_count="persons"
        )


def test_numbers_match_however_a_population_writes_them() -> None:
    population = SURVEY.assign(region=SURVEY.region.astype(float))
    result = dbanon.disclosure_risk(SURVEY, **NAMED, population=population)
    assert result.population is not None
    assert result.population.unmatched == 0
    other = dbanon.disclosure_risk(SURVEY, **NAMED, population=SURVEY.assign(region="1"))
    assert "without a person in the population table" in str(other)


def test_a_column_that_identifies_each_record_is_noticed() -> None:
    result = dbanon.disclosure_risk(SURVEY, quasi_identifiers=["sex", "pid"])
    assert 'Column "pid" has another value in each record' in str(result)
    assert "another value" not in str(dbanon.disclosure_risk(SURVEY, **NAMED))


def test_suda_names_the_columns_that_single_records_out() -> None:
    result = dbanon.disclosure_risk(SURVEY, **NAMED, suda=True)
    assert result.suda is not None
    assert result.suda.records == result.sample_uniques
    assert set(result.suda.contributions) == set(NAMED["quasi_identifiers"])
    # The last record has three values that nobody else has.
    assert result.suda.sets_by_size[1] == 3
    assert result.suda.limit is None
    limited = dbanon.disclosure_risk(SURVEY, **NAMED, suda_size=1)
    assert limited.suda is not None
    assert limited.suda.sets_by_size == {1: 3}
    assert "limited in size" in str(limited)


def test_other_tables_in_memory_have_the_same_risk() -> None:
    result = dbanon.disclosure_risk(SURVEY, **NAMED, weight="w", household="home")
    tables: list[Any] = [
        pl.from_pandas(SURVEY),
        SURVEY.to_dict("list"),
        SURVEY.to_dict("records"),
        SURVEY.assign(sex=SURVEY.sex.astype("category"), region=SURVEY.region.astype(float)),
    ]
    for table in tables:
        assert dbanon.disclosure_risk(table, **NAMED, weight="w", household="home") == result


def test_no_value_is_shown_and_the_result_is_plain() -> None:
    result = dbanon.disclosure_risk(
        SURVEY, **NAMED, weight="w", household="home", population=SURVEY, suda=True
    )
    texts = [
        str(result),
        repr(result),
        result._repr_html_(),
        json.dumps(result.to_dict()),
        json.dumps(list(result.measure_rows())),
    ]
    for text in texts:
        assert "qzrare" not in text
        assert "737373" not in text
    assert "not for publication" in texts[0]
    assert "not for publication" in texts[2]
    assert pickle.loads(pickle.dumps(result)) == result
    measures = [measure for measure, *_ in result.measure_rows()]
    assert {"global_risk", "household_risk", "k_map", "suda_contribution"} <= {*measures}


def test_progress_is_reported() -> None:
    calls: list[tuple[str, float]] = []
    dbanon.disclosure_risk(
        SURVEY, **NAMED, suda=True, progress=lambda phase, share: calls.append((phase, share))
    )
    assert calls[-1] == ("measure", 1.0)
    assert [share for _, share in calls] == sorted(share for _, share in calls)


# --- the private list ----------------------------------------------------------------------------


def test_the_list_names_each_record_with_its_risk(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    result = dbanon.disclosure_risk(
        SURVEY, **NAMED, weight="w", household="home", key=["pid"], suda=True, records=path
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = read_list(path)
    assert list(lines[0]) == [
        "pid",
        "risk",
        "matching_records",
        "household_risk",
        "columns",
        "suda",
        "dis_suda",
        "suda_columns",
    ]
    assert sorted(int(line["pid"]) for line in lines) == SURVEY.pid.tolist()
    assert sum(float(line["risk"]) for line in lines) == pytest.approx(
        result.total.expected_reidentifications
    )
    household_risks = [float(line["household_risk"]) for line in lines]
    assert household_risks == sorted(household_risks, reverse=True)
    [rare] = [line for line in lines if line["pid"] == str(SURVEY.pid.iloc[-1])]
    assert rare["matching_records"] == "1"
    # Any of its values suffices, so that leaving out one column changes nothing.
    assert rare["columns"] == ""
    assert sorted(rare["suda_columns"].split(", ")) == ["age", "region", "sex"]
    assert "qzrare" not in path.read_text()


def test_the_list_names_the_columns_without_which_the_risk_is_lower(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    frame = pd.DataFrame({"a": [1, 2, 2, 2, 1], "b": [1, 1, 1, 1, 2]})
    dbanon.disclosure_risk(frame, quasi_identifiers=["a", "b"], records=path)
    lines = {int(line["row"]): line for line in read_list(path)}
    # Without a, the first row is like four others; without b, like the last one.
    assert lines[0]["columns"] == "a, b"
    assert lines[1]["columns"] == "a"
    assert lines[4]["columns"] == "b"


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("mine")
    with pytest.raises(OutputExists):
        dbanon.disclosure_risk(SURVEY, **NAMED, records=path)
    assert path.read_text() == "mine"
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "nothing.csv")
    with pytest.raises(OutputExists):
        dbanon.disclosure_risk(SURVEY, **NAMED, records=link)
    assert not (tmp_path / "nothing.csv").exists()


def test_a_spreadsheet_does_not_run_the_list(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    frame = pd.DataFrame({"=1+1": ["a", "b"], "@id": ["=2+2", "x;=3+3"], "n": [-5, 5]})
    dbanon.disclosure_risk(frame, quasi_identifiers=["=1+1"], key=["@id", "n"], records=path)
    lines = read_list(path)
    assert [(line["'@id"], line["n"]) for line in lines] == [("'=2+2", "-5"), ("x;'=3+3", "5")]
    assert [line["columns"] for line in lines] == ["'=1+1", "'=1+1"]


@pytest.mark.parametrize("keys", [[1, 1, 2], [1, None, 2]])
def test_the_key_of_the_list_identifies_each_row(keys: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    frame = pd.DataFrame({"a": [7, 8, 9], "id": keys})
    with pytest.raises(DuplicateKeys):
        dbanon.disclosure_risk(frame, quasi_identifiers=["a"], key=["id"], records=path)
    assert not path.exists()
    # Neither value identifies a row by itself.
    frame = frame.assign(id=[1, 1, 2])
    dbanon.disclosure_risk(frame, quasi_identifiers=["a"], key=["id", "a"], records=path)
    assert len(read_list(path)) == 3


def test_a_call_that_fails_leaves_no_list(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    with pytest.raises(InvalidParameter):
        dbanon.disclosure_risk(SURVEY.assign(w=0), **NAMED, weight="w", records=path)
    assert not path.exists()


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "options", "error"),
    [
        (SURVEY.assign(w="20"), {"weight": "w"}, UnsupportedType),
        (SURVEY.assign(w=pd.to_datetime("2020-01-01")), {"weight": "w"}, UnsupportedType),
        (SURVEY.assign(w=True), {"weight": "w"}, UnsupportedType),
        (SURVEY, {"weight": "sex"}, InvalidParameter),
        (SURVEY, {"weight": "w", "household": "w"}, InvalidParameter),
        (SURVEY, {"weight": "w", "key": ["w"]}, InvalidParameter),
        (SURVEY, {"quasi_identifiers": []}, InvalidParameter),
        (SURVEY, {"quasi_identifiers": ["sex", "sex"]}, InvalidParameter),
        (SURVEY, {"sampling_fraction": 0}, InvalidParameter),
        (SURVEY, {"sampling_fraction": 1.5}, InvalidParameter),
        (SURVEY, {"threshold": -1}, InvalidParameter),
        (SURVEY, {"missing": "drop"}, InvalidParameter),
        (SURVEY, {"risk_method": "fast"}, InvalidParameter),
        (SURVEY, {"log_linear": "three_way"}, InvalidParameter),
        (SURVEY, {"suda_size": 4}, InvalidParameter),
        (SURVEY, {"population_count": "w"}, InvalidParameter),
        (SURVEY, {"table": "people"}, InvalidParameter),
        (SURVEY, {"decimal": ","}, InvalidParameter),
        (SURVEY[:0], {}, TooFewRecords),
        (SURVEY.assign(w=[None, *[1.0] * (N - 1)]), {"weight": "w"}, InvalidParameter),
        (SURVEY.assign(w=[np.inf, *[1.0] * (N - 1)]), {"weight": "w"}, dbanon.DbanonError),
        (SURVEY.assign(w=1e308), {"weight": "w"}, InvalidParameter),
        (SURVEY, {"sampling_fraction": 5e-324}, InvalidParameter),
        (
            SURVEY,
            {"population": SURVEY.assign(n=1e17), "population_count": "n"},
            InvalidParameter,
        ),
    ],
)
def test_wrong_options_are_refused(
    frame: pd.DataFrame, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        dbanon.disclosure_risk(frame, **(NAMED | options))
    assert "qzrare" not in str(raised.value)
    assert "population_size" not in str(raised.value)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_prints_what_python_returns(tmp_path: Path) -> None:
    path, private_list = tmp_path / "survey.csv", tmp_path / "records.csv"
    SURVEY.to_csv(path, index=False)
    words = ["risk", f"file:{path}", "--table", "survey", "-q", "sex,region,age"]
    words += ["--weight", "w", "--household", "home", "--suda"]
    completed = CliRunner().invoke(
        main, [*words, "--format", "json", "--records", str(private_list)]
    )
    assert completed.exit_code == 0, completed.output
    plain = json.loads(completed.stdout)
    expected = dbanon.disclosure_risk(SURVEY, **NAMED, weight="w", household="home", suda=True)
    assert {**plain, "source": ""} == {**expected.to_dict(), "source": ""}
    # Rows are counted from 0.
    assert sorted(int(line["row"]) for line in read_list(private_list)) == list(range(N))
    assert stat.S_IMODE(private_list.stat().st_mode) == 0o600
    again = CliRunner().invoke(main, [*words, "--records", str(private_list)])
    assert again.exit_code == OutputExists.exit_code
    assert "--records" in again.stderr
    text = CliRunner().invoke(main, words)
    assert "not for publication" in text.stdout
    assert "qzrare" not in text.output


# --- sdcMicro ------------------------------------------------------------------------------------


def test_the_risk_of_the_survey_is_that_of_sdcmicro(tmp_path: Path) -> None:
    files = ("testdata_full.csv", "testdata_risk7.csv.gz", "testdata_suda7.csv.gz")
    folder = require_reference(*(f"sdcmicro/{name}" for name in files)) / "sdcmicro"
    path = tmp_path / "records.csv"
    result = dbanon.disclosure_risk(
        pd.read_csv(folder / "testdata_full.csv"),
        quasi_identifiers=KEYS,
        weight="sampling_weight",
        household="ori_hid",
        risk_method="approximate",
        suda=True,
        records=path,
    )
    # The sums of the columns of sdcMicro's file.
    assert result.total.expected_reidentifications == pytest.approx(10.778299, abs=1e-6)
    assert result.total.rate == pytest.approx(0.00235334, abs=1e-8)
    assert result.household is not None
    assert result.household.expected_reidentifications == pytest.approx(51.81293, abs=1e-5)
    assert result.household.rate == pytest.approx(0.01131287, abs=1e-8)
    assert result.suda is not None
    assert result.suda.records == 157
    lines = {int(line["row"]): line for line in read_list(path)}
    scores = [float(line["dis_suda"]) for line in lines.values()]
    assert np.histogram(scores, [1e-9, 0.1, 0.2, 0.3, 0.6, 1])[0].tolist() == [122, 22, 12, 0, 1]
    with gzip.open(folder / "testdata_risk7.csv.gz", "rt") as file:
        for row, expected in enumerate(csv.DictReader(file)):
            line = lines[row]
            assert int(line["matching_records"]) == int(expected["fk"])
            assert float(line["risk"]) == pytest.approx(float(expected["risk"]), abs=1e-9)
            household_risk = float(line["household_risk"])
            assert household_risk == pytest.approx(float(expected["hier_risk"]), abs=1e-9)
    with gzip.open(folder / "testdata_suda7.csv.gz", "rt") as file:
        for row, expected in enumerate(csv.DictReader(file)):
            assert float(lines[row]["suda"]) == float(expected["score"])
            assert float(lines[row]["dis_suda"]) == pytest.approx(float(expected["dis"]), abs=1e-6)
