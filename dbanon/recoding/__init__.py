"""The registry of recodings: each has its own module and a line in ``_LOCATIONS``."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.extension import LazyRegistry
from dbanon.errors import InvalidParameter
from dbanon.recoding.columns import (
    GENERALIZED,
    INTERVALS,
    RANGE,
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    recode_attributes,
)

# The location of each recoding, in the order of listings: a module of this package, and the name in
# it. It is imported when the recoding is first used, because a run uses one recoding.
_LOCATIONS = {
    "mean": "mean:RECODING",
    "median": "median:RECODING",
    "medoid": "medoid:RECODING",
    "secure": "secure:RECODING",
    "generalization": "generalization:RECODING",
    "representative": "representative:RECODING",
    "common": "common:RECODING",
}

RECODINGS: Mapping[str, Recoding] = LazyRegistry(__name__, _LOCATIONS)


def find_recoding(name: str) -> Recoding:
    """Find the recoding with this name.

    Raises
    ------
    InvalidParameter : the name is unknown.
    """
    if name not in RECODINGS:
        raise InvalidParameter(
            f'There is no recoding "{name}".', hint="Known: " + ", ".join(RECODINGS) + "."
        )
    return RECODINGS[name]


__all__ = [
    "GENERALIZED",
    "INTERVALS",
    "RANGE",
    "RECODINGS",
    "ExactTotals",
    "Recoding",
    "ReleasedColumn",
    "Settings",
    "find_recoding",
    "recode_attributes",
]
