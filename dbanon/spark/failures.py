"""Errors that cross to the driver where no row can carry them: from reading, writing, and Spark.

A worker's traceback stands in the logs of driver and executors, with the message of what was
raised. So what leaves a function that runs on a worker is a ``_Told``, whose message is JSON of
what ``told.Failed`` tells of an error.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from dbanon.errors import DbanonError, SparkFailed, WorkersDiffer
from dbanon.spark.task_results import Failed

_MARK = "dbanon-told:"
_FOUND = re.compile(re.escape(_MARK) + r"(\{.*?\}):end")


class _Told(Exception):
    """What a worker tells of an error."""


@contextmanager
def telling(where: str) -> Iterator[None]:
    """On a worker: let an error leave the block as words without values.

    Parameters
    ----------
    where : what is worked on, in words: ``Piece 3 of the source``.
    """
    try:
        yield
    except Exception as error:
        words = json.dumps(asdict(Failed.of(error, where)), separators=(",", ":"))
        raise _Told(f"{_MARK}{words}:end") from None


@contextmanager
def translated(what: str) -> Iterator[None]:
    """On the driver: raise what Spark raises as an error of ours, with none of Spark's own words.

    Parameters
    ----------
    what : the step, in words.

    Raises
    ------
    DbanonError : what a worker told; SparkFailed for anything else of Spark's.
    """
    try:
        with warnings.catch_warnings():
            # Of pandas nothing is used: what passes between Java and Python is Arrow's.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
            yield
    except Exception as error:
        kind = type(error)
        if kind.__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise translation(error, what) from None


def translation(error: BaseException, what: str) -> DbanonError:
    """The error of ours for one of Spark's."""
    text = str(error)
    found = _FOUND.search(text)
    if found is not None:
        try:
            # Java may have written it once more as text.
            return Failed(**json.loads(found[1])).raised()
        except (TypeError, ValueError):
            pass
    if "No module named 'dbanon" in text or "PYTHON_VERSION_MISMATCH" in text:
        return WorkersDiffer(
            "The workers' Python has another version, or no dbanon.",
            hint="Install the driver's dbanon, numpy and pyarrow on each worker, or ship them:"
            " docs/scale-out.md#workers.",
        )
    if "Cannot run program" in text:
        return WorkersDiffer(
            "A worker has no Python of the name that this driver gives it.",
            hint="Set PYSPARK_PYTHON to the path that it has on the workers:"
            " docs/scale-out.md#workers.",
        )
    return SparkFailed(f"Spark failed: {what}; nothing was published.", detail=type(error).__name__)
