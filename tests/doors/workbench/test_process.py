"""A workbench ended by Ctrl-C, cancelled or killed leaves nothing half-written."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import duckdb
import pytest

from tests.doors.workbench.process import Process, process

ROWS = 400_000
SWEEP = {"from": 3, "to": 10, "sample": ROWS, "seed": 0, "limit": 600, "method": "mdav"}
JOB = {"file": "people.yaml", "name": "people", "output": "people", "report": "yes"}


@pytest.fixture(scope="module")
def database_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A table whose release takes long."""
    file = tmp_path_factory.mktemp("made") / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT range AS id, range * 7919 % 50021 AS income,"
            f" range * 104729 % 40009 AS savings, range % 60 AS age FROM range({ROWS})"
        )
    return file.read_bytes()


@pytest.fixture
def folder(database_bytes: bytes, tmp_path: Path) -> Path:
    (tmp_path / "people.duckdb").write_bytes(database_bytes)
    return tmp_path


def start_task(bench: Process, name: str) -> None:
    """Start a long task and wait until it is in progress."""
    bench.settled_page("columns")
    if name == "run":
        assert bench.post("job", JOB) == 303
        assert "people.yaml" in bench.settled_page("job")
        assert bench.post("run", {}) == 303
    else:
        assert bench.post("sweep", SWEEP) == 303
    end = time.monotonic() + 60
    parts = "cluster|write" if name == "run" else "sweep"
    while not re.search(f": ({parts})<", bench.page(name)):
        assert time.monotonic() < end
        time.sleep(0.02)


def nothing_half_written(folder: Path, name: str) -> None:
    """Require no release, no staging, and no files but those of the table and the job."""
    with duckdb.connect(str(folder / "people.duckdb"), read_only=True) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'dbanon'"
        ).fetchall()
    assert tables == [("people",)]
    expected = {"people.duckdb", *(["people.yaml"] if name == "run" else [])}
    # The next run takes over the lock of a killed job.
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    assert names - {"out"} == expected
    assert not [path for path in folder.rglob("out/**/*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "code"),
    [("run", signal.SIGINT, 130), ("run", signal.SIGKILL, -9)],
)
def test_in_the_middle_of_something(folder: Path, name: str, number: int, code: int) -> None:
    with process(folder, "duckdb:///people.duckdb", "--table", "people") as bench:
        start_task(bench, name)
        bench.started.send_signal(number)
        ended, output = bench.wait_for_end()
    assert ended == code
    assert "Traceback" not in output
    nothing_half_written(folder, name)


@pytest.mark.slow
def test_cancelled_and_used_again(folder: Path) -> None:
    with process(folder, "duckdb:///people.duckdb", "--table", "people") as bench:
        for name in ("sweep", "run"):
            start_task(bench, name)
            assert bench.post("look", {}) == 409
            assert bench.post("cancel", {}) == 303
            page = bench.settled_page(name, 20)
            assert "Unfinished work was rolled back." in page
        # The workbench goes on: short tasks succeed.
        assert bench.post("sweep", SWEEP | {"from": 9, "to": 10, "sample": 300}) == 303
        page = bench.settled_page("sweep")
        assert "Releases that were tried" in page
        assert "recommended" not in page
        bench.started.send_signal(signal.SIGINT)
        ended, output = bench.wait_for_end()
    assert (ended, "Traceback" in output) == (0, False)
    nothing_half_written(folder, "run")


@pytest.mark.slow
def test_workbenches_that_cannot_start(tmp_path: Path) -> None:
    """An unreachable database, whose password is never shown, and a port in use."""
    folder = tmp_path
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT range AS id FROM range(60)")
    url = "postgresql://nobody:zyxomma@127.0.0.1:9/none"
    with process(folder, url, "--table", "people") as refused:
        ended, refused_output = refused.wait_for_end()
    assert ended == 4
    assert "[database_unreachable]" in refused_output
    with process(folder, "duckdb:///people.duckdb", "--table", "people") as bench:
        bench.settled_page("columns")
        port = bench.host.rpartition(":")[2]
        words = ("duckdb:///people.duckdb", "--table", "people", "--port", port)
        with process(folder, *words) as other:
            ended, end_output = other.wait_for_end()
        assert ended == 2
        assert f"Port {port} of 127.0.0.1 is not available." in end_output
        bench.started.send_signal(signal.SIGTERM)
        ended, end_output = bench.wait_for_end()
    assert ended == 143
    assert "zyxomma" not in refused_output
    assert bench.address.partition("key=")[2] not in end_output
