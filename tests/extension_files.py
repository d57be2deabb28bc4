"""The server's directory of extensions, which all servers and test runs of a machine share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbanon.doors import extension
from dbanon.errors import InstallRefused


@contextmanager
def extension_folder() -> Iterator[Path]:
    """The directory for one test at a time, however many processes run tests; emptied of dbanon.

    Skips where it cannot be written, or has files that no test wrote.
    """
    try:
        folder = extension.extension_directory()
        lock = os.open(folder, os.O_RDONLY)
    except (OSError, InstallRefused):
        pytest.skip("the server's directory of extensions is not known")
    try:
        # On the directory itself: it ends with the process, and leaves no file.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if list(folder.glob("dbanon*")):
            pytest.skip("dbanon's extension files are there already")
        if not os.access(folder, os.W_OK):
            pytest.skip("the server's directory of extensions cannot be written")
        try:
            yield folder
        finally:
            for file in folder.glob("dbanon*"):
                file.unlink()
    finally:
        os.close(lock)
