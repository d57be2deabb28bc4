"""Microdata: the quasi-identifiers of a relation as arrays, in record order, and other columns.

Columns are read by role; microdata holds each under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import (
    NullInEntity,
    SourceChanged,
)

# Below this, float64 represents every integer exactly.
EXACT_INTEGER = 2.0**53

# The array fields of microdata.
_ARRAYS = ("keys", "numbers", "codes", "valid", "strata", "entities", "suppressed", "layers")

# Larger powers of ten overflow float64.
_LARGEST_SCALE = 300


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as codes.

    Parameters
    ----------
    codes : int32 (n,), read-only: positions in ``values``; -1 for NULL.
    values : distinct values as text, in the column's order; one text per number.
    texts : int32 (n,), codes of the displayed texts if a value has several, such as 7.5 and 7.50.
        None if ``codes`` already distinguish the texts.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    texts: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)

    @property
    def display_codes(self) -> NDArray[np.int32]:
        """Codes of the texts that readers see, int32 (n,); -1 for NULL."""
        return self.codes if self.texts is None else self.texts

    def take(self, records: NDArray[np.int64]) -> CodedColumn:
        """The column of these records."""
        texts = None if self.texts is None else self.texts[records]
        return CodedColumn(self.codes[records], self.values, texts)


@dataclass(frozen=True)
class Microdata:
    """The quasi-identifiers of n records, in the order of their ascending row key.

    Parameters
    ----------
    attributes : the d quasi-identifiers.
    keys : int64 (n, m), row keys, ascending and without duplicates.
    numbers : float64 (n, p), read-only: the numeric attributes, in their order. A value of an
        ordinal one is its rank in the attribute's order, from 0.
    codes : int32 (n, q), read-only: the other attributes, in their order, as positions in
        ``categories``; -1 where the value is NULL.
    categories : q tuples of the values that occur, sorted by code point.
    valid : bool (n, d), read-only, or None when no value is NULL.
    wide : names of attributes whose values float64 does not hold exactly; their class means have
        to come from exact arithmetic.
    strata : int32 (n,), read-only: sets of records that no class crosses; None for one set.
    entities : int32 (n,), read-only: the person of each record; None if each record is a person.
    layers : int32 (n,), read-only: sets of records that no class crosses. A person is a separate
        unit in each, so rows of one person may lie in several classes; None for one set.
    sensitive : the columns of privacy models, by name.
    withheld : the number of further records that are not loaded: they have a NULL that is not
        allowed, or belong to a stratum with fewer than k records.
    suppressed : bool (n, d), read-only: cells that have a value in the source and are NULL here;
        None for none.
    unmerged : the same records with the values of suppressed cells, for an evaluation; None if no
        cell is suppressed.
    """

    attributes: tuple[Attribute, ...]
    keys: NDArray[np.int64]
    numbers: NDArray[np.float64]
    codes: NDArray[np.int32]
    categories: tuple[tuple[str, ...], ...] = ()
    valid: NDArray[np.bool_] | None = None
    wide: frozenset[str] = field(default_factory=frozenset)
    strata: NDArray[np.int32] | None = None
    entities: NDArray[np.int32] | None = None
    sensitive: Mapping[str, CodedColumn] = field(default_factory=dict)
    withheld: int = 0
    suppressed: NDArray[np.bool_] | None = None
    unmerged: Microdata | None = None
    layers: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            if array is not None:
                array.setflags(write=False)

    @property
    def n_records(self) -> int:
        """The number of records, n."""
        return len(self.keys)

    @property
    def n_read(self) -> int:
        """The number of records, including withheld ones."""
        return self.n_records + self.withheld

    @property
    def ordered_keys(self) -> NDArray[np.int64]:
        """One number per record, int64 (n,), ascending: its key, or its position among the keys."""
        return self.keys[:, 0] if self.keys.shape[1] == 1 else np.arange(self.n_records)

    @property
    def numeric(self) -> tuple[Attribute, ...]:
        """The attributes behind the columns of ``numbers``."""
        return tuple(attribute for attribute in self.attributes if attribute.kind.is_numeric)

    @property
    def categorical(self) -> tuple[Attribute, ...]:
        """The attributes behind the columns of ``codes``."""
        return tuple(attribute for attribute in self.attributes if not attribute.kind.is_numeric)

    @property
    def units(self) -> NDArray[np.int64] | None:
        """The unit of each record, int64 (n,): a person in a stratum, layer and pattern of NULLs.

        Numbered from 0; None if every record is a unit. All records of a unit are in one class, or
        withheld together.
        """
        if self.entities is None:
            return None
        parts = [self.entities, self.strata, self.valid, self.layers]
        key = np.column_stack([part for part in parts if part is not None])
        _, units = np.unique(key, axis=0, return_inverse=True)
        return units.reshape(-1).astype(np.int64)

    def numeric_valid(self) -> NDArray[np.bool_] | None:
        """bool (n, p), which values of ``numbers`` are not NULL; None when all are."""
        if self.valid is None:
            return None
        return self.valid[:, [attribute.kind.is_numeric for attribute in self.attributes]]

    def valid_column(self, name: str) -> NDArray[np.bool_] | None:
        """bool (n,), False where the attribute is NULL; None when it never is."""
        if self.valid is None:
            return None
        position = [attribute.name for attribute in self.attributes].index(name)
        column: NDArray[np.bool_] = self.valid[:, position]
        return None if column.all() else column

    def of_attributes(self, names: Collection[str]) -> Microdata:
        """Microdata with only these attributes, in their present order."""
        selected = [attribute.name in names for attribute in self.attributes]
        if all(selected):
            return self
        numeric = [attribute.name in names for attribute in self.numeric]
        categorical = [attribute.name in names for attribute in self.categorical]
        valid = None if self.valid is None else self.valid[:, selected]
        suppressed = None if self.suppressed is None else self.suppressed[:, selected]
        return replace(
            self,
            attributes=tuple(a for a in self.attributes if a.name in names),
            numbers=self.numbers
            if all(numeric)
            else np.ascontiguousarray(self.numbers[:, numeric]),
            codes=np.ascontiguousarray(self.codes[:, categorical]),
            categories=tuple(compress(self.categories, categorical)),
            valid=None if valid is None or bool(valid.all()) else np.ascontiguousarray(valid),
            suppressed=suppressed,
            unmerged=None,
        )


def first_of_each(
    units: NDArray[np.int64], codes: NDArray[np.integer] | None = None
) -> NDArray[np.bool_]:
    """The first record of each unit, or of each unit and code, bool (n,).

    Counting only these records counts each person once, or once per value.
    """
    key = units if codes is None else units * (int(codes.max(initial=0)) + 2) + codes
    is_first = np.zeros(len(units), np.bool_)
    is_first[np.unique(key, return_index=True)[1]] = True
    return is_first


def most_frequent(codes: NDArray[np.integer], unit: NDArray[np.integer]) -> NDArray[np.int64]:
    """The most frequent code of each unit, int64 (m,); the smallest in a tie.

    Parameters
    ----------
    codes, unit : (n,), each record's; units are numbered from 0 without gaps.
    """
    if not len(codes):
        return np.empty(0, np.int64)
    # Encode unit and code in one integer: integers sort several times faster than pairs.
    least = int(codes.min())
    width = int(codes.max()) - least + 1
    pairs, counts = np.unique(
        unit.astype(np.int64) * width + (codes.astype(np.int64) - least), return_counts=True
    )
    units = pairs // width
    start = np.flatnonzero(np.diff(units, prepend=-1))
    most = np.flatnonzero(counts == np.maximum.reduceat(counts, start)[units])
    first = most[np.flatnonzero(np.diff(units[most], prepend=-1))]
    codes_of_units: NDArray[np.int64] = pairs[first] % width + least
    return codes_of_units


def require_entities(codes: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    """Check that no code of a person, int32 (n,), is -1 for NULL, and return the codes.

    Raises
    ------
    NullInEntity : a code is -1.
    """
    if missing := int((codes < 0).sum()):
        raise null_in_entity(name, missing, len(codes))
    return codes


def null_in_entity(name: str, missing: int, rows: int) -> NullInEntity:
    """Build the error for rows without a person."""
    return NullInEntity(
        f'The entity column "{name}" holds NULL in {missing} of {rows} rows.',
        hint="Nobody knows whose these rows are: exclude them in a view, or give each an entity"
        " of its own there.",
    )


def find_records(ordered: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of ``keys``, int64 (c, m), among ``ordered``, int64 (n, m), ascending.

    Raises
    ------
    SourceChanged : a key is missing.
    """
    if ordered.shape[1] == 1:
        column, sought = ordered[:, 0], keys[:, 0]
    else:
        # Pack two columns into one: the first has few values, which are numbered.
        firsts = np.unique(ordered[:, 0])
        column, sought = (
            (np.searchsorted(firsts, key_columns[:, 0]) << 48) | key_columns[:, 1]
            for key_columns in (ordered, keys)
        )
    positions = np.searchsorted(column, sought)
    if len(sought) and (
        not len(column) or bool((column[np.minimum(positions, len(column) - 1)] != sought).any())
    ):
        raise SourceChanged("A row was not present when the quasi-identifiers were read.")
    return positions


