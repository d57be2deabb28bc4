"""The entry points inside PostgreSQL, which the functions in ``sql/`` call through PL/Python.

Arguments and results are JSON text. Errors are returned as JSON after a rollback, and the SQL
function raises them, so that the client sees neither a traceback nor the text of an unexpected
exception. ``plpy`` is PL/Python's module for queries, ``sql_version`` the version of the installed
SQL functions. A ``StableSource`` is read in the snapshot of the calling query, because the SQL
functions that use it are STABLE.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.data.extension import load_runner
from dbanon.data.option import build_options
from dbanon.data.partition import Partition
from dbanon.data.types import JsonMapping, JsonObject, KeywordArguments
from dbanon.doors import plpython_options
from dbanon.doors.backend_limit import apply_backend_limits
from dbanon.doors.plpython_options import (
    error_to_json,
    messages_of,
    require_version,
    to_dbanon_error,
)
from dbanon.doors.spelling import build_statement, spell_classes_option, spell_sql_option
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
from dbanon.hierarchy.spec import parse, parse_all
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from dbanon.job.requirements import require_row_classes
from dbanon.run.hierarchies import read_column_values, require_leaves
from dbanon.run.plan import plan
from dbanon.run.run import Clock, read_and_cluster, run
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.postgresql import summary
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.classes import PlpyStore, StableSource
from dbanon.stores.sql_source import SqlSource
from dbanon.version import version

if TYPE_CHECKING:
    from dbanon.release.risk_figures import RiskRow
    from dbanon.run.job_runner import RiskRunner
    from dbanon.stores.postgresql.plpython import PlPython

SECONDS_BETWEEN_NOTICES = 2.0

# Maximum digits of whole numbers in arguments, so that they fit an int64.
_MAX_DIGITS = 18


def anonymize(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Run a job in the caller's transaction. Return a ``dbanon.release_info`` row, or the error."""
    return _run_guarded(plpy, sql_version, lambda: _anonymize(plpy, _parse_call(arguments)))


def check(plpy: PlPython, sql_version: str) -> str:
    """Return the versions of Python and packages in this backend, and test the compiled core."""

    def collect_versions() -> JsonObject:
        import numpy as np

        from dbanon.kernels import Mdav

        kernel = Mdav(np.arange(4.0).reshape(4, 1), 2)
        # Four records with k = 2 make two classes. ``step`` returns True when all are found.
        while not kernel.step(1000):
            pass
        return {
            "python": sys.version.partition(" ")[0],
            "numpy": np.__version__,
            "dbanon": version(),
            "compiled core": f"{len(set(kernel.labels()))} classes of 4 records",
        }

    return _run_guarded(plpy, sql_version, collect_versions)


