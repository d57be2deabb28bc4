"""Take exclusive locks without blocking readers for long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dbanon.data.types import SqlRow
from dbanon.errors import (
    DatabaseBusy,
    InsufficientRights,
    JobRunning,
    OutputBusy,
    OutputExists,
    SourceChanged,
)
from dbanon.sessions.base import LockHolder, job_running_error
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql.ledger import PostgresqlLedger
from dbanon.stores.postgresql.settings import LOCK_SECONDS, lock_milliseconds, set_lock_timeout

# While a request for an exclusive lock waits, it blocks all later requests. So attempts are short,
# the first ones shortest, and readers can proceed in the pauses.
_ATTEMPT_TIMEOUTS_MS = (50, 100, 200, 400, 800)
_PAUSES_MS = (100, 200, 400, 800, 1000)


class SavepointConnection(Protocol):
    """Executes SQL in one transaction, with savepoints."""

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement."""

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        """Execute a query and return its rows."""

    def savepoint(self) -> AbstractContextManager[object]:
        """If the block raises, roll back only its own statements."""


# Parameters: schema, and name of a relation or NULL for all relations of the schema. Returns the
# sessions that hold locks on them: process id, role, start of the transaction.
_RELATION_HOLDERS = """
    SELECT l.pid, max(a.usename::text),
           to_char(max(a.xact_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    FROM pg_locks AS l
    JOIN pg_class AS c ON c.oid = l.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND n.nspname = ? AND c.relname = coalesce(?, c.relname)
    GROUP BY l.pid ORDER BY 3 NULLS LAST, 1 LIMIT 5"""


def run_with_retries(
    connection: SavepointConnection,
    statements: Sequence[str],
    relation: RelationName | str,
    timeout_seconds: float | None = None,
) -> None:
    """Run statements that need an exclusive lock; each attempt runs all of them.

    Parameters
    ----------
    relation : the relation to lock, or the name of a schema whose tables are locked.
    timeout_seconds : total time of all attempts; None for the session's lock timeout.

    Raises
    ------
    DatabaseBusy : readers held locks until the timeout.
    """
    started_at = time.monotonic()
    attempt = 0
    session_timeout_ms = _lock_timeout_ms(connection)
    timeout_seconds = session_timeout_ms / 1000 if timeout_seconds is None else timeout_seconds
    while True:
        index = min(attempt, len(_ATTEMPT_TIMEOUTS_MS) - 1)
        try:
            with connection.savepoint():
                attempt_timeout_ms = min(_ATTEMPT_TIMEOUTS_MS[index], session_timeout_ms)
                connection.run(set_lock_timeout(attempt_timeout_ms))
                for statement in statements:
                    connection.run(statement)
                connection.run(set_lock_timeout(session_timeout_ms))
            return
        except DatabaseBusy as error:
            if time.monotonic() - started_at > timeout_seconds:
                raise _busy_error(connection, relation, timeout_seconds, error.detail) from None
        # Sleep on the server, so that cancelling the statement ends the pause.
        connection.run(f"SELECT pg_sleep({_PAUSES_MS[index]} / 1000.0)")
        attempt += 1


def _lock_timeout_ms(connection: SavepointConnection) -> int:
    """Return this session's lock timeout in ms."""
    [(setting,)] = connection.rows("SELECT current_setting('lock_timeout')")
    return lock_milliseconds(setting)


def lock_schema(
    connection: SavepointConnection, schema: str, timeout_seconds: float = LOCK_SECONDS
) -> None:
    """Lock all tables of a schema exclusively, so that any of them can be changed.

    Raises
    ------
    DatabaseBusy : other sessions held locks until the timeout.
    InsufficientRights : a table belongs to another role.
    """
    tables = connection.rows(
        "SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relkind = 'r' ORDER BY c.oid",
        (schema,),
    )
    if tables:
        names = ", ".join(f"ONLY {RelationName(schema, name).quoted}" for (name,) in tables)
        lock = f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"
        run_with_retries(connection, [lock], schema, timeout_seconds)


def _busy_error(
    connection: SavepointConnection,
    relation: RelationName | str,
    timeout_seconds: float,
    detail: str | None,
) -> DatabaseBusy:
    """Build the error for a lock timeout; it names the lock holders that this role may see.

    Parameters
    ----------
    relation : a relation, or the name of a schema.
    """
    if isinstance(relation, RelationName):
        schema_and_name: tuple[str | None, str | None] = relation.schema, relation.name
    else:
        schema_and_name = relation, None
    holders = [LockHolder(*row) for row in connection.rows(_RELATION_HOLDERS, schema_and_name)]
    holder_sentence = " It is held by " + "; ".join(map(str, holders)) + "." if holders else ""
    subject = relation if isinstance(relation, RelationName) else f"The schema {relation}"
    return DatabaseBusy(
        f"{subject} was not available within {timeout_seconds:g} seconds: readers hold locks on"
        f" it in open transactions.{holder_sentence}",
        detail=detail,
        hint="End these transactions (pg_stat_activity shows them; pg_terminate_backend ends one),"
        " or try again later.",
    )


