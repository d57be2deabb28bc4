"""Delta and Iceberg tables as origins of rows; a run reads a single, immutable version.

An *origin* is what a run streams rows from; ``dbanon.stores.origins`` has the protocol ``Origin``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dbanon.data.files import REFUSE, open_regular_file
from dbanon.errors import DatabaseNotFound, InvalidParameter, MissingDependency, TableNotFound
from dbanon.extensions.lakes.catalog import ICEBERG, get_catalog, import_iceberg
from dbanon.sessions.names import parse_relation
from dbanon.stores.objects import ObjectPath
from dbanon.stores.origins import (
    RowStream,
    empty_batch,
    require_columns,
    select_columns,
    translate_failures,
)
from dbanon.stores.schemes import is_object
from dbanon.stores.shared_clients import keep_clients_open

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The scheme of URLs of Delta tables.
DELTA = "delta:"


class DeltaOrigin:
    """A Delta table in a directory or an object store.

    Parameters
    ----------
    location : the path of the directory, or the URL of the table in an object store.
    foreign_files : whether files of other accounts and links are read: ``refuse``, ``allow`` or
        ``links`` (see ``data.files``). Not used for a table in an object store.
    """

    def __init__(self, location: str, foreign_files: str = REFUSE) -> None:
        # None for a table in an object store.
        self._folder: Path | None = None
        self._foreign_files = foreign_files
        if is_object(location):
            self._location = str(ObjectPath.parse(location))
            return
        folder = Path(location).expanduser()
        if not (folder / "_delta_log").is_dir():
            raise DatabaseNotFound(
                f"There is no Delta table at {folder}.",
                hint="Write delta: and the path of the directory that has _delta_log.",
            )
        self._folder, self._location = folder, str(folder)

    @property
    def url(self) -> str:
        """The scheme and the path of the table."""
        return f"{DELTA}{self._location}"

    @contextmanager
    def open_stream(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns of the newest version.

        Raises the same errors as ``Origin.open_stream``.
        """
        with translate_failures("The Delta table cannot be read."):
            delta_table = _import_delta().DeltaTable(self._location)
            self._require_own_files(delta_table)
            # deltalake refuses features that it does not support, such as deletion vectors.
            dataset = delta_table.to_pyarrow_dataset()
            n_rows = int(dataset.count_rows())
        columns = tuple(dataset.schema.names)
        require_columns(names, columns)
        # Read ahead one batch only, to limit memory.
        scan = dataset.scanner(columns=list(names), batch_size=chunk_rows, batch_readahead=1)
        # An empty batch first, so that the columns are known even if the table has no rows.
        batches = select_columns(
            chain([empty_batch(scan.projected_schema)], scan.to_batches()), names
        )
        # For the report: why all rows are from one state of the table.
        consistency = f"version {delta_table.version()} of the table"

        def recount() -> int:
            # The scan opened files by name, so check again that none has been replaced.
            self._require_own_files(delta_table)
            return int(dataset.count_rows())

        yield RowStream(columns, batches, consistency, n_rows=n_rows, recount=recount)

    def _require_own_files(self, table: DeltaTable) -> None:
        """Check that the files in the table's log are the table's own.

        An account that can write the log could otherwise make a run read any file. Files in an
        object store are not checked: they have no owner on this machine.

        Raises
        ------
        ForeignFile : a file is outside the table's folder, belongs to another account, or is a
            link, and ``foreign_files`` does not allow it.
        """
        for uri in table.file_uris() if self._folder is not None else ():
            path = Path(uri.removeprefix("file://"))
            # The log may percent-encode folder names.
            path = path if path.exists() else Path(unquote(str(path)))
            # Opening the file checks it.
            with open_regular_file(
                path, Path(os.path.abspath(self._location)), self._foreign_files
            ):
                pass


class IcebergOrigin:
    """An Iceberg catalog from the settings of pyiceberg; a run reads one of its tables."""

    def __init__(self, catalog: str) -> None:
        if not catalog.isidentifier():
            raise InvalidParameter(
                "The text after iceberg: is not the name of a catalog.",
                hint="Write iceberg:NAME, with the name from .pyiceberg.yaml or from the variable"
                " PYICEBERG_CATALOG__NAME__URI, and name the table as namespace.table.",
            )
        self._catalog = catalog

    @property
    def url(self) -> str:
        """The scheme and the name of the catalog."""
        return f"{ICEBERG}{self._catalog}"

    @contextmanager
    def open_stream(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns of the newest snapshot.

        Raises the same errors as ``Origin.open_stream``.
        """
        name = parse_relation(table)
        missing_table_error = import_iceberg("exceptions").NoSuchTableError
        # The client of the catalog must stay open while rows are read.
        with keep_clients_open():
            with translate_failures("The catalog cannot be read."):
                catalog = get_catalog(self._catalog)
                try:
                    iceberg_table = catalog.load_table(
                        tuple(filter(None, (name.schema, name.name)))
                    )
                except missing_table_error:
                    raise TableNotFound(f"The catalog has no table {name}.") from None
                columns = tuple(field.name for field in iceberg_table.schema().fields)
                require_columns(names, columns)
                snapshot = iceberg_table.current_snapshot()
                snapshot_id = None if snapshot is None else snapshot.snapshot_id
                scan = iceberg_table.scan(selected_fields=tuple(names), snapshot_id=snapshot_id)
                n_rows = int(scan.count())
                reader = scan.to_arrow_batch_reader()
            batches = select_columns(chain([empty_batch(reader.schema)], reader), names)
            # For the report: why all rows are from one state of the table.
            consistency = f"snapshot {snapshot_id} of the table"
            yield RowStream(
                columns,
                batches,
                consistency,
                n_rows=n_rows,
                recount=lambda: int(scan.count()),
            )


def open_iceberg_origin(catalog: str, foreign_files: str) -> IcebergOrigin:
    """Return the origin for the tables of a catalog; raises InvalidParameter.

    Parameters
    ----------
    foreign_files : not used: the catalog names the files of a table, and their owners are not
        checked, even if they are on this machine.
    """
    return IcebergOrigin(catalog)


def _import_delta() -> ModuleType:
    """Import deltalake; raises MissingDependency."""
    try:
        import deltalake
    except ModuleNotFoundError as error:
        if error.name != "deltalake":
            raise
        raise MissingDependency.of_extra("Delta", "deltalake", "delta") from None
    return deltalake
