"""Descriptions of the text columns of a CSV file by the format of most of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbanon.job.reading import COMMA, DMY, MDY, POINT, Reading
from dbanon.sessions.base import ColumnReading
from dbanon.stores.duckdb.csv_forms import day_forms, fits

_NULL_WORDS = "null_words"


@dataclass(frozen=True)
class _TextFormat:
    """A format that many values of a text column may have.

    Parameters
    ----------
    name : a description.
    condition : SQL that a matching value satisfies.
    some : SQL that at least one value must satisfy; empty for no such requirement.
    option : the option that would read the format; empty if there is none.
    """

    name: str
    condition: str
    some: str = ""
    option: str = ""


def _text_formats(column: str, reading: Reading) -> list[_TextFormat]:
    # If two orders fit, prefer the declared one.
    orders = sorted((DMY, MDY), key=lambda order: order != reading.dates)
    formats = []
    for order in orders:
        option = _NULL_WORDS if reading.dates in (order, None) else "types"
        for separator in "./-" if order == DMY else "/-":
            formats += [
                _TextFormat(form.name, form.condition, option=option)
                for form in day_forms(column, order, separator)
            ]
    comma, point = (rf"-?(0|[1-9][0-9]*)({mark}[0-9]+)?" for mark in (",", r"\."))
    for mark, pattern, name in ((COMMA, comma, "comma"), (POINT, point, "point")):
        option = _NULL_WORDS if reading.decimal in (mark, None) else f'decimal: "{mark}"'
        some = f"contains({column}, '{mark}')"
        formats.append(
            _TextFormat(f"numbers with a decimal {name}", fits(column, pattern), some, option)
        )
    return [
        *formats,
        _TextFormat(
            "dates whose years have two digits",
            option="dates",
            condition=fits(column, r"[0-9]{1,2}([./-])[0-9]{1,2}[./-][0-9]{2}"),
        ),
        _TextFormat(
            "yyyy-mm-dd",
            fits(column, r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+)?"),
            option=_NULL_WORDS,
        ),
        _TextFormat(
            "numbers with marks between thousands",
            fits(column, r"-?[0-9]{1,3}([.,'][0-9]{3})+([.,][0-9]+)?"),
            option=_NULL_WORDS,
        ),
        _TextFormat(
            "codes, digits with a zero before them", fits(column, "[0-9]+"), f"{column} LIKE '0_%'"
        ),
        _TextFormat("whole numbers", fits(column, "-?(0|[1-9][0-9]*)"), option=_NULL_WORDS),
    ]


def description_query(column: str, reading: Reading) -> str:
    """Build the SELECT expressions that ``describe_texts`` needs for a text column."""
    counts = [f"count({column})"]
    for text_format in _text_formats(column, reading):
        counts.append(f"count(*) FILTER (WHERE {text_format.condition})")
        counts.append(f"coalesce(bool_or({text_format.some or 'true'}), false)")
    return ", ".join(counts)


def describe_texts(name: str, reading: Reading, counts: Sequence[object]) -> ColumnReading:
    """Describe the format of most texts of a column."""
    n_values, *format_counts = counts
    best = ColumnReading(name, "VARCHAR")
    for text_format, count, some in zip(
        _text_formats(name, reading), format_counts[::2], format_counts[1::2], strict=True
    ):
        if some and int(str(count)) > best.n_matching:
            best = ColumnReading(
                name,
                "VARCHAR",
                pattern=text_format.name,
                parse_option=text_format.option,
                n_matching=int(str(count)),
                n_values=int(str(n_values)),
            )
    return best
