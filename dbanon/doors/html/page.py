"""Renders a report as an HTML page, and writes files that only their owner can read."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from dbanon.data.types import JsonMapping
from dbanon.data.words import escape_for_page
from dbanon.doors.html.view import describe_recount, describe_report
from dbanon.release.distribution import Distribution
from dbanon.release.report import Report
from dbanon.run.inspect_release import ReleaseInspection
from dbanon.run.verify import Verification


def render_page(
    report: Report,
    *,
    inspection: ReleaseInspection | None = None,
    distributions: Sequence[Distribution] | None = None,
    tradeoff: JsonMapping | None = None,
    recount: Verification | None = None,
    handover: Mapping[str, str] | None = None,
    disclosure: Mapping[str, object] | None = None,
) -> str:
    """Render a report as one self-contained HTML page.

    Parameters
    ----------
    inspection : what the ledger and the database hold about the release; None if unknown.
    distributions : distributions of released columns; None to use those in ``inspection``.
    tradeoff : trial releases for a plot of risk against loss: ``risk`` and ``loss`` (names of the
        axes), ``points`` (each with ``curve``, the method; ``label``; ``risk``; ``loss``; and
        ``chosen``, true for this release) and optionally ``note``.
    recount : the result of recounting the release for this page; None if it was not recounted, and
        then the page says so.
    handover : ``recipient`` and ``purpose``, each of which may be empty, for a page with fields for
        signatures; None for a page without.
    disclosure : the disclosure risk before and after, as ``RiskRunner.describe_for_page`` returns
        it, which makes the page one for the controller of the data only; None for other pages.

    Raises
    ------
    AssertionError : a bar of a picture would stand for fewer rows than allowed.
    """
    if distributions is None:
        distributions = inspection.distributions if inspection else ()
    return render_template(
        "report.html.j2",
        **describe_report(report, distributions, tradeoff, inspection),
        recounted=describe_recount(report, recount),
        handover=handover,
        disclosure=disclosure,
    )


def render_template(name: str, **values: object) -> str:
    """Render a template of this module's directory as a page with the style of reports."""
    style = report_style()
    return _load_template(name).render(
        values,
        style=Markup(style),
        content_security_policy=_build_content_security_policy(style),
    )


def write_private_file(text: str, path: Path) -> None:
    """Write a file atomically, readable by its owner only."""
    descriptor, temporary_name = tempfile.mkstemp(dir=path.parent, prefix=".dbanon-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        Path(temporary_name).replace(path)
    except BaseException:
        Path(temporary_name).unlink(missing_ok=True)
        raise


def report_content_security_policy() -> str:
    """Return the content security policy of a report, which allows its own style only."""
    return _build_content_security_policy(report_style())


def report_style() -> str:
    """Return the style sheet of a report and its pictures."""
    return _read_file("report.css").replace("/* pictures.css */\n", _read_file("pictures.css"))


def _build_content_security_policy(style: str) -> str:
    """Build the content security policy of a page with this style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _read_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _make_printable(value: object) -> object:
    """Escape control characters in a text; return other values unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_for_page(value)
    return value


def create_environment(*directories: Path) -> jinja2.Environment:
    """Create an environment for the templates of these directories and of this module's directory.

    Values are escaped, and undefined names are errors.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*directories, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_make_printable,
    )
    # svg.py escapes all text in its pictures.
    environment.filters["picture"] = Markup
    return environment


@cache
def _load_template(name: str) -> jinja2.Template:
    """Load a template from this module's directory."""
    return create_environment().get_template(name)
