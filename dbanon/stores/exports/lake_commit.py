"""Commits to tables of Iceberg: columns with their numbers, the swap, and what became of it.

A file of a release has the numbers of the table's columns in it, as Iceberg's own files do. A
column of a new type is a new column with a number of its own, so older snapshots keep their values.
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
from dbanon.sessions.ending import ending
from dbanon.stores.objects import iceberg_module, reached

_NUMBER = b"PARQUET:field_id"
_RETRIES = "commit.retry.num-retries"
# Seconds that a catalog has to say what became of a commit.
_LOOK = 5.0


def data_files(found: Any) -> set[str]:
    """All files that a snapshot of a table has, none of no table: those stay."""
    snapshots = [] if found is None else found.metadata.snapshots
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in snapshots
        for manifest in snapshot.manifests(found.io)
    }
    return {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(found.io, discard_deleted=False)
    }


def new_location(place: object, name: str, begin: Callable[..., Any]) -> str:
    """Where a table that is not there yet is going to be, the same for each run.

    Parameters
    ----------
    name : the table's own.
    begin : begins a transaction that makes it, with a schema and perhaps a location.

    Raises
    ------
    InvalidParameter : the catalog gives and takes no such location.
    OSError : it fails.
    """
    empty = iceberg_module("schema").Schema()
    with reached():
        one, other = (begin(empty).table_metadata.location.rstrip("/") for _ in range(2))
    if one == other:
        return str(one)
    # A catalog that gives each new table a directory of its own: what a crash leaves in one would
    # never be found again. Beside those there is one of the table's name.
    above = one.rpartition("/")[0]
    if above == other.rpartition("/")[0]:
        wanted = f"{above}/{name}"
        with suppress(OSError), reached():
            if begin(empty, wanted).table_metadata.location.rstrip("/") == wanted:
                return wanted
    raise InvalidParameter(
        f"The catalog gives the table {place}, while it is new, another directory each time, and"
        " takes none that it is given: files that a crash leaves would not be found again.",
        hint="Use a catalog that names directories after tables or takes a table's location, or"
        " export a Parquet file.",
    )


def numbered(found: Any, schema: pa.Schema) -> pa.Schema:
    """Columns with the numbers that ``replacement``, or a new table, is going to give them."""
    wanted = _types(schema)
    there, last = (
        ({}, 0) if found is None else (_columns(found.metadata), found.metadata.last_column_id)
    )
    new = count(last + 1)
    return pa.schema([
        one.with_metadata({
            _NUMBER: str(
                there[one.name].field_id
                if one.name in there and there[one.name].field_type == wanted[one.name]
                else next(new)
            )
        })
        for one in schema
    ])  # fmt: skip


def replacement(found: Any, schema: pa.Schema) -> Any:
    """A transaction that gives a table the columns of a release, and no others."""
    # A try again would be on top of what another committed meanwhile.
    kept = {**found.metadata.properties, _RETRIES: "0"}
    found.metadata = found.metadata.model_copy(update={"properties": kept})
    change = found.transaction()
    _fit(change, schema)
    return change


def fits(change: Any, schema: pa.Schema) -> bool:
    """True where a file's columns have the numbers that the table has them by.

    A table that another run gave columns meanwhile has other ones: its readers would mix them up.
    """
    numbers = {one.name: int((one.metadata or {}).get(_NUMBER, b"-1")) for one in schema}
    return numbers == {name: one.field_id for name, one in _columns(change.table_metadata).items()}


def append(io: Any, change: Any, location: str, before: Any) -> None:
    """Let a transaction's snapshot have one file, in the place of the one before it, if any."""
    convert = iceberg_module("io.pyarrow").parquet_files_to_data_files
    snapshot = change.update_snapshot()
    with snapshot.fast_append() if before is None else snapshot.overwrite() as made:
        if before is not None:
            made.delete_data_file(before)
        for one in convert(io, change.table_metadata, iter([location])):
            made.append_data_file(one)


def looked(look: Callable[[], bool]) -> bool | None:
    """What a look at a table says, None where nothing answers in time."""

    def reach() -> bool:
        with reached():
            return look()

    try:
        with ending().at_most(_LOOK):
            return ending().connected(reach, lambda nothing: None)
    except (OSError, DbanonError, KeyboardInterrupt):
        return None


def confirm(place: object, error: BaseException) -> None:
    """Tell who interrupted a commit that it was made."""
    if isinstance(error, KeyboardInterrupt):
        warn_caller(
            CommitConfirmed(
                f"The run was interrupted when the release was being committed to {place}: it was"
                " committed, and all is as it should be."
            )
        )


def unknown(place: object, error: BaseException) -> OutcomeUnknown:
    """The error of a commit that nobody answered."""
    return OutcomeUnknown(
        f"The commit to {place} was not answered: it is not known whether the table shows the"
        " release. Its file stays.",
        detail=type(error).__name__,
        hint="Look at the table before you run it again: its newest snapshot names the file.",
    )


def outcome(file: object, place: object, error: DbanonError | OSError) -> DbanonError | OSError:
    """The error of a file that has no place, or that may be shown though nobody said so."""
    if getattr(file, "unsure", False) and isinstance(error, OSError):
        return unknown(place, error)
    return error


def busy(place: object) -> OutputBusy:
    """The error of a table that another committed to meanwhile."""
    return OutputBusy(
        f"Another commit to {place} came first: this release was not committed there.",
        hint="Run the job again, once nothing else writes to the table.",
    )


def _columns(metadata: Any) -> dict[str, Any]:
    return {one.name: one for one in metadata.schema().fields}


def _types(schema: pa.Schema) -> dict[str, Any]:
    """The types of columns as Iceberg has them."""
    names = iceberg_module("table.name_mapping")
    mapping = names.NameMapping(
        [names.MappedField(field_id=i, names=[name]) for i, name in enumerate(schema.names, 1)]
    )
    converted = iceberg_module("io.pyarrow").pyarrow_to_schema(schema, mapping)
    return {one.name: one.field_type for one in converted.fields}


def _fit(change: Any, schema: pa.Schema) -> None:
    wanted = _types(schema)
    there = {name: one.field_type for name, one in _columns(change.table_metadata).items()}
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
