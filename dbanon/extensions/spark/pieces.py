"""Pieces of a table as microdata, in key order and with the dictionaries of the whole table.

A piece is some rows that one task has in memory. Privacy models compare each class with the
distribution of the whole table, not of the piece. A guard tells whether counts of sensitive values
satisfy the models. A column is wide if float64 cannot represent its numbers exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import CodedColumn, Microdata, is_wide
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.extensions.spark.arrow import (
    combine_chunks,
    encode_texts,
    to_floats,
    to_integers,
    valid_mask,
)
from dbanon.extensions.spark.layout import KEY, Layout
from dbanon.job.policy import Policy
from dbanon.partitioning.entities import Units, build_units
from dbanon.partitioning.merge import Guard
from dbanon.partitioning.protect import build_guard
from dbanon.partitioning.strata import code_released_values

# The values of the strata columns as text, None where NULL.
StrataValues = tuple["str | None", ...]


@dataclass(frozen=True, eq=False)
class TableContext:
    """What workers need to know about the whole table to cluster a piece of it.

    Parameters
    ----------
    layout : the columns of the rows, by role.
    policy : the job's policy, with its hierarchies.
    record_statistics : the column statistics of the table's records.
    clustered_statistics : the column statistics of the clustered units: records, or one unit for
        all records of a person.
    combination_numbers : a number for each combination of values of the strata columns.
    wide : names of the attributes with numbers that float64 cannot represent exactly.
    """

    layout: Layout
    policy: Policy
    record_statistics: ColumnStatistics
    clustered_statistics: ColumnStatistics
    combination_numbers: Mapping[StrataValues, int] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class TablePiece:
    """Some rows of a table.

    Parameters
    ----------
    rows : the rows, in ascending order of their keys.
    microdata : the same rows as microdata.
    strata_values : combinations of values of the strata columns; ``microdata.strata`` holds indices
        into this tuple.
    unknown_values : by ordinal attribute, the values missing from its order, with their row counts.
    """

    rows: pa.Table
    microdata: Microdata
    strata_values: tuple[StrataValues, ...]
    unknown_values: Mapping[str, Mapping[str, int]]

    @property
    def keys(self) -> NDArray[np.int64]:
        """The keys of the rows, int64 (n,), ascending."""
        return self.microdata.keys[:, 0]

    def sum_exactly(
        self, partition: Partition, attributes: Sequence[Attribute]
    ) -> dict[str, NDArray[np.object_]]:
        """Sum attributes by class, (n_classes,), as Python integers, which cannot overflow."""
        column_names = {a.name: f"q{i}" for i, a in enumerate(self.microdata.attributes)}
        totals = {}
        for attribute in attributes:
            integers = to_integers(
                combine_chunks(self.rows[column_names[attribute.name]]), attribute
            )
            # ``members`` lists the records class by class; ``starts`` has each class's first index.
            sums = np.add.reduceat(integers[partition.members], partition.starts)
            totals[attribute.name] = np.asarray(sums, object)
        return totals


def build_piece(rows: pa.Table, layout: Layout, context: TableContext | None = None) -> TablePiece:
    """Build a piece of a table from rows in any order.

    Columns ``q0``, ``q1``, … are the quasi-identifiers, ``e0`` is the person, and ``s0``, ``s1``, …
    are the sensitive columns.

    Parameters
    ----------
    context : the dictionaries of the whole table; None to build them from the rows of the piece.
    """
    keys = combine_chunks(rows[KEY]).to_numpy(zero_copy_only=False).astype(np.int64)
    if not bool((keys[1:] >= keys[:-1]).all()):
        order = np.argsort(keys, kind="stable")
        rows, keys = rows.take(pa.array(order)), keys[order]
    attributes = layout.quasi_identifiers
    columns = [combine_chunks(rows[f"q{i}"]) for i in range(len(attributes))]
    valid = np.column_stack([valid_mask(column) for column in columns])
    numbers, codes, categories = [], [], []
    unknown_values: dict[str, dict[str, int]] = {}
    wide = set() if context is None else set(context.wide)
    for attribute, column, present in zip(attributes, columns, valid.T, strict=True):
        if attribute.kind is Kind.ORDINAL:
            ranks, unknown_values[attribute.name] = _to_ranks(column, attribute)
            numbers.append(ranks)
        elif attribute.kind.is_numeric:
            values = to_floats(column, attribute)
            if context is None and is_wide(values[present], attribute):
                wide.add(attribute.name)
            numbers.append(values)
        else:
            dictionary = (
                None
                if context is None
                else context.record_statistics.categories[attribute.name].values
            )
            column_codes, texts = encode_texts(column, dictionary)
            codes.append(column_codes)
            categories.append(texts)
    n = len(keys)
    strata, strata_values = _number_strata(rows, layout, context)
    microdata = Microdata(
        attributes=attributes,
        keys=keys.reshape(-1, 1),
        numbers=np.column_stack(numbers) if numbers else np.empty((n, 0)),
        codes=np.column_stack(codes) if codes else np.empty((n, 0), np.int32),
        categories=tuple(categories),
        valid=None if bool(valid.all()) else valid,
        wide=frozenset(wide),
        strata=strata,
        entities=encode_texts(combine_chunks(rows["e0"]))[0] if layout.has_persons else None,
        sensitive=_encode_sensitive(rows, layout, context),
    )
    return TablePiece(rows, microdata, strata_values, unknown_values)


def prepare_clustering(
    microdata: Microdata, attributes_with_hierarchy: Collection[str]
) -> tuple[Microdata, Units | None]:
    """Return the microdata to cluster, and the units.

    If k counts persons, all records of a person are one unit, which is clustered like a record.
    Otherwise the microdata is returned as it is, and the units are None.

    Parameters
    ----------
    attributes_with_hierarchy : names of the attributes that have a hierarchy.
    """
    if microdata.entities is None:
        return microdata, None
    units = build_units(microdata, attributes_with_hierarchy)
    return units.microdata, units


def _to_ranks(column: pa.Array, attribute: Attribute) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Return ranks in the attribute's order, float64 (n,), 0 where NULL.

    Also returns the values that are missing from the order, with their counts.
    """
    codes, values = encode_texts(column)
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # NULL has the code -1, which selects the last element.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    unknown_counts = {v: int(n) for v, n in zip(values, counts, strict=True) if v not in rank_of}
    return ranks[codes], unknown_counts


