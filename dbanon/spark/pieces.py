"""Pieces of a table as microdata: some rows in record order, with the table's dictionaries.

Privacy models are asked by the table's distribution, whatever a piece holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Coded, Microdata, is_wide
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import Policy
from dbanon.partitioning.entities import Units, units_of
from dbanon.partitioning.merge import Guard
from dbanon.partitioning.protect import guard_of
from dbanon.partitioning.strata import released_places
from dbanon.spark.arrow import codes_of, integers_of, numbers_of, one_array, valid_of
from dbanon.spark.layout import KEY, Layout

# The texts of a stratum's columns, None where NULL.
By = tuple["str | None", ...]


@dataclass(frozen=True, eq=False)
class TableContext:
    """What is known of a table before its pieces are given classes; workers are sent it.

    Parameters
    ----------
    layout : how rows stand.
    policy : with its hierarchies.
    released : the measures of the table's records.
    clustered : those of what is clustered: the records, or the units of their entities.
    by : the number of each combination of the columns of strata.
    wide : as in ``Microdata``, of the whole table.
    """

    layout: Layout
    policy: Policy
    released: Measures
    clustered: Measures
    by: Mapping[By, int] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a table.

    Parameters
    ----------
    rows : in record order.
    microdata : of them.
    by : the combinations of the columns of strata, by the numbers that ``microdata`` has.
    unknown : by ordinal attribute, the values that are not in its order, with their rows.
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
        """Sums in each class, by Python's integers, which have no limit."""
        places = {a.name: f"q{i}" for i, a in enumerate(self.microdata.attributes)}
        found = {}
        for attribute in attributes:
            integers = integers_of(one_array(self.rows[places[attribute.name]]), attribute)
            sums = np.add.reduceat(integers[partition.members], partition.starts)
            found[attribute.name] = np.asarray(sums, object)
        return found


def piece_of(rows: pa.Table, layout: Layout, known: TableContext | None = None) -> Piece:
    """Rows in any order as a piece of their table.

    Parameters
    ----------
    known : of the table; None where nothing is, and dictionaries are those of the rows.
    """
    keys = one_array(rows[KEY]).to_numpy(zero_copy_only=False).astype(np.int64)
    if not bool((keys[1:] >= keys[:-1]).all()):
        order = np.argsort(keys, kind="stable")
        rows, keys = rows.take(pa.array(order)), keys[order]
    attributes = layout.quasi_identifiers
    columns = [one_array(rows[f"q{i}"]) for i in range(len(attributes))]
    valid = np.column_stack([valid_of(column) for column in columns])
    numbers, codes, categories = [], [], []
    unknown: dict[str, dict[str, int]] = {}
    wide = set() if known is None else set(known.wide)
    for attribute, column, held in zip(attributes, columns, valid.T, strict=True):
        if attribute.kind is Kind.ORDINAL:
            ranks, unknown[attribute.name] = _ranks(column, attribute)
            numbers.append(ranks)
        elif attribute.kind.is_numeric:
            values = numbers_of(column, attribute)
            if known is None and is_wide(values[held], attribute):
                wide.add(attribute.name)
            numbers.append(values)
        else:
            own = None if known is None else known.released.categories[attribute.name].values
            found, texts = codes_of(column, own)
            codes.append(found)
            categories.append(texts)
    n = len(keys)
    strata, by = _strata(rows, layout, known)
    microdata = Microdata(
        attributes=attributes,
        keys=keys.reshape(-1, 1),
        numbers=np.column_stack(numbers) if numbers else np.empty((n, 0)),
        codes=np.column_stack(codes) if codes else np.empty((n, 0), np.int32),
        categories=tuple(categories),
        valid=None if bool(valid.all()) else valid,
        wide=frozenset(wide),
        strata=strata,
        entities=codes_of(one_array(rows["e0"]))[0] if layout.persons else None,
        sensitive=_sensitive(rows, layout, known),
    )
    return Piece(rows, microdata, by, unknown)


def clustered_of(
    microdata: Microdata, with_trees: Collection[str]
) -> tuple[Microdata, Units | None]:
    """What is put into classes: the records, or the units of their entities.

    Parameters
    ----------
    with_trees : the attributes that have a hierarchy.
    """
    if microdata.entities is None:
        return microdata, None
    units = units_of(microdata, with_trees)
    return units.microdata, units


def _ranks(column: pa.Array, attribute: Attribute) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Places in the attribute's order, float64 (n,); 0 where NULL. Beside them what has none."""
    codes, values = codes_of(column)
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # One more place for the code -1 of NULL.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    lost = {v: int(n) for v, n in zip(values, counts, strict=True) if v not in rank_of}
    return ranks[codes], lost


def _strata(
    rows: pa.Table, layout: Layout, known: TableContext | None
) -> tuple[NDArray[np.int32] | None, tuple[By, ...]]:
    """The stratum of each row by the columns that say it, int32 (n,), and what they hold."""
    if not layout.by:
        return None, ((),)
    parts = [codes_of(one_array(rows[name])) for name in layout.strata]
    found, number = np.unique(
        np.column_stack([codes for codes, _ in parts]), axis=0, return_inverse=True
    )
    by = tuple(
        tuple(
            None if code < 0 else values[code] for code, (_, values) in zip(row, parts, strict=True)
        )
        for row in found.tolist()
    )
    if known is None:
        return number.reshape(-1).astype(np.int32), by
    numbers = np.array([known.by[one] for one in by], np.int32)
    return numbers[number.reshape(-1)], tuple(known.by)


def _sensitive(rows: pa.Table, layout: Layout, known: TableContext | None) -> dict[str, Coded]:
    found = {}
    for i, attribute in enumerate(layout.sensitive):
        own = None if known is None else known.released.sensitive[attribute.name].values
        found[attribute.name] = Coded(*codes_of(one_array(rows[f"s{i}"]), own))
    return found


def guard_on(microdata: Microdata, partition: Partition, known: TableContext) -> Guard:
    """The models, and what they look at, of records that all have classes."""
    attributes = {attribute.name: attribute for attribute in known.layout.sensitive}
    places, table = released_places(
        microdata, partition, known.policy.models, attributes, known.released, None
    )
    return guard_of(microdata, known.policy, places, table)


def guard_of_table(known: TableContext) -> Guard:
    """The models as the driver asks them of counts: of no record."""
    return guard_on(nobody(known), Partition(np.zeros(0, np.int32)), known)


def nobody(known: TableContext) -> Microdata:
    """The table without any record."""
    layout, none = known.layout, np.zeros(0, np.int32)
    attributes = layout.quasi_identifiers
    dictionaries = tuple(
        known.released.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    return Microdata(
        attributes,
        np.zeros((0, 1), np.int64),
        np.zeros((0, len(attributes) - len(dictionaries))),
        np.zeros((0, len(dictionaries)), np.int32),
        dictionaries,
        entities=none if layout.persons else None,
        sensitive={
            a.name: Coded(none, known.released.sensitive[a.name].values) for a in layout.sensitive
        },
    )
