"""The entry points inside PostgreSQL, which the functions in ``sql/`` call through PL/Python.

Arguments and results are JSON text. Errors are returned as plain values after a rollback, and
raised by the SQL function, so that neither a traceback nor the text of an unexpected exception
reaches the client.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dbanon.data.option import make
from dbanon.data.partition import Partition
from dbanon.doors import plpython_options as options
from dbanon.doors.backend_limit import memory_of_call
from dbanon.doors.plpython_options import messages_of, plain_error, refusal_of, require_version
from dbanon.doors.spelling import in_sql, in_sql_classes, statement
from dbanon.errors import (
    CodesAveraged,
    ColumnLost,
    DaysAsNumbers,
    HierarchyBroken,
    InvalidParameter,
    PrivacyWarning,
    RulesOfAnotherTable,
    SchemaCreated,
)
from dbanon.errors.base import Notation
from dbanon.hierarchy import builders as hierarchy_builders
from dbanon.hierarchy.spec import parse, parse_all
from dbanon.job import rules
from dbanon.job.job import Job
from dbanon.run.hierarchies import read_column_values, require_leaves
from dbanon.run.plan import plan
from dbanon.run.rules import apply_rules_in_session
from dbanon.run.run import Clock, read_and_cluster, run
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores import hierarchies
from dbanon.stores.postgresql import summary
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.classes import PlpyStore, StableSource
from dbanon.stores.sql_source import SqlSource
from dbanon.version import version

SECONDS_BETWEEN_NOTICES = 2.0

# Maximum digits of whole numbers in arguments, so that they fit an int64.
_DIGITS = 18


def anonymize(plpy: Any, sql_version: str, arguments: str) -> str:
    """Run a job in the caller's transaction; returns a ``dbanon.release_info`` row or the error."""
    return _run_guarded(plpy, sql_version, lambda: _anonymize(plpy, _call(arguments)))


def check(plpy: Any, sql_version: str) -> str:
    """Return the versions in this backend's Python, and a trial of the compiled core."""

    def versions() -> dict[str, Any]:
        import numpy as np

        from dbanon.kernels import Mdav

        kernel = Mdav(np.arange(4.0).reshape(4, 1), 2)
        while not kernel.step(1000):
            pass
        return {
            "python": sys.version.partition(" ")[0],
            "numpy": np.__version__,
            "dbanon": version(),
            "compiled core": f"{len(set(kernel.labels()))} classes of 4 records",
        }

    return _run_guarded(plpy, sql_version, versions)


