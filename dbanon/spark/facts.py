"""Facts about pieces of a table: sums and counts that add up to those of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import Measures, ValueFrequencies
from dbanon.data.microdata import Microdata, first_record_mask
from dbanon.data.scales import Scale, Sums
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import MemoryLimit
from dbanon.hierarchy.leaves import sort_values
from dbanon.spark.layout import KEY, Layout
from dbanon.spark.pieces import By, clustered_of, piece_of

# Number of low bits of a key that are numbered within a page.
_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS

# Pages are 8 KiB. Limits on the bytes per key, below which size they do not apply, and on the
# number of pages.
_MAX_BYTES_PER_KEY = 64
_MIN_PAGE_BYTES = 1 << 20
_MAX_PAGES = 1 << 15


@dataclass
class KeySet:
    """The keys of some rows as bitmaps.

    Parameters
    ----------
    pages : uint8 (8192,), one bit per key, by the keys' high bits.
    has_duplicates : two rows have the same key.
    is_sparse : the keys are too far apart for bitmaps, so another method must check them.
    """

    pages: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    has_duplicates: bool = False
    is_sparse: bool = False

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> KeySet:
        """Build from keys, int64 (n,), ascending."""
        if bool((keys[1:] == keys[:-1]).any()):
            return cls(has_duplicates=True)
        page_numbers, low = keys >> _PAGE_BITS, keys & (_PAGE - 1)
        starts = np.flatnonzero(np.diff(page_numbers, prepend=page_numbers[:1] - 1))
        if len(starts) * _PAGE // 8 > max(_MAX_BYTES_PER_KEY * len(keys), _MIN_PAGE_BYTES):
            return cls(is_sparse=True)
        pages = {}
        for page_rows in np.split(np.arange(len(keys)), starts[1:]):
            if len(page_rows):
                bits = np.zeros(_PAGE, np.bool_)
                bits[low[page_rows]] = True
                pages[int(page_numbers[page_rows[0]])] = np.packbits(bits)
        return cls(pages)

    def add(self, other: KeySet) -> None:
        """Add the keys of other rows."""
        self.has_duplicates |= other.has_duplicates
        self.is_sparse |= other.is_sparse
        if self.has_duplicates or self.is_sparse:
            self.pages = {}
            return
        for page_number, bits in other.pages.items():
            existing_bits = self.pages.get(page_number)
            if existing_bits is not None and bool((existing_bits & bits).any()):
                self.has_duplicates = True
            self.pages[page_number] = bits if existing_bits is None else existing_bits | bits
        self.is_sparse |= len(self.pages) > _MAX_PAGES


# Limit for a column's dictionary, which the driver holds in memory.
MAX_VALUES = 1_000_000


@dataclass
class TableSums:
    """The sums and counts that measures are computed from.

    Parameters
    ----------
    sums : by numeric attribute.
    categories : the count of each value, by categorical attribute.
    sensitive : the count of each value, None for NULL, by sensitive column; in records or persons.
    persons : number of persons, counted per stratum and pattern of NULLs.
    ranks : the ranks that occur, by ordinal attribute.
    """

    sums: dict[str, Sums] = field(default_factory=dict)
    categories: dict[str, Counter[str]] = field(default_factory=dict)
    sensitive: dict[str, Counter[str | None]] = field(default_factory=dict)
    persons: int = 0
    ranks: dict[str, set[float]] = field(default_factory=dict)

    def add(self, other: TableSums) -> None:
        """Add the sums of another piece."""
        for name, sums in other.sums.items():
            self.sums[name] = self.sums.get(name, Sums()) + sums
        for name, counts in other.categories.items():
            self.categories.setdefault(name, Counter()).update(counts)
            require_few(name, len(self.categories[name]))
        for name, shares in other.sensitive.items():
            self.sensitive.setdefault(name, Counter()).update(shares)
            require_few(name, len(self.sensitive[name]))
        for name, ranks in other.ranks.items():
            self.ranks.setdefault(name, set()).update(ranks)
        self.persons += other.persons


@dataclass
class Facts:
    """The facts about a piece.

    Parameters
    ----------
    rows : number of records.
    nulls, not_finite : number of records that are NULL or not finite, by quasi-identifier.
    unknown : values that are not in the attribute's order, by ordinal attribute.
    wide : see ``Microdata``.
    strata : number of records and of clustered units, by the values of the strata columns and the
        pattern of non-NULL quasi-identifiers.
    records, clustered : sums of the records, and of the clustered units if these differ.
    distinct : the numbers that occur, by attribute whose hierarchy is built from its values.
    no_key, no_entity : number of records without key or person.
    keys : the keys of the records.
    """

    rows: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    not_finite: Counter[str] = field(default_factory=Counter)
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    strata: dict[tuple[By, tuple[bool, ...]], tuple[int, int]] = field(default_factory=dict)
    records: TableSums = field(default_factory=TableSums)
    clustered: TableSums | None = None
    distinct: dict[str, set[float]] = field(default_factory=dict)
    no_key: int = 0
    no_entity: int = 0
    keys: KeySet = field(default_factory=KeySet)

    def add(self, other: Facts) -> None:
        """Add the facts about another piece."""
        self.rows += other.rows
        self.no_key += other.no_key
        self.no_entity += other.no_entity
        self.keys.add(other.keys)
        self.nulls.update(other.nulls)
        self.not_finite.update(other.not_finite)
        self.wide |= other.wide
        for key, (records, units) in other.strata.items():
            previous = self.strata.get(key, (0, 0))
            self.strata[key] = previous[0] + records, previous[1] + units
        for name, counts in other.unknown.items():
            self.unknown.setdefault(name, Counter()).update(counts)
        for name, values in other.distinct.items():
            self.distinct.setdefault(name, set()).update(values)
            require_few(name, len(self.distinct[name]))
        self.records.add(other.records)
        if other.clustered is not None:
            self.clustered = self.clustered or TableSums()
            self.clustered.add(other.clustered)


def require_few(name: str, count: int) -> None:
    """Check that the driver can hold the values of a column.

    Raises
    ------
    MemoryLimit : there are too many.
    """
    if count > MAX_VALUES:
        raise MemoryLimit(
            f'Column "{name}" has more than {MAX_VALUES} different values, which the driver of'
            " Spark would have to hold.",
            hint="Bring rare values together in a view, or give it as a number.",
        )


def facts_of(
    rows: pa.Table, layout: Layout, with_trees: Collection[str], built_from_values: Collection[str]
) -> Facts:
    """Gather the facts about a piece; with persons, it must hold all records of each.

    Parameters
    ----------
    with_trees : attributes that have a hierarchy.
    built_from_values : attributes whose hierarchies are built from the values that occur.
    """
    if no_key := rows[KEY].null_count:
        return Facts(rows=rows.num_rows, no_key=no_key)
    if no_entity := sum(rows[name].null_count for name in layout.entity):
        return Facts(rows=rows.num_rows, no_entity=no_entity)
    piece = piece_of(rows, layout)
    microdata = piece.microdata
    keys = KeySet.of(piece.keys)
    facts = Facts(rows=microdata.n_records, wide=set(microdata.wide), keys=keys)
    facts.unknown = {name: Counter(counts) for name, counts in piece.unknown.items() if counts}
    for attribute in microdata.attributes:
        valid = microdata.valid_column(attribute.name)
        if valid is not None:
            facts.nulls[attribute.name] = int((~valid).sum())
        if attribute.kind.is_numeric:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            present = values if valid is None else values[valid]
            n_not_finite = int((~np.isfinite(present)).sum())
            if n_not_finite:
                facts.not_finite[attribute.name] = n_not_finite
            if attribute.name in built_from_values:
                facts.distinct[attribute.name] = set(np.unique(present).tolist())
                require_few(attribute.name, len(facts.distinct[attribute.name]))
    if facts.not_finite or facts.unknown:
        return facts
    clustered, units = clustered_of(microdata, with_trees)
    facts.records = _sums_of(microdata)
    if units is not None:
        facts.clustered = _sums_of(clustered)
    for pass_number, table in enumerate((microdata, clustered)):
        for key, count in _strata(table, piece.by).items():
            previous = facts.strata.get(key, (0, 0))
            facts.strata[key] = (count, previous[1]) if pass_number == 0 else (previous[0], count)
    return facts


def _strata(microdata: Microdata, by: tuple[By, ...]) -> dict[tuple[By, tuple[bool, ...]], int]:
    n, d = microdata.n_records, len(microdata.attributes)
    if microdata.strata is None and microdata.valid is None:
        return {(by[0], (True,) * d): n} if n else {}
    strata = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    valid = np.ones((n, d), np.bool_) if microdata.valid is None else microdata.valid
    patterns, counts = np.unique(np.column_stack([strata, valid]), axis=0, return_counts=True)
    return {
        (by[row[0]], tuple(map(bool, row[1:]))): count
        for row, count in zip(patterns.tolist(), counts.tolist(), strict=True)
    }


def _sums_of(microdata: Microdata) -> TableSums:
    valid = microdata.numeric_valid()
    sums = TableSums()
    for index, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, index]
        values = values if valid is None else values[valid[:, index]]
        sums.sums[attribute.name] = Sums.of(values)
        if attribute.kind is Kind.ORDINAL:
            sums.ranks[attribute.name] = set(np.unique(values).tolist())
    for attribute, codes, texts in zip(
        microdata.categorical, microdata.codes.T, microdata.categories, strict=True
    ):
        counts = ValueFrequencies.of(codes, texts).counts.tolist()
        sums.categories[attribute.name] = Counter(dict(zip(texts, counts, strict=True)))
    units = microdata.units if microdata.sensitive else None
    for name, column in microdata.sensitive.items():
        counts = ValueFrequencies.of_column(column, units).counts.tolist()
        sums.sensitive[name] = Counter(dict(zip((*column.values, None), counts, strict=True)))
    if units is not None:
        sums.persons = int(first_record_mask(units).sum())
    return sums


def measures_of(
    sums: TableSums, dictionaries: TableSums, sensitive: tuple[Attribute, ...], persons: bool
) -> Measures:
    """Compute the measures of a table from the sums of its pieces; equals ``Measures.of``.

    Parameters
    ----------
    dictionaries : sums of the table's records, which may hold values that ``sums`` lacks.
    """
    categories = {}
    for name, table_counts in dictionaries.categories.items():
        values = tuple(sorted(table_counts))
        own_counts = sums.categories[name]
        counts = np.array([own_counts[value] for value in values], np.int64)
        categories[name] = ValueFrequencies(counts, values)
    shares = {}
    for attribute in sensitive:
        if attribute.name not in sums.sensitive:
            continue
        text_counts = sums.sensitive[attribute.name]
        texts = sort_values([text for text in text_counts if text is not None], attribute)
        counts = np.array([*(text_counts[text] for text in texts), text_counts[None]], np.int64)
        size = sums.persons if persons else None
        shares[attribute.name] = ValueFrequencies(counts, tuple(texts), size)
    numbers = {name: Scale.of_sums(column_sums) for name, column_sums in sums.sums.items()}
    ranks = {
        name: np.array(sorted(column_ranks), np.float64)
        for name, column_ranks in sums.ranks.items()
    }
    return Measures(numbers, categories, shares, ranks=ranks)


def values_of(
    facts: Facts, attributes: tuple[Attribute, ...], dictionaries: dict[str, Any]
) -> Microdata:
    """Build microdata with each value of the table once, for hierarchies built from values.

    Parameters
    ----------
    dictionaries : the values of categorical attributes, by name.
    """
    columns = [sorted(facts.distinct.get(a.name, ())) for a in attributes if a.kind.is_numeric]
    n = max([1, *map(len, columns)])
    numbers = np.zeros((n, len(columns)))
    valid = np.ones((n, len(attributes)), np.bool_)
    numeric_indices = [i for i, a in enumerate(attributes) if a.kind.is_numeric]
    for column_index, (attribute_index, values) in enumerate(
        zip(numeric_indices, columns, strict=True)
    ):
        numbers[: len(values), column_index] = values
        valid[len(values) :, attribute_index] = False
    categories = tuple(tuple(dictionaries[a.name]) for a in attributes if not a.kind.is_numeric)
    codes = np.full((n, len(categories)), -1, np.int32)
    keys = np.arange(n, dtype=np.int64).reshape(-1, 1)
    return replace(Microdata(attributes, keys, numbers, codes, categories), valid=valid)
