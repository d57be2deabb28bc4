"""Differentially private releases of databases: what they spend, tell and refuse."""

from __future__ import annotations

import json
import os
import re
import signal
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    BudgetExhausted,
    BudgetExists,
    BudgetNotFound,
    DbanonError,
    InvalidParameter,
    NoiseTooLarge,
    OutcomeUnknown,
    RecountFailed,
    SourceChanged,
    TimeLimit,
    UnsupportedType,
)
from dbanon.extensions.synthesis import run as private
from dbanon.job.private import build_private_job
from dbanon.run.open import open_store
from tests.prerequisites import import_or_skip
from tests.stores.databases import Database, PostgresqlDatabase
from tests.stores.forked import Command

pytestmark = pytest.mark.in_turn(of="file")

import_or_skip("opendp")

ROWS = [(g % 350 + 0.5, g * 7919 % 1000, g % 100, f"2020-01-{g % 28 + 1:02}") for g in range(1000)]
BOUNDS = {"a": (0, 350), "b": (0, 1000), "d": ("2020-01-01", "2020-12-31")}


def load(database: Database, rows: list[Any] = ROWS, nulls: str = "NOT NULL") -> None:
    types = database.types
    columns = {"a": "double", "b": "integer", "p": "integer", "d": "date"}
    database.load("magic", {name: f"{types[kind]} {nulls}" for name, kind in columns.items()}, rows)


def release(database: Database, **overrides: Any) -> Any:
    options: dict[str, Any] = {
        "table": "magic",
        "quasi_identifiers": ["a", "b", "d"],
        "method": "dp_ranks",
        "epsilon": 1.0,
        "bounds": BOUNDS,
        "budget": "magic",
        "output": "release.magic",
    }
    return dbanon.anonymize(overrides.pop("database", database.url), **(options | overrides))


def spent(database: Database) -> float:
    return dbanon.show_budget(database.url, "magic").spent


@pytest.fixture
def budgeted(database: Database) -> Database:
    return with_budget(database)


def with_budget(database: Database) -> Database:
    """A database with a table and a budget."""
    load(database)
    dbanon.create_budget(database.url, "magic", source="magic", epsilon=3)
    return database


def test_a_release_spends_and_is_recounted(budgeted: Database) -> None:
    report = release(budgeted)
    relation = budgeted.relation("release.magic")
    assert budgeted.rows(
        f"SELECT count(*), count(a), min(a) >= 0, max(a) <= 350, min(b) >= 0, max(b) <= 1000,"
        f" min(d) >= '2020-01-01', max(d) <= '2020-12-31' FROM {relation}"
    ) in ([(1000, 1000, *([True] * 6))], [(1000, 1000, *([1] * 6))])
    assert (report.rows_out, report.spent, report.total, report.epsilon) == (1000, 1.0, 3.0, 1.0)
    assert report.not_copied == ("p",)
    budget = dbanon.show_budget(budgeted.url, "magic")
    assert [(spending.state, spending.release_id) for spending in budget.spendings] == [
        ("published", report.release_id)
    ]
    [entry] = dbanon.releases(budgeted.url)
    assert (entry.state, entry.method, entry.k_requested, entry.information_loss) == (
        "current",
        "dp_ranks",
        None,
        None,
    )
    assert (entry.epsilon, entry.budget) == (1.0, "magic")
    shown_release = dbanon.show(budgeted.url, "release.magic")
    assert (shown_release["k_achieved"], shown_release["histogram"], shown_release["seconds"]) == (
        None,
        None,
        {},
    )
    assert shown_release["epsilon"] == 1.0
    assert shown_release["neighbours"] == "row"
    verification = dbanon.verify(budgeted.url, "release.magic")
    assert (verification.k_achieved, verification.recount_sql) == (None, None)
    assert (verification.rows, verification.unchanged) == (1000, True)
    assert "cannot be counted" in verification.counted
    # Another release spends again; the fourth is refused, and a view is a place, too.
    release(budgeted, output="release.shown", output_kind="view")
    release(budgeted, if_exists="replace")
    with pytest.raises(BudgetExhausted, match="0 of 3 left"):
        release(budgeted, output="release.more")
    assert spent(budgeted) == 3.0
    assert dbanon.drop(budgeted.url, "release.magic")


def test_a_file_keeps_no_budget(tmp_path: Path) -> None:
    """Its rows are in a database for one run only, so the budget would be lost."""
    file = tmp_path / "people.csv"
    file.write_text("age\n1\n2\n")
    with pytest.raises(InvalidParameter, match="a file is not a database"):
        dbanon.create_budget(f"file:{file}", "people", source="people", epsilon=1)


