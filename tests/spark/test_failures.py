"""Failures on a cluster: an identical release or none, and no row values in messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import ConnectionLost, DbanonError, SourceChanged
from dbanon.run.gc import clear_abandoned_directories, collect_garbage
from dbanon.run.open import open_store
from dbanon.spark import anonymize_table
from dbanon.stores.postgresql import pieces
from tests.postgres_server import conninfo
from tests.spark.cluster import SMALL, Cluster, descendants, end
from tests.spark.statements import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = 8_000
SECRET = 917_263_554
ARGUMENTS: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age", "pay", "size"],
    "k": 5,
    "keep": ["id"],
    "block_size": 500,
    "if_exists": "replace",
}
RELEASED = "SELECT id, age, pay::text, size FROM release.people ORDER BY id"
PIECES = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE obj_description(c.oid, 'pg_class') LIKE 'dbanon piece %'"
)


@pytest.fixture
def people(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of 8,000 rows, each with a number that must not be in a log."""
    monkeypatch.setattr("dbanon.stores.postgresql.pieces.MIN_PAGES", 8)
    execute(
        pg_url,
        f"""CREATE TABLE people AS SELECT i AS id, 18 + i * 7 % 70 AS age,
        (1000 * sin(i))::numeric(12, 2) AS pay, {SECRET}::bigint + i * 31 % 997 AS size,
        1000 + i % 3 AS amount FROM generate_series(1, {N}) AS i;
        ALTER TABLE people ADD PRIMARY KEY (id)""",
    )
    return pg_url


