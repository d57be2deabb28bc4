"""Find strata, which classes must not cross, and encode sensitive columns for privacy models.

Here a stratum holds the records with the same values of the strata columns, the same pattern of
NULLs and the same layer. Layers separate the rows of one person (``person_rows``). For a method
that suppresses cells, patterns of NULLs do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import (
    CodedColumn,
    Microdata,
    number_combinations,
    number_values,
)
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit, NullInQuasiIdentifier, TooFewRecords, pluralize
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.measures.recount import count_values, positions_of_codes
from dbanon.methods import find_method


def find_strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Return the strata: sets of records that classes must not cross, int64 (m,) each.

    If the policy withholds records with NULLs, they must have been removed before.

    Raises
    ------
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them.
    """
    n = microdata.n_records
    has_one_stratum = microdata.strata is None and microdata.layers is None
    if has_one_stratum and microdata.valid is None and n:
        return [np.arange(n)]
    # ``RELEASED_NULLS`` are the policies that release records with a NULL.
    if microdata.valid is None or policy.nulls in RELEASED_NULLS:
        if find_method(policy.method).suppresses_cells:
            microdata = replace(microdata, valid=None)
        return group_positions(stratum_numbers(microdata))
    null_counts = (~microdata.valid).sum(axis=0).tolist()
    names = [attribute.name for attribute in microdata.attributes]
    raise null_error(dict(zip(names, null_counts, strict=True)))


def rare_records(microdata: Microdata, policy: Policy) -> NDArray[np.int64] | None:
    """Return the records to withhold because their stratum has fewer than k; int64 (m,), ascending.

    Strata include patterns of NULLs. Returns None if there are no such records, if the policy does
    not allow withholding, or if no stratum has k.

    Raises
    ------
    NullInQuasiIdentifier : as ``find_strata``.
    """
    if policy.max_suppression == 0 or not microdata.n_records:
        return None
    strata = find_strata(microdata, policy)
    rare_strata = [records for records in strata if count_for_k(microdata, records) < policy.k]
    has_other_strata = len(rare_strata) < len(strata)
    return np.sort(np.concatenate(rare_strata)) if rare_strata and has_other_strata else None


def stratum_numbers(microdata: Microdata) -> NDArray[np.int64]:
    """Number the combinations of strata columns, layer and pattern of NULLs; int64 (n,)."""
    patterns = None if microdata.valid is None else pattern_codes(microdata.valid)
    columns = [microdata.strata, microdata.layers, patterns]
    present_columns = [column for column in columns if column is not None]
    if not present_columns:
        return np.zeros(microdata.n_records, np.int64)
    return number_combinations(present_columns)


