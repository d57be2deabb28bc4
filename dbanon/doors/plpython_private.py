"""The entry point of the procedures ``dp_ranks`` and ``dp_marginals`` inside PostgreSQL.

A call commits, so it cannot be undone. It sets the search path in its first statement and after
each commit, since the caller's settings apply until then. The procedure raises the returned error.
"""

from __future__ import annotations

import json
import shlex
import sys
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dbanon.doors.backend_limit import memory_of_call
from dbanon.doors.plpython_options import (
    keys_of_private,
    messages_of,
    plain_error,
    refusal_of,
    require_version,
)
from dbanon.doors.spelling import in_sql
from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    SchemaCreated,
    SourceChanged,
    TransactionOpen,
)
from dbanon.errors.extras import quoted_requirements
from dbanon.hierarchy.spec import parse_all
from dbanon.job.private import private_job
from dbanon.ledger.budgets import RecordedBudget
from dbanon.run.private import MAX_SPEND_ATTEMPTS, Spender, release, spend
from dbanon.run.private_begin import PrivatePlan, plan_private
from dbanon.sessions.session import Session
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.errors import spi_error
from dbanon.stores.postgresql.settings import FUNCTION_SETTINGS

# Qualify all names: the caller's search path may start with anyone's functions.
_PATH = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
_ARGUMENTS = frozenset(
    ("output", "quasi_identifiers", "epsilon", "bounds", "budget", "entity", "null_as", "if_exists")
)
_TERMINATION = "2D000"


def synthetic(plpy: Any, sql_version: str, method: str, arguments: Mapping[str, Any]) -> str | None:
    """Run the call of a method. Return None, or the error as JSON text after a rollback."""
    try:
        require_version(sql_version)
        _Call(plpy, method, arguments).run()
        return None
    except Exception as failure:
        refusal = refusal_of(plpy, failure)
        if isinstance(refusal, MissingDependency):
            refusal.hint = _server_hint()
    # Roll back even if the caller ignores the error. A call that may not has done nothing.
    with suppress(Exception):
        plpy.rollback()
    return json.dumps(plain_error(refusal, lambda name, value: in_sql(name, value, _ARGUMENTS)))


def _server_hint() -> str:
    """Return the command that installs OpenDP where this server imports dbanon from."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    directory = shlex.quote(str(Path(__file__).parents[2]))
    return (
        f"On the server's machine run: sudo {python} -m pip install --target {directory}"
        f" {quoted_requirements('dp')}"
    )


class _Call:
    """A call of the procedure."""

    def __init__(self, plpy: Any, method: str, arguments: Mapping[str, Any]) -> None:
        self._plpy, self._method, self._arguments = plpy, method, arguments
        self._oid = 0

    def run(self) -> None:
        """Check the call, spend and commit, then release in the call's last transaction."""
        if self._arguments["source"] is None:
            raise InvalidParameter("source must not be NULL.")
        # Find out early whether the call may commit at all.
        self._commit()
        self._plpy.execute(_PATH)
        self._oid = int(self._arguments["source"])
        session = self._session()
        session.require_no_staging()
        options = self._options() | {
            "table": str(session.source_name()),
            "method": self._method,
            "door": "sql",
        }
        prepared = plan_private(private_job(options), session, str(uuid.uuid4()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SchemaCreated)
            report = release(Spender(prepared, self._transaction))
        for message in messages_of(caught, SchemaCreated):
            self._plpy.warning(message)
        names = ", ".join(f'"{name}"' for name in report.not_copied)
        if names:
            self._plpy.notice(f"dbanon: not copied, because named nowhere: {names}")
        self._plpy.notice(
            f"dbanon: {report.output}, {report.rows_out} synthetic rows, release"
            f" {report.release_id}; {report.spent:g} of {report.total:g}"
            f"{'' if report.rho is None else ' of rho'} of budget {report.budget} are spent"
        )

    def _options(self) -> dict[str, Any]:
        """Return the arguments by name, merged with the keys of options."""
        arguments = {name: value for name, value in self._arguments.items() if name in _ARGUMENTS}
        for name in ("bounds", "null_as"):
            arguments[name] = None if arguments[name] is None else json.loads(arguments[name])
        for name in ("quasi_identifiers", "output"):
            if arguments[name] is None:
                raise InvalidParameter(f"{name} must not be NULL.")
        options = json.loads(self._arguments["options"] or "{}")
        if not isinstance(options, dict):
            raise InvalidParameter("options must be a JSON object.")
        further_options = keys_of_private(options, _ARGUMENTS)
        # Callers must not read files of the server.
        further_options["hierarchies"] = parse_all(further_options.get("hierarchies"), files=False)
        limit = memory_of_call(self._plpy, further_options)
        further_options.pop("memory_limit", None)
        return {**arguments, **further_options, "memory_limit": limit}

    def _session(self) -> PlpySession:
        """Open a session in the new transaction, whose search path is set."""
        for name, value in FUNCTION_SETTINGS:
            self._plpy.execute(f"SELECT pg_catalog.set_config('{name}', '{value}', true)")
        limit_locks(self._plpy)
        session = PlpySession(self._plpy, self._oid)
        session.source_name()
        return session

    def _transaction(self, prepared: PrivatePlan) -> tuple[RecordedBudget, Session]:
        """Spend and commit; return a session of the next transaction, with a fresh snapshot."""
        for attempt in range(MAX_SPEND_ATTEMPTS):
            try:
                spent_budget = spend(self._session(), prepared)
                self._commit()
                break
            except SourceChanged:
                # Another session spent concurrently, which this snapshot does not show.
                if attempt + 1 == MAX_SPEND_ATTEMPTS:
                    raise
                self._plpy.rollback()
                self._plpy.execute(_PATH)
        self._plpy.execute(_PATH)
        session = self._session()
        if session.source_name() != prepared.relation.name:
            raise SourceChanged(
                f"{prepared.relation.name} was renamed after epsilon was spent. The epsilon stays"
                f" spent."
            )
        return spent_budget, session

    def _commit(self) -> None:
        """Commit the transaction."""
        try:
            self._plpy.commit()
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == _TERMINATION:
                raise TransactionOpen(
                    "A transaction is open, and could be rolled back after someone has read the"
                    " release.",
                    hint=f"CALL dbanon.{self._method} without BEGIN, and not inside a function.",
                ) from None
            if hasattr(error, "spidata"):
                raise spi_error(error) from None
            raise
