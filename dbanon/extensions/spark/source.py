"""Read a source consistently on a cluster: a fixed list of files, or one database snapshot.

Workers read ranges of pages of a PostgreSQL table with COPY, in the snapshot that the driver's
transaction exports, so a repeated task reads the same rows. If the driver's connection is lost,
the workers fail, because the snapshot no longer exists. The rows of one range are called a piece.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from dbanon.data.files import REFUSE, open_regular_file
from dbanon.data.schema import Attribute
from dbanon.errors import (
    DatabaseFailure,
    InvalidParameter,
    NonFiniteValue,
    SourceChanged,
    TableNotFound,
)
from dbanon.extensions.spark.arrow import arrow_schema, spark_schema
from dbanon.extensions.spark.dataframe import FRAME_NAME, DataFrameSource
from dbanon.extensions.spark.disclosure import SourceFindings
from dbanon.extensions.spark.refusals import check_names
from dbanon.extensions.spark.session import JavaObject
from dbanon.extensions.spark.tasks import hide_values_in_errors, translate_spark_errors
from dbanon.job.job import Job
from dbanon.run.open import open_postgresql_store
from dbanon.run.plan import require_roles
from dbanon.sessions.base import Relation
from dbanon.stores.postgresql import pieces
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Bytes per block of the CSV parser; a row must fit in one block.
_CSV_BLOCK_BYTES = 1 << 23
_SNAPSHOT_ID = re.compile(r"[0-9A-Fa-f-]+")


@dataclass(frozen=True)
class PinnedSource:
    """A source whose rows cannot change while it is read.

    Parameters
    ----------
    name : the name in the report.
    frame : the rows, with the columns of the job and the key, and possibly others; each action of
        Spark reads the source again.
    key : columns that identify each row; empty if unknown.
    attributes : all columns of the source, with their types in the database or the files.
    relation : the table of a database; None for files.
    require_unchanged : raises SourceChanged if the source changed; called before publishing.
    count_rows : counts the rows in the database or the files, to compare with the rows read.
    findings : columns that look like identifiers; None to search the first rows of ``frame`` for
        them.
    is_rereadable : whether ``frame`` can be read again at little cost, and ``require_unchanged``
        tells if it gave other rows.
    """

    name: str
    frame: DataFrame
    key: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    relation: Relation | None
    require_unchanged: Callable[[], None]
    count_rows: Callable[[], int]
    findings: SourceFindings | None = None
    is_rereadable: bool = False


# -- PostgreSQL -----------------------------------------------------------------------------------


@contextmanager
def pin_postgresql(session: SparkSession, url: URL, job: Job, tasks: int) -> Iterator[PinnedSource]:
    """Read a PostgreSQL table in one snapshot, which lasts for the block.

    Parameters
    ----------
    url : the database's URL, with everything that workers need to connect from their machines.
    tasks : number of tasks that read the table; views, and tables with children, are read by one.

    Raises
    ------
    DbanonError : the table cannot be read; the class of the error says why.
    """
    store = open_postgresql_store(url)
    with store.session(write=False) as snapshot_session:
        source = SqlSource(snapshot_session)
        relation = source.describe(job)
        # Raises an error if a column has no role, unless the job allows that.
        require_roles(job, relation)
        # Also checks the right to read these columns, and applies the job's condition.
        relation = source.with_row_locator(relation, job, job.columns_to_read)
        key = job.key or pieces.row_key_columns(relation)
        findings = SourceFindings.of(source, relation, job)
        column_names = {*job.columns_to_read, *key, *findings.person_identifiers}
        # The table's column order is also that of the release.
        read_attributes = [a for a in relation.schema.attributes if a.name in column_names]
        # Determines what a type leaves open, such as the scale of a numeric column.
        attributes = source.complete_attributes_from_values(relation, read_attributes)
        [(snapshot,)] = snapshot_session.rows("SELECT pg_catalog.pg_export_snapshot()")
        schema = arrow_schema(attributes)
        queries = pieces.range_queries(snapshot_session, relation, attributes, tasks)
        worker_url = url.render_as_string(hide_password=False)
        reader = _make_query_reader(worker_url, str(snapshot), queries, schema)
        with translate_spark_errors("preparing to read a table"):
            frame = session.range(0, len(queries), 1, len(queries)).mapInArrow(
                reader, spark_schema(schema)
            )

        def require_unchanged() -> None:
            # Fails if this connection is lost. The snapshot exists only as long as the connection.
            snapshot_session.rows("SELECT 1")

        relation = relation.with_attributes(attributes)
        yield PinnedSource(
            str(relation.name),
            frame,
            tuple(key),
            relation.schema.attributes,
            relation,
            require_unchanged,
            count_rows=lambda: source.count(relation),
            findings=findings,
        )


def _make_query_reader(
    url: str, snapshot: str, queries: Sequence[str], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a worker function that runs the queries whose indices it gets as rows."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for query_index in batch.column(0).to_pylist():
                with hide_values_in_errors(f"Piece {query_index} of the source"):
                    yield from read_piece(url, snapshot, queries[query_index], schema)

    return read


def read_piece(url: str, snapshot: str, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query in an exported snapshot.

    Raises
    ------
    SourceChanged : the snapshot no longer exists, because the driver's connection was closed.
    NonFiniteValue : Arrow cannot represent a value, such as an infinite date.
    """
    from sqlalchemy import make_url

    if not _SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidParameter("There is no snapshot of this name.")
    store = open_postgresql_store(make_url(url))
    with store.session(write=False) as session:
        try:
            session.run(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        except DatabaseFailure as error:
            raise SourceChanged(
                "The snapshot in which the source is read no longer exists; nothing was published.",
                detail=error.detail,
                hint="The driver's connection to the database was lost. Try again.",
            ) from None
        yield from _parse_csv(session.connection.copy_out(query), schema)


class _ChunkStream(io.RawIOBase):
    """A file-like object over chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._buffer = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._buffer:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._buffer = memoryview(chunk)
        n = min(len(target), len(self._buffer))
        target[:n] = self._buffer[:n]
        self._buffer = self._buffer[n:]
        return n


def _parse_csv(chunks: Iterator[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Parse PostgreSQL's CSV into batches of the schema."""
    import pyarrow as pa
    from pyarrow import csv

    first_chunk = next(chunks, b"")
    if not first_chunk:
        return

    def all_chunks() -> Iterator[bytes]:
        yield first_chunk
        yield from chunks

    # Instants arrive as UTC times without zone.
    column_types = {
        field.name: pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type
        for field in schema
    }
    try:
        reader = csv.open_csv(
            io.BufferedReader(_ChunkStream(all_chunks()), _CSV_BLOCK_BYTES),
            csv.ReadOptions(
                column_names=schema.names, use_threads=False, block_size=_CSV_BLOCK_BYTES
            ),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=column_types,
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
        # Arrow's message quotes the value.
        raise NonFiniteValue(
            "A value of the source does not fit Spark's types: an infinite date or time, one"
            " before the year 1 or after 9999, or a number of more than 38 digits.",
            hint="Leave out such rows with `where`, or cast the column to another type in a view.",
        ) from None


# -- files ----------------------------------------------------------------------------------------


def pin_parquet(session: SparkSession, directory: str, job: Job) -> PinnedSource:
    """Read the Parquet files that a directory contains now, without files added later.

    Raises
    ------
    TableNotFound : the directory does not exist or has no Parquet file.
    ColumnNotFound, UnsupportedType : the files lack a column of the job, or it has an unsupported
        type.
    InvalidParameter : two columns of the files differ only in case.
    """
    from pyspark.errors import AnalysisException

    foreign_files = job.reading.foreign_files
    files = list_files(session, directory, foreign_files)
    if not files:
        raise TableNotFound(
            "There is no Parquet file in the source directory.",
            hint="Name a directory with files that end in .parquet, as Spark sees it.",
        )
    with translate_spark_errors("examining the source's files"):
        # Directory names of the form column=value are columns too.
        try:
            frame = session.read.option("basePath", directory).parquet(*files)
        except AnalysisException as error:
            if error.getCondition() != "COLUMN_ALREADY_EXISTS":
                raise
            # Spark's message names only one of the columns; a case-sensitive session has both.
            case_session = session.newSession()
            case_session.conf.set("spark.sql.caseSensitive", "true")
            names = case_session.read.option("basePath", directory).parquet(*files).columns
            # Raises InvalidParameter, which names both columns.
            check_names(names, ())
            raise

    def require_unchanged() -> None:
        current_files = list_files(session, directory, foreign_files)
        if any(current_files.get(name) != file_state for name, file_state in files.items()):
            raise SourceChanged(
                "A file of the source was changed or removed while it was read.",
                hint="Run it again once no program is writing to these files.",
            )

    return replace(
        pin_frame(frame, job),
        name=directory,
        require_unchanged=require_unchanged,
        is_rereadable=True,
    )


def pin_frame(frame: DataFrame, job: Job) -> PinnedSource:
    """Use a DataFrame as the source; the caller guarantees that its rows never change.

    Raises
    ------
    ColumnNotFound, UnsupportedType : the DataFrame lacks a column of the job, or it has an
        unsupported type.
    """
    relation = DataFrameSource(frame).describe(job)
    if job.where is not None:
        raise InvalidParameter(
            "A condition needs a table in PostgreSQL.",
            hint="Filter the DataFrame, or the files, and leave out `where`.",
        )
    # Raises UnsupportedType.
    arrow_schema([relation.attribute(name) for name in job.columns_to_read])
    return PinnedSource(
        FRAME_NAME,
        frame,
        job.key,
        relation.schema.attributes,
        relation=None,
        require_unchanged=lambda: None,
        count_rows=frame.count,
    )


def list_files(
    session: SparkSession, directory: str, foreign_files: str = REFUSE
) -> dict[str, tuple[int, int]]:
    """Return size and modification time of the Parquet files below a directory, by sorted name.

    Hidden files, such as those of running writers, are skipped.

    Parameters
    ----------
    foreign_files : how to treat links, and files of other accounts, on this machine's disk: a value
        of the option ``foreign_files``.

    Raises
    ------
    ForeignFile : a file belongs to another account, or is reached by a link.
    """
    context: JavaObject = session.sparkContext
    with translate_spark_errors("listing the source's files"):
        path = context._jvm.org.apache.hadoop.fs.Path(directory)
        file_system = path.getFileSystem(context._jsc.hadoopConfiguration())
        if not file_system.exists(path):
            return {}
        root = file_system.getFileStatus(path).getPath().toString().rstrip("/")
        file_iterator = file_system.listFiles(path, True)
        file_states, local_files = {}, []
        while file_iterator.hasNext():
            status = file_iterator.next()
            name = status.getPath().toString()
            path_parts = name.removeprefix(root).strip("/").split("/")
            # Spark treats a directory `_name=value` as a column.
            is_hidden = any(
                part.startswith(".") or (part.startswith("_") and "=" not in part)
                for part in path_parts
            )
            if name.endswith(".parquet") and not is_hidden:
                file_states[name] = (int(status.getLen()), int(status.getModificationTime()))
                if str(status.getPath().toUri().getScheme()) == "file":
                    local_files.append(Path(str(status.getPath().toUri().getPath())))
        # Only check access: workers open files by name, and later changes are detected.
        local_root = Path(str(file_system.getFileStatus(path).getPath().toUri().getPath()))
        for local_file in local_files:
            with open_regular_file(local_file, local_root, foreign_files):
                pass
    return dict(sorted(file_states.items()))