def _number_strata(
    rows: pa.Table, layout: Layout, context: TableContext | None
) -> tuple[NDArray[np.int32] | None, tuple[StrataValues, ...]]:
    """Return each row's combination of strata values, int32 (n,), and the combinations."""
    if not layout.strata_columns:
        return None, ((),)
    coded_columns = [encode_texts(combine_chunks(rows[name])) for name in layout.internal_strata]
    combinations, combination_of_row = np.unique(
        np.column_stack([codes for codes, _ in coded_columns]), axis=0, return_inverse=True
    )
    strata_values = tuple(
        tuple(
            None if code < 0 else values[code]
            for code, (_, values) in zip(combination_codes, coded_columns, strict=True)
        )
        for combination_codes in combinations.tolist()
    )
    if context is None:
        return combination_of_row.reshape(-1).astype(np.int32), strata_values
    table_numbers = np.array([context.combination_numbers[v] for v in strata_values], np.int32)
    return table_numbers[combination_of_row.reshape(-1)], tuple(context.combination_numbers)


def _encode_sensitive(
    rows: pa.Table, layout: Layout, context: TableContext | None
) -> dict[str, CodedColumn]:
    """Encode the sensitive columns, by name."""
    coded_columns = {}
    for i, attribute in enumerate(layout.sensitive):
        dictionary = (
            None if context is None else context.record_statistics.sensitive[attribute.name].values
        )
        coded_columns[attribute.name] = CodedColumn(
            *encode_texts(combine_chunks(rows[f"s{i}"]), dictionary)
        )
    return coded_columns


def build_class_guard(microdata: Microdata, partition: Partition, context: TableContext) -> Guard:
    """Build the guard that checks the privacy models on records that all have a class."""
    attributes = {attribute.name: attribute for attribute in context.layout.sensitive}
    # The sensitive values as codes, numbered as a recount of the released values would number them,
    # and how often each value occurs in the table.
    released_codes, frequencies = code_released_values(
        microdata,
        partition,
        context.policy.models,
        attributes,
        context.record_statistics,
        memory_limit=None,
    )
    return build_guard(microdata, context.policy, released_codes, frequencies)


def build_table_guard(context: TableContext) -> Guard:
    """Build the guard with which the driver checks counts of sensitive values, without records."""
    no_classes = Partition(np.zeros(0, np.int32))
    return build_class_guard(build_empty_microdata(context), no_classes, context)


def build_empty_microdata(context: TableContext) -> Microdata:
    """Build microdata with the table's attributes and dictionaries, but no records."""
    layout, no_records = context.layout, np.zeros(0, np.int32)
    attributes = layout.quasi_identifiers
    dictionaries = tuple(
        context.record_statistics.categories[a.name].values
        for a in attributes
        if not a.kind.is_numeric
    )
    return Microdata(
        attributes,
        np.zeros((0, 1), np.int64),
        np.zeros((0, len(attributes) - len(dictionaries))),
        np.zeros((0, len(dictionaries)), np.int32),
        dictionaries,
        entities=no_records if layout.has_persons else None,
        sensitive={
            a.name: CodedColumn(no_records, context.record_statistics.sensitive[a.name].values)
            for a in layout.sensitive
        },
    )
