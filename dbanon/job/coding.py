"""The options ``top``, ``bottom`` and ``recode``: values become bands or groups before classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import Bands, CopyCoding, consecutive_bands, has_fraction
from dbanon.data.frozen import dataclass
from dbanon.data.groups import Groups
from dbanon.data.microdata import EXACT_INTEGER
from dbanon.data.option import Option
from dbanon.data.schema import NOMINAL, Attribute, Kind, apply_kinds
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.recoding import GENERALIZED

_DOCS_PAGE = "generalization.md#coding"
# A threshold that is taken from the data: the percentile of a column.
PERCENTILE = r"p[0-9]{1,2}(\.[0-9]{1,3})?"
_THRESHOLDS = "numbers, or percentiles such as p99.5,"
TOP = Option(
    "Code values from this number on as one value, such as 90+, before classes are made.",
    item=_THRESHOLDS,
    pattern=PERCENTILE,
    flag="top",
    form="NAME=NUMBER",
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)
BOTTOM = Option(
    "Code values below this number as one value, such as <18, before classes are made.",
    item=_THRESHOLDS,
    pattern=PERCENTILE,
    flag="bottom",
    form="NAME=NUMBER",
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)
RECODE = Option(
    "Code numbers as bands, or values as groups by name, before classes are made, the same for"
    " every row. A band begins at each border.",
    item="lists of numbers or groups of values",
    flag="recode",
    form="NAME=A,B,C|JSON",
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)

# The kinds of columns that can be coded as bands.
_CODED_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
# The kinds of columns whose values can be grouped by name.
_GROUPED_KINDS = (*_CODED_KINDS, Kind.CATEGORY, Kind.ORDINAL)
# The largest distance between the ends of a column that ``top`` or ``bottom`` codes: a threshold,
# or the smallest or largest value where there is none.
MAX_LABELS = 100_000


@dataclass(frozen=True)
class Coding:
    """How columns are coded: the options ``top``, ``bottom`` and ``recode``.

    Parameters
    ----------
    top, bottom : a threshold by column, or a percentile as text until ``run.thresholds`` replaces
        it. Values from ``top`` on, and values below ``bottom``, are
        open bands; all others are bands of a single whole number.
    recode : ascending borders by column, or the groups of its values.
    """

    top: Mapping[str, float | str]
    bottom: Mapping[str, float | str]
    recode: Mapping[str, Sequence[float] | Groups]

    @property
    def columns(self) -> tuple[str, ...]:
        """The coded columns, each once."""
        return tuple(dict.fromkeys((*self.recode, *self.top, *self.bottom)))

    @property
    def borders(self) -> dict[str, Sequence[float]]:
        """The ascending borders of ``recode``, by column."""
        return {name: v for name, v in self.recode.items() if not isinstance(v, Groups)}

    def numbers_of(self, option: str) -> dict[str, float]:
        """The thresholds of ``top`` or ``bottom`` that are numbers, by column."""
        thresholds = self.top if option == "top" else self.bottom
        return {name: v for name, v in thresholds.items() if not isinstance(v, str)}

    @property
    def percentiles(self) -> dict[str, dict[str, str]]:
        """The thresholds to take from the data, by option and column; empty if there are none."""
        options = {"top": self.top, "bottom": self.bottom}
        percentiles = {
            option: {name: v for name, v in columns.items() if isinstance(v, str)}
            for option, columns in options.items()
        }
        return {option: columns for option, columns in percentiles.items() if columns}

    def require_numbers(self, attribute: Attribute) -> None:
        """Check that a column holds numbers, so that it can be coded; raises UnsupportedType."""
        if attribute.kind not in _CODED_KINDS:
            raise self._kind_error(attribute)

    @property
    def groups(self) -> dict[str, Groups]:
        """The groups of ``recode``, by column."""
        return {name: v for name, v in self.recode.items() if isinstance(v, Groups)}

    def check(self) -> None:
        """Check what can be checked without the columns.

        Raises
        ------
        InvalidParameter : borders do not ascend, or a column is coded in two ways.
        """
        for name in self.groups:
            if name in self.top or name in self.bottom:
                raise InvalidParameter(
                    f'The values of "{name}" have groups in `recode`, and also a threshold in `top`'
                    " or `bottom`.",
                    hint="Leave out its threshold, or its groups.",
                )
        for name, borders in self.borders.items():
            if not borders:
                raise InvalidParameter(
                    f'The bands of "{name}" have no border.',
                    hint="Name at least one border in `recode`, or leave the column out of it.",
                )
            # As float64, in which large numbers may be equal.
            if any(low >= high for low, high in pairwise(map(float, borders))):
                raise InvalidParameter(
                    f'The borders of "{name}" in `recode` do not ascend, so a band would be empty.',
                    hint="Name each border once, from the lowest to the highest: `recode`.",
                )
            if name in self.top or name in self.bottom:
                raise InvalidParameter(
                    f'Column "{name}" is named in `recode`, whose first and last band are open, and'
                    " in `top` or `bottom`.",
                    hint="Name its thresholds as the first and the last border of `recode`.",
                )
        for name, top in self.numbers_of("top").items():
            if self.numbers_of("bottom").get(name, -inf) >= top:
                raise InvalidParameter(
                    f'The `bottom` of "{name}" must be below its `top`.',
                    hint="Exchange them, or leave one out.",
                )

    def read_groups_as_texts(self, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Return the quasi-identifiers, those with groups as texts without an order.

        Parameters
        ----------
        attributes : the quasi-identifiers, with the kinds of their types.

        Raises
        ------
        UnsupportedType : a column with groups holds neither texts nor numbers.
        """
        kinds = {}
        for attribute in attributes:
            if attribute.name not in self.groups:
                continue
            if attribute.kind not in _GROUPED_KINDS:
                raise UnsupportedType(
                    f'Column "{attribute.name}" of type'
                    f" {attribute.sql_type or attribute.kind.value} holds neither texts nor"
                    " numbers, which groups in `recode` need.",
                    hint="Make it a text in a view, or generalize it by a hierarchy:"
                    " `hierarchies`.",
                )
            kinds[attribute.name] = NOMINAL
        return apply_kinds(attributes, kinds)

    def code_copies(self, attributes: Sequence[Attribute]) -> dict[str, CopyCoding]:
        """Return how the numbers of copied columns are coded, by column.

        Parameters
        ----------
        attributes : the sensitive and the kept columns, with the kinds of their types.

        Raises
        ------
        InvalidParameter : a copied column has groups, or a threshold of whole numbers is not whole.
        UnsupportedType : a coded column does not hold numbers.
        """
        codings = {}
        for attribute in attributes:
            name = attribute.name
            if name not in self.columns:
                continue
            if name in self.groups:
                raise InvalidParameter(
                    f'The values of "{name}" have groups in `recode`, and the column is copied.',
                    hint="Group quasi-identifiers only. Group other columns in a view.",
                )
            self.require_numbers(attribute)
            is_integral = attribute.kind is Kind.INTEGER
            if is_integral and has_fraction(self._thresholds_of(name)):
                raise _fraction_error(name, self._options_of(name))
            is_banded = name in self.recode
            bands = Bands(
                tuple(map(float, self._thresholds_of(name))),
                is_integral=is_integral and is_banded,
                open_below=is_banded or name in self.bottom,
                open_above=is_banded or name in self.top,
            )
            codings[name] = CopyCoding(bands, keeps_numbers=not is_banded)
        return codings

    def code_attributes(
        self,
        attributes: Sequence[Attribute],
        described_columns: Collection[str],
        copied_columns: Collection[str] = (),
    ) -> tuple[Attribute, ...]:
        """Return the quasi-identifiers as they will be after coding, without their bands.

        Parameters
        ----------
        attributes : the quasi-identifiers, as they are read.
        described_columns : the columns with a hierarchy or a step.
        copied_columns : the sensitive and the kept columns, which ``code_copies`` checks.

        Raises
        ------
        InvalidParameter : a coded column is no quasi-identifier or has a hierarchy or a step, or a
            threshold of whole numbers is not whole.
        UnsupportedType : a coded column does not hold numbers.
        """
        attributes_by_name = {attribute.name: attribute for attribute in attributes}
        for name in self.columns:
            attribute = attributes_by_name.get(name)
            if attribute is None and name in copied_columns:
                continue
            if attribute is None:
                raise InvalidParameter(
                    f'Column "{name}", named in {self._options_of(name)}, is neither a'
                    " quasi-identifier nor copied.",
                    hint="Make it a quasi-identifier."
                    if name in self.groups
                    else "Make it a quasi-identifier, or copy it: `keep`.",
                )
            if name in self.groups:
                if attribute.kind is not Kind.CATEGORY:
                    raise InvalidParameter(
                        f'The values of "{name}" have groups in `recode`, and also an order.',
                        hint="Leave the column out of `orders`, or out of `recode`.",
                    )
            elif attribute.kind not in _CODED_KINDS:
                raise self._kind_error(attribute)
            if name in described_columns:
                raise InvalidParameter(
                    f'Column "{name}" is coded, and also has a hierarchy or a step.',
                    hint="Leave out its coding, or its hierarchy and step.",
                )
            if attribute.kind is Kind.INTEGER and has_fraction(self._thresholds_of(name)):
                raise _fraction_error(name, self._options_of(name))
        return tuple(
            self._code_attribute(attribute) if attribute.name in self.columns else attribute
            for attribute in attributes
        )

    def bands_of(self, attribute: Attribute, values: NDArray[np.float64]) -> Bands:
        """Return the bands of a column.

        Parameters
        ----------
        attribute : the column, as it is read.
        values : float64 (m,), its values without NULL. They decide whether a column of floats holds
            whole numbers, and how many labels there are on the side without a threshold.

        Raises
        ------
        InvalidParameter : a threshold of whole numbers is not whole.
        UnsupportedType : ``top`` or ``bottom`` codes a column with fractions, or with too many
            values for labels.
        """
        name, borders_by_column = attribute.name, self.borders
        # A data frame holds integers as floats if one of them is NULL.
        is_integral = attribute.kind is Kind.INTEGER or not has_fraction(values)
        if name in borders_by_column:
            borders = tuple(map(float, borders_by_column[name]))
            return Bands(borders, is_integral=is_integral and not has_fraction(borders))
        if not is_integral:
            raise UnsupportedType(
                f'Column "{name}" holds numbers with fractions. {self._options_of(name)} can code'
                " whole numbers only, which keep their values between the thresholds.",
                hint="Name bands for it instead: `recode`.",
            )
        thresholds = self._thresholds_of(name)
        if has_fraction(thresholds):
            raise _fraction_error(name, self._options_of(name))
        low, high = self.numbers_of("bottom").get(name), self.numbers_of("top").get(name)
        known_ends = [
            *thresholds,
            *([float(values.min()), float(values.max())] if len(values) else []),
        ]
        least = min(known_ends) if low is None else float(low)
        most = max(known_ends) if high is None else float(high)
        # float64 holds neighboring numbers only below ``EXACT_INTEGER``.
        if most - least <= MAX_LABELS and max(abs(least), abs(most)) < EXACT_INTEGER:
            # Begin and end at round numbers, so that no label shows the smallest or largest value.
            unit = 10.0 ** np.ceil(np.log10(most - least + 2))
            start = float(np.floor(least / unit) * unit) if low is None else least
            end = float(np.ceil((most + 1) / unit) * unit) if high is None else most
            return consecutive_bands(
                start, end, open_below=low is not None, open_above=high is not None
            )
        raise UnsupportedType(
            f'Column "{name}" holds too many numbers for a label each between the thresholds of'
            f" {self._options_of(name)}.",
            hint="Name bands for it instead: `recode`.",
        )

    def option_of(self, columns: Collection[str]) -> str:
        """An option that names one of these columns; empty if there is none."""
        options = {"top": self.top, "bottom": self.bottom, "recode": self.recode}
        return next((name for name, codings in options.items() if {*codings} & {*columns}), "")

    def _kind_error(self, attribute: Attribute) -> UnsupportedType:
        """Build the error for a column that does not hold numbers."""
        return UnsupportedType(
            f'Column "{attribute.name}" of type {attribute.sql_type or "text"} does not hold'
            f" numbers, which {self._options_of(attribute.name)} needs.",
            hint="Make it a number in a view, such as the year of a date, or generalize it"
            " by a hierarchy: `hierarchies`.",
        )

    def _thresholds_of(self, name: str) -> tuple[float, ...]:
        """The borders and thresholds of a column."""
        options = (self.numbers_of("bottom"), self.numbers_of("top"))
        thresholds = [option[name] for option in options if name in option]
        return (*self.borders.get(name, ()), *thresholds)

    def _code_attribute(self, attribute: Attribute) -> Attribute:
        """Return the attribute of a column after coding, without its bands."""
        groups = self.groups.get(attribute.name)
        return code_attribute(attribute) if groups is None else group_attribute(attribute, groups)

    def _options_of(self, name: str) -> str:
        """The options that name a column, for messages."""
        options = {"top": self.top, "bottom": self.bottom, "recode": self.recode}
        return " and ".join(f"`{option}`" for option, columns in options.items() if name in columns)


