"""The memory of jobs that spill: plans and runs count it alike, and no run takes more."""

from __future__ import annotations

import re
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dbanon
from dbanon.data.memory import MIN_DATABASE_BYTES, database_share, limit_threads
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import MemoryLimit
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.partitioning.record_memory import RecordMemory, bytes_per_record
from dbanon.release.report import Report
from dbanon.run.run import IndependentRun
from dbanon.sessions.session import Session
from dbanon.sessions.statements import order_ranges
from dbanon.stores.duckdb.store import DuckdbStore
from tests.stores.databases import Database

# Values of OPTIONS by case: each changes what stays in memory of each record.
CASES: dict[str, dict[str, Any]] = {
    "numbers": {},
    "integers": {"quasi_identifiers": ["age", "size", "born", "code", "zone"]},
    "pairs": {"k": 2},
    "medians": {"recoding": "median"},
    "pass": {"refine": "pass"},
    "nulls": {"quasi_identifiers": ["x", "y", "hole"], "nulls": "category"},
    "generalized": {"quasi_identifiers": ["age", "size", "born", "site"], "method": "gaa_cp"},
    "strata": {"by": ["site"]},
    # Of large classes, what they are released with takes next to nothing.
    "large classes": {"k": 100},
    "large classes, medians": {"k": 100, "recoding": "median"},
    "large classes, strata": {"k": 100, "by": ["site"]},
    "large classes, labels": {"k": 100, "quasi_identifiers": ["age", "site"], "method": "gaa_cp"},
}
OPTIONS: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["x", "y", "z", "u", "v"],
    "k": 5,
    "keep": ["note"],
    "output": "released",
    "if_exists": "replace",
    "block_size": 4000,
    "chunk_rows": 4000,
}


