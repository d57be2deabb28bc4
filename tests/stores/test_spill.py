"""Values spilled to disk: an identical release, and no trace of the values anywhere."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import textwrap
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.schema import Attribute, Kind
from dbanon.doors.cli.main import main
from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    InvalidParameter,
    MemoryLimit,
)
from dbanon.partitioning.record_memory import bytes_per_record
from dbanon.stores import scratch
from dbanon.stores.duckdb.store import DuckdbStore
from dbanon.stores.scratch import open_scratch
from tests.stores.databases import Database, SqliteDatabase

SECRET = 917_263
OPTIONS = {
    "table": "people",
    "quasi_identifiers": ["age", "pay", "born"],
    "k": 5,
    "sensitive": ["ill"],
    "keep": ["id"],
    "output": "released",
    "block_size": 400,
}


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A DuckDB file with 2,000 rows whose keys are in no order, on which samples are taken."""
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"""CREATE TABLE people AS SELECT (i * 7919 % 2003)::BIGINT AS id,
            (18 + hash(i) % 70)::INTEGER AS age, (1000 * sin(i) + 0.25)::DOUBLE AS pay,
            DATE '1950-01-01' + (hash(i + 1) % 20000)::INTEGER AS born,
            (ARRAY['a', 'b', 'c', 'd'])[1 + (hash(i + 2) % 4)::INTEGER] AS ill,
            (ARRAY['n', 's', 'w'])[1 + (hash(i + 3) % 3)::INTEGER] AS part,
            CASE WHEN i % 9 <> 0 THEN (hash(i + 4) % 50)::INTEGER END AS holes,
            (9007199254740993 + i * {SECRET})::BIGINT AS wide
            FROM range(1, 2001) AS t(i) ORDER BY hash(i + 5)"""
        )
        connection.execute("ALTER TABLE people ADD PRIMARY KEY (id)")
    return f"duckdb:///{path}"


CASES: dict[str, dict[str, object]] = {
    "mdav": {},
    "pass": {"refine": "pass"},
    "fast": {"refine": "fast", "refine_iterations": 300},
    "strata": {"by": ["part"], "block_size": 200, "refine": "pass"},
    "nulls": {"quasi_identifiers": ["age", "holes"], "nulls": "category"},
    "withheld": {
        "quasi_identifiers": ["age", "holes"],
        "nulls": "suppress",
        "max_suppression": 0.2,
    },
    "wide": {"quasi_identifiers": ["age", "wide"]},
    "median": {"recoding": "median", "standardize": "range"},
    "generalized": {"quasi_identifiers": ["age", "part", "born"], "method": "gaa_cp"},
    "generalized, refined": {
        "quasi_identifiers": ["age", "part", "holes"],
        "method": "gaa_cp",
        "refine": "pass",
        "nulls": "category",
    },
    "small": {"block_size": 3000},
}


