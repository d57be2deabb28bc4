"""Check that the compiled kernels match the sources in this directory.

An editable install uses current Python files but the kernels of the last compilation, so both may
differ after an update. Wheels contain no sources, so there is nothing to check.

CMake runs this file for the checksum that it compiles in, so it uses only the standard library.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

_SUFFIXES = (".cpp", ".hpp")


def stamp(directory: str) -> str | None:
    """A checksum of the names and contents of the sources; None if one cannot be read.

    It covers the sources in all subfolders, the build file and this file.
    """
    checksum = 0
    try:
        names = sorted(_sources(directory, ""))
        if not names:
            return None
        for name in [*names, "CMakeLists.txt", "sources.py"]:
            with open(os.path.join(directory, *name.split("/")), "rb", buffering=0) as file:
                text = file.read()
            checksum = zlib.crc32(f"{name} {len(text)}\n".encode() + text, checksum)
    except OSError:
        return None
    return f"{checksum:08x}"


def _sources(directory: str, folder: str) -> Iterator[str]:
    """Names of the sources in a directory and below, as `folder/name` on all systems."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, f"{folder}{entry.name}/")
            elif entry.name.endswith(_SUFFIXES):
                yield folder + entry.name


def require_current(compiled: Any, directory: str) -> None:
    """Refuse kernels that were compiled from sources other than those in a directory, if any.

    Raises
    ------
    ImportError : the kernels are outdated; the message says what to run.
    """
    expected = stamp(directory)
    if expected is not None and getattr(compiled, "SOURCES", None) != expected:
        raise ImportError(
            "The compiled core of dbanon is older than its sources, or of another version: run"
            f" `make setup` in {os.path.dirname(os.path.dirname(os.path.abspath(directory)))}."
        )


if __name__ == "__main__":
    with open(sys.argv[2], "w") as file:
        file.write(f'extern const char* const dbanon_sources = "{stamp(sys.argv[1])}";\n')