@pytest.fixture(autouse=True)
def _small_constants(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two blocks are in progress on every machine; all else takes as little as of large tables."""
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    monkeypatch.setattr("dbanon.partitioning.mixed_cuts._DISTANCES_PER_BATCH", 1 << 14)
    for module in ("data.pieces", "data.partition", "release.attribute_disclosure"):
        monkeypatch.setattr(f"dbanon.{module}.PIECE_RECORDS", 4000)
    monkeypatch.setattr("dbanon.data.pieces._REORDERED_ROWS", 4000)
    limit_threads(2)
    yield
    limit_threads(None)


def create_people(path: Path, n: int) -> str:
    numbers = ", ".join(f"sin(i * {j + 1.7}) AS {name}" for j, name in enumerate("xyzuv"))
    integers = ", ".join(
        f"(hash(i + {j}) % 90)::INTEGER AS {name}"
        for j, name in enumerate(("age", "size", "born", "code", "zone"))
    )
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE TABLE people AS SELECT i AS id, {numbers}, {integers},"
            " CASE WHEN i % 3 > 0 THEN cos(i) END AS hole, 'of ' || (hash(i) % 6) AS site,"
            f" 'a note' AS note FROM range({n}) AS r(i)"
        )
    return f"duckdb:///{path}"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DuckDB file with 20,000 rows."""
    return create_people(tmp_path_factory.mktemp("people") / "people.duckdb", 20_000)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_and_a_run_have_one_limit(people: str, tmp_path: Path, name: str) -> None:
    options = OPTIONS | CASES[name] | {"spill": str(tmp_path / "spill")}
    limit = dbanon.plan(people, **options).memory
    too_little = options | {"memory_limit": limit - 1}
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(MemoryLimit) as refused:
            call(people, **too_little)
        assert f"Use memory_limit={limit_after(limit)} or more" in str(refused.value.hint)
    assert dbanon.plan(people, **options, memory_limit=limit).memory == limit
    assert dbanon.anonymize(people, **options, memory_limit=limit).rows_out == 20_000


def limit_after(limit: int) -> int:
    """The limit that hints name: a multiple of a MiB, if there is one MiB."""
    return limit if limit < 2**20 else -(-limit // 2**20) * 2**20


def test_in_memory_a_plan_and_a_run_have_one_limit(people: str) -> None:
    limit = dbanon.plan(people, **OPTIONS).memory
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(MemoryLimit):
            call(people, **OPTIONS, memory_limit=limit - 1)
        call(people, **OPTIONS, memory_limit=limit)


def test_every_database_counts_alike(database: Database, tmp_path: Path) -> None:
    database.load(
        "people",
        {"id": "integer PRIMARY KEY", "x": database.types["double"]},
        [(i, i % 50 / 7) for i in range(1000)],
    )
    options: dict[str, Any] = {"quasi_identifiers": ["x"], "k": 5, "block_size": 100}
    options |= {"spill": str(tmp_path / "spill"), "output": "release.people"}
    limit = dbanon.plan(database.url, table="people", **options).memory
    with pytest.raises(MemoryLimit) as refused:
        database.anonymize(**options, memory_limit=limit - 1)
    assert "1000 records would be read" in str(refused.value.detail)
    assert database.anonymize(**options, memory_limit=limit).rows_out == 1000


def test_a_table_that_is_too_large_is_refused_before_it_is_read(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> None:
        pytest.fail("a row was read")

    monkeypatch.setattr(Session, "read", read)
    with pytest.raises(MemoryLimit, match="more than"):
        dbanon.anonymize(people, **OPTIONS, spill=str(tmp_path / "spill"), memory_limit=10**5)


def test_withheld_rows_take_no_memory(people: str, tmp_path: Path) -> None:
    options = OPTIONS | {"quasi_identifiers": ["x", "hole"], "max_suppression": 0.5}
    options |= {"nulls": "suppress", "spill": str(tmp_path / "spill")}
    limit = dbanon.plan(people, **options).memory
    assert limit < dbanon.plan(people, **(options | {"quasi_identifiers": ["x", "y"]})).memory
    assert dbanon.anonymize(people, **options, memory_limit=limit).rows_out < 20_000


@pytest.mark.parametrize("name", CASES)
def test_no_run_takes_more_than_its_plan_says(tmp_path: Path, name: str) -> None:
    """Beside DuckDB, whose memory is limited, and values that are only mapped."""
    # In large blocks, so that the sample for their borders hardly grows with the table.
    options = OPTIONS | CASES[name] | {"spill": str(tmp_path / "spill"), "block_size": 20_000}
    peaks, needs = [], []
    for n in (40_000, 120_000):
        url = create_people(tmp_path / f"{n}.duckdb", n)
        needs.append(dbanon.plan(url, **options).memory // 2)
        tracemalloc.start()
        dbanon.anonymize(url, **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # What each further record takes; the rest is the same for all tables.
    assert peaks[1] - peaks[0] <= needs[1] - needs[0], (peaks, needs)


def test_nothing_that_was_read_is_in_memory_when_databases_write(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spill"
    resident = []
    publish = IndependentRun.publish

    def record(self: IndependentRun[Any]) -> Report:
        # The files of values have no names, but their mappings show where they were.
        mappings = Path("/proc/self/smaps").read_text().split(str(folder))[1:]
        resident.extend(int(mapping.split("Rss:")[1].split()[0]) for mapping in mappings)
        assert "_members_by_class" not in vars(self.draft.release.partition)
        return publish(self)

    monkeypatch.setattr(IndependentRun, "publish", record)
    dbanon.anonymize(people, **OPTIONS, spill=str(folder))
    assert resident == [0]


def test_what_duckdb_has_read_is_freed(tmp_path: Path) -> None:
    url = create_people(tmp_path / "people.duckdb", 1_000_000)
    store = DuckdbStore(url.removeprefix("duckdb:///"))
    store.spill(tmp_path, 2**29)
    with store.session(write=False) as session:

        def cached_bytes() -> int:
            rows = session.rows("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
            return int(rows[0][0])

        limits = "SELECT current_setting('memory_limit'), current_setting('threads')"
        limits_before = session.rows(limits)
        session.rows("SELECT sum(x), sum(y), sum(z), sum(u), sum(v), sum(hole) FROM people")
        assert cached_bytes() > MIN_DATABASE_BYTES
        session.free_cache()
        assert cached_bytes() <= MIN_DATABASE_BYTES
        assert session.rows(limits) == limits_before


def test_ten_million_rows_fit_into_a_gibibyte() -> None:
    columns = [Attribute(name, Kind.FLOAT) for name in "xyzuv"]
    job = Job(
        table="people",
        quasi_identifiers=tuple("xyzuv"),
        output="released",
        policy=Policy(k=5, block_size=50_000),
        spill="spill",
        memory_limit=2**30,
    )
    RecordMemory.of(job, columns, spills=True).require(10_000_000)


def test_databases_share_half_of_the_limit(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release may go from one DuckDB database to another."""
    shares = []
    set_share = DuckdbStore.spill

    def spill(self: DuckdbStore, directory: Path | None, memory_bytes: int | None) -> None:
        shares.append(memory_bytes)
        set_share(self, directory, memory_bytes)

    monkeypatch.setattr(DuckdbStore, "spill", spill)
    options = OPTIONS | {"memory_limit": 2**30}
    for spill_options in ({}, {"spill": str(tmp_path / "spill")}):
        dbanon.anonymize(people, **options, **spill_options)
        target = f"duckdb:///{tmp_path / f'target {len(spill_options)}.duckdb'}"
        dbanon.anonymize(people, **options, **spill_options, target=target)
        # None restores the default after each run.
        assert shares == [2**29, None, 2**28, 2**28, None, None]
        shares.clear()
    # SQLite takes hardly any memory.
    dbanon.anonymize(people, **options, target=f"sqlite:///{tmp_path / 'target.db'}")
    assert shares == [2**29, None]
    assert database_share(None) is None


def test_duckdb_counts_against_the_limit_of_a_run_that_does_not_spill(
    people: str, tmp_path: Path
) -> None:
    """Records and database keep to the limit together, wherever the database is."""
    target = f"duckdb:///{tmp_path / 'target.duckdb'}"
    sqlite = f"sqlite:///{tmp_path / 'people.db'}"
    options = OPTIONS | {"keep": [], "quasi_identifiers": ["x", "y"]}
    dbanon.anonymize(people, **options, target=sqlite)
    options |= {"table": "released", "output": "again"}
    records_bytes = 20_000 * bytes_per_record(2)
    for options_of_target, expected in (
        ({}, records_bytes),
        ({"target": target}, 2 * records_bytes),
    ):
        call: dict[str, Any] = options | options_of_target
        needed = dbanon.plan(sqlite, **call).memory
        assert needed == expected
        for function in (dbanon.plan, dbanon.anonymize):
            with pytest.raises(MemoryLimit) as refused:
                function(sqlite, **call, memory_limit=needed - 1)
            is_shared = "half of the limit is for databases" in str(refused.value)
            assert is_shared == bool(options_of_target)
        assert dbanon.anonymize(sqlite, **call, memory_limit=needed).rows_out == 20_000


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DuckDB file with 60,000 rows and twelve texts."""
    path = tmp_path_factory.mktemp("wide") / "people.duckdb"
    texts = ", ".join(f"'text ' || (hash(i + {j}) % 10) AS t{j}" for j in range(12))
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT hash(i) % 99991 / 7.0 AS x, hash(-i) % 99991 / 7.0 AS y,"
            f" {texts} FROM range(60000) AS r(i)"
        )
    return f"duckdb:///{path}"


WIDE: dict[str, Any] = OPTIONS | {
    "quasi_identifiers": ["x", "y"],
    "keep": [f"t{j}" for j in range(12)],
    "block_size": 10_000,
}


def test_the_limit_of_a_plan_suffices_for_many_kept_columns(wide: str, tmp_path: Path) -> None:
    """DuckDB counts what each kept column reveals, and would need memory for all of them."""
    options = WIDE | {"spill": str(tmp_path / "spill")}
    needed = dbanon.plan(wide, **options).memory
    assert needed < 2 * MIN_DATABASE_BYTES
    with pytest.raises(MemoryLimit) as refused:
        dbanon.plan(wide, **options, memory_limit=needed - 2**20)
    hint = re.search(r"memory_limit=(\d+)", str(refused.value.hint))
    assert hint is not None
    report = dbanon.anonymize(wide, **options, memory_limit=int(hint[1]))
    assert report.rows_out == 60_000


def test_the_limit_of_a_plan_suffices_to_sort_the_rows(tmp_path: Path) -> None:
    """Without batches and parts, DuckDB would fail to sort this many rows of this width."""
    path = tmp_path / "people.duckdb"
    columns = ", ".join(
        f"hash(i * 7 + {j}) % 999983 / 7.0::DOUBLE AS {name}" for j, name in enumerate("xyzuv")
    )
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE TABLE people AS SELECT {columns}, 'text ' || (i % 10) AS note"
            " FROM range(650000) AS r(i)"
        )
    options = OPTIONS | {"block_size": 50_000, "chunk_rows": 50_000}
    options |= {"spill": str(tmp_path / "spill")}
    needed = dbanon.plan(f"duckdb:///{path}", **options).memory
    report = dbanon.anonymize(f"duckdb:///{path}", **options, memory_limit=needed)
    assert report.rows_out == 650_000


@pytest.mark.parametrize("is_copied", [False, True])
def test_rows_that_are_sorted_in_parts_are_written_in_order(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    options = OPTIONS | {"memory_limit": 2**27, "keep": ["note", "id"], "k": 1000}
    path = tmp_path / "target.duckdb"
    if is_copied:
        options["target"] = f"duckdb:///{path}"
    else:
        path = tmp_path / "people.duckdb"
        shutil.copy(people.removeprefix("duckdb:///"), path)
    source = people if is_copied else f"duckdb:///{path}"
    released = []
    for copies in (3, 1000):
        monkeypatch.setattr("dbanon.stores.duckdb.session._SORT_COPIES", copies)
        # The classes are the same, but their random numbers, and so the order, differ.
        for module in ("sessions.session", "stores.copied_rows"):
            monkeypatch.setattr(f"dbanon.{module}.random_order", np.arange)
        inserts: list[str] = []
        dbanon.anonymize(source, **options, on_sql=inserts.append)
        inserts = [sql for sql in inserts if "ORDER BY" in sql and '"released_' in sql]
        assert len(inserts) == 1 if copies == 3 else len(inserts) > 10
        with duckdb.connect(str(path)) as connection:
            released.append(connection.execute("SELECT * FROM released").fetchall())
    assert released[0] == released[1]
    assert len(released[0]) == 20_000


def test_parts_of_an_order_have_each_row_once() -> None:
    """Also where a class is larger than a part."""
    rows = [(number, position) for number in range(4) for position in range(50)]
    borders = [(0, 20), (0, 40), (2, 0), (2, 0), (3, 49)]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE labels (class INTEGER, position INTEGER)")
        connection.executemany("INSERT INTO labels VALUES (?, ?)", rows)
        parts = [
            connection.execute(
                f"SELECT class, position FROM labels AS l{part} ORDER BY l.class, l.position"
            ).fetchall()
            for part in order_ranges("l", borders)
        ]
    assert [len(part) for part in parts] == [20, 20, 60, 0, 99, 1]
    assert [row for part in parts for row in part] == rows
    assert order_ranges("l", []) == [""]
