"""Two releases side by side: tried, or published."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.advice.recommend import Point
from dbanon.data.schema import Role
from dbanon.doors.html import svg
from dbanon.doors.html.figures import figure
from dbanon.doors.html.view import Pictures, draw, few
from dbanon.doors.workbench.state import Workbench
from dbanon.doors.workbench.view import Row, is_same_point
from dbanon.release.distribution import Distribution
from dbanon.run.inspect_release import ReleaseInspection


def compare(bench: Workbench, first: str, second: str) -> Row:
    """Two releases side by side: tried, or published."""
    swept = bench.current_sweep
    points = sorted([] if swept is None else swept.points, key=lambda p: (p.curve, p.k))
    tried = {f"t/{point.curve}/{point.k}": point for point in points}
    offered = [(name, f"tried: {p.curve}, k = {p.k}") for name, p in tried.items()]
    offered += [
        (f"r/{r.output}", f"released: {r.output}, {r.method}, k = {r.k_requested}")
        for r in bench.listed or ()
    ]
    names_offered = [name for name, _ in offered]
    chosen = [f"t/{p.curve}/{p.k}" for p in points if is_same_point(p, bench.chosen)]
    if first not in names_offered:
        first = next((name for name in (*chosen, *names_offered) if name != second), "")
    if second not in names_offered:
        second = next((name for name in names_offered if name != first), "")
    pictures = Pictures()
    sides = [
        _tried(tried[name])
        if name in tried
        else _released(bench.inspections.get(name.partition("/")[2]), pictures)
        for name in (first, second)
        if name
    ]
    labels = list(dict.fromkeys(label for side in sides for label in side["figures"]))
    names = list(dict.fromkeys(name for side in sides for name in side["columns"]))
    drawings = list(dict.fromkeys(name for side in sides for name in side["drawn"]))
    return {
        "offered": offered,
        "first": first,
        "second": second,
        "titles": [dict(offered)[name] for name in (first, second) if name],
        "ready": len(sides) == 2,
        "figures": [
            (label, [side["figures"].get(label, "–") for side in sides]) for label in labels
        ],
        "columns": [(name, [side["columns"].get(name) for side in sides]) for name in names],
        "drawn": [(name, [side["drawn"].get(name) for side in sides]) for name in drawings],
        "measures": list(dict.fromkeys(side["measure"] for side in sides if side["measure"])),
    }


def _tried(point: Point) -> Row:
    return {
        "measure": "",
        "columns": {},
        "drawn": {},
        "figures": {
            "method": point.curve,
            "k": str(point.k),
            "classes": f"{point.classes:,}",
            "loss, as tried": figure(point.loss),
            "linkage risk, as tried": figure(point.risk),
            "class risk": figure(point.class_risk),
            "rows withheld": str(point.suppressed),
        },
    }


def _released(look: ReleaseInspection | None, pictures: Pictures) -> Row:
    if look is None:
        return {"measure": "", "columns": {}, "drawn": {}, "figures": {}}
    report = look.recorded.report
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
            f"loss ({report.loss_measure})": figure(report.information_loss),
            "linkage risk": figure(risks.get("linkage_risk")),
            "class risk": figure(1 / max(report.counts.verdict.rarest, 1)),
            "rows withheld": few(report.suppressed, report.k_requested),
            "made": report.created_at[:16].replace("T", " "),
        },
        "columns": {
            column.name: (figure(column.released), svg.share_bar(column.released))
            for column in report.loss.columns.values()
        },
        "drawn": {
            column.name: draw(column, pictures) for column in _quasi_identifiers(look.distributions)
        },
    }


def _quasi_identifiers(columns: Sequence[Distribution]) -> list[Distribution]:
    return [column for column in columns if column.role == Role.QUASI_IDENTIFIER.value]
