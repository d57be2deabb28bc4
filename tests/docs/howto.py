"""Runs the how-to in docs/jobs.md; ``python -m tests.docs.howto`` writes the actual output.

A comment before each block gives its kind:

``<!-- how-to: table -->``  creates the table in DuckDB; for other databases a test creates it
``<!-- how-to -->``         run in order, in the same shell
``<!-- prints -->``         the output of the block before it
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
BLOCK = re.compile(r"(<!-- (how-to: table|how-to|prints) -->\n```\w+\n)(.*?)(```)", re.S)
_CUT = "---- 8< ----"


def blocks() -> list[tuple[str, str]]:
    """The kind of each block on the page, with its text."""
    return [(kind, text) for _, kind, text, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]


def run_page(
    folder: Path, url: str | None = None, run: Callable[..., Any] = subprocess.run, before: str = ""
) -> list[str]:
    """The output of each command on the page.

    Parameters
    ----------
    url : of a database with the table; None creates the page's own.
    run : used instead of ``subprocess.run``.
    before : shell commands to run before those of the page.
    """
    commands = [(kind, text) for kind, text in blocks() if kind != "prints"]
    script = "".join(
        f"{text}\necho '{_CUT}'\n" for kind, text in commands if url is None or "table" not in kind
    )
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search_path, "COLUMNS": "100"}
    if url is not None:
        environment["DBANON_URL"] = url
    done = run(
        ["bash", "-euo", "pipefail", "-c", before + script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(_CUT + "\n")[:-1]
    # Creating the table prints nothing.
    return outputs if url is not None else outputs[1:]


def fill_page(outputs: list[str]) -> str:
    """The page with the actual output."""
    left = iter(outputs)

    def fill(match: re.Match[str]) -> str:
        opening, kind, body, closing = match.groups()
        if kind == "prints":
            lines = [line.rstrip() for line in next(left).strip("\n").splitlines()]
            body = "\n".join(lines) + "\n"
        return opening + body + closing

    return BLOCK.sub(fill, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _folder:
        PAGE.write_text(fill_page(run_page(Path(_folder))), encoding="utf-8")
