"""Export: a file that is made of a release once it was verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.option import is_text
from dbanon.errors import InvalidParameter

PARQUET, CSV = "parquet", "csv"
FORMATS = (PARQUET, CSV)
COMPRESSIONS = ("zstd", "snappy", "gzip", "none")
KEEP = "keep"
FORMULAS = ("error", "escape", KEEP)
# What stands between the values of CSV, by the names that a job file has for them.
SEPARATORS = {",": ",", ";": ";", "tab": "\t"}
DECIMALS = (".", ",")
# What the path of a table in a catalog begins with, as an export and as a source.
ICEBERG = "iceberg:"

_HINT = 'Write a file as in "out/people.parquet" or "out/people.csv".'


def is_table(path: str) -> bool:
    """True for what names a table of a catalog of Iceberg's."""
    return path.startswith(ICEBERG)


@dataclass(frozen=True)
class Export:
    """A file of a release.

    Parameters
    ----------
    path : where it goes; ``{release}`` stands for the release's id. Also an object of a store, or a
        table of Iceberg as ``iceberg:CATALOG/namespace.table``.
    format : ``parquet`` or ``csv``; by the ending of the path where it is empty.
    compression : of Parquet: ``zstd``, ``snappy``, ``gzip`` or ``none``.
    statistics : True for minima and maxima of all columns in Parquet, which catalogs copy to where
        others read them; else of the quasi-identifiers only.
    formulas : what becomes of texts in CSV that spreadsheets would run: ``error`` refuses them,
        ``escape`` writes an apostrophe before them, ``keep`` leaves them.
    separator : of CSV: ``,``, ``;`` or ``tab``.
    decimal : of CSV: the decimal mark, ``.`` or ``,``.
    byte_order_mark : of CSV: True for one, by which spreadsheets recognize UTF-8.
    keep_last : how many files stay, with that of this release; None for all.
    """

    path: str
    format: str = ""
    compression: str = "zstd"
    statistics: bool = False
    formulas: str = "error"
    separator: str = ","
    decimal: str = "."
    byte_order_mark: bool = False
    keep_last: int | None = None

    def __post_init__(self) -> None:
        path: Any = self.path
        if not isinstance(path, str) or not path.strip() or "\0" in path or not is_text(path):
            raise InvalidParameter("The path of an export must be text.", hint=_HINT)
        if is_table(self.path):
            self._require_fits_table()
        if not self.format:
            ending = self.path.rpartition(".")[2].lower()
            if ending not in FORMATS:
                raise InvalidParameter(
                    "The ending of the export's path does not say which format it has.", hint=_HINT
                )
            object.__setattr__(self, "format", ending)
        for name, known in (
            ("format", FORMATS), ("compression", COMPRESSIONS), ("formulas", FORMULAS),
            ("statistics", (True, False)), ("separator", tuple(SEPARATORS)),
            ("decimal", DECIMALS), ("byte_order_mark", (True, False)),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                told = ", ".join(str(one).lower() for one in known)
                raise InvalidParameter(f"{name} of an export must be one of {told}.")
        if self.decimal == self.separator:
            raise InvalidParameter(
                "The separator and the decimal mark of an export must differ.",
                hint='With decimal "," set separator to ";" or tab.',
            )
        keep: Any = self.keep_last
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise InvalidParameter(
                "keep_last of an export must be a whole number, 1 or more: the newest file counts."
            )
        if keep is not None and "{release}" not in self.path:
            raise InvalidParameter(
                "keep_last of an export needs {release} in its path: else each replaces the last."
            )

    def _require_fits_table(self) -> None:
        """Take the format of tables' files, and nothing that only files have."""
        if self.format not in ("", PARQUET) or "{release}" in self.path:
            raise InvalidParameter(
                "An export to Iceberg is of Parquet, without {release} in its path.",
                hint="Each release is a snapshot of the one table; expire older ones by Iceberg's"
                " own tools.",
            )
        object.__setattr__(self, "format", PARQUET)

    @classmethod
    def of_plain(cls, given: Mapping[str, Any]) -> Export:
        """The export of an object with its parameters by name; raises InvalidParameter."""
        known = [one.name for one in fields(cls)]
        if "path" not in given or not set(given) <= set(known):
            raise InvalidParameter(
                "An export must be an object with path.", hint="Known keys: " + ", ".join(known)
            )
        return cls(**given)

    @classmethod
    def given(cls, one: object) -> object:
        """An export that was given as a path, or what else was given."""
        return cls(str(one)) if isinstance(one, str) or hasattr(one, "__fspath__") else one