@contextmanager
def driver(**order: Any) -> Iterator[subprocess.Popen[str]]:
    """A driver in its own process group, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        yield process
    finally:
        below = descendants(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in below:
            end(pid)
        process.communicate(timeout=60)


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    while (line_read := process.stdout.readline()) != f"{line}\n":
        assert line_read, process.communicate()[1][-3000:]


def kill_when_at_work(session: SparkSession, cluster: Cluster, killed: list[int]) -> None:
    """Kill an executor and its Python in the middle of a stage with several tasks."""
    tracker = session.sparkContext.statusTracker()
    limit = time.monotonic() + 240
    while time.monotonic() < limit:
        for stage in tracker.getActiveStageIds():
            stage_info = tracker.getStageInfo(stage)
            half = (
                stage_info is not None
                and stage_info.numTasks >= 4
                and stage_info.numCompletedTasks >= 1
            )
            if half and stage_info is not None and stage_info.numActiveTasks:
                [first, *_] = cluster.executors()
                for pid in (first, *descendants(first)):
                    end(pid)
                    killed.append(pid)
                return
        time.sleep(0.02)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_bit(
    on_cluster: SparkSession, cluster: Cluster, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbanon.extensions.spark import table

    dbanon.anonymize(people, **ARGUMENTS, key=["id"])
    expected = execute(people, RELEASED)
    killed: list[int] = []
    killer = threading.Thread(target=kill_when_at_work, args=(on_cluster, cluster, killed))
    original = table.release_frame

    def released(*arguments: Any, **options: Any) -> Any:
        # Not earlier: a task that compares versions has no rows to lose.
        killer.start()
        return original(*arguments, **options)

    monkeypatch.setattr(table, "release_frame", released)
    report = anonymize_table(on_cluster, people, people, **ARGUMENTS)
    killer.join()
    assert killed
    assert execute(people, RELEASED) == expected
    assert report.rows_out == N
    assert execute(people, PIECES) == []
    # Tasks that read and write the rows logged none of them.
    assert str(SECRET)[:6] not in cluster.logs()


@pytest.mark.campaign
def test_a_driver_that_is_killed_publishes_nothing_and_gc_clears(
    sessions: Any, cluster: Cluster, people: str
) -> None:
    """On the cluster; the next test needs it for a driver with its own cores."""
    # A driver takes all cores: end the one of other tests.
    sessions.stop()
    earlier = dbanon.anonymize(people, **ARGUMENTS)
    before = execute(people, RELEASED)
    with driver(
        master=cluster.master, conf=cluster.conf, url=people, asked=ARGUMENTS, wait=True
    ) as process:
        wait_for(process, "staged")
        left = left_at_work(people)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    require_cleared(people, left, earlier.release_id, before)


def left_at_work(people: str) -> list[Any]:
    """The pieces of a running driver, which are never removed."""
    left = execute(people, PIECES)
    assert left
    assert collect_garbage(open_store(people)) == []
    return left


def require_cleared(people: str, left: list[Any], earlier: str | None, before: list[Any]) -> None:
    """Require the earlier release, and that old pieces are removed."""
    assert execute(people, RELEASED) == before
    assert dbanon.verify(people, "release.people").release_id == earlier
    assert sorted(execute(people, PIECES)) == sorted(left)
    # Another driver may be using young ones.
    assert collect_garbage(open_store(people)) == []
    for schema, name in left:
        [(mark,)] = execute(people, f"SELECT obj_description('{schema}.\"{name}\"'::regclass)")
        old = int(str(mark).split()[-1]) - pieces.ABANDONED_SECONDS
        aged = " ".join([*str(mark).split()[:-1], str(old)])
        execute(people, f"COMMENT ON TABLE {schema}.\"{name}\" IS '{aged}'")
    limit = time.monotonic() + 60
    dropped: list[str] = []
    # The server notices the closed connection of the driver.
    while not dropped and time.monotonic() < limit:
        dropped = collect_garbage(open_store(people))
        time.sleep(0.2)
    assert len(dropped) == len(left)
    assert execute(people, PIECES) == []
    assert execute(people, RELEASED) == before


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_row_that_can_be_read(
    sessions: Any, people: str, tmp_path: Path
) -> None:
    sessions.end()
    earlier = dbanon.anonymize(people, **ARGUMENTS)
    before = execute(people, RELEASED)
    execute(people, "ALTER TABLE people ADD note text; UPDATE people SET note = 'ill since ' || id")
    conf = SMALL | {"spark.driver.memory": "640m", "spark.local.dir": str(tmp_path)}
    options = ARGUMENTS | {"keep": ["id", "note"]}
    with driver(master="local[2]", conf=conf, url=people, asked=options, wait=True) as process:
        wait_for(process, "staged")
        left = left_at_work(people)
        assert clear_abandoned_directories([str(tmp_path)]) == []
        java = descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        for pid in java:
            end(pid)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name.startswith("rdd_") for path in files)
    assert not [path.name for path in files if b"ill since" in path.read_bytes()]
    [only_folder] = tmp_path.iterdir()
    assert only_folder.stat().st_mode & 0o777 == 0o700
    cleared = CliRunner().invoke(main, ["gc", "--spark-local", str(tmp_path), "--format", "json"])
    assert json.loads(cleared.stdout) == {"dropped": [], "cleared": [str(only_folder)]}
    assert list(tmp_path.iterdir()) == []
    require_cleared(people, left, earlier.release_id, before)


def test_a_writer_at_work_is_not_seen(spark: SparkSession, people: str) -> None:
    """Each of its transactions preserves the sum of all amounts, which only a consistent
    state has.
    """
    expected = execute(people, "SELECT count(*), sum(amount) FROM people")
    done = threading.Event()
    turns = []

    def write() -> None:
        with psycopg.connect(conninfo(people)) as connection:
            # Some hundred per second, without using up a core.
            while not done.wait(0.005):
                turn = len(turns)
                a, b = 1 + turn * 37 % 3500, 4000 + turn * 53 % 3500
                connection.execute(f"UPDATE people SET amount = amount + {turn} WHERE id = {a}")
                connection.execute(
                    f"WITH gone AS (DELETE FROM people WHERE id = {b} RETURNING *) INSERT INTO"
                    f" people SELECT {N + 1 + turn}, age, pay, size, amount FROM gone"
                )
                connection.execute(
                    f"UPDATE people SET amount = amount - {turn}"
                    f" WHERE id = (SELECT id FROM people WHERE id <> {a} ORDER BY id DESC LIMIT 1)"
                )
                connection.commit()
                turns.append(turn)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        options = ARGUMENTS | {"keep": ["id", "amount"]}
        report = anonymize_table(spark, people, people, **options)
    finally:
        done.set()
        writer.join()
    assert len(turns) > 10
    assert execute(people, "SELECT count(*), sum(amount) FROM release.people") == expected
    assert report.rows_in == report.rows_out == N


def test_a_lost_snapshot_publishes_nothing(
    spark: SparkSession, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbanon.extensions.spark import table

    original = table.release_frame

    def lose_snapshot(*arguments: Any, **options: Any) -> Any:
        execute(
            people,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database()",
        )
        return original(*arguments, **options)

    monkeypatch.setattr(table, "release_frame", lose_snapshot)
    with pytest.raises((SourceChanged, ConnectionLost)):
        anonymize_table(spark, people, people, **ARGUMENTS)
    assert execute(people, "SELECT to_regclass('release.people') IS NULL") == [(True,)]
    assert execute(people, PIECES) == []


@pytest.mark.slow
def test_a_full_disk_publishes_nothing_and_leaks_no_value(sessions: Any, people: str) -> None:
    dbanon.anonymize(people, **ARGUMENTS)
    before = execute(people, RELEASED)
    conf = SMALL | {"spark.driver.memory": "640m"}
    with driver(
        master="local[1]", conf=conf, url=people, asked=ARGUMENTS, largest_file=100_000
    ) as process:
        wait_for(process, "open")
        out, err = process.communicate(timeout=300)
    result = json.loads(out)
    assert result["exit_code"] == 4, result
    assert "nothing was published" in result["message"]
    assert str(SECRET)[:6] not in out + err
    assert execute(people, RELEASED) == before
    assert execute(people, PIECES) == []


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python of this version without a package, for the workers of drivers."""
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return python


