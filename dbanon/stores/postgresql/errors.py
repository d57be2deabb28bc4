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

# Messages of poolers, which are always in English.
_POOLER_MESSAGES: tuple[tuple[str, Callable[[], DbanonError]], ...] = (
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
# Error class, message (None: that of the class) and hint by SQLSTATE.
_MESSAGES: tuple[tuple[str, type[DbanonError], str | None, str | None], ...] = (
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
    # 42P06 is for a schema. 23505 comes from the catalog's index if two sessions raced.
    (
        "42P06 42P07 42710 23505",
        OutputExists,
        "Another session made a relation of this name.",
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
        "A text holds bytes that are no UTF-8, and its database knows no encoding.",
        "Convert the column in a view, as in convert_from(name::bytea, 'LATIN1').",
    ),
    ("42883", UnsupportedType, "A column's type has no equality.", None),
    ("22003", NonFiniteValue, "A quasi-identifier holds a value too large for float64.", None),
)
# Messages by the constraint that dbanon's functions name with SQLSTATE 53400. The server itself
# raises it for temp_file_limit.
_QUOTAS = {
    "dbanon_entries_a_day": (
        "This role has written as many entries of the ledger within a day as one may.",
        "The owner of the database can allow more: ALTER DATABASE … SET dbanon.entries_a_day = …",
    ),
    "dbanon_rules_of_role": (
        "This role has declared rules of 100,000 columns, which is all that one may.",
        "Remove rules of tables that are not released any more: dbanon.undeclare.",
    ),
}
# Functions of versions before 0.3.0 name no constraint; this source function identifies them.
_RAISED = "exec_stmt_raise"
# SQLSTATEs whose message needs no detail.
_SAY_ENOUGH = ("57014", "42P01", "42P16", "2BP01", "22003")

# PostgreSQL's names for classes of SQLSTATEs.
_CLASSES = {
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

# Classes of SQLSTATEs while connecting: rights, databases, resources, intervention.
_CONNECTING = ("08", "28", "3D", "53", "57")


@contextmanager
def translate_errors(
    on_connection_error: Callable[[Any], DbanonError] | None = None,
) -> Iterator[None]:
    """Raise errors of the database as dbanon's own.

    Parameters
    ----------
    on_connection_error : builds the error if connecting failed.
    """
    try:
        yield
    except Exception as error:
        # SQLAlchemy wraps the driver's errors. It is not imported, as it is missing in a backend.
        original = getattr(error, "orig", error)
        if isinstance(error, DbanonError) or not _is_psycopg(original):
            raise
        if refusal := pooler_error(original):
            try:
                raise refusal from None
            finally:
                del refusal
        state = getattr(original, "sqlstate", None)
        if on_connection_error is not None and (state is None or state[:2] in _CONNECTING):
            raise on_connection_error(original) from None
        raise translation(original) from None


def pooler_error(error: Any) -> DbanonError | None:
    """Translate an error of a pooler such as pgbouncer, which uses one SQLSTATE for all."""
    if getattr(error, "sqlstate", None) not in (None, "08P01"):
        return None
    text = str(error)
    for words, refusal in _POOLER_MESSAGES:
        if words in text:
            return refusal()
    return None


def translation(error: Any) -> DbanonError:
    """Translate an error of the driver."""
    state = getattr(error, "sqlstate", None)
    # Compare class names, since a backend has no psycopg.
    kinds = {base.__name__ for base in type(error).__mro__}
    if state is None and "DataError" in kinds:
        return uncopyable_value_error()
    detail = f"SQLSTATE {state}" + _object_names(error) if state else None
    if state is None and "ProgrammingError" in kinds:
        return DatabaseFailure("The driver refused a statement.")
    if state is None or state[:2] == "08" or state in ("57P01", "57P02", "57P03"):
        return ConnectionLost(detail=detail or type(error).__name__)
    if state == "53400":
        return _limit_error(error)
    for states, kind, message, hint in _MESSAGES:
        if state in states.split():
            return kind(message, detail=None if state in _SAY_ENOUGH else detail, hint=hint)
    kind_of_state = _CLASSES.get(state[:2], "an error of the database's own functions or triggers")
    return DatabaseFailure(
        f"The database refused a statement{_object_names(error)}: {kind_of_state}"
        f" (SQLSTATE {state}).",
        detail=detail,
        hint="Look up the server's own message in its log. It may contain values of the table.",
    )


def _limit_error(error: Any) -> DbanonError:
    """Translate an error for a limit of dbanon's functions or of temporary files."""
    diagnosis = getattr(error, "diag", None)
    constraint = getattr(diagnosis, "constraint_name", None)
    if getattr(diagnosis, "source_function", None) == _RAISED:
        constraint = constraint or "dbanon_entries_a_day"
    detail = "SQLSTATE 53400"
    if constraint in _QUOTAS:
        message, hint = _QUOTAS[constraint]
        return LedgerQuota(message, detail=detail, hint=hint)
    return DiskFull(
        "The run needs larger temporary files than the PostgreSQL server allows this role"
        " (temp_file_limit); nothing was published.",
        detail=detail,
        hint="A superuser can allow more: ALTER ROLE … SET temp_file_limit = '16GB', or -1 for no"
        " limit. Then run it again.",
    )


def _object_names(error: Any) -> str:
    diagnosis = getattr(error, "diag", None)
    named = [
        f'{kind} "{name}"'
        for kind, name in (
            ("table", getattr(diagnosis, "table_name", None)),
            ("column", getattr(diagnosis, "column_name", None)),
            ("constraint", getattr(diagnosis, "constraint_name", None)),
        )
        if name
    ]
    return " (" + ", ".join(named) + ")" if named else ""


def _is_psycopg(error: object) -> bool:
    return type(error).__module__.partition(".")[0] == "psycopg"


@contextmanager
def translate_spi_errors() -> Iterator[None]:
    """Raise SPI's errors as dbanon's own. A cancel becomes ``Cancelled``, which is not caught."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "spidata"):
            raise
        raise spi_error(error) from None


def spi_error(error: Any) -> DbanonError:
    """Translate an error of SPI without the server's text, which may quote values."""
    code, _, _, _, _, _, table, column, _, constraint = error.spidata
    # Five characters of six bits each; plpy lacks classes for some SQLSTATEs.
    state = "".join(chr((code >> 6 * index & 0x3F) + ord("0")) for index in range(5))
    names = SimpleNamespace(table_name=table, column_name=column, constraint_name=constraint)
    return translation(SimpleNamespace(sqlstate=state, diag=names))


def notice_error(error: Any) -> DbanonError:
    """Translate an error that a notice, warning or log entry of plpy raised."""
    return translation(SimpleNamespace(sqlstate=error.sqlstate, diag=error))
