"""The report of a released data frame, which keeps the original and the released rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dbanon.data.frozen import dataclass
from dbanon.errors import RowsNotAligned
from dbanon.errors.extras import name_missing_extras
from dbanon.release.report import Report

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd
    from numpy.typing import ArrayLike

    from dbanon.data.partition import Partition
    from dbanon.hierarchy.spec import HierarchySource
    from dbanon.release.alignment import Alignment
    from dbanon.release.distribution import Distribution
    from dbanon.release.evaluation import Evaluation

    class EvaluationOptions(TypedDict, total=False):
        """Options of ``dbanon.evaluate``, except those that the report supplies."""

        classes: Partition | ArrayLike | None
        hierarchies: Mapping[str, HierarchySource] | None
        # Weights of the losses in IL_s, of the risks in DR, and of loss and risk in the score.
        lambdas: Sequence[float]
        taus: Sequence[float]
        gammas: Sequence[float]
        interval_percents: Iterable[float]
        sample: int | None
        seed: int
        risk: Mapping[str, object] | None


@dataclass(frozen=True, eq=False, repr=False)
class FrameReport(Report):
    """A ``Report`` whose ``alignment`` holds the released frame and the original of each row.

    The alignment stays in memory: copies, pickles and printed forms of the report do not have it.
    """

    @classmethod
    def of(cls, report: Report, alignment: Alignment) -> FrameReport:
        """Add the alignment of released and original rows to a report."""
        frame_report = cls(**{field.name: getattr(report, field.name) for field in fields(report)})
        object.__setattr__(frame_report, "alignment", alignment)
        return frame_report

    def evaluate(
        self, original: ArrayLike | pd.DataFrame, **options: Unpack[EvaluationOptions]
    ) -> Evaluation:
        """Measure the release's loss and remaining risk, as ``dbanon.evaluate`` does.

        Parameters
        ----------
        original : the table that was anonymized, unchanged since then.
        options : options of ``dbanon.evaluate``; ``hierarchies`` defaults to the release's.

        Raises
        ------
        RowsNotAligned : the report is a copy, or a frame has changed since the run.
        DbanonError : as ``dbanon.evaluate``.
        """
        from dbanon.doors.evaluate import evaluate

        alignment = self.alignment
        if alignment is None:
            raise RowsNotAligned(
                "This report does not record which released row came from which original. Only the"
                " report object returned by anonymize_frame does; copies do not.",
                hint="Call dbanon.evaluate with both frames, and name a `key` of both.",
            )
        default_options: EvaluationOptions = {"hierarchies": alignment.hierarchies}
        return evaluate(original, alignment.released, report=self, **(default_options | options))

    @name_missing_extras()
    def page(self, path: str | Path | None = None) -> str:
        """Render the report as an HTML page, as ``dbanon report`` does; see docs/report.md.

        Parameters
        ----------
        path : a file to write, readable only by its owner; None to write no file.

        Raises
        ------
        OSError : the file cannot be written.
        """
        from dbanon.doors.html.page import render_page, write_private_file

        # How often the released values of each column occur, for the page's pictures.
        column_distributions: tuple[Distribution, ...] = ()
        if self.alignment is not None:
            from dbanon.stores.frame.distribution import distributions

            column_distributions = distributions(self.alignment.released, self)
        text = render_page(self, distributions=column_distributions)
        if path is not None:
            write_private_file(text, Path(path))
        return text
