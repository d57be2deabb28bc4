"""The page on chains: its attack prints what is shown, and its figures are those measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "chains.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "benchmarks" / "results" / "chains.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_attack_prints_what_is_shown(tmp_path: Path) -> None:
    program = []
    for language, code in re.findall(r"<!-- runnable -->\n```(python|bash)\n(.*?)```", PAGE, re.S):
        if language == "bash":
            code = (
                f"import subprocess\nsubprocess.run({code!r}, shell=True, check=True, stdout=-3)\n"
            )
        program.append(code)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", "".join(program)],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"<!-- printed -->\n```text\n(.*?)```", PAGE, re.S)
    assert len(shown) == 2
    assert done.stdout == "".join(shown)


def test_the_price_is_as_measured() -> None:
    """Each figure of the page, rounded as it is there, stands in the benchmark's table."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(r"\| .*\| (independent|chain) \|", line)
    ]
    assert len(cells) == 8
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in MEASURED.splitlines()
        if re.match(r"\| (Census|Adult)", line)
    ]
    attack, price = rows[:8], rows[8:]
    for (_, way, below, losses, held, left), seen, lost in zip(cells, attack, price, strict=True):
        assert way == seen[1] == lost[1]
        assert numbers(below) == [round(one) for one in numbers(" ".join(seen[2:5]))]
        for told, found in zip(numbers(losses), numbers(" ".join(lost[2:4])), strict=True):
            assert told == pytest.approx(found, abs=0.0006)
        if way == "chain":
            assert numbers(held) == [round(one) for one in numbers(lost[4])]
            assert numbers(left) == [round(one) for one in numbers(lost[5])]


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"\d*\.?\d+", text)]
