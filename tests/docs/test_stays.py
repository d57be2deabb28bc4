"""The how-to in docs/stays.md with fewer patients, and with a killed run in one of its months."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.stays import BLOCK, PAGE, run_page


def test_every_command_has_its_output() -> None:
    kinds = [kind for _, kind, *_ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    assert kinds == [
        "file: month.py",
        "file: load.py",
        "run",
        "prints",
        "file: job.yaml",
        "run",
        "prints",
        "run",
        "prints",
    ]
    printed_blocks = [
        text
        for _, kind, text, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        if kind == "prints"
    ]
    require(printed_blocks[1:])


@pytest.mark.slow
def test_the_page_holds_for_fewer_patients(tmp_path: Path) -> None:
    outputs = run_page(tmp_path, PATIENTS="300", MONTHS="5", KILL_AFTER="0.8")
    require(outputs[1:])


def require(outputs: list[str]) -> None:
    """Require groups of at least five persons in the output of the months and the counts."""
    report, verification = outputs
    rows_in, rows_out, suppressed = map(int, re.findall(r"(\d+) / (\d+) / (\d+)", report)[0])
    assert rows_in - rows_out == suppressed > 0
    assert "5 / 5 (persons" in report
    [rarest] = re.findall(r"persons who share the rarest +(\d+)", verification)
    assert int(rarest) >= 5
    assert re.search(r"persons whose history fewer(?: than 5 share)? +0 \(0.0%\)", verification)
    assert verification.rstrip().endswith("has not: 0")
