"""The result of comparing analyses: each estimate of a release next to that of its originals."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from dbanon.data.types import JsonObject
from dbanon.data.words import LabelledTextWithHtml

OWNER_NOTE = "computed from the originals: for the owner of the data, not for publication"


@dataclass(frozen=True)
class ComparedEstimate:
    """An estimate from the originals next to the same estimate from the release.

    Parameters
    ----------
    name : the coefficient, group or measure; empty if the analysis has only one estimate.
    original, released : the estimates; None if the rows do not determine one.
    original_error, released_error : their standard errors; None if they have none.
    overlap : how far the confidence intervals of 95 % overlap, 0 to 1; None without errors.
    distance : the distance of two distributions, which has no estimate by table; else None.
    note : why an estimate is missing, or how to read it.
    """

    name: str
    original: float | None
    released: float | None
    original_error: float | None = None
    released_error: float | None = None
    overlap: float | None = None
    distance: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """The released estimate minus the original one; the distance of two distributions."""
        if self.original is None or self.released is None:
            return self.distance
        return self.released - self.original

    @property
    def relative_difference(self) -> float | None:
        """The difference as a share of the original estimate's size; None if that is 0."""
        if self.original is None or self.released is None or not self.original:
            return None
        return (self.released - self.original) / abs(self.original)

    def to_dict(self) -> JsonObject:
        """Return the estimate as JSON values."""
        return {
            **asdict(self),
            "difference": self.difference,
            "relative_difference": self.relative_difference,
        }


@dataclass(frozen=True)
class ComparedAnalysis:
    """An analysis on both tables.

    Parameters
    ----------
    name, kind : the analysis in words, and its kind.
    original_rows, released_rows : the numbers of rows that were used: those without a missing value
        in a column of the analysis, and with a positive weight.
    estimates : in the order of the analysis.
    """

    name: str
    kind: str
    original_rows: int
    released_rows: int
    estimates: tuple[ComparedEstimate, ...]

    def to_dict(self) -> JsonObject:
        """Return the analysis as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "original_rows": self.original_rows,
            "released_rows": self.released_rows,
            "estimates": [estimate.to_dict() for estimate in self.estimates],
        }


@dataclass(frozen=True, repr=False)
class AnalysisComparison(LabelledTextWithHtml):
    """The analyses of readers on a release and on its originals, for the owner of the data.

    Parameters
    ----------
    original_rows, released_rows : the numbers of rows of both tables.
    weight : the column of design weights; None if each row counts once.
    analyses : in the order of the request.
    """

    original_rows: int
    released_rows: int
    weight: str | None
    analyses: tuple[ComparedAnalysis, ...]
    note: str = field(default=OWNER_NOTE, init=False)

    def to_dict(self) -> JsonObject:
        """Return the comparison as JSON values."""
        return {
            "note": self.note,
            "original_rows": self.original_rows,
            "released_rows": self.released_rows,
            "weight": self.weight,
            "analyses": [analysis.to_dict() for analysis in self.analyses],
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Return the comparison as pairs of label and text, for display."""
        display_rows = [("note", self.note), ("rows", self.describe_rows(self))]
        if self.weight is not None:
            display_rows.append(("weight", self.weight))
        for analysis in self.analyses:
            display_rows.append((analysis.name, self.describe_rows(analysis)))
            for estimate in analysis.estimates:
                display_rows.append((f"  {estimate.name}", _describe_estimate(estimate)))
        return display_rows

    @staticmethod
    def describe_rows(counted: AnalysisComparison | ComparedAnalysis) -> str:
        """Describe the numbers of rows of a comparison, or of an analysis."""
        return f"{counted.original_rows:,} original, {counted.released_rows:,} released"

    def table_rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Return analysis, estimate, original, released, difference and overlap as texts."""
        return [
            (
                f"{analysis.name} ({self.describe_rows(analysis)} rows)" if index == 0 else "",
                estimate.name,
                format_estimate(estimate.original),
                format_estimate(estimate.released),
                " ".join(filter(None, [format_difference(estimate), estimate.note])),
                "" if estimate.overlap is None else f"{estimate.overlap:.3f}",
            )
            for analysis in self.analyses
            for index, estimate in enumerate(analysis.estimates)
        ]


def format_estimate(value: float | None) -> str:
    """Format an estimate; None becomes a dash."""
    return "–" if value is None else f"{value:.6g}"


def format_difference(estimate: ComparedEstimate) -> str:
    """Format the difference: in percent of the original, or as a number where that is 0."""
    if estimate.relative_difference is not None:
        return f"{100 * estimate.relative_difference:+.2f} %"
    return "" if estimate.difference is None else f"{estimate.difference:.6g}"


def _describe_estimate(estimate: ComparedEstimate) -> str:
    """Describe an estimate in a line."""
    parts = []
    if estimate.original is not None or estimate.released is not None:
        parts.append(f"{format_estimate(estimate.original)} → {format_estimate(estimate.released)}")
    if difference := format_difference(estimate):
        parts.append(difference)
    if estimate.overlap is not None:
        parts.append(f"overlap {estimate.overlap:.3f}")
    if estimate.note:
        parts.append(estimate.note)
    return ", ".join(parts)
