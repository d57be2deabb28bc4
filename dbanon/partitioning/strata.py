"""Strata: sets of records that classes must not cross; sensitive columns as models take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures, ValueFrequencies
from dbanon.data.microdata import CodedColumn, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit, NullInQuasiIdentifier, TooFewRecords, counted
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.measures.recount import positions_of_codes, width_of


def find_strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Sets of records that classes must not cross.

    Raises
    ------
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them. Records
        to be withheld for NULLs have been removed before.
    """
    n = microdata.n_records
    parts = (microdata.strata, microdata.layers, microdata.valid)
    if all(part is None for part in parts) and n:
        return [np.arange(n)]
    if microdata.valid is None or policy.nulls in RELEASED_NULLS:
        return group_positions(stratum_numbers(microdata))
    holes = (~microdata.valid).sum(axis=0).tolist()
    raise null_error({a.name: n for a, n in zip(microdata.attributes, holes, strict=True)})


def rare_records(microdata: Microdata, policy: Policy) -> NDArray[np.int64] | None:
    """Records of strata and patterns of NULLs below k, int64 (m,), which may be withheld.

    None where there are none, where the policy withholds nothing, or where no stratum has k.

    Raises
    ------
    NullInQuasiIdentifier : as ``find_strata``.
    """
    if policy.max_suppression == 0 or not microdata.n_records:
        return None
    strata = find_strata(microdata, policy)
    rare = [records for records in strata if count_for_k(microdata, records) < policy.k]
    return np.sort(np.concatenate(rare)) if 0 < len(rare) < len(strata) else None


def stratum_numbers(microdata: Microdata) -> NDArray[np.int64]:
    """A number for the stratum, layer and pattern of NULLs of each record, int64 (n,)."""
    n = microdata.n_records
    strata = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    numbers: NDArray[np.int64] = np.asarray(strata, np.int64)
    patterns = None if microdata.valid is None else pattern_codes(microdata.valid)
    for part in (microdata.layers, patterns):
        if part is not None:
            both = numbers * (int(part.max(initial=0)) + 1) + part
            numbers = np.unique(both, return_inverse=True)[1].reshape(-1)
    return numbers


