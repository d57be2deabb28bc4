"""Python's door to synthetic rows, from arrays and data frames."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dbanon.data.synthesis import Synthesis
from dbanon.doors.arrays import microdata_of
from dbanon.errors import NotDifferentiallyPrivate, TooFewRecords, UnsupportedType
from dbanon.job.synthesis import AsPublished, wish
from dbanon.synthesis.dcmdp import SENTENCE, dcmdp

if TYPE_CHECKING:
    import pandas as pd


def synthesize(data: ArrayLike | pd.DataFrame, *, method: str, **options: Any) -> Synthesis:
    """Make rows that stand for no row of the source.

    Parameters
    ----------
    data : (n, p) numbers, or a data frame of numbers whose columns are all released.
    method : ``dcmdp``: noise as Liu and Li published it, which guarantees nothing; with
        ``guarantee="as_published"`` only, and with the warning ``NotDifferentiallyPrivate``.
    options : those of the method, as docs/differential-privacy.md lists them.

    Raises
    ------
    InvalidParameter, UnknownMethod, UnknownOption : as the checks of options.
    UnsupportedType : a column is no number.
    TooFewRecords : fewer than k records.
    """
    return _as_published(data, wish(method, options))


def _as_published(data: Any, wished: AsPublished) -> Synthesis:
    microdata = microdata_of(data)
    for attribute in microdata.attributes:
        if attribute.kind.is_coded:
            raise UnsupportedType(f'Column "{attribute.name}" is no number, as dcmdp needs them.')
    if microdata.valid is not None:
        raise UnsupportedType("Method dcmdp takes no NULLs.", hint="Leave these rows out.")
    if microdata.n_records < wished.k:
        raise TooFewRecords(f"There are {microdata.n_records} records, fewer than k = {wished.k}.")
    warnings.warn(NotDifferentiallyPrivate(NotDifferentiallyPrivate.__doc__), stacklevel=3)
    rng = np.random.default_rng(wished.seed)
    rows = dcmdp(
        microdata.numbers,
        wished.k,
        wished.epsilon,
        radius=wished.radius,
        reading=wished.reading,
        rng=rng,
    )
    rows = rows[rng.permutation(len(rows))]
    return Synthesis(
        {one.name: rows[:, j].copy() for j, one in enumerate(microdata.attributes)},
        method="dcmdp",
        guarantee=SENTENCE,
    )
