"""The door inside PostgreSQL: what the functions in ``sql/`` call, by PL/Python.

Arguments come and results go as JSON text. Nothing is raised: an error is handed back as plain
values, and the SQL function raises it, so that neither a traceback nor the text of an unexpected
exception reaches the client. What was done until then is undone before.
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
from dbanon.errors.base import Way
from dbanon.hierarchy import builders as hierarchy_builders
from dbanon.hierarchy.spec import parse, parse_all
from dbanon.job import rules
from dbanon.job.job import Job
from dbanon.run.hierarchies import column_values, require_leaves
from dbanon.run.plan import plan
from dbanon.run.rules import with_rules
from dbanon.run.run import Clock, read_and_cluster, run
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores import hierarchies
from dbanon.stores.postgresql import summary
from dbanon.stores.postgresql.backend import PlpySession, limit_locks
from dbanon.stores.postgresql.classes import PlpyStore, StableSource
from dbanon.stores.sql_source import SqlSource
from dbanon.version import version

SECONDS_BETWEEN_NOTICES = 2.0

# Of whole numbers in arguments: fewer than an int64 has.
_DIGITS = 18


def anonymize(plpy: Any, sql_version: str, given: str) -> str:
    """Run a job in the caller's transaction; the row of ``dbanon.release_info``, or the error."""
    return _guarded(plpy, sql_version, lambda: _anonymize(plpy, _call(given)))


def check(plpy: Any, sql_version: str) -> str:
    """What this backend's Python has."""

    def found() -> dict[str, Any]:
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

    return _guarded(plpy, sql_version, found)