@pytest.fixture
def people_in_sqlite(sqlite_file: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Rows such as those of `people`, in the database that answers soonest."""
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    rng = np.random.default_rng(7)
    column_values = zip(
        *(rng.integers(0, most, 2000) for most in (70, 20000, 4, 3, 50)), strict=True
    )
    rows = [
        (
            int(key),
            18 + int(age),
            1000 * math.sin(i) + 0.25,
            date(1950, 1, 1) + timedelta(days=int(born)),
            "abcd"[ill],
            "nsw"[part],
            int(hole) if i % 9 else None,
            2**53 + 1 + i * SECRET,
        )
        for i, (key, (age, born, ill, part, hole)) in enumerate(
            zip(rng.permutation(2000), column_values, strict=True)
        )
    ]
    kinds = {
        "id": "bigint",
        "age": "integer",
        "pay": "double",
        "born": "date",
        "ill": "text",
        "part": "text",
        "holes": "integer",
        "wide": "bigint",
    }
    columns = {name: sqlite_file.types[kind] for name, kind in kinds.items()}
    sqlite_file.load("people", columns | {"id": "INTEGER PRIMARY KEY"}, rows)
    return sqlite_file


@pytest.mark.parametrize("name", CASES)
def test_the_release_is_the_same_in_every_bit(
    people_in_sqlite: Database, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "spill"
    expected, spilled = (
        rows_released(people_in_sqlite, **CASES[name], **more)
        for more in ({}, {"spill": str(folder), "chunk_rows": 167})
    )
    assert spilled == expected
    assert not folder.exists()


def rows_released(database: Database, **more: Any) -> list[tuple[Any, ...]]:
    report = database.anonymize(**(OPTIONS | {"if_exists": "replace"} | more))
    assert report.k_achieved >= 5
    return database.rows("SELECT * FROM released ORDER BY id")


def test_reports_tell_the_same_losses(people: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "spill")
    reports = [
        dbanon.anonymize(people, **(OPTIONS | {"output": f"released{i}"}), **more)
        for i, more in enumerate(({}, {"spill": folder}))
    ]
    assert len({report.internal.information_loss for report in reports}) == 1


def test_every_database_gives_the_same(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    rng = np.random.default_rng(4)
    rows = [
        (int(key), int(age), float(pay), "ab"[age % 2])
        for key, age, pay in zip(
            rng.permutation(800), rng.integers(18, 90, 800), rng.normal(size=800), strict=True
        )
    ]
    kinds = database.types
    columns = {"id": "bigint", "age": "integer", "pay": "double", "ill": "text"}
    database.load("people", {name: kinds[kind] for name, kind in columns.items()}, rows)
    releases = []
    for more in ({}, {"spill": str(tmp_path / "spill"), "memory_limit": 2**30}):
        database.anonymize(
            quasi_identifiers=["age", "pay"],
            keep=["id"],
            sensitive=["ill"],
            key=["id"],
            block_size=300,
            refine="pass",
            if_exists="replace",
            chunk_rows=100,
            **more,
        )
        table = database.relation("release.people")
        releases.append(database.rows(f"SELECT * FROM {table} ORDER BY id"))
    assert releases[0] == releases[1]
    assert len(releases[0]) == 800
    assert not (tmp_path / "spill").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_rows_are_read_in_the_same_way(people: str, tmp_path: Path, ending: str) -> None:
    rows = tmp_path / f"people.{ending}"
    with duckdb.connect(people.removeprefix("duckdb:///"), read_only=True) as connection:
        connection.execute(f"COPY people TO '{rows}'")
    releases = []
    for more in ({}, {"spill": str(tmp_path / "spill"), "memory_limit": 2**30}):
        target = tmp_path / f"target{len(releases)}.duckdb"
        options = OPTIONS | {"key": ["id"], "refine": "pass"}
        dbanon.anonymize(f"file:{rows}", target=f"duckdb:///{target}", **options, **more)
        with duckdb.connect(str(target), read_only=True) as connection:
            releases.append(connection.execute("FROM released ORDER BY id").fetchall())
    assert releases[0] == releases[1]
    assert not (tmp_path / "spill").exists()


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_what_is_read_from_the_disk_is_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool, holes: bool
) -> None:
    monkeypatch.setattr("dbanon.data.pieces._REORDERED_ROWS", 7)
    rng = np.random.default_rng(1)
    attributes = [Attribute("a", Kind.FLOAT), Attribute("t", Kind.CATEGORY)]
    keys = rng.permutation(50) if shuffled else np.arange(50)
    valid = rng.random((50, 2)) < 0.8 if holes else None
    numbers, codes = rng.normal(size=(50, 1)), rng.integers(0, 3, (50, 1)).astype(np.int32)

    def pieces() -> list[Chunk]:
        cut = [slice(start, start + 13) for start in range(0, 50, 13)]
        return [
            Chunk(keys[p, None], numbers[p], codes[p], None if valid is None else valid[p])
            for p in cut
        ]

    options = {"categories": [("x", "y", "z")]}
    expected = microdata_from_chunks(attributes, pieces(), **options)
    with open_scratch(str(tmp_path / "spill")) as disk:
        microdata = microdata_from_chunks(attributes, pieces(), **options, disk=disk)
        # The file has no name: only this process has it open.
        assert list(disk.path.iterdir()) == []
    for name in ("keys", "numbers", "codes"):
        np.testing.assert_array_equal(getattr(microdata, name), getattr(expected, name))
        assert not getattr(microdata, name).flags.writeable
    if expected.valid is None:
        assert microdata.valid is None
    else:
        np.testing.assert_array_equal(microdata.valid, expected.valid)


def test_no_rows_are_no_file(tmp_path: Path) -> None:
    with open_scratch(str(tmp_path / "spill")) as disk:
        microdata = microdata_from_chunks([Attribute("a", Kind.FLOAT)], [], disk=disk)
    assert microdata.numbers.shape == (0, 1)


@pytest.mark.parametrize(
    "more",
    [
        {"block_size": None},
        {"entity": "id", "keep": []},
        {"models": [{"kind": "distinct_l", "attribute": "ill", "level": 2}]},
        {"evaluate": True},
        {"certificate": 1.0},
        {"standardize": "mahalanobis"},
        {"recoding": "representative"},
        {
            "orders": {"part": ["n", "s", "w"]},
            "quasi_identifiers": ["age", "part"],
            "recoding": "median",
        },
    ],
)
def test_what_needs_all_values_is_refused(
    people: str, tmp_path: Path, more: dict[str, object]
) -> None:
    with pytest.raises(InvalidParameter, match=r"fit into memory|spills values to disk"):
        dbanon.anonymize(people, **(OPTIONS | more), spill=str(tmp_path / "spill"))
    assert not (tmp_path / "spill").exists()


def test_too_little_memory_is_reported_before_it_is_used(people: str, tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    # The first limit would be enough for one block.
    for limit in (2 * 400 * bytes_per_record(3), 10**5):
        with pytest.raises(MemoryLimit):
            dbanon.anonymize(people, **OPTIONS, spill=str(folder), memory_limit=limit)
        assert not folder.exists()


class _Full:
    """A file on a disk that is full after so many bytes."""

    def __init__(self, file: object, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device", str(SECRET))
        return self._file.write(data)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("room", [0, 5000, 30_000])
def test_a_full_disk_publishes_nothing_and_tells_no_value(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    make_file = scratch.Scratch.create_file
    monkeypatch.setattr(scratch.Scratch, "create_file", lambda self: _Full(make_file(self), room))
    folder = tmp_path / "spill"
    options = OPTIONS | {"quasi_identifiers": ["age", "wide"]}
    with pytest.raises(DatabaseFailure, match="cannot be written") as caught:
        dbanon.anonymize(people, **options, spill=str(folder))
    assert str(SECRET) not in f"{caught.value} {caught.value.to_dict()}"
    assert not folder.exists()
    with duckdb.connect(people.removeprefix("duckdb:///"), read_only=True) as connection:
        assert ("released",) not in connection.execute("SHOW TABLES").fetchall()


@pytest.mark.parametrize("phase", ["read", "cluster", "write", "verify"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, DbanonError])
def test_every_way_out_takes_it_away(
    people: str, tmp_path: Path, phase: str, error: type[BaseException]
) -> None:
    def stop(now: str, share: float) -> None:
        if now == phase and (share > 0 or phase == "verify"):
            raise error

    folder = tmp_path / "spill"
    with pytest.raises(error):
        dbanon.anonymize(people, **OPTIONS, spill=str(folder), progress=stop)
    assert not folder.exists()


_KILLED = """
import sys, time, dbanon
def wait(phase, share):
    if phase == "cluster":
        print("clustering", flush=True)
        time.sleep(60)
dbanon.anonymize(sys.argv[1], table="people", quasi_identifiers=["age", "pay"], k=5,
                 output="released", block_size=400, spill=sys.argv[2], progress=wait)
"""


@pytest.mark.parametrize("cleanup", ["the next run", "gc", "gc without a database"])
def test_after_kill_9_no_value_is_on_the_disk_and_it_is_cleared(
    people: str, tmp_path: Path, cleanup: str
) -> None:
    folder = tmp_path / "spill"
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_KILLED), people, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    with run.stdout:
        assert run.stdout.readline() == "clustering\n"
        running = CliRunner().invoke(main, ["gc", "--spill", str(folder)])
        assert running.exit_code == 7
        assert "wait until that run has ended" in " ".join(running.stderr.split())
        run.send_signal(signal.SIGKILL)
        run.wait(60)
    [left] = folder.iterdir()
    assert [path for path in left.rglob("*") if path.is_file() and path.stat().st_size] == []
    # A file like those that DuckDB leaves behind.
    (left / "duckdb_temp_block-1.block").write_text(str(SECRET))
    if cleanup == "the next run":
        dbanon.anonymize(people, **OPTIONS, spill=str(folder))
    else:
        database = [people] if cleanup == "gc" else []
        line = ["gc", *database, "--spill", str(folder), "--format", "json"]
        done = CliRunner().invoke(main, line, env={"DBANON_URL": None})
        assert json.loads(done.stdout) == {"dropped": [], "cleared": [str(left)]}
        again = CliRunner().invoke(main, line, env={"DBANON_URL": None})
        assert json.loads(again.stdout) == {"dropped": [], "cleared": []}
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_the_command_take_it_away(
    people: str, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "spill"
    with duckdb.connect(people.removeprefix("duckdb:///")) as connection:
        connection.execute(
            "CREATE TABLE many AS SELECT i AS id, hash(i) % 1000003 AS a, hash(i + 1) % 1000003"
            " AS b, hash(i + 2) % 1000003 AS c FROM range(300000) AS t(i)"
        )
    run = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from dbanon.doors.cli.main import main; main()",
            "anonymize",
            people,
            "--table",
            "many",
            "--quasi-identifiers",
            "a,b,c",
            "--k",
            "5",
            "--block-size",
            "20000",
            "--refine",
            "thorough",
            "--spill",
            str(folder),
            "--output",
            "released",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    end = time.monotonic() + 60
    while not folder.exists() and run.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert folder.exists()
    run.send_signal(number)
    run.communicate(timeout=120)
    assert run.returncode not in (0, -signal.SIGKILL)
    assert not folder.exists()


def test_settings_that_fail_leave_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "people.duckdb")
    connection = duckdb.connect(path)
    monkeypatch.setattr("dbanon.stores.duckdb.store._connect", lambda *args: connection)
    store = DuckdbStore(path)
    store._spill_statements = ["SET no_such_setting = 1"]
    with pytest.raises(DbanonError), store.session(write=True):
        pass
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")
