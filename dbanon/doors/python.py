"""The Python API for databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from dbanon.data.option import all_parameters
from dbanon.doors.dispatch import plan_anonymization
from dbanon.doors.job_arguments import job_of, run_arguments
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.hierarchy.spec import HierarchySource
from dbanon.job.job import Job
from dbanon.job.private import build_option_refusal, private_method_options
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.run.open import open_stores

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import JobOptions
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.outlook import Outlook
    from dbanon.sessions.base import OnSql


@overload
def anonymize(
    database: object,
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
    target: object = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    door: str = "python",
    run_id: str | None = None,
    **options: Unpack[JobOptions],
) -> Report: ...


@overload
def anonymize(
    database: object,
    *,
    table: str,
    quasi_identifiers: Sequence[str],
    output: str,
    method: Literal["dp_ranks", "dp_marginals"],
    epsilon: float,
    bounds: Mapping[str, Sequence[object]],
    budget: str,
    entity: str | None = None,
    null_as: Mapping[str, object] | None = None,
    **options: Any,
) -> PrivateReport: ...


@list_options((*all_parameters(Job), *private_method_options()))
def anonymize(
    database: object,
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
    target: object = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    door: str = "python",
    run_id: str | None = None,
    **options: Any,
) -> Report | PrivateReport:
    """Anonymize a database table into a new table or view, verified before it becomes visible.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection. With ``kept_columns="client"`` and
        a target, other sources are possible: see docs/warehouse.md.
    table, output : names as in ``app.people`` or ``'"App"."Peo ple"'``; letters keep their case.
    quasi_identifiers : columns that together could re-identify a person.
    k : the smallest number of rows that may share their values, 2 or more; required by methods that
        make classes.
    sensitive, keep : columns that are copied as they are. Columns you don't name are left out.
    by : columns that define strata: they are released unchanged, no class spans two strata, and k
        counts them as quasi-identifiers.
    entity : the column that identifies the person: k counts its distinct values, and all rows of
        a person (in a stratum) share a class. It is not released. None: each row counts as a
        person.
    key : columns that together identify a row; needed for views and foreign tables.
    hierarchies : by column, for generalization methods: a Hierarchy, the path of a file, or a
        specification such as ``{"table": "ref.tree"}``, ``{"name": "education"}`` (a stored one) or
        ``{"intervals": [5, 10]}``.
    declared : take column roles from the rules declared for the table, instead of
        quasi_identifiers, sensitive, keep, by, entity, design_weight, hierarchies, models, weights,
        steps and orders; see ``dbanon.declare``. Each column must have a rule.
    target : another database to write to, in the same form as ``database``; None for ``database``.
    progress : called with the name of a phase (``draw``, ``read``, ``cluster``, ``write``,
        ``verify``) and its completed share, 0 to 1; True for a progress bar in a notebook or on a
        terminal.
    on_sql : called with the text of each SQL statement before it runs.
    door : the interface that started the run, for the ledger: ``python``, ``cli`` or ``job``.
    run_id : a UUID that identifies the run in the ledger; if None, a new one.
    options : the other options of ``Policy`` and ``Job``.

    Methods ``dp_ranks`` and ``dp_marginals`` make synthetic rows that are differentially private.
    They need ``epsilon``, ``bounds`` and ``budget``, the name of a budget in the database
    (``create_budget``), and take ``null_as`` and ``entity``: see docs/differential-privacy.md.
    Epsilon is spent before any noise is drawn, and stays spent even if the run fails.

    With ``guarantee="per_attribute"`` rows are not k-anonymous, as the warning
    ``RowsNotAnonymous`` says. ``KeptColumnTells`` warns about copied columns that reveal too
    much; ``strict`` refuses them.

    Raises
    ------
    DbanonError : its class says what went wrong. Nothing was published, except that after
        ``OutcomeUnknown`` this is not known.
    """
    job_options = {
        "table": table,
        "quasi_identifiers": quasi_identifiers,
        "output": output,
        "k": k,
        "sensitive": sensitive,
        "keep": keep,
        "by": by,
        "entity": entity,
        "key": key,
        "hierarchies": hierarchies,
        "declared": declared,
        "door": door,
        "run_id": run_id,
        **options,
    }
    return run_arguments(database, job_options, target=target, progress=progress, on_sql=on_sql)


@list_options(all_parameters(Job))
def plan(
    database: object,
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
    target: object = None,
    cluster: bool = False,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    **options: Unpack[JobOptions],
) -> Outlook:
    """Show what ``anonymize`` would do with these arguments, or refuse as ``anonymize`` would.

    This counts rows and checks names, types and rights. It tries the method on a sample of the
    rows, to forecast the time. It changes nothing and records no run.

    Parameters
    ----------
    cluster : True to also read the quasi-identifiers, find the classes and report their
        information loss.

    The other parameters are the same as in ``anonymize``.

    Raises
    ------
    DbanonError : ``anonymize`` would raise this error before it reads a row; with ``cluster``,
        before it writes one.
    """
    if options.get("method") in PRIVATE_METHODS:
        raise build_option_refusal("plan", str(options.get("method")))
    job_options = {
        "table": table,
        "quasi_identifiers": quasi_identifiers,
        "output": output,
        "k": k,
        "sensitive": sensitive,
        "keep": keep,
        "by": by,
        "entity": entity,
        "key": key,
        "hierarchies": hierarchies,
        "declared": declared,
        **options,
    }
    with progress_callback(progress) as callback:
        job = job_of(job_options)
        source, target_store = open_stores(job, database, target, on_sql, callback)
        return plan_anonymization(job, source, target_store, cluster=cluster, progress=callback)
