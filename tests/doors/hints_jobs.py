"""Hints of jobs, methods and doors: what raises each, and what a user does who follows it."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.workbench.open import open_job_file
from dbanon.doors.workbench.program import run_workbench
from dbanon.doors.workbench.state import JobFileCommands, Start
from dbanon.errors import DbanonError, OutcomeUnknown
from tests.doors.hint_cases import Case
from tests.doors.hint_doors import model
from tests.doors.hint_steps import (
    ARRAY,
    FRAME,
    MEASURES,
    OPEN,
    PEOPLE,
    Act,
    CommandRefusedError,
    Steps,
    World,
    cli,
    evaluate,
    frame,
    noisy,
    release,
)
from tests.doors.hints_workbench import IN_WORKBENCH

_SECURE = {"epsilon": 3.0, "gamma0": 1.0}
_TOWN_ORDER = {"town": ["a", "b", "c"]}
_ILL = {"sensitive": ["ill"]}
_CODES = {"entity": "pid", "persons": "rows"}


# Options of a release of a table in a database.
OF_TABLES = (
    Case("Leave out `also_k`, or choose another method, such as", {"also_k": [["age"]],
         "method": "secure_kward", "options": _SECURE},
         leave_out=["also_k"], needs={"method=mdav": {"options": None}}, doors=("python",)),
    Case("Choose another model, such as distinct_l, or leave out `also_k`.",
         {**_ILL, "also_k": [["age"]], "models": [model("ill", "delta_disclosure", 3)]},
         leave_out=["also_k"], does=[{"models": [model("ill", "distinct_l", 2)]}],
         doors=("python", "cli")),
    Case("Use `persons=\"whole\"`, or leave out `also_k`.", {**_CODES, "also_k": [["age"]]},
         leave_out=["also_k"]),
    Case("Leave out `pseudonyms`, or use `persons=\"whole\"`.", {**_CODES, "pseudonyms": ["code"],
         "pseudonym_key": "file:key"}, leave_out=["pseudonyms"],
         needs={"pseudonyms": {"pseudonym_key": None}}),
    Case("Choose another model, such as distinct_l, or use `persons=\"whole\"`.",
         {**_CODES, **_ILL, "models": [model("ill", "entropy_l", 1.2)]},
         does=[{"models": [model("ill", "distinct_l", 2)]}]),
    Case("Leave out `kept_columns`, or `{}`.", {"kept_columns": "client", "keep": ["town"],
         "entity": "pid"}, leave_out=["kept_columns"]),
)  # fmt: skip

_CHAINED = f"{PEOPLE} {OPEN}"
_SHOW = "--entity id --changes show --key-out {path}/{new}.key"
_KEY = "--pseudonym-key file:{path}/key"
_ALONE = "--releases independent"


def of_chain(hint: str, words: str, instead: str = "", *, alone: str | None = None) -> Steps:
    """A release in a chain that these options refuse; ``alone``: how it is made without one."""
    ways = [cli(f"{_CHAINED} {instead}")]
    if alone is not None:
        ways.append(cli(f"{PEOPLE} --entity pid {alone} {_ALONE}"))
    return Steps(hint, cli(f"{_CHAINED} {words}"), ways)


def copy_table(world: World, name: str, rows: int = 120) -> str:
    """Copy the first rows of the table; the name of the copy."""
    with closing(sqlite3.connect(world.path / "people.sqlite")) as connection:
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM people WHERE id < {rows}")
    return name


def new_chain(words: str = "", release: str | None = "", rows: int = 60) -> Act:
    """Create a chain of a copy of the table, with a release that has these options."""

    def act(world: World) -> object:
        name = copy_table(world, world.new(), rows)
        key = f"{{path}}/{name}.key"
        world.cli(
            f"chain create {{url}} {name} --table {name} --entity id --key-out {key} {words}"
            + ("" if "--changes" in words else " --changes show")
        )
        if release is not None:
            world.cli(release_in(name, release))
        return name

    return act


def release_in(chain: str, words: str = "") -> str:
    """The command of a release in the chain of a table."""
    k = "" if "--k " in words else " --k 4"
    return (
        f"anonymize {{url}} --table {chain} -q age{k} --output {{new}} --chain {chain} --entity id"
        f" --chain-key file:{{path}}/{chain}.key {words}"
    )


def second_release(change: str, words: str = "", create: str = "") -> Act:
    """A chain's second release, after a change of its table."""

    def act(world: World) -> object:
        chain = str(new_chain(create, "")(world))
        with closing(sqlite3.connect(world.path / "people.sqlite")) as connection:
            connection.executescript(change.format(table=chain))
        return world.cli(release_in(chain, words))

    return act