def classes(
    plpy: PlPython, sql_version: str, arguments: str
) -> Iterator[tuple[str | None, int | None, str]]:
    """Yield tuples (row key as JSON text, class, error as JSON text), in record order.

    Without an error, the error text is empty. With one, there is a single tuple.
    """
    # Has the labelled rows as its only item, if the call succeeds.
    results: list[list[tuple[str, int | None]]] = []

    def work() -> JsonObject:
        call = _parse_call(arguments)
        call_options = plpython_options.parse_call_options(call, writes=False)
        progress = _Progress(plpy, is_enabled=call_options.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        job = _build_job(
            plpy, call_options, table=str(session.catalog.find_source_name()), output=""
        )
        results.append(_label_rows(job, StableSource(session), progress))
        progress.restore()
        return {}

    error_json = _run_guarded(plpy, sql_version, work, writes=False, spelling=spell_classes_option)
    if not results:
        yield None, None, error_json
        return
    [rows] = results
    for row_key, label in rows:
        yield row_key, label, ""


def _label_rows(
    job: Job, source: StableSource, progress: _Progress
) -> list[tuple[str, int | None]]:
    """Return the key (JSON text) and the class of every row; None for withheld rows."""
    require_row_classes(job.policy)
    # Measures the seconds of each phase, and reports its progress.
    clock = Clock(progress)
    # ``pulse`` is called regularly while hierarchies are read, to check for cancellation.
    run_plan = plan(job, source, pulse=lambda: clock.report_progress("read", 0.0))
    microdata, _policy, result = read_and_cluster(run_plan, source, clock)
    # Methods that group each attribute separately need an option that this call does not have.
    assert isinstance(result.classes, Partition)
    return list(source.label_rows(run_plan.relation, microdata, result.classes))


def advise(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Return the rows of ``dbanon.advise``, or the error."""

    def work() -> JsonObject:
        from dbanon.advice.request import AdviceRequest
        from dbanon.run.advise import advise as run_advise

        call = _parse_call(arguments)
        call_options = plpython_options.check_advice_options(call["options"])
        progress = _Progress(plpy, is_enabled=call_options.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        hierarchy_values = call_options.get("hierarchies", {})
        request_options = {
            **call_options,
            "table": str(session.catalog.find_source_name()),
            "quasi_identifiers": call["quasi_identifiers"],
            # Without ``files`` a path is refused: the server's account would read the file.
            "hierarchies": parse_all(hierarchy_values, files=False),
            "memory_limit": apply_backend_limits(plpy, call_options),
        }
        advice = run_advise(
            build_options(AdviceRequest, request_options), StableSource(session), progress
        )
        progress.restore()
        rows = list(advice.table_rows())
        if advice.start:
            start_statement = build_statement(advice.start, hierarchy_values)
            rows.append(("recommended", "start", start_statement, dict(advice.start)))
        return {"rows": rows}

    return _run_guarded(plpy, sql_version, work, writes=False)


def disclosure_risk(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Return the rows of ``dbanon.disclosure_risk`` for a sample, or the error.

    With a release, return its rows for ``dbanon.evaluate``.
    """

    def work() -> JsonObject:
        call = _parse_call(arguments)
        if "release" in call:
            return {"rows": _compare_release(plpy, call)}
        call_options = plpython_options.check_risk_options(call["options"])
        progress = _Progress(plpy, is_enabled=call_options.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        risk_options = {
            **call_options,
            "table": str(session.catalog.find_source_name()),
            "quasi_identifiers": call["quasi_identifiers"],
            "memory_limit": apply_backend_limits(plpy, call_options),
        }
        runner: RiskRunner = load_runner("sample_risk")
        rows = runner.measure(risk_options, StableSource(session), progress)
        progress.restore()
        return {"rows": rows}

    return _run_guarded(plpy, sql_version, work, writes=False)


def _compare_release(plpy: PlPython, call: JsonMapping) -> list[RiskRow]:
    """Measure the disclosure risk of a source and of its release; return the figures as rows."""
    from dbanon.run.evaluate_risk import check_risk, compare_relations

    risk = check_risk(call["options"])
    apply_backend_limits(plpy, {})
    session = PlpySession(plpy, int(call["source"]))
    released_name = PlpySession(plpy, int(call["release"])).catalog.find_source_name()
    figures = compare_relations(
        session,
        session.catalog.find_source(session.catalog.find_source_name()),
        session.catalog.find_source(released_name),
        risk,
        class_columns=call["quasi_identifiers"],
        design_weight=call["design_weight"],
        person_column=call["entity"],
        entity_normalize=call["entity_normalize"],
    )
    return list(figures.measure_rows())


def check_rules(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Return rules in their stored form, with explicit roles, or the error."""

    def work() -> JsonObject:
        from dbanon.job.rules import validate_rules

        return dict(validate_rules(_parse_call(arguments)).by_column)

    return _run_guarded(plpy, sql_version, work, writes=False)


def store_hierarchy(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Store a hierarchy by name. Return its leaves, height and SHA-256, or the error."""

    def work() -> JsonObject:
        from dbanon.stores import hierarchies

        call = _parse_call(arguments)
        session = PlpySession(plpy)
        tree_source = parse(call["hierarchy"], files=False)
        tree = hierarchies.resolve(session, tree_source, pulse=_build_cancellation_check(session))
        hierarchies.store(
            session, call["name"], tree, replace=call["replace"], description=call["description"]
        )
        return {"leaves": tree.n_leaves, "height": tree.height, "sha256": tree.sha256}

    return _run_guarded(plpy, sql_version, work)


def check_hierarchy(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Return all problems of a hierarchy, or the error.

    If the call names a column, its values that are not leaves are problems, too.
    """

    def work() -> JsonObject:
        from dbanon.stores import hierarchies

        call = _parse_call(arguments)
        session = PlpySession(plpy)
        try:
            tree_source = parse(call["hierarchy"], files=False)
            tree = hierarchies.resolve(
                session, tree_source, pulse=_build_cancellation_check(session)
            )
            if call["source"] is not None:
                store = PlpyStore(plpy, int(call["source"]))
                require_leaves(store, store.source_name, call["column_name"], tree)
        except HierarchyBroken as error:
            return {"problems": [vars(problem) for problem in error.problems]}
        return {"problems": []}

    return _run_guarded(plpy, sql_version, work, writes=False)


def suggest_hierarchy(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Return the levels of a hierarchy proposed for a column's values, or the error."""

    def work() -> JsonObject:
        from dbanon.hierarchy import builders as hierarchy_builders

        call = _parse_call(arguments)
        store = PlpyStore(plpy, int(call["source"]))
        values = read_column_values(store, store.source_name, call["column_name"])
        suggestion = hierarchy_builders.suggestion(values)
        plpy.notice(f"dbanon: {suggestion.reason}")
        return {"levels": suggestion.tree.to_levels()}

    return _run_guarded(plpy, sql_version, work, writes=False)


def _build_cancellation_check(session: PlpySession) -> Callable[[], None]:
    """Return a function that checks for cancellation by running a statement."""
    return lambda: session.run("SELECT 1")


def refresh(plpy: PlPython, sql_version: str, arguments: str) -> str:
    """Repeat a release in the caller's transaction. Returns the same as ``anonymize``."""

    def work() -> JsonObject:
        from dbanon.run.refresh import build_refresh_job

        call = _parse_call(arguments)
        session = PlpySession(plpy)
        job = build_refresh_job(
            session,
            str(RelationName(call["schema"], call["name"])),
            # Differences from the release's ledger entry that the caller accepts.
            accept=call["accept"],
            door="sql",
            memory_limit=apply_backend_limits(plpy, {}),
        )
        plpython_options.require_repeatable_in_sql(job)
        source = session.catalog.find_existing(parse_relation(job.table))
        # build_refresh_job has already read from the source, so it exists.
        assert source is not None
        # In PostgreSQL each relation has an OID, so 0 does not occur.
        store = PlpyStore(plpy, int(source.oid or 0))
        return _release(plpy, job, store, _Progress(plpy, is_enabled=False))

    return _run_guarded(plpy, sql_version, work)


def has_other_rows(plpy: PlPython, sql_version: str, release_id: str) -> str:
    """Return whether the source's rows have changed since a release, or the error."""

    def work() -> JsonObject:
        from dbanon.run.fingerprint import has_changed_rows

        return {"differs": has_changed_rows(PlpySession(plpy), release_id)}

    # Run in a subtransaction, so that a failing source does not abort checks of other releases.
    return _run_guarded(plpy, sql_version, work)


def _anonymize(plpy: PlPython, call: JsonMapping) -> JsonObject:
    """Run the job of a call, and return its ``dbanon.release_info`` row."""
    call_options = plpython_options.parse_call_options(call, writes=True)
    store = PlpyStore(plpy, int(call["source"]))
    progress = _Progress(plpy, is_enabled=call_options.pop("progress", False))
    return _release(
        plpy, _build_job(plpy, call_options, table=str(store.source_name)), store, progress
    )


def _release(plpy: PlPython, job: Job, store: PlpyStore, progress: _Progress) -> JsonObject:
    """Run a job, send its messages, and return its ``dbanon.release_info`` row."""
    start_seconds = time.perf_counter()
    job = replace(job, table=str(store.source_name))
    with store.session(write=True) as session:
        # Checked before the import, which few calls need.
        if job.declared == RULES_NOT_READ:
            job = _apply_rules(plpy, session, job)
        # The summary is a table of one row, next to the output, that describes the release.
        summary_plan = summary.plan(session, parse_relation(job.output), job.if_exists)
        target = summary.SummarizedTarget(session, summary_plan)
        with warnings.catch_warnings(record=True) as caught_warnings:
            # The notices below repeat the ignored warnings from the report, which does not mention
            # created schemas and whole numbers that look like dates.
            warnings.simplefilter("ignore", PrivacyWarning)
            warnings.simplefilter("ignore", ColumnLost)
            warnings.simplefilter("ignore", CodesAveraged)
            warnings.simplefilter("always", SchemaCreated)
            warnings.simplefilter("always", DaysAsNumbers)
            report = run(job, SqlSource(session), target, progress)
    progress.restore()
    for category in (SchemaCreated, DaysAsNumbers):
        for message in messages_of(caught_warnings, category):
            plpy.warning(message)
    for caution in report.cautions:
        plpy.warning(f"dbanon: {caution.warning}; {caution.reason}")
    for finding in report.findings:
        # Copied columns that look like identifiers, or single out rows within classes.
        warned_findings = (*report.kept_identifiers, *report.linking)
        send = plpy.warning if finding in warned_findings else plpy.notice
        send(f"dbanon: column {finding.describe(report.k_requested)}")
    # Classes in which all rows have one sensitive value; columns with the same label in all rows.
    for description in (*report.homogeneous, *report.describe_lost_columns()):
        plpy.notice(f"dbanon: column {description}")
    for description in report.describe_averaged_columns():
        plpy.warning(f"dbanon: column {description}")
    if report.not_copied:
        names = ", ".join(f'"{name}"' for name in report.not_copied)
        plpy.notice(f"dbanon: columns left out, because the call does not name them: {names}")
    output = parse_relation(report.output)
    return {
        "release_id": report.release_id,
        "output": output.quoted,
        "summary": summary_plan.name.quoted,
        **{
            name: getattr(report, name)
            for name in ("rows_in", "rows_out", "suppressed", "classes", "k_requested")
        },
        "k_achieved": report.k_achieved,
        "information_loss": report.information_loss,
        "verified": report.verified,
        "elapsed": f"{time.perf_counter() - start_seconds:.6f} seconds",
        "seconds": dict(report.seconds),
    }


def _apply_rules(plpy: PlPython, session: PlpySession, job: Job) -> Job:
    """Apply the rules of the job's table, and send their warnings as notices."""
    from dbanon.run.rules import apply_rules_in_session

    # Rules may have been declared for another table that had this name, or before a restore.
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", RulesOfAnotherTable)
        job = apply_rules_in_session(session, job)
    for message in messages_of(caught_warnings, RulesOfAnotherTable):
        plpy.notice(message)
    return job


def _parse_call(arguments: str) -> JsonObject:
    """Parse the JSON object with the arguments of a call.

    Its values are the arguments by name; ``source`` is the OID of the source relation.
    """

    def parse_int(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise InvalidParameter(
                f"A whole number has more than {_MAX_DIGITS} digits.",
                hint='If it is a label, write it as text, in double quotes: "…".',
            )
        return int(digits)

    call: JsonObject = json.loads(arguments, parse_int=parse_int)
    return call


def _build_job(plpy: PlPython, call_options: KeywordArguments, **fixed_options: object) -> Job:
    """Build a job from the checked options of a call, within the backend's limits.

    Parameters
    ----------
    fixed_options : options that the call does not choose; they override ``call_options``.
    """
    # Without ``files`` a path is refused: the server's account would read the file.
    tree_sources = parse_all(call_options.pop("hierarchies", {}), files=False)
    memory_bytes = apply_backend_limits(plpy, call_options)
    call_options.pop("memory_limit", None)
    return build_options(
        Job,
        {
            **call_options,
            "hierarchies": tree_sources,
            "memory_limit": memory_bytes,
            "door": "sql",
            **fixed_options,
        },
    )


class _Progress:
    """Checks for cancellation and, if enabled, reports progress in notices."""

    def __init__(self, plpy: PlPython, *, is_enabled: bool) -> None:
        self._plpy, self._is_enabled = plpy, is_enabled
        self._last_notice = time.monotonic()
        self._ping = plpy.prepare("SELECT 1")
        self._original_application_name = ""
        if is_enabled:
            [row] = plpy.execute("SELECT current_setting('application_name') AS name")
            self._original_application_name = row["name"]

    def __call__(self, phase: str, share: float) -> None:
        # Running any statement makes the backend check for cancellation and timeouts.
        self._plpy.execute(self._ping)
        if not self._is_enabled or time.monotonic() - self._last_notice < SECONDS_BETWEEN_NOTICES:
            return
        self._last_notice = time.monotonic()
        self._set_application_name(f"dbanon {phase} {share:.0%}")
        self._plpy.notice(f"dbanon: {phase} {share:.0%}")

    def restore(self) -> None:
        """Restore the session's application name."""
        if self._is_enabled:
            self._set_application_name(self._original_application_name)

    def _set_application_name(self, name: str) -> None:
        query = "SELECT set_config('application_name', $1, true)"
        self._plpy.execute(self._plpy.prepare(query, ["text"]), [name])


def _run_guarded(
    plpy: PlPython,
    sql_version: str,
    work: Callable[[], JsonObject],
    *,
    writes: bool = True,
    spelling: Notation = spell_sql_option,
) -> str:
    """Compute the result of a call, and return it or the error as JSON text.

    Parameters
    ----------
    work : computes the result: JSON values by name.
    writes : True to run in a subtransaction, which is rolled back after an error.
    spelling : how an error writes names of options.
    """
    lock_timeout = None
    try:
        require_version(sql_version)
        # The caller's own setting, which is restored below.
        lock_timeout = limit_locks(plpy)
        # The subtransaction is rolled back even if the caller ignores the returned error.
        if not writes:
            return json.dumps(work())
        with plpy.subtransaction():
            return json.dumps(work())
    except Exception as failure:
        refusal = to_dbanon_error(plpy, failure)
    finally:
        if lock_timeout is not None:
            plpy.execute(f"SELECT set_config('lock_timeout', '{lock_timeout}', true)")
    return json.dumps({"error": error_to_json(refusal, spelling)})
