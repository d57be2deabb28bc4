"""The report of a released data frame: with both tables in this process it can say more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from dbanon.data.frozen import dataclass
from dbanon.errors import RowsNotAligned
from dbanon.errors.extras import extras_told
from dbanon.release.report import Report

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import ArrayLike

    from dbanon.data.partition import Partition
    from dbanon.hierarchy.spec import HierarchySource
    from dbanon.release.alignment import Alignment
    from dbanon.release.distribution import Distribution
    from dbanon.release.evaluation import Evaluation

    class EvaluationOptions(TypedDict, total=False):
        """What else ``dbanon.evaluate`` takes."""

        classes: Partition | ArrayLike | None
        hierarchies: Mapping[str, HierarchySource] | None
        lambdas: Sequence[float]
        taus: Sequence[float]
        gammas: Sequence[float]
        interval_percents: Iterable[float]
        sample: int | None
        seed: int


@dataclass(frozen=True, eq=False, repr=False)
class FrameReport(Report):
    """A ``Report`` that knows, in memory alone, the frame that it is of, and whose rows are which.

    No copy, pickle or text of it knows that.
    """

    @classmethod
    def of(cls, report: Report, alignment: Alignment) -> FrameReport:
        """The report of a frame, with what pairs its rows with their originals."""
        made = cls(**{one.name: getattr(report, one.name) for one in fields(report)})
        object.__setattr__(made, "alignment", alignment)
        return made

    def evaluate(self, original: Any, **options: Unpack[EvaluationOptions]) -> Evaluation:
        """What the release lost and what it still risks: ``dbanon.evaluate`` in one call.

        Parameters
        ----------
        original : the table that was anonymized, as it was.
        options : of ``dbanon.evaluate``; hierarchies are those of the release unless told.

        Raises
        ------
        RowsNotAligned : this is a copy of the report, or a frame is not as it was in the run.
        DbanonError : what ``dbanon.evaluate`` raises.
        """
        from dbanon.doors.evaluate import evaluate

        known = self.alignment
        if known is None:
            raise RowsNotAligned(
                "This report does not know which row became which. Only the report that"
                " anonymize_frame returned knows it, not a copy.",
                hint="Call dbanon.evaluate with both frames, and name a `key` of both.",
            )
        trees: Any = {"hierarchies": known.hierarchies}
        return evaluate(original, known.released, report=self, **(trees | options))

    @extras_told()
    def page(self, path: str | Path | None = None) -> str:
        """The report as an HTML page, as ``dbanon report`` has it; see docs/report.md.

        Parameters
        ----------
        path : a file to write, that only its owner may read; None for none.

        Raises
        ------
        OSError : the file cannot be written.
        """
        from dbanon.doors.html.page import page, write

        drawn: tuple[Distribution, ...] = ()
        if self.alignment is not None:
            from dbanon.stores.frame.distribution import distributions

            drawn = distributions(self.alignment.released, self)
        text = page(self, distributions=drawn)
        if path is not None:
            write(text, Path(path))
        return text
