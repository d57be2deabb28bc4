"""MariaDB's errors in dbanon's terms, without their text where it may quote a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.constants import CR
from sqlalchemy.exc import DBAPIError

from dbanon.errors import (
    AccessRefused,
    Cancelled,
    ConnectionLost,
    DatabaseBusy,
    DatabaseFailure,
    DatabaseNotFound,
    DatabaseUnreachable,
    DbanonError,
    InsufficientRights,
    InvalidName,
    InvalidParameter,
    OutputChanged,
    OutputExists,
    ReadOnly,
    SourceChanged,
    UnsupportedType,
)

LOST = frozenset([CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 1053, 1927, 4031])

READ_ONLY_HINT = (
    "Write to a server that is no replica, and where transactions may write. See SHOW VARIABLES"
    " LIKE '%read_only'."
)
_WIDER = "Cast the column to a wider type in a view, and anonymize the view."
# Numbers of MariaDB's: the error, its words where they are not those of whoever asked, its hint.
_KINDS: dict[int, tuple[type[DbanonError], str | None, str | None]] = {
    number: found
    for numbers, found in (
        ((1049,), (DatabaseNotFound, "There is no such database.", None)),
        ((1044, 1142, 1143, 1227, 1370),
         (InsufficientRights, None, "GRANT it to this account; docs/mariadb.md lists what a run"
          " needs.")),
        ((1045, 1698), (AccessRefused, None, None)),
        ((1205, 1213, 1969, 3024), (DatabaseBusy, None, "Try again later.")),
        ((1317,), (Cancelled, None, None)),
        ((1412, 1020),
         (SourceChanged, "The source was changed by another session while it was read.",
          "Run it again.")),
        ((1050,), (OutputExists, None, None)),
        ((1290, 1792, 1836), (ReadOnly, None, READ_ONLY_HINT)),
        ((1435,), (OutputChanged, "The output has a trigger, so it cannot be replaced.",
                   "Drop the trigger first: a release that nobody counted must not change.")),
        ((1451, 1217, 3730),
         (OutputChanged, "Other tables refer to the output, so it cannot be replaced.", None)),
        ((1406,), (UnsupportedType, "A label or value is longer than the column that it is"
                   " written to; nothing was published.", _WIDER)),
        ((1264, 1265, 1292, 1366, 1690, 3854),
         (UnsupportedType, "A value does not fit the type that it is written as.", _WIDER)),
        ((1059, 1103, 1166, 1102, 1300),
         (InvalidName, "MariaDB does not take the name of a table or column.",
          "Names have at most 64 characters of Unicode's first plane, and do not end with a"
          " space.")),
        ((1060,), (InvalidParameter, "The release would have two columns of one name: MariaDB"
                   " takes no notice of capitals in names of columns.", None)),
    )
    for number in numbers
}  # fmt: skip
# Of these the text names accounts, rights and tables alone.
_SHOWN = frozenset([1044, 1045, 1142, 1143, 1227, 1370, 1698])


def number_of(error: BaseException) -> int:
    """MariaDB's number of an error; 0 where it has none."""
    found = error.args[0] if error.args else 0
    return found if isinstance(found, int) else 0


@contextmanager
def translated(what: str = "The database refused a statement.") -> Iterator[None]:
    """Raise MariaDB's errors as dbanon's own."""
    try:
        yield
    except DbanonError:
        raise
    except (pymysql.err.Error, DBAPIError, OSError) as caught:
        error = caught.orig if isinstance(caught, DBAPIError) and caught.orig else caught
        number = number_of(error)
        detail = f"MariaDB's error {number}" if number else type(error).__name__
        if number in _SHOWN:
            detail += f": {error.args[1]}"
        if number in _KINDS:
            kind, message, hint = _KINDS[number]
            raise kind(message or what, detail=detail, hint=hint) from None
        if 2001 <= number <= 2005:
            raise DatabaseUnreachable(detail=detail) from None
        if number in LOST or isinstance(error, (pymysql.err.InterfaceError, OSError)):
            raise ConnectionLost(detail=detail) from None
        raise DatabaseFailure(what, detail=detail) from None
