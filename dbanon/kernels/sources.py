"""Whether the compiled kernels are those of the sources that lie here.

An editable install reads Python where it lies, but the kernels as they were compiled last: after an
update both may be of different versions. A wheel carries no sources, and there is nothing to ask.

CMake runs this file for the stamp that it compiles in, so only the standard library is used.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

_SUFFIXES = (".cpp", ".hpp")


def stamp(directory: str) -> str | None:
    """A checksum of the names and contents of the sources; None where one cannot be read.

    Sources of all folders below count, and the build's own file and this one: they decide what is
    compiled.
    """
    found = 0
    try:
        names = sorted(_sources(directory, ""))
        if not names:
            return None
        for name in [*names, "CMakeLists.txt", "sources.py"]:
            with open(os.path.join(directory, *name.split("/")), "rb", buffering=0) as file:
                text = file.read()
            found = zlib.crc32(f"{name} {len(text)}\n".encode() + text, found)
    except OSError:
        return None
    return f"{found:08x}"


def _sources(directory: str, folder: str) -> Iterator[str]:
    """Names of the sources in a directory and below, as `folder/name` everywhere."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, f"{folder}{entry.name}/")
            elif entry.name.endswith(_SUFFIXES):
                yield folder + entry.name


def require_current(compiled: Any, directory: str) -> None:
    """Refuse kernels that were compiled from other sources than those in a directory, if any.

    Raises
    ------
    ImportError : they were; the message says what to run.
    """
    wanted = stamp(directory)
    if wanted is not None and getattr(compiled, "SOURCES", None) != wanted:
        raise ImportError(
            "The compiled core of dbanon is older than its sources, or of another version: run"
            f" `make setup` in {os.path.dirname(os.path.dirname(os.path.abspath(directory)))}."
        )


if __name__ == "__main__":
    with open(sys.argv[2], "w") as file:
        file.write(f'extern const char* const dbanon_sources = "{stamp(sys.argv[1])}";\n')
