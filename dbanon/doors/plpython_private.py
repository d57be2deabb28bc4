"""The door inside PostgreSQL to differential privacy: what the procedures
``dp_ranks`` and ``dp_marginals`` call.

It commits, so it cannot be undone; and the caller's settings hold until it sets its own, in its
first statement and after each commit. An error is handed back, and the procedure raises it.
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
from dbanon.ledger.budgets import KeptBudget
from dbanon.run.private import ATTEMPTS, Spender, release, spend
from dbanon.run.private_begin import PrivatePlan, plan_private
from dbanon.sessions.session import Session
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.errors import spi_error
from dbanon.stores.postgresql.settings import FUNCTION_SETTINGS

# All names are qualified: whose functions the caller's path has first, is anybody's guess.
_PATH = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
_ARGUMENTS = frozenset(
    ("output", "quasi_identifiers", "epsilon", "bounds", "budget", "entity", "null_as", "if_exists")
)
_TERMINATION = "2D000"


def synthetic(plpy: Any, sql_version: str, method: str, given: Mapping[str, Any]) -> str | None:
    """Run the call of a method; None, or the error as JSON text, and all is rolled back then."""
    try:
        require_version(sql_version)
        _Call(plpy, method, given).run()
        return None
    except Exception as failure:
        refusal = refusal_of(plpy, failure)
        if isinstance(refusal, MissingDependency):
            refusal.hint = _server_hint()
    # Whether or not somebody raises what comes back. Where it may not, nothing was done.
    with suppress(Exception):
        plpy.rollback()
    return json.dumps(plain_error(refusal, lambda name, value: in_sql(name, value, _ARGUMENTS)))


def _server_hint() -> str:
    """The command that adds OpenDP to the directory from which this server imports dbanon."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    directory = shlex.quote(str(Path(__file__).parents[2]))
    return (
        f"On the server's machine run: sudo {python} -m pip install --target {directory}"
        f" {quoted_requirements('dp')}"
    )


class _Call:
    """One call of the procedure."""

    def __init__(self, plpy: Any, method: str, given: Mapping[str, Any]) -> None:
        self._plpy, self._method, self._given = plpy, method, given
        self._oid = 0

    def run(self) -> None:
        """Refuse, spend, commit, and release in the transaction that the call ends with."""
        if self._given["source"] is None:
            raise InvalidParameter("source must not be NULL.")
        # Nothing is done yet: it tells whether the call may commit at all.
        self._commit()
        self._plpy.execute(_PATH)
        self._oid = int(self._given["source"])
        session = self._session()
        session.require_no_staging()
        wanted = self._wanted() | {
            "table": str(session.source_name()),
            "method": self._method,
            "door": "sql",
        }
        planned = plan_private(private_job(wanted), session, str(uuid.uuid4()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SchemaCreated)
            report = release(Spender(planned, self._transaction))
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

    def _wanted(self) -> dict[str, Any]:
        """The arguments by name, with the keys of options."""
        given = {name: value for name, value in self._given.items() if name in _ARGUMENTS}
        for name in ("bounds", "null_as"):
            given[name] = None if given[name] is None else json.loads(given[name])
        for name in ("quasi_identifiers", "output"):
            if given[name] is None:
                raise InvalidParameter(f"{name} must not be NULL.")
        options = json.loads(self._given["options"] or "{}")
        if not isinstance(options, dict):
            raise InvalidParameter("options must be a JSON object.")
        more = keys_of_private(options, _ARGUMENTS)
        # No files: those of the server are nobody's to name.
        more["hierarchies"] = parse_all(more.get("hierarchies"), files=False)
        limit = memory_of_call(self._plpy, more)
        more.pop("memory_limit", None)
        return {**given, **more, "memory_limit": limit}

    def _session(self) -> PlpySession:
        """A session of the transaction that has just started, whose path is set."""
        for name, value in FUNCTION_SETTINGS:
            self._plpy.execute(f"SELECT pg_catalog.set_config('{name}', '{value}', true)")
        limit_locks(self._plpy)
        session = PlpySession(self._plpy, self._oid)
        session.source_name()
        return session

    def _transaction(self, planned: PrivatePlan) -> tuple[KeptBudget, Session]:
        """Spend and commit; a session of the next transaction, which has seen nothing before."""
        for attempt in range(ATTEMPTS):
            try:
                kept = spend(self._session(), planned)
                self._commit()
                break
            except SourceChanged:
                # Others spent at the same moment, which this snapshot does not show.
                if attempt + 1 == ATTEMPTS:
                    raise
                self._plpy.rollback()
                self._plpy.execute(_PATH)
        self._plpy.execute(_PATH)
        session = self._session()
        if session.source_name() != planned.relation.name:
            raise SourceChanged(
                f"{planned.relation.name} was renamed after epsilon was spent. The epsilon stays"
                f" spent."
            )
        return kept, session

    def _commit(self) -> None:
        """End the transaction."""
        try:
            self._plpy.commit()
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == _TERMINATION:
                raise TransactionOpen(
                    "A transaction is open: it could be rolled back after a look at the release.",
                    hint=f"CALL dbanon.{self._method} outside of BEGIN, and of functions.",
                ) from None
            if hasattr(error, "spidata"):
                raise spi_error(error) from None
            raise
