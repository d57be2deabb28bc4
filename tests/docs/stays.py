"""Runs the how-to in docs/stays.md; ``python -m tests.docs.stays`` writes the actual output.

A comment before each block gives its kind: a file, commands for one shell, or their output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stays.md"
BLOCK = re.compile(r"(<!-- (file: [\w.]+|run|prints) -->\n```\w+\n)(.*?)(```)", re.S)


def run_page(folder: Path, **environment: str) -> list[str]:
    """The output of each command on the page, run in a folder."""
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": search_path, "COLUMNS": "100", **environment}
    outputs = []
    for _, kind, text, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind.startswith("file"):
            (folder / kind.split()[1]).write_text(text, encoding="utf-8")
        elif kind == "run":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=folder,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            outputs.append(done.stdout)
    return outputs


def fill_page(outputs: list[str]) -> str:
    """The page with the actual output."""
    left = iter(outputs)

    def fill(match: re.Match[str]) -> str:
        opening, kind, body, closing = match.groups()
        if kind == "prints":
            body = "".join(f"{line.rstrip()}\n" for line in next(left).strip("\n").splitlines())
        return opening + body + closing

    return BLOCK.sub(fill, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _folder:
        PAGE.write_text(fill_page(run_page(Path(_folder))), encoding="utf-8")