_MOVED = "UPDATE {table} SET age = 80 - age WHERE id % 3 = 0"
_FEW_ARRIVED = "UPDATE {table} SET id = id + 1000; DELETE FROM {table} WHERE id > 1002"
_MANY_ARRIVED = "UPDATE {table} SET id = id + 1000"


def job(world: World, name: str = "a", **options: Any) -> dict[str, Any]:
    """A job of a job file."""
    return {
        "name": name, "table": "people", "on_new_column": "drop", "k": 4,
        "columns": {"age": {"role": "quasi_identifier"}}, "releases": "independent",
        "output": {"table": world.new()}, **options,
    }  # fmt: skip


def job_file(world: World, *jobs: Mapping[str, Any]) -> str:
    """Write a job file; its path."""
    path = world.path / world.new(".yaml")
    content = {"version": 1, "source": {"url": world.url}, "jobs": jobs or [job(world)]}
    path.write_text(json.dumps(content))
    return str(path)


def run_file(*names: str, words: str = "") -> Act:
    """Run a job file with jobs of these names."""
    return lambda w: w.cli(f"run {job_file(w, *(job(w, name) for name in names))} {words}")


def run_job(*names: str, **options: Any) -> Act:
    """Run a job of a file in Python."""
    return lambda w: dbanon.run_job(job_file(w, *(job(w, name) for name in names)), **options)


def in_chain(words: str) -> Act:
    """Run a job that makes a release of the chain."""

    def act(world: World) -> object:
        chain = {"name": "open", "key": f"file:{world.path}/people.key"}
        columns = {"age": {"role": "quasi_identifier"}, "id": {"role": "identifier"}}
        entry = job(world, chain=chain, entity="id", columns=columns)
        del entry["releases"]
        return world.cli(f"run {job_file(world, entry)} {words}")

    return act


def fails(error: BaseException) -> Callable[..., Any]:
    """A function that only raises this error."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def missing_table(*, by_name: bool, error: DbanonError | None = None) -> Act:
    """Run two jobs of which one fails; then the failed one by its name."""

    def act(world: World) -> object:
        table = world.new()
        file = job_file(world, job(world, "good"), job(world, "bad", table=table))
        if not by_name:
            with pytest.MonkeyPatch.context() as patch:
                if error is not None:
                    patch.setattr("dbanon.doors.jobfile.run.run_file_job", fails(error))
                done = CliRunner().invoke(main, ["run", file], env={"COLUMNS": "200"})
            # The error of the job is printed before that of the file.
            raise CommandRefusedError(done.stderr.rpartition("Hint: ")[2].partition("\nMore")[0])
        copy_table(world, table)
        return world.cli(f"run {file} --job bad")

    return act


def on_used_port(world: World) -> object:
    """Start a workbench on a port that another program uses."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        return world.cli(f"workbench {{url}} --table people --port {port}")


def serve(*, choose_port: bool) -> Act:
    """Start a workbench on a free port, and end it as soon as it answers."""
    commands = JobFileCommands(fails(AssertionError()), fails(AssertionError()))

    def act(world: World) -> object:
        with closing(socket.socket()) as other:
            other.bind(("127.0.0.1", 0))
            port = int(other.getsockname()[1]) if choose_port else 0
        start = Start(world.url, "people", commands, directory=world.path)
        return run_workbench(start, port=port, ready=fails(KeyboardInterrupt()))

    return act


