"""Outcome: what a release lost and still risks, as readers may see it, and exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.release.publication import PublicSums, published
from dbanon.release.recode import ColumnLoss, Release
from dbanon.release.words import attack_pairs, plain, told_figure

# What stands beside exact figures wherever they are shown.
INTERNAL = "internal: contains the extremes of the originals"


@dataclass(frozen=True)
class Lost:
    """What was lost: 0 is nothing.

    Of a report as readers may see it, by ``publication``: ``before_rounding`` is ``released`` then.
    Of ``Internal`` exactly; means lose 1 at most, rounded ones, medians and medoids can lose more.

    Parameters
    ----------
    released, before_rounding : over all columns, as in ``Release``.
    columns : by column.
    measure : ``sse`` or ``iloss``, as in ``Release``.
    levels : of a full domain, by quasi-identifier; None where there are none.
    completely : the quasi-identifiers of which nothing is left.
    """

    released: float
    before_rounding: float
    columns: Mapping[str, ColumnLoss]
    measure: str
    levels: Mapping[str, int] | None = None
    completely: tuple[str, ...] = ()


def losses_of(
    release: Release, levels: Mapping[str, int] | None, completely: tuple[str, ...]
) -> tuple[Lost, Lost]:
    """What a release lost, as readers may see it, and exactly."""
    names, measure = [column.name for column in release.losses], release.measure
    exact = Lost(
        release.loss,
        release.loss_before_rounding,
        dict(zip(names, release.losses, strict=True)),
        measure,
        levels,
        completely,
    )
    return public_loss(names, release.public, exact), exact


def public_loss(names: Sequence[str], sums: Sequence[PublicSums], exact: Lost) -> Lost:
    """What readers may see of a loss.

    Parameters
    ----------
    names : of the measured columns, one each of ``sums``.
    """
    loss = published(sums, exact.measure)
    columns = {
        name: ColumnLoss(name, value, value)
        for name, value in zip(names, loss.columns.tolist(), strict=True)
    }
    return replace(exact, released=loss.total, before_rounding=loss.total, columns=columns)


@dataclass(frozen=True)
class Evaluated:
    """What the release was found to be worth, where that was asked for.

    Parameters
    ----------
    figures : as ``Evaluation.to_dict()``; None where nobody asked, or it failed.
    failed : why it failed, in words without values; None where it did not.
    """

    figures: Mapping[str, Any] | None = None
    failed: str | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Pairs of label and text, for people; of figures that have a meaning here."""
        if self.failed is not None:
            return [("NOT EVALUATED", self.failed)]
        if self.figures is None:
            return []
        pairs = [("evaluation", "see dbanon evaluate, and docs/evaluation.md for what each says")]
        for kind in ("losses", "risks"):
            pairs += [
                (f"  {name}", told_figure(value, self.figures["notes"].get(name, "")))
                for name, value in self.figures[kind].items()
                if value is not None
            ]
        return pairs + attack_pairs(self.figures)


class Internal:
    """Exact figures of a run. They tell its extreme records: for whoever ran it, not for readers.

    Pickled and copied deeply it is None, and so in ``dataclasses.asdict``.

    Parameters
    ----------
    loss : what was lost, exactly.
    evaluation : ``Evaluation.to_dict()``, exactly; None where nobody asked, or it failed.
    certificate : how near the loss is to the least possible one, exactly; None without one.
    """

    def __init__(
        self,
        loss: Lost,
        evaluation: Mapping[str, Any] | None = None,
        certificate: Mapping[str, Any] | None = None,
    ) -> None:
        self.loss = loss
        self.evaluation = evaluation
        self.certificate = certificate

    @property
    def information_loss(self) -> float:
        """As of ``Report``, exactly."""
        return self.loss.released

    @property
    def information_loss_before_rounding(self) -> float:
        """As of ``Report``, exactly."""
        return self.loss.before_rounding

    @property
    def column_losses(self) -> Mapping[str, ColumnLoss]:
        """As of ``Report``, exactly."""
        return self.loss.columns

    def to_ledger(self) -> dict[str, Any]:
        """The figures as plain values, for the one table of a ledger that readers cannot read."""
        return {
            "note": INTERNAL,
            "information_loss": self.information_loss,
            "information_loss_before_rounding": self.information_loss_before_rounding,
            "column_losses": {
                name: {"released": loss.released, "before_rounding": loss.before_rounding}
                for name, loss in self.column_losses.items()
            },
            "evaluation": None if self.evaluation is None else plain(self.evaluation),
            "certificate": None if self.certificate is None else plain(self.certificate),
        }

    def __repr__(self) -> str:
        return f"<{INTERNAL}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()


def _nothing() -> None:
    return None
