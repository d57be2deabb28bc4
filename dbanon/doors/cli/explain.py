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
        from dbanon.errors import explained

        if code is None:
            known = list(explained.explained().values())
            show(
                form,
                [_plain(one) for one in known],
                lambda: rows_table(
                    "Errors",
                    ["code", "exit", "SQLSTATE", "meaning"],
                    [(one.code, one.exit_code, one.sqlstate, one.summary) for one in known],
                ),
            )
            return
        found = explained.explain(code)
        if form == "json":
            show(form, [_plain(one) for one in found], lambda: None)
            return
        click.echo("\n\n".join(_page(one) for one in found))


def _plain(one: Any) -> dict[str, Any]:
    return {**one._asdict(), "text": _plain_text(one.text)}


def _plain_text(text: str) -> str:
    """Markdown without its marks of emphasis."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", text)


def _page(one: Any) -> str:
    """An error as plain text."""
    named = f", dbanon.errors.{one.name}" if one.name else ""
    head = f"{one.code} (exit code {one.exit_code}, SQLSTATE {one.sqlstate}{named})"
    return f"{head}\n\n{one.summary}\n\n{_plain_text(one.text)}"