def pattern_codes(valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the patterns of NULLs, in ascending order of the distinct rows; int64 (n,), by record.

    Parameters
    ----------
    valid : bool (n, d), False where NULL.
    """
    packed = np.packbits(valid, axis=1)
    if packed.shape[1] > 8:
        return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    # Pack each pattern into one number, with the first attribute as its highest bit.
    pattern_bytes = np.zeros((len(valid), 8), np.uint8)
    pattern_bytes[:, : packed.shape[1]] = packed
    numbers = pattern_bytes.view(">u8").reshape(-1).astype(np.uint64)
    return number_values(numbers)


def null_error(null_counts: Mapping[str, int]) -> NullInQuasiIdentifier:
    """Build the error for NULLs if no option says how to treat them.

    Parameters
    ----------
    null_counts : the number of rows with NULL, by quasi-identifier.
    """
    null_texts = [
        f'"{name}" in {pluralize(count, "row")}' for name, count in null_counts.items() if count
    ]
    return NullInQuasiIdentifier(
        f"Quasi-identifiers hold NULL: {', '.join(null_texts)}.",
        hint='Choose `nulls="category"` (classes within each pattern of NULLs) or `nulls="merge"`'
        ' (the same, and rare patterns join larger ones). `nulls="suppress"` withholds these'
        " records, and needs a `max_suppression` that allows it.",
    )


def group_positions(values: AnyArray) -> list[NDArray[np.int64]]:
    """Group the positions of equal values, or equal rows of a matrix; each group is ascending."""
    if values.ndim > 1:
        values = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    return np.split(order, np.flatnonzero(ascending[1:] != ascending[:-1]) + 1)


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
    """Build the error for a stratum with too few records or persons.

    Parameters
    ----------
    records : int64 (r,), the records of the stratum.
    n_strata : the number of all strata.
    """
    null_columns = None
    if microdata.valid is not None and n_strata > 1:
        attribute_validity = zip(microdata.attributes, microdata.valid[records[0]], strict=True)
        null_columns = [
            attribute.name for attribute, is_valid in attribute_validity if not is_valid
        ]
    return too_few_error_for_count(
        policy.k,
        count_for_k(microdata, records),
        "records" if microdata.entities is None else "persons",
        n_strata,
        withheld=microdata.n_withheld,
        null_columns=null_columns,
        # Whether strata are defined by columns, not only by patterns of NULLs.
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
    count : the number of records or persons in the stratum.
    unit : the counted items as a plural noun, "records" or "persons".
    n_strata : the number of all strata.
    withheld : number of records that are withheld because of a NULL, and so not in ``count``.
    null_columns : quasi-identifiers that are NULL in the whole stratum; None if there are no NULLs.
    has_columns : True if columns define strata, so that they are not only patterns of NULLs.
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
    """Encode and count the values of the models' sensitive columns in released records.

    The statistics of the table number all values by codes. This function replaces a code by the
    position of the value among the released values or, with a hierarchy, by the position of its
    leaf. NULL comes last. A recount of the release finds the same positions.

    Parameters
    ----------
    attributes : the sensitive attributes, by name.
    column_statistics : the statistics of the table.
    memory_limit : the bytes that counts per class and value may use; None for no limit.

    Returns
    -------
    Two dicts by sensitive column: the position of each record's value, int32 (n,), and the
    frequencies of the positions among the table's released records or persons.

    Raises
    ------
    HierarchyBroken : a released value is not a leaf.
    MemoryLimit : counts per class and value would need more memory.
    """
    is_released = partition.labels >= 0
    units = microdata.person_units if microdata.sensitive else None
    withheld_units = None if units is None else units[~is_released]
    positions, frequencies_by_column = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        column = microdata.sensitive[name]
        frequencies = column_statistics.sensitive[name]
        null_code = len(frequencies.values)
        # NULL has the code -1 in the column, which selects the last element.
        codes = np.append(_codes_in_table(frequencies, column), null_code)[column.codes].astype(
            np.int32
        )
        frequencies = frequencies.after_withholding(codes[~is_released], withheld_units)
        position_of_code = positions_of_codes(frequencies, attributes[name], models)
        positions[name] = np.where(is_released, position_of_code[codes], np.int32(0))
        # Codes may share a position, so add their counts; they are 0 for codes that do not occur.
        counts = np.zeros(int(position_of_code.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, position_of_code, frequencies.counts)
        frequencies_by_column[name] = ValueFrequencies(counts, share_base=frequencies.share_base)
        n_values = count_values(models, name, positions[name])
        require_memory(
            count_bytes=8,
            n_classes=partition.n_classes,
            n_values=n_values,
            columns=f'"{name}"',
            counted_noun="values",
            memory_limit=memory_limit,
        )
    return positions, frequencies_by_column


def _codes_in_table(frequencies: ValueFrequencies, column: CodedColumn) -> NDArray[np.int64]:
    """Return, for each distinct value of a column, its code in the table's frequencies, int64."""
    if column.values == frequencies.values:
        return np.arange(len(column.values))
    code_by_value = {value: code for code, value in enumerate(frequencies.values)}
    return np.array([code_by_value[value] for value in column.values], np.int64)


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
    MemoryLimit : the counts would need more than ``memory_limit`` bytes.
    """
    needed = _COPIES_OF_COUNTS * count_bytes * n_classes * n_values
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit.exceeded(
            f"The counts of {columns} need",
            memory_limit,
            detail=f"There are {n_classes} classes and {n_values} {counted_noun}.",
            hint="Raise the limit (`memory_limit`), or group values of the column in a view.",
        )
