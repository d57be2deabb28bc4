"""The entry point of ``dbanon``: sets up its log and signal handlers before slow imports.

Importing dbanon takes a few tenths of a second, longer on a busy machine. Even if a signal ends the
command in the meantime, it must log its first and last line and exit with the signal's exit code.
This module therefore imports only a small part of the standard library, and everything else when
needed. No module of a command imports this one.
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

# Signals that end a command with the exit code 128 plus their number, and their name in its log.
_EXIT_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Number of allocations between garbage collections. Imported modules stay in memory anyway, and
# scanning them after every 700 allocations, as by default, takes a tenth of a short command's time.
_GC_THRESHOLD = 100_000
# Command groups. The name of their commands has two words, as in ``budget create``.
GROUPS = ("budget", "chain", "hierarchy")
_PROCESS_ID = os.getpid()
# Set if the running command logs JSON.
_log: EarlyLog | None = None
# The exit code of the command, once it has ended.
_exit_code: int | None = None


def start() -> NoReturn:
    """Run the command line as a program."""
    global _log, _exit_code
    words = sys.argv[1:]
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    # numpy would start a thread for each further core, which takes time at every start. Users can
    # set the variable to get these threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _wants_json(words):
        from dbanon.doors.cli import early_log

        # Stored in its module, too, where the command's ``Log`` finds it and continues it.
        _log = early_log.early_log = early_log.EarlyLog()
    for signal_number in _EXIT_SIGNALS:
        signal.signal(signal_number, _exit_on_signal)
    if _log is not None:
        _write(_log.format_line("info", "start", command=_command_name(words)))
    code = 1
    try:
        from dbanon.doors.cli.main import main

        main(prog_name="dbanon")
    except (ImportError, MemoryError) as error:
        # Click itself may be missing, or a dependency of the command's module.
        if (failure_code := _report_import_failure(error)) is None:
            raise
        code = failure_code
    except SystemExit as end:
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        # From here on ``_exit_on_signal`` exits with this code: a signal during shutdown must not
        # report a published release as interrupted.
        _exit_code = code
    finally:
        if _log is not None and not _log.has_ended:
            # After help or one of dbanon's own errors.
            _write(_log.format_line("error" if code else "info", "end", exit_code=code))
    # The process ends now, so skip the final garbage collection.
    gc.freeze()
    sys.exit(code)


def _exit_on_signal(signal_number: int, frame: object) -> NoReturn:
    """Exit at once: outside of a ``handle_signals`` block there is no run to roll back."""
    code, signal_name = 128 + signal_number, _EXIT_SIGNALS[signal.Signals(signal_number)]
    if os.getpid() != _PROCESS_ID:
        # A child process must not write to the command's log.
        os._exit(code)
    if _exit_code is not None:
        # Flushing may fail, since the signal may have interrupted another flush.
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(_exit_code)
    if _log is None:
        _write(
            f"{signal_name.capitalize()} before any work was started, or after all was finished."
        )
    elif not _log.has_ended:
        _write(_log.format_line("error", "end", code=signal_name, exit_code=code))
    os._exit(code)


def _report_import_failure(error: ImportError | MemoryError) -> int | None:
    """Report a missing extra or a lack of memory. Return the exit code; None for other errors."""
    from dbanon.errors import MemoryLimit, error_for_missing_extra, is_out_of_memory

    # Hints name options as in Python, because the module that writes them as command-line options
    # may be the one that could not be imported.
    reported_error = (
        MemoryLimit.of_process() if is_out_of_memory(error) else error_for_missing_extra(error)
    )
    if reported_error is None:
        return None
    if _log is not None:
        event = _log.format_line(
            "error",
            "error",
            code=reported_error.code,
            message=reported_error.message,
            hint=reported_error.hint,
        )
        _write(event)
    else:
        _write(f"Error [{reported_error.code}]: {reported_error}")
    return reported_error.exit_code


def _write(line: str) -> None:
    """Write a line without buffering: a signal may arrive in the middle of another write."""
    try:
        os.write(2, f"{line}\n".encode())
    except OSError:
        return


def _wants_json(words: list[str]) -> bool:
    """Return True if the command line requests a JSON log; the last ``--log-format`` counts."""
    formats = [value for word, value in pairwise(words) if word == "--log-format"]
    formats += [word.partition("=")[2] for word in words if word.startswith("--log-format=")]
    return formats[-1:] == ["json"]


def _command_name(words: list[str]) -> str:
    """Return the command's name with ``dbanon``, without arguments and options."""
    if words[:1] and words[0] in GROUPS:
        return " ".join(["dbanon", *words[:2]])
    return " ".join(["dbanon", *(word for word in words[:1] if not word.startswith("-"))])
