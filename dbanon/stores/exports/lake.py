"""Tables of Iceberg as places of exports: one data file, which a commit shows to readers.

The file is counted on this machine, uploaded among the table's data under a name that no snapshot
has, and committed by compare and swap: the commit of another ends this one. From the moment that
the commit begins until it is known to have failed, nobody takes the file away. Snapshots before it
stay readable until they are expired.

Of what a catalog or a store answers with, the class alone is told: it may hold credentials.
"""

from __future__ import annotations

import errno
import re
import stat
import time
from contextlib import closing, suppress
from dataclasses import dataclass as mutable
from dataclasses import field
from shutil import copyfileobj
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs, parquet

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, OutputExists
from dbanon.job.export import ICEBERG
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.exports import lake_commit
from dbanon.stores.lake_catalog import catalog_named, open_catalogs
from dbanon.stores.objects import ObjectStat, iceberg_module, reached
from dbanon.stores.scratch import OLD

_FILE = "dbanon-{tag}-{release}-{place}.parquet"
# Beside a file that was not shown yet: one whose table was dropped, or whose snapshot has expired,
# has none, and is never shown again.
_PENDING = ".pending"
_OURS = re.compile(r"dbanon-([0-9a-f]{12})-([0-9a-f-]{36})-(\d+)\.parquet" + re.escape(_PENDING))
# Catalogs make directories of names; of a URL, pyiceberg cuts off what follows the last two, and
# leaves out ends of lines.
_NOT_IN_NAMES = re.compile(r"[./?#\x00-\x1f\x7f]")