# SQL of the key of an output's advisory lock. Parameter: quoted name of the output.
_OUTPUT_KEY = "hashtextextended('dbanon output ' || ?, 0)"
# Any role can take an advisory lock. It only counts if its holder could create a relation with this
# name: such a role could block the name anyway. pg_locks shows a key of 64 bits as two halves
# (classid, objid), with objsubid 1. Parameters: quoted name and schema of the output.
_OUTPUT_HOLDERS = f"""
    SELECT l.pid, a.usename::text
    FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.granted AND l.pid <> pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (l.classid::bigint << 32 | l.objid::bigint) = {_OUTPUT_KEY}
      AND EXISTS (
          SELECT FROM pg_roles AS r
          WHERE pg_has_role(a.usesysid, r.oid, 'MEMBER')
            AND coalesce(
                (SELECT has_schema_privilege(r.oid, n.oid, 'CREATE')
                 FROM pg_namespace AS n WHERE n.nspname = ?),
                has_database_privilege(r.oid, l.database, 'CREATE')))
    LIMIT 1"""


def lock_output(connection: SavepointConnection, name: RelationName) -> None:
    """Lock an output until the transaction ends, without waiting.

    Locks of roles that could not create the output are ignored.

    Raises
    ------
    OutputBusy : another run holds the lock.
    """
    if connection.rows(f"SELECT pg_try_advisory_xact_lock({_OUTPUT_KEY})", (name.quoted,))[0][0]:
        return
    holders = connection.rows(_OUTPUT_HOLDERS, (name.quoted, name.schema))
    if holders:
        raise OutputBusy(
            f"Another run is writing {name}: {LockHolder(*holders[0])}.",
            hint="Wait until it is done, then try again.",
        )


# The application name shows the running job to other sessions: all roles can see it, and only the
# session itself can change it.
_APPLICATION_NAME = "'dbanon job ' || left(md5(?), 16)"
_SET_APPLICATION_NAME = (
    f"SELECT set_config('application_name', {_APPLICATION_NAME} || ' since ' ||"
    " to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), true)"
)

# A job has two locks. The runner lock is a row in the table of runs; only roles that may run jobs,
# called runners, can take it. The advisory lock can be taken by any role, even without a ledger.
# These queries return whether this role may take the runner lock by calling a function, and whether
# it may by writing the table. The catalog is readable without rights on the schema.
_MAY_CALL_HOLD_JOB = """
    SELECT has_function_privilege(p.oid, 'EXECUTE') AND has_schema_privilege(n.oid, 'USAGE')
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = '_hold_job'
      AND oidvectortypes(p.proargtypes) = 'text'"""
_MAY_WRITE_RUNS = """
    SELECT has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE')
       AND has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'dbanon' AND c.relname = 'run'"""

# Key of the row of dbanon.run that is a job's runner lock: a UUID of version 8 (the 13th digit), so
# it differs from the ids of runs, which have version 4. sql/functions/_hold_job.sql computes the
# same key.
_LOCK_ROW_KEY = "overlay(md5('dbanon job ' || ?) PLACING '8' FROM 13 FOR 1)::uuid"
_LOCK_ROW_STATEMENTS = (
    f"DELETE FROM dbanon.run WHERE run_id = {_LOCK_ROW_KEY} AND state = 'lock'",
    "INSERT INTO dbanon.run (run_id, door, method, source, output_name, started_at, state, run_by)"
    f" VALUES ({_LOCK_ROW_KEY}, 'job', '', '', '', clock_timestamp(), 'lock', session_user)",
)
_ADVISORY_KEY = "hashtextextended('dbanon job ' || ?, 0)"

