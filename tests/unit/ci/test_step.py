"""``.ci/step.sh`` runs a command calmly, and hides neither its warnings nor its failure."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

STEP = Path(__file__).resolve().parents[3] / ".ci" / "step.sh"


def run_step(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STEP, "a title", "sh", "-c", script], capture_output=True, text=True, check=False
    )


def test_a_success_prints_its_title_time_and_warnings() -> None:
    done = run_step("echo much; echo 'WARNING: no extra'; echo 'x.cpp:1: warning: unused' >&2")
    assert done.returncode == 0
    title, time = done.stdout.splitlines()
    assert title == "== a title"
    assert time.startswith("   done in 0:")
    assert done.stderr.splitlines() == ["WARNING: no extra", "x.cpp:1: warning: unused"]


def test_a_failure_prints_everything_and_has_the_status() -> None:
    done = run_step("echo much; echo cause >&2; exit 7")
    assert done.returncode == 7
    assert done.stderr.splitlines()[:2] == ["much", "cause"]
    assert "exit status 7" in done.stderr
    assert "done" not in done.stdout


def test_an_interrupt_ends_the_command(tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 600"
    step = subprocess.Popen([STEP, "a title", "sh", "-c", script], stdout=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists():
        assert step.poll() is None
        time.sleep(0.01)
    command = os.pidfd_open(int((tmp_path / "pid").read_text()))
    step.terminate()
    assert step.wait() == 130
    # Readable as soon as the process has ended.
    select.select([command], [], [])
    os.close(command)
