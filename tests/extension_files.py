"""The server's extension directory, which all servers and test runs on a machine share."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres.tools import NoServerError, find_server_binaries
from tests.prerequisites import skip_optional, skip_or_fail


@contextmanager
def extension_folder() -> Iterator[Path]:
    """The directory, locked for one test across all processes, without dbanon's files.

    Skips if the directory is not writable, or has files that no test wrote.
    """
    with _locked_folder() as folder:
        yield folder


@contextmanager
def _locked_folder() -> Iterator[Path]:
    try:
        # For the tests' server: the pg_config on PATH may belong to another one.
        command = [str(find_server_binaries() / "pg_config"), "--sharedir"]
        shared = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        folder = Path(shared) / "extension"
        lock = os.open(folder, os.O_RDONLY)
    except (OSError, NoServerError, subprocess.CalledProcessError):
        skip_or_fail("no PostgreSQL server whose directory of extensions is known")
    try:
        # Lock the directory itself: the lock ends with the process and leaves no file.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if list(folder.glob("dbanon*")):
            skip_optional("dbanon's extension files are there already")
        if not os.access(folder, os.W_OK):
            skip_optional("the server's directory of extensions cannot be written")
        try:
            yield folder
        finally:
            for file in folder.glob("dbanon*"):
                file.unlink()
    finally:
        os.close(lock)
