"""The page of a report, and the file that holds it."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dbanon.data.words import escape_for_page
from dbanon.doors.html.view import describe_recount, view
from dbanon.release.distribution import Distribution
from dbanon.release.report import Report
from dbanon.run.inspect_release import ReleaseInspection
from dbanon.run.verify import Verification


def page(
    report: Report,
    *,
    look: ReleaseInspection | None = None,
    distributions: Sequence[Distribution] | None = None,
    tradeoff: Mapping[str, Any] | None = None,
    recount: Verification | None = None,
    handed: Mapping[str, str] | None = None,
) -> str:
    """A report as one self-contained HTML page.

    Parameters
    ----------
    look : the release as the ledger has it.
    distributions : of the released columns; those of ``look`` when None.
    tradeoff : of a sweep: ``risk`` and ``loss``, the names of its axes, ``points``, each with
        ``curve``, ``label``, ``risk``, ``loss`` and ``chosen`` for this release, and perhaps
        ``note``.
    recount : the recount for this page; None if there was none, which the page says.
    handed : ``recipient`` and ``purpose``, where the page is to be signed; either may be empty.

    Raises
    ------
    AssertionError : a picture would show fewer rows than it may.
    """
    if distributions is None:
        distributions = look.distributions if look else ()
    style = style_of_page()
    return template("report.html.j2").render(
        view(report, distributions, tradeoff, look),
        recounted=describe_recount(report, recount),
        handed=handed,
        style=Markup(style),
        policy=_policy(style),
    )


def write(text: str, path: Path) -> None:
    """Write a file that only its owner can read; it appears once it is complete."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dbanon-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def policy_of_page() -> str:
    """The content security policy of a report: its own style and nothing else."""
    return _policy(style_of_page())


def style_of_page() -> str:
    """The style sheet of a report, with that of its pictures."""
    return _file("report.css").replace("/* pictures.css */\n", _file("pictures.css"))


def _policy(style: str) -> str:
    """The content security policy of a page with this style."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _text_of(value: Any) -> Any:
    """A value as the page prints it: text without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_for_page(value)
    return value


def environment(*folders: Path) -> jinja2.Environment:
    """Templates of these folders and of this one: escaped, without undefined names."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_text_of,
    )
    # svg.py escapes all text in its pictures.
    templates.filters["picture"] = Markup
    return templates


@cache
def template(name: str) -> jinja2.Template:
    """A template of this folder."""
    return environment().get_template(name)
