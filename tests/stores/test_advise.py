"""Advice: the same on every database and for a frame, without any value of the data."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import Cancelled
from tests.stores.databases import Database, SqliteDatabase
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

RNG = np.random.default_rng(7)
N = 240
# One planted row: neither it nor any other value may appear in the output.
RARE = (731_731, "qzrare person", 97.31, 737_373, "qzrare", "qzrare illness", "qzrare note it is")
TRACES = re.compile(r"73173|73737|97\.3|qz", re.IGNORECASE)
COLUMNS = ("id", "full_name", "weight", "income", "region", "illness", "note")
ROWS = [
    (
        i + 1,
        f"qzname {i}",
        round(float(RNG.normal(70, 9)), 2),
        int(RNG.integers(20, 60)) * 1000,
        f"qz{int(RNG.integers(0, 5))}",
        f"qzill {int(RNG.integers(0, 4))}",
        "qz " * 20 + str(i),
    )
    for i in range(N - 1)
] + [RARE]
ROLES = {
    "id": "identifier",
    "full_name": "identifier",
    "weight": "quasi_identifier",
    "income": "quasi_identifier",
    "region": "quasi_identifier",
    "illness": "sensitive",
    "note": "not_copied",
}
QUICK: dict[str, Any] = {"k": [3, 4, 5, 6]}
# Refinements take most of the time, so tests about the wording for rows try one curve only.
ONE_CURVE: dict[str, Any] = {"methods": ["mdav"], "k": [3, 5]}
# Includes the planted row, and rare values in every column.
FEW = ROWS[-120:]


def load(database: Database, rows: list[tuple[Any, ...]] = ROWS) -> None:
    kind = database.types
    kinds = [
        kind["integer"] + " PRIMARY KEY",
        kind["text"],
        kind["decimal"],
        kind["integer"],
        kind["text"],
        kind["text"],
        kind["text"],
    ]
    database.load("people", dict(zip(COLUMNS, kinds, strict=True)), rows)


def timeless(advice: Any) -> dict[str, Any]:
    """All that may not differ between databases."""
    plain = json.loads(json.dumps(advice.to_dict()))
    for name in ("source", "seconds"):
        del plain[name]
    for name in ("table", "output"):
        plain["start"].pop(name, None)
    for column in plain["columns"]:
        del column["type"]
    for section in [
        *plain["sweep"]["points"],
        *map(plain["recommendation"].get, ("point", "runner_up")),
    ]:
        del section["seconds"]
    return dict(plain)


@functools.cache
def advice_for_a_frame() -> Any:
    return dbanon.advise(pd.DataFrame(ROWS, columns=list(COLUMNS)), k=[3, 5])


def test_it_is_the_same_everywhere(database: Database) -> None:
    load(database)
    before = database.state()
    advice = dbanon.advise(database.url, "people", k=[3, 5])
    assert database.state() == before
    assert {column.column.name: column.role.role for column in advice.columns} == ROLES
    assert advice.columns[0].role.reason == "key"
    assert advice.proposed
    assert advice.rows == N
    of_frame = advice_for_a_frame()
    # Floats of a frame are no decimals, nor does a frame declare a key.
    assert of_frame.columns[0].role.reason == "name"
    mine, theirs = timeless(advice), timeless(of_frame)
    mine["columns"][0] = theirs["columns"][0] = None
    for result in (mine, theirs):
        del result["sweep"]["points"], result["recommendation"]
    assert mine == theirs
    assert advice.recommendation.point.curve == of_frame.recommendation.point.curve


@pytest.mark.parametrize("form", ["polars", "arrow", "dict", "rows"])
def test_every_table_in_hand_is_advised_alike(form: str) -> None:
    """``advise`` takes the data that ``anonymize_frame`` takes."""
    columns = pd.DataFrame(ROWS, columns=list(COLUMNS)).to_dict("list")
    frame = pl.DataFrame(columns)
    tables = {"polars": frame, "arrow": frame.to_arrow(), "dict": columns, "rows": frame.to_dicts()}
    advice = dbanon.advise(tables[form], k=[3, 5])
    assert timeless(advice) == timeless(advice_for_a_frame())
    released, _ = dbanon.anonymize_frame(tables[form], **advice.start)
    assert len(released) > 0


def test_numbers_are_swept_as_numbers(database: Database) -> None:
    load(database)
    advice = dbanon.advise(database.url, "people", quasi_identifiers=["weight", "income"], **QUICK)
    assert (advice.sweep.measure, advice.proposed) == ("sse_loss", False)
    assert {p.curve for p in advice.sweep.points} == {"mdav", "mdav+fast", "cbfs_mhm+fast"}
    roles = {column.column.name: column.role for column in advice.columns}
    assert roles["region"].reason == "not_named"
    for point in advice.sweep.points:
        assert 0 < point.risk <= 1 / point.k
    # The sweep measures the same release that a run makes.
    best = advice.recommendation.point
    report = dbanon.anonymize(database.url, **advice.start)
    assert report.k_achieved >= best.k
    assert report.internal.information_loss == pytest.approx(best.loss, rel=1e-9)


def test_named_columns_that_have_nulls(database: Database) -> None:
    rows = [(*row[:3], None if at % 9 == 0 else row[3], *row[4:]) for at, row in enumerate(ROWS)]
    load(database, rows)
    options: dict[str, Any] = {"quasi_identifiers": ["weight", "income"], **ONE_CURVE}
    advice = dbanon.advise(database.url, "people", **options)
    # Each pattern of NULLs has its classes.
    assert (advice.start["nulls"], "max_suppression" in advice.start) == ("category", False)
    assert advice.columns[3].nulls.to_dict() == {"rows": "27", "share": 0.1125}
    assert dbanon.anonymize(database.url, **advice.start).suppressed == 0


def test_patterns_of_nulls_that_few_rows_have(database: Database) -> None:
    rows = [(*row[:2], None if at in (5, 6) else row[2], *row[3:]) for at, row in enumerate(ROWS)]
    load(database, rows)
    options: dict[str, Any] = {"quasi_identifiers": ["weight", "income"], **ONE_CURVE}
    advice = dbanon.advise(database.url, "people", **options)
    # These rows are withheld. The output only says that there are few.
    assert {str(point.suppressed) for point in advice.sweep.points} == {"1..4"}
    assert (advice.start["nulls"], advice.start["max_suppression"]) == ("suppress", 0.01)
    assert advice.columns[2].nulls.to_dict() == {"rows": "1..4", "share": None}
    report = dbanon.anonymize(database.url, **advice.start)
    assert report.suppressed == 2
    assert report.internal.information_loss == pytest.approx(
        advice.recommendation.point.loss, rel=1e-9
    )


def all_output(work: Callable[[], Any]) -> str:
    """All that a call says, whether it fails or not."""
    try:
        return json.dumps(work().to_dict(), ensure_ascii=False)
    except dbanon.DbanonError as error:
        return f"{error} {json.dumps(error.to_dict())} {error!r}"


CALLS: dict[str, dict[str, Any]] = {
    "proposed": {},
    "rare column": {"quasi_identifiers": ["region", "illness"]},
    "an identifier": {"quasi_identifiers": ["full_name", "weight"]},
    "free text": {"quasi_identifiers": ["note"]},
    "sampled": {"sample": 100},
    "too few": {"k": [300]},
    "no column": {"quasi_identifiers": ["qqq"]},
    "nothing fits": {"max_risk": 0.0},
    "a hierarchy": {"hierarchies": {"region": {"levels": [["a", "*"]]}}},
    "intervals": {"hierarchies": {"income": {"intervals": [5, 10]}}},
    "memory": {"memory_limit": 10},
    "a method": {"quasi_identifiers": ["region"], "methods": ["mdav"]},
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", CALLS)
def test_no_value_is_revealed(database: Database, name: str) -> None:
    load(database, FEW)
    options = {"k": [3, 4], **CALLS[name]}
    trees = options.get("hierarchies", {})
    texts = [all_output(lambda: dbanon.advise(database.url, "people", **options))]
    frame = pd.DataFrame(FEW, columns=list(COLUMNS))
    texts.append(all_output(lambda: dbanon.advise(frame, **options)))
    for form in ("table", "json"):
        arguments = [
            "advise",
            database.url,
            "--table",
            "people",
            "--format",
            form,
            "--k",
            ",".join(map(str, options["k"])),
            "--print-sql",
        ]
        for column in options.get("quasi_identifiers", ()):
            arguments += ["-q", column]
        for option in ("sample", "max_risk", "memory_limit"):
            if option in options:
                arguments += ["--" + option.replace("_", "-"), str(options[option])]
        for method in options.get("methods", ()):
            arguments += ["--methods", method]
        for column, tree in trees.items():
            arguments += ["--hierarchy", f"{column}={json.dumps(tree)}"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code in (0, 2, 3, 9), result.output
        texts.append(result.output)
    for text in texts:
        assert text
        # The URL has the table's file in it, and what a caller wrote is no value of the data.
        assert not TRACES.search(text.replace(database.url, "")), text


def test_what_cannot_be_advised(database: Database) -> None:
    load(database)

    def refused(table: str = "people", **options: Any) -> str:
        with pytest.raises(dbanon.DbanonError) as error:
            dbanon.advise(database.url, table, **{**QUICK, **options})
        return error.value.code

    database.load("empty", {"a": "integer"}, [])
    database.load("names", {"email": database.types["text"]}, [(f"qz{i}@x",) for i in range(30)])
    database.execute("CREATE VIEW seen AS SELECT * FROM people")
    assert refused("empty") == "no_rows"
    assert refused("names") == "no_quasi_identifiers"
    assert refused(k=[500]) == "too_few_records"
    assert refused(max_risk=0.0) == "nothing_fits"
    assert refused(quasi_identifiers=["region"], methods=["mdav"]) == "unsupported_type"
    assert refused("seen") == "key_required"
    assert refused(k=[]) == refused(k=[1]) == refused(methods=["mdav+most"]) == "invalid_parameter"
    assert refused(methods=["mdave"]) == "unknown_method"
    assert refused(quasi_identifiers=["a"], sensitive=["a"]) == "invalid_parameter"
    assert refused(quasi_identifiers=["agee"]) == "column_not_found"
    advice = dbanon.advise(database.url, "seen", key=["id"], k=[3])
    assert advice.start["key"] == ["id"]


def test_a_method_that_takes_no_such_columns_is_left_out(sqlite_file: SqliteDatabase) -> None:
    database = sqlite_file
    load(database)
    advice = dbanon.advise(
        database.url, "people", methods=["mdav", "gaa_cp", "individual_ranking"], k=[3, 4]
    )
    assert {p.curve for p in advice.sweep.points} == {"gaa_cp"}
    assert [(curve.curve, curve.code) for curve in advice.sweep.left_out] == [
        ("mdav", "unsupported_type"),
        ("individual_ranking", "invalid_parameter"),
    ]
    assert any("mdav was left out: Column" in note for note in advice.sweep.notes())


def test_the_time_limit_ends_the_sweep_after_one_release(sqlite_file: SqliteDatabase) -> None:
    database = sqlite_file
    load(database)
    advice = dbanon.advise(database.url, "people", time_limit=1e-9)
    assert len(advice.sweep.points) == 1
    # Knees are searched at the largest k, without refinement.
    assert (advice.sweep.points[0].curve, advice.sweep.points[0].k) == ("gaa_cp", 10)
    assert advice.sweep.untried == 19
    assert any("the most expensive ones: 19" in note for note in advice.sweep.notes())
    # One release says nothing of others: nothing is recommended of it, and there is no start.
    assert (advice.recommendation, dict(advice.start)) == (None, {})
    assert advice.to_dict()["recommendation"] is None
    _, (label, text), *_ = advice.recommended()
    assert (label, text.split(":")[0]) == ("release", "none")
    assert "only one release was tried, gaa_cp with k = 10" in text
    text = CliRunner().invoke(
        main,
        ["advise", database.url, "--table", "people", "--time-limit", "1e-9"],
        env={"COLUMNS": "200"},
    )
    assert (text.exit_code, "only one release was tried" in text.stdout) == (0, True)
    assert "dbanon anonymize" not in text.stdout


def test_a_suggestion_that_withholds_much_says_so_first() -> None:
    """Patterns of NULLs that few rows have: 24 of 240 rows would be withheld."""
    rows = [
        (*row[:2], None if at % 10 == 0 else row[2], row[3], *row[4:])
        for at, row in enumerate(ROWS)
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    options: dict[str, Any] = {"quasi_identifiers": ["weight", "income"], **ONE_CURVE, "k": [3, 5]}
    recommendations = dict(dbanon.advise(frame, nulls="suppress", **options).recommended())
    assert recommendations["release"].startswith("withholds 10 % of the rows; of the others ")
    assert recommendations["runner-up"].startswith("withholds 10 % of the rows; of the others ")
    recommendations = dict(dbanon.advise(frame, **options).recommended())
    assert "withholds" not in recommendations["release"]


def test_the_sweep_of_50_000_rows_tries_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the sweep uses a sample, so each k gets a release within the time.

    With all rows, not even one k would finish within it.
    """
    monkeypatch.setattr("dbanon.run.sweep.OPTIONAL_SECONDS", 0.4)
    values = np.random.default_rng(3).integers(0, 5_000, (50_000, 4))
    frame = pd.DataFrame(values, columns=list("abcd"))
    advice = dbanon.advise(frame, quasi_identifiers=list("abcd"))
    assert (advice.sweep.rows, advice.sweep.of) == (2_000, 50_000)
    assert {p.k for p in advice.sweep.points if p.curve == "mdav"} >= set(range(3, 11))


