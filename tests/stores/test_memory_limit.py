"""The memory limit applies to loading files, too: a small file may hold many rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import dbanon
from dbanon.data.memory import (
    MIN_DATABASE_BYTES,
    available_bytes,
    available_cores,
    half_of_memory,
)
from dbanon.doors.cli.main import main
from dbanon.errors import MemoryLimit
from dbanon.run.open import open_store
from dbanon.stores.duckdb import file_counts
from dbanon.stores.duckdb.store import connect_in_memory

MIB = 2**20
LIMIT = 16 * MIB
ROWS = 3_000_000


@pytest.fixture(scope="module")
def constant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 25 KB, of three million rows."""
    path = tmp_path_factory.mktemp("constant") / "people.parquet"
    table = pa.table({"age": pa.array([30] * ROWS), "site": pa.array(["sixteen letters."] * ROWS)})
    parquet.write_table(table, path)
    assert path.stat().st_size < MIB
    return path


def job_file(source: Path, folder: Path) -> Path:
    file = folder / "job.yaml"
    file.write_text(
        f"version: 1\nsource: {{path: {source}}}\n"
        f"target: {{url: 'duckdb:///{folder / 'b.duckdb'}'}}\njobs:\n"
        "  - name: a\n    table: people\n    k: 5\n    memory_limit: 16MiB\n"
        "    output: {table: r}\n    columns: {age: {role: quasi_identifier}}\n"
    )
    return file


def test_a_small_file_of_many_rows(constant: Path, tmp_path: Path) -> None:
    """Each interface with a limit refuses and says what to do."""
    url, target = f"file:{constant}", f"duckdb:///{tmp_path / 'a.duckdb'}"
    options: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age"], "k": 5}
    calls: dict[str, Callable[[], Any]] = {
        "anonymize": lambda: dbanon.anonymize(
            url, **options, output="r", target=target, memory_limit=LIMIT
        ),
        "plan": lambda: dbanon.plan(url, **options, output="r", target=target, memory_limit=LIMIT),
        "advise": lambda: dbanon.advise(url, "people", memory_limit=LIMIT),
        "certificate": lambda: dbanon.certificate(
            url, 5, table="people", quasi_identifiers=["age"], memory_limit=LIMIT
        ),
    }
    for name, run in calls.items():
        with pytest.raises(MemoryLimit, match=r"The rows of .* need more than 32 MiB") as refused:
            run()
        assert "memory_limit" in str(refused.value.hint), name
    words = ["--table", "people", "-q", "age", "--k", "5", "--output", "r", "--target", target]
    for command in (
        ["anonymize", url, *words, "--memory-limit", "16MiB"],
        ["plan", url, *words, "--memory-limit", "16MiB"],
        ["run", str(job_file(constant, tmp_path))],
    ):
        done = CliRunner().invoke(main, command)
        assert done.exit_code in (8, 9), done.output
        assert "[memory_limit]: The rows of" in done.output


def test_the_limit_is_of_what_is_needed(constant: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "table": "people",
        "quasi_identifiers": ["age"],
        "k": 5,
        "output": "r",
    }
    few = tmp_path / "few.parquet"
    parquet.write_table(pa.table({"age": [30, 31] * 50, "site": ["a", "b"] * 50}), few)
    target = f"duckdb:///{tmp_path / 'a.duckdb'}"
    report = dbanon.anonymize(f"file:{few}", **options, target=target, memory_limit=LIMIT)
    assert report.rows_out == 100
    assert dbanon.plan(f"file:{constant}", **options, memory_limit=2**30).rows == ROWS


def test_csv_in_another_encoding_is_in_memory(tmp_path: Path) -> None:
    """It is written anew in UTF-8, which takes as much memory as the file has characters."""
    path = tmp_path / "people.csv"
    path.write_bytes(("age,note\n" + f"30,{'ä' * 1000}\n" * 10_000).encode("utf-16"))
    # Half of the limit.
    with pytest.raises(MemoryLimit, match="8 MiB"):
        dbanon.plan(
            f"file:{path}",
            table="people",
            quasi_identifiers=["age"],
            k=5,
            output="r",
            encoding="utf-16",
            memory_limit=LIMIT,
        )


