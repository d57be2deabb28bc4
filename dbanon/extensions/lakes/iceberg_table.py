"""Iceberg tables as export destinations: a release is one data file, which a commit makes visible.

The file is verified locally, then uploaded next to the table's data under a name that no snapshot
refers to, and committed by compare-and-swap: if another run commits at the same time, this commit
fails. Once a commit has begun, the file is only deleted if the commit is known to have failed.
Earlier snapshots stay readable until they expire.

If a catalog or an object store raises an error, only its class is reported: its text may contain
credentials.

Methods with ``keep_clients_open`` that overlap share one client of the catalog. The last of them to
end closes it.
"""

from __future__ import annotations

import errno
import re
import stat
import time
from contextlib import closing, suppress
from dataclasses import dataclass as mutable_dataclass
from dataclasses import field
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import fs, parquet

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, OutputExists
from dbanon.extensions.lakes import commits
from dbanon.extensions.lakes.catalog import ICEBERG, get_catalog, import_iceberg
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.exports.destinations import FileStatus, TableDestination
from dbanon.stores.exports.problems import unknown_outcome
from dbanon.stores.objects import ObjectStat, translate_client_errors
from dbanon.stores.scratch import ABANDONED_AFTER_SECONDS
from dbanon.stores.shared_clients import keep_clients_open

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import CreateTableTransaction, Table, Transaction

