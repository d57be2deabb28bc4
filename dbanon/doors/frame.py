"""Python's door to data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.data.schema import require_lists
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import Given, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.run.run import run
from dbanon.stores.frame.source import NAME, FrameSource
from dbanon.stores.frame.target import FrameTarget

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.release.report import Report


def anonymize_frame(
    frame: pd.DataFrame,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    method: str = "mdav",
    options: Mapping[str, Any] | None = None,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
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
) -> tuple[pd.DataFrame, Report]:
    """Anonymize a data frame; the result is counted again before it is returned.

    Rows come back in fresh random order under a new index. Columns named nowhere are left out.
    NaN and NaT are NULLs.

    Parameters
    ----------
    frame : the records; its order is the record order, its index is not looked at.
    quasi_identifiers, sensitive, keep : column names by role.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that says whose a row is: k counts its distinct values, and all rows of one
        (in a stratum) share a class. It is not released. None: every row is a person of its own.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    models : privacy models of sensitive columns; classes are merged until each keeps to all.
    orders : the values of text columns from the lowest to the highest; ordered categoricals have
        that of their categories.

    The other parameters are those of ``Policy``. Of columns released as they are that tell too much
    ``KeptColumnTells`` warns; ``strict`` refuses them.

    Raises
    ------
    DbanonError : of the class that says what went wrong.
    """
    require_lists(
        quasi_identifiers=quasi_identifiers, by=by, sensitive=sensitive, keep=keep, models=models
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
    for name in (*quasi_identifiers, *by, *sensitive, *keep):
        if not isinstance(name, str):
            raise InvalidParameter(
                "The columns of the frame have names that are no text.",
                hint="Name them first: frame.columns = [...]",
            )
    job = Job(
        table=NAME,
        output=NAME,
        quasi_identifiers=tuple(quasi_identifiers),
        policy=policy,
        hierarchies=parse_all(hierarchies, files=True),
        sensitive=tuple(sensitive),
        keep=tuple(keep),
        by=tuple(by),
        entity=entity,
    )
    target = FrameTarget()
    report = run(job, FrameSource(frame), target)
    assert target.released is not None
    return target.released, report
