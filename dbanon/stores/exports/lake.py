"""Tables of Iceberg as places of exports: one data file, which a commit shows to readers.

The file is counted on this machine, uploaded among the table's data under a name that no snapshot
has, and committed by compare and swap: the commit of another ends this one. Snapshots before it
stay readable until they are expired.

Of what a catalog or a store answers with, the class alone is told: it may hold credentials.
"""

from __future__ import annotations

import errno
import re
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from shutil import copyfileobj
from typing import Any, BinaryIO

from pyarrow import fs, parquet

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, OutputBusy, OutputExists
from dbanon.job.export import ICEBERG
from dbanon.sessions.names import parse_relation
from dbanon.stores.objects import ObjectStat, iceberg_module, reached
from dbanon.stores.scratch import OLD

_FILE = "dbanon-{tag}-{release}-{place}.parquet"
# Beside a file that was not shown yet: one whose table was dropped, or whose snapshot has expired,
# has none, and is never shown again.
_PENDING = ".pending"
_OURS = re.compile(r"dbanon-([0-9a-f]{12})-([0-9a-f-]{36})-(\d+)\.parquet" + re.escape(_PENDING))
_MAPPING = "schema.name-mapping.default"
_RETRIES = "commit.retry.num-retries"


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
        if any("/" in part or "." in part for part in (name.schema, name.name)):
            raise InvalidParameter(
                "Namespace and table of an export to Iceberg have no dots or slashes in them:"
                " catalogs make directories of them."
            )
        return cls(catalog, (name.schema, name.name))

    def __str__(self) -> str:
        return f"{ICEBERG}{self.catalog}/{'.'.join(self.identifier)}"

    @property
    def name(self) -> str:
        """The table, without its catalog."""
        return ".".join(self.identifier)

    @property
    def parent(self) -> TablePlace:
        """Where its files are said to be: with it."""
        return self

    def make_above(self) -> None:
        """Make the namespace where there is none; raises OSError."""
        with reached():
            self._open_catalog().create_namespace_if_not_exists(self.identifier[:1])

    def lstat(self) -> ObjectStat:
        """Its state, which each commit changes; raises OSError, FileNotFoundError without one."""
        found = self._table()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        return ObjectStat(0, str(found.metadata_location), stat.S_IFREG)

    def older(self) -> int:
        """Snapshots that stay readable beside the next one; raises OSError."""
        found = self._table()
        return 0 if found is None else len(found.metadata.snapshots)

    def open(self, mode: str = "rb") -> BinaryIO:
        """The bytes of its one data file; raises OSError where it has not precisely one."""
        assert mode == "rb"
        found = self._table()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such table")
        return TableFile(self, self._only_file(found).file_path).open()

    def staged(self, tag: str, release_id: str, number: int) -> TableFile:
        """A file among its data that no snapshot has; raises OSError."""
        name = _FILE.format(tag=tag, release=release_id, place=number)
        return TableFile(self, f"{self._data()}/{name}")

    def left(self, tag: str) -> Iterator[tuple[TableFile, str, int]]:
        """Files of one output that were never shown, with release and number; raises OSError."""
        io, folder = self._io(), self._data()
        # Another reader of files than Arrow's cannot list them.
        if not hasattr(io, "fs_by_scheme"):
            return
        with reached():
            scheme, host, path = io.parse_location(folder)
            listed = io.fs_by_scheme(scheme, host).get_file_info(
                fs.FileSelector(path, allow_not_found=True)
            )
            found = self._table()
            shown = set() if found is None else _data_files(found)
        there = {one.base_name: one for one in listed}
        for name, mark in sorted(there.items()):
            ours = _OURS.fullmatch(name)
            if not ours or ours[1] != tag:
                continue
            file = TableFile(self, f"{folder}/{name.removesuffix(_PENDING)}")
            if file.location in shown:
                file.say_shown()
            elif file.name in there:
                yield file, ours[2], int(ours[3])
            elif time.time() - mark.mtime_ns / 1e9 > OLD:
                file.say_shown()

    def commit(self, file: TableFile, *, replace: bool) -> None:
        """Show a file's rows, and none else, from the next moment on.

        Raises
        ------
        OutputExists : the table is there, and not of a release or not to be replaced.
        OutputBusy : another commit came first; the file is there still.
        OSError : the catalog or the store fails.
        """
        failed = iceberg_module("exceptions")
        found = self._table()
        if found is not None and not (replace and self._is_release(found)):
            raise OutputExists(f"The table {self} exists already, and is not to be replaced.")
        with reached(), file.open() as opened:
            schema = parquet.read_schema(opened).remove_metadata()
        with reached():
            if found is None:
                change = self._open_catalog().create_table_transaction(self.identifier, schema)
            else:
                # A try again would be on top of what another committed meanwhile.
                kept = {**found.metadata.properties, _RETRIES: "0"}
                found.metadata = found.metadata.model_copy(update={"properties": kept})
                change = found.transaction()
                _fit(change, schema)
            # Files of releases have names and no numbers of columns. It follows later schemas.
            if change.table_metadata.name_mapping() is None:
                mapping = change.table_metadata.schema().name_mapping.model_dump_json()
                change.set_properties(**{_MAPPING: mapping})
            convert = iceberg_module("io.pyarrow").parquet_files_to_data_files
            snapshot = change.update_snapshot()
            with snapshot.fast_append() if found is None else snapshot.overwrite() as made:
                if found is not None:
                    made.delete_data_file(self._only_file(found))
                for one in convert(self._io(), change.table_metadata, iter([file.location])):
                    made.append_data_file(one)
            came_first = False
            try:
                change.commit_transaction()
            except (failed.CommitFailedException, failed.TableAlreadyExistsError):
                came_first = True
        if came_first:
            raise busy(self)
        file.say_shown()

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

    def _data(self) -> str:
        """The directory of its files, also of a table that is not there yet."""
        found = self._table()
        with reached():
            if found is None:
                empty = iceberg_module("schema").Schema()
                begun = self._open_catalog().create_table_transaction(self.identifier, empty)
                metadata = begun.table_metadata
            else:
                metadata = found.metadata
            return f"{metadata.location.rstrip('/')}/data"

    def _io(self) -> Any:
        """What reads and writes files there."""
        found = self._table()
        if found is not None:
            return found.io
        folder = self._data()
        with reached():
            return iceberg_module("io").load_file_io(self._open_catalog().properties, folder)

    def _open_catalog(self) -> Any:
        return _catalog(self.catalog)