def test_a_sample_has_whole_persons() -> None:
    """A row of each person would lose less than all their rows do."""
    rng = np.random.default_rng(4)
    person = rng.permutation(np.repeat(np.arange(400), 5))
    frame = pd.DataFrame({"patient_id": person, "a": rng.normal(size=2_000)})
    frame["b"] = rng.normal(size=2_000)
    options: dict[str, Any] = {"quasi_identifiers": ["a", "b"], "methods": ["mdav"], "k": [3, 5]}
    some, every = (dbanon.advise(frame, sample=n, **options) for n in (500, 2_000))
    assert (some.sweep.rows, every.sweep.rows) == (500, 2_000)
    for point, other in zip(some.sweep.points, every.sweep.points, strict=True):
        assert point.loss == pytest.approx(other.loss, abs=0.1)


def test_a_sample_depends_on_the_seed_and_is_reported(database: Database) -> None:
    load(database)
    options = {"quasi_identifiers": ["weight", "income"], "sample": 120, **ONE_CURVE}
    first, same, other = (
        dbanon.advise(database.url, "people", seed=seed, **options) for seed in (1, 1, 2)
    )
    assert timeless(first) == timeless(same) != timeless(other)
    assert (first.sweep.rows, first.sweep.of, first.sweep.sampled) == (120, N, True)
    point = first.sweep.points[0]
    assert point.estimate == pytest.approx(point.loss * (120 / N) ** (2 / 2))
    assert any("120 of 240 rows" in note for note in first.sweep.notes())


