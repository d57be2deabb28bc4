"""Microdata: the quasi-identifiers of a relation as arrays, and its columns with other roles.

``ColumnRoles`` says which columns a store reads, and in which role.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.pieces import release_pages
from dbanon.data.schema import Attribute, Kind
from dbanon.data.weights import require_positive_weights
from dbanon.errors import (
    NullInEntity,
    SourceChanged,
)

# Below this, float64 represents every integer exactly.
EXACT_INTEGER = 2.0**53

# The names of the array fields of ``Microdata``.
_ARRAY_FIELDS = (
    "keys",
    "numbers",
    "codes",
    "valid",
    "strata",
    "entities",
    "suppressed",
    "layers",
    "weights",
)

# Powers of ten overflow float64 from 10**309 on, and Python then raises an error.
_MAX_DECIMAL_DIGITS = 300
_MISSING_ROW = "A row was not present when the quasi-identifiers were read."


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as codes for its distinct values.

    Parameters
    ----------
    codes : int32 (n,), read-only: positions in ``values``; -1 for NULL.
    values : distinct values as text, in the column's order. Equal numbers have the same text.
    text_codes : int32 (n,), codes of the displayed texts, -1 for NULL. Only if equal values can be
        displayed as different texts, such as 7.5 and 7.50; None if each value has one text.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    text_codes: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)

    @property
    def display_codes(self) -> NDArray[np.int32]:
        """Codes of the texts that readers see, int32 (n,); -1 for NULL."""
        return self.codes if self.text_codes is None else self.text_codes

    def take(self, records: NDArray[np.int64]) -> CodedColumn:
        """Return the column for these records, int64 (m,) indices."""
        text_codes = None if self.text_codes is None else self.text_codes[records]
        return CodedColumn(self.codes[records], self.values, text_codes)


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
    valid : bool (n, d), read-only: True for values that are not NULL; None if no value is NULL.
    wide : names of attributes with a value that float64 may be unable to represent exactly; their
        class means need exact arithmetic.
    strata : int32 (n,), read-only: the stratum of each record; classes do not span strata. None if
        there is only one.
    entities : int32 (n,), read-only: the person of each record; None if each record is a person.
    layers : int32 (n,), read-only: the layer of each record, if the rows of a person may be in
        different classes. The rows of each person are spread over the layers, in order: the j-th
        row is in layer j if there are enough layers (``partitioning.person_rows``). Classes do not
        span layers, and a person counts as a separate unit in each layer. None if there is only
        one layer.
    weights : float64 (n,), read-only: the design weight of each record, the number of persons that
        it stands for; None if there are no weights.
    sensitive : the columns of privacy models, by name.
    n_withheld : number of records of the relation that are not in the arrays, because they have a
        NULL that is not allowed, or belong to a stratum with fewer than k records.
    suppressed : bool (n, d), read-only: True for values that were replaced by NULL; None if there
        are none.
    before_suppression : the same records with their original values in place of suppressed ones,
        for an evaluation; None if no value is suppressed.
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
    n_withheld: int = 0
    suppressed: NDArray[np.bool_] | None = None
    before_suppression: Microdata | None = None
    layers: NDArray[np.int32] | None = None
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in _ARRAY_FIELDS:
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
        return self.n_records + self.n_withheld

    @property
    def ordered_keys(self) -> NDArray[np.int64]:
        """A number for each record that orders the records, int64 (n,), ascending.

        It is the row key if this has one column, otherwise the index of the record. Cuts into
        blocks and refinements break ties by it.
        """
        return self.keys[:, 0] if self.keys.shape[1] == 1 else np.arange(self.n_records)

    @property
    def numeric(self) -> tuple[Attribute, ...]:
        """The attributes in the columns of ``numbers``."""
        return tuple(attribute for attribute in self.attributes if attribute.kind.is_numeric)

    @property
    def categorical(self) -> tuple[Attribute, ...]:
        """The attributes in the columns of ``codes``."""
        return tuple(attribute for attribute in self.attributes if not attribute.kind.is_numeric)

    @property
    def person_units(self) -> NDArray[np.int64] | None:
        """The unit of each record, int64 (n,), numbered from 0; None if every record is a unit.

        A unit is the set of a person's records with the same stratum, layer and pattern of NULLs.
        They are in the same class, or withheld together.
        """
        if self.entities is None:
            return None
        arrays = [self.entities, self.strata, self.valid, self.layers]
        unit_keys = np.column_stack([array for array in arrays if array is not None])
        _, units = np.unique(unit_keys, axis=0, return_inverse=True)
        return units.reshape(-1).astype(np.int64)

    def release_pages(self) -> None:
        """Release the memory of arrays on disk, which can be read again (``data.pieces``)."""
        for name in _ARRAY_FIELDS:
            array = getattr(self, name)
            if array is not None:
                release_pages(array)

    def numeric_valid(self) -> NDArray[np.bool_] | None:
        """Which values of ``numbers`` are not NULL, bool (n, p); None if no value is NULL."""
        if self.valid is None:
            return None
        return self.valid[:, [attribute.kind.is_numeric for attribute in self.attributes]]

    def valid_column(self, name: str) -> NDArray[np.bool_] | None:
        """Which values of an attribute are not NULL, bool (n,); None if none is NULL."""
        if self.valid is None:
            return None
        position = [attribute.name for attribute in self.attributes].index(name)
        column: NDArray[np.bool_] = self.valid[:, position]
        return None if column.all() else column

    def select_attributes(self, names: Collection[str]) -> Microdata:
        """Return the microdata with only these attributes, without changing their order."""
        is_selected = [attribute.name in names for attribute in self.attributes]
        if all(is_selected):
            return self
        is_selected_number = [attribute.name in names for attribute in self.numeric]
        is_selected_category = [attribute.name in names for attribute in self.categorical]
        valid = None if self.valid is None else self.valid[:, is_selected]
        suppressed = None if self.suppressed is None else self.suppressed[:, is_selected]
        return replace(
            self,
            attributes=tuple(a for a in self.attributes if a.name in names),
            numbers=self.numbers
            if all(is_selected_number)
            else np.ascontiguousarray(self.numbers[:, is_selected_number]),
            codes=np.ascontiguousarray(self.codes[:, is_selected_category]),
            categories=tuple(compress(self.categories, is_selected_category)),
            valid=None if valid is None or bool(valid.all()) else np.ascontiguousarray(valid),
            suppressed=suppressed,
            # Only evaluations of the complete table use it.
            before_suppression=None,
        )


def take_weights(microdata: Microdata, name: str) -> NDArray[np.float64]:
    """Return the values of a numeric attribute as design weights, float64 (n,).

    Raises
    ------
    InvalidParameter : a weight is NULL, or not above 0.
    """
    position = [attribute.name for attribute in microdata.numeric].index(name)
    weights = np.ascontiguousarray(microdata.numbers[:, position])
    is_valid = microdata.valid_column(name)
    require_positive_weights(
        weights, np.ones(len(weights), np.bool_) if is_valid is None else is_valid, name
    )
    return weights


def first_record_mask(
    units: NDArray[np.int64], codes: NDArray[np.integer] | None = None
) -> NDArray[np.bool_]:
    """Mark the first record of each unit, or of each pair of unit and code, bool (n,).

    Counting only these records counts each unit (mostly a person) once, or once per value.

    Parameters
    ----------
    units : int64 (n,), the unit of each record, such as ``Microdata.person_units``.
    codes : integers (n,), the code of each record's value, -1 or more; None to count units once.
    """
    # Codes begin at -1, so a unit needs two more keys than the largest code.
    unit_keys = units if codes is None else units * (int(codes.max(initial=0)) + 2) + codes
    is_first = np.zeros(len(units), np.bool_)
    is_first[np.unique(unit_keys, return_index=True)[1]] = True
    return is_first


def most_frequent_codes(
    codes: NDArray[np.integer], units: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the most frequent code of each unit, int64 (m,); of several, the smallest.

    Parameters
    ----------
    codes, units : (n,), the code and the unit of each record; units are numbered from 0 without
        gaps.
    """
    if not len(codes):
        return np.empty(0, np.int64)
    # Encode unit and code in one integer: integers sort several times faster than pairs.
    least = int(codes.min())
    n_codes = int(codes.max()) - least + 1
    pairs, counts = np.unique(
        units.astype(np.int64) * n_codes + (codes.astype(np.int64) - least), return_counts=True
    )
    unit_of_pair = pairs // n_codes
    # Pairs are sorted by unit, then by code.
    first_pairs = np.flatnonzero(np.diff(unit_of_pair, prepend=-1))
    largest_counts = np.maximum.reduceat(counts, first_pairs)
    candidates = np.flatnonzero(counts == largest_counts[unit_of_pair])
    smallest = candidates[np.flatnonzero(np.diff(unit_of_pair[candidates], prepend=-1))]
    codes_of_units: NDArray[np.int64] = pairs[smallest] % n_codes + least
    return codes_of_units


