"""Hints of stores, sources and exports: what raises each, and what a user does who follows it.

``MARIADB`` has those of a server; ``STEPS`` need none.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import deltalake
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import sqlalchemy
from pyarrow import parquet
from sqlalchemy.dialects import registry

import dbanon
from dbanon.errors import DatabaseFailure
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run.open import open_source
from dbanon.stores import origins, origins_sql
from dbanon.stores.duckdb.file_rows import FileRows
from dbanon.stores.scratch import scratch_in
from dbanon.stores.sqlite.session import SqliteSession
from tests.doors.hint_doors import Call, job_file, model
from tests.doors.hint_steps import CSV, FRAME, World, cli, csv, frame
from tests.object_server import served
from tests.stores import warehouse
from tests.stores.test_file_formats import workbook

_JOBS = itertools.count()
AGES = [str(age) for age in range(20, 32)]
LAKE = {"kept_columns": "client", "table": "people"}


@dataclass(frozen=True)
class Stores(World):
    """A folder with databases of one table, and the hint that was printed last."""

    hints: list[str] = field(default_factory=list)
    maria: Any = None

    def release(self, source: Any, **options: Any) -> object:
        """Anonymize a table of any source."""
        settings: dict[str, Any] = {
            "table": "people", "output": self.new(), "quasi_identifiers": ["age"], "k": 4,
            "releases": "independent",
        }  # fmt: skip
        settings |= options
        return dbanon.anonymize(source, **{n: v for n, v in settings.items() if v is not None})

    def into(self, source: Any, **options: Any) -> object:
        """The same, into a new database."""
        return self.release(
            source, **{"target": f"duckdb:///{self.path}/{self.new('.duckdb')}", **options}
        )

    def duckdb(self, *statements: str) -> str:
        """A new DuckDB database with the table, changed by statements; its URL."""
        path = self.path / self.new(".duckdb")
        with duckdb.connect(str(path)) as connection:
            connection.register("frame", FRAME)
            connection.execute("CREATE TABLE people AS FROM frame")
            for statement in statements:
                connection.execute(statement)
        return f"duckdb:///{path}"

    def sqlite(self, *statements: str) -> str:
        """A new SQLite database with the table, changed by statements; its URL."""
        path = self.path / self.new(".sqlite")
        with closing(sqlite3.connect(path)) as connection:
            FRAME.to_sql("people", connection, index=False)
            connection.executescript(";".join(statements))
            connection.commit()
        return f"sqlite:///{path}"

    def write(self, name: str, content: str | bytes) -> str:
        """A file; its path."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def printed(self, words: str) -> str:
        """The group of a regular expression in the hint that was printed."""
        match = re.search(words, self.hints[-1])
        assert match, (words, self.hints[-1])
        return match[1]


Act = Callable[[Stores], object]


@dataclass(frozen=True)
class StoreSteps:
    """A hint, what raises it, and what a user does who follows it."""

    hint: str
    wrong: Act
    right: Sequence[Act]


@contextmanager
def full_disk(size: int = 1 << 8) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def on_full_disk(act: Act, size: int = 1 << 8) -> Act:
    def run(world: Stores) -> object:
        with full_disk(size):
            return act(world)

    return run


def patched(target: Any, name: str, value: Any, act: Act) -> Act:
    """Run an act while an attribute is another one."""

    def run(world: Stores) -> object:
        with mock.patch.object(target, name, value):
            return act(world)

    return run


def elsewhere(module: str, act: Act) -> Act:
    """Run an act as on a system that is no Linux."""
    platform = mock.Mock(wraps=sys, platform="darwin")
    return patched(sys.modules[module], "sys", platform, act)


# -- files ------------------------------------------------------------------------------------


def _columns(count: int) -> str:
    return f"{','.join(f'c{i}' for i in range(count))}\n" + f"{','.join('1' * count)}\n" * 4


def _parquet(w: Stores, count: int) -> str:
    path = w.path / w.new(".parquet")
    parquet.write_table(pa.table({f"c{i}": [1] * 4 for i in range(count)}), path)
    return f"file:{path}"


def _pipe(w: Stores) -> object:
    w.write("pipes/a.csv", CSV)
    os.mkfifo(w.path / "pipes/p.csv")
    return w.rows(f"file:{w.path}/pipes/")


