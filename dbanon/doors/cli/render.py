"""Renders results: tables on a terminal, and reports as text, JSON and HTML files."""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dbanon.data.words import escape_control_characters
from dbanon.doors.cli.log import print_message
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.release.report import Report

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.doors.html.refusals import RefusalContext
    from dbanon.release.private_report import PrivateReport
    from dbanon.run.inspect_release import ReleaseInspection
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.run.verify_export import VerifiedExport

# A console width in characters at which no line is wrapped.
_UNLIMITED_WIDTH = 1_000_000
# Tables are narrowed on terminals of at most this width, in characters.
_NARROW_TERMINAL_WIDTH = 100
# Width to which labels are wrapped in narrowed tables, in characters.
_MAX_LABEL_WIDTH = 30
# Width of wrapped lines in a catalog, in characters.
_CATALOG_WIDTH = 78


def print_results(*results: object) -> None:
    """Print tables and texts on stdout, fitted to the terminal if there is one.

    If stdout is not a terminal, lines are neither wrapped nor padded.
    """
    # Without emoji, as a column name such as ``a:key:b`` is none.
    console = Console(emoji=False)
    for result in results:
        if console.is_terminal:
            _narrow_tables(result, console.width)
            console.print(result)
        else:
            click.echo(_render_unpadded(result, sys.stdout.encoding or "utf-8"))


def _render_unpadded(renderable: object, encoding: str) -> str:
    """Render a table or text without trailing blanks, escaping characters not in the encoding."""
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding, errors="backslashreplace", write_through=True)
    width = None if "COLUMNS" in os.environ else _UNLIMITED_WIDTH
    console = Console(file=file, width=width, emoji=False)
    _narrow_tables(renderable, console.width)
    console.print(renderable)
    lines = buffer.getvalue().decode(encoding).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _narrow_tables(renderable: object, width: int) -> None:
    """Narrow tables for a terminal of ``width`` characters, if that is small."""
    if width > _NARROW_TERMINAL_WIDTH:
        return
    if isinstance(renderable, Group):
        for member in renderable.renderables:
            _narrow_tables(member, width)
    elif isinstance(renderable, Table):
        renderable.collapse_padding, renderable.pad_edge = True, False
        if not renderable.show_header:
            # Wrap labels, so that a release id fits on the line of its label.
            renderable.columns[0].no_wrap, renderable.columns[0].max_width = False, _MAX_LABEL_WIDTH