# Names of data files. The tag identifies the output and its database; the number is that of the
# export among those of the job.
_FILE_NAME = "dbanon-{tag}-{release}-{number}.parquet"
# Suffix of the marker next to a file that has not been published yet. Once published, a file has no
# marker, so it is not published again after its table was dropped or its snapshot expired.
_PENDING_SUFFIX = ".pending"
_PENDING_MARKER_PATTERN = re.compile(
    r"dbanon-([0-9a-f]{12})-([0-9a-f-]{36})-(\d+)\.parquet" + re.escape(_PENDING_SUFFIX)
)
# Catalogs use names as directories, and pyiceberg removes line breaks and everything after ``?`` or
# ``#`` from URLs.
_FORBIDDEN_IN_NAMES = re.compile(r"[./?#\x00-\x1f\x7f]")


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table.

    Parameters
    ----------
    catalog : name of a catalog in pyiceberg's configuration.
    identifier : namespace and name of the table.
    """

    catalog: str
    identifier: tuple[str, ...]

    def __str__(self) -> str:
        return f"{ICEBERG}{self.catalog}/{self.name}"

    @property
    def name(self) -> str:
        """The namespace and table, without the catalog."""
        return str(RelationName(*self.identifier))

    @property
    def parent(self) -> IcebergTable:
        """The table itself, for code and messages that use the directory of a file."""
        return self

    @keep_clients_open()
    def make_parent(self) -> None:
        """Create the namespace if it is missing, and check that the table's directory is known.

        Raises
        ------
        InvalidParameter : the catalog has no stable location for the table.
        OSError : the catalog fails.
        """
        with translate_client_errors():
            self._open_catalog().create_namespace_if_not_exists(self.identifier[:1])
        # Raises InvalidParameter if the location is not stable.
        self._data_directory(self._load_table())

    @keep_clients_open()
    def lstat(self) -> ObjectStat:
        """Return a status that changes with every commit; raises OSError, FileNotFoundError."""
        table = self._load_table()
        if table is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        # The location of the metadata, which each commit changes, stands for the inode.
        return ObjectStat(0, str(table.metadata_location), stat.S_IFREG)

    @keep_clients_open()
    def count_older_versions(self, planned_status: FileStatus) -> int:
        """Count, for the report, the snapshots that stay readable after the next commit.

        Parameters
        ----------
        planned_status : the table's status when the run was planned; None if it did not exist.

        Raises
        ------
        OutputBusy : another commit was made after the run was planned.
        OSError : the catalog fails.
        """
        try:
            status = self.lstat()
        except FileNotFoundError:
            status = None
        if status != planned_status:
            raise commits.commit_conflict(self)
        table = self._load_table()
        return 0 if table is None else len(table.metadata.snapshots)

    @keep_clients_open()
    def add_field_ids(self, schema: pa.Schema) -> pa.Schema:
        """Add the table's field ids to the schema of its file; raises OSError."""
        table = self._load_table()
        with translate_client_errors():
            return commits.add_field_ids(table, schema)

    @keep_clients_open()
    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the table's only data file; raises OSError unless there is exactly one."""
        assert mode == "rb"
        table = self._load_table()
        if table is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        return TableFile(self, self._only_file(table).file_path).open()

    @keep_clients_open()
    def staging_file(self, tag: str, release_id: str, export_number: int) -> TableFile:
        """Return a data file that is still to be written, and to which no snapshot refers.

        Raises OSError, InvalidParameter.

        Parameters
        ----------
        tag : identifies the output and its database; see ``destinations.tag_of``.
        export_number : the number of the export among those of the job.
        """
        name = _FILE_NAME.format(tag=tag, release=release_id, number=export_number)
        return TableFile(self, f"{self._data_directory(self._load_table())}/{name}")

    @keep_clients_open()
    def leftover_files(self, tag: str) -> list[tuple[TableFile, str, int]]:
        """List the unpublished files of an output, each with release id and number of the export.

        Parameters
        ----------
        tag : identifies the output and its database; see ``destinations.tag_of``.

        Raises
        ------
        InvalidParameter : the catalog has no stable location for the table.
        OSError : the catalog or the store fails.
        """
        table = self._load_table()
        directory = self._data_directory(table)
        io = self._file_access(table, directory)
        # Only Arrow's file reader can list files.
        if not hasattr(io, "fs_by_scheme"):
            return []
        with translate_client_errors():
            scheme, host, path = io.parse_location(directory)
            file_infos = io.fs_by_scheme(scheme, host).get_file_info(
                fs.FileSelector(path, allow_not_found=True)
            )
            published_files = commits.data_files(table)
        infos_by_name = {info.base_name: info for info in file_infos}
        leftovers = []
        for name, info in sorted(infos_by_name.items()):
            match = _PENDING_MARKER_PATTERN.fullmatch(name)
            if not match:
                continue
            file_tag, release_id, export_number = match.groups()
            if file_tag != tag:
                continue
            file = TableFile(self, f"{directory}/{name.removesuffix(_PENDING_SUFFIX)}")
            if file.location in published_files:
                # A run published the file, but could not delete the marker.
                file.try_delete_marker()
            elif file.name in infos_by_name:
                leftovers.append((file, release_id, int(export_number)))
            # A marker without a file: an upload that has just begun, or a crashed one.
            elif time.time() - info.mtime_ns / 1e9 > ABANDONED_AFTER_SECONDS:
                file.try_delete_marker()
        return leftovers

    @keep_clients_open()
    def commit(self, file: TableFile, *, replaceable_status: FileStatus) -> None:
        """Replace the table's rows by those of a file, unless the file was already published.

        Parameters
        ----------
        replaceable_status : the status of the table whose rows may be replaced; None if none may
            be.

        Raises
        ------
        OutputExists : the table exists and is not a release, or must not be replaced.
        OutputBusy : another commit came first; the file is kept.
        OutcomeUnknown : the catalog did not confirm the commit; the file is kept.
        OSError : the catalog or the store fails, and nothing was committed.
        """
        table = self._load_table()
        with translate_client_errors():
            is_published = file.location in commits.data_files(table)
        if is_published:
            # Another run has published this file; a later release may have replaced it.
            file.try_delete_marker()
            return
        if table is not None:
            if replaceable_status is None or not self._holds_release(table):
                raise OutputExists(f"The table {self} already exists, and must not be replaced.")
            # ``lstat`` stores the location of the table's metadata in this field.
            if str(table.metadata_location) != replaceable_status.st_ino:
                raise commits.commit_conflict(self)
        with translate_client_errors(), file.open() as stream:
            # Without the metadata of the release; those of columns, with their field ids, remain.
            schema = parquet.read_schema(stream).remove_metadata()
        with translate_client_errors():
            if table is None:
                # ``_data_directory`` has appended "/data" to the location of the table.
                table_location, _, _ = file.location.rpartition("/data/")
                transaction: Transaction = self._begin_creation(schema, table_location)
            else:
                transaction = commits.begin_replacement(table, schema)
            has_matching_ids = commits.has_matching_field_ids(transaction, schema)
        if not has_matching_ids:
            raise commits.commit_conflict(self)
        with translate_client_errors():
            io = self._file_access(table, file.location)
            previous_file = None if table is None else self._only_file(table)
            commits.replace_data_file(io, transaction, file.location, previous_file)
        self._commit_transaction(transaction, file)

    def _commit_transaction(self, transaction: Transaction, file: TableFile) -> None:
        """Commit a transaction; if that raises an error, find out whether it was committed."""
        exceptions = import_iceberg("exceptions")
        error: BaseException | None = None
        file.commit_pending = True
        try:
            transaction.commit_transaction()
            file.try_delete_marker()
        except BaseException as exception:
            # Avoid a reference cycle: the traceback refers to this frame.
            error = exception.with_traceback(None)
        if error is None:
            return
        is_published = commits.check_with_timeout(lambda: self._has_published(file))
        if is_published:
            # The error does not count any more. If it was an interrupt, this warns of it.
            commits.confirm_commit(self, error)
        # With these errors, the catalog says that another commit came first.
        elif isinstance(
            error, (exceptions.CommitFailedException, exceptions.TableAlreadyExistsError)
        ):
            file.commit_pending = False
            raise commits.commit_conflict(self)
        else:
            raise unknown_outcome(self, error)

    @keep_clients_open()
    def _has_published(self, file: TableFile) -> bool:
        """Return True if a snapshot refers to the file."""
        return file.location in commits.data_files(self._load_table())

    def _holds_release(self, table: Table) -> bool:
        """Return True if the table has a single file, and its metadata are those of a release."""
        try:
            with TableFile(self, self._only_file(table).file_path).open() as stream:
                return b"dbanon.release_id" in (parquet.read_metadata(stream).metadata or {})
        except (OSError, ValueError):
            return False

    def _only_file(self, table: Table) -> DataFile:
        """Return the data file of the current snapshot; raises OSError unless there is one."""
        with translate_client_errors():
            tasks = list(table.scan().plan_files())
        # A release has no delete files, which hide rows of the data file, and no partitions (whose
        # fields a table's specification lists).
        if len(tasks) != 1 or tasks[0].delete_files or table.spec().fields:
            raise OSError(errno.EIO, "the table does not have exactly one file, as a release has")
        return tasks[0].file

    def _load_table(self) -> Table | None:
        """Load the table from its catalog; None if it does not exist."""
        not_found = import_iceberg("exceptions").NoSuchTableError
        with translate_client_errors():
            try:
                return self._open_catalog().load_table(self.identifier)
            except not_found:
                return None

    def _data_directory(self, table: Table | None) -> str:
        """Return the directory of the table's data files, even before the table exists.

        Parameters
        ----------
        table : pyiceberg's table; None if it does not exist.
        """
        if table is None:
            location = commits.new_location(self, self.identifier[-1], self._begin_creation)
        else:
            location = table.metadata.location
        return f"{location.rstrip('/')}/data"

    def _begin_creation(
        self, schema: Schema | pa.Schema, location: str | None = None
    ) -> CreateTableTransaction:
        """Begin a transaction that creates the table."""
        catalog = self._open_catalog()
        return catalog.create_table_transaction(self.identifier, schema, location=location)

    def _file_access(self, table: Table | None, location: str) -> Any:
        """Return pyiceberg's ``FileIO`` object for a location; ``table`` is None if missing."""
        if table is not None:
            return table.io
        with translate_client_errors():
            return import_iceberg("io").load_file_io(self._open_catalog().properties, location)

    def _open_catalog(self) -> Catalog:
        return get_catalog(self.catalog)


