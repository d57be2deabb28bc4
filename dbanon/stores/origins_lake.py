"""Delta and Iceberg tables as origins of rows; a run reads one immutable version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dbanon.data.files import REFUSE, open_regular_file
from dbanon.errors import DatabaseNotFound, InvalidParameter, MissingDependency, TableNotFound
from dbanon.job.export import ICEBERG
from dbanon.sessions.names import parse_relation
from dbanon.stores.lake_catalog import catalog_named, open_catalogs
from dbanon.stores.objects import ObjectPath, iceberg_module, is_object
from dbanon.stores.origins import (
    Origin,
    RowStream,
    empty_batch,
    require_columns,
    select_columns,
    translate_failures,
)

DELTA = "delta:"


class DeltaOrigin:
    """A Delta table in a directory or an object store."""

    def __init__(self, location: str, policy: str = REFUSE) -> None:
        self._folder: Path | None = None
        self._policy = policy
        if is_object(location):
            self._location = str(ObjectPath.of(location))
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
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns of the newest version; raises as ``Origin``."""
        with translate_failures("The Delta table cannot be read."):
            delta_table = _delta().DeltaTable(self._location)
            self._require_own_files(delta_table)
            # deltalake refuses features that it does not support, such as deletion vectors.
            rows = delta_table.to_pyarrow_dataset()
            count = int(rows.count_rows())
        columns = tuple(rows.schema.names)
        require_columns(names, columns)
        read = rows.scanner(columns=list(names), batch_size=chunk_rows, batch_readahead=1)
        batches = select_columns(
            chain([empty_batch(read.projected_schema)], read.to_batches()), names
        )
        state = f"version {delta_table.version()} of the table"

        def again() -> int:
            # The files are opened by name, so check that none was exchanged meanwhile.
            self._require_own_files(delta_table)
            return int(rows.count_rows())

        yield RowStream(columns, batches, state, count, again)

    def _require_own_files(self, table: Any) -> None:
        """Check the files that the log lists: its writer could list any file.

        Raises
        ------
        ForeignFile : a file is outside the table's folder, another account's, or a link.
        """
        for uri in table.file_uris() if self._folder is not None else ():
            path = Path(uri.removeprefix("file://"))
            # The log may percent-encode folder names.
            path = path if path.exists() else Path(unquote(str(path)))
            with open_regular_file(path, Path(os.path.abspath(self._location)), self._policy):
                pass


class IcebergOrigin:
    """The tables of an Iceberg catalog, configured in pyiceberg's own settings."""

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
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns of the newest snapshot; raises as ``Origin``."""
        name = parse_relation(table)
        missing = iceberg_module("exceptions").NoSuchTableError
        with open_catalogs():
            with translate_failures("The catalog cannot be read."):
                catalog = catalog_named(self._catalog)
                try:
                    iceberg_table = catalog.load_table(
                        tuple(filter(None, (name.schema, name.name)))
                    )
                except missing:
                    raise TableNotFound(f"The catalog has no table {name}.") from None
                columns = tuple(field.name for field in iceberg_table.schema().fields)
                require_columns(names, columns)
                snapshot = iceberg_table.current_snapshot()
                number = None if snapshot is None else snapshot.snapshot_id
                read = iceberg_table.scan(selected_fields=tuple(names), snapshot_id=number)
                count = int(read.count())
                reader = read.to_arrow_batch_reader()
            batches = select_columns(chain([empty_batch(reader.schema)], reader), names)
            state = f"snapshot {number} of the table"
            yield RowStream(columns, batches, state, count, lambda: int(read.count()))


def lake_of(url: str, policy: str = REFUSE) -> Origin | None:
    """Return the origin for the URL of a lake; None for other URLs.

    Parameters
    ----------
    policy : whether links and other accounts' files are allowed, see ``dbanon.data.files``.

    Raises
    ------
    DatabaseNotFound, InvalidParameter : the URL names neither a Delta table nor a catalog.
    """
    if url.startswith(DELTA):
        return DeltaOrigin(url.removeprefix(DELTA), policy)
    return IcebergOrigin(url.removeprefix(ICEBERG)) if url.startswith(ICEBERG) else None


def _delta() -> Any:
    try:
        import deltalake
    except ModuleNotFoundError as error:
        if error.name != "deltalake":
            raise
        raise MissingDependency.of_extra("Delta", "deltalake", "delta") from None
    return deltalake
