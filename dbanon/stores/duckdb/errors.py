"""Translation of DuckDB's errors into dbanon's, without their text, which may quote a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import duckdb

from dbanon.errors import (
    Cancelled,
    DatabaseBusy,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    MemoryLimit,
    OutputChanged,
    OutputExists,
    SchemaNotFound,
    SourceChanged,
    TableNotFound,
    UnsupportedType,
    nearest_names,
)
from dbanon.sessions.names import RelationName

# By DuckDB's class: dbanon's class, the message (None for the caller's), and the hint.
_KINDS: tuple[tuple[type[duckdb.Error], type[DbanonError], str | None, str | None], ...] = (
    (duckdb.PermissionException, InsufficientRights, None, None),
    (
        duckdb.TransactionException,
        SourceChanged,
        "Another session changed what this one needs.",
        None,
    ),
    (
        duckdb.DependencyException,
        OutputChanged,
        "Other objects depend on the output, so it cannot be replaced.",
        None,
    ),
    (
        duckdb.CatalogException,
        OutputExists,
        "A relation of this name exists already, or one that is needed was dropped.",
        None,
    ),
    *(
        (
            unfit,
            UnsupportedType,
            "A value does not fit the type that it is written as.",
            "Cast the column to a wider type in a view, and anonymize the view.",
        )
        for unfit in (duckdb.ConversionException, duckdb.OutOfRangeException)
    ),
)


class OutOfMemory(MemoryLimit):
    """DuckDB has reached its limit."""


# How to raise DuckDB's limit of memory; max_memory is its second name.
_RAISE = "`memory_limit`, or SET max_memory = '4GB' on a connection that you opened"


@contextmanager
def translated(message: str = "The database refused a statement.") -> Iterator[None]:
    """Translate DuckDB's errors into dbanon's own."""
    try:
        yield
    except DbanonError:
        raise
    except RuntimeError as error:
        # DuckDB raises this for Ctrl-C during a query.
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.InterruptException:
        raise Cancelled from None
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error):
            raise DiskFull(
                "The disk to which the database spills is full; nothing was published.",
                detail=type(error).__name__,
                hint="Make room there, name a directory on another disk (`spill`), or raise the"
                f" limit ({_RAISE}).",
            ) from None
        raise OutOfMemory(
            "The database ran out of memory, or out of disk space for spilling.",
            hint=f"Raise the limit ({_RAISE}), or make room in the directory that DuckDB spills"
            " to.",
        ) from None
    except duckdb.Error as error:
        if DiskFull.caused_by(error):
            raise _disk_full(error) from None
        _raise_translated(error, message)


def _disk_full(error: duckdb.Error) -> DiskFull:
    path = re.search(r'file \\?"([^"\\]+)', str(error))
    return DiskFull(
        f"The disk is full, or a limit of file sizes is reached, at {path[1]}; nothing was"
        " published."
        if path
        else "The disk of the database is full; nothing was published.",
        detail=type(error).__name__,
        hint="Make room there, or write to a database on another disk, and run it again. df -h and"
        " ulimit -f show the limits.",
    )


def _raise_translated(error: duckdb.Error, message: str) -> NoReturn:
    """Raise one of DuckDB's errors as one of dbanon's."""
    if isinstance(error, duckdb.IOException):
        if "lock" in str(error).lower():
            raise DatabaseBusy(
                "Another process has the database file open.",
                hint="Close the file in that process, then run it again.",
            ) from None
        raise DatabaseUnreachable(message, detail=type(error).__name__) from None
    for of_duckdb, kind, kind_message, hint in _KINDS:
        if isinstance(error, of_duckdb):
            raise kind(kind_message or message, detail=type(error).__name__, hint=hint) from None
    raise DatabaseFailure(message, detail=type(error).__name__) from None


def source_not_found(
    rows: Callable[..., list[tuple[Any, ...]]], name: RelationName, schema: str
) -> TableNotFound | SchemaNotFound:
    """Build the error for a missing source: temporary, in a missing schema, or not there at all.

    Parameters
    ----------
    rows : runs a query with its parameters.
    schema : the schema that was searched.
    """
    if rows(
        "SELECT 1 FROM duckdb_views() WHERE temporary AND view_name = ? UNION ALL"
        " SELECT 1 FROM duckdb_tables() WHERE temporary AND table_name = ?",
        (name.name, name.name),
    ):
        return TableNotFound(
            f"{name} is a registered data frame, or another temporary table or view.",
            hint="Give the frame to dbanon.anonymize_frame, or copy it into a table first, as in"
            f" CREATE TABLE people AS FROM {name.quoted}, and anonymize that table.",
        )
    schemas = [
        schema_name
        for (schema_name,) in rows(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
        )
    ]
    if schema not in schemas:
        return SchemaNotFound(
            f'There is no schema "{schema}".', hint=nearest_names(schema, schemas)
        )
    tables = [
        table_name
        for (table_name,) in rows(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() AND table_schema = ?",
            (schema,),
        )
    ]
    near = nearest_names(name.name, tables)
    if near is None and name.schema is None:
        elsewhere = rows(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() AND lower(table_name) = lower(?)"
            " ORDER BY table_schema LIMIT 3",
            (name.name,),
        )
        named = [f'"{RelationName(*relation)}"' for relation in elsewhere]
        near = f"Did you mean {' or '.join(named)}?" if named else None
    return TableNotFound(f"There is no table {name}.", hint=near)
