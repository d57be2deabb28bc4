"""Help for commands with many options, short column lists, and other tools' option names."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.doors.cli.option_groups import OTHER_GROUP, group_of
from dbanon.doors.cli.support import Names, ShortNames
from dbanon.doors.spelling import build_command
from dbanon.measures.models import model_kinds
from tests.stores.databases import DuckdbDatabase

COMMANDS = ("anonymize", "plan")


@pytest.fixture
def duckdb_file(tmp_path: Path) -> DuckdbDatabase:
    return DuckdbDatabase(tmp_path / "people.duckdb")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), terminal_width=80)


def names(text: str) -> list[str]:
    """The options on a help page, in order."""
    return [line.split()[0] for line in text.splitlines() if line.startswith(("  -", "  --"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_what_most_releases_need(name: str) -> None:
    page = run(name, "--help").stdout
    first = names(page)
    every = names(run(name, "--help-all").stdout)
    assert set(first) < {*every, "--help-all"}
    assert {"--table", "--output", "-q", "--k", "--hierarchy", "--keep"} <= set(first)
    assert "--help-all" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_shown_once_by_task(name: str) -> None:
    page = run(name, "--help-all").stdout
    cli = main.commands[name]
    context = click.Context(cli)
    options = [option for option in cli.get_params(context) if isinstance(option, click.Option)]
    assert len(names(page)) == len(options)
    assert [option.name for option in options if group_of(option) == OTHER_GROUP] == []
    wide = [line for line in page.splitlines() if len(line) > 80]
    # The names of all methods form one word.
    assert all(line.startswith("  --method mdav|") for line in wide)


def test_ten_come_first() -> None:
    page = run("anonymize", "--help-all").stdout
    assert names(page)[: len(names(run("anonymize", "--help").stdout))] == names(
        run("anonymize", "--help").stdout
    )


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("--l-diversity", "--model COLUMN=distinct_l:3"),
        ("--l_diversity", "--model COLUMN=distinct_l:3"),
        ("--t-closeness", "--model COLUMN=t_closeness:0.2"),
        ("--entropy-l", "--model COLUMN=entropy_l:3"),
        ("--quasi-identifier", "--quasi-identifiers A,B"),
        ("--suppression-limit", "--max-suppression 0.01"),
    ],
)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_of_other_tools_leads_to_ours(name: str, other: str, ours: str) -> None:
    done = run(name, "duckdb:///x.duckdb", other, "3")
    assert done.exit_code == 2
    assert f"No such option: {other}. Write {ours}." in done.stderr
    kind = ours.partition("=")[2].partition(":")[0]
    assert "=" not in ours or kind in model_kinds()


def test_a_misspelled_option_is_corrected_as_before() -> None:
    stderr = run("plan", "duckdb:///x.duckdb", "--kep", "a").stderr
    assert "Did you mean" in stderr
    assert "--keep" in stderr


def test_suggestions_for_unknown_options_work(duckdb_file: DuckdbDatabase) -> None:
    columns = {"age": "INTEGER", "ill": "VARCHAR"}
    duckdb_file.load("people", columns, [(i, "abc"[i % 3]) for i in range(30)])
    line = ["anonymize", duckdb_file.url, "--table", "people", "--output", "released"]
    line += ["-q", "age", "-s", "ill", "--k", "3", "--no-progress"]
    hint = run(*line, "--l-diversity", "3").stderr.partition("Write ")[2].strip().rstrip(".")
    option, value = hint.split()
    done = run(*line, option, value.replace("COLUMN", "ill"))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "options",
    [
        ["-q", "age,size"],
        ["-q", "age", "-q", "size"],
        ["--quasi-identifiers", "age,size"],
        ["-q", "age, size"],
        ["-q", '"age",size'],
    ],
    ids=str,
)
def test_short_names_are_lists(options: list[str], duckdb_file: DuckdbDatabase) -> None:
    columns = {"age": "INTEGER", "size": "INTEGER"}
    duckdb_file.load("people", columns, [(i, i % 7) for i in range(30)])
    line = ["--table", "people", "--output", "released", "--k", "3", *options]
    done = run("plan", duckdb_file.url, *line)
    assert done.exit_code == 0, done.output
    assert run("anonymize", duckdb_file.url, *line, "--no-progress").exit_code == 0
    verified = run("verify", duckdb_file.url, "released", "--k", "3", *options)
    assert verified.exit_code == 0, verified.output
    assert run("bound", duckdb_file.url, "--table", "people", "--k", "3", *options).exit_code == 0


def test_a_printed_command_takes_any_name() -> None:
    start = {"table": "t", "quasi_identifiers": ["a,b", " c ", 'd"e', "f g"], "k": 3}
    words = build_command("duckdb:///x.duckdb", start).partition(" -q ")[2]
    assert words.startswith("'\"a,b\"' -q ' c ' -q '\"d\"\"e\"' -q 'f g'")


@pytest.mark.parametrize("empty", ["a,,b", ",", '"",a'])
def test_an_empty_name_is_refused(empty: str) -> None:
    done = run("plan", "duckdb:///x.duckdb", "-q", empty)
    assert (done.exit_code, "an empty name" in done.stderr) == (2, True)


@pytest.mark.parametrize("option", ["-q", "-s", "--keep", "--quasi-identifiers"])
def test_names_with_line_breaks_and_blanks_are_put_in_quotes(option: str) -> None:
    columns = click.Option([option], type=ShortNames() if option in ("-q", "-s") else Names())
    context = click.Context(click.Command("anonymize"))
    assert columns.type_cast_value(context, '"two\nlines"," x "') == ("two\nlines", " x ")
    with pytest.raises(click.BadParameter, match="line break in double quotes"):
        columns.type_cast_value(context, "two\nlines,b")