def pairs_table(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """Build a table of labels and texts."""
    table = Table(
        title=_escape_markup(title), show_header=False, title_justify="left", box=box.SIMPLE
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in pairs:
        table.add_row(_escape_markup(label), _escape_markup(text))
    return table


def rows_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Build a table with a header."""
    table = Table(title=_escape_markup(title), title_justify="left", box=box.SIMPLE)
    cell_rows = [
        [_escape_markup("NULL" if value is None else str(value)) for value in row] for row in rows
    ]
    for index, name in enumerate(header):
        # A short name in the first column is never wrapped.
        no_wrap = index == 0 and all(len(cells[0]) <= _MAX_LABEL_WIDTH for cells in cell_rows)
        table.add_column(_escape_markup(name), overflow="fold", no_wrap=no_wrap)
    for cells in cell_rows:
        table.add_row(*cells)
    return table


class EntryList:
    """Renders entries as a table or, if that is too wide, each entry as lines of label and value.

    Narrowing the table instead would wrap identifiers, so that users could not copy them.
    """

    def __init__(self, title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._title, self._header, self._rows = title, header, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = rows_table(self._title, self._header, self._rows)
        width = Measurement.get(console, options.update(width=_UNLIMITED_WIDTH), table)
        if width.maximum <= options.max_width:
            yield table
            return
        title = self._title
        for row in self._rows:
            values = (("" if value is None else str(value)) for value in row)
            pairs = zip(self._header, values, strict=True)
            entry = pairs_table(title, [(label, text) for label, text in pairs if text])
            _narrow_tables(entry, options.max_width)
            yield entry
            title = ""


def render_catalog(entries: Iterable[Mapping[str, str]]) -> Text:
    """Render a catalog of entries for a terminal of 80 columns.

    The first value of an entry is its name, the second its summary; details follow.
    """
    lines: list[str] = []
    for entry in entries:
        (_, name), (_, summary), *details = entry.items()
        lines += textwrap.wrap(f"{name}: {summary}", _CATALOG_WIDTH, subsequent_indent="  ")
        for label, text in details:
            if text:
                lines += textwrap.wrap(
                    f"{label}: {text}",
                    _CATALOG_WIDTH,
                    initial_indent="    ",
                    subsequent_indent="      ",
                )
        lines.append("")
    return Text("\n".join(lines).rstrip("\n"))


def report_table(report: Report | PrivateReport) -> Table:
    """Build the table of a report."""
    return pairs_table("Report", report.pairs())


def verification_table(verification: Verification | PrivateVerification | VerifiedExport) -> Table:
    """Build the table of a verification."""
    from dbanon.run.verify import Verification, describe_release

    if not isinstance(verification, Verification):
        return pairs_table("Verification", verification.pairs())
    # ``unchanged`` is None if the rows could not be compared; ``digest`` then says why, or is
    # None. ``counted`` is a text about the counts, and about what cannot be counted.
    if verification.release_id is None:
        comparison = "not in the ledger"
    elif verification.digest is None and not verification.unchanged:
        comparison = "not compared: the ledger has the file's SHA-256"
    elif verification.unchanged:
        comparison = "yes: columns, types, rows, class sizes"
    else:
        comparison = (
            f"columns and class sizes, yes; rows not compared: digest {verification.digest}"
        )
    return pairs_table(
        "Verification",
        [
            ("relation", verification.relation),
            ("release", describe_release(verification)),
            ("quasi-identifiers", ", ".join(verification.quasi_identifiers)),
            ("rows", str(verification.rows)),
            (
                "k requested / counted",
                f"{verification.k_requested} / {verification.k_achieved} ({verification.counted})",
            ),
            (
                "classes: number, smallest / median / largest",
                f"{verification.classes}, {verification.smallest_class}"
                f" / {verification.median_class:g} / {verification.largest_class}",
            ),
            *(
                (
                    model.model,
                    f"released {model.recorded:.6g}, "
                    + (
                        f"NOT recounted: {model.why_not}"
                        if model.counted is None
                        else f"counted {model.counted:.6g}"
                    ),
                )
                for model in verification.models
            ),
            *(
                (
                    f"k of ({', '.join(column_set.columns)})",
                    f"{column_set.k} / {column_set.counted} (rows)",
                )
                for column_set in verification.also_k
            ),
            ("as released", comparison),
        ],
    )


def require_report_file(path: Path) -> None:
    """Check that a report can be written to a path.

    Raises
    ------
    InvalidParameter : the file has another ending, or there is no such directory.
    """
    if path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir():
        raise InvalidParameter(
            "The report cannot be written there.",
            hint="Name a .json, .html or .txt file in a directory that exists.",
        )


def save_report(
    report: Report | PrivateReport,
    path: Path,
    inspection: ReleaseInspection | None = None,
    **page_options: Any,
) -> None:
    """Write a report to a ``.json``, ``.html`` or ``.txt`` file, in the format of its ending.

    The file is written atomically, readable by its owner only.

    Parameters
    ----------
    inspection : details from the release's database, for an HTML page.
    page_options : for an HTML page: ``recount``, the verification of the release, and ``handover``,
        its recipient and purpose.

    Raises
    ------
    InvalidParameter : the file has another ending.
    """
    from dbanon.doors.html.page import render_page, write_private_file
    from dbanon.doors.html.private import render_private_page

    if path.suffix == ".json":
        text = json.dumps(report.to_dict(), indent=2) + "\n"
    elif path.suffix == ".html":
        text = (
            render_page(report, inspection=inspection, **page_options)
            if isinstance(report, Report)
            else render_private_page(report, **page_options)
        )
    elif path.suffix == ".txt":
        text = _render_unpadded(report_table(report), "utf-8") + "\n"
    else:
        raise InvalidParameter("A report file ends in .json, .html or .txt.")
    write_private_file(text, path)


def save_refusal(error: DbanonError, report_path: Path, **context: Unpack[RefusalContext]) -> None:
    """Write a refusal, i.e. why nothing was released, next to the report; warn if that fails.

    Parameters
    ----------
    report_path : path of the report that could not be made. Its ending selects the format, as in
        ``save_report``.
    context : keyword arguments of ``describe_refusal``.
    """
    from dbanon.doors.html.page import write_private_file
    from dbanon.doors.html.refusals import (
        describe_refusal,
        describe_refusal_pairs,
        refusal_path,
        render_refusal_page,
    )

    refusal, path = describe_refusal(error, **context), refusal_path(report_path)
    if path.suffix == ".json":
        text = json.dumps({"refusal": refusal}, indent=2) + "\n"
    elif path.suffix == ".html":
        text = render_refusal_page(refusal)
    else:
        text = (
            _render_unpadded(pairs_table("Report", describe_refusal_pairs(refusal)), "utf-8") + "\n"
        )
    try:
        write_private_file(text, path)
    except OSError as failure:
        reason = failure.strerror or type(failure).__name__
        print_message(
            f"Warning: the reason that nothing was released could not be written to {path}"
            f" ({reason})."
        )


def _escape_markup(text: str) -> str:
    """Escape a text for rich: names may contain its markup or control characters."""
    return escape(escape_control_characters(text))
