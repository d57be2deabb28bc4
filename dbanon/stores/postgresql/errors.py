"""Translate PostgreSQL's errors.

The server's text may quote a value, so only names of tables and columns are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from dbanon.errors import (
    Cancelled,
    ConnectionLost,
    DatabaseBusy,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    LedgerQuota,
    NonFiniteValue,
    OutputChanged,
    OutputExists,
    PoolerUnsuitable,
    ReadOnly,
    SourceChanged,
    UnsupportedType,
)
from dbanon.sessions.base import uncopyable_value_error

# Errors by a phrase in the message of a pooler, which is always in English.
_POOLER_ERRORS: tuple[tuple[str, Callable[[], DbanonError]], ...] = (
    (
        "statement pooling mode",
        lambda: PoolerUnsuitable(
            "The pooler in front of the database ends each transaction after one statement"
            " (pool_mode = statement), so runs are impossible through it.",
            hint="Use pool_mode = transaction or session, or connect to the server itself.",
        ),
    ),
    (
        "unsupported startup parameter",
        lambda: PoolerUnsuitable(
            "The pooler in front of the database does not accept a connection setting, such as"
            " options in the URL or PGOPTIONS.",
            hint="Leave the setting out, add it to ignore_startup_parameters of the pooler, or"
            " connect to the server itself.",
        ),
    ),
    (
        "query_wait_timeout",
        lambda: DatabaseUnreachable(
            "The pooler in front of the database had no free connection to the server.",
            hint="Raise default_pool_size of the pooler: each run needs a connection until its end,"
            " and each job a second one for its lock. Or try again later.",
        ),
    ),
)

READ_ONLY_HINT = (
    "Run it in a transaction that may write, on a server that is not a standby. See SHOW"
    " default_transaction_read_only."
)
# SQLSTATEs separated by spaces, error class, message (None: the class's default) and hint.
_ERRORS_BY_STATE: tuple[tuple[str, type[DbanonError], str | None, str | None], ...] = (
    ("25006", ReadOnly, None, READ_ONLY_HINT),
    ("42501", InsufficientRights, None, "See the minimum rights in docs/rights.md."),
    (
        "53100",
        DiskFull,
        "The disk of the PostgreSQL server is full; nothing was published.",
        "Make room on the server's disk: dbanon gc drops what earlier runs left."
        " Then run it again.",
    ),
    ("57014", Cancelled, "The database cancelled the run, or its time limit was reached.", None),
    ("55P03 40P01", DatabaseBusy, "A lock was not available in time.", "Try again later."),
    (
        "40001",
        SourceChanged,
        "Another session changed what this one reads or replaces.",
        "Try again.",
    ),
    ("42P01", SourceChanged, "Another session dropped a relation that is needed.", "Try again."),
    (
        "42703",
        SourceChanged,
        "Another session dropped or renamed a column that is needed.",
        "Try again.",
    ),
    # 42P06 is raised for a schema, and 23505 by an index of the catalog if two sessions create the
    # same name at once.
    (
        "42P06 42P07 42710 23505",
        OutputExists,
        "Another session created a relation of this name.",
        "Try again.",
    ),
    (
        "42P16",
        OutputChanged,
        None,
        "PostgreSQL cannot change a view's columns in place: drop the view, or choose another"
        " name.",
    ),
    (
        "2BP01",
        OutputChanged,
        "Other objects depend on the output, so it cannot be replaced.",
        "Release a view: it stays when its release is replaced.",
    ),
    # A database with the encoding SQL_ASCII can store any bytes.
    (
        "22021 22P05",
        UnsupportedType,
        "A text is not valid UTF-8, and its database declares no encoding.",
        "Convert the column in a view, as in convert_from(name::bytea, 'LATIN1').",
    ),
    ("42883", UnsupportedType, "A column's type has no equality operator.", None),
    ("22003", NonFiniteValue, "A quasi-identifier holds a value too large for float64.", None),
)
# Messages and hints for SQLSTATE 53400, by the constraint that dbanon's functions name when they
# raise it. The server itself raises it, without a constraint, for temp_file_limit.
_QUOTA_MESSAGES = {
    "dbanon_entries_a_day": (
        "This role has reached its daily limit of ledger entries.",
        "The owner of the database can allow more: ALTER DATABASE … SET dbanon.entries_a_day = …",
    ),
    "dbanon_rules_of_role": (
        "This role has declared rules for 100,000 columns, the limit per role.",
        "Remove rules of tables that are no longer released: dbanon.undeclare.",
    ),
}
# Functions installed by versions before 0.3.0 name no constraint. Their errors are recognized by
# the server's internal function that executes RAISE.
_RAISE_FUNCTION = "exec_stmt_raise"
# SQLSTATEs with a message to which the detail would add nothing.
_SELF_EXPLANATORY_STATES = ("57014", "42P01", "42P16", "2BP01", "22003")

# PostgreSQL's names for classes of SQLSTATEs.
_CLASS_NAMES = {
    "0A": "feature not supported",
    "21": "cardinality violation",
    "22": "data exception",
    "23": "integrity constraint violation",
    "25": "invalid transaction state",
    "27": "triggered data change violation",
    "28": "invalid authorization specification",
    "2B": "dependent privilege descriptors still exist",
    "2F": "SQL routine exception",
    "38": "external routine exception",
    "39": "external routine invocation exception",
    "3D": "invalid catalog name",
    "3F": "invalid schema name",
    "40": "transaction rollback",
    "42": "syntax error or access rule violation",
    "44": "WITH CHECK OPTION violation",
    "53": "insufficient resources",
    "54": "program limit exceeded",
    "55": "object not in prerequisite state",
    "57": "operator intervention",
    "58": "system error",
    "72": "snapshot failure",
    "F0": "configuration file error",
    "HV": "foreign data wrapper error",
    "P0": "raised by a function or a trigger in PL/pgSQL",
    "XX": "internal error",
}

# Classes of SQLSTATEs for errors while connecting: connection, authorization, database, resources,
# operator intervention.
_CONNECTION_CLASSES = ("08", "28", "3D", "53", "57")


@contextmanager
def translate_errors(
    on_connection_error: Callable[[Exception], DbanonError] | None = None,
) -> Iterator[None]:
    """Raise errors of the database as dbanon's own.

    Parameters
    ----------
    on_connection_error : builds the error to raise if connecting failed.
    """
    try:
        yield
    except Exception as error:
        # SQLAlchemy wraps the driver's errors. Do not import it: a backend does not have it.
        driver_error = getattr(error, "orig", error)
        if isinstance(error, DbanonError) or not _is_psycopg(driver_error):
            raise
        if pooler_error := translate_pooler_error(driver_error):
            try:
                raise pooler_error from None
            finally:
                # Avoid a reference cycle: the error's traceback refers to this frame.
                del pooler_error
        sqlstate = getattr(driver_error, "sqlstate", None)
        if on_connection_error is not None and (
            sqlstate is None or sqlstate[:2] in _CONNECTION_CLASSES
        ):
            raise on_connection_error(driver_error) from None
        raise translate_driver_error(driver_error) from None


def translate_pooler_error(error: object) -> DbanonError | None:
    """Translate an error of a pooler such as pgbouncer; None if the error is not a pooler's.

    Poolers use the same SQLSTATE for all of their errors.
    """
    if getattr(error, "sqlstate", None) not in (None, "08P01"):
        return None
    text = str(error)
    for phrase, build_error in _POOLER_ERRORS:
        if phrase in text:
            return build_error()
    return None


def translate_driver_error(error: object) -> DbanonError:
    """Translate an error of the driver."""
    sqlstate = getattr(error, "sqlstate", None)
    # Compare names of classes, since psycopg cannot be imported in a backend.
    class_names = {base.__name__ for base in type(error).__mro__}
    if sqlstate is None and "DataError" in class_names:
        return uncopyable_value_error()
    detail = f"SQLSTATE {sqlstate}" + _describe_objects(error) if sqlstate else None
    if sqlstate is None and "ProgrammingError" in class_names:
        return DatabaseFailure("The driver refused a statement.")
    # Class 08 has connection errors; 57P01 to 57P03 mean that the server stops or is starting.
    if sqlstate is None or sqlstate[:2] == "08" or sqlstate in ("57P01", "57P02", "57P03"):
        return ConnectionLost(detail=detail or type(error).__name__)
    if sqlstate == "53400":
        return _translate_limit_error(error)
    if sqlstate in _SELF_EXPLANATORY_STATES:
        detail = None
    for states, error_class, message, hint in _ERRORS_BY_STATE:
        if sqlstate in states.split():
            return error_class(message, detail=detail, hint=hint)
    class_name = _CLASS_NAMES.get(
        sqlstate[:2], "an error of the database's own functions or triggers"
    )
    return DatabaseFailure(
        f"The database refused a statement{_describe_objects(error)}: {class_name}"
        f" (SQLSTATE {sqlstate}).",
        detail=detail,
        hint="Look up the server's own message in its log. It may contain values of the table.",
    )


def _translate_limit_error(error: object) -> DbanonError:
    """Translate an error about a limit: of ledger entries, rules or temporary files."""
    diagnosis = getattr(error, "diag", None)
    constraint = getattr(diagnosis, "constraint_name", None)
    if getattr(diagnosis, "source_function", None) == _RAISE_FUNCTION:
        constraint = constraint or "dbanon_entries_a_day"
    detail = "SQLSTATE 53400"
    if constraint in _QUOTA_MESSAGES:
        message, hint = _QUOTA_MESSAGES[constraint]
        return LedgerQuota(message, detail=detail, hint=hint)
    return DiskFull(
        "The run needs larger temporary files than the PostgreSQL server allows this role"
        " (temp_file_limit); nothing was published.",
        detail=detail,
        hint="A superuser can allow more: ALTER ROLE … SET temp_file_limit = '16GB', or -1 for no"
        " limit. Then run it again.",
    )


def _describe_objects(error: object) -> str:
    """Return the names of the table, column and constraint of an error, in parentheses."""
    diagnosis = getattr(error, "diag", None)
    names = [
        f'{object_type} "{name}"'
        for object_type, name in (
            ("table", getattr(diagnosis, "table_name", None)),
            ("column", getattr(diagnosis, "column_name", None)),
            ("constraint", getattr(diagnosis, "constraint_name", None)),
        )
        if name
    ]
    return " (" + ", ".join(names) + ")" if names else ""


def _is_psycopg(error: object) -> bool:
    return type(error).__module__.partition(".")[0] == "psycopg"


@contextmanager
def translate_spi_errors() -> Iterator[None]:
    """Raise errors of SPI, through which a backend runs statements, as dbanon's own."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "spidata"):
            raise
        raise translate_spi_error(error) from None


def translate_spi_error(error: Any) -> DbanonError:
    """Translate an error of SPI without the server's text, which may quote values."""
    # PL/Python passes the fields in this order. Skip the detail, the hint and the query, which may
    # quote values.
    code, _, _, _, _, _, table, column, _, constraint = error.spidata
    # Decode the SQLSTATE, five characters of six bits each. (plpy has no error class for some
    # states.)
    sqlstate = "".join(chr((code >> 6 * index & 0x3F) + ord("0")) for index in range(5))
    diagnosis = SimpleNamespace(table_name=table, column_name=column, constraint_name=constraint)
    return translate_driver_error(SimpleNamespace(sqlstate=sqlstate, diag=diagnosis))


def translate_notice_error(error: Any) -> DbanonError:
    """Translate an error raised by ``plpy.notice``, ``plpy.warning`` or ``plpy.log``.

    The server may cancel a query while it sends a notice. Such an error has its fields as
    attributes, not in ``spidata``.
    """
    return translate_driver_error(SimpleNamespace(sqlstate=error.sqlstate, diag=error))
