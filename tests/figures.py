"""The exact figures of a release as a text shows them, to prove that no text does."""

from __future__ import annotations

import dbanon


def leading_digits(figure: float) -> str:
    """Return the first digits of a figure, more than any text contains by chance.

    Reports hold durations to the microsecond, and a duration of 0.072607 s once was taken for a
    loss. Ten characters are eight decimals of a figure below one.
    """
    return repr(figure)[:10]


def unpublished_digits(report: dbanon.Report) -> set[str]:
    """Return the leading digits of the exact losses that a report keeps for its owner."""
    exact = report.internal
    assert exact is not None
    figures = {
        exact.information_loss,
        exact.information_loss_before_rounding,
        *(loss.released for loss in exact.column_losses.values()),
        *(value for value in exact.evaluation["losses"].values() if value not in (None, 0, 1)),
    } - {report.information_loss, *(loss.released for loss in report.column_losses.values())}
    assert figures
    return {leading_digits(figure) for figure in figures}
