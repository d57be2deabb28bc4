"""The page that compares two releases, which are trials or published.

A ``Point`` is a trial release of a sweep, and its curve the method with its refinement.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.advice.recommend import Point
from dbanon.data.schema import Role
from dbanon.doors.html import svg
from dbanon.doors.html.figures import format_figure
from dbanon.doors.html.view import PictureNumbers, describe_distribution, mask_small_count
from dbanon.extensions.workbench.state import Workbench
from dbanon.extensions.workbench.view import TemplateValues, is_same_trial
from dbanon.release.distribution import Distribution
from dbanon.run.inspect_release import ReleaseInspection

# Names of releases in the form of the page: ``t/``, the curve and k of a trial release, such as
# ``t/mdav+fast/5``; or ``r/`` and the output of a published release.
TRIAL_PREFIX, RELEASE_PREFIX = "t/", "r/"


def describe_comparison(bench: Workbench, left: str, right: str) -> TemplateValues:
    """Build the content of the page that compares two releases, which are trials or published.

    Parameters
    ----------
    left, right : the names of the releases to compare, with ``TRIAL_PREFIX`` or
        ``RELEASE_PREFIX``. If there is no such release, the page shows another one.
    """
    sweep = bench.current_sweep
    points = sorted([] if sweep is None else sweep.points, key=lambda point: (point.curve, point.k))
    trials = {f"{TRIAL_PREFIX}{point.curve}/{point.k}": point for point in points}
    choices = [(name, f"tried: {point.curve}, k = {point.k}") for name, point in trials.items()]
    choices += [
        (
            f"{RELEASE_PREFIX}{release.output}",
            f"released: {release.output}, {release.method}, k = {release.k_requested}",
        )
        for release in bench.listed_releases or ()
    ]
    choice_names = [name for name, _ in choices]
    # The name of the trial release that the user chose on an earlier page, if there is one.
    chosen_names = [
        name for name, point in trials.items() if is_same_trial(point, bench.chosen_trial)
    ]
    if left not in choice_names:
        left = next((name for name in (*chosen_names, *choice_names) if name != right), "")
    if right not in choice_names:
        right = next((name for name in choice_names if name != left), "")
    # The pictures of a page need different ids.
    picture_numbers = PictureNumbers()
    descriptions = [
        _describe_trial(trials[name])
        if name in trials
        else _describe_release(
            bench.inspections.get(name.removeprefix(RELEASE_PREFIX)), picture_numbers
        )
        for name in (left, right)
        if name
    ]
    labels = _list_keys(descriptions, "figures")
    column_names = _list_keys(descriptions, "columns")
    distribution_names = _list_keys(descriptions, "distributions")
    measures = [description["measure"] for description in descriptions if description["measure"]]
    return {
        "choices": choices,
        "left": left,
        "right": right,
        "titles": [dict(choices)[name] for name in (left, right) if name],
        "is_ready": len(descriptions) == 2,
        "figures": [
            (label, [description["figures"].get(label, "–") for description in descriptions])
            for label in labels
        ],
        "columns": [
            (name, [description["columns"].get(name) for description in descriptions])
            for name in column_names
        ],
        "distributions": [
            (name, [description["distributions"].get(name) for description in descriptions])
            for name in distribution_names
        ],
        "measures": list(dict.fromkeys(measures)),
    }


def _list_keys(descriptions: Sequence[TemplateValues], section: str) -> list[str]:
    """List the keys in a section of any of the descriptions, in the order of appearance."""
    return list(dict.fromkeys(key for description in descriptions for key in description[section]))


def _describe_trial(point: Point) -> TemplateValues:
    return {
        "measure": "",
        "columns": {},
        "distributions": {},
        "figures": {
            "method": point.curve,
            "k": str(point.k),
            "classes": f"{point.classes:,}",
            "loss, as tried": format_figure(point.loss),
            "linkage risk, as tried": format_figure(point.risk),
            "class risk": format_figure(point.class_risk),
            "rows withheld": str(point.suppressed),
        },
    }


def _describe_release(
    inspection: ReleaseInspection | None, picture_numbers: PictureNumbers
) -> TemplateValues:
    if inspection is None:
        return {"measure": "", "columns": {}, "distributions": {}, "figures": {}}
    report = inspection.record.report
    # Only releases with the option ``evaluate`` have an evaluation.
    risks = (report.evaluation or {}).get("risks", {})
    return {
        "measure": report.loss_measure,
        "figures": {
            "method": "+".join(filter(None, (report.method, report.arguments.get("refine")))),
            "k": str(report.k_requested),
            "k counted": str(report.k_achieved),
            "rows": f"{report.rows_out:,}",
            "classes": f"{report.classes:,}",
            "smallest / largest class": f"{report.smallest_class:,} / {report.largest_class:,}",
            f"loss ({report.loss_measure})": format_figure(report.information_loss),
            "linkage risk": format_figure(risks.get("linkage_risk")),
            # The risk in the smallest class that readers see.
            "class risk": format_figure(1 / max(report.counts.verdict.rarest_combination_size, 1)),
            "rows withheld": mask_small_count(report.suppressed, report.k_requested),
            "made": report.created_at[:16].replace("T", " "),
        },
        "columns": {
            column.name: (format_figure(column.released), svg.draw_share_bar(column.released))
            for column in report.loss.columns.values()
        },
        "distributions": {
            column.name: describe_distribution(column, picture_numbers)
            for column in _select_quasi_identifiers(inspection.distributions)
        },
    }


def _select_quasi_identifiers(columns: Sequence[Distribution]) -> list[Distribution]:
    return [column for column in columns if column.role == Role.QUASI_IDENTIFIER.value]
