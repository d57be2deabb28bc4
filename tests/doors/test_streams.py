"""Output that libraries write directly to a command's streams, bypassing Python's own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.doors.cli.support import report_errors
from dbanon.errors import InvalidParameter, ModelInfeasible
from dbanon.extensions.workbench.tasks import BackgroundTask, BackgroundTasks

COMMAND = [sys.executable, "-c", "from dbanon.doors.cli.start import start; start()"]


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{20 + i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "people.csv").write_text(f"age,height,illness\n{rows}")
    return tmp_path


TABLE = ("file:people.csv", "--table", "people", "-q", "age", "-q", "height", "--k", "4")
RELEASE = (*TABLE, "--export", "released.csv", "--sensitive", "illness")


def test_a_bound_is_json_and_nothing_else(folder: Path) -> None:
    done = call("bound", *TABLE, "--seconds", "2", "--format", "json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["method"] == "classes"


def test_a_certificate_is_json_and_nothing_else(folder: Path) -> None:
    words = ("--certificate", "2", "--format", "json", "--output", "released")
    done = call("anonymize", *RELEASE, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    certificate = json.loads(done.stdout)["arguments"]["certificate"]
    assert certificate["above"] >= 0
    assert "HiGHS" not in done.stderr


def test_a_refusal_ends_with_its_own_lines(folder: Path) -> None:
    done = call(
        "anonymize", *RELEASE, "--model", "illness=distinct_l:5", "--output", "released", cwd=folder
    )
    assert done.returncode == ModelInfeasible.exit_code
    assert done.stdout == ""
    beginnings = [line.partition(" ")[0] for line in done.stderr.splitlines()]
    assert beginnings == ["Error", "Hint:", "More:"]


@pytest.mark.parametrize("withhold", [False, True])
def test_a_refusal_holds_no_arrays(withhold: bool) -> None:
    frame = pd.DataFrame({"age": np.arange(20), "illness": list("ab") * 10})
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ModelInfeasible) as raised:
            dbanon.anonymize_frame(
                frame,
                quasi_identifiers=["age"],
                sensitive=["illness"],
                k=3,
                models=[dbanon.Model("distinct_l", "illness", 5)],
                withhold_failing=withhold,
                max_suppression=0.1,
            )
        error = weakref.ref(raised.value)
        del raised
        assert error() is None
    finally:
        gc.enable()


class Kernel:
    """Stand-in for a variable in a frame."""


def test_a_reported_error_holds_nothing_even_if_a_library_stores_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernels: list[weakref.ref[Kernel]] = []

    def library() -> None:
        kernel = Kernel()
        kernels.append(weakref.ref(kernel))
        error = InvalidParameter("It is refused.")
        raise error

    gc.disable()
    try:
        with pytest.raises(SystemExit), report_errors("text"):
            library()
        [kernel] = kernels
        assert kernel() is None
    finally:
        gc.enable()
    assert "It is refused." in capsys.readouterr().err


def test_a_failed_task_of_the_workbench_holds_no_arrays() -> None:
    """The page shows its error until the next task."""
    kernels: list[weakref.ref[Kernel]] = []

    def work(task: BackgroundTask) -> None:
        kernel = Kernel()
        kernels.append(weakref.ref(kernel))
        try:
            raise ValueError
        except ValueError:
            raise InvalidParameter("It is refused.") from None

    task = BackgroundTask("a task", "release", work)
    gc.disable()
    try:
        BackgroundTasks()._run_task(task)
        [kernel] = kernels
        assert kernel() is None
    finally:
        gc.enable()
    assert (task.state, str(task.error)) == ("failed", "It is refused.")
