"""Python's door to databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.data.schema import require_lists
from dbanon.hierarchy.spec import Given, parse_all
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Job
from dbanon.job.policy import Policy
from dbanon.measures import Model

if TYPE_CHECKING:
    from dbanon.release.report import Report
    from dbanon.run.run import PhaseProgress
    from dbanon.stores.base import OnSql


def anonymize(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str],
    k: int,
    output: str,
    method: str = "mdav",
    options: Mapping[str, Any] | None = None,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    standardize: str = "zscore",
    weights: Mapping[str, float] | None = None,
    nulls: str = "error",
    max_suppression: float | None = 0.0,
    recoding: str | None = None,
    seed: int = 0,
    refine: str | None = None,
    hierarchies: Mapping[str, Given] | None = None,
    intervals: str = "text",
    local_range: bool = False,
    steps: Mapping[str, float] | None = None,
    refine_iterations: int | None = None,
    refine_seconds: float | None = None,
    block_size: int | None = None,
    models: Sequence[Model] = (),
    withhold_failing: bool = False,
    orders: Mapping[str, Sequence[str]] | None = None,
    guarantee: str = "rows",
    strict: bool = False,
    output_kind: str = "table",
    if_exists: str = "error",
    target: Any = None,
    chunk_rows: int | None = None,
    memory_limit: int | None = None,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    door: str = "python",
) -> Report:
    """Anonymize a table of a database into a table or view that was recounted before it is visible.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    table, output : names as in ``app.people`` or ``'"App"."Peo ple"'``; letters keep their case.
    quasi_identifiers : columns that together could re-identify a person.
    k : the smallest number of rows that may share them, 2 or more.
    sensitive, keep : columns that are copied as they are. A column named nowhere is not copied.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that says whose a row is: k counts its distinct values, and all rows of one
        (in a stratum) share a class. It is not released. None: every row is a person of its own.
    key : columns that tell every row from every other; needed for views and foreign tables.
    hierarchies : by column, for methods of generalization: a Hierarchy, the path of a file, or what
        ``hierarchy_spec`` takes, such as ``{"table": "ref.tree"}``, ``{"name": "education"}`` or
        ``{"intervals": [5, 10]}``.
    models : privacy models of sensitive columns; classes are merged until each keeps to all.
    orders : the values of text columns from the lowest to the highest; an enum has its own order.
    target : another database to write to, as ``database``; the same one when None.
    chunk_rows : rows read at a time; never changes the result.
    memory_limit : bytes that reading and clustering may use; None for no limit.
    progress : called with a phase (``read``, ``cluster``, ``write``, ``verify``) and a share.
    on_sql : called with the text of each SQL statement before it runs.
    door : what the ledger says of where the run was asked for: ``python``, ``cli`` or ``job``.

    The other parameters are those of ``Policy`` and ``Job``. With ``guarantee="per_attribute"``
    rows are not k-anonymous, which the warning ``RowsNotAnonymous`` says. Of columns copied as they
    are that tell too much ``KeptColumnTells`` warns; ``strict`` refuses them.

    Raises
    ------
    DbanonError : of the class that says what went wrong; nothing was published then.
    """
    from dbanon.run.noted import run_noted
    from dbanon.run.open import open_store

    require_lists(
        quasi_identifiers=quasi_identifiers,
        sensitive=sensitive,
        keep=keep,
        by=by,
        key=key,
        models=models,
    )
    policy = Policy(
        k=k,
        method=method,
        options=options or {},
        standardize=standardize,
        weights=weights or {},
        nulls=nulls,
        max_suppression=max_suppression,
        recoding=recoding,
        seed=seed,
        refine=refine,
        intervals=intervals,
        local_range=local_range,
        steps=steps or {},
        refine_iterations=refine_iterations,
        refine_seconds=refine_seconds,
        block_size=block_size,
        models=tuple(models),
        withhold_failing=withhold_failing,
        orders=orders or {},
        guarantee=guarantee,
        strict=strict,
    )
    source = open_store(database, on_sql)
    to = None if target is None else open_store(target, on_sql)
    job = Job(
        table=table,
        output=output,
        quasi_identifiers=tuple(quasi_identifiers),
        policy=policy,
        hierarchies=parse_all(hierarchies, files=True),
        sensitive=tuple(sensitive),
        keep=tuple(keep),
        by=tuple(by),
        entity=entity,
        key=tuple(key),
        output_kind=output_kind,
        if_exists=if_exists,
        chunk_rows=DEFAULT_CHUNK_ROWS if chunk_rows is None else chunk_rows,
        memory_limit=memory_limit,
        door=door,
    )
    return run_noted(job, source, to, progress)
