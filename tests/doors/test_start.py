"""The start of a command: its log begins, and signals end it, before everything is loaded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from types import ModuleType
from typing import Any, NoReturn
from unittest.mock import Mock

import click
import pytest

from dbanon.doors.cli import early_log, start
from dbanon.doors.cli.main import main

COMMAND = [sys.executable, "-c", "from dbanon.doors.cli.start import start; start()"]
JSON = ["--log-format", "json"]


def lines(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_command_is_loaded(number: signal.Signals) -> None:
    words = ["run", "no.yaml", *JSON]
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        # Loading the remaining modules takes hundreds of times longer.
        process.send_signal(number)
        remainder = process.stderr.read()
        assert process.wait(60) == 128 + number
    began, ended = lines(first + remainder)
    assert (began["event"], began["command"]) == ("start", "dbanon run")
    assert (ended["event"], ended["exit_code"]) == ("end", 128 + number)
    assert ended["code"] in ("terminated", "interrupted")
    assert began["run_id"] == ended["run_id"]


@pytest.mark.parametrize(
    ("number", "words", "code"),
    [(signal.SIGTERM, ["explain"], 0), (signal.SIGINT, ["explain", "no_such"], 2)],
)
def test_a_signal_when_all_is_done(number: signal.Signals, words: list[str], code: int) -> None:
    """The exit code reports the command's result, whatever happens afterwards."""
    strike = f"import atexit, os; atexit.register(os.kill, os.getpid(), {int(number)})"
    script = f"{strike}; from dbanon.doors.cli.start import start; start()"
    program = [sys.executable, "-c", script, *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert bool(done.stdout) == (code == 0)
    assert "nterrupted" not in done.stderr
    assert "erminated" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [MemoryError(), ImportError("libblas.so: failed to map segment from shared object")],
    ids=["an object", "a library"],
)
@pytest.mark.parametrize("for_machines", [False, True])
def test_memory_that_is_short_while_the_command_is_loaded(
    error: Exception,
    for_machines: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class ShortOfMemory(ModuleType):
        def __getattr__(self, name: str) -> NoReturn:
            raise error if name == "main" else AttributeError(name)

    # Keep this process's handlers.
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    monkeypatch.setattr(start, "gc", Mock(get_threshold=lambda: (1, 1, 1)))
    name = "dbanon.doors.cli.main"
    monkeypatch.setitem(sys.modules, name, ShortOfMemory(name))
    monkeypatch.setattr(start, "_log", None)
    monkeypatch.setattr(early_log, "early_log", None)
    monkeypatch.setattr(start, "_exit_code", None)
    monkeypatch.setattr("sys.argv", ["dbanon", "releases", *(JSON if for_machines else [])])
    with pytest.raises(SystemExit) as ended:
        start.start()
    assert ended.value.code == 9
    stderr = capfd.readouterr().err
    if for_machines:
        assert [line["event"] for line in lines(stderr)] == ["start", "error", "end"]
    assert "memory_limit" in stderr
    assert "Traceback" not in stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "events", "command"),
    [
        (["releases", "--help", *JSON], 0, ["start", "end"], "dbanon releases"),
        (["run", "no.yaml", *JSON], 2, ["start", "error", "end"], "dbanon run"),
        (
            ["chain", "list", "duckdb:///no", "--log-format=json"],
            2,
            ["start", "error", "end"],
            "dbanon chain list",
        ),
        (["run", *JSON, "--no-such"], 2, ["start", "error", "end"], "dbanon run"),
        (["--version"], 0, [], ""),
    ],
)
def test_a_log_has_one_start_and_one_end(
    words: list[str], code: int, events: list[str], command: str
) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
    log_lines = lines(done.stderr)
    logged = [line["event"] for line in log_lines]
    assert logged == events, done.stderr
    if log_lines:
        assert logged.count("start") == logged.count("end") == 1
        assert log_lines[0]["command"] == command
        assert log_lines[-1]["exit_code"] == done.returncode
        assert len({line["run_id"] for line in log_lines}) == 1
    assert done.returncode == code


def test_groups_are_named() -> None:
    groups = {name for name, command in main.commands.items() if isinstance(command, click.Group)}
    assert groups == set(start.GROUPS)
