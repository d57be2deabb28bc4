"""The entry point of the procedures ``dp_ranks`` and ``dp_marginals`` inside PostgreSQL.

A call commits its transaction, so a caller cannot undo it. It sets the search path in its first
statement and again after each commit, since a new transaction starts with the caller's settings.
The SQL procedure raises the error that ``synthetic`` returns.
"""

from __future__ import annotations

import json
import shlex
import sys
import uuid
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.types import JsonMapping, KeywordArguments
from dbanon.doors.backend_limit import apply_backend_limits
from dbanon.doors.plpython_options import (
    check_private_options,
    error_to_json,
    messages_of,
    require_version,
    to_dbanon_error,
)
from dbanon.doors.spelling import spell_sql_option
from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    SchemaCreated,
    SourceChanged,
    TransactionOpen,
)
from dbanon.errors.extras import quote_requirements
from dbanon.extensions.synthesis.plan import PrivatePlan, plan_private
from dbanon.extensions.synthesis.run import MAX_SPEND_ATTEMPTS, Spender, release, spend
from dbanon.hierarchy.spec import parse_all
from dbanon.job.private import build_private_job
from dbanon.ledger.budgets import RecordedBudget
from dbanon.sessions.session import Session
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.errors import translate_spi_error
from dbanon.stores.postgresql.settings import FUNCTION_SETTINGS

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython

# Qualify all names: the caller's search path may start with functions of any user.
_SET_SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
# The procedure's own arguments; all other options are in its argument ``options``, as JSON.
_ARGUMENT_NAMES = frozenset(
    ("output", "quasi_identifiers", "epsilon", "bounds", "budget", "entity", "null_as", "if_exists")
)
# SQLSTATE invalid_transaction_termination.
_INVALID_TERMINATION = "2D000"


def synthetic(plpy: PlPython, sql_version: str, method: str, arguments: JsonMapping) -> str | None:
    """Make a synthetic release. Return None, or the error as JSON text after a rollback.

    Parameters
    ----------
    method : ``dp_ranks`` or ``dp_marginals``.
    arguments : the procedure's arguments by name; ``source`` is the OID of the table.
    """
    try:
        require_version(sql_version)
        _Call(plpy, method, arguments).run()
        return None
    except Exception as failure:
        refusal = to_dbanon_error(plpy, failure)
        if isinstance(refusal, MissingDependency):
            refusal.hint = _build_server_hint()
    # Roll back even if the caller ignores the error. If a rollback is not allowed, the call failed
    # before it changed anything.
    with suppress(Exception):
        plpy.rollback()
    # Hints name options in a neutral notation; write them as arguments of the procedure.
    return json.dumps(
        error_to_json(refusal, lambda name, value: spell_sql_option(name, value, _ARGUMENT_NAMES))
    )