def kept_views(world: World, keep_last: int) -> Path:
    """A job file as the workbench saves it, if two superseded views stay."""
    folder = world.path / "below"
    folder.mkdir(exist_ok=True)
    path = folder / world.new(".yaml")
    content = {
        "version": 1, "source": {"url": world.url}, "target": {"url": world.url},
        "defaults": {"k": 4, "on_new_column": "drop"},
        "jobs": [job(world, columns={
            "age": {"role": "quasi_identifier"}, "id": {"role": "identifier"},
        }, on_new_column="drop") | {"output": {"view": world.new(), "keep_last": keep_last}}],
    }  # fmt: skip
    del content["jobs"][0]["k"], content["jobs"][0]["on_new_column"], content["jobs"][0]["releases"]
    path.write_text(json.dumps(content))
    return path


def open_file(keep_last: int, folder: str = "below") -> Act:
    """Open a job file in the workbench, from a folder."""

    def act(world: World) -> object:
        path = kept_views(world, keep_last)
        commands = JobFileCommands(fails(AssertionError()), fails(AssertionError()))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(world.path / folder)
            return open_job_file(path, commands, 1)

    return act


def declare(content: str) -> Act:
    """Declare the rules in a file."""

    def act(world: World) -> object:
        (world.path / "rules.json").write_text(content)
        return world.cli(f"declare {_DUCKDB} {{path}}/rules.json --table people")

    return act


def declare_listing(world: World) -> object:
    """Save the rules that are listed, and declare them."""
    line = f"rules {_DUCKDB} --table people --format json".format(path=world.path)
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 0, done.output
    return declare(done.stdout)(world)


_DUCKDB = "duckdb:///{path}/people.duckdb"


def exported(**options: Any) -> Act:
    """Verify an exported file."""

    def act(world: World) -> object:
        path = world.path / world.new(".parquet")
        world.table(exports=[{"path": str(path)}])
        urls: dict[str, Any] = {"ledger": world.url} if "ledger" in options else {}
        return dbanon.verify_file(path, **options | urls)

    return act


def demo(words: str) -> Act:
    """Run the demonstration on a machine with memory for 500 persons."""

    def act(world: World) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dbanon.doors.cli.demo.half_of_memory", lambda: 400 * 500)
            return world.cli(f"demo {words}")

    return act


def in_duckdb(table: str = "people", **options: Any) -> Act:
    """Anonymize a table or view of a DuckDB database."""
    defaults: dict[str, Any] = {
        "quasi_identifiers": ["size"], "k": 4, "releases": "independent",
        "key": None if table == "people" else ["id"],
    }  # fmt: skip

    def act(world: World) -> object:
        chosen = {n: v for n, v in (defaults | options).items() if v is not None}
        return dbanon.anonymize(
            _DUCKDB.format(path=world.path), table=table, output=world.new(), **chosen
        )

    return act


_RNG = np.random.default_rng(3)
_LARGE = FRAME.assign(age=2**53 + 1 + 2 * np.arange(len(FRAME)))
_PAIRS = pd.DataFrame([["a", 1]] * 9, columns=["a", "b"])
_T_ORDERED = {"attribute": "town", "kind": "t_closeness", "level": 0.9, "distance": "ordered"}
_TOWNS: Any = {"*": ["a", "b", "c"]}
_T_TREE = {**_T_ORDERED, "distance": {"tree": _TOWNS}}


def models(*entries: Any, **options: Any) -> Act:
    return frame(sensitive=["town"], models=list(entries), **options)


def fit(method: Any) -> object:
    from dbanon.sklearn import Microaggregation

    return Microaggregation(k=4, method=method).fit(ARRAY)


def copied_report() -> object:
    import copy

    return copy.deepcopy(release()[1]).evaluate(FRAME)


def as_published(data: Any) -> Act:
    options: Any = {"method": "dcmdp", "k": 4, "epsilon": 1.0, "guarantee": "as_published"}
    return lambda _: dbanon.synthesize(data, **options)


def distance(tree: Any) -> object:
    """Whether a class keeps to t-closeness by this hierarchy."""
    model = dbanon.Model("t_closeness", "town", 0.9, distance=tree)
    return model.is_satisfied(np.array([[1, 1, 1]]), np.ones(3) / 3)


