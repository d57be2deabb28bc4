"""Commits to Iceberg tables: field ids, compare-and-swap, and unknown outcomes.

A parameter ``table`` is pyiceberg's table, unless its entry says otherwise. A ``schema`` is that of
a Parquet file with the rows of a release.

Each column of an Iceberg table has a field id, by which readers find the column in the table's
files. A column whose type changes gets a new id, so that older snapshots keep their values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from dbanon.errors import (
    CommitConfirmed,
    DbanonError,
    InvalidParameter,
    OutputBusy,
    warn_caller,
)
from dbanon.extensions.lakes.catalog import import_iceberg
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.objects import translate_client_errors

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import CreateTableTransaction, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

# Key of the Parquet metadata of a column, with the column's field id.
_FIELD_ID = b"PARQUET:field_id"
# Table property with the number of times that pyiceberg retries a commit.
_RETRIES_PROPERTY = "commit.retry.num-retries"
# Seconds within which a catalog must answer whether a commit succeeded.
_CHECK_SECONDS = 5.0


def data_files(table: Table | None) -> set[str]:
    """Return the locations of all files that any snapshot refers to.

    Parameters
    ----------
    table : the table; None if it does not exist.
    """
    if table is None:
        return set()
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }


def new_location(
    table: object, name: str, begin_creation: Callable[..., CreateTableTransaction]
) -> str:
    """Return the location of a table that does not exist yet; it is the same in every run.

    Parameters
    ----------
    table : the table as messages name it.
    name : the table's name without namespace.
    begin_creation : begins a transaction that creates the table; takes a schema and optionally a
        location.

    Raises
    ------
    InvalidParameter : the catalog neither provides nor accepts a stable location.
    OSError : the catalog fails.
    """
    empty_schema = import_iceberg("schema").Schema()
    with translate_client_errors():
        # Ask twice, since some catalogs give each new table a fresh directory.
        location, second_location = (
            begin_creation(empty_schema).table_metadata.location.rstrip("/") for _ in range(2)
        )
    if location == second_location:
        return str(location)
    # In a fresh directory, the next run would not find the files of a crashed run. So try a
    # directory next to it that has the table's name.
    parent = location.rpartition("/")[0]
    if parent == second_location.rpartition("/")[0]:
        stable_location = f"{parent}/{name}"
        with suppress(OSError), translate_client_errors():
            accepted_location = begin_creation(
                empty_schema, stable_location
            ).table_metadata.location
            if accepted_location.rstrip("/") == stable_location:
                return stable_location
    raise InvalidParameter(
        f"The catalog suggests a different directory for the new table {table} each time, and does"
        " not accept a fixed one: files left by a crash could not be found again.",
        hint="Use a catalog that names directories after tables or accepts a table's location, or"
        " export a Parquet file.",
    )


def add_field_ids(table: Table | None, schema: pa.Schema) -> pa.Schema:
    """Add field ids to the columns of a file.

    The ids are those that ``begin_replacement``, or the creation of the table, will assign to the
    table's columns.

    Parameters
    ----------
    table : the table; None if it does not exist.
    schema : the columns of the file.
    """
    field_types = _iceberg_types(schema)
    fields: dict[str, NestedField] = {}
    last_id = 0
    if table is not None:
        fields, last_id = _fields_by_name(table.metadata), table.metadata.last_column_id
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


def begin_replacement(table: Table, schema: pa.Schema) -> Transaction:
    """Begin a transaction that gives a table exactly the columns of a release."""
    # Do not retry: a retry would overwrite what another run has committed in the meantime.
    properties = {**table.metadata.properties, _RETRIES_PROPERTY: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    transaction = table.transaction()
    _change_columns(transaction, schema)
    return transaction


def has_matching_field_ids(transaction: Transaction, schema: pa.Schema) -> bool:
    """Return True if a file with this schema has the field ids of the table in a transaction.

    If another run has changed the table's columns in the meantime, the ids differ, and readers of
    the file would confuse its columns.
    """
    file_ids = {
        column.name: int((column.metadata or {}).get(_FIELD_ID, b"-1")) for column in schema
    }
    fields = _fields_by_name(transaction.table_metadata)
    return file_ids == {name: field.field_id for name, field in fields.items()}


def replace_data_file(
    io: FileIO, transaction: Transaction, location: str, previous_file: DataFile | None
) -> None:
    """Add a snapshot with one data file, which replaces the previous file, if any.

    Parameters
    ----------
    io : pyiceberg's ``FileIO`` object.
    transaction : the transaction that the commit will end.
    location : the location of the data file to add.
    previous_file : the data file to remove from the table; None for a new table.
    """
    to_data_files = import_iceberg("io.pyarrow").parquet_files_to_data_files
    snapshot = transaction.update_snapshot()
    with snapshot.fast_append() if previous_file is None else snapshot.overwrite() as update:
        if previous_file is not None:
            update.delete_data_file(previous_file)
        for data_file in to_data_files(io, transaction.table_metadata, iter([location])):
            update.append_data_file(data_file)


def check_with_timeout(check: Callable[[], bool]) -> bool | None:
    """Run a check that asks a catalog; returns None if the catalog does not answer in time."""

    def check_catalog() -> bool:
        with translate_client_errors():
            return check()

    try:
        with thread_connections().cut_new_connections_after(_CHECK_SECONDS):
            # The check opens connections of its own, but returns a bool, so nothing must be closed.
            return thread_connections().connect_in_time(check_catalog, close=lambda result: None)
    except (OSError, DbanonError, KeyboardInterrupt):
        return None


def confirm_commit(table: object, error: BaseException) -> None:
    """Warn that the commit succeeded, if the run was interrupted; drop any other error.

    Parameters
    ----------
    table : the table as messages name it.
    error : the exception that the commit raised, although it succeeded.
    """
    if isinstance(error, KeyboardInterrupt):
        warn_caller(
            CommitConfirmed(
                f"The run was interrupted while the release was being committed to {table}: it was"
                " committed successfully."
            )
        )


def commit_conflict(table: object) -> OutputBusy:
    """Return the error for a table to which another run has committed in the meantime."""
    return OutputBusy(
        f"Another commit to {table} came first, so this release was not committed.",
        hint="Run the job again, once nothing else writes to the table.",
    )


def _fields_by_name(metadata: TableMetadata) -> dict[str, NestedField]:
    return {field.name: field for field in metadata.schema().fields}


def _iceberg_types(schema: pa.Schema) -> dict[str, IcebergType]:
    """Return the Iceberg type of each column."""
    module = import_iceberg("table.name_mapping")
    # The conversion needs field ids, which do not matter here: number the columns from 1.
    mapping = module.NameMapping(
        [module.MappedField(field_id=i, names=[name]) for i, name in enumerate(schema.names, 1)]
    )
    iceberg_schema = import_iceberg("io.pyarrow").pyarrow_to_schema(schema, mapping)
    return {field.name: field.field_type for field in iceberg_schema.fields}


def _change_columns(transaction: Transaction, schema: pa.Schema) -> None:
    """Give a table the columns of a schema.

    Columns whose type differs are dropped and added again.
    """
    new_types = _iceberg_types(schema)
    fields = _fields_by_name(transaction.table_metadata)
    current_types = {name: field.field_type for name, field in fields.items()}
    if new_types == current_types:
        return
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name, field_type in current_types.items():
            if new_types.get(name) != field_type:
                update.delete_column((name,))
    with transaction.update_schema() as update:
        for name, field_type in new_types.items():
            if current_types.get(name) != field_type:
                update.add_column((name,), field_type)
