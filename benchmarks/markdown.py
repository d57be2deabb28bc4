"""Format tables as Markdown, and describe the machine that measured them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from dbanon import __version__


class NotMeasuredError(Exception):
    """A requirement of a benchmark is missing; earlier results stay."""

    def __init__(
        self, text: str = "the reference data is not here; DBANON_DATA says where"
    ) -> None:
        super().__init__(text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a Markdown table; floats with four significant digits."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(map(_text, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Describe the machine and the measured version in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip()
            for line in cpuinfo.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    return (
        f"dbanon {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
        f" ({model}), {memory:.0f} GiB. Compare figures of one run with each other only."
    )


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
