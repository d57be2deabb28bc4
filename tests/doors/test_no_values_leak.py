"""No value of the data appears in output, exceptions, logs or the ledger.

The table's values are unmistakable. The failing cases run, and all their output is searched.
"""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors import releases as stored_hierarchies
from dbanon.doors.cli.main import main
from tests.postgres_server import Server
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)

pytestmark = pytest.mark.slow

WHEN = "1737-07-13"
# Numbers of the server, such as transactions, may end in these digits.
TRACES = re.compile(r"(?<!\d)(?:73173|1737-07|7317\b)|qzmark", re.IGNORECASE)

ROWS = [
    (
        *(7317300 + i, f"qzmark {i}", 7317300 + i % 7, f"{73173 + i}.73", 73173.5 + i),
        *(f"1737-07-{13 + i % 5}", f"1737-07-{13 + i % 5} 17:37:13"),
        *(f"qzmark {i % 3}", None if i == 5 else 7317300),
    )
    for i in range(12)
]
COLUMNS = ["id", "name", "a", "b", "c", "d", "e", "twice", "hole"]
ALL = ["a", "b", "c", "d", "e"]

FAILING: dict[str, dict[str, Any]] = {
    "table": {"table": "peeple"},
    "column": {"quasi_identifiers": ["aa"]},
    "k": {"k": 13},
    "text": {"quasi_identifiers": ["name"]},
    "nulls": {"quasi_identifiers": ["a", "hole"]},
    "pattern": {"quasi_identifiers": ["a", "hole"], "nulls": "category"},
    "budget": {"quasi_identifiers": ["a", "hole"], "nulls": "suppress", "max_suppression": 0.01},
    "twice": {"key": ["twice"]},
    "key with NULL": {"key": ["hole"]},
    "output": {"output": "people"},
    "memory": {"memory_limit": 500},
    "nan": {"table": "odd", "quasi_identifiers": ["x"]},
    "huge": {"table": "odd", "quasi_identifiers": ["y"]},
    "mixed": {"table": "odd", "quasi_identifiers": ["z"]},
    "copied": {"table": "odd", "quasi_identifiers": ["w"], "keep": ["x", "z"], "copied": True},
    "copied too": {"table": "odd", "quasi_identifiers": ["w"], "keep": ["v"], "copied": True},
    "changing": {"table": "changing", "key": ["id"]},
    "order": {"quasi_identifiers": ["a", "name"], "orders": {"name": ["qzmark 0", "qzmark 1"]}},
    "order of numbers": {"orders": {"a": ["7317300"]}},
    "per attribute": {"guarantee": "per_attribute"},
    "progress": {"stop": True},
}


def load(database: Database) -> None:
    kind = database.types
    kinds = [
        "integer PRIMARY KEY",
        kind["text"],
        "integer",
        kind["decimal"],
        kind["double"],
        "date",
        "timestamp",
        kind["text"],
        "integer",
    ]
    database.load("people", dict(zip(COLUMNS, kinds, strict=True)), ROWS)
    # Evaluated for each pair: SQLite may evaluate a condition without columns only once.
    middle = "0" if database.name == "sqlite" else "0.5"
    volatile = f"random() + 0 * (p.id + q.id) < {middle}"
    # Many rows, so that two reads never find the same.
    database.execute(
        "CREATE VIEW changing AS SELECT p.id * 12 + q.id - 7317300 AS id, p.name, p.a, p.b, p.c,"
        f" p.d, p.e FROM people AS p CROSS JOIN people AS q WHERE {volatile}"
    )
    odd = {"w": "integer", "x": kind["double"], "y": "numeric", "z": "date", "v": "date"}
    if database.name == "duckdb":
        odd["y"] = "hugeint"
    database.load("odd", odd, [(7317300 + i, 73173.5, 73173, WHEN, WHEN) for i in range(6)])
    spoiled = {
        "postgresql": ("'NaN'", "'73173e400'", "'infinity'", "'73173-07-13'"),
        "duckdb": ("'nan'", "73173", "'infinity'", "'73173-07-13'"),
        "sqlite": ("73173e999", "'qzmark'", "'qzmark'", "'1737-07-32'"),
    }[database.name]
    database.execute(f"INSERT INTO odd VALUES (7317399, {', '.join(spoiled)})")


class StoppedError(Exception):
    """Raised by a caller's progress function."""


def arguments_of(case: dict[str, Any], target: Path) -> dict[str, Any]:
    """The arguments of ``dbanon.anonymize``; table ``odd`` has its own columns."""
    arguments = {"quasi_identifiers": ALL, "keep": [] if case.get("table") == "odd" else ["name"]}
    arguments |= case
    if arguments.pop("copied", False):
        arguments["target"] = f"duckdb:///{target}"
    return arguments


def fail(database: Database, case: dict[str, Any], target: Path) -> str:
    """Run a case from Python and return all texts that it produced."""
    arguments = arguments_of(case, target)
    texts: list[str] = []
    stop = arguments.pop("stop", False)

    def progress(phase: str, share: float) -> None:
        texts.append(f"{phase} {share}")
        if stop and phase == "verify":
            raise StoppedError

    try:
        database.anonymize(**arguments, progress=progress, on_sql=texts.append)
    except (dbanon.DbanonError, StoppedError) as error:
        texts += traceback.format_exception(error)
        texts += [str(error), repr(error)]
        if isinstance(error, dbanon.DbanonError):
            texts.append(json.dumps(error.to_dict()))
        return "\n".join(texts)
    pytest.fail("the case did not fail")