NO_CODING = Coding({}, {}, {})


def code_attribute(attribute: Attribute, bands: Bands | None = None) -> Attribute:
    """Return the attribute of a column after coding: text whose order is that of the bands.

    Parameters
    ----------
    bands : None if the values were not read yet.
    """
    return replace(
        attribute,
        kind=Kind.ORDINAL,
        sql_type=GENERALIZED,
        order=() if bands is None else bands.labels,
        bands=bands,
    )


def group_attribute(attribute: Attribute, groups: Groups) -> Attribute:
    """Return the attribute of a column after its values were grouped: text without an order."""
    return replace(
        attribute,
        kind=Kind.CATEGORY,
        sql_type=GENERALIZED,
        order=(),
        enum_type="",
        nominal=False,
        groups=groups,
    )


def coded_copy_attribute(attribute: Attribute) -> Attribute:
    """The released column of coded numbers: text, whatever its type in the source."""
    return replace(attribute, kind=Kind.CATEGORY, sql_type=GENERALIZED, order=())


def _fraction_error(name: str, options: str) -> InvalidParameter:
    """Build the error for a threshold with a fraction, of a column of whole numbers."""
    return InvalidParameter(
        f'Column "{name}" holds whole numbers, and a number of {options} has a fraction.',
        hint="Name whole numbers.",
    )
