"""What is read on a cluster, as one state of it has it: files that are listed once, one snapshot.

Workers read a table of PostgreSQL by COPY, each its range of pages, all in the one snapshot that
the driver's transaction exported and holds: a task that runs again reads what it read before. When
the holder is lost they fail; there is no other state to fall back to.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from dbanon.data.files import REFUSE, opened
from dbanon.data.schema import Attribute
from dbanon.errors import (
    DatabaseFailure,
    InvalidParameter,
    NonFiniteValue,
    SourceChanged,
    TableNotFound,
)
from dbanon.job.job import Job
from dbanon.run.open import open_postgresql
from dbanon.run.plan import require_roles
from dbanon.sessions.base import Relation
from dbanon.spark.arrow import arrow_schema, spark_schema
from dbanon.spark.dataframe import NAME, DataFrameSource
from dbanon.spark.disclosure import SourceFindings
from dbanon.spark.refusals import check_names
from dbanon.spark.tasks import errors_without_values, translated
from dbanon.stores.postgresql import pieces
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Bytes that the parser takes at a time: more than a row has.
_BLOCK = 1 << 23
_SNAPSHOT = re.compile(r"[0-9A-Fa-f-]+")


@dataclass(frozen=True)
class Pinned:
    """What is read, as one state of it has it.

    Parameters
    ----------
    name : what the report calls it.
    frame : its rows, with the columns of the job and its key; each action reads them anew.
    key : columns that tell every row from every other; empty where none are known.
    attributes : all columns that it has, with the types of where they come from.
    relation : of a database; None of files.
    settled : raises SourceChanged where it is no longer what it was; called before the end.
    count : the number of its rows, asked where it lies: to compare with those that were read.
    findings : what it has shown of its columns; None where the first rows of ``frame`` tell it.
    """

    name: str
    frame: DataFrame
    key: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    relation: Relation | None
    settled: Callable[[], None]
    count: Callable[[], int]
    findings: SourceFindings | None = None


# -- PostgreSQL -----------------------------------------------------------------------------------


@contextmanager
def postgresql(session: SparkSession, url: URL, job: Job, tasks: int) -> Iterator[Pinned]:
    """A table of PostgreSQL in one snapshot, which this block holds.

    Parameters
    ----------
    url : with all that workers need to connect: they do, from where they run.
    tasks : how many the table is read by; a view, or one with children, is read by one.

    Raises
    ------
    DbanonError : the table cannot be read, of the class that says why.
    """
    store = open_postgresql(url)
    with store.session(write=False) as held:
        source = SqlSource(held)
        relation = source.describe(job)
        require_roles(job, relation)
        relation = source.locate(relation, job, job.read)
        key = job.key or pieces.own_key(relation)
        findings = SourceFindings.of(source, relation, job)
        wanted = {*job.read, *key, *findings.numbers_of_persons}
        # In the table's own order, which is the release's.
        read = [a for a in relation.schema.attributes if a.name in wanted]
        attributes = source.inspect(relation, read)
        [(snapshot,)] = held.rows("SELECT pg_catalog.pg_export_snapshot()")
        schema = arrow_schema(attributes)
        queries = pieces.queries(held, relation, attributes, tasks)
        told = url.render_as_string(hide_password=False)
        reader = _reader(told, str(snapshot), queries, schema)
        with translated("a table was to be read"):
            frame = session.range(0, len(queries), 1, len(queries)).mapInArrow(
                reader, spark_schema(schema)
            )

        def settled() -> None:
            held.rows("SELECT 1")

        relation = relation.with_attributes(attributes)
        yield Pinned(
            str(relation.name),
            frame,
            tuple(key),
            relation.schema.attributes,
            relation,
            settled,
            lambda: source.count(relation),
            findings,
        )


def _reader(
    url: str, snapshot: str, queries: Sequence[str], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker runs: the rows of the queries whose numbers it is given."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with errors_without_values(f"Piece {number} of the source"):
                    yield from read_piece(url, snapshot, queries[number], schema)

    return read


def read_piece(url: str, snapshot: str, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a query in an exported snapshot.

    Raises
    ------
    SourceChanged : the snapshot is gone, with the driver or its connection.
    NonFiniteValue : a value has no place in its column's type, as an infinite date.
    """
    from sqlalchemy import make_url

    if not _SNAPSHOT.fullmatch(snapshot):
        raise InvalidParameter("This is the name of no snapshot.")
    store = open_postgresql(make_url(url))
    with store.session(write=False) as session:
        try:
            session.run(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        except DatabaseFailure as error:
            raise SourceChanged(
                "The snapshot that all of the source is read in is gone; nothing was published.",
                detail=error.detail,
                hint="The driver's connection to the database was lost. Try again.",
            ) from None
        yield from _parsed(session.copy_out(query), schema)


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        n = min(len(room), len(self._rest))
        room[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _parsed(pieces: Iterator[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """CSV as PostgreSQL writes it, as batches of the schema."""
    import pyarrow as pa
    from pyarrow import csv

    first = next(pieces, b"")
    if not first:
        return

    def all_pieces() -> Iterator[bytes]:
        yield first
        yield from pieces

    # An instant comes as the time that it is in UTC.
    plain = {
        field.name: pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type
        for field in schema
    }
    try:
        reader = csv.open_csv(
            io.BufferedReader(_Stream(all_pieces()), _BLOCK),
            csv.ReadOptions(column_names=schema.names, use_threads=False, block_size=_BLOCK),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=plain,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
        for batch in reader:
            columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except pa.ArrowException:
        # Its words hold the value.
        raise NonFiniteValue(
            "A value of the source has no place in Spark's types: an infinite date or time, one"
            " before the year 1 or after 9999, or a number of more than 38 digits.",
            hint="Leave such rows out, `where`, or give the column in another type in a view.",
        ) from None


# -- files ----------------------------------------------------------------------------------------


def parquet(session: SparkSession, directory: str, job: Job) -> Pinned:
    """The Parquet files that a directory has now; files that come later are not read.

    Raises
    ------
    TableNotFound : there is no such directory, or no Parquet file in it.
    ColumnNotFound, UnsupportedType : it has not the columns of the job.
    InvalidParameter : two of its columns differ in case only.
    """
    from pyspark.errors import AnalysisException

    policy = job.reading.foreign_files
    files = list_files(session, directory, policy)
    if not files:
        raise TableNotFound(
            "There is no Parquet file in the directory that was to be read.",
            hint="Name a directory with files that end in .parquet, as Spark sees it.",
        )
    with translated("the source's files were looked at"):
        # Columns that stand in the names of directories are columns, too.
        try:
            frame = session.read.option("basePath", directory).parquet(*files)
        except AnalysisException as error:
            if error.getCondition() != "COLUMN_ALREADY_EXISTS":
                raise
            # Spark's own words name one of the two. A session that sees case names both.
            seeing = session.newSession()
            seeing.conf.set("spark.sql.caseSensitive", "true")
            names = seeing.read.option("basePath", directory).parquet(*files).columns
            check_names(names, ())
            raise

    def settled() -> None:
        now = list_files(session, directory, policy)
        if any(now.get(name) != known for name, known in files.items()):
            raise SourceChanged(
                "A file of the source was changed or removed while it was read.", hint="Try again."
            )

    return of_frame(frame, job, directory, settled)


def of_frame(
    frame: DataFrame, job: Job, name: str = "", settled: Callable[[], None] = lambda: None
) -> Pinned:
    """A DataFrame as it is: that it gives the same rows each time is the caller's word.

    Raises
    ------
    ColumnNotFound, UnsupportedType : it has not the columns of the job.
    """
    relation = DataFrameSource(frame).describe(job)
    if job.where is not None:
        raise InvalidParameter(
            "A condition needs a table in PostgreSQL.",
            hint="Filter the DataFrame, or the files, and leave out `where`.",
        )
    arrow_schema([relation.attribute(name) for name in job.read])
    return Pinned(
        name or NAME,
        frame,
        job.key,
        relation.schema.attributes,
        None,
        settled,
        frame.count,
    )


def list_files(
    session: SparkSession, directory: str, policy: str = REFUSE
) -> dict[str, tuple[int, int]]:
    """Bytes and time of the Parquet files below a directory, by name, in order.

    Files that are hidden, as those of writers at work, are none.

    Parameters
    ----------
    policy : what of other accounts' files and links is taken from this machine's disk.

    Raises
    ------
    ForeignFile : a file is another account's, or is reached by a link.
    """
    context: Any = session.sparkContext
    with translated("the source's files were listed"):
        path = context._jvm.org.apache.hadoop.fs.Path(directory)
        system = path.getFileSystem(context._jsc.hadoopConfiguration())
        if not system.exists(path):
            return {}
        root = system.getFileStatus(path).getPath().toString().rstrip("/")
        files = system.listFiles(path, True)
        found, local = {}, []
        while files.hasNext():
            status = files.next()
            name = status.getPath().toString()
            below = name.removeprefix(root).strip("/").split("/")
            # A directory `_name=value` is a column's, as Spark sees it.
            hidden = any(
                part.startswith(".") or (part.startswith("_") and "=" not in part) for part in below
            )
            if name.endswith(".parquet") and not hidden:
                found[name] = (int(status.getLen()), int(status.getModificationTime()))
                if str(status.getPath().toUri().getScheme()) == "file":
                    local.append(Path(str(status.getPath().toUri().getPath())))
        # Workers open them by name: who exchanges one after this look is found by the next.
        folder = Path(str(system.getFileStatus(path).getPath().toUri().getPath()))
        for place in local:
            with opened(place, folder, policy):
                pass
    return dict(sorted(found.items()))
