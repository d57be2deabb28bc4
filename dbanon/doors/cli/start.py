"""Where the command ``dbanon`` begins: its log and its signals come before what takes time to load.

Loading takes some tenths of a second, more on a busy machine. Whoever ends a command meanwhile
finds a log with its first and its last line, and the exit code of a signal. Only the standard
library is imported here, and little of it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import uuid
from contextlib import suppress
from datetime import datetime, timezone
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn

INTERRUPTED, TERMINATED = 130, 143
_ENDS = {
    signal.SIGINT: (INTERRUPTED, "interrupted"),
    signal.SIGTERM: (TERMINATED, "terminated"),
}
# Objects that a command makes before cycles are looked for among them. What it loads stays: looking
# through that every 700 objects, as Python does, is a tenth of a short command's time.
_UNCOLLECTED = 100_000
# Their commands have a second word.
GROUPS = ("budget", "chain", "hierarchy")


class Opening:
    """What was said of a command before it was loaded.

    Parameters
    ----------
    run_id : of the command.
    started : of the monotonic clock, in seconds.
    """

    def __init__(self) -> None:
        self.run_id, self.started, self.ended = str(uuid.uuid4()), time.monotonic(), False

    def line(self, level: str, event: str, code: str | None = None, **more: Any) -> str:
        """One object of the log."""
        return json.dumps(
            {
                "ts": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "level": level,
                "event": event,
                "run_id": self.run_id,
                "release_id": None,
                "phase": None,
                "seconds": round(time.monotonic() - self.started, 3),
                "code": code,
            }
            | more
        )


_PROCESS = os.getpid()
# Of the command that runs, where its log is for machines.
opening: Opening | None = None
# The exit code of the command, once it is over.
_ended: int | None = None


def start() -> NoReturn:
    """Run the command line as a program."""
    global opening, _ended
    words = sys.argv[1:]
    gc.set_threshold(_UNCOLLECTED, *gc.get_threshold()[1:])
    for number in _ENDS:
        signal.signal(number, _end)
    if _for_machines(words):
        opening = Opening()
        _write(opening.line("info", "start", command=_command(words)))
    code = 1
    try:
        # By its name: what is loaded then looks at what was said here.
        import_module("dbanon.doors.cli.main").main(prog_name="dbanon")
    except (ImportError, MemoryError) as error:
        # Of click itself, or of what the command's own module needs.
        if (refused := _not_loaded(error)) is None:
            raise
        code = refused
    except SystemExit as end:
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        # What was published is not told as interrupted while Python takes itself down.
        _ended = code
    finally:
        if opening is not None and not opening.ended:
            # Help, or an error of ours.
            _write(opening.line("error" if code else "info", "end", exit_code=code))
    # All goes with the process: Python need not look for cycles once more.
    gc.freeze()
    sys.exit(code)


def _end(number: int, frame: object) -> NoReturn:
    """End at once: outside of the block that says how a run is rolled back, nothing was begun."""
    code, name = _ENDS[signal.Signals(number)]
    if os.getpid() != _PROCESS:
        # One that the command started says nothing for it.
        os._exit(code)
    if _ended is not None:
        # What is printed is flushed at once; the signal may have come in the middle of that.
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(_ended)
    if opening is None:
        _write(f"{name.capitalize()} before anything was begun, or after all was done.")
    elif not opening.ended:
        _write(opening.line("error", "end", name, exit_code=code))
    os._exit(code)


def _not_loaded(error: ImportError | MemoryError) -> int | None:
    """Say which extra brings a package, or that memory is short; the exit code.

    None for what is neither.
    """
    from dbanon.errors import MemoryLimit, lacks_memory, missing_extra

    # A hint names options as Python does: what knows the command line's may be what failed.
    told = MemoryLimit.of_process() if lacks_memory(error) else missing_extra(error)
    if told is None:
        return None
    if opening is not None:
        event = opening.line("error", "error", told.code, message=told.message, hint=told.hint)
        _write(event)
    else:
        _write(f"Error [{told.code}]: {told}")
    return told.exit_code


def _write(line: str) -> None:
    """Write a line past all buffers: a signal may arrive in the middle of another write."""
    try:
        os.write(2, f"{line}\n".encode())
    except OSError:
        return


def _for_machines(words: list[str]) -> bool:
    asked = [b for a, b in pairwise(words) if a == "--log-format"]
    asked += [word.partition("=")[2] for word in words if word.startswith("--log-format=")]
    return asked[-1:] == ["json"]


def _command(words: list[str]) -> str:
    if words[:1] and words[0] in GROUPS:
        return " ".join(["dbanon", *words[:2]])
    return " ".join(["dbanon", *(word for word in words[:1] if not word.startswith("-"))])