def classes(
    plpy: Any, sql_version: str, arguments: str
) -> Iterator[tuple[str | None, int | None, str]]:
    """Yield row keys (JSON text) and classes in record order, or one row with the error."""
    labelled_rows: list[Any] = []

    def work() -> dict[str, Any]:
        call = _call(arguments)
        call_options = options.parse(call, writes=False)
        progress = _Progress(plpy, call_options.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        job = _job(plpy, call_options, table=str(session.source_name()), output="")
        labelled_rows.append(_classes(job, StableSource(session), progress))
        return {}

    outcome = _run_guarded(plpy, sql_version, work, writes=False, spelling=in_sql_classes)
    if not labelled_rows:
        yield None, None, outcome
        return
    for row_key, label in labelled_rows[0]:
        yield row_key, label, ""


def _classes(job: Job, source: StableSource, progress: _Progress) -> list[tuple[str, int | None]]:
    """Return the key (JSON text) and the class of every row; None for withheld rows."""
    clock = Clock(progress)
    planned = plan(job, source, pulse=lambda: clock.report_progress("read", 0.0))
    microdata, _, result = read_and_cluster(planned, source, clock)
    assert isinstance(result.classes, Partition)
    return list(source.labelled(planned.relation, microdata, result.classes))


def advise(plpy: Any, sql_version: str, arguments: str) -> str:
    """Return the rows of ``dbanon.advise``, or the error."""

    def work() -> dict[str, Any]:
        from dbanon.advice.request import AdviceRequest
        from dbanon.run.advise import advise as run_advise

        call = _call(arguments)
        call_options = options.advice_options(call["options"])
        progress = _Progress(plpy, call_options.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        trees = call_options.get("hierarchies", {})
        request_options = {
            **call_options,
            "table": str(session.source_name()),
            "quasi_identifiers": call["quasi_identifiers"],
            "hierarchies": parse_all(trees, files=False),
            "memory_limit": memory_of_call(plpy, call_options),
        }
        advice = run_advise(make(AdviceRequest, request_options), StableSource(session), progress)
        progress.restore()
        rows = list(advice.table_rows())
        if advice.start:
            start_statement = statement(advice.start, trees)
            rows.append(("recommended", "start", start_statement, dict(advice.start)))
        return {"rows": rows}

    return _run_guarded(plpy, sql_version, work, writes=False)


def check_rules(plpy: Any, sql_version: str, arguments: str) -> str:
    """Return rules in their stored form, with explicit roles, or the error."""

    def work() -> dict[str, Any]:
        return dict(rules.checked(_call(arguments)).by_column)

    return _run_guarded(plpy, sql_version, work, writes=False)


def store_hierarchy(plpy: Any, sql_version: str, arguments: str) -> str:
    """Store a hierarchy by name. Return its leaves, height and SHA-256, or the error."""

    def work() -> dict[str, Any]:
        call = _call(arguments)
        session = PlpySession(plpy)
        tree_source = parse(call["hierarchy"], files=False)
        tree = hierarchies.resolve(session, tree_source, lambda: session.run("SELECT 1"))
        hierarchies.store(
            session, call["name"], tree, replace=call["replace"], description=call["description"]
        )
        return {"leaves": tree.n_leaves, "height": tree.height, "sha256": tree.sha256}

    return _run_guarded(plpy, sql_version, work)


def check_hierarchy(plpy: Any, sql_version: str, arguments: str) -> str:
    """Return all problems of a hierarchy, also with a column's values, or the error."""

    def work() -> dict[str, Any]:
        call = _call(arguments)
        session = PlpySession(plpy)
        try:
            tree_source = parse(call["hierarchy"], files=False)
            tree = hierarchies.resolve(session, tree_source, lambda: session.run("SELECT 1"))
            if call["source"] is not None:
                store = PlpyStore(plpy, int(call["source"]))
                require_leaves(store, store.source_name, call["column_name"], tree)
        except HierarchyBroken as error:
            return {"problems": [vars(problem) for problem in error.problems]}
        return {"problems": []}

    return _run_guarded(plpy, sql_version, work, writes=False)


def suggest_hierarchy(plpy: Any, sql_version: str, arguments: str) -> str:
    """Return the levels of a hierarchy proposed for a column's values, or the error."""

    def work() -> dict[str, Any]:
        call = _call(arguments)
        store = PlpyStore(plpy, int(call["source"]))
        values = read_column_values(store, store.source_name, call["column_name"])
        proposed = hierarchy_builders.suggestion(values)
        plpy.notice(f"dbanon: {proposed.reason}")
        return {"levels": proposed.tree.to_levels()}

    return _run_guarded(plpy, sql_version, work, writes=False)


def refresh(plpy: Any, sql_version: str, arguments: str) -> str:
    """Repeat a release in the caller's transaction. Returns the same as ``anonymize``."""

    def work() -> dict[str, Any]:
        from dbanon.run.refresh import build_refresh_job

        call = _call(arguments)
        session = PlpySession(plpy)
        job = build_refresh_job(
            session,
            str(RelationName(call["schema"], call["name"])),
            accept=call["accept"],
            door="sql",
            memory_limit=memory_of_call(plpy, {}),
        )
        options.require_of_sql(job)
        source = session.find_existing(parse_relation(job.table))
        # build_refresh_job has read it.
        assert source is not None
        store = PlpyStore(plpy, int(source.oid or 0))
        return _release(plpy, job, store, _Progress(plpy, False))

    return _run_guarded(plpy, sql_version, work)


def has_other_rows(plpy: Any, sql_version: str, release_id: str) -> str:
    """Return whether the source's rows have changed since a release, or the error."""

    def work() -> dict[str, Any]:
        from dbanon.run.fingerprint import has_changed_rows as compare_rows

        return {"differs": compare_rows(PlpySession(plpy), release_id)}

    # In a subtransaction, so that one failing source does not fail those of other releases.
    return _run_guarded(plpy, sql_version, work)


def _anonymize(plpy: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    call_options = options.parse(call, writes=True)
    store = PlpyStore(plpy, int(call["source"]))
    progress = _Progress(plpy, call_options.pop("progress", False))
    return _release(plpy, _job(plpy, call_options, table=str(store.source_name)), store, progress)


def _release(plpy: Any, job: Job, store: PlpyStore, progress: _Progress) -> dict[str, Any]:
    clock = time.perf_counter()
    job = replace(job, table=str(store.source_name))
    with store.session(write=True) as session:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RulesOfAnotherTable)
            job = apply_rules_in_session(session, job)
        for message in messages_of(caught, RulesOfAnotherTable):
            plpy.notice(message)
        planned = summary.plan(session, parse_relation(job.output), job.if_exists)
        target = summary.SummarizedTarget(session, planned)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", PrivacyWarning)
            warnings.simplefilter("ignore", ColumnLost)
            warnings.simplefilter("ignore", CodesAveraged)
            warnings.simplefilter("always", SchemaCreated)
            warnings.simplefilter("always", DaysAsNumbers)
            report = run(job, SqlSource(session), target, progress)
    progress.restore()
    for warning in (SchemaCreated, DaysAsNumbers):
        for message in messages_of(caught, warning):
            plpy.warning(message)
    for caution in report.cautions:
        plpy.warning(f"dbanon: {caution.what}; {caution.why}")
    for finding in report.findings:
        warned = (*report.kept_identifiers, *report.linking)
        say = plpy.warning if finding in warned else plpy.notice
        say(f"dbanon: column {finding.describe(report.k_requested)}")
    for text in (*report.homogeneous, *report.describe_lost_columns()):
        plpy.notice(f"dbanon: column {text}")
    for text in report.describe_averaged_columns():
        plpy.warning(f"dbanon: column {text}")
    if report.not_copied:
        names = ", ".join(f'"{name}"' for name in report.not_copied)
        plpy.notice(f"dbanon: not copied, because named nowhere: {names}")
    output = parse_relation(report.output)
    return {
        "release_id": report.release_id,
        "output": output.quoted,
        "summary": planned.name.quoted,
        **{
            name: getattr(report, name)
            for name in ("rows_in", "rows_out", "suppressed", "classes", "k_requested")
        },
        "k_achieved": report.k_achieved,
        "information_loss": report.information_loss,
        "verified": report.verified,
        "elapsed": f"{time.perf_counter() - clock:.6f} seconds",
        "seconds": dict(report.seconds),
    }


def _call(arguments: str) -> dict[str, Any]:
    """Parse the arguments of a call."""

    def parse_int(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise InvalidParameter(
                f"A whole number has more than {_DIGITS} digits.",
                hint='If it is a label, write it as text, in double quotes: "…".',
            )
        return int(digits)

    call: dict[str, Any] = json.loads(arguments, parse_int=parse_int)
    return call


def _job(plpy: Any, call_options: dict[str, Any], **further_options: Any) -> Job:
    hierarchies = parse_all(call_options.pop("hierarchies", {}), files=False)
    limit = memory_of_call(plpy, call_options)
    call_options.pop("memory_limit", None)
    return make(
        Job,
        {
            **call_options,
            "hierarchies": hierarchies,
            "memory_limit": limit,
            "door": "sql",
            **further_options,
        },
    )


class _Progress:
    """Checks for cancellation and, if enabled, reports progress in notices."""

    def __init__(self, plpy: Any, enabled: bool) -> None:
        self._plpy, self._enabled = plpy, enabled
        self._last = time.monotonic()
        self._plan = plpy.prepare("SELECT 1")
        self._before = ""
        if enabled:
            [row] = plpy.execute("SELECT current_setting('application_name') AS name")
            self._before = row["name"]

    def __call__(self, phase: str, share: float) -> None:
        # Running any statement makes the backend check for cancellation and timeouts.
        self._plpy.execute(self._plan)
        if not self._enabled or time.monotonic() - self._last < SECONDS_BETWEEN_NOTICES:
            return
        self._last = time.monotonic()
        self._name(f"dbanon {phase} {share:.0%}")
        self._plpy.notice(f"dbanon: {phase} {share:.0%}")

    def restore(self) -> None:
        """Restore the session's application name."""
        if self._enabled:
            self._name(self._before)

    def _name(self, name: str) -> None:
        query = "SELECT set_config('application_name', $1, true)"
        self._plpy.execute(self._plpy.prepare(query, ["text"]), [name])


def _run_guarded(
    plpy: Any,
    sql_version: str,
    work: Callable[[], dict[str, Any]],
    *,
    writes: bool = True,
    spelling: Notation = in_sql,
) -> str:
    lock_timeout = None
    try:
        require_version(sql_version)
        lock_timeout = limit_locks(plpy)
        # The subtransaction is rolled back even if the caller ignores the returned error.
        if not writes:
            return json.dumps(work())
        with plpy.subtransaction():
            return json.dumps(work())
    except Exception as failure:
        refusal = refusal_of(plpy, failure)
    finally:
        if lock_timeout is not None:
            plpy.execute(f"SELECT set_config('lock_timeout', '{lock_timeout}', true)")
    return json.dumps({"error": plain_error(refusal, spelling)})