def is_wide(values: NDArray[np.float64], attribute: Attribute) -> bool:
    """True if float64 may not represent each of these integers, decimals or instants exactly.

    Parameters
    ----------
    values : float64 (c,), the values as float64 rounds them.
    """
    return bool(_may_be_rounded(values, attribute).any())


def widen_to_unrounded(
    low: NDArray[np.float64], high: NDArray[np.float64], attribute: Attribute
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Widen the ends of classes, float64 (c,) each, to include values before rounding."""
    return (
        np.where(_may_be_rounded(low, attribute), np.nextafter(low, -np.inf), low),
        np.where(_may_be_rounded(high, attribute), np.nextafter(high, np.inf), high),
    )


def _may_be_rounded(values: NDArray[np.float64], attribute: Attribute) -> NDArray[np.bool_]:
    """Where float64 may not represent an integer, decimal or instant exactly, bool (c,)."""
    if attribute.kind in (Kind.INTEGER, Kind.TIMESTAMP):
        unit = 1.0
    elif attribute.kind is Kind.DECIMAL:
        if attribute.scale > _LARGEST_SCALE:
            return np.ones(len(values), bool)
        unit = 10.0**attribute.scale
    else:
        return np.zeros(len(values), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(values) * unit >= EXACT_INTEGER)


@dataclass(frozen=True)
class ColumnRoles:
    """The columns to read, by role; no column has two roles.

    Parameters
    ----------
    quasi_identifiers : the attributes of the microdata.
    by : columns of strata, compared as text; each combination of values is a stratum.
    sensitive : columns of privacy models, as text.
    leaves : sensitive columns whose values are leaves of a hierarchy, so that no order is needed.
    persons : the entity column, if any.
    passthrough : kept columns whose values pass through the client unread; None if they stay in
        their database.
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[Attribute, ...] = ()
    sensitive: tuple[Attribute, ...] = ()
    leaves: frozenset[str] = field(default_factory=frozenset)
    persons: tuple[Attribute, ...] = ()
    passthrough: tuple[Attribute, ...] | None = None

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """All columns, each once."""
        return (*self.quasi_identifiers, *self.by, *self.sensitive, *self.persons)

    def entities(
        self, codes: Callable[[Attribute], NDArray[np.integer]]
    ) -> NDArray[np.int32] | None:
        """The person of each record, int32 (n,); None if every record is a person.

        Parameters
        ----------
        codes : returns codes of a column, (n,), equal for equal values and -1 for NULL.

        Raises
        ------
        NullInEntity : the column is NULL somewhere.
        """
        for column in self.persons:
            return require_entities(codes(column).astype(np.int32), column.name)
        return None

    def by_role(self, microdata: Microdata) -> Microdata:
        """Move columns to the fields of their roles, if all were read as attributes.

        In columns of strata, NULL is a value like any other.

        Raises
        ------
        NullInEntity : the entity column is NULL somewhere.
        """
        names = {attribute.name for attribute in self.quasi_identifiers}
        coded = {
            attribute.name: CodedColumn(
                microdata.codes[:, index].copy(), microdata.categories[index]
            )
            for index, attribute in enumerate(microdata.categorical)
            if attribute.name not in names
        }
        result = microdata.of_attributes(names)
        result = replace(result, entities=self.entities(lambda column: coded[column.name].codes))
        if self.by:
            codes = np.column_stack([coded[attribute.name].codes for attribute in self.by])
            _, strata = np.unique(codes, axis=0, return_inverse=True)
            result = replace(result, strata=strata.reshape(-1).astype(np.int32))
        return replace(result, sensitive={a.name: coded[a.name] for a in self.sensitive})
