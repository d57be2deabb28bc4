"""Hints of stores, sources and exports: what raises each, and what a user does who follows it.

Those of databases are in ``hints_databases.py`` and ``hints_mariadb.py``.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle
import re
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
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
from tests.doors.hint_doors import Call, job_file
from tests.doors.hint_steps import CSV, FRAME, World, csv, frame
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
    postgresql: str = ""

    def release(self, source: Any, **options: Any) -> object:
        """Anonymize a table of any source."""
        settings: dict[str, Any] = {
            "table": "people",
            "output": self.new(),
            "quasi_identifiers": ["age"],
            "k": 4,
            "releases": "independent",
        }
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
    return patched(import_module(module), "sys", platform, act)


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


def delta(w: Stores) -> str:
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
    assert name == w.printed(r"(PYICEBERG\w+)").replace("NAME", "CLINIC")
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


def job(w: Stores, name: str = "", **settings: Any) -> object:
    """Run a job on the table."""
    call = Call(
        w.url,
        {
            "table": "people",
            "quasi_identifiers": ["age"],
            "k": 4,
            "releases": "independent",
            "output": w.new(),
        },
    )
    content = job_file(call)
    content["jobs"][0] |= {"name": name or w.new(), **settings}
    path = w.write(w.new(".yaml"), json.dumps(content))
    return dbanon.run_job(path)


FILES = (
    StoreSteps(
        "Move it out of the folder.",
        _pipe,
        [
            lambda w: (w.path / "pipes/p.csv").rename(w.path / "pipe"),
            lambda w: w.rows(f"file:{w.path}/pipes/"),
        ],
    ),
    StoreSteps(
        "Write a file without the columns",
        lambda w: w.file(w.new(".csv"), _columns(4097), quasi_identifiers=["c0"]),
        [lambda w: w.file(w.new(".csv"), _columns(40), quasi_identifiers=["c0"])],
    ),
    StoreSteps(
        "Write a file without the columns",
        lambda w: w.rows(_parquet(w, 4097), quasi_identifiers=["c0"]),
        [lambda w: w.rows(_parquet(w, 40), quasi_identifiers=["c0"])],
    ),
    StoreSteps("Remove these lines from the file", csv(f'"A\n{CSV}', skip_lines=1), [csv(CSV)]),
    StoreSteps(
        "Save the workbook as .xlsx",
        csv(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "locked.xlsx"),
        [
            csv(CSV),
            lambda w: w.rows(
                "file:{}".format(
                    workbook(
                        w.path / w.new(".xlsx"), {"a": [["age"], *([age] for age in range(20, 40))]}
                    )
                )
            ),
        ],
    ),
    StoreSteps(
        "It may be truncated: write it again, with text in UTF-8.",
        csv(b"no such file", "people.sav"),
        [csv(CSV)],
    ),
    StoreSteps(
        "Free memory on this machine, and run it again; or write the file as .csv.",
        patched(
            import_module("dbanon.stores.duckdb.statistics_files"),
            "sys",
            mock.Mock(wraps=sys, platform="linux", executable="/bin/false"),
            csv(CSV, "few.sav"),
        ),
        [csv(CSV, "few.csv")],
    ),
    StoreSteps(
        "Write the file as .csv or .parquet.",
        elsewhere("dbanon.stores.duckdb.statistics_files", csv(CSV, "people.dta")),
        [elsewhere("dbanon.stores.duckdb.statistics_files", csv(CSV))],
    ),
    StoreSteps(
        "Write the file in UTF-8.",
        elsewhere("dbanon.stores.duckdb.csv_files", csv(CSV.encode("utf-16"), encoding="utf-16")),
        [elsewhere("dbanon.stores.duckdb.csv_files", csv(CSV))],
    ),
    StoreSteps(
        "Write the file without blanks",
        elsewhere("dbanon.stores.duckdb.csv_reading", csv(CSV.replace(",a", ' ,"a"'))),
        [elsewhere("dbanon.stores.duckdb.csv_reading", csv(CSV.replace(",a", ',"a"')))],
    ),
    StoreSteps(
        "Write the file as .csv, not compressed.",
        elsewhere(
            "dbanon.stores.duckdb.file_formats", csv(gzip.compress(CSV.encode()), "p.csv.gz")
        ),
        [elsewhere("dbanon.stores.duckdb.file_formats", csv(CSV))],
    ),
    StoreSteps(
        "Raise the limit (`memory_limit`), or write it as Parquet",
        lambda w: _packed(w, memory_limit=10**6),
        [
            lambda w: _packed(w, memory_limit=10**9),
            lambda w: w.rows(_parquet(w, 2), quasi_identifiers=["c0"], memory_limit=10**6),
        ],
    ),
    StoreSteps(
        "Run it again once no program is writing to these files",
        _changing,
        [lambda w: w.rows(f"file:{w.path}/changing.csv")],
    ),
    StoreSteps(
        "Name the source {}, and let this program transfer",
        lambda w: w.rows(f"file:{delta(w)}/"),
        [lambda w: w.into(w.printed("(delta:)") + delta(w), **LAKE)],
    ),
    StoreSteps(
        "Write delta: and the path",
        lambda w: w.into(f"delta:{w.path}", **LAKE),
        [lambda w: w.into(f"delta:{delta(w)}", **LAKE)],
    ),
    StoreSteps(
        "Write iceberg:NAME, with", lambda w: w.into("iceberg:my clinic", **LAKE), [_iceberg]
    ),
    StoreSteps(
        "Set the environment variable PYICEBERG",
        lambda w: w.into("iceberg:clinic", **LAKE),
        [_iceberg],
    ),
    StoreSteps(
        "Write {}:// instead of",
        _object("s3a://clinic/a.parquet"),
        [_object("s3://clinic/a.parquet")],
    ),
    StoreSteps(
        "Write the name of an object or a folder", lambda w: w.into("s3://clinic"), [_from_object]
    ),
    StoreSteps(
        "Make room there, or name a directory",
        on_full_disk(
            lambda w: w.into(
                FRAME,
                target=duckdb.connect(),
                kept_columns="client",
                exports=[{"path": str(w.path / w.new(".csv"))}],
            ),
            16,
        ),
        [
            lambda w: w.into(
                FRAME, kept_columns="client", exports=[{"path": str(w.path / w.new(".csv"))}]
            )
        ],
    ),
)

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

    job = Job(
        table="people",
        output="o",
        quasi_identifiers=("age",),
        policy=Policy(k=5),
        kept_columns="client",
    )
    store = open_source(breaking(), None, job, w.duckdb())
    with suppress(DatabaseFailure), store.session(write=False):
        pass
    with store.session(write=False):
        pass


def _warehouse(w: Stores, change: str = "", **options: Any) -> object:
    url = warehouse.create_warehouse(w.path / w.new(".db"))
    with closing(sqlite3.connect(url.removeprefix("warehouse:///"))) as connection:
        connection.executescript(change)
    return w.into(url, **{"keep": ["id"], "kept_columns": "client", **options})


def _growing(w: Stores) -> object:
    flow = origins_sql.SqlOrigin.open_stream

    @contextmanager
    def growing(self: Any, *args: Any) -> Iterator[origins.RowStream]:
        with flow(self, *args) as rows:
            yield replace(rows, recount=lambda: 61)

    with mock.patch.object(origins_sql.SqlOrigin, "open_stream", growing):
        return _warehouse(w)


def _dialect(w: Stores) -> object:
    """Release from a dialect that the package of its name has."""
    url = warehouse.create_warehouse(w.path / w.new(".db")).replace("warehouse", "snowfield")
    return w.into(url, kept_columns="client")


STREAMED = pa.table(
    {
        "age": pa.array([30] * 8),
        "town": pa.nulls(8, pa.list_(pa.float16())),
    }
)


def _tree(spec: Any, **options: Any) -> Act:
    """Generalize the towns by a hierarchy."""
    return lambda w: w.table(
        quasi_identifiers=["town"],
        recoding="generalization",
        method="gaa_cp",
        hierarchies={"town": spec},
        **options,
    )


TOWNS: dict[str, Any] = {
    "quasi_identifiers": ["age", "town"],
    "recoding": "representative",
    "method": "kmember",
}
LARGE = FRAME.assign(age=np.where(FRAME.index < 4, 1e308, FRAME.age))
FRAMES = (
    StoreSteps(
        "Intervals take values up to",
        frame(LARGE, recoding="generalization"),
        [
            frame(LARGE[4:], recoding="generalization"),
            frame(
                LARGE.assign(age=LARGE.age.mask(LARGE.index < 4)),
                recoding="generalization",
                nulls="category",
            ),
        ],
    ),
    StoreSteps(
        "Correct such values, or leave out their rows.",
        frame(FRAME.assign(town=pd.Series(["\ud800"] + ["a"] * 39, dtype=object)), **TOWNS),
        [frame(FRAME.assign(town="a"), **TOWNS), frame(FRAME[1:], **TOWNS)],
    ),
    StoreSteps(
        "Cast it to a number, text, date, timestamp or boolean, or leave it out of the",
        frame(_union(pa.array(range(40))), quasi_identifiers=["age"], keep=["u"]),
        [
            frame(
                pa.table({"age": range(40), "u": range(40)}), quasi_identifiers=["age"], keep=["u"]
            ),
            frame(_union(pa.array(range(40))).drop(["u"]), quasi_identifiers=["age"]),
        ],
    ),
    StoreSteps(
        "Pass that report, or name a `key`",
        _evaluate(),
        [_evaluate(report="report"), _evaluate(key="id")],
    ),
    StoreSteps(
        "Pass frame.collect() instead of",
        frame(pl.from_pandas(FRAME).lazy()),
        [frame(pl.from_pandas(FRAME).lazy().collect())],
    ),
    StoreSteps(
        'Name the values in order, as in {"ordered"',
        _tree({"ordered": True}),
        [
            _tree({"ordered": list("abc")}),
            _tree({"mask": [1]}),
            _tree({"ordered": True}, local_range=True),
        ],
    ),
    StoreSteps(
        "Yield data frames of pandas or polars",
        _batches(1),
        [
            _batches(FRAME),
            _batches(pl.from_pandas(FRAME)),
            _batches(pa.Table.from_pandas(FRAME)),
            _batches(*pa.Table.from_pandas(FRAME).to_batches()),
        ],
    ),
    StoreSteps(
        "Give the column a type in the first frame",
        _batches(FRAME.assign(town=None), FRAME),
        [
            _batches(
                pa.Table.from_pandas(
                    FRAME.assign(town=None), schema=pa.Table.from_pandas(FRAME).schema
                ),
                FRAME,
            )
        ],
    ),
    StoreSteps(
        "Cast the column in a view or in the stream, or correct",
        _batches(FRAME, FRAME.assign(age="x")),
        [_batches(FRAME, FRAME.assign(age=3))],
    ),
    StoreSteps(
        "Cast it to a number, text, date, timestamp or boolean in a view or in the stream",
        _batches(STREAMED),
        [_batches(STREAMED.set_column(1, "town", [["a"] * 8]))],
    ),
    StoreSteps(
        "Pass a new stream to each call.",
        _read_twice,
        [
            lambda w: w.into(iter([FRAME]), kept_columns="client"),
            lambda w: w.into(iter([FRAME]), kept_columns="client"),
        ],
    ),
    StoreSteps("Run it again while nothing writes to the table", _growing, [_warehouse]),
    StoreSteps(
        "Write the name as SQLAlchemy's inspector",
        lambda w: _warehouse(w, table="Persons"),
        [
            lambda w: _warehouse(
                w,
                table=sqlalchemy.inspect(
                    sqlalchemy.create_engine(
                        warehouse.create_warehouse(w.path / w.new(".db")),
                        poolclass=sqlalchemy.NullPool,
                    )
                ).get_table_names()[0],
            )
        ],
    ),
    StoreSteps(
        "Cast it to a number, text, date, timestamp or boolean in a view, or leave it out.",
        lambda w: _warehouse(w, keep=["photo"]),
        [
            _warehouse,
            lambda w: _warehouse(
                w,
                "CREATE TABLE v AS SELECT age, CAST(photo AS TEXT) AS photo FROM people",
                table="v",
                keep=["photo"],
            ),
        ],
    ),
    StoreSteps(
        "Install the package that has it",
        _dialect,
        [lambda w: registry.register("snowfield", warehouse.__name__, "Warehouse"), _dialect],
    ),
)