def _packed(w: Stores, **options: Any) -> object:
    text = "age,x\n" + f"30,{'a' * 400}\n" * 4000
    return w.file("packed.csv.gz", gzip.compress(text.encode()), **options)


def _changing(w: Stores) -> object:
    load = FileRows.load

    def load_and_write(self: FileRows, *args: Any) -> Any:
        types = load(self, *args)
        w.write("changing.csv", f"{CSV}40,a\n")
        return types

    with mock.patch.object(FileRows, "load", load_and_write):
        return w.file("changing.csv", CSV)


def _delta(w: Stores) -> str:
    path = w.path / "lake"
    if not path.exists():
        deltalake.write_deltalake(path, pa.Table.from_pandas(FRAME))
    return str(path)


def _iceberg(w: Stores) -> object:
    """Set the printed variable, in a process that has it from its start."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.utils.config import Config

    uri = f"sqlite:///{w.path}/catalog.db"
    name = "PYICEBERG_CATALOG__CLINIC__URI"
    assert name == w.printed(r"(PYICEBERG\w+)")
    with closing(SqlCatalog("clinic", uri=uri, warehouse=f"file://{w.path}/ware")) as catalog:
        catalog.create_namespace_if_not_exists("n")
        table = catalog.create_table_if_not_exists("n.people", pa.Table.from_pandas(FRAME).schema)
        table.append(pa.Table.from_pandas(FRAME))
    with (
        mock.patch.dict(os.environ, {name: uri}),
        mock.patch("pyiceberg.catalog._ENV_CONFIG", Config()),
    ):
        Config()
        return w.into("iceberg:clinic", **LAKE | {"table": "n.people"})


def _object(url: str) -> Act:
    """Release to an object of a store on this machine."""

    def run(w: Stores) -> object:
        with served():
            return w.table(exports=[{"path": url}])

    return run


def _from_object(w: Stores) -> object:
    with served() as bucket:
        w.table(exports=[{"path": f"{bucket}/people.parquet"}])
        return w.into(f"{bucket}/people.parquet")


def _job(w: Stores, name: str = "", **settings: Any) -> object:
    """Run a job on the table."""
    call = Call(w.url, {"table": "people", "quasi_identifiers": ["age"], "k": 4,
                        "releases": "independent", "output": w.new()})  # fmt: skip
    job = job_file(call)
    job["jobs"][0] |= {"name": name or w.new(), **settings}
    path = w.write(w.new(".yaml"), json.dumps(job))
    return dbanon.run_job(path)


FILES = (
    StoreSteps("Move it out of the folder.", _pipe,
               [lambda w: (w.path / "pipes/p.csv").rename(w.path / "pipe"),
                lambda w: w.rows(f"file:{w.path}/pipes/")]),
    StoreSteps("Write a file without the columns", lambda w: w.file(
               w.new(".csv"), _columns(4097), quasi_identifiers=["c0"]), [
               lambda w: w.file(w.new(".csv"), _columns(40), quasi_identifiers=["c0"])]),
    StoreSteps("Write a file without the columns", lambda w: w.rows(
               _parquet(w, 4097), quasi_identifiers=["c0"]), [
               lambda w: w.rows(_parquet(w, 40), quasi_identifiers=["c0"])]),
    StoreSteps("Remove these lines from the file", csv(f'"A\n{CSV}', skip_lines=1), [csv(CSV)]),
    StoreSteps("Save the workbook as .xlsx", csv(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
               "locked.xlsx"), [csv(CSV), lambda w: w.rows("file:{}".format(workbook(
               w.path / w.new(".xlsx"), {"a": [["age"], *([age] for age in range(20, 40))]})))]),
    StoreSteps("Write the file in UTF-8.", elsewhere("dbanon.stores.duckdb.csv_files", csv(
               CSV.encode("utf-16"), encoding="utf-16")), [
               elsewhere("dbanon.stores.duckdb.csv_files", csv(CSV))]),
    StoreSteps("Write the file without blanks", elsewhere("dbanon.stores.duckdb.csv_reading", csv(
               CSV.replace(",a", ' ,"a"'))), [
               elsewhere("dbanon.stores.duckdb.csv_reading", csv(CSV.replace(",a", ',"a"')))]),
    StoreSteps("Write the file as .csv, not packed.", elsewhere(
               "dbanon.stores.duckdb.file_formats", csv(gzip.compress(CSV.encode()), "p.csv.gz")),
               [elsewhere("dbanon.stores.duckdb.file_formats", csv(CSV))]),
    StoreSteps("Raise the limit (`memory_limit`), or write it as Parquet", lambda w: _packed(
               w, memory_limit=10**6), [lambda w: _packed(w, memory_limit=10**9),
               lambda w: w.rows(_parquet(w, 2), quasi_identifiers=["c0"], memory_limit=10**6)]),
    StoreSteps("Run it again when no program writes to these files", _changing,
               [lambda w: w.rows(f"file:{w.path}/changing.csv")]),
    StoreSteps("Name the source {}, and let its rows", lambda w: w.rows(f"file:{_delta(w)}/"),
               [lambda w: w.into(w.printed("(delta:)") + _delta(w), **LAKE)]),
    StoreSteps("Write delta: and the path", lambda w: w.into(f"delta:{w.path}", **LAKE),
               [lambda w: w.into(f"delta:{_delta(w)}", **LAKE)]),
    StoreSteps("Write iceberg:NAME, with", lambda w: w.into("iceberg:my clinic", **LAKE), []),
    StoreSteps("Set the environment variable PYICEBERG", lambda w: w.into("iceberg:clinic", **LAKE),
               [_iceberg]),
    StoreSteps("Write {}:// instead of", _object("s3a://clinic/a.parquet"),
               [_object("s3://clinic/a.parquet")]),
    StoreSteps("Write the name of an object or a folder", lambda w: w.into("s3://clinic"),
               [_from_object]),
    StoreSteps("Make room there, or name a directory", on_full_disk(lambda w: w.into(
               FRAME, target=duckdb.connect(), kept_columns="client",
               exports=[{"path": str(w.path / w.new(".csv"))}]), 16), [lambda w: w.into(
               FRAME, kept_columns="client", exports=[{"path": str(w.path / w.new(".csv"))}])]),
)  # fmt: skip

# -- frames and streams ---------------------------------------------------------------------------


def _union(values: pa.Array) -> pa.Table:
    zeros = pa.array([0] * len(values), pa.int8())
    offsets = pa.array(range(len(values)), pa.int32())
    return pa.table({"age": values, "u": pa.UnionArray.from_dense(zeros, offsets, [values])})


def _evaluate(**options: Any) -> Act:
    """Compare with a release by its report: a copy that went through JSON, or itself."""

    def run(_: Stores) -> object:
        roles: dict[str, Any] = {"quasi_identifiers": ["age", "size"]}
        released, report = dbanon.anonymize_frame(FRAME, k=4, keep=["id"], **roles)
        asked = options or {"report": pickle.loads(pickle.dumps(report))}
        asked = {name: report if value == "report" else value for name, value in asked.items()}
        return dbanon.evaluate(FRAME, released, **roles, **asked)

    return run


def _batches(*frames: Any) -> Act:
    return lambda w: w.into(iter(frames), kept_columns="client", keep=["town"])


def _read_twice(w: Stores) -> None:
    """Read a stream again that broke off."""

    def breaking() -> Iterator[pd.DataFrame]:
        yield FRAME
        raise OSError

    job = Job(table="people", output="o", quasi_identifiers=("age",), policy=Policy(k=5),
              kept_columns="client")  # fmt: skip
    store = open_source(breaking(), None, job, w.duckdb())
    with suppress(DatabaseFailure), store.session(write=False):
        pass
    with store.session(write=False):
        pass


def _warehouse(w: Stores, change: str = "", **options: Any) -> object:
    url = warehouse.made(w.path / w.new(".db"))
    with closing(sqlite3.connect(url.removeprefix("warehouse:///"))) as connection:
        connection.executescript(change)
    return w.into(url, **{"keep": ["id"], "kept_columns": "client", **options})


def _growing(w: Stores) -> object:
    flow = origins_sql.SqlOrigin.flow

    @contextmanager
    def growing(self: Any, *args: Any) -> Iterator[origins.Flow]:
        with flow(self, *args) as rows:
            yield replace(rows, count=lambda: 61)

    with mock.patch.object(origins_sql.SqlOrigin, "flow", growing):
        return _warehouse(w)


def _dialect(w: Stores) -> object:
    """Release from a dialect that the package of its name has."""
    url = warehouse.made(w.path / w.new(".db")).replace("warehouse", "snowfield")
    return w.into(url, kept_columns="client")


STREAMED = pa.table({
    "age": pa.array([30] * 8), "town": pa.nulls(8, pa.list_(pa.float16())),
})  # fmt: skip


def _tree(spec: Any, **options: Any) -> Act:
    """Generalize the towns by a hierarchy."""
    return lambda w: w.table(
        quasi_identifiers=["town"], recoding="generalization", method="gaa_cp",
        hierarchies={"town": spec}, **options,
    )  # fmt: skip


TOWNS: dict[str, Any] = {
    "quasi_identifiers": ["age", "town"], "recoding": "representative", "method": "kmember",
}  # fmt: skip
LARGE = FRAME.assign(age=np.where(FRAME.index < 4, 1e308, FRAME.age))
FRAMES = (
    StoreSteps("Intervals take values up to", frame(LARGE, recoding="generalization"), [
               frame(LARGE[4:], recoding="generalization"),
               frame(LARGE.assign(age=LARGE.age.mask(LARGE.index < 4)), recoding="generalization",
                     nulls="category")]),
    StoreSteps("Correct such values, or leave out their rows.", frame(FRAME.assign(
               town=pd.Series(["\ud800"] + ["a"] * 39, dtype=object)), **TOWNS), [
               frame(FRAME.assign(town="a"), **TOWNS), frame(FRAME[1:], **TOWNS)]),
    StoreSteps("Cast it to a number, text, date, timestamp or boolean, or leave it out of the",
               frame(_union(pa.array(range(40))), quasi_identifiers=["age"], keep=["u"]), [
               frame(pa.table({"age": range(40), "u": range(40)}), quasi_identifiers=["age"],
                     keep=["u"]), frame(_union(pa.array(range(40))).drop(["u"]),
                                        quasi_identifiers=["age"])]),
    StoreSteps("Give that report, or name a `key`", _evaluate(), [
               _evaluate(report="report"), _evaluate(key="id")]),
    StoreSteps("Give frame.collect() instead of", frame(pl.from_pandas(FRAME).lazy()),
               [frame(pl.from_pandas(FRAME).lazy().collect())]),
    StoreSteps("Name the values in order, as in {\"ordered\"", _tree({"ordered": True}), [
               _tree({"ordered": list("abc")}), _tree({"mask": [1]}),
               _tree({"ordered": True}, local_range=True)]),
    StoreSteps("Yield data frames of pandas or polars", _batches(1), [
               _batches(FRAME), _batches(pl.from_pandas(FRAME)),
               _batches(pa.Table.from_pandas(FRAME)),
               _batches(*pa.Table.from_pandas(FRAME).to_batches())]),
    StoreSteps("Give the column a type in the first frame", _batches(
               FRAME.assign(town=None), FRAME), [_batches(pa.Table.from_pandas(FRAME.assign(
               town=None), schema=pa.Table.from_pandas(FRAME).schema), FRAME)]),
    StoreSteps("Cast the column in a view or in the stream, or correct", _batches(
               FRAME, FRAME.assign(age="x")), [_batches(FRAME, FRAME.assign(age=3))]),
    StoreSteps("Cast it to a number, text, date, timestamp or boolean in a view or in the stream",
               _batches(STREAMED), [_batches(STREAMED.set_column(1, "town", [["a"] * 8]))]),
    StoreSteps("Give a new stream to each call.", _read_twice,
               [lambda w: w.into(iter([FRAME]), kept_columns="client"),
                lambda w: w.into(iter([FRAME]), kept_columns="client")]),
    StoreSteps("Run it again while nothing writes to the table", _growing, [_warehouse]),
    StoreSteps("Write the name as SQLAlchemy's inspector", lambda w: _warehouse(w, table="Persons"),
               [lambda w: _warehouse(w, table=sqlalchemy.inspect(sqlalchemy.create_engine(
                   warehouse.made(w.path / w.new(".db")), poolclass=sqlalchemy.NullPool
               )).get_table_names()[0])]),
    StoreSteps("Cast it to a number, text, date, timestamp or boolean in a view, or leave it out.",
               lambda w: _warehouse(w, keep=["photo"]), [_warehouse, lambda w: _warehouse(
               w, "CREATE TABLE v AS SELECT age, CAST(photo AS TEXT) AS photo FROM people",
               table="v", keep=["photo"])]),
    StoreSteps("Install the package that has it", _dialect, [
               lambda w: registry.register("snowfield", warehouse.__name__, "Warehouse"),
               _dialect]),
)  # fmt: skip

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


def _spilling(w: Stores, memory: str = "20MB", disk: str = "1MB") -> object:
    """Release a wide table from a connection with limits."""
    with duckdb.connect() as connection:
        for name, value in (("memory_limit", memory), ("max_temp_directory_size", disk),
                            ("temp_directory", f"{w.path}/duck")):  # fmt: skip
            connection.execute(f"SET {name} = '{value}'")
        connection.execute(
            "CREATE VIEW people AS SELECT range % 9 AS age, range AS id, repeat(range::VARCHAR, 40)"
            " AS note FROM range(60000)"
        )
        return w.release(connection, keep=["note"], key=["id"])


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
    return _job(w, "nightly")


def _remove_lock(w: Stores) -> None:
    assert str(w.path) == w.printed("write to (.*), and remove the file")
    (w.path / ".people.sqlite.nightly.lock").unlink()


def _made_meanwhile(w: Stores) -> object:
    """Another connection makes the output between the plan and its publication."""
    publish = SqliteSession.publish

    def late(self: Any, output: Any, columns: Any) -> None:
        self.run(f"CREATE TABLE {output.name.quoted} (x INTEGER)")
        publish(self, output, columns)

    with mock.patch.object(SqliteSession, "publish", late):
        return w.table(if_exists="replace")


def _bounds(w: Stores, *columns: str, **options: Any) -> object:
    url = w.sqlite("ALTER TABLE people ADD COLUMN age_low INTEGER DEFAULT 1")
    return w.release(url, recoding="generalization", keep=columns,
                     **{"intervals": "bounds", **options})  # fmt: skip


_STAMPS = ("CREATE TABLE tree AS SELECT TIMESTAMP '2020-01-01' + INTERVAL (x) DAY AS child,"
           " 'all' AS parent FROM range(3) t(x)")  # fmt: skip
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
_WIDE = ("ALTER TABLE people ADD COLUMN n HUGEINT", f"UPDATE people SET n = {10**30 + 1}::HUGEINT",
         "CREATE VIEW as_text AS SELECT id, age, CAST(n AS VARCHAR) AS n FROM people",
         "CREATE VIEW as_float AS SELECT id, age, CAST(n AS DOUBLE) AS n FROM people")  # fmt: skip


def _wide(table: str) -> Act:
    """Release large integers into SQLite."""
    return lambda w: w.into(w.duckdb(*_WIDE), keep=["n"], table=table, key=["id"],
                            target=f"sqlite:///{w.path}/{w.new('.sqlite')}")  # fmt: skip


def _named(columns: str) -> Act:
    """Store a hierarchy from a view with these columns."""
    return lambda w: dbanon.store_hierarchy(
        w.duckdb("CREATE TABLE t AS SELECT 'x' AS a, 'all' AS b",
                 f"CREATE VIEW tree AS SELECT {columns} FROM t"), "h", {"table": "tree"})  # fmt: skip


def _near(w: Stores, **options: Any) -> object:
    days = {"tree": {"all": [f"2020-01-0{day}" for day in (1, 2, 3)]}}
    closeness = replace(model("seen", "t_closeness", 0.9), distance=days)
    return w.release(w.duckdb(*_VISITS), sensitive=["seen"], key=["id"],
                     **{"models": [closeness], **options})  # fmt: skip


DATABASES = (
    StoreSteps("Close the file in that process", _open_elsewhere,
               [lambda w: w.release((w.path / "closed").read_text())]),
    StoreSteps("Give the frame to dbanon.anonymize_frame, or", _registered, [
               lambda w: _registered(w, w.printed("(CREATE TABLE .*?), and")), frame(FRAME)]),
    StoreSteps("Make room there, name a directory on another", _spilling, [
               lambda w: _spilling(w, disk="1GB"), lambda w: _spilling(w, memory="1GB")]),
    StoreSteps("Run RESET {} on a new connection", lambda w: _locked(w, pinned=False),
               [lambda w: _locked(w, pinned=True)]),
    StoreSteps("Open it for writing, or name", lambda w: _read_only(w, True), [
               lambda w: _read_only(w, False),
               lambda w: _read_only(w, True, target=f"duckdb:///{w.path}/{w.new('.duckdb')}")]),
    StoreSteps("Cast it to TIMESTAMP in a view", lambda w: w.into(w.duckdb(*_NANO), keep=["t"]), [
               lambda w: w.into(w.duckdb(*_NANO), keep=["t"], table="rounded", key=["id"])]),
    StoreSteps("Cast the column to text or to floating point", _wide("people"), [
               lambda w: w.into(w.duckdb(*_WIDE), keep=["n"]), _wide("as_text"),
               _wide("as_float")]),
    StoreSteps("Make room there, or write to a database on another", on_full_disk(lambda w: w.into(
               FRAME, kept_columns="client")), [lambda w: w.into(FRAME, kept_columns="client")]),
    StoreSteps("Make room on the disk of the database's file", lambda w: _pages(w, 9),
               [lambda w: _pages(w, 9000)]),
    StoreSteps("Write duckdb:///file.duckdb, or the whole path", cli("releases duckdb:///md:x"), [
               lambda w: duckdb.connect(str(w.path / "a:b")).close(),
               cli("releases duckdb:///{path}/a:b")]),
    StoreSteps("Call commit() or rollback()", _transaction, [
               lambda w: _transaction(w, "commit"), lambda w: _transaction(w, "rollback")]),
    StoreSteps("End the other connection's transaction", _busy, [lambda w: _busy(w, busy=False)]),
    StoreSteps("Let the account that runs jobs write", _job_lock, [_remove_lock,
               lambda w: _job(w, "nightly")]),
    StoreSteps("Run it again, which replaces that relation", _made_meanwhile,
               [lambda w: w.table(if_exists="replace")]),
    StoreSteps("Bounds of a range are released as", lambda w: _bounds(w, "age_low"), [_bounds,
               lambda w: _bounds(w, "age_low", intervals="text"),
               lambda w: _bounds(w, "age_low", intervals="midpoint")]),
    # Hierarchies.
    StoreSteps("Name the columns child and parent, or leaf", lambda w: dbanon.store_hierarchy(
               w.duckdb("CREATE TABLE tree (a TEXT, b TEXT)"), "h", {"table": "tree"}),
               [_named("a AS child, b AS parent"), _named("a AS leaf, b AS level1")]),
    StoreSteps("Cast it to text in a view, and read", lambda w: dbanon.store_hierarchy(
               w.duckdb(_STAMPS), "h", {"table": "tree"}), [lambda w: dbanon.store_hierarchy(
               w.duckdb(_STAMPS, "CREATE VIEW v AS SELECT child::TEXT AS child, parent FROM tree"),
               "h", {"table": "v"})]),
    StoreSteps("Store a tree, levels, a table or a file, or", lambda w: dbanon.store_hierarchy(
               w.url, w.new(), {"intervals": [10]}), [lambda w: dbanon.store_hierarchy(
               w.url, w.new(), {"tree": {"*": ["a", "b"]}}), lambda w: w.table(
               method="gaa_cp", recoding="generalization",
               hierarchies={"age": {"intervals": [10]}})]),
    StoreSteps("Cast the column to a date in a view, or set", _near, [
               lambda w: _near(w, table="dated"), lambda w: _near(w, models=[
                   replace(model("seen", "t_closeness", 0.9), distance="ordered")])]),
)  # fmt: skip

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
    with scratch_in(str(w.path / "shared")):
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
    StoreSteps("Name another directory (`spill`), or wait", _spill_twice, [
               _spill("fresh3"), _spill("shared")]),
    StoreSteps("Give a path without a scheme, on", cli("gc --staged s3://b/x"),
               [_staged, cli("gc --staged {path}/staged")]),
    StoreSteps("Name the directory that releases were", lambda w: w.cli(
               f"gc --staged {w.write('a_file', '')}"), [cli("gc --staged {path}")]),
    StoreSteps("Run the command as that account", _gc_of_others,
               [cli("gc --staged {path}/staged")]),
)  # fmt: skip

MARIADB: tuple[StoreSteps, ...] = ()
STEPS = (*FILES, *FRAMES, *DATABASES, *SCRATCH)
