"""The registry of recodings: one file and one line each."""

from __future__ import annotations

from dbanon.errors import InvalidParameter
from dbanon.recoding import (
    common,
    generalization,
    mean,
    median,
    medoid,
    representative,
    secure,
)
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

RECODINGS: dict[str, Recoding] = {
    recoding.name: recoding
    for recoding in (
        mean.RECODING,
        median.RECODING,
        medoid.RECODING,
        secure.RECODING,
        generalization.RECODING,
        representative.RECODING,
        common.RECODING,
    )
}


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