def test_options_of_the_method_are_those_of_a_database_too(budgeted: Database) -> None:
    report = release(
        budgeted,
        quasi_identifiers=["a", "b"],
        bounds={"a": (0.5, 350), "b": (0, 1000)},
        scale={"a": "log"},
        margins="quantiles",
    )
    assert (report.arguments["scale"], report.arguments["margins"]) == ({"a": "log"}, "quantiles")
    assert dbanon.verify(budgeted.url, report.output).unchanged


def test_a_changed_release_is_found_out(budgeted: Database) -> None:
    release(budgeted)
    relation = budgeted.relation("release.magic")
    budgeted.execute(f"UPDATE {relation} SET b = 5 WHERE b <> 5")
    with pytest.raises(dbanon.DbanonError, match="digest"):
        dbanon.verify(budgeted.url, "release.magic")
    budgeted.execute(f"UPDATE {relation} SET b = 5000")
    with pytest.raises(RecountFailed, match="outside of its bounds"):
        dbanon.verify(budgeted.url, "release.magic")
    with pytest.raises(InvalidParameter, match="synthetic"):
        dbanon.verify(budgeted.url, "release.magic", k=3)
    with pytest.raises(InvalidParameter, match="synthetic"):
        dbanon.evaluate_release(budgeted.url, "release.magic")


def test_persons_are_units(database: Database) -> None:
    """Rows of a person are one; how many rows there are is nowhere."""
    rows = [row for row in ROWS for _ in range(2 if row[2] < 7 else 1)]
    assert len(rows) == 1070
    load(database, rows)
    dbanon.create_budget(
        database.url, "magic", source="magic", epsilon=50, unit="person", entity="p"
    )
    report = release(database, epsilon=50, entity="p")
    assert (report.rows_out, report.rows_in, report.neighbours) == (100, 100, "person")
    assert "for one person" in report.guarantee
    text = (
        str(report) + json.dumps(report.to_dict()) + str(dbanon.show(database.url, report.output))
    )
    assert re.search(r"\b1,?070\b", text) is None
    with pytest.raises(InvalidParameter, match="protects one person by p"):
        release(database)


def test_what_public_figures_refuse_spends_nothing(budgeted: Database) -> None:
    url = budgeted.url
    for error, overrides in (
        (dbanon.DbanonError, {"bounds": {"a": (0, 350)}}),
        (NoiseTooLarge, {"epsilon": 0.001}),
        (BudgetNotFound, {"budget": "other"}),
        (InvalidParameter, {"epsilon": -1}),
        (InvalidParameter, {"epsilon": float("nan")}),
        (InvalidParameter, {"epsilon": float("inf")}),
        (InvalidParameter, {"bounds": BOUNDS | {"a": (3, 3)}}),
        (InvalidParameter, {"bounds": BOUNDS | {"b": (0, 2**40)}}),
        (dbanon.DbanonError, {"output": "dbanon.x" if budgeted.name != "sqlite" else "dbanon_x"}),
        (InvalidParameter, {"memory_limit": 1000}),
    ):
        if error is InvalidParameter and "memory_limit" in overrides:
            error = dbanon.DbanonError
        if budgeted.name == "sqlite" and overrides.get("bounds", {}).get("b") == (0, 2**40):
            continue
        with pytest.raises(error):
            release(budgeted, **overrides)
    for name, value, why in (
        ("k", 5, "no classes"),
        ("sensitive", ["p"], "no noise"),
        ("keep", ["p"], "no noise"),
        ("by", ["p"], "no noise"),
        ("where", "a > 3", "filter"),
        ("models", [{"attribute": "p", "kind": "distinct_l", "level": 2}], "classes"),
        ("refine", "fast", "classes"),
        ("recoding", "mean", "classes"),
        ("evaluate", True, "no budget is spent"),
        ("seed", 3, "seed"),
        ("target", url, "database that is read"),
    ):
        with pytest.raises(InvalidParameter, match=why):
            release(budgeted, **{name: value})
    with pytest.raises(InvalidParameter, match="no budget is spent"):
        dbanon.plan(url, table="magic", quasi_identifiers=["a"], k=3, output="x", method="dp_ranks")
    with pytest.raises(InvalidParameter, match="of dp_ranks and dp_marginals"):
        budgeted.anonymize(table="magic", quasi_identifiers=["a"], epsilon=1.0)
    budgeted.execute("CREATE VIEW shown AS SELECT * FROM magic")
    with pytest.raises(UnsupportedType, match="is a view"):
        release(budgeted, table="shown")
    with pytest.raises(UnsupportedType, match="is a view"):
        dbanon.create_budget(url, "v", source="shown", epsilon=1)
    with pytest.raises(BudgetExists):
        dbanon.create_budget(url, "second", source="magic", epsilon=1)
    # Rows and persons are the same people: there is one account, and it keeps its unit.
    of_persons = {"unit": "person", "entity": "p", "epsilon": 99}
    with pytest.raises(BudgetExists, match="open budget magic of rows"):
        dbanon.create_budget(url, "second", source="magic", **of_persons)
    with pytest.raises(BudgetNotFound, match="unit person"):
        dbanon.create_budget(url, "second", source="magic", raises="magic", **of_persons)
    assert spent(budgeted) == 0.0


