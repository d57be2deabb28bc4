"""Steps from which the cases of job files and of chains are made."""

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
from dbanon.doors.cli.tutorial_steps import build_steps
from dbanon.errors import DbanonError
from dbanon.extensions.workbench.open import open_job_file
from dbanon.extensions.workbench.program import run_workbench
from dbanon.extensions.workbench.state import WorkbenchArguments
from tests.doors.hint_cases import Case
from tests.doors.hint_doors import model
from tests.doors.hint_steps import (
    ARRAY,
    FRAME,
    OPEN,
    PEOPLE,
    Act,
    CommandRefusedError,
    Steps,
    World,
    cli,
    frame,
    release,
)

SECURE = {"epsilon": 3.0, "gamma0": 1.0}


TOWN_ORDER = {"town": ["a", "b", "c"]}


_ILL = {"sensitive": ["ill"]}


_CODES = {"entity": "pid", "persons": "rows"}


# Options of a release of a table in a database.
OF_TABLES = (
    Case(
        "Leave out `also_k`, or choose another method, such as",
        {"also_k": [["age"]], "method": "secure_kward", "options": SECURE},
        leave_out=["also_k"],
        needs={"method=mdav": {"options": None}},
        doors=("python",),
    ),
    Case(
        "Choose another model, such as distinct_l, or leave out `also_k`.",
        {**_ILL, "also_k": [["age"]], "models": [model("ill", "delta_disclosure", 3)]},
        leave_out=["also_k"],
        does=[{"models": [model("ill", "distinct_l", 2)]}],
        doors=("python", "cli"),
    ),
    Case(
        'Use `persons="whole"`, or leave out `also_k`.',
        {**_CODES, "also_k": [["age"]]},
        leave_out=["also_k"],
    ),
    Case(
        'Leave out `pseudonyms`, or use `persons="whole"`.',
        {**_CODES, "pseudonyms": ["code"], "pseudonym_key": "file:key"},
        leave_out=["pseudonyms"],
        needs={"pseudonyms": {"pseudonym_key": None}},
    ),
    Case(
        'Choose another model, such as distinct_l, or use `persons="whole"`.',
        {**_CODES, **_ILL, "models": [model("ill", "entropy_l", 1.2)]},
        does=[{"models": [model("ill", "distinct_l", 2)]}],
    ),
    Case(
        "Leave out `kept_columns`, or `{}`.",
        {"kept_columns": "client", "keep": ["town"], "entity": "pid"},
        leave_out=["kept_columns"],
    ),
)


CHAINED = f"{PEOPLE} {OPEN}"


_SHOW = "--entity id --changes show --key-out {path}/{new}.key"


KEY = "--pseudonym-key file:{path}/key"


ALONE = "--releases independent"


def of_chain(hint: str, words: str, instead: str = "", *, alone: str | None = None) -> Steps:
    """A release in a chain that these options refuse; ``alone``: how it is made without one."""
    ways = [cli(f"{CHAINED} {instead}")]
    if alone is not None:
        ways.append(cli(f"{PEOPLE} --entity pid {alone} {ALONE}"))
    return Steps(hint, cli(f"{CHAINED} {words}"), ways)


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


MOVED = "UPDATE {table} SET age = 80 - age WHERE id % 3 = 0"


FEW_ARRIVED = "UPDATE {table} SET id = id + 1000; DELETE FROM {table} WHERE id > 1002"


MANY_ARRIVED = "UPDATE {table} SET id = id + 1000"


def job(world: World, name: str = "a", **options: Any) -> dict[str, Any]:
    """A job of a job file."""
    return {
        "name": name,
        "table": "people",
        "on_new_column": "drop",
        "k": 4,
        "columns": {"age": {"role": "quasi_identifier"}},
        "releases": "independent",
        "output": {"table": world.new()},
        **options,
    }


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

    def act(world: World) -> object:
        with closing(socket.socket()) as other:
            other.bind(("127.0.0.1", 0))
            port = int(other.getsockname()[1]) if choose_port else 0
        start = WorkbenchArguments(
            world.url, "people", fails(AssertionError()), directory=world.path
        )
        return run_workbench(start, port=port, on_ready=fails(KeyboardInterrupt()))

    return act


