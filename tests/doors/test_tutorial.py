"""The tutorial: all steps run, a terminal waits, and its files are removed or kept as requested."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.doors.cli.tutorial_steps import Command, build_steps

PROGRAM = [sys.executable, "-c", "from dbanon.doors.cli.start import start; start()", "tutorial"]


def tutorial(*words: str) -> Result:
    return CliRunner().invoke(main, ["tutorial", *words], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_all_steps_run_and_leave_nothing(tmp_path: Path) -> None:
    """Nothing is reported as leaked either, although steps are refused."""
    folder = tmp_path / "new"
    done = subprocess.run(
        [*PROGRAM, "--directory", str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    all_steps = build_steps("duckdb:///x", "x")
    heads = [f"{n}/{len(all_steps)}  {step.title}" for n, step in enumerate(all_steps, 1)]
    places = [done.stdout.find(head) for head in heads]
    assert -1 not in places
    assert places == sorted(places)
    ends = [
        a.exit_code
        for step in all_steps
        for a in step.actions
        if isinstance(a, Command) and a.exit_code
    ]
    assert ends == [6, 2, 3]
    assert [f"(exit code {code})" in done.stdout for code in ends] == [True] * 3
    assert "as released" in done.stdout
    assert not folder.exists()
    assert done.stdout.splitlines()[-1] == "The tutorial's files were removed."
    assert "leaked" not in done.stderr
    assert done.stderr.splitlines()[-1] == "More: dbanon explain model_infeasible"


@pytest.mark.slow
def test_files_are_kept_on_request(tmp_path: Path) -> None:
    done = tutorial("--directory", str(tmp_path), "--keep", "--yes")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["persons.duckdb", "report.html"]
    again = tutorial("--directory", str(tmp_path))
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
    assert (tmp_path / "persons.duckdb").exists()


@pytest.mark.parametrize("folder", ["/proc/x", "file"])
def test_a_directory_that_cannot_be_created(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    done = tutorial("--directory", str(tmp_path / folder))
    assert done.exit_code in (2, 5)
    assert "directory" in done.stderr


class Terminal:
    """Run the tutorial in its own terminal."""

    def __init__(self, folder: Path) -> None:
        self.own, other = pty.openpty()
        self.process = subprocess.Popen(
            [*PROGRAM, "--directory", str(folder)],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self.seen = ""

    def wait_for(
        self, text: str, seconds: float = 120, again: Callable[[], None] | None = None
    ) -> None:
        """Read until a text appears; call ``again`` once after so many seconds."""
        until = time.monotonic() + seconds
        while text not in self.seen:
            if again is not None and time.monotonic() > until:
                again()
                until, again = time.monotonic() + 120, None
            assert time.monotonic() < until, self.seen
            if not select.select([self.own], [], [], 1)[0]:
                continue
            try:
                self.seen += os.read(self.own, 65536).decode(errors="replace")
            except OSError:
                assert text in self.seen, self.seen
        self.seen = self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.own, text.encode())

    def end(self) -> int:
        code = self.process.wait(120)
        os.close(self.own)
        return code


@pytest.mark.slow
def test_a_terminal_waits_for_enter_and_q_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    terminal = Terminal(folder)
    terminal.wait_for("next step")
    assert "2/10" not in terminal.seen
    terminal.type("\n")
    terminal.wait_for("A plan")
    terminal.wait_for("next step")
    terminal.type("q\n")
    terminal.wait_for("[y/N]")
    terminal.type("y\n")
    terminal.wait_for("The files are in")
    assert terminal.end() == 0
    assert (folder / "persons.duckdb").exists()


@pytest.mark.slow
def test_ctrl_c_ends_it_and_keeps_the_readers_files(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    terminal = Terminal(folder)
    terminal.wait_for("next step")
    (folder / "notes").write_text("mine")
    interrupt = partial(terminal.process.send_signal, signal.SIGINT)
    interrupt()
    # A signal between the prompt and the following read is noticed when the read ends.
    terminal.wait_for("Interrupted", 20, interrupt)
    assert terminal.end() == 130
    assert [path.name for path in folder.iterdir()] == ["notes"]
