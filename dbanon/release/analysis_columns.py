"""Columns of originals and of releases as analyses take them: numbers, and shares of categories.

Released values can be coarser than the originals. An interval counts as its midpoint in a column of
numbers. A node of a hierarchy, or an interval in a column of categories, spreads over all that it
covers, with equal shares. NULL, ``*`` and the root of a hierarchy say nothing: they are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import non_finite_error
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.leaves import ANY
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.analyses.columns import CategoryColumn
from dbanon.release.evaluation import parse_intervals

# Columns with more categories are not tables that anyone reads, and designs that no memory holds.
MAX_CATEGORIES = 500
NUMBER_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_TEXT_KINDS = (Kind.CATEGORY, Kind.ORDINAL, Kind.BOOLEAN)
_INTERVAL = re.compile(r"\[.*, .*[\])\[]", re.S)
# PostgreSQL writes its ranges without a blank.
_RANGE = re.compile(r"(?P<low>\[[^\s,\[\]()]+),(?P<high>[^\s,\[\]()]+[\])])")


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of a column as they are stored.

    Parameters
    ----------
    attribute : name, kind and order of the values.
    values : float64 (n,), or object (n,) of texts; arbitrary where missing.
    missing : bool (n,), which values are NULL.

    Raises
    ------
    NonFiniteValue : a value is NaN or infinite.
    """

    attribute: Attribute
    values: AnyArray
    missing: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.are_numbers:
            n_non_finite = int((~np.isfinite(self.values) & ~self.missing).sum())
            if n_non_finite:
                raise non_finite_error(self.attribute, n_non_finite, len(self.values))

    @property
    def are_numbers(self) -> bool:
        """Whether the values are numbers, and not texts."""
        return self.values.dtype != object

    def distinct(self) -> tuple[AnyArray, NDArray[np.int32]]:
        """Return the m distinct values, ascending, and each row's index, int32 (n,); -1 if NULL."""
        codes = np.full(len(self.values), -1, np.int32)
        present = self.values[~self.missing]
        if self.are_numbers:
            values, inverse = np.unique(present, return_inverse=True)
            codes[~self.missing] = inverse.reshape(-1)
            return values, codes
        # numpy would sort all texts, which takes much longer.
        texts = present.tolist()
        distinct_texts = sorted(set(texts))
        index_of = {text: index for index, text in enumerate(distinct_texts)}
        codes[~self.missing] = [index_of[text] for text in texts]
        return np.array(distinct_texts, object), codes


