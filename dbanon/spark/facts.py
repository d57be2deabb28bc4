"""What pieces of a table tell of it: sums and counts that add up to those of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Microdata, first_of_each
from dbanon.data.scales import Scale, Sums
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import MemoryLimit
from dbanon.hierarchy.leaves import sort_values
from dbanon.spark.layout import KEY, Layout
from dbanon.spark.pieces import By, clustered_of, piece_of

# Keys are numbered by their last bits in a page of so many.
_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS

# Pages hold 8 KiB: so many bytes a key are too many, and so many pages in all.
_BYTES_A_KEY = 64
_ALWAYS = 1 << 20
_MOST_PAGES = 1 << 15


@dataclass
class Keys:
    """Keys of some rows.

    Parameters
    ----------
    pages : by what stands before their last bits, uint8 (8192,), a bit for each.
    twice : two rows have the same.
    sparse : they are too far apart for bits, and somebody else has to look.
    """

    pages: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    twice: bool = False
    sparse: bool = False

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> Keys:
        """Of keys, int64 (n,), ascending."""
        if bool((keys[1:] == keys[:-1]).any()):
            return cls(twice=True)
        above, low = keys >> _PAGE_BITS, keys & (_PAGE - 1)
        starts = np.flatnonzero(np.diff(above, prepend=above[:1] - 1))
        if len(starts) * _PAGE // 8 > max(_BYTES_A_KEY * len(keys), _ALWAYS):
            return cls(sparse=True)
        pages = {}
        for own in np.split(np.arange(len(keys)), starts[1:]):
            if len(own):
                bits = np.zeros(_PAGE, np.bool_)
                bits[low[own]] = True
                pages[int(above[own[0]])] = np.packbits(bits)
        return cls(pages)

    def add(self, other: Keys) -> None:
        """Add those of other rows."""
        self.twice |= other.twice
        self.sparse |= other.sparse
        if self.twice or self.sparse:
            self.pages = {}
            return
        for above, bits in other.pages.items():
            own = self.pages.get(above)
            if own is not None and bool((own & bits).any()):
                self.twice = True
            self.pages[above] = bits if own is None else own | bits
        self.sparse |= len(self.pages) > _MOST_PAGES


# Of a column's dictionary, which the driver holds.
MOST_VALUES = 1_000_000


@dataclass
class Measured:
    """What measures are made of.

    Parameters
    ----------
    sums : by numeric attribute.
    categories : by other attribute, how often each value occurs.
    sensitive : by sensitive column, how often each does, None for NULL: in records, or persons.
    persons : whose records these are, one in each stratum and pattern of NULLs.
    ranks : by ordinal attribute, those that occur.
    """

    sums: dict[str, Sums] = field(default_factory=dict)
    categories: dict[str, Counter[str]] = field(default_factory=dict)
    sensitive: dict[str, Counter[str | None]] = field(default_factory=dict)
    persons: int = 0
    ranks: dict[str, set[float]] = field(default_factory=dict)

    def add(self, other: Measured) -> None:
        """Add those of another piece."""
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
    """What a look at a piece tells.

    Parameters
    ----------
    rows : the records.
    nulls, not_finite : records by quasi-identifier that are NULL, or no number.
    unknown : by ordinal attribute, the values that are not in its order.
    wide : as in ``Microdata``.
    strata : by what the columns of strata hold and which quasi-identifiers are not NULL: the
        records, and what is clustered of them.
    records, clustered : the measures of the records, and of what is clustered where that is units.
    distinct : by attribute with a hierarchy to be made, the numbers that occur.
    no_key, no_entity : records without one.
    keys : those there are.
    """

    rows: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    not_finite: Counter[str] = field(default_factory=Counter)
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    strata: dict[tuple[By, tuple[bool, ...]], tuple[int, int]] = field(default_factory=dict)
    records: Measured = field(default_factory=Measured)
    clustered: Measured | None = None
    distinct: dict[str, set[float]] = field(default_factory=dict)
    no_key: int = 0
    no_entity: int = 0
    keys: Keys = field(default_factory=Keys)

    def add(self, other: Facts) -> None:
        """Add what a look at another piece told."""
        self.rows += other.rows
        self.no_key += other.no_key
        self.no_entity += other.no_entity
        self.keys.add(other.keys)
        self.nulls.update(other.nulls)
        self.not_finite.update(other.not_finite)
        self.wide |= other.wide
        for key, (records, units) in other.strata.items():
            before = self.strata.get(key, (0, 0))
            self.strata[key] = before[0] + records, before[1] + units
        for name, counts in other.unknown.items():
            self.unknown.setdefault(name, Counter()).update(counts)
        for name, values in other.distinct.items():
            self.distinct.setdefault(name, set()).update(values)
            require_few(name, len(self.distinct[name]))
        self.records.add(other.records)
        if other.clustered is not None:
            self.clustered = self.clustered or Measured()
            self.clustered.add(other.clustered)


def require_few(name: str, count: int) -> None:
    """Check that the driver can hold the values of a column.

    Raises
    ------
    MemoryLimit : there are too many.
    """
    if count > MOST_VALUES:
        raise MemoryLimit(
            f'Column "{name}" has more than {MOST_VALUES} different values, which the driver of'
            " Spark would have to hold.",
            hint="Bring rare values together in a view, or give it as a number.",
        )


def facts_of(
    rows: pa.Table, layout: Layout, with_trees: Collection[str], made: Collection[str]
) -> Facts:
    """What a piece tells; where records have entities, it holds all records of each of its own.

    Parameters
    ----------
    with_trees : attributes that have a hierarchy.
    made : those whose hierarchies are made of the values that occur.
    """
    if no_key := rows[KEY].null_count:
        return Facts(rows=rows.num_rows, no_key=no_key)
    if no_entity := sum(rows[name].null_count for name in layout.entity):
        return Facts(rows=rows.num_rows, no_entity=no_entity)
    piece = piece_of(rows, layout)
    microdata = piece.microdata
    keys = Keys.of(piece.keys)
    facts = Facts(rows=microdata.n_records, wide=set(microdata.wide), keys=keys)
    facts.unknown = {name: Counter(lost) for name, lost in piece.unknown.items() if lost}
    for attribute in microdata.attributes:
        valid = microdata.valid_column(attribute.name)
        if valid is not None:
            facts.nulls[attribute.name] = int((~valid).sum())
        if attribute.kind.is_numeric:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            present = values if valid is None else values[valid]
            bad = int((~np.isfinite(present)).sum())
            if bad:
                facts.not_finite[attribute.name] = bad
            if attribute.name in made:
                facts.distinct[attribute.name] = set(np.unique(present).tolist())
                require_few(attribute.name, len(facts.distinct[attribute.name]))
    if facts.not_finite or facts.unknown:
        return facts
    clustered, units = clustered_of(microdata, with_trees)
    facts.records = _measured(microdata)
    if units is not None:
        facts.clustered = _measured(clustered)
    for place, found in enumerate((microdata, clustered)):
        for key, count in _strata(found, piece.by).items():
            before = facts.strata.get(key, (0, 0))
            facts.strata[key] = (count, before[1]) if place == 0 else (before[0], count)
    return facts


def _strata(microdata: Microdata, by: tuple[By, ...]) -> dict[tuple[By, tuple[bool, ...]], int]:
    n, d = microdata.n_records, len(microdata.attributes)
    if microdata.strata is None and microdata.valid is None:
        return {(by[0], (True,) * d): n} if n else {}
    strata = np.zeros(n, np.int64) if microdata.strata is None else microdata.strata
    valid = np.ones((n, d), np.bool_) if microdata.valid is None else microdata.valid
    found, counts = np.unique(np.column_stack([strata, valid]), axis=0, return_counts=True)
    return {
        (by[row[0]], tuple(map(bool, row[1:]))): count
        for row, count in zip(found.tolist(), counts.tolist(), strict=True)
    }


def _measured(microdata: Microdata) -> Measured:
    valid = microdata.numeric_valid()
    found = Measured()
    for place, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, place]
        values = values if valid is None else values[valid[:, place]]
        found.sums[attribute.name] = Sums.of(values)
        if attribute.kind is Kind.ORDINAL:
            found.ranks[attribute.name] = set(np.unique(values).tolist())
    for attribute, codes, texts in zip(
        microdata.categorical, microdata.codes.T, microdata.categories, strict=True
    ):
        counts = Distribution.of(codes, texts).counts.tolist()
        found.categories[attribute.name] = Counter(dict(zip(texts, counts, strict=True)))
    units = microdata.units if microdata.sensitive else None
    for name, column in microdata.sensitive.items():
        counts = Distribution.of_column(column, units).counts.tolist()
        found.sensitive[name] = Counter(dict(zip((*column.values, None), counts, strict=True)))
    if units is not None:
        found.persons = int(first_of_each(units).sum())
    return found


def measures_of(
    found: Measured, dictionaries: Measured, sensitive: tuple[Attribute, ...], persons: bool
) -> Measures:
    """The measures of a table whose pieces told this; the same as ``Measures.of`` it.

    Parameters
    ----------
    dictionaries : of the table's records, all values of which may not occur in what is measured.
    """
    categories = {}
    for name, counts in dictionaries.categories.items():
        values = tuple(sorted(counts))
        own = found.categories[name]
        counted = np.array([own[value] for value in values], np.int64)
        categories[name] = Distribution(counted, values)
    shares = {}
    for attribute in sensitive:
        if attribute.name not in found.sensitive:
            continue
        of_values = found.sensitive[attribute.name]
        texts = sort_values([text for text in of_values if text is not None], attribute)
        counted = np.array([*(of_values[text] for text in texts), of_values[None]], np.int64)
        size = found.persons if persons else None
        shares[attribute.name] = Distribution(counted, tuple(texts), size)
    numbers = {name: Scale.of_sums(sums) for name, sums in found.sums.items()}
    ranks = {name: np.array(sorted(own), np.float64) for name, own in found.ranks.items()}
    return Measures(numbers, categories, shares, ranks=ranks)


def values_of(facts: Facts, attributes: tuple[Attribute, ...], wanted: dict[str, Any]) -> Microdata:
    """Microdata that holds each value of the table once, for hierarchies that are made of them.

    Parameters
    ----------
    wanted : the dictionaries of the attributes that are no numbers, by name.
    """
    columns = [sorted(facts.distinct.get(a.name, ())) for a in attributes if a.kind.is_numeric]
    n = max([1, *map(len, columns)])
    numbers = np.zeros((n, len(columns)))
    valid = np.ones((n, len(attributes)), np.bool_)
    places = [i for i, a in enumerate(attributes) if a.kind.is_numeric]
    for at, (place, values) in enumerate(zip(places, columns, strict=True)):
        numbers[: len(values), at] = values
        valid[len(values) :, place] = False
    categories = tuple(tuple(wanted[a.name]) for a in attributes if not a.kind.is_numeric)
    codes = np.full((n, len(categories)), -1, np.int32)
    keys = np.arange(n, dtype=np.int64).reshape(-1, 1)
    return replace(Microdata(attributes, keys, numbers, codes, categories), valid=valid)
