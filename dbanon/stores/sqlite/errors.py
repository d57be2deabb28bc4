"""Translation of SQLite's errors to DbanonError, without their text, which may quote values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from dbanon.errors import (
    DatabaseBusy,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    OutputExists,
)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate SQLite's errors to DbanonError, without their text, which may quote values."""
    try:
        yield
    except DbanonError:
        raise
    except (sqlite3.Error, DBAPIError) as exception:
        error = exception.orig if isinstance(exception, DBAPIError) else exception
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise DatabaseBusy(
                detail=name, hint="End the other connection's transaction, then run it again."
            ) from None
        if name.startswith("SQLITE_FULL"):
            raise DiskFull(
                "The disk of the database, or of SQLite's temporary files, is full; nothing was"
                " published.",
                detail=name,
                hint="Make room on the disk of the database's file, and in SQLITE_TMPDIR"
                " (/var/tmp if it is not set), and run it again.",
            ) from None
        if name.startswith("SQLITE_INTERRUPT"):
            # The store sets a progress handler, so that signal handlers run during long statements.
            # This error occurs only if one of them raises an exception.
            raise KeyboardInterrupt from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            raise InsufficientRights("The database file cannot be written.", detail=name) from None
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB")):
            raise DatabaseUnreachable("The database cannot be opened.", detail=name) from None
        # As in "table people already exists".
        if "already" in str(error):
            raise OutputExists(detail=name) from None
        raise DatabaseFailure("The database refused a statement.", detail=name) from None