def kept_views(world: World, keep_last: int) -> Path:
    """A job file as the workbench saves it, if two superseded views stay."""
    folder = world.path / "below"
    folder.mkdir(exist_ok=True)
    path = folder / world.new(".yaml")
    content = {
        "version": 1,
        "source": {"url": world.url},
        "target": {"url": world.url},
        "defaults": {"k": 4, "on_new_column": "drop"},
        "jobs": [
            job(
                world,
                columns={
                    "age": {"role": "quasi_identifier"},
                    "id": {"role": "identifier"},
                },
                on_new_column="drop",
            )
            | {"output": {"view": world.new(), "keep_last": keep_last}}
        ],
    }
    del content["jobs"][0]["k"], content["jobs"][0]["on_new_column"], content["jobs"][0]["releases"]
    path.write_text(json.dumps(content))
    return path


def open_file(keep_last: int, folder: str = "below") -> Act:
    """Open a job file in the workbench, from a folder."""

    def act(world: World) -> object:
        path = kept_views(world, keep_last)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(world.path / folder)
            return open_job_file(path, fails(AssertionError()), 1)

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


def tutorial(words: str) -> Act:
    """Run the first step of the tutorial."""

    def act(world: World) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "dbanon.doors.cli.tutorial.build_steps", lambda *names: build_steps(*names)[:1]
            )
            return world.cli(f"tutorial {words}")

    return act


def in_duckdb(table: str = "people", **options: Any) -> Act:
    """Anonymize a table or view of a DuckDB database."""
    defaults: dict[str, Any] = {
        "quasi_identifiers": ["size"],
        "k": 4,
        "releases": "independent",
        "key": None if table == "people" else ["id"],
    }

    def act(world: World) -> object:
        chosen = {n: v for n, v in (defaults | options).items() if v is not None}
        return dbanon.anonymize(
            _DUCKDB.format(path=world.path), table=table, output=world.new(), **chosen
        )

    return act


RNG = np.random.default_rng(3)


LARGE = FRAME.assign(age=2**53 + 1 + 2 * np.arange(len(FRAME)))


PAIRS = pd.DataFrame([["a", 1]] * 9, columns=["a", "b"])


T_ORDERED = {"attribute": "town", "kind": "t_closeness", "level": 0.9, "distance": "ordered"}


TOWNS: Any = {"*": ["a", "b", "c"]}


T_TREE = {**T_ORDERED, "distance": {"tree": TOWNS}}


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
        data,
        quasi_identifiers=list(data),
        method="global_recoding",
        recoding="generalization",
        **options,
    )


def parted(level: float, **options: Any) -> Act:
    """A release whose persons have rows in several classes with the same values."""
    rng = np.random.default_rng(16)
    n, n_persons = int(rng.integers(20, 60)), int(rng.integers(8, 20))
    data = pd.DataFrame(
        {
            "pid": rng.integers(0, n_persons, n),
            "age": rng.integers(20, 28, n),
            "ill": rng.choice(list("abc"), n, p=[0.6, 0.2, 0.2]),
        }
    )
    arguments: dict[str, Any] = {"entity": "pid", "persons": "rows", **_ILL}
    return frame(
        data,
        quasi_identifiers=["age"],
        k=3,
        models=[dbanon.Model("t_closeness", "ill", level)],
        **(arguments | options),
    )


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
            table=table,
            k=2,
            sensitive=["who"],
            memory_limit=memory_limit,
            models=[dbanon.Model("distinct_l", "who", 2)],
        )

    return act


def private(**options: Any) -> Act:
    """A differentially private release."""

    def act(world: World) -> object:
        table = copy_table(world, world.new())
        dbanon.create_budget(world.url, table, source=table, epsilon=99.0)
        arguments: dict[str, Any] = {
            "quasi_identifiers": ["age"],
            "bounds": {"age": (0, 100)},
            "null_as": {"age": 50},
        } | options
        return dbanon.anonymize(
            world.url,
            table=table,
            output=world.new(),
            method="dp_ranks",
            epsilon=98.0,
            budget=table,
            **arguments,
        )

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
