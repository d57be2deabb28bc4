"""What the pages of a workbench say, as plain values. Counts are those that advice tells."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dbanon.advice.answer import ColumnAdvice, describe_set, entity_told
from dbanon.advice.profile import SMALL
from dbanon.advice.recommend import Point
from dbanon.advice.request import OF_CATEGORIES, OF_NUMBERS, are_numbers
from dbanon.advice.roles import REASONS
from dbanon.data.schema import Role
from dbanon.doors.html import svg
from dbanon.doors.html.card import LOSSES
from dbanon.doors.html.figures import figure
from dbanon.doors.html.view import Pictures, drawn, few, map_of
from dbanon.doors.jobfile.init import proposal
from dbanon.doors.spelling import command, on_command_line
from dbanon.doors.workbench import forms
from dbanon.doors.workbench.state import Grown, Swept, Workbench
from dbanon.doors.workbench.tasks import Task
from dbanon.errors import DbanonError
from dbanon.release.distribution import Distribution, bound_of
from dbanon.run.inspect_release import Look
from dbanon.run.tree_counts import TreeNode

Row = dict[str, Any]

STEPS = (
    ("columns", "Columns", "What each column is"),
    ("trees", "Hierarchies", "The labels that values are generalized to"),
    ("sweep", "Loss against risk", "Releases that are tried in memory and written nowhere"),
    ("compare", "Compare", "Two releases side by side"),
    ("job", "Job file", "Saved, checked, planned"),
    ("run", "Run", "The release and its report"),
)
ROLE_WORDS = {
    "quasi_identifier": "quasi-identifier: protected",
    "sensitive": "sensitive: copied as it is",
    "identifier": "identifier: not released",
    "keep": "keep: copied as it is, for a reason",
    "drop": "drop: not released",
}
TREE_WORDS = {
    "dates": "calendar: month, year, decade",
    "intervals": "intervals of these widths",
    "mask": "codes, hidden from the right",
    "suggest": "as suggested by its values, kept as a file",
    "name": "stored in this database",
    "file": "a file beside the job file",
}


def error_told(error: DbanonError) -> Row:
    """An error as commands say it."""
    return {
        "code": error.code,
        "message": error.message,
        "detail": error.detail or "",
        "hint": error.hint_by(on_command_line) or "",
    }


def task_told(task: Task | None, step: str) -> Row | None:
    """How far the task is; what it failed with, at the step that asked for it."""
    if task is None or (not task.busy and task.step != step):
        return None
    return {
        "name": task.name,
        "here": task.step == step,
        "step": task.step,
        "part": task.part,
        "percent": round(100 * min(max(task.share, 0.0), 1.0)),
        "state": "running" if task.busy else task.state,
        "error": error_told(task.error) if task.state == "failed" and task.error else None,
    }


def columns(bench: Workbench) -> Row:
    """Columns with proposed roles, and why."""
    found = bench.proposed
    if found is None:
        return {"rows": []}
    rows = []
    for place, column in enumerate(found.profile.columns):
        role = found.roles[column.name]
        nulls, distinct = _counts(bench, column.name)
        rows.append(
            {
                "place": place,
                "name": column.name,
                "kind": column.attribute.sql_type or column.attribute.kind.value,
                "nulls": nulls,
                "distinct": distinct,
                "proposed": proposal(column.attribute, role).role,
                "role": bench.roles[column.name],
                "why": REASONS[role.reason],
                "also": role.also or "",
                "reason": bench.reasons.get(column.name, ""),
                "offered": [(one, ROLE_WORDS[one]) for one in forms.roles_for(bench, column.name)],
            }
        )
    return {
        "rows": rows,
        "count": f"{found.profile.rows:,}",
        "entity": entity_told(bench.entity) if bench.entity else "",
    }


def _counts(bench: Workbench, name: str) -> tuple[str, str]:
    """NULLs and different values of a column, as advice tells them."""
    assert bench.proposed is not None
    profile = bench.proposed.profile
    told = ColumnAdvice(profile.column(name), bench.proposed.roles[name], profile.rows, SMALL)
    return str(told.nulls), str(told.distinct)


def trees(bench: Workbench) -> Row:
    """The quasi-identifiers with the trees that they have, and those that they may have."""
    names = list(bench.roles)
    rows = []
    for name in bench.quasi_identifiers:
        grown = bench.trees.get(name)
        rows.append(
            {
                "place": names.index(name),
                "name": name,
                "kind": "" if grown is None else grown.choice.kind,
                "more": "" if grown is None else grown.choice.more,
                "offered": [(one, TREE_WORDS[one]) for one in forms.trees_for(bench, name)],
                "tree": None if grown is None else _tree(grown, bench.k),
            }
        )
    return {
        "rows": rows,
        "files": forms.files_for(bench.start.directory),
        "stored": bench.stored,
        "count": len(bench.trees),
    }


def _tree(grown: Grown, k: int) -> Row:
    counts = grown.counts
    most, what = 1, "persons" if grown.counts.persons else "rows"

    def row_of(node: TreeNode) -> Row:
        return {
            "label": node.bar.label,
            "rows": f"{node.bar.rows:,}" if node.bar.rows else "",
            "bar": svg.share_bar(node.bar.rows / most) if node.bar.rows else "",
            "below": [row_of(one) for one in node.below],
            "others": node.others.replace("rows", what),
        }

    if counts.root is not None:
        most = max((one.bar.rows for one in counts.root.below), default=1) or 1
    return {
        "why": grown.why,
        "leaves": f"{counts.leaves:,}",
        "height": counts.height,
        "bound": counts.bound,
        "counted": what,
        # Counted before a larger k was chosen, it shows labels of too few.
        "outgrown": counts.bound < bound_of(k),
        "root": None if counts.root is None else row_of(counts.root),
    }


def _is_numeric(bench: Workbench) -> bool:
    """Whether the quasi-identifiers are all released as numbers."""
    assert bench.proposed is not None
    profile = bench.proposed.profile
    attributes = [profile.column(name).attribute for name in bench.quasi_identifiers]
    return are_numbers(attributes, bench.hierarchies)


def map_told(swept: Swept, chosen: Point | None) -> dict[str, Any]:
    """The map of a sweep, as the report takes it."""
    points = sorted(swept.points, key=lambda point: (point.curve, point.k))
    return {
        "risk": "linkage risk",
        "loss": "loss" if swept.advice is None else LOSSES[swept.advice.sweep.measure],
        "points": [
            {
                "curve": point.curve,
                "label": f"k = {point.k}",
                "risk": point.risk,
                "loss": point.loss,
                "chosen": _same(point, chosen),
            }
            for point in points
        ],
    }


def _same(one: Point, other: Point | None) -> bool:
    return other is not None and (one.curve, one.k) == (other.curve, other.k)


def sweep(bench: Workbench) -> Row:
    """The map, its table, and what is known of it."""
    swept, choice = bench.swept, bench.sweep_choice
    offered = OF_NUMBERS if bench.proposed and _is_numeric(bench) else OF_CATEGORIES
    told: Row = {"choice": choice, "offered": offered, "swept": None, "columns": "",
                 "persons": bench.entity or ""}  # fmt: skip
    told["columns"] = ", ".join(bench.quasi_identifiers)
    if swept is None:
        return told
    advice = swept.advice
    points = sorted(swept.points, key=lambda point: (point.curve, point.k))
    best = {} if advice is None else {(p.curve, p.k) for p in advice.sweep.points if p.on_frontier}
    told["swept"] = {
        "whole": advice is not None,
        "map": map_of(map_told(swept, bench.chosen), Pictures()) if points else None,
        "chosen": bench.chosen is not None,
        "points": [
            {
                "id": f"{point.curve}/{point.k}",
                "curve": point.curve,
                "k": point.k,
                "loss": ("at most " if advice and advice.sweep.sampled else "")
                + figure(point.loss),
                "risk": figure(point.risk),
                "class_risk": figure(point.class_risk),
                "withheld": str(point.suppressed),
                "frontier": (point.curve, point.k) in best,
                "chosen": _same(point, bench.chosen),
            }
            for point in points
        ],
        "notes": [] if advice is None else advice.sweep.notes(),
        "start": [] if advice is None else advice.recommended(),
        "command": command(bench.shown_url, advice.start) if advice and advice.start else "",
        "singling": []
        if advice is None
        else [
            ("all of them", describe_set(advice.singling.chosen)),
            *(
                (f"without {name}", describe_set(one))
                for name, one in advice.singling.without.items()
            ),
            *((", ".join(one.columns), describe_set(one)) for one in advice.singling.sets[:5]),
        ],
    }
    return told


def compare(bench: Workbench, first: str, second: str) -> Row:
    """Two releases, tried or made, side by side."""
    swept = bench.swept
    points = sorted([] if swept is None else swept.points, key=lambda p: (p.curve, p.k))
    tried = {f"t/{point.curve}/{point.k}": point for point in points}
    offered = [(name, f"tried: {p.curve}, k = {p.k}") for name, p in tried.items()]
    offered += [
        (f"r/{one.output}", f"released: {one.output}, {one.method}, k = {one.k_requested}")
        for one in bench.listed or ()
    ]
    known = [name for name, _ in offered]
    chosen = [f"t/{p.curve}/{p.k}" for p in points if _same(p, bench.chosen)]
    if first not in known:
        first = next((name for name in (*chosen, *known) if name != second), "")
    if second not in known:
        second = next((name for name in known if name != first), "")
    pictures = Pictures()
    sides = [
        _tried(tried[name])
        if name in tried
        else _released(bench.looks.get(name.partition("/")[2]), pictures)
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
        "figures": [(label, [side["figures"].get(label, "–") for side in sides])
                    for label in labels],
        "columns": [(name, [side["columns"].get(name) for side in sides]) for name in names],
        "drawn": [(name, [side["drawn"].get(name) for side in sides]) for name in drawings],
        "measures": list(dict.fromkeys(side["measure"] for side in sides if side["measure"])),
    }  # fmt: skip


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


def _released(found: Look | None, pictures: Pictures) -> Row:
    if found is None:
        return {"measure": "", "columns": {}, "drawn": {}, "figures": {}}
    report = found.recorded.report
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
            one.name: (figure(one.released), svg.share_bar(one.released))
            for one in report.loss.columns.values()
        },
        "drawn": {one.name: drawn(one, pictures) for one in _of_classes(found.distributions)},
    }


def _of_classes(found: Sequence[Distribution]) -> list[Distribution]:
    return [one for one in found if one.role == Role.QUASI_IDENTIFIER.value]


def job(bench: Workbench) -> Row:
    """The job file, as it is to be written and as it was."""
    choice, saved = bench.job or forms.job_first(bench), bench.saved
    point = bench.chosen
    return {
        "choice": choice,
        "kinds": bench.start.kinds,
        "needs_place": bench.start.needs_place,
        "directory": str(bench.start.directory),
        "point": None if point is None else str(point),
        "roles": [(name, ROLE_WORDS[role].partition(":")[0]) for name, role in bench.roles.items()],
        "saved": None
        if saved is None
        else {
            "file": saved.choice.file,
            "text": saved.text,
            "trees": saved.trees,
            "plan": saved.plan,
            "as_decided": saved.decided == bench.decided,
        },
    }


def run(bench: Workbench) -> Row:
    """The release that was made."""
    saved, made = bench.saved, bench.made
    return {
        "saved": None if saved is None else saved.choice.file,
        "line": "" if saved is None else _line(bench.start.directory, saved.choice.file),
        "schedule": "" if saved is None else saved.choice.schedule or "0 3 1 * *",
        "made": None
        if made is None
        else {
            "output": made.output,
            "release_id": made.release_id,
            "headline": made.headline,
            "page": bool(made.page),
            "warned": list(made.warned),
        },
    }


def _line(directory: Path, file: str) -> str:
    # A % ends a line of cron.
    return f"cd {shlex.quote(str(directory))} && dbanon run {shlex.quote(file)}".replace("%", r"\%")


MAKERS: Mapping[str, Any] = {"columns": columns, "trees": trees, "sweep": sweep, "job": job,
                             "run": run}  # fmt: skip
