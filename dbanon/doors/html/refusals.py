"""Describes why a run ended without a release, and what may help, as JSON, text and HTML page.

Such a description is called a refusal. Like error messages, it contains no value of the data.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Required, TypedDict

from dbanon.data.types import JsonObject
from dbanon.data.words import escape_control_characters
from dbanon.doors.html.page import render_template
from dbanon.errors import DbanonError, OutcomeUnknown
from dbanon.errors.base import Notation, write_python_option
from dbanon.release.words import now
from dbanon.version import version

_NOTHING_PUBLISHED = (
    "This run published nothing. An earlier release of this name, if any, is unchanged."
)
_OUTCOME_UNKNOWN = (
    "It is unknown whether this run published a release: check before you run it again."
)
# Every refusal contains this text and its run id, so that dbanon recognizes files that it wrote.
_MARK_PREFIX = "dbanon refusal "
_MARK_PATTERN = re.compile(rf"{_MARK_PREFIX}[0-9A-Za-z-]+")
# Refusals are far smaller; larger files are not read.
_MAX_BYTES = 1 << 20


class RefusalContext(TypedDict, total=False):
    """The keyword arguments of ``describe_refusal``."""

    output: Required[str]
    source: Required[str]
    run_id: Required[str]
    job: str
    notation: Notation


def describe_refusal(
    error: DbanonError,
    *,
    output: str,
    source: str,
    run_id: str,
    job: str | None = None,
    notation: Notation = write_python_option,
) -> JsonObject:
    """Describe why a run ended without a release, for JSON and the page.

    Parameters
    ----------
    output, source : the names of the requested release and of its source.
    run_id : the UUID of the run.
    job : name of the job in its job file, if any.
    notation : writes an option in a hint, as the user's interface does.
    """
    is_unknown = isinstance(error, OutcomeUnknown)
    return {
        "title": "Outcome unknown" if is_unknown else "Not released",
        "output": output,
        "source": source,
        "job": job,
        "run_id": run_id,
        "mark": f"{_MARK_PREFIX}{run_id}",
        "ended_at": now(),
        "dbanon_version": version(),
        "state": _OUTCOME_UNKNOWN if is_unknown else _NOTHING_PUBLISHED,
        "error": error.to_dict(notation),
    }


def describe_refusal_pairs(refusal: JsonObject) -> list[tuple[str, str]]:
    """Describe a refusal as pairs of label and text."""
    error = refusal["error"]
    reasons = [("why", error["message"]), ("detail", error["detail"]), ("hint", error["hint"])]
    return [
        (refusal["title"], f"{error['code']}, exit code {error['exit_code']}"),
        ("output", refusal["output"]),
        ("source", refusal["source"]),
        *((label, str(text)) for label, text in reasons if text),
        ("state", refusal["state"]),
        ("ended", refusal["ended_at"]),
        ("run", refusal["run_id"]),
        ("mark", refusal["mark"]),
    ]


def render_refusal_page(refusal: JsonObject) -> str:
    """Render a refusal as one self-contained HTML page."""
    return render_template(
        "refusal.html.j2",
        refusal=refusal,
        title=escape_control_characters(str(refusal["output"])),
    )


def refusal_path(report_path: Path) -> Path:
    """Return the path of a refusal: beside the report, which may describe an earlier release."""
    return report_path.with_name(f"{report_path.stem}.refused{report_path.suffix}")


def drop_refusal(report_path: Path) -> None:
    """Remove the refusal of an earlier run from beside a report, if dbanon wrote the file.

    Files that cannot be read or removed are ignored.
    """
    path = refusal_path(report_path)
    with suppress(OSError):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return
        if _MARK_PATTERN.search(path.read_text(encoding="utf-8", errors="replace")):
            path.unlink()
