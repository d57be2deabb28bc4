"""How to read the source: the format of CSV files, and the condition that selects rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Annotated

from dbanon.data.files import CSV, FOREIGN_FILES, REFUSE, STATISTICS, XLSX
from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check_options, parameters
from dbanon.data.types import JsonObject, KeywordArguments
from dbanon.errors import InvalidParameter

# Orders of day, month and year.
DMY, MDY, YMD = "dmy", "mdy", "ymd"
POINT, COMMA = ".", ","
APOSTROPHE, SPACE = "'", " "
UTF_8 = "utf-8"
ENCODINGS = (UTF_8, "latin-1", "windows-1252", "utf-16")
# Values of ``Reading.value_labels``.
TEXT_LABELS, CODES = "text", "codes"
# Values of ``Reading.duplicate_columns``.
REFUSE_NAMES, RENAME = "refuse", "rename"
# A ``strptime`` pattern with day, month and year, optionally followed by a time.
_DATE_FORMAT = r"(?=.*%d)(?=.*%[mbB])(?=.*%[yY])(?:[^%]|%[dmbByYHIMSfpz%])+"
# Values of ``Reading.types``, in addition to decimals with digits and date formats.
TYPES = (
    "text",
    "integer",
    "decimal",
    "double",
    "percent",
    "date",
    "timestamp",
    "timestamptz",
    "boolean",
)
_TYPE_PATTERN = rf"(?:{'|'.join(TYPES)}|decimal\([0-9]{{1,2}},[0-9]{{1,2}}\)|{_DATE_FORMAT})"
# The most digits of a decimal in DuckDB, which reads CSV files.
_MAX_DIGITS = 38
_DOCS_PAGE = "jobs.md#how-csv-is-read"
# By option, the kinds of files that it applies to, what messages call them, and the ending of an
# example. The options that are not listed, such as ``dates``, apply to CSV files and those that are
# converted to CSV.
_FILES_OF_OPTION = {
    "sheet": ((XLSX, CSV), ".xlsx", "xlsx"),
    "value_labels": ((STATISTICS,), "SPSS and Stata", "sav"),
}
_CSV_FILES = ((CSV, XLSX), "CSV", "csv")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The format of a file, and which files may be read.

    Parameters
    ----------
    dates : ``dmy``, ``mdy`` or ``ymd``, or a ``strptime`` format, in addition to 2025-12-31. None
        to infer it from the values, which must be unambiguous.
    decimal : the decimal mark; None to infer it, as for dates.
    thousands : the thousands separator; None to infer it, as for dates.
    trim : strip blanks around unquoted fields.
    types : by column; the types of other columns are inferred from the values.
    header : True if the first line names the columns; None to infer it from the values.
    skip_lines : number of lines before the header.
    sheet : the sheet of a spreadsheet; None for the only sheet with rows.
    duplicate_columns : how to treat columns that share a name.
    encoding : the character encoding.
    null_words : texts that mean NULL, in addition to empty fields.
    value_labels : how to read values that have labels in a file of SPSS or Stata: as these labels,
        in columns whose values all have one, or as the codes themselves.
    foreign_files : how to treat links, and files of other accounts, in a folder. Applies to all
        file formats.

    Raises
    ------
    InvalidParameter : an option has a value that is not allowed.
    """

    dates: Annotated[
        str | None,
        Option(
            "Date format of a CSV file: dmy for 31.12.2025, mdy for 12/31/2025, ymd for"
            " 2025/12/31, or a pattern such as %d.%m.%y. 2025-12-31 is always read as a date.",
            pattern=rf"{DMY}|{MDY}|{YMD}|{_DATE_FORMAT}",
            expected="dmy, mdy, ymd or a pattern such as %d.%m.%y",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        Option(
            "The decimal mark of numbers in a CSV file.",
            choices=(POINT, COMMA),
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    thousands: Annotated[
        str | None,
        Option(
            "The thousands separator of numbers in a CSV file: , . ' or a space.",
            choices=(COMMA, POINT, APOSTROPHE, SPACE),
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    trim: Annotated[
        bool,
        Option(
            "Remove blanks around unquoted fields of a CSV file.",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = True
    types: Annotated[
        Mapping[str, str],
        Option(
            "The type of a column of a CSV file: " + ", ".join(TYPES) + ", decimal(18,2), or a"
            " date pattern such as %d/%m/%Y. The types of other columns are detected from their"
            " values.",
            pattern=_TYPE_PATTERN,
            expected="a type by column: one of " + ", ".join(TYPES) + ", decimal(18,2), or a"
            " date pattern such as %d/%m/%Y",
            flag="type",
            form="NAME=TYPE",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    header: Annotated[
        bool | None,
        Option(
            "Whether the first line of a CSV file names its columns. Without a header they are"
            " column0, column1, and so on.",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    skip_lines: Annotated[
        int,
        Option(
            "Lines before the header of a CSV file.",
            minimum=0,
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = 0
    sheet: Annotated[
        str | None,
        Option(
            "The sheet of an .xlsx file. Needed if more than one sheet has rows.",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    duplicate_columns: Annotated[
        str,
        Option(
            "What to do with duplicate column names in a CSV file: refuse them, or rename the"
            " later ones, as in age_2.",
            choices=(REFUSE_NAMES, RENAME),
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = REFUSE_NAMES
    encoding: Annotated[
        str,
        Option(
            "The character encoding of a CSV file.",
            choices=ENCODINGS,
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = UTF_8
    null_words: Annotated[
        tuple[str, ...],
        Option(
            "Texts that mean NULL in a CSV file, such as k.A. An empty field always means NULL.",
            item="texts",
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = ()
    value_labels: Annotated[
        str,
        Option(
            "How to read labeled values of SPSS and Stata files. text: the labels, in columns whose"
            " values all have one. codes: the numbers in the file.",
            choices=(TEXT_LABELS, CODES),
            available_in_sql=False,
            docs_page="jobs.md#files-of-statistics-programs",
        ),
    ] = TEXT_LABELS
    foreign_files: Annotated[
        str,
        Option(
            "What to do with files in a folder that belong to other accounts, and with links:"
            " refuse both, allow files of other accounts, or follow links, too.",
            choices=FOREIGN_FILES,
            available_in_sql=False,
            docs_page="jobs.md#files-of-others",
        ),
    ] = REFUSE

    def __post_init__(self) -> None:
        check_options(self)
        if self.decimal is not None and self.decimal == self.thousands:
            raise InvalidParameter(
                "decimal and thousands are the same mark.",
                hint="Set `decimal` to the decimal mark and `thousands` to the thousands separator,"
                " and make them differ.",
            )
        for name, type_name in self.types.items():
            # Other types that begin in this way are patterns of dates.
            decimal_type = re.fullmatch(r"decimal\(([0-9]+),([0-9]+)\)", type_name)
            if decimal_type is None:
                continue
            n_digits, n_decimals = map(int, decimal_type.groups())
            if not max(n_decimals, 1) <= n_digits <= _MAX_DIGITS:
                raise InvalidParameter(
                    f'No number has the type that is given for column "{name}": {type_name}.',
                    hint=f"Write up to {_MAX_DIGITS} digits, and no more decimals than digits, as"
                    " in decimal(18,2).",
                )

    @property
    def non_default_options(self) -> tuple[str, ...]:
        """The names of options that differ from their defaults."""
        options = parameters(type(self))
        return tuple(
            option.name for option in options if getattr(self, option.name) != option.default
        )

    def to_dict(self) -> JsonObject:
        """The options that differ from their defaults, as plain values."""
        options = {name: getattr(self, name) for name in self.non_default_options}
        return {
            name: list(value)
            if isinstance(value, tuple)
            else dict(value)
            if isinstance(value, Mapping)
            else value
            for name, value in options.items()
        }

    def with_types(
        self, types: Mapping[str, str], inferred_options: Iterable[tuple[str, str]]
    ) -> Reading:
        """Copy with a type for each column, so that later files are read in the same way.

        Parameters
        ----------
        types : inferred types by column; types that the user set take precedence.
        inferred_options : pairs of an option and the value that one column suggests for it. An
            option stays unset if two columns suggest different values.
        """
        values_by_option: dict[str, set[str]] = {}
        for option, value in inferred_options:
            values_by_option.setdefault(option, set()).add(value)
        new_options: KeywordArguments = {
            option: next(iter(values))
            for option, values in values_by_option.items()
            if len(values) == 1 and getattr(self, option) is None
        }
        decimal, thousands = (
            new_options.get(name, getattr(self, name)) for name in ("decimal", "thousands")
        )
        if decimal is not None and decimal == thousands:
            # One column uses the mark for decimals and another for thousands, so set neither: the
            # types of the columns suffice to read later files.
            new_options = {name: new_options[name] for name in new_options if name == "dates"}
        return replace(self, **new_options, types={**types, **self.types})

    def require_no_file_options(self) -> None:
        """Check that no option about files is set; raises InvalidParameter."""
        self.require_no_format_options()
        self.require_no_foreign_files()

    def require_no_format_options(self) -> None:
        """Check that no option about the format of files is set; raises InvalidParameter."""
        self.require_options_of("")

    def require_options_of(self, kind: str) -> None:
        """Check that no option for other kinds of files is set; raises InvalidParameter.

        Parameters
        ----------
        kind : the kind of the files, see ``data.files``; empty if rows do not come from files.
        """
        for name in self.non_default_options:
            if name == "foreign_files":
                continue
            kinds, description, ending = _FILES_OF_OPTION.get(name, _CSV_FILES)
            if kind not in kinds:
                raise InvalidParameter(
                    f"{name} only applies to {description} files.",
                    hint=f"Leave it out, or read such a file: file:people.{ending}.",
                )

    def require_no_foreign_files(self) -> None:
        """Check that ``foreign_files`` is not set; raises InvalidParameter."""
        if self.foreign_files != REFUSE:
            raise InvalidParameter(
                "foreign_files only applies to files on this machine.",
                hint="Leave it out, or read a folder: file:data/.",
            )


DEFAULT_READING = Reading()


# Parts of SQL that are not checked: strings, with or without backslash escapes, and quoted names.
_QUOTED = r"""(?s)(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_FORBIDDEN = r"--|/\*|[;$\0'\"]"
_CONDITION_HINT = "Write one condition without WHERE, as in `where=\"status = 'active'\"`."


def require_condition(text: str) -> None:
    """Check that a text, put in parentheses in a query, remains a single expression.

    Its author may read the table anyway, so this only prevents mistakes, such as a comment that
    hides the SQL after it.

    Raises
    ------
    InvalidParameter : the text is empty, or it has a second statement, a comment, a dollar sign, an
        unclosed quote or unbalanced brackets.
    """
    unquoted_text = re.sub(_QUOTED, " ", text)
    if not text.strip():
        raise InvalidParameter("where is an empty condition.", hint=_CONDITION_HINT)
    if re.search(_FORBIDDEN, unquoted_text):
        raise InvalidParameter(
            "where contains a semicolon, a comment, a dollar sign or an unclosed quote.",
            hint=_CONDITION_HINT,
        )
    open_brackets: list[str] = []
    for bracket in re.findall(r"[()\[\]]", unquoted_text):
        if bracket in "([":
            open_brackets.append(bracket)
        elif not open_brackets or open_brackets.pop() + bracket not in ("()", "[]"):
            raise InvalidParameter(
                "where closes a bracket that it did not open.", hint=_CONDITION_HINT
            )
    if open_brackets:
        raise InvalidParameter(
            "where opens a bracket that it does not close.", hint=_CONDITION_HINT
        )
