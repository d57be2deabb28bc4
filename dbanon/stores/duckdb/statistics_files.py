"""Files of SPSS, Stata and SAS as Parquet in memory.

Another process converts them, see ``statistics_conversion``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import BinaryIO

from dbanon.data.types import JsonObject
from dbanon.errors import FileMalformed, InvalidParameter, MissingDependency
from dbanon.stores.duckdb.file_formats import TooLarge

# The number of cells that the process reads at a time.
_CELLS_PER_READ = 5_000_000


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


def _convert(source: int, target: int, **arguments: object) -> JsonObject:
    """Run ``statistics_conversion.convert`` in another process; returns what it returns.

    If the process ends with an error or a crash, the result says ``malformed``.
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
    if process.returncode:
        return {"malformed": f"the reader ended with {process.returncode}"}
    outcome: JsonObject = json.loads(process.stdout)
    return outcome
