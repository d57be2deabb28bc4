"""Hints of databases in files and of what a run spills: what raises each, and its ways out."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
from click.testing import CliRunner
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.run import run_with_ledger
from dbanon.stores.scratch import open_scratch
from dbanon.stores.sqlite.publication import SqlitePublication
from tests.doors.hint_doors import model
from tests.doors.hint_steps import FRAME, cli, frame
from tests.doors.hints_mariadb import MARIADB
from tests.doors.hints_stores import (
    FILES,
    FRAMES,
    LAKE,
    Act,
    Stores,
    StoreSteps,
    delta,
    job,
    on_full_disk,
    patched,
)

# -- databases of files ---------------------------------------------------------------------------


def _open_elsewhere(w: Stores) -> object:
    """Another process has the file open, until the test closes it."""
    url = w.duckdb()
    path = url.removeprefix("duckdb:///")
    code = f"import duckdb; c = duckdb.connect({path!r}); print(1, flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            return w.release(url)
        finally:
            process.communicate(b"\n")
            (w.path / "closed").write_text(url)


def _registered(w: Stores, printed: str = "") -> object:
    with duckdb.connect() as connection:
        connection.register("frame", FRAME)
        connection.execute(printed)
        return w.release(connection, table="people" if printed else "frame")


def _spilling(w: Stores, *statements: str, memory: str = "20MB", disk: str = "1MB") -> object:
    """Release a wide table from a connection with limits."""
    with duckdb.connect() as connection:
        for name, value in (
            ("memory_limit", memory),
            ("max_temp_directory_size", disk),
            ("temp_directory", f"{w.path}/duck"),
        ):
            connection.execute(f"SET {name} = '{value}'")
        connection.execute(
            "CREATE VIEW people AS SELECT range % 9 AS age, range AS id, repeat(range::VARCHAR, 40)"
            " AS note FROM range(60000)"
        )
        for statement in statements:
            connection.execute(statement)
        return w.release(connection, keep=["note"], key=["id"])


def _data(w: Stores) -> str:
    """Rows that are small in a file and large in memory."""
    path = w.path / "data" / "a.parquet"
    if not path.exists():
        path.parent.mkdir()
        rows = {"age": [i % 50 for i in range(40_000)], "note": ["x" * 1000] * 40_000}
        parquet.write_table(pa.table(rows), path)
    return f"file:{path}"


def _plan(w: Stores, url: str, limit: int = 2**24) -> object:
    return dbanon.plan(
        url, table="people", quasi_identifiers=["age"], k=5, output=w.new(), memory_limit=limit
    )


def _loaded(w: Stores) -> object:
    """Load the files as printed, in the folder that has them."""
    return _plan(w, w.duckdb("DROP TABLE people", w.printed("(CREATE TABLE .*)[.]")))


def _locked(w: Stores, *, pinned: bool) -> object:
    with duckdb.connect() as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE TABLE people AS FROM frame")
        connection.execute("SET default_null_order = 'nulls_first'")
        if pinned:
            connection.execute(w.printed(r"Run (RESET \w+)"))
        connection.execute("SET lock_configuration = true")
        return w.release(connection)


def _read_only(w: Stores, read_only: bool, **options: Any) -> object:
    path = w.duckdb().removeprefix("duckdb:///")
    with duckdb.connect(path, read_only=read_only) as connection:
        return w.release(connection, **options)


def _transaction(w: Stores, end: str = "") -> object:
    path = w.sqlite().removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE people SET age = 1 WHERE id = 0")
        if end:
            getattr(connection, end)()
        return w.release(connection)


def _busy(w: Stores, busy: bool = True) -> object:
    url = w.sqlite()
    path = url.removeprefix("sqlite:///")
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(sqlite3.connect(path, timeout=0)) as connection,
    ):
        other.execute("BEGIN EXCLUSIVE")
        if not busy:
            other.execute("COMMIT")
        return w.release(connection)


def _pages(w: Stores, pages: int) -> object:
    """Release into a database file that cannot grow beyond so many pages."""
    with closing(sqlite3.connect(w.sqlite().removeprefix("sqlite:///"))) as connection:
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return w.release(connection)


def _job_lock(w: Stores) -> object:
    path = w.path / ".people.sqlite.nightly.lock"
    path.symlink_to(w.path / "nowhere")
    return job(w, "nightly")


def _remove_lock(w: Stores) -> None:
    assert str(w.path) == w.printed("write to (.*), and remove the file")
    (w.path / ".people.sqlite.nightly.lock").unlink()


def _made_meanwhile(w: Stores) -> object:
    """Another connection makes the output between the plan and its publication."""
    publish = SqlitePublication.publish

    def late(self: Any, output: Any, columns: Any) -> None:
        self._connection.run(f"CREATE TABLE {output.name.quoted} (x INTEGER)")
        publish(self, output, columns)

    with mock.patch.object(SqlitePublication, "publish", late):
        return w.table(if_exists="replace")


def _bounds(w: Stores, *columns: str, **options: Any) -> object:
    url = w.sqlite("ALTER TABLE people ADD COLUMN age_low INTEGER DEFAULT 1")
    return w.release(
        url, recoding="generalization", keep=columns, **{"intervals": "bounds", **options}
    )


_STAMPS = (
    "CREATE TABLE tree AS SELECT TIMESTAMP '2020-01-01' + INTERVAL (x) DAY AS child,"
    " 'all' AS parent FROM range(3) t(x)"
)
_VISITS = (
    "ALTER TABLE people ADD COLUMN seen TIMESTAMP DEFAULT TIMESTAMP '2020-01-01'",
    "UPDATE people SET seen = seen + INTERVAL (id % 3) DAY",
    "CREATE VIEW dated AS SELECT id, age, CAST(seen AS DATE) AS seen FROM people",
)
_NANO = (
    "ALTER TABLE people ADD COLUMN t TIMESTAMP_NS",
    "UPDATE people SET t = make_timestamp_ns(1600000000000000001 + id)",
    "CREATE VIEW rounded AS SELECT id, age, CAST(t AS TIMESTAMP) AS t FROM people",
)
_WIDE = (
    "ALTER TABLE people ADD COLUMN n HUGEINT",
    f"UPDATE people SET n = {10**30 + 1}::HUGEINT",
    "CREATE VIEW as_text AS SELECT id, age, CAST(n AS VARCHAR) AS n FROM people",
    "CREATE VIEW as_float AS SELECT id, age, CAST(n AS DOUBLE) AS n FROM people",
)


def _wide(table: str) -> Act:
    """Release large integers into SQLite."""
    return lambda w: w.into(
        w.duckdb(*_WIDE),
        keep=["n"],
        table=table,
        key=["id"],
        target=f"sqlite:///{w.path}/{w.new('.sqlite')}",
    )


def _named(columns: str) -> Act:
    """Store a hierarchy from a view with these columns."""
    table = "CREATE TABLE t AS SELECT 'x' AS a, 'all' AS b"
    view = f"CREATE VIEW tree AS SELECT {columns} FROM t"
    return lambda w: dbanon.store_hierarchy(w.duckdb(table, view), "h", {"table": "tree"})


def _near(w: Stores, **options: Any) -> object:
    days = {"tree": {"all": [f"2020-01-0{day}" for day in (1, 2, 3)]}}
    closeness = replace(model("seen", "t_closeness", 0.9), distance=days)
    return w.release(
        w.duckdb(*_VISITS), sensitive=["seen"], key=["id"], **{"models": [closeness], **options}
    )


_PRECISE = (
    "ALTER TABLE people ADD COLUMN n DECIMAL(50, 2) DEFAULT 1",
    "CREATE TABLE narrow (id INTEGER, age INTEGER, n DECIMAL(38, 2))",
    "INSERT INTO narrow SELECT id, age, CAST(n AS DECIMAL(38, 2)) FROM people",
)


def _export(w: Stores, **options: Any) -> object:
    return w.release(
        w.sqlite(*_PRECISE),
        keep=["n"],
        **options,
        exports=[{"path": str(w.path / w.new(".parquet"))}],
    )


_NO_SPILL = ("SET temp_directory = ''",)
DATABASES = (
    StoreSteps(
        "Cast it to at most 38 digits",
        lambda w: w.into(w.sqlite(*_PRECISE), keep=["n"]),
        [lambda w: w.into(w.sqlite(*_PRECISE), keep=["n"], table="narrow")],
    ),
    StoreSteps("Cast it to at most 38 digits", _export, [lambda w: _export(w, table="narrow")]),
    StoreSteps(
        "Close the file in that process",
        _open_elsewhere,
        [lambda w: w.release((w.path / "closed").read_text())],
    ),
    StoreSteps(
        "Give the frame to dbanon.anonymize_frame, or",
        _registered,
        [lambda w: _registered(w, w.printed("(CREATE TABLE .*?), and")), frame(FRAME)],
    ),
    StoreSteps(
        "Make room there, name a directory on another",
        _spilling,
        [lambda w: _spilling(w, disk="1GB"), lambda w: _spilling(w, memory="1GB")],
    ),
    StoreSteps(
        "Raise the limit ({}), or make room",
        lambda w: _spilling(w, *_NO_SPILL),
        [
            lambda w: _spilling(w, *_NO_SPILL, w.printed("(SET max_memory = '.*?')")),
            lambda w: _spilling(w, disk="1GB"),
        ],
    ),
    StoreSteps(
        "Raise the limit (`memory_limit`), or load the files",
        lambda w: _plan(w, _data(w)),
        [lambda w: _plan(w, _data(w), 2**30), _loaded],
    ),
    StoreSteps(
        "Run RESET {} on a new connection",
        lambda w: _locked(w, pinned=False),
        [lambda w: _locked(w, pinned=True)],
    ),
    StoreSteps(
        "Open it for writing, or name",
        lambda w: _read_only(w, True),
        [
            lambda w: _read_only(w, False),
            lambda w: _read_only(w, True, target=f"duckdb:///{w.path}/{w.new('.duckdb')}"),
        ],
    ),
    StoreSteps(
        "Cast it to TIMESTAMP in a view",
        lambda w: w.into(w.duckdb(*_NANO), keep=["t"]),
        [lambda w: w.into(w.duckdb(*_NANO), keep=["t"], table="rounded", key=["id"])],
    ),
    StoreSteps(
        "Cast the column to text or to floating point",
        _wide("people"),
        [lambda w: w.into(w.duckdb(*_WIDE), keep=["n"]), _wide("as_text"), _wide("as_float")],
    ),
    StoreSteps(
        "Make room there, or write to a database on another",
        on_full_disk(lambda w: w.into(FRAME, kept_columns="client")),
        [lambda w: w.into(FRAME, kept_columns="client")],
    ),
    StoreSteps(
        "Make room on the disk of the database's file",
        lambda w: _pages(w, 9),
        [lambda w: _pages(w, 9000)],
    ),
    StoreSteps(
        "Write duckdb:///file.duckdb, or the absolute path",
        cli("releases duckdb:///md:x"),
        [
            lambda w: duckdb.connect(str(w.path / "a:b")).close(),
            cli("releases duckdb:///{path}/a:b"),
        ],
    ),
    StoreSteps(
        "Commit or roll back first: call",
        _transaction,
        [lambda w: _transaction(w, "commit"), lambda w: _transaction(w, "rollback")],
    ),
    StoreSteps("End the other connection's transaction", _busy, [lambda w: _busy(w, busy=False)]),
    StoreSteps(
        "Let the account that runs jobs write",
        _job_lock,
        [_remove_lock, lambda w: job(w, "nightly")],
    ),
    StoreSteps(
        "Run it again, which replaces that relation",
        _made_meanwhile,
        [lambda w: w.table(if_exists="replace")],
    ),
    StoreSteps(
        "Bounds of a range are released as",
        lambda w: _bounds(w, "age_low"),
        [
            _bounds,
            lambda w: _bounds(w, "age_low", intervals="text"),
            lambda w: _bounds(w, "age_low", intervals="midpoint"),
        ],
    ),
    # Hierarchies.
    StoreSteps(
        "Name the columns child and parent, or leaf",
        lambda w: dbanon.store_hierarchy(
            w.duckdb("CREATE TABLE tree (a TEXT, b TEXT)"), "h", {"table": "tree"}
        ),
        [_named("a AS child, b AS parent"), _named("a AS leaf, b AS level1")],
    ),
    StoreSteps(
        "Cast it to text in a view, and read",
        lambda w: dbanon.store_hierarchy(w.duckdb(_STAMPS), "h", {"table": "tree"}),
        [
            lambda w: dbanon.store_hierarchy(
                w.duckdb(_STAMPS, "CREATE VIEW v AS SELECT child::TEXT AS child, parent FROM tree"),
                "h",
                {"table": "v"},
            )
        ],
    ),
    StoreSteps(
        "Only trees, levels, tables and files can be",
        lambda w: dbanon.store_hierarchy(w.url, w.new(), {"intervals": [10]}),
        [
            lambda w: dbanon.store_hierarchy(w.url, w.new(), {"tree": {"*": ["a", "b"]}}),
            lambda w: w.table(
                method="gaa_cp", recoding="generalization", hierarchies={"age": {"intervals": [10]}}
            ),
        ],
    ),
    StoreSteps(
        "Cast the column to a date in a view, or set",
        _near,
        [
            lambda w: _near(w, table="dated"),
            lambda w: _near(
                w, models=[replace(model("seen", "t_closeness", 0.9), distance="ordered")]
            ),
        ],
    ),
)

# -- directories that a run writes to -------------------------------------------------------------


def _spill(name: str, mode: int = 0, content: str = "") -> Act:
    """Release in blocks, which go to a directory."""

    def run(w: Stores) -> object:
        path = w.path / name
        if mode and not path.exists():
            path.mkdir()
            path.chmod(mode)
        if content and not path.exists():
            w.write(content, "")
        return w.table(block_size=20, spill=str(path))

    return run


def _spill_twice(w: Stores) -> object:
    with open_scratch(str(w.path / "shared")):
        return _spill("shared")(w)


def _staged(w: Stores) -> None:
    path = w.path / "staged" / f".people.{'0' * 12}.dbanon"
    path.mkdir(parents=True, exist_ok=True)
    os.utime(path, (0, 0))


def _gc_of_others(w: Stores) -> object:
    _staged(w)
    denied = mock.Mock(side_effect=PermissionError)
    return patched(shutil, "rmtree", denied, cli("gc --staged {path}/staged"))(w)


_FRESH = "Name a directory that does not exist yet (`spill`)"
SCRATCH = (
    StoreSteps(_FRESH, _spill("full/file", content="full/file"), [_spill("fresh0")]),
    StoreSteps(_FRESH, _spill("full", content="full/file"), [_spill("fresh1")]),
    StoreSteps(_FRESH, _spill("public", 0o777), [_spill("fresh2")]),
    StoreSteps(
        "Name another directory (`spill`), or wait",
        _spill_twice,
        [_spill("fresh3"), _spill("shared")],
    ),
    StoreSteps(
        "Give a path without a scheme, on",
        cli("gc --staged s3://b/x"),
        [_staged, cli("gc --staged {path}/staged")],
    ),
    StoreSteps(
        "Name the directory that releases were",
        lambda w: w.cli(f"gc --staged {w.write('a_file', '')}"),
        [cli("gc --staged {path}")],
    ),
    StoreSteps(
        "Run the command as that account", _gc_of_others, [cli("gc --staged {path}/staged")]
    ),
)

# -- private releases, packages and memory --------------------------------------------------------


def _private(*statements: str, person: str = "", **options: Any) -> Act:
    """A private release of ages, or of other columns, from a table with NOT NULL columns."""

    def run(w: Stores) -> object:
        url = w.duckdb("ALTER TABLE people ALTER age SET NOT NULL", *statements)
        table = options.get("table", "people")
        whose = {"unit": "person", "entity": person} if person else {}
        dbanon.create_budget(url, "b", source=table, epsilon=99, **whose)
        settings: dict[str, Any] = {
            "table": table,
            "quasi_identifiers": ["age"],
            "method": "dp_ranks",
            "epsilon": 50.0,
            "bounds": {"age": (0, 100)},
            "budget": "b",
            "output": "released",
            "target": None,
        }
        return dbanon.anonymize(url, **settings | options)

    return run


def _towns(*values: str) -> Act:
    return _private(
        quasi_identifiers=["town"], bounds=None, orders={"town": values}, null_as={"town": "c"}
    )


def _install(w: Stores) -> None:
    """Run the printed command where the packages are, without an index."""
    command = w.printed("(pip install .*)")
    subprocess.run(
        [sys.executable, "-m", *shlex.split(command), "--no-index", "--dry-run", "--quiet"],
        check=True,
        capture_output=True,
    )


def _installed(w: Stores) -> None:
    """What the printed command installs is here, as the test of ``_install`` asks pip."""
    for requirement in shlex.split(w.printed("(pip install .*)"))[2:]:
        assert version(re.split("[<>=]", requirement)[0])


_IN_SCHEMA = ("CREATE SCHEMA clinic", "CREATE TABLE clinic.visits AS FROM people")


def _into(source: str) -> Act:
    return lambda w: w.into(source, **LAKE)


def _without(package: str, act: Act) -> Act:
    """Run an act as if a package was not installed."""

    def run(w: Stores) -> object:
        saved_modules = {
            name: module
            for name, module in sys.modules.items()
            if not name.startswith(("pyspark", "dbanon.spark", "dbanon.extensions.spark"))
        }
        with mock.patch.dict(sys.modules, {**saved_modules, package: None}, clear=True):
            return act(w)

    return run


def _spark(_: Stores) -> object:
    return importlib.import_module("dbanon.spark")


def _job_file(w: Stores, k: str) -> object:
    schema = CliRunner().invoke(main, ["schema"]).stdout
    assert k in json.loads(schema)["$defs"]["JobSpec"]["properties"] or k != "k"
    return job(w, **({} if k == "k" else {k: 4}))


_ENTITY = "CREATE TABLE copied (who VARCHAR NOT NULL, age INTEGER NOT NULL)"
_COPY = "INSERT INTO copied SELECT CAST(id AS VARCHAR), age FROM people WHERE id IS NOT NULL"
REST = (
    StoreSteps(
        "Leave the column out of `quasi_identifiers`.",
        _private("ALTER TABLE people ADD t TIME", quasi_identifiers=["age", "t"]),
        [_private()],
    ),
    StoreSteps(
        "Anonymize a copy of the table in which",
        _private(person="size", entity="size"),
        [_private(_ENTITY, _COPY, person="who", entity="who", table="copied")],
    ),
    StoreSteps(
        "Declare the column NOT NULL. If it has",
        _private(person="id", entity="id"),
        [
            _private("ALTER TABLE people ALTER id SET NOT NULL", person="id", entity="id"),
            _private(_ENTITY, _COPY, person="who", entity="who", table="copied"),
        ],
    ),
    StoreSteps(
        "Did you mean {}?",
        lambda w: w.release(w.duckdb(*_IN_SCHEMA), table="visits"),
        [lambda w: w.release(w.duckdb(*_IN_SCHEMA), table=w.printed('Did you mean "(.*)"'))],
    ),
    StoreSteps(
        "Leave out characters that the database", _towns("a", "b\0", "c"), [_towns("a", "b", "c")]
    ),
    StoreSteps(
        "Install it with: pip install",
        lambda w: _without("deltalake", _into(f"delta:{delta(w)}"))(w),
        [_install, lambda w: w.into(f"delta:{delta(w)}", **LAKE)],
    ),
    StoreSteps("It needs Java 17 or 21.", _without("pyspark", _spark), [_installed, _spark]),
    StoreSteps(
        "Give it more memory, or anonymize in blocks.",
        patched(run_with_ledger, "run", mock.Mock(side_effect=MemoryError), lambda w: w.table()),
        [
            lambda w: w.table(),
            lambda w: w.table(block_size=20),
            lambda w: w.table(memory_limit=10**9),
        ],
    ),
    StoreSteps(
        "See docs/jobs.md. dbanon schema",
        lambda w: _job_file(w, "kk"),
        [lambda w: _job_file(w, "k")],
    ),
)


def _alike(ending: str, **options: Any) -> Act:
    """Export a table of PostgreSQL in which names of columns differ in case."""
    settings: dict[str, Any] = {"table": "alike", "keep": ["Age"], "key": ["id"], **options}
    return lambda w: w.release(
        w.postgresql, exports=[{"path": str(w.path / w.new(ending))}], **settings
    )


ALIKE = (
    'CREATE TABLE alike AS SELECT g AS id, g % 9 AS age, g % 3 AS "Age" FROM'
    " generate_series(1, 40) AS g",
    'CREATE VIEW renamed AS SELECT id, age, "Age" AS other FROM alike',
)
POSTGRESQL = tuple(
    StoreSteps(
        "If names of columns differ only in case",
        _alike(ending),
        [_alike(ending, table="renamed", keep=["other"])],
    )
    for ending in (".csv", ".parquet")
)

# Why the hints of stores with these beginnings are not tried here.
UNREACHABLE = {
    "This is an error in dbanon: please report it.": "it takes an error in dbanon",
    "Export to a .parquet file.": "formulas are escaped before they are counted",
    "Remove settings of the server": "all settings that are known are set by dbanon itself",
    "Run GRANT SHOW VIEW ON": "MariaDB shows a definition to the account that it names",
    "Copy the table to MariaDB, PostgreSQL": "it takes a server of MySQL",
}
OF_STORES = (*FILES, *FRAMES, *DATABASES, *SCRATCH, *REST, *POSTGRESQL, *MARIADB)