@dataclass(frozen=True)
class TableFile:
    """A file among a table's data, by its URL."""

    table: TablePlace
    location: str

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

    def open(self, mode: str = "rb") -> BinaryIO:
        """Its bytes, to be read; raises OSError."""
        assert mode == "rb"
        with reached():
            opened: BinaryIO = self.table._io().new_input(self.location).open()
        return opened

    def put(self, file: BinaryIO, size: int) -> None:
        """Write a file's bytes there, and before them that it was not shown yet; raises OSError."""
        io = self.table._io()
        file.seek(0)
        with reached():
            io.new_output(f"{self.location}{_PENDING}").create(overwrite=True).close()
            with closing(io.new_output(self.location).create()) as made:
                copyfileobj(file, made, 2**20)
            written = len(io.new_input(self.location))
        if written != size:
            raise OSError(errno.EIO, "the table's store holds another number of bytes")

    def age(self, now: float) -> float:
        """Seconds since it was written; raises OSError."""
        io = self.table._io()
        with reached():
            scheme, host, path = io.parse_location(self.location)
            [found] = io.fs_by_scheme(scheme, host).get_file_info([path])
            return now - float(found.mtime_ns / 1e9)

    def unlink(self, missing_ok: bool = False) -> None:
        """Take it away; raises OSError."""
        try:
            with reached():
                self.table._io().delete(self.location)
        except FileNotFoundError:
            if not missing_ok:
                raise
        self.say_shown()

    def say_shown(self) -> None:
        """Take away what says that it was not shown yet; what cannot be, the next run does."""
        with suppress(OSError), reached():
            self.table._io().delete(f"{self.location}{_PENDING}")


@cache
def _catalog(name: str) -> Any:
    return iceberg_module("catalog").load_catalog(name)


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
        raise busy(place)
    return {"older_versions": place.older()}


def busy(place: TablePlace) -> OutputBusy:
    """The error of a table that another committed to meanwhile."""
    return OutputBusy(
        f"Another commit to {place} came first: this release was not committed there.",
        hint="Run the job again, once nothing else writes to the table.",
    )


def _data_files(found: Any) -> set[str]:
    """All files that a snapshot has: those stay."""
    return {
        entry.data_file.file_path
        for snapshot in found.metadata.snapshots
        for manifest in snapshot.manifests(found.io)
        for entry in manifest.fetch_manifest_entry(found.io, discard_deleted=False)
    }


def _fit(change: Any, schema: Any) -> None:
    """Give a table the columns of a release, and no others."""
    names = iceberg_module("table.name_mapping")
    mapping = names.NameMapping(
        [names.MappedField(field_id=i, names=[name]) for i, name in enumerate(schema.names, 1)]
    )
    converted = iceberg_module("io.pyarrow").pyarrow_to_schema(schema, mapping)
    wanted = {one.name: one.field_type for one in converted.fields}
    there = {one.name: one.field_type for one in change.table_metadata.schema().fields}
    if wanted == there:
        return
    with change.update_schema(allow_incompatible_changes=True) as update:
        for name, kind in there.items():
            if wanted.get(name) != kind:
                update.delete_column((name,))
    with change.update_schema() as update:
        for name, kind in wanted.items():
            if there.get(name) != kind:
                update.add_column((name,), kind)
