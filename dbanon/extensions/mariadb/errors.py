"""Translation of MariaDB's errors to DbanonError.

The server's text is left out if it may quote a value.
"""

from __future__ import annotations

import re
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
    DiskFull,
    InsufficientRights,
    InvalidName,
    InvalidParameter,
    OutputChanged,
    OutputExists,
    ReadOnly,
    SourceChanged,
    UnsupportedType,
)

# Codes of errors after which the connection is unusable: 1053 is a shutdown, and 1927 a killed
# connection. On MySQL 4031 is an idle timeout.
CONNECTION_LOST = frozenset([CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 1053, 1927, 4031])

READ_ONLY_HINT = (
    "Write to a server that is not a replica and accepts write transactions. See SHOW VARIABLES"
    " LIKE '%read_only'."
)
PASSWORD_HINT = (
    "Passwords come from ~/.my.cnf (mode 0600, group [client]), from MYSQL_PWD, or from ${VAR} in"
    " the URL of a job file. Check account and host in the URL."
)
_WIDER_TYPE_HINT = "Cast the column to a wider type in a view, and anonymize the view."
_DISK_SPACE_HINT = (
    "Make room on the server's disk and in its tmpdir: dbanon gc drops what earlier runs left. Then"
    " run it again."
)
_DISK_FULL_CODE = 1021
# Error class, message and hint, by MariaDB's error code. If the message is None, the default
# message of ``translate_errors`` applies.
_ERRORS_BY_CODE: dict[int, tuple[type[DbanonError], str | None, str | None]] = {
    code: translation
    for codes, translation in (
        ((1049,), (DatabaseNotFound, "There is no such database.", None)),
        (
            (1044,),
            (
                InsufficientRights,
                "The account may not use this database.",
                "GRANT it the rights of docs/mariadb.md on the database, or name another one in the"
                " URL.",
            ),
        ),
        (
            (1040, 1203, 1226),
            (
                DatabaseUnreachable,
                "The server has no connection left for this account.",
                "Try again later.",
            ),
        ),
        (
            (1142, 1143, 1227, 1370),
            (
                InsufficientRights,
                None,
                "GRANT it to this account; docs/mariadb.md lists the rights that a run needs.",
            ),
        ),
        (
            (1045, 1698, 1862, 1820, 4151),
            (
                AccessRefused,
                "The server refused the login: the account does not exist, or its password is"
                " wrong or missing.",
                PASSWORD_HINT,
            ),
        ),
        (
            (1129, 1130),
            (
                AccessRefused,
                "The server accepts no account from this machine.",
                "Ask its administrator for an account with this machine as its host.",
            ),
        ),
        # A lock timeout, a deadlock, and two time limits of statements.
        ((1205, 1213, 1969, 3024), (DatabaseBusy, None, "Try again later.")),
        (
            (_DISK_FULL_CODE, 1114),
            (
                DiskFull,
                "The disk of the MariaDB server is full, or a table has reached its maximum size;"
                " nothing was published.",
                _DISK_SPACE_HINT,
            ),
        ),
        ((1317,), (Cancelled, None, None)),
        (
            (1412, 1020),
            (
                SourceChanged,
                "The source was changed by another session while it was read.",
                "Run it again.",
            ),
        ),
        ((1050,), (OutputExists, None, None)),
        ((1290, 1792, 1836), (ReadOnly, None, READ_ONLY_HINT)),
        (
            (1435,),
            (
                OutputChanged,
                "The output has a trigger, so it cannot be replaced.",
                "Drop the trigger first: it could change a release after it was counted.",
            ),
        ),
        (
            (1451, 1217, 3730),
            (OutputChanged, "Other tables refer to the output, so it cannot be replaced.", None),
        ),
        (
            (1406,),
            (
                UnsupportedType,
                "A label or value is longer than its column allows; nothing was published.",
                _WIDER_TYPE_HINT,
            ),
        ),
        (
            (1264, 1265, 1292, 1366, 1690, 3854),
            (UnsupportedType, "A value does not fit the type of its column.", _WIDER_TYPE_HINT),
        ),
        (
            (1059, 1103, 1166, 1102, 1300),
            (
                InvalidName,
                "MariaDB does not accept the name of a table or column.",
                "Names have at most 64 characters of Unicode's first plane, and do not end with a"
                " space.",
            ),
        ),
        (
            (1060,),
            (
                InvalidParameter,
                "The release would have two columns of the same name: MariaDB ignores case in"
                " names of columns.",
                None,
            ),
        ),
    )
    for code in codes
}
# Codes of errors whose text only names accounts, rights and tables, so that users may see it.
_SAFE_TEXT_CODES = frozenset([1044, 1045, 1142, 1143, 1227, 1370, 1698, 1129, 1130, 1862, 4151])


def error_code(error: BaseException) -> int:
    """Return MariaDB's code of an error; 0 if it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def _is_disk_full(error: BaseException) -> bool:
    """Return True if an error was caused by a full disk, whatever code the server gave it."""
    message = str(error.args[1]) if len(error.args) > 1 else ""
    return bool(re.search(r"\b(errno:|Errcode:|error) 28\b", message)) or DiskFull.caused_by(error)


@contextmanager
def translate_errors(default_message: str = "The database refused a statement.") -> Iterator[None]:
    """Translate MariaDB's errors to DbanonError.

    Parameters
    ----------
    default_message : the message for errors without a more specific one.
    """
    try:
        yield
    except DbanonError:
        raise
    except (pymysql.err.Error, DBAPIError, OSError) as caught:
        error = caught.orig if isinstance(caught, DBAPIError) and caught.orig else caught
        code = error_code(error)
        detail = f"MariaDB's error {code}" if code else type(error).__name__
        if code in _SAFE_TEXT_CODES:
            detail += f": {error.args[1]}"
        # The server also reports a full disk by general codes, such as that of a failed write.
        if code not in _ERRORS_BY_CODE and _is_disk_full(error):
            code = _DISK_FULL_CODE
        if code in _ERRORS_BY_CODE:
            error_class, message, hint = _ERRORS_BY_CODE[code]
            raise error_class(message or default_message, detail=detail, hint=hint) from None
        # The client library's codes for servers that cannot be reached.
        if 2001 <= code <= 2005:
            raise DatabaseUnreachable(detail=detail) from None
        if code in CONNECTION_LOST or isinstance(error, (pymysql.err.InterfaceError, OSError)):
            raise ConnectionLost(detail=detail) from None
        raise DatabaseFailure(default_message, detail=detail) from None
