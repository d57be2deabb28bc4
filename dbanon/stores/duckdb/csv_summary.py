"""Descriptions of a CSV file's text columns by the format that most of their values have.

They also suggest options for columns that should have another type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbanon.job.reading import COMMA, DMY, MDY, POINT, Reading
from dbanon.sessions.base import ColumnReading
from dbanon.stores.duckdb.csv_forms import date_formats, matches_pattern

# The option that lists words for NULL. It is suggested if such words may be all that keeps a column
# from being read as numbers or dates.
_NULL_WORDS = "null_words"


@dataclass(frozen=True)
class _TextFormat:
    """A format that many values of a text column may have.

    Parameters
    ----------
    name : a description for users.
    condition : SQL that a matching value satisfies.
    required_condition : SQL that at least one value must satisfy; empty for no such requirement.
    option : the option to suggest for reading the format, as its name or as ``name: value``; empty
        if there is none.
    """

    name: str
    condition: str
    required_condition: str = ""
    option: str = ""


def _text_formats(column: str, reading: Reading) -> list[_TextFormat]:
    """The formats to count, in order of preference."""
    # If day-first and month-first dates both fit, prefer the declared order.
    orders = sorted((DMY, MDY), key=lambda order: order != reading.dates)
    formats = []
    for order in orders:
        # If the option ``dates`` has another order, only ``types`` can choose this one.
        option = _NULL_WORDS if reading.dates in (order, None) else "types"
        for separator in "./-" if order == DMY else "/-":
            formats += [
                _TextFormat(value_format.name, value_format.condition, option=option)
                for value_format in date_formats(column, order, separator)
            ]
    comma_pattern, point_pattern = (rf"-?(0|[1-9][0-9]*)({mark}[0-9]+)?" for mark in (",", r"\."))
    for mark, pattern, name in ((COMMA, comma_pattern, "comma"), (POINT, point_pattern, "point")):
        option = _NULL_WORDS if reading.decimal in (mark, None) else f'decimal: "{mark}"'
        required_condition = f"contains({column}, '{mark}')"
        formats.append(
            _TextFormat(
                f"numbers with a decimal {name}",
                matches_pattern(column, pattern),
                required_condition,
                option,
            )
        )
    return [
        *formats,
        _TextFormat(
            "dates whose years have two digits",
            option="dates",
            condition=matches_pattern(column, r"[0-9]{1,2}([./-])[0-9]{1,2}[./-][0-9]{2}"),
        ),
        _TextFormat(
            "yyyy-mm-dd",
            matches_pattern(column, r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+)?"),
            option=_NULL_WORDS,
        ),
        _TextFormat(
            "numbers with thousands separators",
            matches_pattern(column, r"-?[0-9]{1,3}([.,'][0-9]{3})+([.,][0-9]+)?"),
            option=_NULL_WORDS,
        ),
        _TextFormat(
            "codes with leading zeros",
            matches_pattern(column, "[0-9]+"),
            f"{column} LIKE '0_%'",
        ),
        _TextFormat(
            "whole numbers", matches_pattern(column, "-?(0|[1-9][0-9]*)"), option=_NULL_WORDS
        ),
    ]


def description_query(column: str, reading: Reading) -> str:
    """Build the SELECT list of aggregates of a text column that ``describe_texts`` needs."""
    counts = [f"count({column})"]
    for text_format in _text_formats(column, reading):
        counts.append(f"count(*) FILTER (WHERE {text_format.condition})")
        meets_requirement = "true"
        if text_format.required_condition:
            # A value of this format must meet the requirement, not any other text.
            meets_requirement = f"({text_format.condition}) AND {text_format.required_condition}"
        counts.append(f"coalesce(bool_or({meets_requirement}), false)")
    return ", ".join(counts)


def describe_texts(name: str, reading: Reading, counts: Sequence[object]) -> ColumnReading:
    """Describe the format of most texts in a column.

    Parameters
    ----------
    counts : the values of the aggregates of ``description_query``.
    """
    n_values, *format_counts = counts
    best_reading = ColumnReading(name, "VARCHAR")
    # Only the names and options of the formats are needed here, so the name is not quoted.
    for text_format, n_matching, meets_requirement in zip(
        _text_formats(name, reading), format_counts[::2], format_counts[1::2], strict=True
    ):
        if meets_requirement and int(str(n_matching)) > best_reading.n_matching:
            best_reading = ColumnReading(
                name,
                "VARCHAR",
                pattern=text_format.name,
                parse_option=text_format.option,
                n_matching=int(str(n_matching)),
                n_values=int(str(n_values)),
            )
    return best_reading
