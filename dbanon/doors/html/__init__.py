"""The report as one self-contained page: no script, no request, nothing of a single row."""

from __future__ import annotations

from pathlib import Path


def needs_evaluation(path: str | Path | None) -> bool:
    """Return True for the path of an HTML report, which includes an evaluation.

    The run must evaluate the release, because afterwards a full evaluation is impossible.
    """
    return path is not None and Path(path).suffix == ".html"
