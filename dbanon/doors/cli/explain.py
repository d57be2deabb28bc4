"""The command ``dbanon explain``: what an error means, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from dbanon.data.types import JsonObject
from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.log import with_log_format
from dbanon.doors.cli.support import FORMAT_OPTION, handle_signals, report_errors, show

if TYPE_CHECKING:
    from dbanon.errors.explanations import ErrorExplanation


@click.command(cls=DatabaseCommand)
@click.argument("code", required=False)
@FORMAT_OPTION
@with_log_format
def explain(code: str | None, output_format: str) -> None:
    """Explain an error: what its code means, why it occurs, and what to do.

    CODE is the word in brackets before a message, as in null_in_quasi_identifier. The name of
    its class or a SQLSTATE works as well. Without CODE all errors are listed.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors.cli.render import rows_table
        from dbanon.errors import explanations

        if code is None:
            entries = list(explanations.load_explanations().values())
            show(
                output_format,
                [_to_json(entry) for entry in entries],
                lambda: rows_table(
                    "Errors",
                    ["code", "exit", "SQLSTATE", "meaning"],
                    [
                        (entry.code, entry.exit_code, entry.sqlstate, entry.summary)
                        for entry in entries
                    ],
                ),
            )
            return
        matches = explanations.explain(code)
        if output_format == "json":
            show(output_format, [_to_json(entry) for entry in matches], lambda: None)
            return
        click.echo("\n\n".join(_format_page(entry) for entry in matches))


def _to_json(entry: ErrorExplanation) -> JsonObject:
    """Convert an explanation to JSON values."""
    return {**entry._asdict(), "text": _strip_emphasis(entry.text)}


def _strip_emphasis(text: str) -> str:
    """Remove the asterisks of Markdown's bold text."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", text)


def _format_page(entry: ErrorExplanation) -> str:
    """Render an error's explanation as plain text."""
    class_name = f", dbanon.errors.{entry.name}" if entry.name else ""
    title = f"{entry.code} (exit code {entry.exit_code}, SQLSTATE {entry.sqlstate}{class_name})"
    return f"{title}\n\n{entry.summary}\n\n{_strip_emphasis(entry.text)}"
