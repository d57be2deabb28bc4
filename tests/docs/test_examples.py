"""The examples print what is shown, and their losses are those of the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.iloss_evaluator import read_paths

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-m", f"examples.{name}", *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_hospital_prints_what_is_shown(tmp_path: Path) -> None:
    shown = (ROOT / "examples" / "hospital.out").read_text(encoding="utf-8")
    assert run("hospital", tmp_path / "hospital.duckdb") == shown


@pytest.mark.slow
def test_adult_reaches_its_losses(data_dir: Path) -> None:
    printed = run("adult", data_dir / "adult")
    losses = [int(loss) for loss in re.findall(r"iloss (\d+),", printed)]
    assert all(
        loss <= most for loss, most in zip(losses, [11_110, 9_260, 19_760, 15_800], strict=True)
    )
    sex = read_paths(data_dir / "adult" / "hierarchies" / "sex.csv")
    released = printed.splitlines()[-5:]
    assert all(line.split(";")[1] in {*sex, "*"} for line in released)
