"""The server's directory of extensions, which all servers and test runs of a machine share."""

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
    """The directory for one test at a time, however many processes run tests; emptied of dbanon.

    Skips where it cannot be written, or has files that no test wrote.
    """
    with _locked_folder() as folder:
        yield folder


@contextmanager
def _locked_folder() -> Iterator[Path]:
    try:
        # Of the tests' server: the pg_config on PATH may be another one's.
        command = [str(find_server_binaries() / "pg_config"), "--sharedir"]
        shared = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        folder = Path(shared) / "extension"
        lock = os.open(folder, os.O_RDONLY)
    except (OSError, NoServerError, subprocess.CalledProcessError):
        skip_or_fail("no PostgreSQL server whose directory of extensions is known")
    try:
        # On the directory itself: it ends with the process, and leaves no file.
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
