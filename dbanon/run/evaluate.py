"""Evaluation inside the run that makes a release: there alone are its pairs."""

from __future__ import annotations

from collections.abc import Callable

from dbanon.data.microdata import Microdata
from dbanon.errors import DbanonError, lacks_memory
from dbanon.release.recode import Release
from dbanon.release.report import Evaluated


def evaluate(microdata: Microdata, release: Release, tick: Callable[[float], None]) -> Evaluated:
    """The figures of a release as it is written, or why there are none.

    A failure of it fails nothing else; what ``tick`` raises does: a cancel, a time limit.

    Parameters
    ----------
    microdata : all records that were read.
    """
    # A backend imports the measures only where they are asked for.
    from dbanon.release.evaluation import evaluation_of, pairs_of

    ended: list[BaseException] = []

    def told(share: float) -> None:
        try:
            tick(share)
        except BaseException as error:
            ended.append(error)
            raise

    try:
        told(0.0)
        pairs = pairs_of(
            microdata, release.partition, release.columns, release.hierarchies, release.measures
        )
        found = evaluation_of(pairs, tick=told).to_dict()
        told(1.0)
    except Exception as error:
        if ended:
            raise ended[0] from None
        return Evaluated(failed=_why(error))
    return Evaluated(found)


def _why(error: Exception) -> str:
    """Of an error of ours its words; the text of another may quote a value."""
    if lacks_memory(error):
        return "there was too little memory for it"
    if isinstance(error, DbanonError):
        return error.message
    return f"it failed unexpectedly ({type(error).__name__}); please report this"
