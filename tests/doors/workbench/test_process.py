"""A workbench ends with Ctrl-C, by cancel or killed, and nothing is half-written."""

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
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A table that a release takes long of."""
    file = tmp_path_factory.mktemp("made") / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT range AS id, range * 7919 % 50021 AS income,"
            f" range * 104729 % 40009 AS savings, range % 60 AS age FROM range({ROWS})"
        )
    return file.read_bytes()


@pytest.fixture
def place(made: bytes, tmp_path: Path) -> Path:
    (tmp_path / "people.duckdb").write_bytes(made)
    return tmp_path


def begun(bench: Process, name: str) -> None:
    """Begin what takes long, and wait until it works on it."""
    bench.settled("columns")
    if name == "run":
        assert bench.post("job", JOB) == 303
        assert "people.yaml" in bench.settled("job")
        assert bench.post("run", {}) == 303
    else:
        assert bench.post("sweep", SWEEP) == 303
    end = time.monotonic() + 60
    parts = "cluster|write" if name == "run" else "sweep"
    while not re.search(f": ({parts})<", bench.page(name)):
        assert time.monotonic() < end
        time.sleep(0.02)


def nothing_half_written(place: Path, name: str) -> None:
    """No release, no staging, and no file but those of the table and the job."""
    with duckdb.connect(str(place / "people.duckdb"), read_only=True) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'dbanon'"
        ).fetchall()
    assert tables == [("people",)]
    expected = {"people.duckdb", *(["people.yaml"] if name == "run" else [])}
    # The lock of a job that was killed is taken by its next run.
    found = {path.name for path in place.iterdir() if path.suffix != ".lock"}
    assert found - {"out"} == expected
    assert not [path for path in place.rglob("out/**/*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "code"),
    [("run", signal.SIGINT, 130), ("run", signal.SIGKILL, -9)],
)
def test_in_the_middle_of_something(place: Path, name: str, number: int, code: int) -> None:
    with process(place, "duckdb:///people.duckdb", "--table", "people") as bench:
        begun(bench, name)
        bench.started.send_signal(number)
        ended, said = bench.ended()
    assert ended == code
    assert "Traceback" not in said
    nothing_half_written(place, name)


@pytest.mark.slow
def test_cancelled_and_used_again(place: Path) -> None:
    with process(place, "duckdb:///people.duckdb", "--table", "people") as bench:
        for name in ("sweep", "run"):
            begun(bench, name)
            assert bench.post("look", {}) == 409
            assert bench.post("cancel", {}) == 303
            page = bench.settled(name, 20)
            assert "Unfinished work was rolled back." in page
        # It goes on: what is quick is done.
        assert bench.post("sweep", SWEEP | {"from": 9, "to": 10, "sample": 300}) == 303
        page = bench.settled("sweep")
        assert "Releases that were tried" in page
        assert "recommended" not in page
        bench.started.send_signal(signal.SIGINT)
        ended, said = bench.ended()
    assert (ended, "Traceback" in said) == (0, False)
    nothing_half_written(place, "run")


@pytest.mark.slow
def test_what_cannot_be_begun(place: Path) -> None:
    """A database that does not answer, whose password is told nowhere, and a port that is taken."""
    url = "postgresql://nobody:zyxomma@127.0.0.1:9/none"
    with process(place, url, "--table", "people") as refused:
        ended, told = refused.ended()
    assert ended == 4
    assert "[database_unreachable]" in told
    with process(place, "duckdb:///people.duckdb", "--table", "people") as bench:
        bench.settled("columns")
        port = bench.host.rpartition(":")[2]
        words = ("duckdb:///people.duckdb", "--table", "people", "--port", port)
        with process(place, *words) as other:
            ended, said = other.ended()
        assert ended == 2
        assert f"Port {port} of 127.0.0.1 is not available." in said
        bench.started.send_signal(signal.SIGTERM)
        ended, said = bench.ended()
    assert ended == 143
    assert "zyxomma" not in told
    assert bench.address.partition("key=")[2] not in said