def classes(
    plpy: Any, sql_version: str, given: str
) -> Iterator[tuple[str | None, int | None, str]]:
    """Row keys (JSON text) and classes, in record order; one row with the error instead."""
    found: list[Any] = []

    def work() -> dict[str, Any]:
        call = _call(given)
        wanted = options.parse(call, writes=False)
        progress = _Progress(plpy, wanted.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        job = _job(plpy, wanted, table=str(session.source_name()), output="")
        found.append(_classes(job, StableSource(session), progress))
        return {}

    outcome = _guarded(plpy, sql_version, work, writes=False, way=in_sql_classes)
    if not found:
        yield None, None, outcome
        return
    for row_key, label in found[0]:
        yield row_key, label, ""


def _classes(job: Job, source: StableSource, progress: _Progress) -> list[tuple[str, int | None]]:
    """The row key (JSON text) and the class of every row, None where withheld."""
    clock = Clock(progress)
    planned = plan(job, source, pulse=lambda: clock.tell("read", 0.0))
    microdata, _, found = read_and_cluster(planned, source, clock)
    assert isinstance(found.classes, Partition)
    return list(source.labelled(planned.relation, microdata, found.classes))


def advise(plpy: Any, sql_version: str, given: str) -> str:
    """The rows of ``dbanon.advise``, or the error."""

    def work() -> dict[str, Any]:
        from dbanon.advice.request import AdviceRequest
        from dbanon.run.advise import advise as run_advise

        call = _call(given)
        wanted = options.advice_options(call["options"])
        progress = _Progress(plpy, wanted.pop("progress", False))
        session = PlpySession(plpy, int(call["source"]))
        trees = wanted.get("hierarchies", {})
        wished = {
            **wanted,
            "table": str(session.source_name()),
            "quasi_identifiers": call["quasi_identifiers"],
            "hierarchies": parse_all(trees, files=False),
            "memory_limit": memory_of_call(plpy, wanted),
        }
        found = run_advise(make(AdviceRequest, wished), StableSource(session), progress)
        progress.restore()
        rows = list(found.table_rows())
        if found.start:
            said = statement(found.start, trees)
            rows.append(("recommended", "start", said, dict(found.start)))
        return {"rows": rows}

    return _guarded(plpy, sql_version, work, writes=False)


def check_rules(plpy: Any, sql_version: str, given: str) -> str:
    """Rules as they are kept, each with its role written out, or the error."""

    def work() -> dict[str, Any]:
        return dict(rules.checked(_call(given)).by_column)

    return _guarded(plpy, sql_version, work, writes=False)


def store_hierarchy(plpy: Any, sql_version: str, given: str) -> str:
    """Store a hierarchy by name; its leaves, height and fingerprint, or the error."""

    def work() -> dict[str, Any]:
        call = _call(given)
        session = PlpySession(plpy)
        given_tree = parse(call["hierarchy"], files=False)
        tree = hierarchies.resolve(session, given_tree, lambda: session.run("SELECT 1"))
        hierarchies.store(
            session, call["name"], tree, replace=call["replace"], description=call["description"]
        )
        return {"leaves": tree.n_leaves, "height": tree.height, "sha256": tree.sha256}

    return _guarded(plpy, sql_version, work)


def check_hierarchy(plpy: Any, sql_version: str, given: str) -> str:
    """All problems of a hierarchy, and of a column's values with it, or the error."""

    def work() -> dict[str, Any]:
        call = _call(given)
        session = PlpySession(plpy)
        try:
            given_tree = parse(call["hierarchy"], files=False)
            tree = hierarchies.resolve(session, given_tree, lambda: session.run("SELECT 1"))
            if call["source"] is not None:
                store = PlpyStore(plpy, int(call["source"]))
                require_leaves(store, store.source_name, call["column_name"], tree)
        except HierarchyBroken as error:
            return {"problems": [vars(problem) for problem in error.problems]}
        return {"problems": []}

    return _guarded(plpy, sql_version, work, writes=False)


def suggest_hierarchy(plpy: Any, sql_version: str, given: str) -> str:
    """A proposal from the values of a column as levels, or the error."""

    def work() -> dict[str, Any]:
        call = _call(given)
        store = PlpyStore(plpy, int(call["source"]))
        values = column_values(store, store.source_name, call["column_name"])
        proposed = hierarchy_builders.suggestion(values)
        plpy.notice(f"dbanon: {proposed.why}")
        return {"levels": proposed.tree.to_levels()}

    return _guarded(plpy, sql_version, work, writes=False)


def refresh(plpy: Any, sql_version: str, given: str) -> str:
    """Make a release again in the caller's transaction; as ``anonymize``."""

    def work() -> dict[str, Any]:
        from dbanon.run.refresh import job_again

        call = _call(given)
        session = PlpySession(plpy)
        job = job_again(
            session,
            str(RelationName(call["schema"], call["name"])),
            accept=call["accept"],
            door="sql",
            memory_limit=memory_of_call(plpy, {}),
        )
        options.require_of_sql(job)
        source = session.find_existing(parse_relation(job.table))
        # As job_again said.
        assert source is not None
        store = PlpyStore(plpy, int(source.oid or 0))
        return _released(plpy, job, store, _Progress(plpy, False))

    return _guarded(plpy, sql_version, work)


def has_other_rows(plpy: Any, sql_version: str, release_id: str) -> str:
    """Whether the source of a release has other rows now than it read, or the error."""

    def work() -> dict[str, Any]:
        from dbanon.run.fingerprint import has_other_rows as compared

        return {"differs": compared(PlpySession(plpy), release_id)}

    # In a subtransaction: what one source refuses, the sources of other releases do not.
    return _guarded(plpy, sql_version, work)


def _anonymize(plpy: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    wanted = options.parse(call, writes=True)
    store = PlpyStore(plpy, int(call["source"]))
    progress = _Progress(plpy, wanted.pop("progress", False))
    return _released(plpy, _job(plpy, wanted, table=str(store.source_name)), store, progress)


def _released(plpy: Any, job: Job, store: PlpyStore, progress: _Progress) -> dict[str, Any]:
    clock = time.perf_counter()
    job = replace(job, table=str(store.source_name))
    with store.session(write=True) as session:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RulesOfAnotherTable)
            job = with_rules(session, job)
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
    for found in report.findings:
        serious = (*report.kept_identifiers, *report.linking)
        say = plpy.warning if found in serious else plpy.notice
        say(f"dbanon: column {found.describe(report.k_requested)}")
    for text in (*report.homogeneous, *report.lost_told()):
        plpy.notice(f"dbanon: column {text}")
    for text in report.averaged_codes_told():
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


def _call(given: str) -> dict[str, Any]:
    """The arguments of a call."""

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise InvalidParameter(
                f"A whole number has more than {_DIGITS} digits.",
                hint="If it is a label, write it as text.",
            )
        return int(digits)

    call: dict[str, Any] = json.loads(given, parse_int=whole)
    return call


def _job(plpy: Any, wanted: dict[str, Any], **more: Any) -> Job:
    hierarchies = parse_all(wanted.pop("hierarchies", {}), files=False)
    limit = memory_of_call(plpy, wanted)
    wanted.pop("memory_limit", None)
    return make(
        Job, {**wanted, "hierarchies": hierarchies, "memory_limit": limit, "door": "sql", **more}
    )


class _Progress:
    """Lets a cancel through and, when asked for, tells how far a call is."""

    def __init__(self, plpy: Any, shown: bool) -> None:
        self._plpy, self._shown = plpy, shown
        self._last = time.monotonic()
        self._plan = plpy.prepare("SELECT 1")
        self._before = ""
        if shown:
            [row] = plpy.execute("SELECT current_setting('application_name') AS name")
            self._before = row["name"]

    def __call__(self, phase: str, share: float) -> None:
        # Any statement lets the backend look for a cancel or a time limit.
        self._plpy.execute(self._plan)
        if not self._shown or time.monotonic() - self._last < SECONDS_BETWEEN_NOTICES:
            return
        self._last = time.monotonic()
        self._name(f"dbanon {phase} {share:.0%}")
        self._plpy.notice(f"dbanon: {phase} {share:.0%}")

    def restore(self) -> None:
        """Put the session's name back."""
        if self._shown:
            self._name(self._before)

    def _name(self, name: str) -> None:
        query = "SELECT set_config('application_name', $1, true)"
        self._plpy.execute(self._plpy.prepare(query, ["text"]), [name])


def _guarded(
    plpy: Any,
    sql_version: str,
    work: Callable[[], dict[str, Any]],
    *,
    writes: bool = True,
    way: Way = in_sql,
) -> str:
    patience = None
    try:
        require_version(sql_version)
        patience = limit_locks(plpy)
        # A subtransaction, so that nothing is left even if nobody raises what comes back.
        if not writes:
            return json.dumps(work())
        with plpy.subtransaction():
            return json.dumps(work())
    except Exception as failure:
        refusal = refusal_of(plpy, failure)
    finally:
        if patience is not None:
            plpy.execute(f"SELECT set_config('lock_timeout', '{patience}', true)")
    return json.dumps({"error": plain_error(refusal, way)})
