"""Pieces of a table as microdata, in record order and with the table's dictionaries.

Privacy models compare with the table's distribution, not the piece's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import CodedColumn, Microdata, is_wide
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import Policy
from dbanon.partitioning.entities import Units, build_units
from dbanon.partitioning.merge import Guard
from dbanon.partitioning.protect import build_guard
from dbanon.partitioning.strata import code_released_values
from dbanon.spark.arrow import codes_of, combine_chunks, integers_of, is_valid, numbers_of
from dbanon.spark.layout import KEY, Layout

# The texts of a stratum's columns, None where NULL.
By = tuple["str | None", ...]


@dataclass(frozen=True, eq=False)
class TableContext:
    """What workers need to know about the table before its pieces are clustered.

    Parameters
    ----------
    layout : of the rows.
    policy : with its hierarchies.
    released : the measures of the table's records.
    clustered : the measures of the clustered records or persons' units.
    by : the number of each combination of values in the strata columns.
    wide : see ``Microdata``, for the whole table.
    """

    layout: Layout
    policy: Policy
    released: Measures
    clustered: Measures
    by: Mapping[By, int] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class TablePiece:
    """Some rows of a table.

    Parameters
    ----------
    rows : in record order.
    microdata : the same rows.
    by : the combinations of values in the strata columns, by their numbers in ``microdata``.
    unknown : values that are not in the attribute's order, with their row counts.
    """

    rows: pa.Table
    microdata: Microdata
    by: tuple[By, ...]
    unknown: Mapping[str, Mapping[str, int]]

    @property
    def keys(self) -> NDArray[np.int64]:
        """int64 (n,), ascending."""
        return self.microdata.keys[:, 0]

    def exact_totals(
        self, partition: Partition, attributes: Sequence[Attribute]
    ) -> dict[str, NDArray[np.object_]]:
        """Sums in each class as Python integers, which cannot overflow."""
        column_names = {a.name: f"q{i}" for i, a in enumerate(self.microdata.attributes)}
        totals = {}
        for attribute in attributes:
            integers = integers_of(
                combine_chunks(self.rows[column_names[attribute.name]]), attribute
            )
            sums = np.add.reduceat(integers[partition.members], partition.starts)
            totals[attribute.name] = np.asarray(sums, object)
        return totals


def piece_of(rows: pa.Table, layout: Layout, context: TableContext | None = None) -> TablePiece:
    """Build a piece of a table from rows in any order.

    Columns ``q0``, ``q1``, … are the quasi-identifiers, ``e0`` is the person, and ``s0``, ``s1``, …
    are the sensitive columns.

    Parameters
    ----------
    context : of the table; None to build dictionaries from the rows.
    """
    keys = combine_chunks(rows[KEY]).to_numpy(zero_copy_only=False).astype(np.int64)
    if not bool((keys[1:] >= keys[:-1]).all()):
        order = np.argsort(keys, kind="stable")
        rows, keys = rows.take(pa.array(order)), keys[order]
    attributes = layout.quasi_identifiers
    columns = [combine_chunks(rows[f"q{i}"]) for i in range(len(attributes))]
    valid = np.column_stack([is_valid(column) for column in columns])
    numbers, codes, categories = [], [], []
    unknown: dict[str, dict[str, int]] = {}
    wide = set() if context is None else set(context.wide)
    for attribute, column, present in zip(attributes, columns, valid.T, strict=True):
        if attribute.kind is Kind.ORDINAL:
            ranks, unknown[attribute.name] = _ranks(column, attribute)
            numbers.append(ranks)
        elif attribute.kind.is_numeric:
            values = numbers_of(column, attribute)
            if context is None and is_wide(values[present], attribute):
                wide.add(attribute.name)
            numbers.append(values)
        else:
            dictionary = (
                None if context is None else context.released.categories[attribute.name].values
            )
            column_codes, texts = codes_of(column, dictionary)
            codes.append(column_codes)
            categories.append(texts)
    n = len(keys)
    strata, by = _strata(rows, layout, context)
    microdata = Microdata(
        attributes=attributes,
        keys=keys.reshape(-1, 1),
        numbers=np.column_stack(numbers) if numbers else np.empty((n, 0)),
        codes=np.column_stack(codes) if codes else np.empty((n, 0), np.int32),
        categories=tuple(categories),
        valid=None if bool(valid.all()) else valid,
        wide=frozenset(wide),
        strata=strata,
        entities=codes_of(combine_chunks(rows["e0"]))[0] if layout.persons else None,
        sensitive=_sensitive(rows, layout, context),
    )
    return TablePiece(rows, microdata, by, unknown)


def clustered_of(
    microdata: Microdata, with_trees: Collection[str]
) -> tuple[Microdata, Units | None]:
    """Return the records to cluster, or the units of their persons.

    Parameters
    ----------
    with_trees : the attributes that have a hierarchy.
    """
    if microdata.entities is None:
        return microdata, None
    units = build_units(microdata, with_trees)
    return units.microdata, units


def _ranks(column: pa.Array, attribute: Attribute) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Ranks in the attribute's order, float64 (n,), 0 where NULL; and the values without rank."""
    codes, values = codes_of(column)
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # The last element is for the code -1 of NULL.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    unknown_values = {v: int(n) for v, n in zip(values, counts, strict=True) if v not in rank_of}
    return ranks[codes], unknown_values