def names(n_values: int, **options: Any) -> Act:
    """Anonymize a column of texts with many values."""
    values = pd.DataFrame({"name": [f"v{i % n_values}" for i in range(5000)]})
    return frame(values, quasi_identifiers=["name"], k=2000, recoding="representative", **options)


def levels(n_columns: int, **options: Any) -> Act:
    """Generalize columns of 40 numbers each to levels."""
    data = pd.DataFrame({f"c{i}": np.arange(40) for i in range(n_columns)})
    return frame(
        data, quasi_identifiers=list(data), method="full_domain", recoding="generalization",
        **options,
    )  # fmt: skip


def parted(level: float, **options: Any) -> Act:
    """A release whose persons have rows in several classes with the same values."""
    rng = np.random.default_rng(16)
    n, n_persons = int(rng.integers(20, 60)), int(rng.integers(8, 20))
    data = pd.DataFrame({
        "pid": rng.integers(0, n_persons, n), "age": rng.integers(20, 28, n),
        "ill": rng.choice(list("abc"), n, p=[0.6, 0.2, 0.2]),
    })  # fmt: skip
    arguments: dict[str, Any] = {"entity": "pid", "persons": "rows", **_ILL}
    return frame(
        data, quasi_identifiers=["age"], k=3, models=[dbanon.Model("t_closeness", "ill", level)],
        **(arguments | options),
    )  # fmt: skip


def in_lake(**options: Any) -> Act:
    """Export a release to a table of an Iceberg catalog in a SQLite file."""

    def act(world: World) -> object:
        from pyiceberg.utils.config import Config

        folder = world.path / world.new()
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (
                ("TYPE", "sql"),
                ("URI", f"sqlite:///{folder}/catalog.db"),
                ("WAREHOUSE", f"file://{folder}"),
            ):
                patch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
            patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
            return world.table(exports=[{"path": "iceberg:lake/clinic.people", **options}])

    return act


def alike(**options: Any) -> Act:
    """A release with sets of columns."""
    return lambda w: w.table(keep=["email", "rare"], **options)


def counted(memory_limit: int, divisor: int = 1) -> Act:
    """A release with a privacy model for a column with many values."""

    def act(world: World) -> object:
        table = world.new()
        with closing(sqlite3.connect(world.path / "people.sqlite")) as connection:
            connection.execute(
                f"CREATE TABLE {table} AS WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1"
                f" FROM r WHERE i < 1999) SELECT i AS id, CAST(i % 1000 AS INTEGER) AS age,"
                f" 'v' || (i / {divisor}) AS who FROM r"
            )
        return world.table(
            table=table, k=2, sensitive=["who"], memory_limit=memory_limit,
            models=[dbanon.Model("distinct_l", "who", 2)],
        )  # fmt: skip

    return act


def private(**options: Any) -> Act:
    """A differentially private release."""

    def act(world: World) -> object:
        table = copy_table(world, world.new())
        dbanon.create_budget(world.url, table, source=table, epsilon=99.0)
        arguments: dict[str, Any] = {
            "quasi_identifiers": ["age"], "bounds": {"age": (0, 100)}, "null_as": {"age": 50},
        } | options  # fmt: skip
        return dbanon.anonymize(
            world.url, table=table, output=world.new(), method="dp_ranks", epsilon=98.0,
            budget=table, **arguments,
        )  # fmt: skip

    return act


def create_chain(changes: str) -> Act:
    """Create a chain in Python."""

    def act(world: World) -> object:
        name = copy_table(world, world.new())
        key = world.path / f"{name}.key"
        return dbanon.create_chain(
            world.url, name, table=name, entity="id", changes=changes, key_out=key
        )

    return act


def exported_to(path: str) -> Act:
    """Export a release to a file in a new folder."""
    return lambda w: w.table(exports=[{"path": str(w.path / w.new() / path)}])


def instants(table: str, **options: Any) -> Act:
    """Anonymize a column of instants."""
    return lambda w: w.table(table=table, quasi_identifiers=["moment"], **options)


