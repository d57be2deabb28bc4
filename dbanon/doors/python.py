"""Python's door to databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from dbanon.data.option import all_parameters, make, parameter
from dbanon.doors.progress import shown
from dbanon.doors.signature import lists
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.private import own_options, private_job, refused, require_other
from dbanon.job.rules import BY_RULES
from dbanon.job.synthesis import PRIVATE_METHODS

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.doors.progress import Wanted
    from dbanon.job.options import JobOptions
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.outlook import Outlook
    from dbanon.sessions.base import OnSql
    from dbanon.sessions.store import Store

# Arguments that are no part of what is asked for.
_OF_THE_CALL = ("database", "target", "progress", "on_sql", "cluster", "options")


@overload
def anonymize(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str] = (),
    k: int,
    output: str,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, HierarchySource] | None = None,
    declared: bool = False,
    target: Any = None,
    progress: Wanted = None,
    on_sql: OnSql | None = None,
    door: str = "python",
    run_id: str | None = None,
    **options: Unpack[JobOptions],
) -> Report: ...


@overload
def anonymize(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str],
    output: str,
    method: Literal["dp_ranks", "dp_marginals"],
    epsilon: float,
    bounds: Mapping[str, Sequence[Any]],
    budget: str,
    entity: str | None = None,
    null_as: Mapping[str, Any] | None = None,
    **given: Any,
) -> PrivateReport: ...


@lists((*all_parameters(Job), *own_options()))
def anonymize(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str] = (),
    output: str,
    k: int | None = None,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, HierarchySource] | None = None,
    declared: bool = False,
    target: Any = None,
    progress: Wanted = None,
    on_sql: OnSql | None = None,
    door: str = "python",
    run_id: str | None = None,
    **options: Any,
) -> Report | PrivateReport:
    """Anonymize a table of a database into a table or view, and recount it before it is visible.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection. With ``kept_columns="client"`` and
        a target also any other source: docs/warehouse.md.
    table, output : names as in ``app.people`` or ``'"App"."Peo ple"'``; letters keep their case.
    quasi_identifiers : columns that together could re-identify a person.
    k : the smallest number of rows that may share them, 2 or more; every method needs it but
        ``dp_ranks``.
    sensitive, keep : columns that are copied as they are. A column named nowhere is not copied.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that identifies the person: k counts its distinct values, and all rows of
        a person (in a stratum) share a class. It is not released. None: each row counts as a
        person.
    key : columns that are unique for each row; needed for views and foreign tables.
    hierarchies : by column, for methods of generalization: a Hierarchy, the path of a file, or what
        ``hierarchy.spec`` takes, such as ``{"table": "ref.tree"}``, ``{"name": "education"}`` or
        ``{"intervals": [5, 10]}``.
    declared : take the roles of columns from the rules of the table, instead of
        quasi_identifiers, sensitive, keep, by, entity, hierarchies, models, weights, steps and
        orders; see ``dbanon.declare``. Each column must have a rule.
    target : another database to write to, as ``database``; if None, the same one.
    progress : called with a phase (``draw``, ``read``, ``cluster``, ``write``, ``verify``) and a
        share; True for a bar, in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    door : where the run was asked for, for the ledger: ``python``, ``cli`` or ``job``.
    run_id : a UUID by which to find the run in the ledger; if None, a fresh one.
    options : the other options of ``Policy`` and ``Job``.

    Method ``dp_ranks`` makes synthetic rows that are differentially private: with ``epsilon``,
    ``bounds`` and ``budget``, the name of a budget of the database (``create_budget``), and with
    ``null_as`` and ``entity``: see docs/differential-privacy.md. Epsilon is spent before any
    noise is drawn, and stays spent even if the run fails.

    With ``guarantee="per_attribute"`` rows are not k-anonymous, as the warning
    ``RowsNotAnonymous`` says. ``KeptColumnTells`` warns about copied columns that reveal too
    much; ``strict`` refuses them.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    given = locals()
    with shown(progress) as given["progress"]:
        if options.get("method") in PRIVATE_METHODS:
            return _private(given)
        require_other(options.get("method"), options)
        if k is None:
            raise parameter(Policy, "k").refusal()
        job, source, to = _asked(given)
        from dbanon.doors.dispatch import run_classes

        return run_classes(job, source, to, given["progress"])


@lists(all_parameters(Job))
def plan(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str] = (),
    k: int,
    output: str,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, HierarchySource] | None = None,
    declared: bool = False,
    target: Any = None,
    cluster: bool = False,
    progress: Wanted = None,
    on_sql: OnSql | None = None,
    **options: Unpack[JobOptions],
) -> Outlook:
    """Show what ``anonymize`` would do with these arguments, or refuse as ``anonymize`` would.

    Counts rows, and checks names, types and rights. Changes nothing, and records no run.

    Parameters
    ----------
    cluster : also read the quasi-identifiers, find the classes and report what they lose.

    The other parameters are those of ``anonymize``.

    Raises
    ------
    DbanonError : what ``anonymize`` would raise before it reads a row; with ``cluster``, also what
        it would raise before it writes one.
    """
    if options.get("method") in PRIVATE_METHODS:
        raise refused("plan", str(options.get("method")))
    given = locals()
    with shown(progress) as given["progress"]:
        job, source, to = _asked(given)
        from dbanon.doors.dispatch import plan_classes

        told = given["progress"]
        return plan_classes(job, source, to, cluster=cluster, progress=told)


def _private(given: Mapping[str, Any]) -> PrivateReport:
    """A differentially private release, of the arguments of a call."""
    from dbanon.run.open import open_store
    from dbanon.run.private import run_private

    wanted = {name: value for name, value in given.items() if name not in _OF_THE_CALL}
    wanted |= given["options"] | {"target": given["target"]}
    if wanted.pop("declared"):
        raise refused("declared")
    if wanted["run_id"] is None:
        del wanted["run_id"]
    wanted["hierarchies"] = parse_all(wanted["hierarchies"], files=True)
    job = private_job(wanted)
    store = open_store(given["database"], given["on_sql"], memory=job.memory_limit)
    return run_private(job, store, given["progress"])


def _asked(given: dict[str, Any]) -> tuple[Job, Store, Store | None]:
    """The job of the arguments of a call, the database to read and another to write, if any."""
    from dbanon.run.open import open_source, open_store

    wanted = {name: value for name, value in given.items() if name not in _OF_THE_CALL}
    job = job_of(wanted | given["options"])
    on_sql, target = given["on_sql"], given["target"]
    source = open_source(given["database"], on_sql, job, target, given["progress"])
    return (
        job,
        source,
        None if target is None else open_store(target, on_sql, memory=job.memory_limit),
    )


def job_of(given: Mapping[str, Any]) -> Job:
    """The job of options as people give them; those of dp_ranks alone are left out.

    Raises
    ------
    DbanonError : one is not as it must be.
    """
    require_other(given.get("method"), given)
    own = {one.name for one in own_options()}
    wanted = {name: value for name, value in given.items() if name not in own}
    for name, usual in (("chunk_rows", 0), ("run_id", "")):
        if wanted.get(name, usual) is None:
            # For the usual one, as it always was.
            del wanted[name]
    wanted["declared"] = BY_RULES if wanted.get("declared") else None
    if isinstance(wanted.get("exports"), (list, tuple)):
        wanted["exports"] = [Export.from_path(one) for one in wanted["exports"]]
    return make(Job, wanted | {"hierarchies": parse_all(wanted["hierarchies"], files=True)})
