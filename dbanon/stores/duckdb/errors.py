"""DuckDB's errors in dbanon's terms, without their text: it may quote a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dbanon.errors import (
    Cancelled,
    DatabaseBusy,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    InsufficientRights,
    MemoryLimit,
    OutputChanged,
    OutputExists,
    SourceChanged,
    UnsupportedType,
)

# Of DuckDB's: the error, its words where they are not those of whoever asked, and its hint.
_KINDS: tuple[tuple[type[duckdb.Error], type[DbanonError], str | None, str | None], ...] = (
    (duckdb.PermissionException, InsufficientRights, None, None),
    (duckdb.TransactionException, SourceChanged, "Another session changed what this one needs.",
     None),
    (duckdb.DependencyException, OutputChanged,
     "Other objects depend on the output, so it cannot be replaced.", None),
    (duckdb.CatalogException, OutputExists,
     "A relation of this name exists already, or one that is needed was dropped.", None),
    *((unfit, UnsupportedType, "A value does not fit the type that it is written as.",
       "Cast the column to a wider type in a view, and anonymize the view.")
      for unfit in (duckdb.ConversionException, duckdb.OutOfRangeException)),
)  # fmt: skip


class OutOfMemory(MemoryLimit):
    """DuckDB has reached its limit."""


@contextmanager
def translated(what: str = "The database refused a statement.") -> Iterator[None]:
    """Raise DuckDB's errors as dbanon's own."""
    try:
        yield
    except DbanonError:
        raise
    except RuntimeError as error:
        # What Ctrl-C raises inside a query comes out as this.
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.InterruptException:
        raise Cancelled from None
    except duckdb.OutOfMemoryException:
        raise OutOfMemory(
            "The database has run out of memory, or of disk space where it spills to.",
            hint="Raise the limit (`memory_limit`), or make room in the directory (`spill`).",
        ) from None
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise DatabaseBusy(
                "Another process has the database file open.", hint="Close it, then try again."
            ) from None
        raise DatabaseUnreachable(what, detail=type(error).__name__) from None
    except duckdb.Error as error:
        for of_duckdb, kind, message, hint in _KINDS:
            if isinstance(error, of_duckdb):
                raise kind(message or what, detail=type(error).__name__, hint=hint) from None
        raise DatabaseFailure(what, detail=type(error).__name__) from None
