"""The page and texts of a refused run: why it was refused, and what may help.

Like error messages, they contain no value of the data.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dbanon.data.words import printable
from dbanon.doors.html.page import policy_of_page, style_of_page, template
from dbanon.errors import DbanonError, OutcomeUnknown
from dbanon.errors.base import Notation, write_python_option
from dbanon.release.words import now
from dbanon.version import version

_NOTHING = "This run published nothing. An earlier release of this name, if any, is unchanged."
_UNKNOWN = "It is unknown whether this run published a release: check before you run it again."
# By this a file is known to be a refusal that dbanon wrote, whatever its form.
_MARK = "dbanon refusal "
_MARKED = re.compile(rf"{_MARK}[0-9A-Za-z-]+")
# A refusal is far smaller.
_MOST_BYTES = 1 << 20


def describe_refusal(
    error: DbanonError,
    *,
    output: str,
    source: str,
    run_id: str,
    job: str | None = None,
    notation: Notation = write_python_option,
) -> dict[str, Any]:
    """Why a run ended without a release, as plain values.

    Parameters
    ----------
    output, source : the names of the release that was requested, and of its source.
    notation : how options in hints are written.
    """
    is_unknown = isinstance(error, OutcomeUnknown)
    return {
        "title": "Outcome unknown" if is_unknown else "Not released",
        "output": output,
        "source": source,
        "job": job,
        "run_id": run_id,
        "mark": f"{_MARK}{run_id}",
        "ended_at": now(),
        "dbanon_version": version(),
        "state": _UNKNOWN if is_unknown else _NOTHING,
        "error": error.to_dict(notation),
    }


def refusal_pairs(refusal: dict[str, Any]) -> list[tuple[str, str]]:
    """A refusal as pairs of label and text, for people."""
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


def refusal_page(refusal: dict[str, Any]) -> str:
    """A refusal as one self-contained HTML page."""
    return template("refusal.html.j2").render(
        refusal=refusal,
        title=printable(str(refusal["output"])),
        style=Markup(style_of_page()),
        policy=policy_of_page(),
    )


def refusal_file(report: Path) -> Path:
    """The path of a refusal: beside the report, which may belong to an earlier release."""
    return report.with_name(f"{report.stem}.refused{report.suffix}")


def drop_refusal(report: Path) -> None:
    """Remove the refusal of an earlier run beside a report, if dbanon wrote it.

    A file that cannot be read or removed stays.
    """
    file = refusal_file(report)
    with suppress(OSError):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return
        if _MARKED.search(file.read_text(encoding="utf-8", errors="replace")):
            file.unlink()