def settings_of(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Bytes and threads of a database."""
    text, threads = connection.execute(
        "SELECT current_setting('memory_limit'), current_setting('threads')"
    ).fetchall()[0]
    size, unit = text.split()
    return round(float(size) * {"MiB": MIB, "GiB": 2**30}[unit]), int(threads)


@pytest.mark.parametrize("limit", [1, LIMIT, 128 * MIB, 2**30])
def test_every_database_that_is_opened_keeps_to_half_of_it(limit: int, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS age")
    few = tmp_path / "people.csv"
    few.write_text("age\n1\n")
    for url in (f"duckdb:///{path}", f"file:{few}"):
        with open_store(url, memory=limit).session(write=False) as session:
            limit_set, threads = settings_of(session.connection.driver)  # type: ignore[attr-defined]
        expected = max(limit // 2, MIN_DATABASE_BYTES)
        assert abs(limit_set - expected) <= expected // 100
        assert 1 <= threads <= max(1, expected // (64 * MIB))


def test_a_database_in_memory_has_a_default_limit() -> None:
    with connect_in_memory() as connection:
        limit_set, _ = settings_of(connection)
    assert limit_set <= half_of_memory() * 1.01


def test_files_of_releases_are_counted_within_it(constant: Path) -> None:
    """A verified file is streamed: its rows need not fit."""
    assert file_counts.connect_in_memory is connect_in_memory
    done = CliRunner().invoke(main, ["verify", str(constant), "-q", "age", "--k", "5"])
    assert done.exit_code == 0, done.output


V2 = "0::/system.slice/a.service\n"
V1 = "9:cpu:/a\n7:hugetlb,memory:/docker/a\n0::/\n"


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        (V2, {"system.slice/a.service/memory.max": "1048576"}, MIB),
        (
            V2,
            {"system.slice/memory.max": "1048576", "system.slice/a.service/memory.max": "max"},
            MIB,
        ),
        (V2, {"system.slice/a.service/memory.high": "1048576", "memory.max": "max"}, MIB),
        # In a container, which does not see its host's directories.
        (V2, {"memory.max": "1048576"}, MIB),
        (V1, {"memory/docker/a/memory.limit_in_bytes": "1048576"}, MIB),
        (
            V1,
            {
                "memory/docker/memory.limit_in_bytes": "2097152",
                "memory/docker/a/memory.limit_in_bytes": "9223372036854771712",
            },
            2 * MIB,
        ),
        (V1, {"memory/memory.limit_in_bytes": "1048576"}, MIB),
        (V2, {"system.slice/a.service/memory.max": "max"}, None),
        (V2, {}, None),
        ("", {}, None),
        ("nonsense\n", {"memory.max": "1048576"}, None),
        ("0::/../../etc\n", {"memory.max": "1048576"}, MIB),
    ],
)
def test_the_limit_of_a_control_group_is_one_of_memory(
    lines: str, files: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    write_groups(tmp_path, lines, files)
    machine = available_bytes(tmp_path / "nowhere")
    assert available_bytes(tmp_path) == (machine if expected is None else expected)


def write_groups(root: Path, lines: str, files: dict[str, str]) -> None:
    """Write the files of a process's control groups, by their names below their mount."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(lines)
    for name, text in files.items():
        file = root / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        (V2, {"system.slice/a.service/cpu.max": "100000 100000"}, 1),
        (V2, {"system.slice/cpu.max": "250000 100000", "cpu.max": "max 100000"}, 3),
        (V2, {"cpu.max": "50000 100000"}, 1),
        (V1, {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        (V1, {"cpu/cpu.cfs_quota_us": "100000"}, 8),
        (V2, {"cpu.max": "max 100000"}, 8),
        (V2, {"cpu.max": "1600000 100000"}, 8),
        (V2, {}, 8),
    ],
)
def test_the_quota_of_a_control_group_limits_cores(
    lines: str,
    files: dict[str, str],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    write_groups(tmp_path, lines, files)
    assert available_cores(tmp_path) == expected


def test_limits_are_read_at_every_door() -> None:
    """The default is one function's."""
    root = Path(dbanon.__file__).parent
    texts = {path: path.read_text() for path in root.rglob("*.py")}
    readers = [path.name for path, text in texts.items() if "SC_PHYS_PAGES" in text]
    assert readers == ["memory.py"]
    cores = [path.name for path, text in texts.items() if "os.cpu_count()" in text]
    assert cores == ["memory.py"]


def test_other_connections_keep_their_limits(tmp_path: Path) -> None:
    """A program may have the file open itself: connections of a process share a database."""
    path = str(tmp_path / "shared.duckdb")
    query = "SELECT current_setting('memory_limit'), current_setting('threads')"
    with duckdb.connect(path) as connection:
        connection.execute("SET memory_limit = '1GB'")
        connection.execute(
            "CREATE TABLE people AS SELECT range AS id, range % 20 AS age FROM range(200)"
        )
        before = connection.execute(query).fetchall()
        dbanon.anonymize(
            f"duckdb:///{path}",
            table="people",
            quasi_identifiers=["age"],
            k=5,
            output="released",
            memory_limit=64 * 2**20,
        )
        assert connection.execute(query).fetchall() == before