def test_the_command_that_is_printed_runs(database: Database) -> None:
    load(database)
    arguments = ["advise", database.url, "--table", "people", "--k", "3..5", "--format", "json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    command = json.loads(result.stdout)["command"]
    program, *words = shlex.split(command)
    # Passwords are not printed: the URL is the test's own.
    words[1] = database.url
    assert (program, words[0]) == ("dbanon", "anonymize")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    table = CliRunner().invoke(main, arguments[:-2])
    assert "proposals, for you to decide" in table.stdout
    assert command.partition(" --table ")[2] in table.stdout


def test_the_rule_of_a_paper_is_named_and_not_followed() -> None:
    """k >= sqrt(n), the next whole number: 15^2 is below 240, 16^2 above."""
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    advice = dbanon.advise(frame, quasi_identifiers=["weight", "income"], **ONE_CURVE)
    text = dict(advice.recommended())["Liu and Li"]
    assert text.startswith("k >= sqrt(n), here 16, ")
    assert "nothing private" in text
    assert ("recommended", "Liu and Li", text, {}) in list(advice.table_rows())
    assert advice.recommendation.point.k < 16


def test_the_arguments_for_a_frame_are_taken() -> None:
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    advice = dbanon.advise(frame, **QUICK)
    released, report = dbanon.anonymize_frame(frame, **advice.start)
    assert report.k_achieved >= advice.recommendation.point.k
    assert list(released.columns) == [*advice.quasi_identifiers, "illness"]


def test_a_frame_has_no_table_and_a_database_has_one(database: Database) -> None:
    for arguments in ((database.url,), (pd.DataFrame({"a": [1]}), "people")):
        with pytest.raises(dbanon.DbanonError) as refused:
            dbanon.advise(*arguments)
        assert refused.value.code == "invalid_parameter"


def test_what_the_progress_raises_ends_the_sweep_though_it_is_an_error_of_ours(
    sqlite_file: SqliteDatabase,
) -> None:
    database = sqlite_file
    load_people(database)
    shares: list[float] = []

    def cancelled(part: str, share: float) -> None:
        if part == "sweep":
            shares.append(share)
            raise Cancelled

    with pytest.raises(Cancelled):
        dbanon.advise(
            database.url,
            table="people",
            quasi_identifiers=["age", "income"],
            k=[3, 4],
            methods=["mdav", "cbfs"],
            progress=cancelled,
        )
    assert len(shares) == 1


def test_a_method_of_synthetic_rows_is_chosen_by_the_forecast_error() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"job": rng.choice(list("abcd"), 5000), "income": rng.normal(3000, 800, 5000)}
    )
    advice = dbanon.advise(frame, quasi_identifiers=["job", "income"], k=[3, 4])
    recommended = dict(advice.recommended())
    assert "instead of k: dp_marginals, because" in recommended["synthetic rows"]
    assert "with delta 1e-09" in recommended["error of synthetic rows"]
    plain = json.loads(json.dumps(advice.to_dict()))["synthetic_rows"]
    assert plain["best"]["method"] == "dp_marginals"
    assert plain["best"]["two_way"] == min(
        error["two_way"]
        for error in plain["errors"]
        if (error["epsilon"], error["delta"]) == (1.0, None)
    )
    [details] = [row[3] for row in advice.table_rows() if row[1] == "synthetic rows"]
    assert details == plain


def test_too_small_an_epsilon_for_the_rows_is_said_with_what_would_do() -> None:
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))[["weight", "income", "region"]].dropna()
    advice = dbanon.advise(frame, quasi_identifiers=list(frame), k=[3, 4])
    recommended = dict(advice.recommended())
    assert "epsilon 1 is too small for these rows" in recommended["too small an epsilon"]
    assert not TRACES.search(json.dumps(advice.to_dict()["synthetic_rows"]))
