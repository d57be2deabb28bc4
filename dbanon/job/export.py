"""Exports: files written from a release after it has been verified."""

from __future__ import annotations

from dataclasses import fields

from dbanon.data.extension import find_table_format
from dbanon.data.frozen import dataclass
from dbanon.data.option import is_text
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter

PARQUET, CSV = "parquet", "csv"
# Files of SPSS, Stata and SAS, by their endings.
STATISTICS_FORMATS = SPSS, STATA, SAS = "sav", "dta", "xpt"
FORMATS = (PARQUET, CSV, *STATISTICS_FORMATS)
COMPRESSIONS = ("zstd", "snappy", "gzip", "none")
# Values of ``Export.formulas``: how CSV treats texts that spreadsheets would run as formulas. It
# refuses them, writes an apostrophe before them, or leaves them.
KEEP = "keep"
FORMULAS = ("error", "escape", KEEP)
# Separators of CSV, by their names in a job file.
SEPARATORS = {",": ",", ";": ";", "tab": "\t"}
DECIMALS = (".", ",")
# Values of ``Export.codes``.
OF_RELEASE, OF_SOURCE = "release", "source"
CODES = (OF_RELEASE, OF_SOURCE)

_PATH_HINT = 'Write a file as in "out/people.parquet" or "out/people.csv".'


@dataclass(frozen=True)
class Export:
    """A file to write from a release.

    Parameters
    ----------
    path : the target path; ``{release}`` is replaced by the release id. May be an object-store URL,
        or an Iceberg table as ``iceberg:CATALOG/namespace.table``.
    format : ``parquet``, ``csv``, ``sav`` (SPSS), ``dta`` (Stata) or ``xpt`` (SAS); empty to use
        the suffix of the path.
    compression : for Parquet: ``zstd``, ``snappy``, ``gzip`` or ``none``.
    statistics : True to write minima and maxima of all columns to Parquet, which catalogs may copy
        and show to others; False for the quasi-identifiers only.
    formulas : how CSV treats texts that spreadsheets would run: ``error`` refuses them, ``escape``
        writes an apostrophe before them, ``keep`` leaves them.
    separator : for CSV: ``,``, ``;`` or ``tab``.
    decimal : for CSV: the decimal mark, ``.`` or ``,``.
    byte_order_mark : for CSV: True to write one, so that spreadsheets recognize UTF-8.
    codes : for SPSS and Stata: ``release`` numbers the labels of a column from 1. ``source`` gives
        labels the numbers that they have in the SPSS or Stata file which was read; gaps then show
        readers which numbers the release does not have.
    keep_last : number of this job's newest files to keep, including this one; None for all.
    """

    path: str
    format: str = ""
    compression: str = "zstd"
    statistics: bool = False
    formulas: str = "error"
    separator: str = ","
    decimal: str = "."
    byte_order_mark: bool = False
    codes: str = OF_RELEASE
    keep_last: int | None = None

    def __post_init__(self) -> None:
        path: object = self.path
        if not isinstance(path, str) or not path.strip() or "\0" in path or not is_text(path):
            raise InvalidParameter("The path of an export must be text.", hint=_PATH_HINT)
        # None unless the path names a table outside of databases by a prefix, such as ``iceberg:``.
        table_format = find_table_format(self.path, writable_only=True)
        if table_format is not None:
            self._apply_table_format(table_format.label)
        if not self.format:
            extension = self.path.rpartition(".")[2].lower()
            if extension not in FORMATS:
                raise InvalidParameter(
                    "The extension of the export's path does not tell its format.", hint=_PATH_HINT
                )
            object.__setattr__(self, "format", extension)
        for name, choices in (
            ("format", FORMATS),
            ("compression", COMPRESSIONS),
            ("formulas", FORMULAS),
            ("statistics", (True, False)),
            ("separator", tuple(SEPARATORS)),
            ("decimal", DECIMALS),
            ("byte_order_mark", (True, False)),
            ("codes", CODES),
        ):
            if getattr(self, name) not in choices:
                allowed = ", ".join(str(choice).lower() for choice in choices)
                raise InvalidParameter(f"{name} of an export must be one of {allowed}.")
        if self.codes == OF_SOURCE and self.format not in (SPSS, STATA):
            raise InvalidParameter(
                "Only .sav and .dta files have codes of labels.",
                hint="Leave out codes of the export.",
            )
        if self.decimal == self.separator:
            raise InvalidParameter(
                "The separator and the decimal mark of an export must differ.",
                hint='With decimal "," set separator to ";" or tab.',
            )
        keep_last: object = self.keep_last
        if keep_last is not None and (
            isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1
        ):
            raise InvalidParameter(
                "keep_last of an export must be a whole number, 1 or more: the newest file counts."
            )
        if keep_last is not None and "{release}" not in self.path:
            raise InvalidParameter(
                "keep_last of an export needs {release} in its path: otherwise each export"
                " replaces the previous one."
            )

    def _apply_table_format(self, label: str) -> None:
        """Set the format to Parquet, and refuse options that apply to files only.

        ``label`` is the name of the table format for messages, such as Iceberg.
        """
        if self.format not in ("", PARQUET) or "{release}" in self.path:
            raise InvalidParameter(
                f"An export to {label} must be Parquet, without {{release}} in its path.",
                hint="Leave out {release}, keep_last and format: each release becomes a snapshot of"
                f" the table. {label}'s tools expire older snapshots.",
            )
        object.__setattr__(self, "format", PARQUET)

    @classmethod
    def from_plain(cls, plain: JsonMapping) -> Export:
        """Build the export from plain values by option; raises InvalidParameter."""
        names = [option.name for option in fields(cls)]
        if "path" not in plain or not set(plain) <= set(names):
            raise InvalidParameter(
                "An export must be an object with path.", hint="Known keys: " + ", ".join(names)
            )
        return cls(**plain)

    @classmethod
    def from_path(cls, value: object) -> object:
        """Wrap a path in an export; return any other value unchanged."""
        return cls(str(value)) if isinstance(value, str) or hasattr(value, "__fspath__") else value
