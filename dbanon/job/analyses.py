"""Analyses that a release is judged by: what its readers will compute, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MEAN, TOTAL, QUANTILES, GINI = "mean", "total", "quantiles", "gini"
TABLE, REGRESSION, CLASSIFY = "table", "regression", "classify"
CORRELATION, RARE = "correlation", "rare"
LINEAR: Final = "linear"
LOGISTIC: Final = "logistic"
RegressionModel = Literal["linear", "logistic"]

DEFAULT_PROBABILITIES = (0.1, 0.25, 0.5, 0.75, 0.9)
DEFAULT_FOLDS = 5
# Categories with a smaller share of the weight are rare.
DEFAULT_RARE_SHARE = 0.01


@dataclass(frozen=True)
class Analysis:
    """One analysis.

    Parameters
    ----------
    kind : ``MEAN``, ``TOTAL``, ``QUANTILES``, ``GINI``, ``CORRELATION``, ``TABLE``, ``RARE``,
        ``REGRESSION`` or ``CLASSIFY``.
    column : the column that is estimated, explained or predicted; None for a table, correlations
        and rare categories.
    by : the columns of groups of a mean or total, of correlations, of a table, or of predictors;
        the one column of rare categories.
    probabilities : those of quantiles.
    model : that of a regression, ``LINEAR`` or ``LOGISTIC``.
    event : for a logistic regression, the value whose probability is explained; None for 1 in a
        column of numbers, and for the second value of a column of two categories.
    folds : for a classifier, the number of parts of the originals that are tested in turn.
    below : a category is rare if its share of the originals is smaller.
    """

    kind: str
    column: str | None = None
    by: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = DEFAULT_PROBABILITIES
    model: RegressionModel = LINEAR
    event: str | None = None
    folds: int = DEFAULT_FOLDS
    below: float = DEFAULT_RARE_SHARE

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the analysis, without the weight."""
        return self.by if self.column is None else (self.column, *self.by)

    @property
    def name(self) -> str:
        """The analysis in words, with the event: for the owner's comparison."""
        event = "" if self.event is None else f" = {self.event}"
        return self._describe(event)

    @property
    def name_without_values(self) -> str:
        """The analysis in words, without the event, which is a value of the data: for errors."""
        return self._describe("")

    def _describe(self, event: str) -> str:
        by = ", ".join(self.by)
        if self.kind == TABLE:
            return f"table of {' by '.join(self.by)}"
        if self.kind == CORRELATION:
            return f"correlation of {by}"
        if self.kind == RARE:
            return f"rare categories of {by}"
        if self.kind == REGRESSION:
            return f"{self.model} regression of {self.column}{event} on {by}"
        if self.kind == CLASSIFY:
            return f"classifier of {self.column} by {by}"
        return f"{self.kind} of {self.column}" + (f" by {by}" if by else "")


@dataclass(frozen=True)
class AnalysisRequest:
    """The analyses to compare.

    Parameters
    ----------
    analyses : one or more.
    weight : the column of design weights; None if each row counts once.
    nominal : columns of numbers that are codes of categories.
    """

    analyses: tuple[Analysis, ...]
    weight: str | None = None
    nominal: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, each once, in the order of the analyses."""
        names = [name for analysis in self.analyses for name in analysis.columns]
        return tuple(dict.fromkeys([*names, *([self.weight] if self.weight else [])]))
