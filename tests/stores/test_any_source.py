"""Sources that no store knows: drawn once, into memory, with leave; one that lies ends the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi
import duckdb
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from click.testing import CliRunner
from sqlalchemy import event

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnNotFound,
    DatabaseFailure,
    DbanonError,
    InvalidParameter,
    MemoryLimit,
    MissingDependency,
    SourceChanged,
    TableNotFound,
    TimeLimit,
    UnsupportedType,
)
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run.open import open_source
from dbanon.stores import origins, origins_sql
from tests.stores import warehouse

OPTIONS: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age", "income"],
    "k": 5,
    "keep": ["ill", "id"],
    "output": "release.people",
}
CLIENT_OPTIONS = {**OPTIONS, "kept_columns": "client"}
FRAME = pd.DataFrame(
    {
        "id": range(60),
        "age": [20 + i % 30 for i in range(60)],
        "income": [100.25 * i for i in range(60)],
        "ill": ["flu", "gout", "none"] * 20,
    }
)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path / 'released.duckdb'}"


def released(target: str, query: str = "FROM release.people") -> list[tuple[Any, ...]]:
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def refused(source: Any, target: str, **overrides: Any) -> DbanonError:
    with pytest.raises(DbanonError) as raised:
        dbanon.anonymize(source, **{**CLIENT_OPTIONS, **overrides}, target=target)
    with duckdb.connect(target.removeprefix("duckdb:///")) as connection:
        query = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'release'"
        assert connection.execute(query).fetchall() == []
    return raised.value


def test_another_dialect_is_drawn_with_leave(tmp_path: Path, target: str) -> None:
    url = warehouse.create_warehouse(tmp_path / "w.db")
    phases: list[tuple[str, float]] = []
    columns = ["size", "born", "seen", "ok", "ill", "id"]
    report = dbanon.anonymize(
        url,
        **{**CLIENT_OPTIONS, "keep": columns},
        entity="who",
        target=target,
        chunk_rows=20,
        progress=lambda *event: phases.append(event),
    )
    assert (report.rows_in, report.rows_out) == (60, 60)
    assert [share for phase, share in phases if phase == "draw"] == [0, 0, 20 / 60, 40 / 60, 1]
    assert report.arguments["kept_columns"] == "client"
    how = (
        "one statement in a transaction at isolation level SERIALIZABLE,"
        " rows counted before and after"
    )
    assert report.arguments["drawn"] == {"rows": 60, "how": how}
    notice = f"60 left their database for this program: {how}"
    assert ("original rows", notice) in report.pairs()
    # For columns that are not requested, only the names.
    assert set(report.not_copied) == {"who", "diary", "photo"}
    [row] = released(target, "SELECT size, born, seen, ok, ill FROM release.people WHERE id = 1")
    assert row == (Decimal("1.5"), date(1951, 1, 2), datetime(2024, 5, 6, 7, 8, 1), True, None)
    [(arguments,)] = released(target, "SELECT arguments FROM dbanon.release")
    assert '"drawn"' in arguments


def test_no_more_is_asked_for_than_is_named(tmp_path: Path, target: str) -> None:
    engine = sqlalchemy.create_engine(warehouse.create_warehouse(tmp_path / "w.db"))
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *event: statements.append(event[2]))
    dbanon.anonymize(engine, **CLIENT_OPTIONS, target=target)
    selects = [statement for statement in statements if statement.startswith("SELECT people")]
    assert len(selects) == 1
    assert "diary" not in selects[0]
    engine.dispose()


def test_without_leave_or_place_nothing_is_drawn(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = warehouse.create_warehouse(tmp_path / "w.db")
    monkeypatch.setattr(origins_sql.SqlOrigin, "open_stream", None)
    for source in (url, iter([FRAME])):
        with pytest.raises(InvalidParameter, match="There is no store") as raised:
            dbanon.anonymize(source, **OPTIONS, target=target)
        assert 'kept_columns="client"' in str(raised.value)
    with pytest.raises(InvalidParameter, match="where the release should go"):
        dbanon.anonymize(url, **CLIENT_OPTIONS)
    with pytest.raises(InvalidParameter, match="where"):
        dbanon.anonymize(url, **CLIENT_OPTIONS, target=target, where="age > 3")
    # Other doors draw nothing.
    with pytest.raises(InvalidParameter, match="no store for warehouse"):
        dbanon.verify(url, "people", quasi_identifiers=["age"], k=2)
    # A source with a store of its own follows that store's rules.
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(InvalidParameter, match="through the client"):
        dbanon.anonymize(f"file:{tmp_path}/people.csv", **CLIENT_OPTIONS, target=target)
    assert refused("nowhere://host/x", target).code == MissingDependency.code


def test_the_command_line_and_a_job(tmp_path: Path, target: str) -> None:
    url = warehouse.create_warehouse(tmp_path / "w.db")
    words = ["--table", "people", "-q", "age", "--k", "5", "--output", "release.people"]
    more = ["--target", target, "--kept-columns", "client"]
    for command in ("plan", "anonymize"):
        done = CliRunner().invoke(main, [command, url, *words, *more], env={"COLUMNS": "300"})
        assert done.exit_code == 0, done.stderr
        assert "60 left their database for this program" in done.stdout
    done = CliRunner().invoke(main, ["anonymize", url, *words, "--target", target])
    assert (done.exit_code, "--kept-columns client" in done.stderr) == (2, True)
    (tmp_path / "job.yaml").write_text(
        f"version: 1\nsource: {{url: '{url}'}}\ntarget: {{url: '{target}'}}\n"
        "defaults: {k: 5, kept_columns: client}\njobs:\n  - name: j\n    table: people\n"
        "    columns:\n      age: {role: quasi_identifier}\n      diary: {role: drop}\n"
        "    on_new_column: halt\n    output: {table: release.job}\n"
    )
    with pytest.raises(DbanonError) as raised:
        dbanon.run_job(tmp_path / "job.yaml")
    # Columns that are not fetched have names, too.
    assert raised.value.code == "column_unclassified"


def streams() -> Iterator[Any]:
    table = pa.Table.from_pandas(FRAME)
    yield pytest.param(lambda: table, id="arrow")
    yield pytest.param(lambda: table.to_reader(7), id="reader")
    yield pytest.param(lambda: FRAME, id="pandas")
    yield pytest.param(lambda: (FRAME[i : i + 20] for i in (0, 20, 40)), id="frames")
    yield pytest.param(lambda: table.to_batches(11), id="batches")
    yield pytest.param(lambda: duckdb.connect().from_arrow(table), id="relation")
    yield pytest.param(lambda: [FRAME.assign(ill=FRAME["ill"].astype("category"))], id="dictionary")


@pytest.mark.parametrize("make", [*streams()])
def test_streams_and_frames(make: Callable[[], Any], target: str) -> None:
    report = dbanon.anonymize(make(), **CLIENT_OPTIONS, target=target)
    assert report.rows_out == 60
    assert report.arguments["drawn"] == {"rows": 60, "how": "a stream, whose rows were not counted"}
    rows = released(target, "SELECT id, ill FROM release.people ORDER BY id")
    assert rows == list(FRAME[["id", "ill"]].itertuples(index=False, name=None))


def test_a_connection_of_adbc_is_left_as_it_was(target: str) -> None:
    with adbc_driver_sqlite.dbapi.connect() as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("people", pa.Table.from_pandas(FRAME))
        connection.commit()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE people SET ill = 'cough' WHERE id = 0")
        report = dbanon.anonymize(connection, **CLIENT_OPTIONS, target=target)
        assert report.arguments["drawn"]["how"].startswith("one statement on the caller's")
        assert released(target, "SELECT ill FROM release.people WHERE id = 0") == [("cough",)]
        # Neither committed nor rolled back.
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("SELECT ill FROM people WHERE id = 0")
            assert cursor.fetchone() == ("flu",)
        other = f"{target}2"
        assert refused(connection, other, table="nothing").code == "database_failure"
        assert isinstance(refused(connection, other, keep=["nothing"]), ColumnNotFound)


def test_a_connection_of_duckdb_in_memory_needs_no_leave(target: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS FROM FRAME")
        report = dbanon.anonymize(connection, **OPTIONS, target=target)
    assert "drawn" not in report.arguments
    assert len(released(target)) == 60


# -- sources that lie, stall, end early, raise --------------------------------------------------


def liar(monkeypatch: pytest.MonkeyPatch, before: int, during: int, after: int) -> None:
    real = origins_sql.SqlOrigin.open_stream

    @contextmanager
    def flow(self: Any, *args: Any) -> Iterator[origins.RowStream]:
        with real(self, *args) as flow_read:

            def batches() -> Iterator[pa.RecordBatch]:
                for batch in flow_read.batches:
                    yield batch[:during]

            yield origins.RowStream(
                flow_read.columns, batches(), flow_read.consistency, before, lambda: after
            )

    monkeypatch.setattr(origins_sql.SqlOrigin, "open_stream", flow)


@pytest.mark.parametrize("counts", [(60, 59, 60), (61, 60, 60), (60, 60, 61), (60, 0, 60)])
def test_rows_are_counted_before_and_after(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int, int]
) -> None:
    liar(monkeypatch, *counts)
    error = refused(warehouse.create_warehouse(tmp_path / "w.db"), target)
    assert isinstance(error, SourceChanged)
    assert all(str(count) in error.message for count in counts)


def breaking(error: Exception) -> Iterator[pd.DataFrame]:
    yield FRAME
    raise error


def test_a_source_that_raises_midway(target: str) -> None:
    error = refused(breaking(ValueError("Jane Roe")), target)
    assert isinstance(error, DatabaseFailure)
    assert (error.detail, "Jane" in str(error)) == ("ValueError", False)
    with pytest.raises(KeyboardInterrupt):
        dbanon.anonymize(breaking(KeyboardInterrupt()), **CLIENT_OPTIONS, target=target)  # type: ignore[arg-type]


def test_a_stream_is_read_once(target: str) -> None:
    job = Job(
        table="people",
        output="o",
        quasi_identifiers=("age",),
        policy=Policy(k=5),
        kept_columns="client",
    )
    store = open_source(breaking(OSError()), None, job, target)
    for code in ("database_failure", "invalid_parameter"):
        with pytest.raises(DbanonError) as raised, store.session(write=False):
            pass
        assert raised.value.code == code
    assert isinstance(refused(iter([]), target), InvalidParameter)
    assert "not yield data frames" in refused(iter([1]), target).message


def test_a_source_that_stalls(target: str) -> None:
    resumed = []

    def stalls() -> Iterator[pd.DataFrame]:
        yield FRAME
        time.sleep(30)
        resumed.append(True)

    assert isinstance(refused(stalls(), target, time_limit=0.5), TimeLimit)
    assert resumed == [], "the limit waited for the source"


def test_a_limit_of_time_in_another_thread(target: str) -> None:
    def endless() -> Iterator[pd.DataFrame]:
        while True:
            time.sleep(0.02)
            yield FRAME

    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(refused, endless(), target, time_limit=0.4).result(30)
    assert isinstance(error, TimeLimit)


@pytest.mark.parametrize(
    ("second", "kind", "message"),
    [
        (FRAME.assign(age="Jane Roe"), UnsupportedType, 'Column "age" has a value'),
        (FRAME.assign(id=0.5), UnsupportedType, 'Column "id" has a value'),
        (FRAME.drop(columns="ill"), ColumnNotFound, '"ill"'),
    ],
)
def test_frames_that_do_not_fit_the_first(
    target: str, second: pd.DataFrame, kind: type[DbanonError], message: str
) -> None:
    error = refused(iter([FRAME, second]), target)
    assert isinstance(error, kind)
    assert message in error.message
    assert "Jane" not in str(error)


def test_types_that_are_not_known(tmp_path: Path, target: str) -> None:
    nothing = FRAME.assign(ill=None)
    assert 'Column "ill" is NULL in all of' in refused(iter([nothing, FRAME]), target).message
    url = warehouse.create_warehouse(tmp_path / "w.db")
    error = refused(url, target, keep=["photo"])
    assert isinstance(error, UnsupportedType)
    assert error.message == 'Column "photo" has a type that cannot be read: BLOB.'
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE people SET age = 'Jane Roe' WHERE id = 50")
    error = refused(engine, target)
    assert isinstance(error, UnsupportedType)
    assert error.message == 'Column "age" has a value that is not of its type, int64.'
    engine.dispose()
    assert isinstance(refused(url, target, table="nothing"), TableNotFound)
    assert isinstance(refused(url, target, keep=["nothing"]), ColumnNotFound)


def test_an_empty_table_and_memory(tmp_path: Path, target: str) -> None:
    assert (
        refused(warehouse.create_warehouse(tmp_path / "w.db", 0), target).code == "too_few_records"
    )
    long = pd.DataFrame({"age": range(4000), "ill": [f"{i}" * 2000 for i in range(4000)]})
    options = {"quasi_identifiers": ["age"], "keep": ["ill"], "memory_limit": 8_000_000}
    assert isinstance(refused(iter([long] * 4), target, **options), MemoryLimit)