COMMANDS = (
    of_chain("Leave out `evaluate`.", "--evaluate"),
    of_chain("Leave out `certificate`.", "--certificate 1"),
    of_chain("Leave out `pseudonyms`, or release without a chain.",
             f"--pseudonym code {_KEY}", alone=f"--pseudonym code {_KEY}"),
    of_chain("Leave out `also_k`, or release without a chain.", "--also-k age",
             alone="--also-k age"),
    of_chain("Leave out `releases`, or release without a chain.", _ALONE, alone=""),
    Steps("Use `nulls=\"category\"` or `nulls=\"suppress\"`.", cli(f"{_CHAINED} --nulls merge"),
          [new_chain(release="--nulls category"), new_chain(release="--nulls suppress")]),
    of_chain("Leave out the method's option suppression.",
             "--method full_domain --option suppression=0.1 --recoding generalization"),
    of_chain("Use `persons=\"whole\"`, or release without a chain.", "--persons rows",
             "--persons whole", alone="--persons rows"),
    of_chain("Leave out `entity_normalize`, and spell them alike in a view.",
             "--entity-normalize casefold"),
    Steps("Name it: --chain NAME.", cli(f"{PEOPLE} --max-exposed 1"), [cli(
          "anonymize {url} --table measured -q age --k 4 --output {new} --chain measured"
          " --entity id --chain-key file:{path}/measured.key --max-exposed 1")]),
    Steps("Use `k={}` or less, or create", new_chain("--class-size 8", "--k 10"), [
          new_chain("--class-size 8", "--k 8"), new_chain("--class-size 10", "--k 10")]),
    Steps("Say how many rows per person a release shows", new_chain("--table labs"), [
          new_chain("--table labs --max-rows-per-person 2", None)]),
    Steps("Leave out max_rows_per_person, or the mode", new_chain(
          "--mode measure --max-rows-per-person 2"), [new_chain("--mode measure"),
          new_chain("--max-rows-per-person 2")]),
    Steps("Raise max_exposed, or make the release", second_release(_MOVED, "--max-exposed 0",
          "--mode measure"), [second_release(_MOVED, "--max-exposed 1", "--mode measure"),
          second_release(_MOVED, create="--mode continue")]),
    Steps("Run it again when more persons", second_release(_FEW_ARRIVED),
          [second_release(_MANY_ARRIVED, "--accept-turnover")]),
    Steps("Write file:people.csv, or leave the source out", new_chain("--source {url}"), [
          cli("chain create {url} of_file --source file:{path}/rows.csv --table rows --entity x"
              " --changes show --key-out {path}/rows.key"), new_chain()]),
    # Job files.
    Steps("Name one of its jobs: {}.", run_file("a", words="--job zzz"),
          [run_file("a", words="--job a")]),
    Steps("Name one: job, one of {}.", run_job("a", "b"), [run_job("a", "b", job="a")]),
    Steps("There is no default. docs/chains.md says", create_chain("zzz"), [
          create_chain(changes) for changes in ("show", "hold", "freeze")]),
    Steps("Run the failed jobs again by name: {}.", missing_table(by_name=False),
          [missing_table(by_name=True)]),
    Steps("Before you run a job with outcome_unknown", missing_table(by_name=False,
          error=OutcomeUnknown()), [cli("releases {url}"), missing_table(by_name=True)]),
    Steps("Name the columns that the error names", run_job("a", accept_types="age"),
          [run_job("a", accept_types=["age"])]),
    Steps("Name what the error names", run_job("a", accept_counts="rows"),
          [run_job("a", accept_counts=["rows"])]),
    Steps("Another program uses it. Leave out --port", on_used_port, [
          serve(choose_port=False), serve(choose_port=True)]),
    Steps("Change to its folder first: cd {}", open_file(2, "."), [open_file(2)]),
    Steps("Run it with dbanon run {}, and change it", open_file(3), [open_file(2),
          lambda w: w.cli(f"run {kept_views(w, 3)}")]),
    Steps("Leave out `skip_unchanged`.", in_chain("--skip-unchanged"), [in_chain("")]),
    # Rules and files.
    Steps("Save that list as it is, or write", declare("[1]"),
          [declare('{"age": "quasi_identifier"}'), declare_listing]),
    Steps("Write a JSON object, in UTF-8, as in", declare("{"),
          [declare('{"age": "quasi_identifier"}')]),
    Steps("Leave out `quasi_identifiers` and `k`, or `ledger`.", exported(ledger=True,
          quasi_identifiers=["age"], k=4), [exported(ledger=True), exported(
          quasi_identifiers=["age"], k=4)]),
    # The demonstration.
    Steps("Make fewer: --rows {}.", demo("--rows 501 --directory {path}/d"),
          [demo("--rows 500 --directory {path}/d")]),
    Steps("Choose another one (--directory).", cli("demo --rows 100 --directory {path}/key/x"),
          [cli("demo --rows 100 --directory {path}/d2")]),
    Steps("Choose another directory (--directory), or remove the file",
          cli("demo --rows 100 --directory {path}/foreign"),
          [cli("demo --rows 100 --directory {path}/d3")]),
    Steps("Choose another one (--directory), or remove it",
          cli("tutorial --yes --directory {path}/foreign"),
          [cli("tutorial --yes --remove --directory {path}/d4")]),
    # Privacy budgets.
    Steps("Give the unit person and `entity` together", cli(
          "budget create {url} {new} --source people --epsilon 3 --unit person"), [
          cli("budget create {url} {new} --source people --epsilon 3 --unit person --entity id"),
          cli("budget create {url} {new} --source labs --epsilon 3")]),
    Steps("Leave out `{}`.", cli(f"{PEOPLE} --epsilon 1"), [cli(f"{PEOPLE} {_ALONE}")]),
    Steps("Call dbanon.synthesize with an array", lambda w: w.table(method="dcmdp"),
          [as_published(ARRAY), as_published(MEASURES)]),
    Steps("Name the columns to release: `quasi_identifiers`.", private(quasi_identifiers=[]),
          [private()]),
    # Sets of columns and counts.
    Steps("Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns in"
          " a view.", alike(also_k=[["email"]]), [alike(also_k=[["age"]])]),
    Steps("Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns in"
          " a view. It would", alike(also_k=[["rare"]]), [alike(also_k=[["age"]]),
          alike(also_k=[{"columns": ["rare"], "k": 2}]),
          alike(also_k=[["rare"]], max_suppression=0.016667)]),
    Steps("Raise the limit (`memory_limit`), or group values", counted(10**7),
          [counted(10**9), counted(10**7, 200)]),
    # Exports.
    Steps("Leave out {release}, keep_last and format", in_lake(format="csv"),
          [in_lake()]),
    # Types of a database.
    Steps("Cast it to text in a view.", in_duckdb(pseudonyms=["size"], pseudonym_key="file:key",
          quasi_identifiers=["age"]), [in_duckdb("as_text", pseudonyms=["size"],
          pseudonym_key="file:key", quasi_identifiers=["age"])]),
    Steps("Cast it to text or to a number in a view.", in_duckdb(keep=["tags"],
          also_k=[["tags"]]), [in_duckdb("as_text", quasi_identifiers=["age"], keep=["tags"],
          also_k=[["tags"]])]),
    Steps("Cast it to a wider type in a view, or take", in_duckdb(method="secure_kward",
          quasi_identifiers=["age"], options=_SECURE), [
          in_duckdb("as_text", method="secure_kward", quasi_identifiers=["age"],
                    options=_SECURE),
          in_duckdb(method="secure_kward", quasi_identifiers=["age"],
                    options={"epsilon": 0.1, "gamma0": 1.0})]),
    Steps("The source gives different rows", in_duckdb("drawn", key=["id"]), [in_duckdb()]),
)  # fmt: skip

