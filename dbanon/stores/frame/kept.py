"""Columns of a data frame that are released as they are, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.job.policy import Policy
from dbanon.release.recode import Release
from dbanon.release.report import TellingColumn
from dbanon.release.telling import Originals, groups_of, telling
from dbanon.stores.kept import say


def telling_columns(
    frame: pd.DataFrame,
    names: Sequence[str],
    microdata: Microdata,
    release: Release,
    policy: Policy,
) -> tuple[TellingColumn, ...]:
    """What these columns of a frame tell of the rows that are released.

    Warns with ``KeptColumnTells``; raises TellingColumnRefused where the policy is strict.
    """
    records = release.partition.members
    originals = Originals(microdata, release.partition, release.columns)
    before = [originals.codes(name)[records] for name in originals.names]
    persons = None if microdata.entities is None else microdata.entities[records]
    found: list[TellingColumn] = []
    for name in names:
        codes = _codes(frame[name].iloc[records])
        groups = groups_of(codes, before, int(policy.k), persons)
        found += telling(name, groups, originals, int(policy.k))
    say(found, policy)
    return tuple(found)


def _codes(series: pd.Series[Any]) -> NDArray[np.int64]:
    """Values as codes, -1 where NULL; what cannot be told apart otherwise is by its text."""
    try:
        codes, _ = pd.factorize(series)
    except TypeError:
        codes, _ = pd.factorize(series.map(str, na_action="ignore"))
    return codes.astype(np.int64)
