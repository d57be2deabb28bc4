"""The page on chains: its attack prints the output on the page, and its figures were measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "chains.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "benchmarks" / "results" / "chains.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_attack_prints_the_documented_output(tmp_path: Path) -> None:
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
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed_blocks = re.findall(r"<!-- printed -->\n```text\n(.*?)```", PAGE, re.S)
    assert len(printed_blocks) == 2
    assert done.stdout == "".join(printed_blocks)


def test_the_price_was_measured() -> None:
    """Every figure on the page, rounded as there, comes from the benchmark's table."""
    ways = "independent|chain|all let in"
    attack: dict[Any, list[str]] = {}
    price: dict[Any, list[str]] = {}
    for cells in table_rows(MEASURED, rf"\| \w+, .*\| ({ways}) \|"):
        (attack if len(cells) == 9 else price)[key(cells[0]), cells[1]] = cells[2:]
    name, compared = "", 0
    for first, procedure, below, losses, frozen, left, wait in table_rows(
        PAGE, rf"\| .*\| ({ways}) \|"
    ):
        name = first or name
        seen, measured_loss = attack[key(name), procedure], price[key(name), procedure]
        assert numbers(below) == [round(value) for value in numbers(" ".join(seen[:3]))]
        for printed, measured in zip(
            numbers(losses), numbers(" ".join(measured_loss[:2])), strict=True
        ):
            assert printed == pytest.approx(measured, abs=0.0006)
        if procedure != "independent":
            assert numbers(frozen) == [round(value) for value in numbers(measured_loss[2])]
            assert numbers(left) == [round(value) for value in numbers(measured_loss[3])]
            assert numbers(wait) == pytest.approx(numbers(measured_loss[4]), abs=0.051)
        compared += 1
    assert compared == 15


def table_rows(text: str, pattern: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(pattern, line)
    ]


def key(name: str) -> tuple[str, tuple[float, ...]]:
    """The data set and the two shares that a row belongs to, as a key."""
    word = name.split(",")[0]
    return word, tuple(numbers(name.replace("none", "0").replace("0.2.0", ""))[:2])


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d*\.?\d+", text)]
