"""Translation of DuckDB's errors to DbanonError, without their text, which may quote values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import duckdb

from dbanon.data.types import SqlRow
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

# For each of these classes of DuckDB: the class to raise, its message (None for the message that
# the caller of ``translate_errors`` gives), and its hint.
_TRANSLATIONS: tuple[tuple[type[duckdb.Error], type[DbanonError], str | None, str | None], ...] = (
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
            duckdb_class,
            UnsupportedType,
            "A value does not fit the type that it is written as.",
            "Cast the column to a wider type in a view, and anonymize the view.",
        )
        for duckdb_class in (duckdb.ConversionException, duckdb.OutOfRangeException)
    ),
)


class OutOfMemory(MemoryLimit):
    """DuckDB has reached its memory limit, or cannot spill any more rows to disk.

    A caller that has set the limit can catch this class to name the limit in its own error.
    """


# The hint names DuckDB's setting memory_limit by its alias, max_memory, because an option of dbanon
# has the same name.
_HOW_TO_RAISE_LIMIT = "`memory_limit`, or SET max_memory = '4GB' on a connection that you opened"


@contextmanager
def translate_errors(message: str = "The database refused a statement.") -> Iterator[None]:
    """Translate DuckDB's errors to DbanonError.

    Parameters
    ----------
    message : the text for errors without a more specific one.
    """
    try:
        yield
    except DbanonError:
        raise
    except RuntimeError as error:
        # DuckDB raises this if Ctrl-C is pressed during a query.
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
                f" limit ({_HOW_TO_RAISE_LIMIT}).",
            ) from None
        raise OutOfMemory(
            "The database ran out of memory, or out of disk space for spilling.",
            hint=f"Raise the limit ({_HOW_TO_RAISE_LIMIT}), or make room in the directory that"
            " DuckDB spills to.",
        ) from None
    except duckdb.Error as error:
        if DiskFull.caused_by(error):
            raise _disk_full(error) from None
        _raise_translated(error, message)


def _disk_full(error: duckdb.Error) -> DiskFull:
    """Build the error for a full disk, with the path that DuckDB reports, if any."""
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
    """Raise the DbanonError for an error of DuckDB."""
    if isinstance(error, duckdb.IOException):
        if "lock" in str(error).lower():
            raise DatabaseBusy(
                "Another process has the database file open.",
                hint="Close the file in that process, then run it again.",
            ) from None
        raise DatabaseUnreachable(message, detail=type(error).__name__) from None
    for duckdb_class, error_class, class_message, hint in _TRANSLATIONS:
        if isinstance(error, duckdb_class):
            raise error_class(
                class_message or message, detail=type(error).__name__, hint=hint
            ) from None
    raise DatabaseFailure(message, detail=type(error).__name__) from None


def source_not_found(
    fetch_rows: Callable[..., list[SqlRow]], name: RelationName, schema: str
) -> TableNotFound | SchemaNotFound:
    """Build the error for a source that was not found: it is missing, or temporary.

    Parameters
    ----------
    fetch_rows : runs a query with its parameters.
    schema : the schema that was searched.
    """
    if fetch_rows(
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
        for (schema_name,) in fetch_rows(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
        )
    ]
    if schema not in schemas:
        return SchemaNotFound(
            f'There is no schema "{schema}".', hint=nearest_names(schema, schemas)
        )
    tables = [
        table_name
        for (table_name,) in fetch_rows(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() AND table_schema = ?",
            (schema,),
        )
    ]
    hint = nearest_names(name.name, tables)
    if hint is None and name.schema is None:
        relations_of_other_schemas = fetch_rows(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() AND lower(table_name) = lower(?)"
            " ORDER BY table_schema LIMIT 3",
            (name.name,),
        )
        quoted_names = [f'"{RelationName(*relation)}"' for relation in relations_of_other_schemas]
        hint = f"Did you mean {' or '.join(quoted_names)}?" if quoted_names else None
    return TableNotFound(f"There is no table {name}.", hint=hint)