@dataclass(frozen=True)
class TablePlace:
    """A table of a catalog that pyiceberg's own settings describe.

    Parameters
    ----------
    identifier : namespace and name.
    """

    catalog: str
    identifier: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> TablePlace:
        """The table that ``iceberg:CATALOG/namespace.table`` names; raises InvalidParameter."""
        catalog, _, table = path.removeprefix(ICEBERG).partition("/")
        name = parse_relation(table) if table.strip() else None
        if not catalog.isidentifier() or name is None or not name.schema:
            raise InvalidParameter(
                "An export to Iceberg must name a catalog, a namespace and a table.",
                hint="Write iceberg:CATALOG/namespace.table, the catalog as .pyiceberg.yaml or"
                " PYICEBERG_CATALOG__NAME__URI has it.",
            )
        if any(_NOT_IN_NAMES.search(part) for part in (name.schema, name.name)):
            raise InvalidParameter(
                "Namespace and table of an export to Iceberg have no dots, slashes, question marks,"
                " number signs or control characters in them: catalogs make directories of them."
            )
        return cls(catalog, (name.schema, name.name))

    def __str__(self) -> str:
        return f"{ICEBERG}{self.catalog}/{self.name}"

    @property
    def name(self) -> str:
        """The table, without its catalog."""
        return str(RelationName(*self.identifier))

    @property
    def parent(self) -> TablePlace:
        """Where its files are said to be: with it."""
        return self

    @open_catalogs()
    def make_above(self) -> None:
        """Make the namespace where there is none, and see where the table's files go.

        Raises
        ------
        InvalidParameter : the catalog has no place for them that is the same each time.
        OSError : the catalog fails.
        """
        with reached():
            self._open_catalog().create_namespace_if_not_exists(self.identifier[:1])
        self._data(self._table())

    @open_catalogs()
    def lstat(self) -> ObjectStat:
        """Its state, which each commit changes; raises OSError, FileNotFoundError without one."""
        found = self._table()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        return ObjectStat(0, str(found.metadata_location), stat.S_IFREG)

    @open_catalogs()
    def older(self) -> int:
        """Snapshots that stay readable beside the next one; raises OSError."""
        found = self._table()
        return 0 if found is None else len(found.metadata.snapshots)

    @open_catalogs()
    def open(self, mode: str = "rb") -> BinaryIO:
        """The bytes of its one data file; raises OSError where it has not precisely one."""
        assert mode == "rb"
        found = self._table()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        return TableFile(self, self._only_file(found).file_path).open()

    @open_catalogs()
    def staged(self, tag: str, release_id: str, number: int) -> TableFile:
        """A file among its data that no snapshot has; raises OSError, InvalidParameter."""
        name = _FILE.format(tag=tag, release=release_id, place=number)
        return TableFile(self, f"{self._data(self._table())}/{name}")

    @open_catalogs()
    def left(self, tag: str) -> list[tuple[TableFile, str, int]]:
        """Files of one output that were never shown, with release and number.

        Raises
        ------
        InvalidParameter : the catalog has no place for them that is the same each time.
        OSError : the catalog or the store fails.
        """
        found = self._table()
        folder = self._data(found)
        io = self._io(found, folder)
        # Another reader of files than Arrow's cannot list them.
        if not hasattr(io, "fs_by_scheme"):
            return []
        with reached():
            scheme, host, path = io.parse_location(folder)
            listed = io.fs_by_scheme(scheme, host).get_file_info(
                fs.FileSelector(path, allow_not_found=True)
            )
            shown = lake_commit.data_files(found)
        there, never_shown = {one.base_name: one for one in listed}, []
        for name, mark in sorted(there.items()):
            ours = _OURS.fullmatch(name)
            if not ours or ours[1] != tag:
                continue
            file = TableFile(self, f"{folder}/{name.removesuffix(_PENDING)}")
            if file.location in shown:
                file.say_shown()
            elif file.name in there:
                never_shown.append((file, ours[2], int(ours[3])))
            elif time.time() - mark.mtime_ns / 1e9 > OLD:
                file.say_shown()
        return never_shown

    @open_catalogs()
    def commit(self, file: TableFile, *, over: Any) -> None:
        """Show a file's rows, and none else, from the next moment on, unless they were already.

        Parameters
        ----------
        over : the table's state that may be replaced; None where nothing may.

        Raises
        ------
        OutputExists : the table is there, and not of a release or not to be replaced.
        OutputBusy : another commit came first; the file is there still.
        OutcomeUnknown : nobody said whether it was committed; the file is there still.
        OSError : the catalog or the store fails, and nothing was committed.
        """
        found = self._table()
        with reached():
            shown = file.location in lake_commit.data_files(found)
        if shown:
            # Another run settled it. A later one may have followed: that stays.
            file.say_shown()
            return
        if found is not None:
            if over is None or not self._is_release(found):
                raise OutputExists(f"The table {self} exists already, and is not to be replaced.")
            if str(found.metadata_location) != over.st_ino:
                raise lake_commit.busy(self)
        with reached(), file.open() as opened:
            schema = parquet.read_schema(opened).remove_metadata()
        with reached():
            if found is None:
                change = self._begin(schema, file.location.rpartition("/data/")[0])
            else:
                change = lake_commit.replacement(found, schema)
            fits = lake_commit.fits(change, schema)
        if not fits:
            raise lake_commit.busy(self)
        with reached():
            io = self._io(found, file.location)
            before = None if found is None else self._only_file(found)
            lake_commit.append(io, change, file.location, before)
        self._send(change, file)

    def _send(self, change: Any, file: TableFile) -> None:
        """Commit; where that does not end well, look what became of it."""
        failed = iceberg_module("exceptions")
        error: BaseException | None = None
        file.unsure = True
        try:
            change.commit_transaction()
            file.say_shown()
        except BaseException as raised:
            error = raised.with_traceback(None)  # Which would hold this frame, and so the error.
        if error is None:
            return
        shown = lake_commit.looked(lambda: self._shows(file))
        if shown:
            lake_commit.confirm(self, error)
        elif isinstance(error, (failed.CommitFailedException, failed.TableAlreadyExistsError)):
            file.unsure = False
            raise lake_commit.busy(self)
        else:
            raise lake_commit.unknown(self, error)

    @open_catalogs()
    def _shows(self, file: TableFile) -> bool:
        return file.location in lake_commit.data_files(self._table())

    def _is_release(self, found: Any) -> bool:
        """True where its one file says of itself that it is a release's."""
        try:
            with TableFile(self, self._only_file(found).file_path).open() as opened:
                return b"dbanon.release_id" in (parquet.read_metadata(opened).metadata or {})
        except (OSError, ValueError):
            return False

    def _only_file(self, found: Any) -> Any:
        with reached():
            tasks = list(found.scan().plan_files())
        if len(tasks) != 1 or tasks[0].delete_files or found.spec().fields:
            raise OSError(errno.EIO, "the table has not the one file of a release")
        return tasks[0].file

    def _table(self) -> Any:
        missing = iceberg_module("exceptions").NoSuchTableError
        with reached():
            try:
                return self._open_catalog().load_table(self.identifier)
            except missing:
                return None

    def _data(self, found: Any) -> str:
        """The directory of its files, also of a table that is not there yet."""
        if found is None:
            location = lake_commit.new_location(self, self.identifier[-1], self._begin)
        else:
            location = found.metadata.location
        return f"{location.rstrip('/')}/data"

    def _begin(self, schema: Any, location: str | None = None) -> Any:
        """A transaction that makes the table."""
        begin = self._open_catalog().create_table_transaction
        return begin(self.identifier, schema, location=location)

    def _io(self, found: Any, location: str) -> Any:
        """What reads and writes files there."""
        if found is not None:
            return found.io
        with reached():
            return iceberg_module("io").load_file_io(self._open_catalog().properties, location)

    def _open_catalog(self) -> Any:
        return catalog_named(self.catalog)