def test_a_total_is_raised_by_another_budget(budgeted: Database) -> None:
    release(budgeted)
    raised = dbanon.create_budget(budgeted.url, "magic2", source="magic", epsilon=5, raises="magic")
    assert (raised.spent, raised.total, raised.left) == (1.0, 5.0, 4.0)
    with pytest.raises(BudgetExhausted, match="closed"):
        release(budgeted, output="release.more")
    release(budgeted, output="release.more", budget="magic2")
    with pytest.raises(BudgetExhausted, match="Choose a total above 5"):
        dbanon.create_budget(budgeted.url, "m3", source="magic", epsilon=4, raises="magic2")
    # A budget that raised the first one again would forget the spending of its successor.
    with pytest.raises(BudgetNotFound, match="no open budget magic of"):
        dbanon.create_budget(budgeted.url, "m3", source="magic", epsilon=9, raises="magic")
    budgeted.execute("CREATE TABLE other AS SELECT * FROM magic")
    assert dbanon.create_budget(budgeted.url, "other", source="other", epsilon=1).spent == 0.0


def test_no_value_ends_a_run(database: Database) -> None:
    """NULL, and on SQLite any value that is not of the column's type."""
    rows: list[Any] = [(None, None, 1, None) if g % 7 == 0 else row for g, row in enumerate(ROWS)]
    load(database, rows, nulls="")
    if database.name == "sqlite":
        database.execute("UPDATE magic SET a = 'x', b = 'y', d = '2020-13-99' WHERE rowid % 5 = 0")
    elif database.name == "duckdb":
        database.execute(
            "UPDATE magic SET a = 'NaN', d = 'infinity' WHERE b % 5 = 0",
            "UPDATE magic SET a = '-Infinity', d = '-infinity' WHERE b % 5 = 1",
        )
    dbanon.create_budget(database.url, "magic", source="magic", epsilon=3)
    with pytest.raises(InvalidParameter, match="may hold NULL"):
        release(database)
    report = release(database, null_as={"a": 0, "b": 0, "d": "2020-01-01"})
    assert report.rows_out == 1000
    assert dbanon.verify(database.url, "release.magic").unchanged