@pytest.mark.slow
def test_workers_without_the_package_fail_in_one_sentence(sessions: Any, bare: Path) -> None:
    sessions.end()
    with driver(master="local[1]", conf=SMALL) as process:
        out, err = process.communicate(timeout=120)
    result = json.loads(out)
    assert result["code"] == "workers_differ"
    assert "no dbanon on a worker" in result["detail"]
    # Spark's own log does not mention it.
    assert "Traceback" not in err
    bare.unlink()
    with driver(master="local[1]", conf=SMALL) as process:
        result = json.loads(process.communicate(timeout=120)[0])
    assert result["code"] == "workers_differ"
    assert "PYSPARK_PYTHON" in result["hint"]


@pytest.mark.slow
def test_packages_of_workers_come_in_an_archive(
    sessions: Any, cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    """As in docs/scale-out.md; the archive contains only a reference to the packages."""
    sessions.stop()
    places = [str(Path(dbanon.__file__).parent.parent), *filter(None, sys.path)]
    # With the files of the editable install, which finds the compiled core.
    (tmp_path / "sitecustomize.py").write_text(
        f"import site\nfor place in {places!r}:\n    site.addsitedir(place)\n"
    )
    with tarfile.open(tmp_path / "lean.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "sitecustomize.py", "sitecustomize.py")
    more = {
        "spark.archives": f"{tmp_path / 'lean.tar.gz'}#lean",
        "spark.executorEnv.PYTHONPATH": "lean",
    }
    with driver(master=cluster.master, conf=cluster.conf | more) as process:
        out, err = process.communicate(timeout=120)
    assert out == "open\n", err[-2000:]


def test_two_drivers_for_one_output(spark: SparkSession, people: str) -> None:
    """The second publishes after the first: either one fails, or both succeed in turn."""
    results: list[object] = []

    def release() -> None:
        try:
            results.append(anonymize_table(spark, people, people, **ARGUMENTS).release_id)
        except DbanonError as error:
            results.append(error.exit_code)

    threads = [threading.Thread(target=release) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = [result for result in results if isinstance(result, str)]
    assert messages
    assert all(result == 4 for result in results if not isinstance(result, str))
    assert dbanon.verify(people, "release.people").release_id in messages
    assert execute(people, PIECES) == []