FRAMES = (
    # Methods and their options.
    Steps("Its options: {}.", frame(method="full_domain", options={"zzz": 1}),
          [frame(method="full_domain", options={"suppression": 0.0})]),
    Steps("Leave it out: the method has no options.", frame(method="mdav", options={"zzz": 1}),
          [frame(method="mdav")]),
    Steps("{} Known methods: {}.", frame(method="mdavv"), [frame(method="mdav")]),
    Steps("Choose fast (takes moments)", frame(refine="zzz"),
          [frame(refine=name) for name in ("fast", "thorough", "pass")]),
    Steps("Methods that take it, with", frame(quasi_identifiers=["town"],
          method="optimal_univariate", recoding="representative"), [
          frame(quasi_identifiers=["town"], method="mdav", recoding="representative"),
          frame(quasi_identifiers=["town"], method="mdav", recoding="generalization")]),
    Steps("Use `recoding=\"median\"`, or leave the column out", frame(method="secure_kward",
          quasi_identifiers=["age", "town"], orders=_TOWN_ORDER, options=_SECURE), [
          frame(method="secure_kward", quasi_identifiers=["age", "town"], orders=_TOWN_ORDER,
                options=_SECURE, recoding="median"),
          frame(method="secure_kward", quasi_identifiers=["age"], options=_SECURE)]),
    Steps("Use `recoding=\"mean\"`, or give the column as a smaller type.", frame(_LARGE,
          recoding="medoid"), [frame(_LARGE, recoding="mean"),
          frame(_LARGE.assign(age=_LARGE.age.astype(float)), recoding="medoid")]),
    Steps("Use `intervals=\"text\"` without `local_range`", frame(_LARGE, method="gaa_cp",
          recoding="generalization", local_range=True), [frame(_LARGE, method="gaa_cp",
          recoding="generalization", intervals="text")]),
    Steps("Choose a method that makes classes of rows", lambda _: fit("individual_ranking"),
          [lambda _: fit("mdav")]),
    # Privacy models.
    Steps("Known keys: {}; l belongs", models({**_T_ORDERED, "zzz": 1}), [models(_T_TREE),
          models({"attribute": "town", "kind": "recursive_cl", "level": 3, "l": 2})]),
    Steps("Give all models of a column the same distance.", models(_T_ORDERED, _T_TREE),
          [models(_T_TREE, _T_TREE)]),
    Steps("Give the distance as a Hierarchy.", lambda _: distance({"name": "towns"}),
          [lambda _: distance(dbanon.Hierarchy.from_nested(_TOWNS))]),
    # Too few records.
    Steps("Anonymize a table with more rows.", frame(FRAME[:1]), [frame(FRAME)]),
    Steps("No other pattern of NULLs includes", frame(FRAME.assign(
          age=FRAME.age.where(FRAME.id > 1), size=FRAME["size"].where(FRAME.id > 1)),
          nulls="merge"), [frame(FRAME.assign(age=FRAME.age.where(FRAME.id > 1),
          size=FRAME["size"].where(FRAME.id > 1)), nulls="merge", max_suppression=0.05)]),
    # Evaluations.
    Steps("Call dbanon.evaluate with both frames, and name", lambda _: copied_report(), [
          evaluate(key="id")]),
    Steps("Put both in one order, or name a `key`", evaluate(ARRAY, released=
          _RNG.permutation(ARRAY), quasi_identifiers=None), [evaluate(ARRAY, released=ARRAY,
          quasi_identifiers=None), evaluate(key="id"), evaluate(report="report")]),
    Steps("Give both as data frames", evaluate([["a", 1]] * 9, released=[["a", 1]] * 9,
          quasi_identifiers=None), [evaluate(_PAIRS, released=_PAIRS, quasi_identifiers=None)]),
    Steps("Give the released column the type", evaluate(released=FRAME.assign(
          age=pd.Timestamp("2020-01-01")), key="id"), [
          evaluate(released=FRAME.assign(age=FRAME.age.astype(str)), key="id")]),
    Steps("Write {}, or {}.", lambda _: dbanon.advise(MEASURES, k=(4,), methods=("mdav+zzz",)),
          [lambda _: dbanon.advise(MEASURES, k=(4,), methods=("mdav+fast", "mdav"))]),
    Steps("Leave out `quasi_identifiers` and `key`", lambda _: dbanon.certificate(
          MEASURES, 4, quasi_identifiers=["a"]), [lambda _: dbanon.certificate(MEASURES, 4,
          seconds=0.1)]),
    # Synthetic rows.
    Steps("Leave out rows with NULLs", as_published(MEASURES.where(
          MEASURES.a > 30)), [as_published(MEASURES.where(MEASURES.a > 30).dropna())]),
    Steps("Give a larger epsilon.", lambda _: dbanon.Budget(1e-6, delta=1e-12),
          [lambda _: dbanon.Budget(1.0, delta=1e-12)]),
    Steps("Create a budget with a delta, or leave out", noisy(method="dp_marginals", delta=1e-9,
          accounting="zcdp"), [noisy(method="dp_marginals"), noisy(method="dp_marginals",
          budget=dbanon.Budget(99.0, delta=1e-6), delta=1e-9, accounting="zcdp")]),
    Steps("Leave out `{}`.", noisy(method="dp_marginals", margins="quantiles"),
          [noisy(method="dp_marginals")]),
    Steps("Bring rare values together in a view, or choose", names(4500, method="single_axis"), [
          names(100, method="single_axis"), names(4500, method="mdav")]),
    Steps("Name fewer quasi-identifiers, or give hierarchies", levels(10), [levels(3), levels(
          10, hierarchies={f"c{i}": {"intervals": [20]} for i in range(10)})]),
    Steps("Classes with the same released values form one class", parted(0.3),
          [parted(0.9), parted(0.9, persons="whole")]),
)  # fmt: skip

