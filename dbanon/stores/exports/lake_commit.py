"""Commits to Iceberg tables: field ids, compare-and-swap, and the outcome.

Like Iceberg's own files, a release file holds the field ids of the table's columns. A column whose
type changed gets a new id, so older snapshots keep their values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pyarrow as pa

from dbanon.errors import (
    CommitConfirmed,
    DbanonError,
    InvalidParameter,
    OutcomeUnknown,
    OutputBusy,
    warn_caller,
)
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.objects import iceberg_module, translate_client_errors

_FIELD_ID = b"PARQUET:field_id"
_RETRIES = "commit.retry.num-retries"
# Seconds that a catalog has to say whether a commit succeeded.
_CHECK_SECONDS = 5.0


def data_files(table: Any) -> set[str]:
    """Return the files of all snapshots of a table; they must not be deleted."""
    snapshots = [] if table is None else table.metadata.snapshots
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }


def new_location(table: object, name: str, begin: Callable[..., Any]) -> str:
    """Return the location of a table that does not exist yet; every run gets the same one.

    Parameters
    ----------
    name : the table's name without namespace.
    begin : begins a transaction that creates the table, with a schema and optionally a location.

    Raises
    ------
    InvalidParameter : the catalog neither provides nor accepts a stable location.
    OSError : the catalog fails.
    """
    empty_schema = iceberg_module("schema").Schema()
    with translate_client_errors():
        location, second_location = (
            begin(empty_schema).table_metadata.location.rstrip("/") for _ in range(2)
        )
    if location == second_location:
        return str(location)
    # Some catalogs give each new table a fresh directory, where files of a crashed run would never
    # be found again. Use a sibling directory with the table's name instead.
    parent = location.rpartition("/")[0]
    if parent == second_location.rpartition("/")[0]:
        stable_location = f"{parent}/{name}"
        with suppress(OSError), translate_client_errors():
            if (
                begin(empty_schema, stable_location).table_metadata.location.rstrip("/")
                == stable_location
            ):
                return stable_location
    raise InvalidParameter(
        f"The catalog gives the table {table}, while it is new, a different directory each time,"
        " and does not accept one: files left by a crash would not be found again.",
        hint="Use a catalog that names directories after tables or takes a table's location, or"
        " export a Parquet file.",
    )


def with_field_ids(table: Any, schema: pa.Schema) -> pa.Schema:
    """Add the field ids that ``begin_replacement``, or a new table, will assign."""
    field_types = _types(schema)
    fields, last_id = (
        ({}, 0) if table is None else (_columns(table.metadata), table.metadata.last_column_id)
    )
    new_ids = count(last_id + 1)
    columns = []
    for column in schema:
        field = fields.get(column.name)
        if field is None or field.field_type != field_types[column.name]:
            field_id = next(new_ids)
        else:
            field_id = field.field_id
        columns.append(column.with_metadata({_FIELD_ID: str(field_id)}))
    return pa.schema(columns)


def begin_replacement(table: Any, schema: pa.Schema) -> Any:
    """Begin a transaction that gives a table exactly the columns of a release."""
    # A retry would build on what another run committed meanwhile.
    properties = {**table.metadata.properties, _RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    change = table.transaction()
    _fit(change, schema)
    return change


def fits(change: Any, schema: pa.Schema) -> bool:
    """Return True if a file's field ids match the table's.

    If another run changed the columns meanwhile, readers of the table would mix them up.
    """
    numbers = {column.name: int((column.metadata or {}).get(_FIELD_ID, b"-1")) for column in schema}
    return numbers == {
        name: field.field_id for name, field in _columns(change.table_metadata).items()
    }


def replace_data_file(io: Any, change: Any, location: str, previous_file: Any) -> None:
    """Make one file the content of a transaction's snapshot, replacing the previous one if any."""
    convert = iceberg_module("io.pyarrow").parquet_files_to_data_files
    snapshot = change.update_snapshot()
    with snapshot.fast_append() if previous_file is None else snapshot.overwrite() as update:
        if previous_file is not None:
            update.delete_data_file(previous_file)
        for data_file in convert(io, change.table_metadata, iter([location])):
            update.append_data_file(data_file)


def try_check(check: Callable[[], bool]) -> bool | None:
    """Run a check on a table; None if the catalog does not answer in time."""

    def check_catalog() -> bool:
        with translate_client_errors():
            return check()

    try:
        with thread_connections().cut_new_connections_after(_CHECK_SECONDS):
            return thread_connections().connect_in_time(check_catalog, lambda nothing: None)
    except (OSError, DbanonError, KeyboardInterrupt):
        return None


def confirm_commit(table: object, error: BaseException) -> None:
    """Warn an interrupted caller that the commit succeeded."""
    if isinstance(error, KeyboardInterrupt):
        warn_caller(
            CommitConfirmed(
                f"The run was interrupted while the release was being committed to {table}: it was"
                " committed successfully."
            )
        )


def unknown_outcome(table: object, error: BaseException) -> OutcomeUnknown:
    """Return the error for a commit that the catalog did not confirm."""
    return OutcomeUnknown(
        f"The commit to {table} got no answer, so it is unknown whether the table shows the"
        " release. Its file stays.",
        detail=type(error).__name__,
        hint="Look at the table before you run it again: its newest snapshot names the file.",
    )


def commit_error(
    file: object, table: object, error: DbanonError | OSError
) -> DbanonError | OSError:
    """Return the error for a file that was not published, or whose outcome is unknown."""
    if getattr(file, "commit_pending", False) and isinstance(error, OSError):
        return unknown_outcome(table, error)
    return error


def commit_conflict(table: object) -> OutputBusy:
    """Return the error for a table that another run committed to meanwhile."""
    return OutputBusy(
        f"Another commit to {table} came first: this release was not committed there.",
        hint="Run the job again, once nothing else writes to the table.",
    )


def _columns(metadata: Any) -> dict[str, Any]:
    return {field.name: field for field in metadata.schema().fields}


def _types(schema: pa.Schema) -> dict[str, Any]:
    """Return the columns' types in Iceberg."""
    names = iceberg_module("table.name_mapping")
    mapping = names.NameMapping(
        [names.MappedField(field_id=i, names=[name]) for i, name in enumerate(schema.names, 1)]
    )
    converted = iceberg_module("io.pyarrow").pyarrow_to_schema(schema, mapping)
    return {field.name: field.field_type for field in converted.fields}


def _fit(change: Any, schema: pa.Schema) -> None:
    requested = _types(schema)
    current = {name: field.field_type for name, field in _columns(change.table_metadata).items()}
    if requested == current:
        return
    with change.update_schema(allow_incompatible_changes=True) as update:
        for name, kind in current.items():
            if requested.get(name) != kind:
                update.delete_column((name,))
    with change.update_schema() as update:
        for name, kind in requested.items():
            if current.get(name) != kind:
                update.add_column((name,), kind)
