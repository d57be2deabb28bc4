"""SQLite's errors in dbanon's terms, without their text: it may quote a value."""

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
    InsufficientRights,
    OutputExists,
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise SQLite's errors as dbanon's own, without their text: it may quote a value."""
    try:
        yield
    except DbanonError:
        raise
    except (sqlite3.Error, DBAPIError) as caught:
        error = caught.orig if isinstance(caught, DBAPIError) else caught
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise DatabaseBusy(detail=name, hint="Try again later.") from None
        if name.startswith("SQLITE_INTERRUPT"):
            # Only the progress handler interrupts, by what a signal raised in it.
            raise KeyboardInterrupt from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            raise InsufficientRights("The database file may not be written.", detail=name) from None
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB")):
            raise DatabaseUnreachable("The database cannot be opened.", detail=name) from None
        if "already" in str(error):
            raise OutputExists(detail=name) from None
        raise DatabaseFailure("The database refused a statement.", detail=name) from None