def command(database: Database, case: dict[str, Any], target: Path) -> list[str]:
    """The same case as a command."""
    call = {"table": "people", "k": 3, "output": "release.people"} | arguments_of(case, target)
    arguments = ["anonymize", database.url, "--print-sql", "--format", "json"]
    for name, order in call.pop("orders", {}).items():
        arguments += ["--order", f"{name}={','.join(order)}"]
    for name, value in call.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        if text:
            arguments += [f"--{name.replace('_', '-')}", text]
    return arguments


def make(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Database:
    if kind == "duckdb":
        return DuckdbDatabase(tmp_path / "x.duckdb")
    if kind == "sqlite":
        return SqliteDatabase(tmp_path / "x.db")
    return PostgresqlDatabase(request.getfixturevalue("pg_url"))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_failing_cases_name_no_value(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = make(kind, tmp_path, request)
    load(database)
    if kind != "postgresql":
        require_no_value_said(database, tmp_path)
        return
    server: Server = request.getfixturevalue("pg_server")
    with server.capture_log() as log:
        require_no_value_said(database, tmp_path)
    assert not TRACES.search(log.text), TRACES.findall(log.text)


def require_no_value_said(database: Database, tmp_path: Path) -> None:
    """Run all failing cases, from Python and as commands."""
    for case, case_arguments in FAILING.items():
        if (database.name, case) == ("duckdb", "huge"):
            continue
        text = fail(database, dict(case_arguments), tmp_path / f"{case}.duckdb")
        assert len(text) > 20
        assert not TRACES.search(text), f"{case}: {TRACES.findall(text)}"
        if "stop" in case_arguments:
            continue
        done = CliRunner().invoke(
            main, command(database, dict(case_arguments), tmp_path / f"{case}.duckdb")
        )
        assert done.exit_code in (2, 3, 4, 9), f"{case}: {done.output}"
        printed = done.stdout + done.stderr
        assert not TRACES.search(printed), f"{case}: {TRACES.findall(printed)}"


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_a_successful_run_leaks_no_value(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = make(kind, tmp_path, request)
    load(database)
    arguments = {"quasi_identifiers": ALL, "keep": ["name"], "output_kind": "view"}
    done = CliRunner().invoke(
        main, [*command(database, arguments, tmp_path), "--log-format", "json"]
    )
    assert done.exit_code == 0, done.output
    verification = CliRunner().invoke(
        main, ["verify", database.url, "release.people", "--print-sql"]
    )
    printed = done.stdout + done.stderr + verification.stdout + verification.stderr
    # The ledger holds counts, names and losses: a loss may have any digits.
    for table in ("release", "release_column"):
        printed += str(
            [
                tuple(v for v in row if not isinstance(v, float))
                for row in database.ledger_rows(table)
            ]
        )
    report = json.loads(done.stdout)
    run_id = json.loads(done.stderr.splitlines()[0])["run_id"]
    for number in (report["release_id"], report["release_id"].replace("-", "")[:12], run_id):
        printed = printed.replace(number, "")
    printed = re.sub(r'"ts": "[^"]*"', "", printed)
    printed = re.sub(r"-?\d+\.\d+(e-?\d+)?", "", printed)
    # Digests and salts may have any digits, too; no value is that long.
    printed = re.sub(r"[0-9a-f]{15,}", "", printed)
    assert not TRACES.search(printed), TRACES.findall(printed)


def test_a_client_run_leaves_no_value_in_a_log_of_statements(
    pg_server: Server, pg_url: str, tmp_path: Path
) -> None:
    """Neither in statements nor in their bind parameters, which are logged with them."""
    database = PostgresqlDatabase(pg_url)
    load(database)
    names = [f"qzmark {i}" for i in range(12)]
    tree = tmp_path / "tree.csv"
    tree.write_text("".join(f"{name};qzmark all\n" for name in names))
    arguments: dict[str, Any] = {"keep": ["twice"], "if_exists": "replace"}
    with pg_server.capture_log(statements=True) as log:
        stored_hierarchies.store_hierarchy(pg_url, "names", str(tree))
        database.anonymize(
            quasi_identifiers=["a", "b", "name"], orders={"name": names}, **arguments
        )
        generalized = {"quasi_identifiers": ["a", "name"], "method": "gaa_cp", **arguments}
        for hierarchy in ({"name": "names"}, {"ordered": names}, str(tree)):
            database.anonymize(hierarchies={"name": hierarchy}, **generalized)
        database.anonymize(
            **generalized
            | {
                "hierarchies": {"name": {"name": "names"}},
                "sensitive": ["twice"],
                "keep": [],
                "models": [dbanon.Model("t_closeness", "twice", 1.0)],
            }
        )
        # Rows from elsewhere are loaded, too.
        database.anonymize(
            output="release.copied",
            target=f"duckdb:///{tmp_path}/t.duckdb",
            quasi_identifiers=ALL,
            keep=["name"],
        )
    # The run's statements and bind parameters are logged, so their values would be, too.
    assert log.text.count("COPY ") > 5
    assert "$1" in log.text
    # Release ids and process ids may have any digits.
    log_text = re.sub(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|_r[0-9a-f]{12}|\[\d+\]", "", log.text
    )
    assert not TRACES.search(log_text), TRACES.findall(log_text)
