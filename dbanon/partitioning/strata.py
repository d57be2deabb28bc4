"""Find strata, which classes must not cross, and encode sensitive columns for privacy models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import CodedColumn, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit, NullInQuasiIdentifier, TooFewRecords, pluralize
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.measures.recount import count_values, positions_of_codes


def find_strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Return the strata: sets of records that classes must not cross.

    Raises
    ------
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them. Records
        to be withheld for NULLs have been removed before.
    """
    n = microdata.n_records
    divisions = (microdata.strata, microdata.layers, microdata.valid)
    if all(division is None for division in divisions) and n:
        return [np.arange(n)]
    if microdata.valid is None or policy.nulls in RELEASED_NULLS:
        return group_positions(stratum_numbers(microdata))
    null_counts = (~microdata.valid).sum(axis=0).tolist()
    raise null_error({a.name: n for a, n in zip(microdata.attributes, null_counts, strict=True)})


def rare_records(microdata: Microdata, policy: Policy) -> NDArray[np.int64] | None:
    """Return the records of strata and patterns of NULLs below k, int64 (m,), to be withheld.

    Returns None if there are none, if the policy withholds nothing, or if no stratum has k.

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
    """Number the combinations of stratum, layer and pattern of NULLs; int64 (n,), by record."""
    n = microdata.n_records
    strata = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    numbers: NDArray[np.int64] = np.asarray(strata, np.int64)
    patterns = None if microdata.valid is None else pattern_codes(microdata.valid)
    for division in (microdata.layers, patterns):
        if division is not None:
            both = numbers * (int(division.max(initial=0)) + 1) + division
            numbers = np.unique(both, return_inverse=True)[1].reshape(-1)
    return numbers


def pattern_codes(valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the patterns of NULLs; int64 (n,), by record, in the order of rows of bool (n, d)."""
    packed = np.packbits(valid, axis=1)
    if packed.shape[1] > 8:
        return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    # Write each pattern as one number, with the first attribute as its highest bit.
    wide = np.zeros((len(valid), 8), np.uint8)
    wide[:, : packed.shape[1]] = packed
    numbers = wide.view(">u8").reshape(-1).astype(np.uint64)
    codes: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    return codes


def null_error(rows: Mapping[str, int]) -> NullInQuasiIdentifier:
    """Build the error for NULLs if no option says how to treat them.

    Parameters
    ----------
    rows : number of rows with NULL, by quasi-identifier.
    """
    null_texts = [f'"{name}" in {pluralize(count, "row")}' for name, count in rows.items() if count]
    return NullInQuasiIdentifier(
        f"Quasi-identifiers hold NULL: {', '.join(null_texts)}.",
        hint='Choose `nulls="category"` (classes within each pattern of NULLs) or `nulls="merge"`'
        ' (the same, and rare patterns join larger ones). `nulls="suppress"` withholds these'
        " records, and needs a `max_suppression` that allows it.",
    )