def parse_iceberg_table(path: str) -> TableDestination:
    """Parse ``CATALOG/namespace.table``; raises InvalidParameter."""
    catalog, _, table = path.partition("/")
    name = parse_relation(table) if table.strip() else None
    if not catalog.isidentifier() or name is None or not name.schema:
        raise InvalidParameter(
            "An export to Iceberg must name a catalog, a namespace and a table.",
            hint="Write iceberg:CATALOG/namespace.table, with a catalog that .pyiceberg.yaml or"
            " PYICEBERG_CATALOG__NAME__URI configures.",
        )
    if any(_FORBIDDEN_IN_NAMES.search(part) for part in (name.schema, name.name)):
        raise InvalidParameter(
            "Namespace and table of an export to Iceberg must not contain dots, slashes,"
            " question marks, number signs or control characters, because catalogs use them as"
            " directory names."
        )
    return IcebergTable(catalog, (name.schema, name.name))


@mutable_dataclass(unsafe_hash=True)
class TableFile:
    """A data file of a table, identified by its URL.

    Parameters
    ----------
    table : the table that the file belongs to.
    location : the file's URL.
    commit_pending : whether a commit has begun and may have succeeded, so the file must be kept. It
        is unrelated to the pending marker, a second file that ``put`` writes.
    """

    table: IcebergTable
    location: str
    commit_pending: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name} in the data of {self.table}"

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.location.rpartition("/")[2]

    @property
    def parent(self) -> IcebergTable:
        """The table that the file belongs to."""
        return self.table

    @keep_clients_open()
    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading; raises OSError."""
        assert mode == "rb"
        with translate_client_errors():
            stream: BinaryIO = self._file_access().new_input(self.location).open()
        return stream

    @keep_clients_open()
    def put(self, file: BinaryIO, size: int) -> None:
        """Write the pending marker, then the file's bytes; raises OSError.

        Parameters
        ----------
        file : the local file to upload.
        size : the number of bytes of the local file.
        """
        io = self._file_access()
        file.seek(0)
        with translate_client_errors():
            io.new_output(f"{self.location}{_PENDING_SUFFIX}").create(overwrite=True).close()
            with closing(io.new_output(self.location).create()) as output:
                copyfileobj(file, output, 2**20)
            n_bytes = len(io.new_input(self.location))
        if n_bytes != size:
            raise OSError(errno.EIO, "the number of bytes uploaded differs from the file's")

    @keep_clients_open()
    def age(self, now: float) -> float:
        """Return the seconds since the file was written; raises OSError.

        Parameters
        ----------
        now : the current Unix time in seconds.
        """
        io = self._file_access()
        with translate_client_errors():
            scheme, host, path = io.parse_location(self.location)
            [info] = io.fs_by_scheme(scheme, host).get_file_info([path])
            return now - float(info.mtime_ns / 1e9)

    @keep_clients_open()
    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file, unless a snapshot refers to it or may do so; raises OSError."""
        if self.commit_pending:
            return
        iceberg_table = self.table._load_table()
        io = self.table._file_access(iceberg_table, self.location)
        with translate_client_errors():
            is_published = self.location in commits.data_files(iceberg_table)
        try:
            with translate_client_errors():
                if not is_published:
                    io.delete(self.location)
        except FileNotFoundError:
            if not missing_ok:
                raise
        self._delete_pending_marker(io)

    @keep_clients_open()
    def try_delete_marker(self) -> None:
        """Delete the pending marker; if that fails, the next run deletes it."""
        with suppress(OSError):
            self._delete_pending_marker(self._file_access())

    def _delete_pending_marker(self, io: FileIO) -> None:
        with suppress(OSError), translate_client_errors():
            io.delete(f"{self.location}{_PENDING_SUFFIX}")

    def _file_access(self) -> Any:
        return self.table._file_access(self.table._load_table(), self.location)
