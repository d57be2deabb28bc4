"""The information loss and the evaluation of a release, as public and as exact figures.

Readers of a release may see public figures. Exact figures reveal extreme records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.release.publication import PublicSums, compute_published_loss
from dbanon.release.recode import ColumnLoss, Release
from dbanon.release.words import describe_attacks, format_figure, to_json_values

if TYPE_CHECKING:
    from dbanon.release.risk_figures import RiskFigures

# The note that accompanies exact figures wherever they appear.
INTERNAL_NOTE = "internal: contains the extremes of the originals"


@dataclass(frozen=True)
class ReleaseLoss:
    """The information loss of a release; 0 means none.

    A report contains the public loss, which the module ``publication`` computes; of public losses,
    ``before_rounding`` equals ``released``. ``OperatorFigures`` contains the exact loss. If classes
    are released as means, the loss is at most 1. With rounded means, medians and medoids it can be
    larger.

    Parameters
    ----------
    released : the loss over all columns of the values as released, that is, after rounding.
    before_rounding : the same for the values before they were rounded to the columns' types.
    columns : the loss by column.
    measure : ``sse``, ``gower`` or ``iloss``, as in ``Release``.
    levels : with full-domain generalization, the level of each quasi-identifier; otherwise None.
    lost_columns : the quasi-identifiers released as one label in every row.
    """

    released: float
    before_rounding: float
    columns: Mapping[str, ColumnLoss]
    measure: str
    levels: Mapping[str, int] | None = None
    lost_columns: tuple[str, ...] = ()


def build_losses(
    release: Release, levels: Mapping[str, int] | None, lost_columns: tuple[str, ...]
) -> tuple[ReleaseLoss, ReleaseLoss]:
    """Return the information loss of a release, first the public and then the exact one."""
    names, measure = [column.name for column in release.losses], release.measure
    exact = ReleaseLoss(
        released=release.loss,
        before_rounding=release.loss_before_rounding,
        columns=dict(zip(names, release.losses, strict=True)),
        measure=measure,
        levels=levels,
        lost_columns=lost_columns,
    )
    return public_loss(names, release.public_sums, exact), exact


def public_loss(
    names: Sequence[str], sums: Sequence[PublicSums], exact: ReleaseLoss
) -> ReleaseLoss:
    """Convert an exact loss to the public one.

    Parameters
    ----------
    names : names of the measured columns.
    sums : the public sums of each of these columns.
    """
    loss = compute_published_loss(sums, exact.measure)
    columns = {
        name: ColumnLoss(name, before_rounding=value, released=value)
        for name, value in zip(names, loss.columns.tolist(), strict=True)
    }
    return replace(exact, released=loss.total, before_rounding=loss.total, columns=columns)


@dataclass(frozen=True)
class EvaluationOutcome:
    """The evaluation of a release, if it was requested.

    Parameters
    ----------
    figures : ``Evaluation.to_dict()``; None if there was no evaluation, or it failed.
    failed : why it failed, as text without values; None if it did not fail.
    """

    figures: JsonMapping | None = None
    failed: str | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of label and text for display, without figures that are None."""
        if self.failed is not None:
            return [("NOT EVALUATED", self.failed)]
        if self.figures is None:
            return []
        pairs = [("evaluation", "see dbanon evaluate, and docs/evaluation.md for what each says")]
        for kind in ("losses", "risks"):
            pairs += [
                (f"  {name}", format_figure(value, self.figures["notes"].get(name, "")))
                for name, value in self.figures[kind].items()
                if value is not None
            ]
        return pairs + describe_attacks(self.figures)


class OperatorFigures:
    """Exact figures of a run, which reveal extreme records: for its operator, not for readers.

    Becomes None when pickled, deep-copied or passed to ``dataclasses.asdict``.

    Parameters
    ----------
    loss : the exact loss.
    evaluation : the exact ``Evaluation.to_dict()``; None if it was not requested or failed.
    certificate : the exact certificate of the loss; None without one.
    suppression : counts of suppressed cells; None if the method suppresses none.
    levels : figures about a search for levels that ended early; None if there was none.
    risk : the disclosure risk before and after, as its extension measured it; None if the job does
        not measure it. No ledger stores it.
    weighting : figures about records that count by their design weights, as
        ``release.weights.describe_weighting`` returns them; None without weights.
    """

    def __init__(
        self,
        loss: ReleaseLoss,
        evaluation: JsonMapping | None = None,
        certificate: JsonMapping | None = None,
        suppression: JsonMapping | None = None,
        levels: JsonMapping | None = None,
        risk: RiskFigures | None = None,
        weighting: JsonMapping | None = None,
    ) -> None:
        self.loss = loss
        self.evaluation = evaluation
        self.certificate = certificate
        self.suppression = suppression
        self.levels = levels
        self.risk = risk
        self.weighting = weighting

    @property
    def information_loss(self) -> float:
        """The exact value of ``Report.information_loss``."""
        return self.loss.released

    @property
    def information_loss_before_rounding(self) -> float:
        """The exact value of ``Report.information_loss_before_rounding``."""
        return self.loss.before_rounding

    @property
    def column_losses(self) -> Mapping[str, ColumnLoss]:
        """The exact value of ``Report.column_losses``."""
        return self.loss.columns

    def to_ledger(self) -> JsonObject:
        """Return the figures as JSON values, for the ledger table that readers cannot access."""
        figures: JsonObject = {
            "note": INTERNAL_NOTE,
            "information_loss": self.information_loss,
            "information_loss_before_rounding": self.information_loss_before_rounding,
            "column_losses": {
                name: {"released": loss.released, "before_rounding": loss.before_rounding}
                for name, loss in self.column_losses.items()
            },
            "evaluation": None if self.evaluation is None else to_json_values(self.evaluation),
            "certificate": None if self.certificate is None else to_json_values(self.certificate),
            # Only methods that suppress cells have these counts.
            **({} if self.suppression is None else {"suppression": dict(self.suppression)}),
            # Only searches for levels that ended early have these figures.
            **({} if self.levels is None else {"levels": dict(self.levels)}),
        }
        # Only releases with design weights have this key.
        if self.weighting is not None:
            figures["weighting"] = dict(self.weighting)
        return figures

    def __repr__(self) -> str:
        return f"<{INTERNAL_NOTE}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _return_none, ()


def _return_none() -> None:
    return None