def _build_server_hint() -> str:
    """Return the command that installs OpenDP where this server imports dbanon from."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # The folder that contains the package ``dbanon``.
    directory = shlex.quote(str(Path(__file__).parents[3]))
    return (
        f"On the server's machine run: sudo {python} -m pip install --target {directory}"
        f" {quote_requirements('dp')}"
    )


class _Call:
    """A call of a procedure; ``method`` is the name of both the procedure and its method."""

    def __init__(self, plpy: PlPython, method: str, arguments: JsonMapping) -> None:
        self._plpy, self._method, self._arguments = plpy, method, arguments
        self._source_oid = 0

    def run(self) -> None:
        """Check the call, spend epsilon and commit, then release in the call's last transaction."""
        if self._arguments["source"] is None:
            raise InvalidParameter("source must not be NULL.")
        # Fail early if the call may not commit: PostgreSQL refuses that inside the caller's
        # transaction.
        self._commit()
        self._plpy.execute(_SET_SEARCH_PATH)
        self._source_oid = int(self._arguments["source"])
        session = self._open_session()
        # The release stages rows in temporary tables, which must not exist yet.
        session.require_no_staging()
        options = self._read_options() | {
            "table": str(session.catalog.find_source_name()),
            "method": self._method,
            "door": "sql",
        }
        private_plan = plan_private(build_private_job(options), session, str(uuid.uuid4()))
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always", SchemaCreated)
            report = release(Spender(private_plan, self._spend_and_commit))
        for message in messages_of(caught_warnings, SchemaCreated):
            self._plpy.warning(message)
        names = ", ".join(f'"{name}"' for name in report.not_copied)
        if names:
            self._plpy.notice(
                f"dbanon: columns left out, because the call does not name them: {names}"
            )
        self._plpy.notice(
            f"dbanon: {report.output}, {report.rows_out} synthetic rows, release"
            f" {report.release_id}; {report.spent:g} of {report.total:g}"
            f"{'' if report.rho is None else ' (rho)'} of budget {report.budget} is spent"
        )

    def _read_options(self) -> KeywordArguments:
        """Check arguments and options, and return them by name."""
        arguments = {
            name: value for name, value in self._arguments.items() if name in _ARGUMENT_NAMES
        }
        for name in ("bounds", "null_as"):
            arguments[name] = None if arguments[name] is None else json.loads(arguments[name])
        for name in ("quasi_identifiers", "output"):
            if arguments[name] is None:
                raise InvalidParameter(f"{name} must not be NULL.")
        options = json.loads(self._arguments["options"] or "{}")
        if not isinstance(options, dict):
            raise InvalidParameter("options must be a JSON object.")
        # Raises an error for unknown options, and for those that the procedure has as arguments.
        checked_options = check_private_options(options, _ARGUMENT_NAMES)
        # Callers must not read files of the server.
        checked_options["hierarchies"] = parse_all(checked_options.get("hierarchies"), files=False)
        memory_bytes = apply_backend_limits(self._plpy, checked_options)
        # ``memory_bytes`` replaces the option: it is the lower one of the option and the server's
        # limit.
        checked_options.pop("memory_limit", None)
        return {**arguments, **checked_options, "memory_limit": memory_bytes}

    def _open_session(self) -> PlpySession:
        """Open a session in the new transaction, whose search path is set."""
        for name, value in FUNCTION_SETTINGS:
            self._plpy.execute(f"SELECT pg_catalog.set_config('{name}', '{value}', true)")
        limit_locks(self._plpy)
        session = PlpySession(self._plpy, self._source_oid)
        # Raises TableNotFound if there is no such table; it may have been dropped since a commit.
        session.catalog.find_source_name()
        return session

    def _spend_and_commit(self, private_plan: PrivatePlan) -> tuple[RecordedBudget, Session]:
        """Spend epsilon and commit.

        Returns the budget after spending, and a session of the next transaction, which has a fresh
        snapshot.
        """
        for attempt in range(MAX_SPEND_ATTEMPTS):
            try:
                spent_budget = spend(self._open_session(), private_plan)
                self._commit()
                break
            except SourceChanged:
                # Another session spent concurrently, which this snapshot does not show.
                if attempt + 1 == MAX_SPEND_ATTEMPTS:
                    raise
                self._plpy.rollback()
                self._plpy.execute(_SET_SEARCH_PATH)
        self._plpy.execute(_SET_SEARCH_PATH)
        session = self._open_session()
        if session.catalog.find_source_name() != private_plan.relation.name:
            raise SourceChanged(
                f"{private_plan.relation.name} was renamed after epsilon was spent. The epsilon"
                " stays spent."
            )
        return spent_budget, session

    def _commit(self) -> None:
        """Commit the transaction; raises TransactionOpen if the caller began it."""
        try:
            self._plpy.commit()
        except Exception as error:
            sqlstate = getattr(error, "sqlstate", None)
            if sqlstate == _INVALID_TERMINATION:
                raise TransactionOpen(
                    "A transaction is open, and could be rolled back after someone has read the"
                    " release.",
                    hint=f"CALL dbanon.{self._method} without BEGIN, and not inside a function.",
                ) from None
            if hasattr(error, "spidata"):
                raise translate_spi_error(error) from None
            raise