def test_rows_that_come_between_end_the_run_and_it_stays_spent(
    budgeted: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    spending = private._spend_with_retries

    def then_written(store: Any, initial_ledger: Any) -> Any:
        result = spending(store, initial_ledger)
        budgeted.execute(
            "INSERT INTO magic SELECT * FROM magic LIMIT 1".replace(
                "SELECT * FROM magic LIMIT 1", "SELECT a, b, p, d FROM magic LIMIT 1"
            )
        )
        return result

    monkeypatch.setattr(private, "_spend_with_retries", then_written)
    with pytest.raises(SourceChanged, match="1000 rows before epsilon was spent"):
        release(budgeted)
    assert spent(budgeted) == 1.0
    [only] = dbanon.show_budget(budgeted.url, "magic").spendings
    assert (only.state, only.release_id) == ("spent", None)
    assert dbanon.releases(budgeted.url) == []


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGINT])
@pytest.mark.usefixtures("interrupts")
def test_the_time_limit_and_interrupts_outlast_the_spending(
    budgeted: Database, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write = private.write_rows

    def write_too_long(*arguments: Any) -> None:
        os.kill(os.getpid(), number)
        write(*arguments)

    monkeypatch.setattr(private, "write_rows", write_too_long)
    with pytest.raises(TimeLimit if number == signal.SIGALRM else KeyboardInterrupt):
        release(budgeted, time_limit=1000)
    assert (spent(budgeted), dbanon.releases(budgeted.url)) == (1.0, [])


def test_an_exception_of_the_caller_never_follows_the_commit(budgeted: Database) -> None:
    """Progress is reported before the commit, so an exception there means that nothing is out."""

    def give_up(phase: str, share: float) -> None:
        if (phase, share) == ("verify", 1.0):
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        release(budgeted, progress=give_up)
    assert (spent(budgeted), dbanon.releases(budgeted.url)) == (1.0, [])


_KILLED = """
import os, signal, sys
import dbanon.extensions.synthesis.run as private
wrote = private.write_rows
def killed(*given):
    wrote(*given)
    os.kill(os.getpid(), signal.SIGKILL)
private.write_rows = killed
from dbanon.doors.cli.main import main
main()
"""


def test_a_run_that_is_killed_stays_spent(budgeted: Database) -> None:
    """Between the spending and the release: nothing is published, and nothing comes back."""
    with Command(
        _KILLED,
        "anonymize",
        budgeted.url,
        "--table",
        "magic",
        "-q",
        "a",
        "-q",
        "b",
        "--method",
        "dp_ranks",
        "--epsilon",
        "1",
        "--bounds",
        "a=0:350",
        "--bounds",
        "b=0:1000",
        "--budget",
        "magic",
        "--output",
        "release.magic",
        env=os.environ,
    ) as run:
        _, stderr = run.communicate()
    assert run.returncode == -signal.SIGKILL, stderr
    assert spent(budgeted) == 1.0
    assert dbanon.releases(budgeted.url) == []
    assert [spending.state for spending in dbanon.show_budget(budgeted.url, "magic").spendings] == [
        "spent"
    ]


_RACE = """
import sys, dbanon
from sqlalchemy import create_engine, NullPool
url, place, isolation = sys.argv[1:]
try:
    dbanon.anonymize(url, table="magic", quasi_identifiers=["a"], method="dp_ranks", epsilon=1.0,
                     bounds={"a": (0, 350)}, budget="magic", output=f"release.m{place}")
    print("released")
except dbanon.DbanonError as error:
    print(error.code)
"""


@pytest.mark.postgresql
def test_a_race_of_clients_never_spends_more_than_there_is(postgresql: PostgresqlDatabase) -> None:
    """Five processes on a budget for three."""
    budgeted = with_budget(postgresql)
    runs = [Command(_RACE, budgeted.url, str(index), "", env=os.environ) for index in range(5)]
    outcomes = [run.communicate()[0].strip() for run in runs]
    assert spent(budgeted) <= 3.0
    assert outcomes.count("released") <= 3
    assert len(dbanon.releases(budgeted.url)) == outcomes.count("released")
    # If two runs create the schema of releases at once, one of them must try again.
    refused = {"budget_exhausted", "database_busy", "source_changed"}
    assert set(outcomes) <= {"released", *refused}


def test_the_command_line(budgeted: Database, tmp_path: Path) -> None:
    def run(*words: str, exit_code: int = 0) -> str:
        done = CliRunner().invoke(main, list(words), env={"COLUMNS": "300"})
        assert done.exit_code == exit_code, done.output
        return done.output

    release_words = [
        "anonymize",
        budgeted.url,
        "--table",
        "magic",
        "-q",
        "a",
        "-q",
        "d",
        "--method",
        "dp_ranks",
        "--epsilon",
        "1",
        "--bounds",
        "a=0:350",
        "--bounds",
        "d=2020-01-01:2020-12-31",
        "--budget",
        "magic",
    ]
    report_path = tmp_path / "report.json"
    out = run(*release_words, "--output", "release.magic", "--report", str(report_path))
    assert "1 of 3 are spent" in out
    assert json.loads(report_path.read_text())["epsilon"] == 1.0
    run(*release_words, "--output", "x", "--k", "5", exit_code=2)
    run(*release_words[:-2], "--output", "x", exit_code=2)
    assert "magic" in run("budget", "list", budgeted.url)
    assert "release" in run("budget", "show", budgeted.url, "magic")
    budget = json.loads(run("budget", "show", budgeted.url, "magic", "--format", "json"))
    assert (budget["spent"], budget["left"], len(budget["spendings"])) == (1.0, 2.0, 1)
    out = run("verify", budgeted.url, "release.magic")
    assert "Differential privacy cannot be counted" in out
    assert "dp_ranks" in run("releases", budgeted.url)


def test_a_page_charges_no_budget(budgeted: Database, tmp_path: Path) -> None:
    """The run writes the report, and it is written again from the ledger; both contain only public
    figures.
    """
    words = [
        "anonymize",
        budgeted.url,
        "--table",
        "magic",
        "-q",
        "a",
        "-q",
        "d",
        "--method",
        "dp_ranks",
        "--epsilon",
        "1",
        "--bounds",
        "a=0:350",
        "--bounds",
        "d=2020-01-01:2020-12-31",
        "--budget",
        "magic",
        "--output",
        "release.magic",
        "--format",
        "json",
    ]
    done = CliRunner().invoke(main, [*words, "--report", str(tmp_path / "run.html")])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    words = ["report", budgeted.url, "release.magic", "--output"]
    for name in ("again.html", "again.json", "again.txt"):
        done = CliRunner().invoke(main, [*words, str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    assert spent(budgeted) == 1.0
    again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))
    assert again == report | {"created_at": again["created_at"]}
    for page, recounted in (
        ("run.html", "It was not recounted for this page."),
        ("again.html", "Recounted for this page: 1000 rows (rows, NULLs, bounds and lists."),
    ):
        text = unescape((tmp_path / page).read_text(encoding="utf-8"))
        assert recounted in text
        assert "1 of 3 are spent" in text
        assert report["guarantee"].rstrip(".") + ".<" in text
        assert all(how in text for how in report["method_notes"])
        assert "http-equiv" in text
        assert "<script" not in text
        assert (tmp_path / page).stat().st_mode & 0o777 == 0o600
    relation = budgeted.relation("release.magic")
    budgeted.execute(f"DELETE FROM {relation} WHERE a < 200")
    (tmp_path / "again.html").unlink()
    done = CliRunner().invoke(main, [*words, str(tmp_path / "again.html")])
    assert done.exit_code in (3, 6), done.output
    assert not (tmp_path / "again.html").exists()


def test_a_job_of_a_file(
    budgeted: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_SOURCE", budgeted.url)
    file = tmp_path / "jobs.yaml"

    def written(more: str = "") -> Path:
        file.write_text(
            f"""version: 1
source: {{url: "${{DP_SOURCE}}"}}
defaults: {{k: 5}}
jobs:
  - name: magic
    table: magic
    columns:
      a: {{role: quasi_identifier}}
      b: {{role: quasi_identifier}}
      p: {{role: identifier}}
      d: {{role: identifier}}
    output: {{table: release.magic}}
    method: dp_ranks
    epsilon: 1
    bounds: {{a: [0, 350], b: [0, 1000]}}
    budget: magic
{more}"""
        )
        return file

    done = CliRunner().invoke(main, ["check", str(written("    report: page.html\n"))])
    assert done.exit_code == 0, done.output
    report = dbanon.run_job(written())
    assert report.epsilon == 1.0
    assert spent(budgeted) == 1.0
    with pytest.raises(InvalidParameter, match="skip_unchanged"):
        dbanon.run_job(file, skip_unchanged=True)
    for more in ("    k: 3\n", "    where: a > 3\n", "    evaluate: true\n"):
        with pytest.raises(dbanon.DbanonError, match="takes no"):
            dbanon.run_job(written(more))
    done = CliRunner().invoke(main, ["plan", str(written())])
    assert done.exit_code == 2
    assert spent(budgeted) == 1.0


@pytest.mark.parametrize(
    ("error", "code", "is_recorded"),
    [
        (OutcomeUnknown("The connection was lost."), "outcome_unknown", False),
        (SourceChanged("It changed."), "source_changed", True),
        (MemoryError(), "memory_limit", True),
    ],
)
def test_failed_runs_are_recorded_unless_they_may_have_succeeded(
    budgeted: Database,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: str,
    is_recorded: bool,
) -> None:
    def fail(spender: Any) -> Any:
        raise error

    monkeypatch.setattr(private, "release", fail)
    with pytest.raises(DbanonError) as raised:
        release(budgeted)
    assert raised.value.code == code
    runs = budgeted.rows(f"SELECT error_code FROM {budgeted.ledger('run')} WHERE error_code <> ''")
    assert runs == ([(code,)] if is_recorded else [])


def test_noise_has_one_source_and_no_seed(budgeted: Database) -> None:
    """The database's own draws differ, and the noise of a run is what it was given."""
    job = build_private_job(
        {
            "table": "magic",
            "quasi_identifiers": ["b"],
            "epsilon": 1.0,
            "bounds": {"b": (0, 1000)},
            "budget": "magic",
            "output": "release.one",
        }
    )
    first = private.run_private(job, open_store(budgeted.url))
    other = release(budgeted, quasi_identifiers=["b"], bounds={"b": (0, 1000)})
    query = "SELECT b FROM {} ORDER BY b"
    assert budgeted.rows(query.format(budgeted.relation("release.one"))) != budgeted.rows(
        query.format(budgeted.relation("release.magic"))
    )
    assert first.digest != other.digest