IN_POSTGRESQL = (
    Steps("Withhold such instants in a view, or set them to NULL.", instants("late"), [
          instants("early", key=["id"]), instants("unknown", nulls="suppress",
                                                  max_suppression=0.5)]),
)  # fmt: skip

_AXIS: dict[str, Any] = {"method": "single_axis"}

# Hints whose texts have names in the sources, by what is printed.
BY_NAME = (
    Steps("Use sum (of the standardized values), first_component (first principal component), or"
          " the name of an attribute.", frame(**_AXIS, options={"axis": "zzz"}), [
          frame(**_AXIS, options={"axis": axis}) for axis in ("sum", "first_component", "age")]),
    Steps('Write a file as in "out/people.parquet" or "out/people.csv".', exported_to("people"),
          [exported_to("out/people.parquet"), exported_to("out/people.csv")]),
    Steps("Write one condition without WHERE, as in --where 'status = '\"'\"'active'\"'\"''.",
          cli(f"{PEOPLE} {_ALONE} --where 'town = \"a'"),
          [cli(f"{PEOPLE} {_ALONE} --where \"town = 'a'\"")]),
    Steps('Write {"columns": ["age", "illness"], "k": 20}, or ["age", "illness"].',
          alike(also_k=[[]]), [alike(also_k=[["age", "rare"]], max_suppression=0.1),
          alike(also_k=[{"columns": ["age"], "k": 5}], max_suppression=0.5)]),
    Steps('Write {"attribute": "diagnosis", "kind": "distinct_l", "level": 3}.',
          models({"kind": "distinct_l"}),
          [models({"attribute": "town", "kind": "distinct_l", "level": 2})]),
    Steps("Synthetic rows have no classes, and no row belongs to a person. Leave out k.",
          private(k=4), [private()]),
    Steps("It applies to classes, and synthetic rows have no classes. Leave out max_suppression.",
          private(max_suppression=0.1), [private()]),
    Steps("A column that is copied has no noise: name it in quasi_identifiers. Leave out keep.",
          private(keep=["pid"]), [private(), private(
              quasi_identifiers=["age", "pid"], bounds={"age": (0, 100), "pid": (0, 40)},
              null_as={"age": 50, "pid": 0})]),
    Steps("Say which value replaces NULL: null_as. Leave out nulls.", private(nulls="suppress"),
          [private()]),
    Steps('Did you mean "people"?', run_file("people", words="--job peopel"),
          [run_file("people", words="--job people")]),
)  # fmt: skip

# Texts that nobody can follow here, and why.
IMPOSSIBLE = {
    "This is an error in dbanon: please report it.": "it stands where dbanon itself is wrong",
    "Please report this, with what was done and this line.": "as the one before, in the workbench",
}

FOLLOWED = tuple(
    case.hint for case in (*OF_TABLES, *COMMANDS, *FRAMES, *IN_POSTGRESQL, *IN_WORKBENCH)
)
