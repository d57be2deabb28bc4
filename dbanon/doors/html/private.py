"""Renders the page of a differentially private release. It shows only values that are public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dbanon.data.words import escape_control_characters
from dbanon.doors.html.page import render_template
from dbanon.release.private_report import PrivateReport

if TYPE_CHECKING:
    from dbanon.run.verify import PrivateVerification

_CAVEATS = (
    "The guarantee covers this release together with all releases that draw on the same budget."
    " It does not cover releases of the source that were made without a budget.",
    "Facts that hold for most members of a group can be learned, even about people who are not in"
    " the source: differential privacy protects only what a single member contributes.",
    "Rows are synthetic. None corresponds to a row of the source, and there are no classes to"
    " count.",
    "This page does not say how close the release is to the source, because computing that would"
    " also have to spend from the budget.",
)


def render_private_page(
    report: PrivateReport,
    *,
    recount: PrivateVerification | None = None,
    handover: Mapping[str, str] | None = None,
) -> str:
    """Render the report as one self-contained HTML page. This spends nothing from the budget.

    Parameters
    ----------
    recount : the verification for this page; None if there was none.
    handover : ``recipient`` and ``purpose``, each of which may be empty, for a page with fields for
        signatures; None for a page without.
    """
    return render_template(
        "private.html.j2",
        report=report,
        title=escape_control_characters(report.output),
        headline=_describe_headline(report),
        recounted="It was not recounted for this page."
        if recount is None
        else f"Recounted for this page: {recount.recounted}.",
        handover=handover,
        guarantee=f"{report.guarantee.rstrip('.')}.",
        caveats=_CAVEATS,
        # The page shows ``how`` and ``guarantee`` in sections of their own.
        facts=[(name, text) for name, text in report.pairs() if name not in ("how", "guarantee")],
        digest=report.digest or "none was taken",
    )


def _describe_headline(report: PrivateReport) -> list[tuple[str, str, str, str]]:
    """Describe the figures at the top: label, value, detail and meaning of each."""
    protected_unit = report.neighbours  # "row" or "person"
    return [
        (
            "epsilon",
            f"{report.epsilon:g}",
            f"delta {report.delta:g}" if report.delta else "without a delta",
            f"The smaller it is, the less one {protected_unit} of the source can change the"
            " probability of any result.",
        ),
        ("protects", f"one {protected_unit}", "of the source", "The unit of protection."),
        (
            "rows released",
            f"{report.rows_out:,}",
            "all of them synthetic",
            "None corresponds to a row of the source.",
        ),
        (
            "budget",
            report.budget_words(),
            escape_control_characters(report.budget),
            "Spent by all releases that use this budget. This page spent nothing.",
        ),
    ]