@dataclass(frozen=True, eq=False)
class ColumnReader:
    """Reads a column of originals and of a release, so that both can be compared.

    Parameters
    ----------
    original, released : the column in both tables.
    tree : the hierarchy that released labels come from; None without.
    """

    original: ColumnValues
    released: ColumnValues
    tree: Hierarchy | None = None

    def __post_init__(self) -> None:
        name, kind = self.original.attribute.name, self.original.attribute.kind
        if kind not in (*NUMBER_KINDS, *_TEXT_KINDS):
            raise UnsupportedType(
                f'Column "{name}" is of type {self.original.attribute.sql_type or kind.value},'
                " which analyses cannot take.",
                hint="Use columns of numbers or texts: make others, such as the year of a date,"
                " before the release.",
            )
        if self.released.are_numbers and not self.original.are_numbers:
            raise UnsupportedType(
                f'Column "{name}" is of text in the original, and of numbers in the release.',
                hint="Give the released column the type of the original, or make it text.",
            )

    def read_numbers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the originals and the released values as numbers, NaN where missing.

        Raises
        ------
        UnsupportedType : the original does not hold numbers.
        InvalidParameter : a released label has no number.
        """
        if not self.original.are_numbers:
            raise UnsupportedType(
                f'Column "{self.original.attribute.name}" does not hold numbers.',
                hint="Means, totals, quantiles, the Gini coefficient, correlations and linear"
                " regressions are of columns of numbers.",
            )
        original = np.where(self.original.missing, np.nan, self.original.values)
        if self.released.are_numbers:
            return original, np.where(self.released.missing, np.nan, self.released.values)
        labels, codes = self.released.distinct()
        ends = self._parse_intervals(labels.tolist())
        numbers = [self._number_of(label, ends) for label in labels.tolist()]
        return original, np.array([*numbers, np.nan])[codes]

    def _number_of(self, label: str, ends: Mapping[str, tuple[float, float]]) -> float:
        """Return the number that a released label counts as; NaN if it says nothing."""
        if label in ends:
            return sum(ends[label]) / 2
        if label == ANY:
            return np.nan
        leaves = self._leaves_of(label)
        return float(np.mean([self._parse_leaf(leaf) for leaf in leaves])) if leaves else np.nan

    @cached_property
    def _node_labels(self) -> frozenset[str]:
        """The labels of the hierarchy; none without a hierarchy."""
        return frozenset() if self.tree is None else frozenset(self.tree.labels)

    def _parse_intervals(self, labels: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the ends of all labels that are intervals or numbers, and not of the hierarchy.

        Those of an ordinal column are ranks.

        Raises
        ------
        InvalidParameter : a label is neither a value, an interval, nor in the hierarchy.
        """
        attribute = self.original.attribute
        intervals = [
            label
            for label in labels
            if label != ANY and (label not in self._node_labels or _INTERVAL.fullmatch(label))
        ]
        numbers = self.original.values[~self.original.missing]
        low, high = parse_intervals(
            [_RANGE.sub(r"\g<low>, \g<high>", label) for label in intervals],
            attribute,
            Scale.of(np.ascontiguousarray(numbers)) if self.original.are_numbers else Scale(),
        )
        return dict(zip(intervals, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def _leaves_of(self, label: str) -> list[str]:
        """Return the leaves below a label of the hierarchy; none if it is the root's."""
        assert self.tree is not None
        node = self.tree.node(label)
        if node == 0:
            return []
        first, last = self.tree.leaf_ranges[node]
        return [self.tree.labels[leaf] for leaf in self.tree.leaves[first : last + 1]]

    def _parse_leaf(self, leaf: str) -> float:
        """Return the number of a leaf; raises InvalidParameter if it is none, or not finite."""
        try:
            number = float(leaf)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise InvalidParameter(
                f'Column "{self.original.attribute.name}" holds numbers, and its hierarchy has'
                " leaves that are none.",
                hint="Name a hierarchy whose leaves are the numbers of the column: `hierarchies`.",
            )
        return number

    def read_categories(self) -> tuple[CategoryColumn, CategoryColumn]:
        """Return the originals and the released values as shares of common categories.

        The categories are the values of the originals, and whatever else released values cover.

        Raises
        ------
        InvalidParameter : a released label is unknown, or there are too many categories.
        """
        original_values, original_codes = self.original.distinct()
        # Before the released labels are read, each of which is compared with these categories.
        self._require_few(len(original_values))
        original_labels = self._label_values(original_values)
        released_values, released_codes = self.released.distinct()
        if self.released.are_numbers:
            covered = [[label] for label in self._label_values(released_values)]
        else:
            covered = self._find_covered(released_values.tolist(), original_labels)
        labels = self._order_labels({*original_labels, *(x for each in covered for x in each)})
        self._require_few(len(labels))
        return (
            self._build_column(labels, [[label] for label in original_labels], original_codes),
            self._build_column(labels, covered, released_codes),
        )

    def _require_few(self, n_categories: int) -> None:
        """Refuse a column with more than ``MAX_CATEGORIES``."""
        if n_categories > MAX_CATEGORIES:
            raise InvalidParameter(
                f'Column "{self.original.attribute.name}" has {n_categories} values, more than the'
                f" {MAX_CATEGORIES} that groups, tables and classes can have.",
                hint="Use a column with fewer values: make it of this one before the release.",
            )

    def find_category(self, value: str) -> str:
        """Return the category of a value that a user wrote, such as ``2`` for 2.0 of numbers."""
        if self.original.are_numbers:
            with suppress(ValueError, OverflowError):
                return _format_number(float(value))
        return value

    def _label_values(self, values: AnyArray) -> list[str]:
        """Return the categories of distinct values: numbers as short texts, texts as they are."""
        return [
            _format_number(value) if self.original.are_numbers else str(value)
            for value in values.tolist()
        ]

    def _find_covered(
        self, labels: Sequence[str], original_labels: Sequence[str]
    ) -> list[list[str]]:
        """Return the categories that each released label covers; none if it says nothing."""
        own_labels = frozenset(original_labels)
        is_ordinal = self.original.attribute.kind is Kind.ORDINAL
        ends: Mapping[str, tuple[float, float]] = {}
        if self.original.are_numbers or is_ordinal:
            ends = self._parse_intervals([label for label in labels if label not in own_labels])
        covered: list[list[str]] = []
        for label in labels:
            if label == ANY:
                covered.append([])
            elif label in ends:
                low, high = ends[label]
                if is_ordinal:
                    covered.append([*self.original.attribute.order[int(low) : int(high) + 1]])
                    continue
                inside = [text for text in original_labels if low <= float(text) <= high]
                covered.append(inside or [_format_number((low + high) / 2)])
            elif label in self._node_labels:
                leaves = self._leaves_of(label)
                covered.append(
                    [_format_number(self._parse_leaf(leaf)) for leaf in leaves]
                    if self.original.are_numbers
                    else leaves
                )
            elif label in own_labels:
                covered.append([label])
            else:
                raise InvalidParameter(
                    f'Column "{self.original.attribute.name}" holds labels in the release that are'
                    " neither values of the original nor in a hierarchy.",
                    hint="Name the hierarchy that the labels come from: `hierarchies`.",
                )
        return covered

    def _order_labels(self, labels: set[str]) -> tuple[str, ...]:
        """Sort categories: numbers by size, texts by the column's order or by code point."""
        if self.original.are_numbers:
            return tuple(sorted(labels, key=float))
        return tuple(_sort_texts(labels, self.original.attribute))

    def _build_column(
        self,
        labels: tuple[str, ...],
        covered: Sequence[Sequence[str]],
        codes: NDArray[np.int32],
    ) -> CategoryColumn:
        """Build a column from the categories that each of its distinct values covers."""
        index_of = {label: index for index, label in enumerate(labels)}
        shares = np.zeros((len(covered), len(labels)))
        for row, categories in enumerate(covered):
            for label in categories:
                shares[row, index_of[label]] += 1 / len(categories)
        # Values that cover nothing are missing. The last entry is for NULL, whose code is -1.
        says_something = np.array([bool(categories) for categories in covered] + [False])
        return CategoryColumn(
            self.original.attribute.name,
            labels,
            np.where(says_something[codes], codes, -1).astype(np.int32),
            shares,
        )


def format_values(column: ColumnValues) -> list[str]:
    """Return the distinct values of a column as texts, in the column's order."""
    values = column.distinct()[0].tolist()
    if column.are_numbers:
        return [_format_number(value) for value in values]
    return _sort_texts(values, column.attribute)


def _sort_texts(texts: Iterable[str], attribute: Attribute) -> list[str]:
    """Sort texts by the column's order, and those that are not in it by code point."""
    rank_of = {text: rank for rank, text in enumerate(attribute.order)}
    return sorted(texts, key=lambda text: (rank_of.get(text, len(rank_of)), text))


def join_bounds(name: str, low: ColumnValues, high: ColumnValues) -> ColumnValues:
    """Join two columns of bounds, float64 (n,) each, into one of intervals as texts.

    The upper bound is not part of an interval, as in releases with the option ``intervals``.

    Raises
    ------
    UnsupportedType : the bounds are labels, as those of ordinal and of coded columns are.
    """
    if not (low.are_numbers and high.are_numbers):
        raise UnsupportedType(
            f'Column "{name}" is released as two columns of labels, which analyses cannot take.',
            hint='Release it with one label per value: `intervals="text"`.',
        )
    texts = np.array(
        [
            f"[{_format_number(a)}, {_format_number(b)})" if a < b else _format_number(a)
            for a, b in zip(low.values.tolist(), high.values.tolist(), strict=True)
        ],
        object,
    )
    attribute = replace(low.attribute, name=name, kind=Kind.CATEGORY)
    return ColumnValues(attribute, texts, low.missing | high.missing)


def _format_number(value: float) -> str:
    """Format a number so that equal numbers have one text, which reads back as the number."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
