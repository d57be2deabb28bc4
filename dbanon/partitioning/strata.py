"""Strata: sets of records that classes must not cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.errors import NullInQuasiIdentifier, TooFewRecords, counted
from dbanon.job.policy import Policy


def strata_of(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Sets of records that classes must not cross.

    Raises
    ------
    NullInQuasiIdentifier : NULLs. Where they are to be withheld, they are before anything is
        looked at, and none is here.
    """
    n = microdata.n_records
    if microdata.strata is None and microdata.valid is None and n:
        return [np.arange(n)]
    given = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    if microdata.valid is None:
        return groups(given)
    if policy.nulls == "category":
        return groups(np.column_stack([given, microdata.valid]))
    holes = (~microdata.valid).sum(axis=0).tolist()
    raise null_refused({a.name: n for a, n in zip(microdata.attributes, holes, strict=True)})


def null_refused(rows: Mapping[str, int]) -> NullInQuasiIdentifier:
    """The error of NULLs that nobody said what to do with.

    Parameters
    ----------
    rows : with a NULL, by quasi-identifier.
    """
    holding = [f'"{name}" in {counted(count, "row")}' for name, count in rows.items() if count]
    return NullInQuasiIdentifier(
        f"Quasi-identifiers hold NULL: {', '.join(holding)}.",
        hint='Choose `nulls="suppress"` (withhold these records) or `nulls="category"` (classes'
        " within each pattern of NULLs).",
    )


def groups(values: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Positions of equal values or rows, each set ascending; at least one set."""
    _, group = np.unique(values, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def count_of(microdata: Microdata, records: NDArray[np.int64]) -> int:
    """What k is compared with: the number of these records, or of the persons they are of."""
    if microdata.entities is None:
        return len(records)
    return len(np.unique(microdata.entities[records]))


def too_few(
    microdata: Microdata,
    policy: Policy,
    records: NDArray[np.int64],
    n_strata: int,
) -> TooFewRecords:
    """The error of a stratum of these records, int64 (r,), of so many strata."""
    absent = None
    if microdata.valid is not None and n_strata > 1:
        present = microdata.valid[records[0]]
        pairs = zip(microdata.attributes, present, strict=True)
        absent = [attribute.name for attribute, there in pairs if not there]
    return too_few_counted(
        policy.k,
        count_of(microdata, records),
        "records" if microdata.entities is None else "persons",
        n_strata,
        withheld=microdata.withheld,
        absent=absent,
        by_values=microdata.strata is not None,
    )


def too_few_counted(
    k: int | str,
    count: int,
    what: str,
    n_strata: int,
    *,
    withheld: int = 0,
    absent: Sequence[str] | None = None,
    by_values: bool = False,
) -> TooFewRecords:
    """The error of a stratum of so many records or persons.

    Parameters
    ----------
    withheld : records that have a NULL and are withheld.
    absent : quasi-identifiers that are NULL in all of it; None where none is NULL anywhere.
    by_values : True where strata are those of columns, and not of patterns of NULLs alone.
    """
    if n_strata == 1:
        text = f"There are {count} {what}, fewer than k = {k}"
        text += f" ({withheld} more records have a NULL and are withheld)." if withheld else "."
        hint = f"k can be {count} at most here." if count >= 2 else "Anonymize a larger table."
        return TooFewRecords(text, hint=hint)
    text = f"A stratum holds only {count} {what}"
    if absent is not None:
        names = ", ".join(f'"{name}"' for name in absent)
        text += f" with NULL in {names}" if absent else " without NULL"
    hint = "Leave columns out of the strata, or bring rare values together in a view."
    if not by_values:
        hint = f'With `nulls="category"` each pattern of NULLs needs k {what};'
        hint += ' `nulls="suppress"` withholds records with a NULL instead.'
    return TooFewRecords(f"{text}, fewer than k = {k}.", hint=hint)
