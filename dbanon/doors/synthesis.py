"""Python's door to synthetic rows, from arrays and data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dbanon.data.synthesis import Synthesis
from dbanon.doors.arrays import microdata_of
from dbanon.errors import (
    InvalidParameter,
    NotDifferentiallyPrivate,
    TooFewRecords,
    UnsupportedType,
    warn_caller,
)
from dbanon.hierarchy.spec import parse_all
from dbanon.job.synthesis import AsPublished, wish
from dbanon.synthesis.budget import Budget
from dbanon.synthesis.dcmdp import SENTENCE, dcmdp, dense, worth
from dbanon.synthesis.noise import OpenDpNoise
from dbanon.synthesis.private import private_rows
from dbanon.synthesis.table import table_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def synthesize(
    data: NDArray[Any] | pd.DataFrame,
    *,
    method: str,
    budget: Budget | None = None,
    **options: Any,
) -> Synthesis:
    """Make rows that stand for no row of the source.

    Parameters
    ----------
    data : numbers, (n, p), whose columns are named "column 0" and so on, or a data frame; all of
        its columns are released, but for ``entity``.
    method : ``dp_ranks``: differentially private, with ``epsilon`` and public ``bounds``.
        ``dcmdp``: noise as Liu and Li published it, which guarantees nothing; with
        ``guarantee="as_published"`` only, and with the warning ``NotDifferentiallyPrivate``.
    budget : what ``dp_ranks`` spends its epsilon of, before any noise is drawn.
    options : those of the method, as docs/differential-privacy.md lists them.

    Raises
    ------
    InvalidParameter, UnknownMethod, UnknownOption, BoundsRequired : as the checks of options.
    UnsupportedType : a column is of a type that the method does not take.
    TooFewRecords, NoiseTooLarge : there are too few rows for k, or for epsilon.
    BudgetExhausted : less is left of the budget than epsilon.
    MissingDependency : OpenDP is not installed.
    """
    if "hierarchies" in options:
        options["hierarchies"] = parse_all(options["hierarchies"], files=True)
    wished = wish(method, options)
    if isinstance(wished, AsPublished):
        if budget is not None:
            raise InvalidParameter("Method dcmdp is not private, and spends nothing of a budget.")
        return _as_published(data, wished)
    if not isinstance(budget, Budget):
        raise InvalidParameter(
            "Method dp_ranks spends its epsilon of a budget, and there is none.",
            hint="Make one for all releases of these rows, once: dbanon.Budget(3.0).",
        )
    return private_rows(table_of(data, wished.entity), wished, budget, OpenDpNoise)


def _as_published(data: Any, wished: AsPublished) -> Synthesis:
    microdata = microdata_of(data)
    for attribute in microdata.attributes:
        if attribute.kind.is_coded:
            raise UnsupportedType(f'Column "{attribute.name}" is no number, as dcmdp needs them.')
    if microdata.valid is not None:
        raise UnsupportedType("Method dcmdp takes no NULLs.", hint="Leave these rows out.")
    if microdata.n_records < wished.k:
        raise TooFewRecords(f"There are {microdata.n_records} records, fewer than k = {wished.k}.")
    warn_caller(NotDifferentiallyPrivate(NotDifferentiallyPrivate.__doc__))
    rng = np.random.default_rng(wished.seed)
    classes = dense(microdata.numbers, wished.k, wished.radius)
    rows = dcmdp(
        microdata.numbers,
        wished.k,
        wished.epsilon,
        radius=wished.radius,
        reading=wished.reading,
        rng=rng,
        classes=classes,
    )
    rows = rows[rng.permutation(len(rows))]
    return Synthesis(
        {one.name: rows[:, j].copy() for j, one in enumerate(microdata.attributes)},
        method="dcmdp",
        guarantee=SENTENCE,
        told=worth(microdata.numbers, classes, wished.k),
    )