def group_positions(values: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Group the positions of equal values, or equal rows of a matrix; each group is ascending."""
    _, group_numbers = np.unique(values, axis=0, return_inverse=True)
    group_numbers = group_numbers.reshape(-1)
    order = np.argsort(group_numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_numbers[order])) + 1)


def count_for_k(microdata: Microdata, records: NDArray[np.int64]) -> int:
    """Return the count that k applies to: the number of these records, or of their persons."""
    if microdata.entities is None:
        return len(records)
    return len(np.unique(microdata.entities[records]))


def too_few_error(
    microdata: Microdata,
    policy: Policy,
    records: NDArray[np.int64],
    n_strata: int,
) -> TooFewRecords:
    """Build the error for a stratum of too few records, int64 (r,)."""
    null_columns = None
    if microdata.valid is not None and n_strata > 1:
        present = microdata.valid[records[0]]
        presence = zip(microdata.attributes, present, strict=True)
        null_columns = [attribute.name for attribute, is_present in presence if not is_present]
    return too_few_error_for_count(
        policy.k,
        count_for_k(microdata, records),
        "records" if microdata.entities is None else "persons",
        n_strata,
        withheld=microdata.n_withheld,
        null_columns=null_columns,
        has_columns=microdata.strata is not None,
        is_merged=policy.nulls == MERGE,
    )


def too_few_error_for_count(
    k: int | str,
    count: int,
    unit: str,
    n_strata: int,
    *,
    withheld: int = 0,
    null_columns: Sequence[str] | None = None,
    has_columns: bool = False,
    is_merged: bool = False,
) -> TooFewRecords:
    """Build the error for a stratum with too few records or persons.

    Parameters
    ----------
    count, unit : the number of records or persons, and which of the two.
    withheld : number of records that are withheld because of a NULL.
    null_columns : quasi-identifiers that are NULL in the whole stratum; None if there are no NULLs.
    has_columns : True if strata are those of columns, not only of patterns of NULLs.
    is_merged : True if rare patterns of NULLs have joined larger ones where possible.
    """
    if n_strata == 1:
        message = f"There are {count} {unit}, fewer than k = {k}"
        message += f" ({withheld} more records have a NULL and are withheld)." if withheld else "."
        hint = f"Choose `k={count}` or less." if count >= 2 else "Anonymize a table with more rows."
        return TooFewRecords(message, hint=hint)
    message = f"A stratum holds only {count} {unit}"
    if null_columns is not None:
        names = ", ".join(f'"{name}"' for name in null_columns)
        message += f" with NULL in {names}" if null_columns else " without NULL"
    hint = (
        "Leave columns out of the strata, bring rare values together in a view, or allow such"
        " records to be withheld (`max_suppression`)."
    )
    if is_merged and null_columns is not None and not has_columns:
        hint = (
            "No other pattern of NULLs includes this one, so these records cannot join a larger"
            " pattern. Allow some records to be withheld (`max_suppression`)."
        )
    elif not has_columns:
        hint = (
            f'With `nulls="category"` each pattern of NULLs needs k {unit}: allow some to be'
            " withheld (`max_suppression`), or join rare patterns with larger ones"
            ' (`nulls="merge"`). `nulls="suppress"` withholds records with a NULL instead.'
        )
    return TooFewRecords(f"{message}, fewer than k = {k}.", hint=hint)


# Copies of the counts that exist while classes merge: before, after, and a working copy.
_COPIES_OF_COUNTS = 3


def code_released_values(
    microdata: Microdata,
    partition: Partition,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    column_statistics: ColumnStatistics,
    memory_limit: int | None,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, ValueFrequencies]]:
    """Encode the values of released records, int32 (n,), by sensitive column, and count the codes.

    A code is the position of a value among the released ones, or that of its leaf; NULL comes last.
    So a recount of the release finds the same codes. The frequencies are those of the table's
    released records or persons.

    Raises
    ------
    HierarchyBroken : a released value is not a leaf.
    MemoryLimit : counts per class and value would need more than ``memory_limit`` bytes.
    """
    released = partition.labels >= 0
    units = microdata.units if microdata.sensitive else None
    withheld_units = None if units is None else units[~released]
    positions, frequencies_by_column = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        column = microdata.sensitive[name]
        frequencies = column_statistics.sensitive[name]
        null_code = len(frequencies.values)
        codes = np.append(_codes_in_table(frequencies, column), null_code)[column.codes].astype(
            np.int32
        )
        frequencies = frequencies.after_withholding(codes[~released], withheld_units)
        position_of_code = positions_of_codes(frequencies, attributes[name], models)
        positions[name] = np.where(released, position_of_code[codes], np.int32(0))
        counts = np.zeros(int(position_of_code.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, position_of_code, frequencies.counts)
        frequencies_by_column[name] = ValueFrequencies(counts, share_base=frequencies.share_base)
        n_values = count_values(models, name, positions[name])
        require_memory(8, partition.n_classes, n_values, f'"{name}"', "values", memory_limit)
    return positions, frequencies_by_column


def _codes_in_table(frequencies: ValueFrequencies, column: CodedColumn) -> NDArray[np.int64]:
    """Return the code in the table of each value of a column, int64."""
    if column.values == frequencies.values:
        return np.arange(len(column.values))
    code_of = {value: code for code, value in enumerate(frequencies.values)}
    return np.array([code_of[value] for value in column.values], np.int64)


def require_memory(
    count_bytes: int,
    n_classes: int,
    n_values: int,
    columns: str,
    counted_noun: str,
    memory_limit: int | None,
) -> None:
    """Check that there is memory for the counts of each class while classes merge.

    Parameters
    ----------
    count_bytes : bytes per count.
    n_values : the number of counts per class.
    columns : the counted columns, quoted.
    counted_noun : the counted items, as a plural noun, such as ``values``.

    Raises
    ------
    MemoryLimit : they would need more than ``memory_limit`` bytes.
    """
    needed = _COPIES_OF_COUNTS * count_bytes * n_classes * n_values
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit.exceeded(
            f"The counts of {columns} need",
            memory_limit,
            detail=f"There are {n_classes} classes and {n_values} {counted_noun}.",
            hint="Raise the limit (`memory_limit`), or group values of the column in a view.",
        )
