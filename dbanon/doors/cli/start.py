"""The entry point of ``dbanon``: sets up its log and signal handlers before slow imports.

Importing dbanon takes some tenths of a second, more on a busy machine. A command that is ended
meanwhile still logs its first and last line, and exits with the code of the signal. This module
therefore imports only a small part of the standard library, and everything else when needed. No
module of a command imports this one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from dbanon.doors.cli.early_log import EarlyLog

# Signals that end a command with 128 plus their number, and the code in its log.
_ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Allocations before a garbage collection. Imported modules stay in memory anyway, and scanning them
# every 700 allocations, Python's default, takes a tenth of a short command's time.
_UNCOLLECTED = 100_000
# Groups, whose commands have a second word.
GROUPS = ("budget", "chain", "hierarchy")
_PROCESS = os.getpid()
# Set if the running command logs JSON.
_log: EarlyLog | None = None
# The exit code of the command, once it has ended.
_ended: int | None = None


def start() -> NoReturn:
    """Run the command line as a program."""
    global _log, _ended
    words = sys.argv[1:]
    gc.set_threshold(_UNCOLLECTED, *gc.get_threshold()[1:])
    if _for_machines(words):
        from dbanon.doors.cli import early_log

        _log = early_log.early_log = early_log.EarlyLog()
    for number in _ENDS:
        signal.signal(number, _end)
    if _log is not None:
        _write(_log.line("info", "start", command=_command(words)))
    code = 1
    try:
        from dbanon.doors.cli.main import main

        main(prog_name="dbanon")
    except (ImportError, MemoryError) as error:
        # Click itself may be missing, or a dependency of the command's module.
        if (refused := _not_loaded(error)) is None:
            raise
        code = refused
    except SystemExit as end:
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        # Do not report a published release as interrupted during shutdown.
        _ended = code
    finally:
        if _log is not None and not _log.ended:
            # After help or one of dbanon's own errors.
            _write(_log.line("error" if code else "info", "end", exit_code=code))
    # The process ends now, so skip the final garbage collection.
    gc.freeze()
    sys.exit(code)


def _end(number: int, frame: object) -> NoReturn:
    """Exit at once. Outside of the ``signals`` block no run has started, so none is rolled back."""
    code, name = 128 + number, _ENDS[signal.Signals(number)]
    if os.getpid() != _PROCESS:
        # A child process must not write to the command's log.
        os._exit(code)
    if _ended is not None:
        # Flushing may fail, since the signal may have interrupted another flush.
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(_ended)
    if _log is None:
        _write(f"{name.capitalize()} before anything was begun, or after all was done.")
    elif not _log.ended:
        _write(_log.line("error", "end", name, exit_code=code))
    os._exit(code)


def _not_loaded(error: ImportError | MemoryError) -> int | None:
    """Report a missing extra or a lack of memory. Return the exit code; None for other errors."""
    from dbanon.errors import MemoryLimit, error_for_missing_extra, is_out_of_memory

    # Hints name Python's options: the module with the command line's may have failed to import.
    explained = (
        MemoryLimit.of_process() if is_out_of_memory(error) else error_for_missing_extra(error)
    )
    if explained is None:
        return None
    if _log is not None:
        event = _log.line(
            "error", "error", explained.code, message=explained.message, hint=explained.hint
        )
        _write(event)
    else:
        _write(f"Error [{explained.code}]: {explained}")
    return explained.exit_code


def _write(line: str) -> None:
    """Write a line without buffering: a signal may arrive in the middle of another write."""
    try:
        os.write(2, f"{line}\n".encode())
    except OSError:
        return


def _for_machines(words: list[str]) -> bool:
    formats = [b for a, b in pairwise(words) if a == "--log-format"]
    formats += [word.partition("=")[2] for word in words if word.startswith("--log-format=")]
    return formats[-1:] == ["json"]


def _command(words: list[str]) -> str:
    if words[:1] and words[0] in GROUPS:
        return " ".join(["dbanon", *words[:2]])
    return " ".join(["dbanon", *(word for word in words[:1] if not word.startswith("-"))])