def require_no_null_entity(codes: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    """Check that no record has NULL as its person; return the codes.

    Parameters
    ----------
    codes : int32 (n,), the code of each record's person; -1 for NULL.
    name : the name of the entity column.

    Raises
    ------
    NullInEntity : a code is -1.
    """
    if n_null := int((codes < 0).sum()):
        raise null_in_entity_error(name, n_null, len(codes))
    return codes


def null_in_entity_error(name: str, n_null: int, n_rows: int) -> NullInEntity:
    """Build the error for rows without a person."""
    return NullInEntity(
        f'The entity column "{name}" holds NULL in {n_null} of {n_rows} rows.',
        hint="The person of these rows is unknown. Exclude the rows in a view, or give each of them"
        " its own entity there.",
    )


def find_records(record_keys: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each key in ``record_keys``, int64 (c,).

    Parameters
    ----------
    record_keys : int64 (n, m), ascending, such as ``Microdata.keys``; m is 1 or 2.
    keys : int64 (c, m), the keys to find.

    Raises
    ------
    SourceChanged : a key is missing.
    """
    if record_keys.shape[1] == 1:
        column, keys_to_find = record_keys[:, 0], keys[:, 0]
    else:
        # A key of two columns identifies a row of a partitioned table: the partition, which has few
        # values, and the row's address, which is below 2**48. Pack them into one integer: the index
        # of the partition above the 48 bits of the address.
        first_values = np.unique(record_keys[:, 0])
        if not np.isin(keys[:, 0], first_values).all():
            raise SourceChanged(_MISSING_ROW)
        column, keys_to_find = (
            (np.searchsorted(first_values, key_columns[:, 0]) << 48) | key_columns[:, 1]
            for key_columns in (record_keys, keys)
        )
    positions = np.searchsorted(column, keys_to_find)
    if len(keys_to_find) and (
        not len(column)
        or bool((column[np.minimum(positions, len(column) - 1)] != keys_to_find).any())
    ):
        raise SourceChanged(_MISSING_ROW)
    return positions


def number_values(values: NDArray[np.integer]) -> NDArray[np.int64]:
    """Number the distinct values of an array, (n,), in ascending order; int64 (n,).

    ``np.unique`` returns the same numbers, but needs several times the memory.
    """
    return np.searchsorted(np.unique(values), values)


def number_combinations(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """Number the distinct rows of columns, (n,) each, in lexicographic order; int64 (n,).

    Parameters
    ----------
    columns : one or more columns of int32 or of numbers below 2**31.
    """
    numbers = number_values(columns[0])
    for column in columns[1:]:
        ranks = number_values(column)
        # A product of two numbers of values, so below 2**62.
        numbers = number_values(numbers * (int(ranks.max(initial=0)) + 1) + ranks)
    return numbers


def is_wide(values: NDArray[np.float64], attribute: Attribute) -> bool:
    """True if float64 may be unable to represent all of these values exactly.

    Only integers, decimals and instants can be wide.

    Parameters
    ----------
    values : float64 (c,), the values after rounding to float64.
    """
    return bool(_may_be_rounded(values, attribute).any())


def widen_to_unrounded(
    low: NDArray[np.float64], high: NDArray[np.float64], attribute: Attribute
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Widen intervals, float64 (c,) each, so that they include the values before rounding."""
    return (
        np.where(_may_be_rounded(low, attribute), np.nextafter(low, -np.inf), low),
        np.where(_may_be_rounded(high, attribute), np.nextafter(high, np.inf), high),
    )


def _may_be_rounded(values: NDArray[np.float64], attribute: Attribute) -> NDArray[np.bool_]:
    """Mark the values that float64 may have rounded, bool (c,), such as large integers."""
    # Values times this factor are integers before rounding.
    if attribute.kind in (Kind.INTEGER, Kind.TIMESTAMP):
        integer_factor = 1.0
    elif attribute.kind is Kind.DECIMAL:
        if attribute.scale > _MAX_DECIMAL_DIGITS:
            return np.ones(len(values), bool)
        integer_factor = 10.0**attribute.scale
    else:
        return np.zeros(len(values), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(values) * integer_factor >= EXACT_INTEGER)


@dataclass(frozen=True)
class ColumnRoles:
    """The columns to read, by role; no column has two roles.

    Parameters
    ----------
    quasi_identifiers : the attributes of the microdata.
    by : columns of strata, compared as text; each combination of values is a stratum.
    sensitive : columns of privacy models, read as text.
    hierarchy_columns : names of the sensitive columns whose values are leaves of a hierarchy, so
        that the order of the values does not matter.
    entity_columns : the entity column as the only element; empty if there is none.
    passthrough : retained columns that this process copies unchanged from the source to the output;
        None if source and output are in the same database, which copies them itself.
    weights : the column with the design weight as the only element; empty if there is none.
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[Attribute, ...] = ()
    sensitive: tuple[Attribute, ...] = ()
    hierarchy_columns: frozenset[str] = field(default_factory=frozenset)
    entity_columns: tuple[Attribute, ...] = ()
    passthrough: tuple[Attribute, ...] | None = None
    weights: tuple[Attribute, ...] = ()

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """All columns that are read into the microdata, so all except ``passthrough``."""
        return (
            *self.quasi_identifiers,
            *self.by,
            *self.sensitive,
            *self.entity_columns,
            *self.weights,
        )

    def entities(
        self, encode_column: Callable[[Attribute], NDArray[np.integer]]
    ) -> NDArray[np.int32] | None:
        """The person of each record, int32 (n,); None if every record is a person.

        Parameters
        ----------
        encode_column : a function that returns codes of a column's values, integers (n,), equal for
            equal values and -1 for NULL.

        Raises
        ------
        NullInEntity : the column is NULL somewhere.
        """
        for column in self.entity_columns:
            return require_no_null_entity(encode_column(column).astype(np.int32), column.name)
        return None

    def assign_roles(self, microdata: Microdata) -> Microdata:
        """Move columns with other roles from the attributes to the fields of these roles.

        Stores read all columns as attributes. In columns of strata, NULL is a value like any other.

        Raises
        ------
        NullInEntity : the entity column is NULL somewhere.
        InvalidParameter : a design weight is NULL, or not above 0.
        """
        names = {attribute.name for attribute in self.quasi_identifiers}
        # Columns with other roles are read as texts, so they are all in ``codes``. Only design
        # weights are numbers.
        columns = {
            attribute.name: CodedColumn(
                microdata.codes[:, index].copy(), microdata.categories[index]
            )
            for index, attribute in enumerate(microdata.categorical)
            if attribute.name not in names
        }
        result = microdata.select_attributes(names)
        result = replace(result, entities=self.entities(lambda column: columns[column.name].codes))
        for attribute in self.weights:
            result = replace(result, weights=take_weights(microdata, attribute.name))
        if self.by:
            strata = number_combinations([columns[a.name].codes for a in self.by])
            result = replace(result, strata=strata.astype(np.int32))
        return replace(result, sensitive={a.name: columns[a.name] for a in self.sensitive})