# Parameter: name of a job. Returns the sessions that hold locks: process id, role, start of the
# job, and whether the role may run jobs. The start is the part of the application name from the
# 35th character on.
_JOB_HOLDERS = f"""
    SELECT l.pid, a.usename::text,
           CASE WHEN a.application_name LIKE {_APPLICATION_NAME} || ' since %'
                THEN substr(a.application_name, 35) || ' UTC' END,
           a.usename = current_user OR EXISTS (
               SELECT FROM pg_namespace AS n
               WHERE n.nspname = 'dbanon' AND pg_has_role(a.usesysid, n.nspowner, 'MEMBER'))
           OR EXISTS (
               SELECT FROM pg_roles AS r
               WHERE r.rolname IN ('dbanon_runner', 'dbanon_admin')
                 AND pg_has_role(a.usesysid, r.oid, 'MEMBER'))
    FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.granted AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
# Holders of a runner lock. The row of an open transaction is invisible, so these are the sessions
# with a write lock on the table whose application name shows the job.
_ROW_HOLDERS = (
    f"{_JOB_HOLDERS} AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'"
    " AND l.relation = (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n"
    " ON n.oid = c.relnamespace WHERE n.nspname = 'dbanon' AND c.relname = 'run')"
    f" AND a.application_name LIKE {_APPLICATION_NAME} || ' since %'"
    " ORDER BY a.application_name DESC"
)
_ADVISORY_HOLDERS = (
    f"{_JOB_HOLDERS} AND l.locktype = 'advisory' AND l.objsubid = 1"
    f" AND (l.classid::bigint << 32 | l.objid::bigint) = {_ADVISORY_KEY}"
)
# Number of attempts to take the advisory lock: its holder may release it before it is looked up.
_ADVISORY_ATTEMPTS = 3
_LOCK_ROW_TIMEOUT_MS = 200


def hold_job(connection: SavepointConnection, ledger: PostgresqlLedger, job: str) -> None:
    """Hold the locks of a job until the transaction of ``connection`` ends.

    Parameters
    ----------
    job : name of the job.

    Raises
    ------
    JobRunning : another transaction holds one of them.
    LedgerNotTrusted : taking a lock could run code of another role.
    DatabaseBusy : the ledger is being migrated.
    """
    connection.rows(_SET_APPLICATION_NAME, (job,))
    holds_runner_lock = ledger.exists() and _hold_runner_lock(connection, ledger, job)
    for _ in range(_ADVISORY_ATTEMPTS):
        if connection.rows(f"SELECT pg_try_advisory_xact_lock({_ADVISORY_KEY})", (job,))[0][0]:
            return
        holders = connection.rows(_ADVISORY_HOLDERS, (job, job))
        if holders and holds_runner_lock and not any(may_run for *_, may_run in holders):
            # Any role can take an advisory lock. Ignore it if its holder may not run jobs.
            return
        if holders:
            raise _job_running_error(job, holders)
    raise job_running_error(job)


def _hold_runner_lock(connection: SavepointConnection, ledger: PostgresqlLedger, job: str) -> bool:
    """Take the runner lock of a job.

    Returns False if this role may not take it, or if it cannot read the ledger, or if the ledger is
    not up to date.

    Raises
    ------
    JobRunning : another transaction holds it.
    """
    ledger.require_trusted()
    # Do not lock a row of an older ledger: the run will migrate it, which needs exclusive locks.
    # The advisory lock alone protects the job then.
    if not _can_read_current_ledger(connection, ledger):
        return False
    if connection.rows(_MAY_CALL_HOLD_JOB) == [(True,)]:
        acquired = connection.rows("SELECT dbanon._hold_job(?)", (job,))[0][0]
    elif connection.rows(_MAY_WRITE_RUNS) == [(True,)]:
        connection.run("LOCK TABLE ONLY dbanon.run IN ROW EXCLUSIVE MODE")
        acquired = _write_lock_row(connection, job)
    else:
        return False
    if not acquired:
        raise _job_running_error(job, connection.rows(_ROW_HOLDERS, (job, job)))
    return True


def _can_read_current_ledger(connection: SavepointConnection, ledger: PostgresqlLedger) -> bool:
    """Return True if this role can read the ledger and it is up to date; keeps no locks."""
    connection.run("SAVEPOINT dbanon_look")
    try:
        return ledger.is_current()
    except InsufficientRights:
        return False
    finally:
        connection.run("ROLLBACK TO SAVEPOINT dbanon_look")


def _write_lock_row(connection: SavepointConnection, job: str) -> bool:
    """Take the runner lock as ``dbanon._hold_job`` does; False if another session holds it."""
    session_timeout_ms = _lock_timeout_ms(connection)
    try:
        with connection.savepoint():
            connection.run(set_lock_timeout(min(_LOCK_ROW_TIMEOUT_MS, session_timeout_ms)))
            for statement in _LOCK_ROW_STATEMENTS:
                connection.run(statement, (job,))
            connection.run(set_lock_timeout(session_timeout_ms))
    except (DatabaseBusy, OutputExists, SourceChanged):
        # While another session's row is not committed, the statements wait for it, until the
        # timeout. If it is committed, they fail by a duplicate key, which is translated to
        # OutputExists, or by a concurrent change.
        return False
    return True


def _job_running_error(job: str, holders: Sequence[SqlRow]) -> JobRunning:
    if not holders:
        return job_running_error(job)
    pid, role, since, _ = holders[0]
    how_to_end = f" SELECT pg_terminate_backend({pid}) ends one that hangs, and releases the lock."
    return job_running_error(job, LockHolder(pid, role, since), how_to_end)