def _strata(
    rows: pa.Table, layout: Layout, context: TableContext | None
) -> tuple[NDArray[np.int32] | None, tuple[By, ...]]:
    """The stratum of each row, int32 (n,), and the combinations of values in the strata columns."""
    if not layout.by:
        return None, ((),)
    parts = [codes_of(combine_chunks(rows[name])) for name in layout.strata]
    combinations, combination_of_row = np.unique(
        np.column_stack([codes for codes, _ in parts]), axis=0, return_inverse=True
    )
    by = tuple(
        tuple(
            None if code < 0 else values[code] for code, (_, values) in zip(row, parts, strict=True)
        )
        for row in combinations.tolist()
    )
    if context is None:
        return combination_of_row.reshape(-1).astype(np.int32), by
    stratum_of_combination = np.array([context.by[combination] for combination in by], np.int32)
    return stratum_of_combination[combination_of_row.reshape(-1)], tuple(context.by)


def _sensitive(
    rows: pa.Table, layout: Layout, context: TableContext | None
) -> dict[str, CodedColumn]:
    coded_columns = {}
    for i, attribute in enumerate(layout.sensitive):
        dictionary = None if context is None else context.released.sensitive[attribute.name].values
        coded_columns[attribute.name] = CodedColumn(
            *codes_of(combine_chunks(rows[f"s{i}"]), dictionary)
        )
    return coded_columns


def guard_on(microdata: Microdata, partition: Partition, context: TableContext) -> Guard:
    """Build the guard that checks the models on records that all have classes."""
    attributes = {attribute.name: attribute for attribute in context.layout.sensitive}
    places, frequencies = code_released_values(
        microdata, partition, context.policy.models, attributes, context.released, None
    )
    return build_guard(microdata, context.policy, places, frequencies)


def guard_of_table(context: TableContext) -> Guard:
    """Build the guard that the driver uses on counts, without records."""
    return guard_on(empty_microdata(context), Partition(np.zeros(0, np.int32)), context)


def empty_microdata(context: TableContext) -> Microdata:
    """The table without records."""
    layout, no_records = context.layout, np.zeros(0, np.int32)
    attributes = layout.quasi_identifiers
    dictionaries = tuple(
        context.released.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    return Microdata(
        attributes,
        np.zeros((0, 1), np.int64),
        np.zeros((0, len(attributes) - len(dictionaries))),
        np.zeros((0, len(dictionaries)), np.int32),
        dictionaries,
        entities=no_records if layout.persons else None,
        sensitive={
            a.name: CodedColumn(no_records, context.released.sensitive[a.name].values)
            for a in layout.sensitive
        },
    )