@mutable(unsafe_hash=True)
class TableFile:
    """A file among a table's data, by its URL.

    Parameters
    ----------
    unsure : its commit has begun, and is not known to have failed: then it is not taken away.
    """

    table: TablePlace
    location: str
    unsure: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name} among the data of {self.table}"

    @property
    def name(self) -> str:
        """The last part."""
        return self.location.rpartition("/")[2]

    @property
    def parent(self) -> TablePlace:
        """The table that it is for."""
        return self.table

    @open_catalogs()
    def open(self, mode: str = "rb") -> BinaryIO:
        """Its bytes, to be read; raises OSError."""
        assert mode == "rb"
        with reached():
            opened: BinaryIO = self._io().new_input(self.location).open()
        return opened

    @open_catalogs()
    def put(self, file: BinaryIO, size: int) -> None:
        """Write a file's bytes there, and before them that it was not shown yet; raises OSError."""
        io = self._io()
        file.seek(0)
        with reached():
            io.new_output(f"{self.location}{_PENDING}").create(overwrite=True).close()
            with closing(io.new_output(self.location).create()) as made:
                copyfileobj(file, made, 2**20)
            written = len(io.new_input(self.location))
        if written != size:
            raise OSError(errno.EIO, "the table's store holds another number of bytes")

    @open_catalogs()
    def age(self, now: float) -> float:
        """Seconds since it was written; raises OSError."""
        io = self._io()
        with reached():
            scheme, host, path = io.parse_location(self.location)
            [found] = io.fs_by_scheme(scheme, host).get_file_info([path])
            return now - float(found.mtime_ns / 1e9)

    @open_catalogs()
    def unlink(self, missing_ok: bool = False) -> None:
        """Take it away, unless a snapshot has it or may have it; raises OSError."""
        if self.unsure:
            return
        found = self.table._table()
        io = self.table._io(found, self.location)
        with reached():
            shown = self.location in lake_commit.data_files(found)
        try:
            with reached():
                if not shown:
                    io.delete(self.location)
        except FileNotFoundError:
            if not missing_ok:
                raise
        self._drop_mark(io)

    @open_catalogs()
    def say_shown(self) -> None:
        """Take away what says that it was not shown yet; what cannot be, the next run does."""
        with suppress(OSError):
            self._drop_mark(self._io())

    def _drop_mark(self, io: Any) -> None:
        with suppress(OSError), reached():
            io.delete(f"{self.location}{_PENDING}")

    def _io(self) -> Any:
        return self.table._io(self.table._table(), self.location)


@open_catalogs()
def beside(place: object, found: object) -> dict[str, int]:
    """What is told of a table: how many snapshots stay readable beside the next one.

    Parameters
    ----------
    found : what it was when it was looked at; None where it was not there.

    Raises
    ------
    OutputBusy : somebody committed to it since then.
    OSError : the catalog fails.
    """
    if not isinstance(place, TablePlace):
        return {}
    try:
        now: object = place.lstat()
    except FileNotFoundError:
        now = None
    if now != found:
        raise lake_commit.busy(place)
    return {"older_versions": place.older()}


@open_catalogs()
def numbered(place: object, schema: pa.Schema) -> pa.Schema:
    """The columns of a file with the numbers that a table has them by; raises OSError."""
    if not isinstance(place, TablePlace):
        return schema
    found = place._table()
    with reached():
        return lake_commit.numbered(found, schema)
