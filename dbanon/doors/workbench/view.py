"""What the pages of a workbench say, as plain values. Counts are those that advice tells."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbanon.advice.answer import ColumnAdvice, describe_set, entity_told
from dbanon.advice.profile import SMALL
from dbanon.advice.recommend import Point
from dbanon.advice.request import OF_CATEGORIES, OF_NUMBERS, are_numbers
from dbanon.advice.roles import REASONS
from dbanon.doors.html import svg
from dbanon.doors.html.card import LOSSES
from dbanon.doors.html.figures import figure
from dbanon.doors.html.view import Pictures, map_of
from dbanon.doors.jobfile.init import proposal
from dbanon.doors.spelling import on_command_line
from dbanon.doors.workbench import forms
from dbanon.doors.workbench.forms import FormState
from dbanon.doors.workbench.job import chosen_command, tree_files
from dbanon.doors.workbench.state import ROLES, Grown, JobDecisions, Swept, TreeChoice, Workbench
from dbanon.doors.workbench.tasks import Task
from dbanon.errors import DbanonError, HierarchyBroken, JobFileInvalid
from dbanon.hierarchy.edges import Problem
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


# So many columns, or more, have a filter.
_MANY_COLUMNS = 10
# Problems of an error that a page lists.
_LISTED_PROBLEMS = 10


def error_told(error: DbanonError) -> Row:
    """An error as commands say it; of many problems the first ten, and how many more there are."""
    problems = _problem_texts(error)
    rest = len(problems) - _LISTED_PROBLEMS
    return {
        "code": error.code,
        "message": error.message,
        "detail": "" if problems else error.detail or "",
        "problems": problems[:_LISTED_PROBLEMS],
        "rest": f"and {rest:,} more" if rest > 0 else "",
        "hint": error.hint_by(on_command_line) or "",
    }


def _problem_texts(error: DbanonError) -> list[str]:
    """What is wrong, problem by problem, without a label of a hierarchy."""
    if isinstance(error, JobFileInvalid):
        return list(map(str, error.problems))
    if isinstance(error, HierarchyBroken):
        return [one.located for one in error.problems if isinstance(one, Problem)]
    return []


def form_errors(errors: Mapping[str, DbanonError]) -> Row | None:
    """What is wrong with the fields of a form: one error as it is, several as a list."""
    descriptions = list(map(error_told, errors.values()))
    if len(descriptions) < 2:
        return next(iter(descriptions), None)
    rest = len(descriptions) - _LISTED_PROBLEMS
    return {
        "code": descriptions[0]["code"],
        "message": f"{len(descriptions):,} values need a correction. Nothing was changed.",
        "detail": "",
        "problems": [description["message"] for description in descriptions[:_LISTED_PROBLEMS]],
        "rest": f"and {rest:,} more" if rest > 0 else "",
        "hint": next(
            (description["hint"] for description in descriptions if description["hint"]), ""
        ),
    }


def field_notes(state: FormState) -> dict[str, str]:
    """What is wrong with each field, in words."""
    return {name: error.message for name, error in state.errors.items() if name}


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


def columns(bench: Workbench, state: FormState) -> Row:
    """Columns with proposed roles, and why."""
    found, state = bench.proposed, state.of("columns")
    if found is None:
        return {"rows": []}
    rows = []
    for place, column in enumerate(found.profile.columns):
        role = found.roles[column.name]
        nulls, distinct = _counts(bench, column.name)
        offered = forms.roles_for(bench, column.name)
        chosen = state.value(f"role-{place}", bench.roles[column.name])
        rows.append(
            {
                "place": place,
                "name": column.name,
                "kind": column.attribute.sql_type or column.attribute.kind.value,
                "nulls": nulls,
                "distinct": distinct,
                "proposed": proposal(column.attribute, role).role,
                "role": chosen if chosen in offered else bench.roles[column.name],
                "why": REASONS[role.reason],
                "also": role.also or "",
                "reason": state.value(f"reason-{place}", bench.reasons.get(column.name, "")),
                "offered": [(one, ROLE_WORDS[one]) for one in offered],
            }
        )
    names = list(bench.roles)
    saved = {f"role-{names.index(name)}": role for name, role in bench.roles.items()}
    reasons = {f"reason-{names.index(name)}": text for name, text in bench.reasons.items()}
    differing = state.saved_beside(saved)
    return {
        "rows": rows,
        "saved": {field: ROLE_WORDS[role] for field, role in differing.items()}
        | state.saved_beside(reasons),
        "count": f"{found.profile.rows:,}",
        "roles": [(role, ROLE_WORDS[role]) for role in ROLES] if len(rows) >= _MANY_COLUMNS else [],
        "entity": entity_told(bench.entity) if bench.entity else "",
    }


def _counts(bench: Workbench, name: str) -> tuple[str, str]:
    """NULLs and different values of a column, as advice tells them."""
    assert bench.proposed is not None
    profile = bench.proposed.profile
    told = ColumnAdvice(profile.column(name), bench.proposed.roles[name], profile.rows, SMALL)
    return str(told.nulls), str(told.distinct)


def trees(bench: Workbench, state: FormState) -> Row:
    """The quasi-identifiers with the trees that they have, and those that they may have."""
    names, state = list(bench.roles), state.of("trees")
    rows, saved = [], {}
    for name in bench.quasi_identifiers:
        grown, place = bench.trees.get(name), names.index(name)
        choice = TreeChoice("") if grown is None else grown.choice
        saved[f"tree-{place}"] = choice.kind
        if choice.more:
            saved[f"{choice.kind}-{place}"] = choice.more
        usual = {"intervals": "5, 10, 20", choice.kind: choice.more}
        rows.append(
            {
                "place": place,
                "name": name,
                "kind": state.value(f"tree-{place}", choice.kind),
                "more": {
                    kind: state.value(f"{kind}-{place}", usual.get(kind, ""))
                    for kind in ("intervals", "name", "file")
                },
                "offered": [(one, TREE_WORDS[one]) for one in forms.trees_for(bench, name)],
                "tree": None if grown is None else _tree(grown, bench.k),
            }
        )
    return {
        "rows": rows,
        "files": forms.files_for(bench.start.directory),
        "stored": bench.stored,
        "count": len(bench.trees),
        "saved": {
            field: TREE_WORDS.get(text, text) or "none"
            for field, text in state.saved_beside(saved).items()
        },
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
        "outgrown": grown.is_outgrown(k),
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
                "chosen": is_same_point(point, chosen),
            }
            for point in points
        ],
    }


def is_same_point(one: Point, other: Point | None) -> bool:
    return other is not None and (one.curve, one.k) == (other.curve, other.k)


def sweep(bench: Workbench, state: FormState) -> Row:
    """The map, its table, and what is known of it."""
    swept, choice, state = bench.swept, bench.sweep_choice, state.of("sweep")
    offered = OF_NUMBERS if bench.proposed and _is_numeric(bench) else OF_CATEGORIES
    saved = {"from": choice.k[0], "to": choice.k[-1], "sample": choice.sample,
             "limit": int(choice.time_limit), "seed": choice.seed,
             "nulls": choice.nulls or ""}  # fmt: skip
    told: Row = {
        "fields": {name: state.value(name, str(text)) for name, text in saved.items()},
        "methods": state.request.fields.get("method", ()) if state.request.name else choice.methods,
        "again": state.is_checked("again", False),
        "offered": offered,
        "swept": None,
        "columns": "",
        "persons": bench.entity or "",
        "tried": bench.sweep_digest(choice),
    }
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
                "chosen": is_same_point(point, bench.chosen),
            }
            for point in points
        ],
        "notes": [] if advice is None else advice.sweep.notes(),
        "start": [] if advice is None else advice.recommended(),
        "command": chosen_command(bench),
        "tree_files": sorted(tree_files(bench, bench.job or forms.job_first(bench)).values()),
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


def job(bench: Workbench, state: FormState) -> Row:
    """The job file, as it is to be written and as it was."""
    choice, saved, state = bench.job or forms.job_first(bench), bench.saved, state.of("job")
    point = bench.chosen
    texts = {name: text for name, text in vars(choice).items() if isinstance(text, str)}
    return {
        "fields": {name: state.value(name, text) for name, text in texts.items()},
        "report": state.is_checked("report", choice.report),
        "replace": state.is_checked("replace", False),
        "saved_values": {name: text or "none" for name, text in state.saved_beside(texts).items()},
        "kinds": bench.start.kinds,
        "needs_place": bench.start.needs_place,
        "directory": str(bench.start.directory),
        "point": None if point is None else str(point),
        "opened": "" if bench.opened is None else _options_words(bench.opened),
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


def _options_words(opened: JobDecisions) -> str:
    """The options of a release in a job file."""
    options = {"k": opened.k, **opened.options}
    return ", ".join(f"{name} = {value}" for name, value in options.items())


def run(bench: Workbench, state: FormState) -> Row:
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
    # cron has a short PATH of its own, and a % ends its line.
    line = f"cd {shlex.quote(str(directory))} && {shlex.quote(_program())} run {shlex.quote(file)}"
    return line.replace("%", r"\%")


def _program() -> str:
    """The path of the command, beside the Python that runs it; its name where it is not found."""
    script = Path(sys.executable).with_name("dbanon")
    return str(script) if script.exists() else shutil.which("dbanon") or "dbanon"


MAKERS: Mapping[str, Any] = {"columns": columns, "trees": trees, "sweep": sweep, "job": job,
                             "run": run}  # fmt: skip
