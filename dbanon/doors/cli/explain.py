"""The command ``dbanon explain``: what an error means, and what to do."""

from __future__ import annotations

import re
from typing import Any

import click

from dbanon.doors.cli.groups import OnDatabase
from dbanon.doors.cli.log import log_format
from dbanon.doors.cli.support import FORMAT, errors, show, signals


@click.command(cls=OnDatabase)
@click.argument("code", required=False)
@FORMAT
@log_format
def explain(code: str | None, form: str) -> None:
    """Explain an error: what its code means, why it occurs, and what to do.

    CODE is the word in brackets before a message, as in null_in_quasi_identifier. The name of
    its class or a SQLSTATE works as well. Without CODE all errors are listed.
    """
    with errors(form), signals():
        from dbanon.doors.cli.render import rows_table
        from dbanon.errors import explanations

        if code is None:
            entries = list(explanations.load_explanations().values())
            show(
                form,
                [_plain(entry) for entry in entries],
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
        if form == "json":
            show(form, [_plain(entry) for entry in matches], lambda: None)
            return
        click.echo("\n\n".join(_page(entry) for entry in matches))


def _plain(entry: Any) -> dict[str, Any]:
    return {**entry._asdict(), "text": _plain_text(entry.text)}


def _plain_text(text: str) -> str:
    """Remove Markdown's marks of emphasis."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", text)


def _page(entry: Any) -> str:
    """Render an error's explanation as plain text."""
    named = f", dbanon.errors.{entry.name}" if entry.name else ""
    head = f"{entry.code} (exit code {entry.exit_code}, SQLSTATE {entry.sqlstate}{named})"
    return f"{head}\n\n{entry.summary}\n\n{_plain_text(entry.text)}"
