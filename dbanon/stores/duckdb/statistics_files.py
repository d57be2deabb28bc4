"""Files of SPSS, Stata and SAS as Parquet in memory.

Another process converts them, see ``statistics_conversion``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import BinaryIO

from dbanon.data.types import JsonObject
from dbanon.errors import DatabaseFailure, FileMalformed, InvalidParameter, MissingDependency
from dbanon.stores.duckdb.file_formats import TooLarge

# As ``statistics_conversion.CODES_KEY``, whose module needs pyreadstat.
_CODES_KEY = b"dbanon_codes"
# The number of cells that the process reads at a time.
_CELLS_PER_READ = 5_000_000
# The signals that end a process which misuses memory, as the reader may on a broken file.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


@contextmanager
def open_as_parquet(
    file: BinaryIO, name: str, memory_bytes: int | None = None, *, reads_labels: bool = True
) -> Iterator[BinaryIO]:
    """Yield the rows of a file as Parquet in memory.

    Parameters
    ----------
    name : the file name, whose ending determines the format; used in messages, too.
    memory_bytes : the memory limit; None for no limit.
    reads_labels : True to replace the values of a column by their labels, if all have one.

    Raises
    ------
    TooLarge : the rows need more memory.
    FileMalformed : the contents do not match the name.
    DatabaseFailure : the process that converts the file could not do its work.
    InvalidParameter : this system has no memory files.
    MissingDependency : the package that reads the format is not installed.
    """
    if sys.platform != "linux":
        raise InvalidParameter(
            "Files of SPSS, Stata and SAS cannot be read on this system.",
            hint="Write the file as .csv or .parquet.",
        )
    if find_spec("pyreadstat") is None:
        raise MissingDependency.of_extra("SPSS, Stata and SAS", "pyreadstat", "statistics")
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        outcome = _convert(
            file.fileno(),
            memory_file.fileno(),
            ending=PurePosixPath(name.lower()).suffix,
            memory_bytes=memory_bytes,
            reads_labels=reads_labels,
            cells_per_read=_CELLS_PER_READ,
        )
        if "needed_bytes" in outcome:
            raise TooLarge(outcome["needed_bytes"])
        if "malformed" in outcome:
            raise FileMalformed(
                f"The file {name} is not of the kind that its name says.",
                detail=outcome["malformed"],
                hint="It may be truncated: write it again, with text in UTF-8.",
            )
        yield memory_file


def read_label_codes(file: BinaryIO) -> dict[str, dict[str, int]]:
    """Return the number of each label that replaced it, by column of a file in memory.

    Parameters
    ----------
    file : a file that ``open_as_parquet`` yielded.
    """
    from pyarrow import parquet

    metadata = parquet.read_schema(f"/dev/fd/{file.fileno()}").metadata or {}
    codes: dict[str, dict[str, int]] = json.loads(metadata.get(_CODES_KEY, b"{}"))
    return codes


def _convert(source: int, target: int, **arguments: object) -> JsonObject:
    """Run ``statistics_conversion.convert`` in another process; returns what it returns.

    If the file is broken, the result has ``malformed`` instead: the class of an error, or the
    signal of a crash.

    Raises
    ------
    DatabaseFailure : the process ended for another reason, such as a lack of memory.
    """
    process = subprocess.run(
        # -P: no module of the working directory is imported in place of another.
        [
            *(sys.executable, "-P", "-m", "dbanon.stores.duckdb.statistics_conversion"),
            json.dumps({"source": source, "target": target, **arguments}),
        ],
        pass_fds=(source, target),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # A traceback may quote the file.
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if -process.returncode in _CRASHES:
        return {"malformed": signal.Signals(-process.returncode).name}
    if process.returncode:
        raise DatabaseFailure(
            "The process that reads a file of SPSS, Stata or SAS ended before it was done.",
            detail=f"exit status {process.returncode}",
            hint="Free memory on this machine, and run it again; or write the file as .csv.",
        )
    outcome: JsonObject = json.loads(process.stdout)
    return outcome
