"""Reports for people: tables on a terminal, JSON and HTML files."""

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

from dbanon.data.words import printable
from dbanon.doors.cli.log import say
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.release.report import Report

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.run.inspect_release import ReleaseInspection
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.run.verify_export import VerifiedExport

# A width in characters that no line reaches.
_UNBROKEN = 1_000_000
# Terminal width up to which tables are narrowed, and the label width then.
_NARROW = 100
_LABEL = 30


def print_results(*results: Any) -> None:
    """Print tables and texts on stdout, fitted to the terminal if there is one.

    If stdout is not a terminal, lines are neither wrapped nor padded.
    """
    console = Console()
    for result in results:
        if console.is_terminal:
            _fit(result, console.width)
            console.print(result)
        else:
            click.echo(_unpadded(result, sys.stdout.encoding or "utf-8"))


def _unpadded(renderable: Any, encoding: str) -> str:
    """Render a table or text without trailing blanks, in characters of the encoding."""
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding, errors="backslashreplace", write_through=True)
    width = None if "COLUMNS" in os.environ else _UNBROKEN
    console = Console(file=file, width=width)
    _fit(renderable, console.width)
    console.print(renderable)
    lines = buffer.getvalue().decode(encoding).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _fit(renderable: Any, width: int) -> None:
    """Narrow tables for a small terminal."""
    if width > _NARROW:
        return
    if isinstance(renderable, Group):
        for part in renderable.renderables:
            _fit(part, width)
    elif isinstance(renderable, Table):
        renderable.collapse_padding, renderable.pad_edge = True, False
        if not renderable.show_header:
            # Wrap labels, so that a release's identifier fits on the line of its label.
            renderable.columns[0].no_wrap, renderable.columns[0].max_width = False, _LABEL


def pairs_table(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """Build a table of labels and texts."""
    table = Table(title=_plain(title), show_header=False, title_justify="left", box=box.SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in pairs:
        table.add_row(_plain(label), _plain(text))
    return table


def rows_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Build a table with a header."""
    table = Table(title=_plain(title), title_justify="left", box=box.SIMPLE)
    lines = [[_plain("NULL" if value is None else str(value)) for value in row] for row in rows]
    for index, name in enumerate(header):
        # A short name in the first column is never wrapped.
        no_wrap = index == 0 and all(len(line[0]) <= _LABEL for line in lines)
        table.add_column(_plain(name), overflow="fold", no_wrap=no_wrap)
    for line in lines:
        table.add_row(*line)
    return table


class EntryList:
    """Entries as a table or, if it is too wide, each entry as lines of label and value.

    Narrowing the table would wrap identifiers, which people copy.
    """

    def __init__(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._title, self._header, self._rows = title, header, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = rows_table(self._title, self._header, self._rows)
        width = Measurement.get(console, options.update(width=_UNBROKEN), table)
        if width.maximum <= options.max_width:
            yield table
            return
        title = self._title
        for row in self._rows:
            values = (("" if value is None else str(value)) for value in row)
            pairs = zip(self._header, values, strict=True)
            entry = pairs_table(title, [(label, text) for label, text in pairs if text])
            _fit(entry, options.max_width)
            yield entry
            title = ""


def entries_text(entries: Iterable[Mapping[str, str]]) -> Text:
    """Render a catalog in 80 columns.

    The first value of an entry is its name, the second its summary; details follow.
    """
    lines: list[str] = []
    for entry in entries:
        (_, name), (_, summary), *details = entry.items()
        lines += textwrap.wrap(f"{name}: {summary}", 78, subsequent_indent="  ")
        for label, text in details:
            if text:
                lines += textwrap.wrap(
                    f"{label}: {text}", 78, initial_indent="    ", subsequent_indent="      "
                )
        lines.append("")
    return Text("\n".join(lines).rstrip("\n"))


def report_table(report: Report | PrivateReport) -> Table:
    """Build the table of a report."""
    return pairs_table("Report", report.pairs())


def verification_table(verification: Verification | PrivateVerification | VerifiedExport) -> Table:
    """Build the table of a verification."""
    from dbanon.run.verify import Verification, release_text

    if not isinstance(verification, Verification):
        return pairs_table("Verification", verification.pairs())
    if verification.release_id is None:
        unchanged = "not in the ledger"
    elif verification.digest is None and not verification.unchanged:
        unchanged = "not compared: the ledger has the file's SHA-256"
    elif verification.unchanged:
        unchanged = "yes: columns, types, rows, class sizes"
    else:
        unchanged = f"columns and class sizes, yes; rows not compared: digest {verification.digest}"
    return pairs_table(
        "Verification",
        [
            ("relation", verification.relation),
            ("release", release_text(verification)),
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
            ("as released", unchanged),
        ],
    )


def require_report_file(path: Path) -> None:
    """Check that a report can be written to a path.

    Raises
    ------
    InvalidParameter : unsupported ending, or no such directory.
    """
    if path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir():
        raise InvalidParameter(
            "The report cannot be written there.",
            hint="Name a .json, .html or .txt file in a directory that exists.",
        )


def save_report(
    report: Report | PrivateReport,
    path: Path,
    look: ReleaseInspection | None = None,
    **on_page: Any,
) -> None:
    """Write a report to a ``.json``, ``.html`` or ``.txt`` file, in the format of its ending.

    The file is written atomically, readable by its owner only.

    Parameters
    ----------
    look : details from the release's database, for an HTML page.
    on_page : ``recount`` and ``handover`` of ``render_page``.

    Raises
    ------
    InvalidParameter : unsupported ending.
    """
    from dbanon.doors.html.page import render_page, write_private_file
    from dbanon.doors.html.private import render_private_page

    if path.suffix == ".json":
        text = json.dumps(report.to_dict(), indent=2) + "\n"
    elif path.suffix == ".html":
        text = (
            render_page(report, inspection=look, **on_page)
            if isinstance(report, Report)
            else render_private_page(report, **on_page)
        )
    elif path.suffix == ".txt":
        text = _unpadded(report_table(report), "utf-8") + "\n"
    else:
        raise InvalidParameter("A report file ends in .json, .html or .txt.")
    write_private_file(text, path)


def save_refusal(error: DbanonError, report: Path, **context: Any) -> None:
    """Write a refusal next to the path of the missing report; warn if that fails.

    Parameters
    ----------
    report : path of the report. Its ending selects the format, as in ``save_report``.
    context : passed to ``describe_refusal``.
    """
    from dbanon.doors.html.page import write_private_file
    from dbanon.doors.html.refusals import (
        describe_refusal,
        describe_refusal_pairs,
        refusal_path,
        render_refusal_page,
    )

    refusal, path = describe_refusal(error, **context), refusal_path(report)
    if path.suffix == ".json":
        text = json.dumps({"refusal": refusal}, indent=2) + "\n"
    elif path.suffix == ".html":
        text = render_refusal_page(refusal)
    else:
        text = _unpadded(pairs_table("Report", describe_refusal_pairs(refusal)), "utf-8") + "\n"
    try:
        write_private_file(text, path)
    except OSError as failure:
        reason = failure.strerror or type(failure).__name__
        say(f"Warning: why nothing was released could not be written to {path} ({reason}).")


def _plain(text: str) -> str:
    """Escape a text for rich: names may contain its markup or control characters."""
    return escape(printable(text))
