"""Reports as people read them: tables on a terminal, JSON and HTML files."""

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
    from dbanon.run.inspect_release import Look
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.run.verify_export import VerifiedExport

# Wider than any line.
_UNBROKEN = 1_000_000
# Columns of a terminal below which tables are narrowed, and of a label there.
_NARROW = 100
_LABEL = 30


def tell(*what: Any) -> None:
    """Print tables and texts on stdout: as wide as the terminal, and as wide as they are elsewhere.

    Where nobody watches, no line is broken and no space stands behind one.
    """
    console = Console()
    for one in what:
        if console.is_terminal:
            _fit(one, console.width)
            console.print(one)
        else:
            click.echo(_unpadded(one, sys.stdout.encoding or "utf-8"))


def _unpadded(what: Any, encoding: str) -> str:
    """The lines of a table or text, in characters that the encoding has."""
    held = io.BytesIO()
    file = io.TextIOWrapper(held, encoding, errors="backslashreplace", write_through=True)
    width = None if "COLUMNS" in os.environ else _UNBROKEN
    console = Console(file=file, width=width)
    _fit(what, console.width)
    console.print(what)
    lines = held.getvalue().decode(encoding).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _fit(what: Any, width: int) -> None:
    """Narrow the tables of what is printed on a terminal of few columns."""
    if width > _NARROW:
        return
    if isinstance(what, Group):
        for one in what.renderables:
            _fit(one, width)
    elif isinstance(what, Table):
        what.collapse_padding, what.pad_edge = True, False
        if not what.show_header:
            # Labels and values share the lines; a release's identifier fits into one.
            what.columns[0].no_wrap, what.columns[0].max_width = False, _LABEL


def pairs_table(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """A table of labels and texts."""
    table = Table(title=_plain(title), show_header=False, title_justify="left", box=box.SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in pairs:
        table.add_row(_plain(label), _plain(text))
    return table


def rows_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table with a header."""
    table = Table(title=_plain(title), title_justify="left", box=box.SIMPLE)
    lines = [[_plain("NULL" if value is None else str(value)) for value in row] for row in rows]
    for place, name in enumerate(header):
        # A short name in front is never parted.
        whole = place == 0 and all(len(line[0]) <= _LABEL for line in lines)
        table.add_column(_plain(name), overflow="fold", no_wrap=whole)
    for line in lines:
        table.add_row(*line)
    return table


class EntryList:
    """Entries as a table, or each as lines of label and value where the table is too wide.

    A table that is narrowed parts identifiers, which are to be copied.
    """

    def __init__(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._title, self._header, self._rows = title, header, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = rows_table(self._title, self._header, self._rows)
        whole = Measurement.get(console, options.update(width=_UNBROKEN), table)
        if whole.maximum <= options.max_width:
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
    """Entries of a catalogue in 80 columns: each has a name, a summary, and what else is known.

    The first value of an entry is its name, the second its summary.
    """
    lines: list[str] = []
    for entry in entries:
        (_, name), (_, summary), *more = entry.items()
        lines += textwrap.wrap(f"{name}: {summary}", 78, subsequent_indent="  ")
        for label, text in more:
            if text:
                lines += textwrap.wrap(
                    f"{label}: {text}", 78, initial_indent="    ", subsequent_indent="      "
                )
        lines.append("")
    return Text("\n".join(lines).rstrip("\n"))


def report_table(report: Report | PrivateReport) -> Table:
    """A report as a table."""
    return pairs_table("Report", report.pairs())


def verification_table(found: Verification | PrivateVerification | VerifiedExport) -> Table:
    """A verification as a table."""
    from dbanon.run.verify import Verification, release_text

    if not isinstance(found, Verification):
        return pairs_table("Verification", found.pairs())
    if found.release_id is None:
        unchanged = "not in the ledger"
    elif found.digest is None and not found.unchanged:
        unchanged = "not compared: the ledger has the file's SHA-256"
    elif found.unchanged:
        unchanged = "yes: columns, types, rows, class sizes"
    else:
        unchanged = f"columns and class sizes, yes; rows not compared: digest {found.digest}"
    return pairs_table(
        "Verification",
        [
            ("relation", found.relation),
            ("release", release_text(found)),
            ("quasi-identifiers", ", ".join(found.quasi_identifiers)),
            ("rows", str(found.rows)),
            (
                "k requested / counted",
                f"{found.k_requested} / {found.k_achieved} ({found.counted})",
            ),
            (
                "classes: number, smallest / median / largest",
                f"{found.classes}, {found.smallest_class} / {found.median_class:g}"
                f" / {found.largest_class}",
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
                for model in found.models
            ),
            *(
                (f"k of ({', '.join(one.columns)})", f"{one.k} / {one.counted} (rows)")
                for one in found.also_k
            ),
            ("as released", unchanged),
        ],
    )


def require_report_file(path: Path) -> None:
    """Check that a report can be written there.

    Raises
    ------
    InvalidParameter : another ending, or no such directory.
    """
    if path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir():
        raise InvalidParameter(
            "The report cannot be written there.",
            hint="Name a .json, .html or .txt file in a directory that exists.",
        )


def save_report(
    report: Report | PrivateReport, path: Path, look: Look | None = None, **on_page: Any
) -> None:
    """Write a report to a file, as its ending says: ``.json``, ``.html`` or ``.txt``.

    The file is readable by its owner only, and appears when it is complete.

    Parameters
    ----------
    look : what the release's database has of it, for a page.
    on_page : what else a page says: ``recount`` and ``handed``, as ``html.page`` has them.

    Raises
    ------
    InvalidParameter : another ending.
    """
    from dbanon.doors.html.page import page, write
    from dbanon.doors.html.private import private_page

    if path.suffix == ".json":
        text = json.dumps(report.to_dict(), indent=2) + "\n"
    elif path.suffix == ".html":
        text = (
            page(report, look=look, **on_page)
            if isinstance(report, Report)
            else private_page(report, **on_page)
        )
    elif path.suffix == ".txt":
        text = _unpadded(report_table(report), "utf-8") + "\n"
    else:
        raise InvalidParameter("A report file ends in .json, .html or .txt.")
    write(text, path)


def save_refusal(error: DbanonError, report: Path, **asked: Any) -> None:
    """Write why there is no release beside where its report would be; a failure is a warning.

    Parameters
    ----------
    report : where the report would be. The ending says the form, as of ``save_report``.
    asked : as of ``describe_refusal``.
    """
    from dbanon.doors.html.page import write
    from dbanon.doors.html.refusals import (
        describe_refusal,
        refusal_file,
        refusal_page,
        refusal_pairs,
    )

    refusal, place = describe_refusal(error, **asked), refusal_file(report)
    if place.suffix == ".json":
        text = json.dumps({"refusal": refusal}, indent=2) + "\n"
    elif place.suffix == ".html":
        text = refusal_page(refusal)
    else:
        text = _unpadded(pairs_table("Report", refusal_pairs(refusal)), "utf-8") + "\n"
    try:
        write(text, place)
    except OSError as failure:
        why = failure.strerror or type(failure).__name__
        say(f"Warning: why nothing was released could not be written to {place} ({why}).")


def _plain(text: str) -> str:
    """Text that rich prints as it is: a name may hold what looks like its markup, or worse."""
    return escape(printable(text))
