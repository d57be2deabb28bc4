"""Facts about pieces of a table: sums and counts that can be added up to those of the table.

A piece is some rows that one task has in memory together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import Microdata, first_record_mask
from dbanon.data.scales import Scale, Sums
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import MemoryLimit
from dbanon.extensions.spark.layout import KEY, Layout
from dbanon.extensions.spark.pieces import StrataValues, build_piece, prepare_clustering
from dbanon.hierarchy.leaves import sort_values

# Number of low bits of a key that give its position in a page; the high bits number the page.
_PAGE_BITS = 16
_KEYS_PER_PAGE = 1 << _PAGE_BITS

# Pages are 8 KiB. Keys are sparse if their pages need more than this many bytes per key, unless
# all pages together are smaller than the minimum; or if there are too many pages.
_MAX_BYTES_PER_KEY = 64
_MIN_PAGE_BYTES = 1 << 20
_MAX_PAGES = 1 << 15


@dataclass
class KeySet:
    """The keys of some rows as bitmaps.

    Parameters
    ----------
    pages : by the keys' high bits, uint8 (8192,) with one bit per key.
    has_duplicates : whether two rows have the same key.
    is_sparse : whether the keys are too far apart for bitmaps; duplicates must then be found in
        another way.
    """

    pages: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    has_duplicates: bool = False
    is_sparse: bool = False

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> KeySet:
        """Build the set from keys, int64 (n,), ascending."""
        if bool((keys[1:] == keys[:-1]).any()):
            return cls(has_duplicates=True)
        page_numbers, low_bits = keys >> _PAGE_BITS, keys & (_KEYS_PER_PAGE - 1)
        page_starts = np.flatnonzero(np.diff(page_numbers, prepend=page_numbers[:1] - 1))
        if len(page_starts) * _KEYS_PER_PAGE // 8 > max(
            _MAX_BYTES_PER_KEY * len(keys), _MIN_PAGE_BYTES
        ):
            return cls(is_sparse=True)
        pages = {}
        for page_rows in np.split(np.arange(len(keys)), page_starts[1:]):
            if len(page_rows):
                bits = np.zeros(_KEYS_PER_PAGE, np.bool_)
                bits[low_bits[page_rows]] = True
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


# The most distinct values of a column, which the driver holds in memory.
MAX_DISTINCT_VALUES = 1_000_000


@dataclass
class TableSums:
    """The sums and counts that column statistics are computed from.

    Parameters
    ----------
    numeric_sums : by numeric attribute, the sums of its values and squares.
    category_counts : by categorical attribute, the count of each value.
    sensitive_counts : by sensitive column, the number of records or persons with each value; the
        key None stands for NULL.
    n_persons : number of persons; those in several strata or patterns of NULLs count several times.
    ranks : by ordinal attribute, the ranks that occur.
    """

    numeric_sums: dict[str, Sums] = field(default_factory=dict)
    category_counts: dict[str, Counter[str]] = field(default_factory=dict)
    sensitive_counts: dict[str, Counter[str | None]] = field(default_factory=dict)
    n_persons: int = 0
    ranks: dict[str, set[float]] = field(default_factory=dict)

    def add(self, other: TableSums) -> None:
        """Add the sums of another piece."""
        for name, sums in other.numeric_sums.items():
            self.numeric_sums[name] = self.numeric_sums.get(name, Sums()) + sums
        for name, counts in other.category_counts.items():
            self.category_counts.setdefault(name, Counter()).update(counts)
            require_few_values(name, len(self.category_counts[name]))
        for name, value_counts in other.sensitive_counts.items():
            self.sensitive_counts.setdefault(name, Counter()).update(value_counts)
            require_few_values(name, len(self.sensitive_counts[name]))
        for name, ranks in other.ranks.items():
            self.ranks.setdefault(name, set()).update(ranks)
        self.n_persons += other.n_persons


@dataclass
class Facts:
    """Facts about the records of a piece, or of all pieces added so far.

    A clustered unit is a record, or all records of a person if k counts persons.

    Parameters
    ----------
    n_rows : number of records.
    null_counts, non_finite_counts : number of NULL and of infinite or NaN values, by
        quasi-identifier.
    unknown_values : by ordinal attribute, the values missing from its order, with their counts.
    wide : names of the attributes with numbers that float64 cannot represent exactly.
    strata_sizes : number of records and of clustered units, by the values of the strata columns and
        whether each quasi-identifier is present. A stratum is such a combination, because records
        with different patterns of NULLs do not share a class.
    record_sums : sums of the records.
    clustered_sums : sums of the clustered units; None if these are the records.
    distinct_numbers : the numbers that occur, by attribute with a hierarchy built from its values.
    n_without_key, n_without_entity : number of records without a key or a person.
    keys : the keys of the records.
    """

    n_rows: int = 0
    null_counts: Counter[str] = field(default_factory=Counter)
    non_finite_counts: Counter[str] = field(default_factory=Counter)
    unknown_values: dict[str, Counter[str]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    strata_sizes: dict[tuple[StrataValues, tuple[bool, ...]], tuple[int, int]] = field(
        default_factory=dict
    )
    record_sums: TableSums = field(default_factory=TableSums)
    clustered_sums: TableSums | None = None
    distinct_numbers: dict[str, set[float]] = field(default_factory=dict)
    n_without_key: int = 0
    n_without_entity: int = 0
    keys: KeySet = field(default_factory=KeySet)

    def add(self, other: Facts) -> None:
        """Add the facts about another piece."""
        self.n_rows += other.n_rows
        self.n_without_key += other.n_without_key
        self.n_without_entity += other.n_without_entity
        self.keys.add(other.keys)
        self.null_counts.update(other.null_counts)
        self.non_finite_counts.update(other.non_finite_counts)
        self.wide |= other.wide
        for stratum, (n_records, n_units) in other.strata_sizes.items():
            records_before, units_before = self.strata_sizes.get(stratum, (0, 0))
            self.strata_sizes[stratum] = records_before + n_records, units_before + n_units
        for name, counts in other.unknown_values.items():
            self.unknown_values.setdefault(name, Counter()).update(counts)
        for name, values in other.distinct_numbers.items():
            self.distinct_numbers.setdefault(name, set()).update(values)
            require_few_values(name, len(self.distinct_numbers[name]))
        self.record_sums.add(other.record_sums)
        if other.clustered_sums is not None:
            self.clustered_sums = self.clustered_sums or TableSums()
            self.clustered_sums.add(other.clustered_sums)


def require_few_values(name: str, count: int) -> None:
    """Check that the driver can hold the ``count`` distinct values of a column.

    Raises
    ------
    MemoryLimit : there are too many.
    """
    if count > MAX_DISTINCT_VALUES:
        raise MemoryLimit(
            f'Column "{name}" has more than {MAX_DISTINCT_VALUES} different values,'
            " which the driver of Spark would have to hold.",
            hint="Bring rare values together in a view, or give it as a number.",
        )


def gather_facts(
    rows: pa.Table,
    layout: Layout,
    attributes_with_hierarchy: Collection[str],
    attributes_with_built_hierarchy: Collection[str],
) -> Facts:
    """Gather the facts about a piece.

    Parameters
    ----------
    rows : the rows of the piece; if k counts persons, all records of each person in it.
    layout : the columns of ``rows``, by role.
    attributes_with_hierarchy : names of the attributes that have a hierarchy.
    attributes_with_built_hierarchy : those whose hierarchy is built from the values that occur.
    """
    if n_without_key := rows[KEY].null_count:
        return Facts(n_rows=rows.num_rows, n_without_key=n_without_key)
    if n_without_entity := sum(rows[name].null_count for name in layout.internal_entity):
        return Facts(n_rows=rows.num_rows, n_without_entity=n_without_entity)
    piece = build_piece(rows, layout)
    microdata = piece.microdata
    keys = KeySet.of(piece.keys)
    facts = Facts(n_rows=microdata.n_records, wide=set(microdata.wide), keys=keys)
    facts.unknown_values = {
        name: Counter(counts) for name, counts in piece.unknown_values.items() if counts
    }
    for attribute in microdata.attributes:
        valid = microdata.valid_column(attribute.name)
        if valid is not None:
            facts.null_counts[attribute.name] = int((~valid).sum())
        if attribute.kind.is_numeric:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            present = values if valid is None else values[valid]
            n_non_finite = int((~np.isfinite(present)).sum())
            if n_non_finite:
                facts.non_finite_counts[attribute.name] = n_non_finite
            if attribute.name in attributes_with_built_hierarchy:
                facts.distinct_numbers[attribute.name] = set(np.unique(present).tolist())
                require_few_values(attribute.name, len(facts.distinct_numbers[attribute.name]))
    if facts.non_finite_counts or facts.unknown_values:
        # The driver refuses the table because of these values, so it needs no sums.
        return facts
    # ``clustered`` has what methods cluster: the records, or one unit for all records of a person.
    # ``units`` is None if these are the records.
    clustered, units = prepare_clustering(microdata, attributes_with_hierarchy)
    facts.record_sums = _sums_of(microdata)
    if units is not None:
        facts.clustered_sums = _sums_of(clustered)
    record_counts = _count_strata(microdata, piece.strata_values)
    unit_counts = _count_strata(clustered, piece.strata_values)
    # Both have strata as keys: a combination of values, and a pattern of NULLs.
    for stratum in (*record_counts, *unit_counts):
        facts.strata_sizes[stratum] = record_counts.get(stratum, 0), unit_counts.get(stratum, 0)
    return facts


def _count_strata(
    microdata: Microdata, strata_values: tuple[StrataValues, ...]
) -> dict[tuple[StrataValues, tuple[bool, ...]], int]:
    """Count records by the values of the strata columns and which quasi-identifiers are present."""
    n, d = microdata.n_records, len(microdata.attributes)
    if microdata.strata is None and microdata.valid is None:
        return {(strata_values[0], (True,) * d): n} if n else {}
    strata = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    valid = np.ones((n, d), np.bool_) if microdata.valid is None else microdata.valid
    patterns, counts = np.unique(np.column_stack([strata, valid]), axis=0, return_counts=True)
    return {
        (strata_values[stratum], tuple(map(bool, present))): count
        for (stratum, *present), count in zip(patterns.tolist(), counts.tolist(), strict=True)
    }


def _sums_of(microdata: Microdata) -> TableSums:
    """Compute the sums and counts of some records, or of clustered units."""
    valid = microdata.numeric_valid()
    sums = TableSums()
    for index, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, index]
        values = values if valid is None else values[valid[:, index]]
        sums.numeric_sums[attribute.name] = Sums.of(values)
        if attribute.kind is Kind.ORDINAL:
            sums.ranks[attribute.name] = set(np.unique(values).tolist())
    for attribute, codes, texts in zip(
        microdata.categorical, microdata.codes.T, microdata.categories, strict=True
    ):
        counts = ValueFrequencies.of(codes, texts).counts.tolist()
        sums.category_counts[attribute.name] = Counter(dict(zip(texts, counts, strict=True)))
    # The number of each record's person. Persons are needed only to count sensitive values.
    units = microdata.person_units if microdata.sensitive else None
    for name, column in microdata.sensitive.items():
        # The last count is that of NULL.
        counts = ValueFrequencies.of_column(column, units).counts.tolist()
        sums.sensitive_counts[name] = Counter(
            dict(zip((*column.values, None), counts, strict=True))
        )
    if units is not None:
        # One record of each person: the first one.
        sums.n_persons = int(first_record_mask(units).sum())
    return sums


def compute_column_statistics(
    sums: TableSums, record_sums: TableSums, sensitive: tuple[Attribute, ...], counts_persons: bool
) -> ColumnStatistics:
    """Compute a table's statistics from the sums of its pieces, as ``ColumnStatistics.of`` would.

    Parameters
    ----------
    sums : the sums of the records, or of the clustered units.
    record_sums : the sums of the records, whose values make the dictionaries. Clustered units may
        lack some of these values.
    sensitive : the sensitive attributes.
    counts_persons : whether sensitive values are counted in persons, not records.
    """
    categories = {}
    for name, table_counts in record_sums.category_counts.items():
        values = tuple(sorted(table_counts))
        value_counts = sums.category_counts[name]
        counts = np.array([value_counts[value] for value in values], np.int64)
        categories[name] = ValueFrequencies(counts, values)
    sensitive_frequencies = {}
    for attribute in sensitive:
        if attribute.name not in sums.sensitive_counts:
            continue
        text_counts = sums.sensitive_counts[attribute.name]
        texts = sort_values([text for text in text_counts if text is not None], attribute)
        counts = np.array([*(text_counts[text] for text in texts), text_counts[None]], np.int64)
        n_persons = sums.n_persons if counts_persons else None
        sensitive_frequencies[attribute.name] = ValueFrequencies(counts, tuple(texts), n_persons)
    scales = {name: Scale.of_sums(column_sums) for name, column_sums in sums.numeric_sums.items()}
    ranks = {
        name: np.array(sorted(column_ranks), np.float64)
        for name, column_ranks in sums.ranks.items()
    }
    return ColumnStatistics(scales, categories, sensitive_frequencies, ranks=ranks)


def build_distinct_microdata(
    facts: Facts, attributes: tuple[Attribute, ...], dictionaries: Mapping[str, tuple[str, ...]]
) -> Microdata:
    """Build microdata with each distinct value of the table once, to build hierarchies from.

    Parameters
    ----------
    dictionaries : the values of categorical attributes, by name.
    """
    columns = [
        sorted(facts.distinct_numbers.get(a.name, ())) for a in attributes if a.kind.is_numeric
    ]
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
    # Hierarchies of texts are built from ``categories`` alone, so no row needs a code.
    codes = np.full((n, len(categories)), -1, np.int32)
    keys = np.arange(n, dtype=np.int64).reshape(-1, 1)
    return replace(Microdata(attributes, keys, numbers, codes, categories), valid=valid)
