"""Released frames beside those that they were made of: what a run remembers, and asks again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.errors import RowsNotAligned
from dbanon.release.alignment import SHUFFLED, Alignment
from dbanon.release.report import Report

# The key of a frame's attrs, which pandas hands on to copies and into Parquet files.
_ATTRS = "dbanon"


def marked(released: pd.DataFrame, rows: str) -> pd.DataFrame:
    """The frame, which says in its attrs how its rows stand."""
    released.attrs = {_ATTRS: {"rows": rows}}
    return released


def require_not_shuffled(released: pd.DataFrame) -> None:
    """Check that a frame is none whose rows were shuffled here.

    Raises
    ------
    RowsNotAligned : it is.
    """
    told = released.attrs.get(_ATTRS)
    if isinstance(told, Mapping) and told.get("rows") == SHUFFLED:
        raise RowsNotAligned(
            "The released rows stand in random order: that is what anonymize_frame does.",
            hint="Give the `report` of the same call, name a `key` of both tables, or release rows"
            " in the order of the input.",
        )


def alignment_of(
    original: pd.DataFrame,
    released: pd.DataFrame,
    names: Iterable[str],
    places: NDArray[np.int64],
) -> Alignment:
    """What pairs the released rows, whose originals are at ``places``, int64 (r,), again.

    Parameters
    ----------
    names : the quasi-identifiers.
    """
    names = list(names)
    return Alignment(len(original), places, _digests(original, names), _digests(released, names))


def rows_by_report(
    report: Report, original: pd.DataFrame, released: pd.DataFrame, names: Iterable[str]
) -> NDArray[np.int64]:
    """int64 (n,), the released row of each original; -1 where it was withheld.

    Raises
    ------
    RowsNotAligned : the report does not know, or one of the frames is not that of its run.
    """
    known = report.alignment
    if known is None:
        raise RowsNotAligned(
            "The report does not know which row became which: only the one that anonymize_frame"
            " returned does, and no copy of it.",
            hint="Name a `key` of both tables.",
        )
    names = list(names)
    for title, table, then, n in (
        ("original", original, known.before, known.n),
        ("release", released, known.after, len(known.places)),
    ):
        found = _digests(table, names)
        if len(table) != n or any(found[name] != then.get(name) for name in names):
            raise RowsNotAligned(
                f"The {title} is not as it was in the run of this report: rows, their order or"
                " values of its quasi-identifiers differ.",
                hint="Give both frames as they were then, or name a `key` of both tables.",
            )
    return known.rows()


def _digests(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, bytes]:
    """By column that the frame has, a digest of its values in their order."""
    found: dict[str, Any] = {
        name: pd.util.hash_pandas_object(frame[name], index=False).to_numpy()
        for name in names
        if name in frame.columns
    }
    return {name: sha256(hashes.tobytes()).digest() for name, hashes in found.items()}