def pattern_codes(valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number for the pattern of NULLs of each record, int64 (n,), in the order of bool (n, d)."""
    packed = np.packbits(valid, axis=1)
    if packed.shape[1] > 8:
        return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    # As one number each, the first attribute its highest bit.
    wide = np.zeros((len(valid), 8), np.uint8)
    wide[:, : packed.shape[1]] = packed
    numbers = wide.view(">u8").reshape(-1).astype(np.uint64)
    codes: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    return codes


def null_error(rows: Mapping[str, int]) -> NullInQuasiIdentifier:
    """The error for NULLs without an option that says how to treat them.

    Parameters
    ----------
    rows : with a NULL, by quasi-identifier.
    """
    holding = [f'"{name}" in {counted(count, "row")}' for name, count in rows.items() if count]
    return NullInQuasiIdentifier(
        f"Quasi-identifiers hold NULL: {', '.join(holding)}.",
        hint='Choose `nulls="category"` (classes within each pattern of NULLs) or `nulls="merge"`'
        ' (the same, and rare patterns join larger ones). `nulls="suppress"` withholds these'
        " records, and needs a `max_suppression` that allows it.",
    )


def group_positions(values: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Positions of equal values or rows, each set ascending; at least one set."""
    _, group = np.unique(values, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def count_for_k(microdata: Microdata, records: NDArray[np.int64]) -> int:
    """The count that k applies to: the number of these records, or of their persons."""
    if microdata.entities is None:
        return len(records)
    return len(np.unique(microdata.entities[records]))


def too_few_error(
    microdata: Microdata,
    policy: Policy,
    records: NDArray[np.int64],
    n_strata: int,
) -> TooFewRecords:
    """The error for a stratum with too few records, int64 (r,)."""
    absent = None
    if microdata.valid is not None and n_strata > 1:
        present = microdata.valid[records[0]]
        pairs = zip(microdata.attributes, present, strict=True)
        absent = [attribute.name for attribute, is_present in pairs if not is_present]
    return too_few_error_for_count(
        policy.k,
        count_for_k(microdata, records),
        "records" if microdata.entities is None else "persons",
        n_strata,
        withheld=microdata.withheld,
        absent=absent,
        by_values=microdata.strata is not None,
        merged=policy.nulls == MERGE,
    )


def too_few_error_for_count(
    k: int | str,
    count: int,
    unit: str,
    n_strata: int,
    *,
    withheld: int = 0,
    absent: Sequence[str] | None = None,
    by_values: bool = False,
    merged: bool = False,
) -> TooFewRecords:
    """The error for a stratum with too few records or persons.

    Parameters
    ----------
    withheld : records that have a NULL and are withheld.
    absent : quasi-identifiers that are NULL in all of it; None where none is NULL anywhere.
    by_values : True where strata are those of columns, and not of patterns of NULLs alone.
    merged : True where rare patterns of NULLs have joined others, as far as there are such.
    """
    if n_strata == 1:
        text = f"There are {count} {unit}, fewer than k = {k}"
        text += f" ({withheld} more records have a NULL and are withheld)." if withheld else "."
        hint = f"Choose `k={count}` or less." if count >= 2 else "Anonymize a table with more rows."
        return TooFewRecords(text, hint=hint)
    text = f"A stratum holds only {count} {unit}"
    if absent is not None:
        names = ", ".join(f'"{name}"' for name in absent)
        text += f" with NULL in {names}" if absent else " without NULL"
    hint = (
        "Leave columns out of the strata, bring rare values together in a view, or allow such"
        " records to be withheld (`max_suppression`)."
    )
    if merged and absent is not None and not by_values:
        hint = (
            "No other pattern of NULLs includes this one, so these records cannot join a larger"
            " pattern. Allow some records to be withheld (`max_suppression`)."
        )
    elif not by_values:
        hint = (
            f'With `nulls="category"` each pattern of NULLs needs k {unit}: allow some to be'
            " withheld (`max_suppression`), or join rare patterns with larger ones"
            ' (`nulls="merge"`). `nulls="suppress"` withholds records with a NULL instead.'
        )
    return TooFewRecords(f"{text}, fewer than k = {k}.", hint=hint)


# Counts of classes before and after merging, and a copy of them while classes merge.
_COPIES_OF_COUNTS = 3


def code_released_values(
    microdata: Microdata,
    partition: Partition,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    measures: Measures,
    memory_limit: int | None,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, ValueFrequencies]]:
    """The place of each released record's value, int32 (n,), by sensitive column; NULL comes last.
    Beside them how often each place occurs in the table, or how many persons have it.

    The order is that of the released values alone, so that it can be found again on what was
    written.

    Raises
    ------
    HierarchyBroken : a released value is no leaf.
    MemoryLimit : counts per class and value would need more than these bytes.
    """
    released = partition.labels >= 0
    units = microdata.units if microdata.sensitive else None
    withheld_units = None if units is None else units[~released]
    positions, tables = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        column = microdata.sensitive[name]
        table = measures.sensitive[name]
        null = len(table.values)
        codes = np.append(_codes_in(table, column), null)[column.codes].astype(np.int32)
        table = table.without(codes[~released], withheld_units)
        position_of = positions_of_codes(table, attributes[name], models)
        positions[name] = np.where(released, position_of[codes], np.int32(0))
        counts = np.zeros(int(position_of.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, position_of, table.counts)
        tables[name] = ValueFrequencies(counts, size=table.size)
        width = width_of(models, name, positions[name])
        require_memory(8, partition.n_classes, width, f'"{name}"', "values", memory_limit)
    return positions, tables


def _codes_in(table: ValueFrequencies, column: CodedColumn) -> NDArray[np.int64]:
    """Where the column's values are among the table's, int64."""
    if column.values == table.values:
        return np.arange(len(column.values))
    code_of = {value: code for code, value in enumerate(table.values)}
    return np.array([code_of[value] for value in column.values], np.int64)


def require_memory(
    count_bytes: int, n_classes: int, width: int, of: str, unit: str, memory_limit: int | None
) -> None:
    """Check that there is memory for the counts of each class while classes merge.

    Parameters
    ----------
    count_bytes : of one count.
    width : the counts of a class.
    of : the columns, quoted.
    unit : the counted things, as a plural noun.

    Raises
    ------
    MemoryLimit : they would need more than these bytes.
    """
    needed = _COPIES_OF_COUNTS * count_bytes * n_classes * width
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit.over(
            f"The counts of {of} need",
            memory_limit,
            detail=f"There are {n_classes} classes and {width} {unit}.",
            hint="Raise the limit (`memory_limit`), or group values of the column in a view.",
        )
