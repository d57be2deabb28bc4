"""The content of a workbench's pages, as plain values. Counts are those of ``dbanon advise``."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbanon.advice.answer import ColumnAdvice, describe_entity, describe_set
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
from dbanon.doors.workbench.state import (
    ROLES,
    ColumnTree,
    JobDecisions,
    SweepResult,
    TreeChoice,
    Workbench,
)
from dbanon.doors.workbench.tasks import BackgroundTask
from dbanon.errors import DbanonError, HierarchyBroken, JobFileInvalid
from dbanon.hierarchy.edges import HierarchyProblem
from dbanon.run.tree_counts import TreeNode

Row = dict[str, Any]

STEPS = (
    ("columns", "Columns", "The role of each column"),
    ("trees", "Hierarchies", "The labels that values are generalized to"),
    ("sweep", "Loss against risk", "Trial releases in memory; nothing is written"),
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
    "mask": "codes, masked from the right",
    "suggest": "suggested from its values, saved as a file",
    "name": "stored in this database",
    "file": "a file next to the job file",
}


# A table with this many columns or more has a filter.
_MANY_COLUMNS = 10
# The number of problems that a page lists of an error.
_LISTED_PROBLEMS = 10


def describe_error(error: DbanonError) -> Row:
    """An error as commands print it: the first ten of its problems, and the number of others."""
    problems = _problem_texts(error)
    n_more = len(problems) - _LISTED_PROBLEMS
    return {
        "code": error.code,
        "message": error.message,
        "detail": "" if problems else error.detail or "",
        "problems": problems[:_LISTED_PROBLEMS],
        "more": f"and {n_more:,} more" if n_more > 0 else "",
        "hint": error.hint_by(on_command_line) or "",
    }


def _problem_texts(error: DbanonError) -> list[str]:
    """The problems of an error, without labels of a hierarchy."""
    if isinstance(error, JobFileInvalid):
        return list(map(str, error.problems))
    if isinstance(error, HierarchyBroken):
        return [
            problem.located for problem in error.problems if isinstance(problem, HierarchyProblem)
        ]
    return []


def form_errors(errors: Mapping[str, DbanonError]) -> Row | None:
    """The errors of the fields of a form: a single error as it is, several as a list."""
    descriptions = list(map(describe_error, errors.values()))
    if len(descriptions) < 2:
        return next(iter(descriptions), None)
    n_more = len(descriptions) - _LISTED_PROBLEMS
    return {
        "code": descriptions[0]["code"],
        "message": f"{len(descriptions):,} values need a correction. Nothing was changed.",
        "detail": "",
        "problems": [description["message"] for description in descriptions[:_LISTED_PROBLEMS]],
        "more": f"and {n_more:,} more" if n_more > 0 else "",
        "hint": next(
            (description["hint"] for description in descriptions if description["hint"]), ""
        ),
    }


def field_notes(state: FormState) -> dict[str, str]:
    """The error message of each field."""
    return {name: error.message for name, error in state.errors.items() if name}


def describe_task(task: BackgroundTask | None, step: str) -> Row | None:
    """The progress of a task, or why it failed, at the step that began it."""
    if task is None or (not task.busy and task.step != step):
        return None
    return {
        "name": task.name,
        "is_of_step": task.step == step,
        "step": task.step,
        "part": task.part,
        "percent": round(100 * min(max(task.share, 0.0), 1.0)),
        "state": "running" if task.busy else task.state,
        "error": describe_error(task.error) if task.state == "failed" and task.error else None,
    }


def columns(bench: Workbench, state: FormState) -> Row:
    """The columns with proposed roles, and the reasons."""
    proposed, state = bench.proposed, state.of("columns")
    if proposed is None:
        return {"rows": []}
    rows = []
    for index, column in enumerate(proposed.profile.columns):
        role = proposed.roles[column.name]
        nulls, distinct = _counts(bench, column.name)
        offered = forms.roles_for(bench, column.name)
        chosen = state.value(f"role-{index}", bench.roles[column.name])
        rows.append(
            {
                "index": index,
                "name": column.name,
                "kind": column.attribute.sql_type or column.attribute.kind.value,
                "nulls": nulls,
                "distinct": distinct,
                "proposed": proposal(column.attribute, role).role,
                "role": chosen if chosen in offered else bench.roles[column.name],
                "why": REASONS[role.reason],
                "also": role.also or "",
                "reason": state.value(f"reason-{index}", bench.reasons.get(column.name, "")),
                "offered": [(role, ROLE_WORDS[role]) for role in offered],
            }
        )
    names = list(bench.roles)
    saved = {f"role-{names.index(name)}": role for name, role in bench.roles.items()}
    reasons = {f"reason-{names.index(name)}": text for name, text in bench.reasons.items()}
    differing = state.conflicting_values(saved)
    return {
        "rows": rows,
        "saved": {field: ROLE_WORDS[role] for field, role in differing.items()}
        | state.conflicting_values(reasons),
        "count": f"{proposed.profile.rows:,}",
        "roles": [(role, ROLE_WORDS[role]) for role in ROLES] if len(rows) >= _MANY_COLUMNS else [],
        "entity": describe_entity(bench.entity) if bench.entity else "",
    }


def _counts(bench: Workbench, name: str) -> tuple[str, str]:
    """The number of NULLs and of distinct values of a column, as advice gives them."""
    assert bench.proposed is not None
    profile = bench.proposed.profile
    advice = ColumnAdvice(profile.column(name), bench.proposed.roles[name], profile.rows, SMALL)
    return str(advice.nulls), str(advice.distinct)


def trees(bench: Workbench, state: FormState) -> Row:
    """The quasi-identifiers with their trees, and the kinds of tree that each may have."""
    names, state = list(bench.roles), state.of("trees")
    rows, saved = [], {}
    for name in bench.quasi_identifiers:
        tree, index = bench.trees.get(name), names.index(name)
        choice = TreeChoice("") if tree is None else tree.choice
        saved[f"tree-{index}"] = choice.kind
        if choice.more:
            saved[f"{choice.kind}-{index}"] = choice.more
        usual = {"intervals": "5, 10, 20", choice.kind: choice.more}
        rows.append(
            {
                "index": index,
                "name": name,
                "kind": state.value(f"tree-{index}", choice.kind),
                "more": {
                    kind: state.value(f"{kind}-{index}", usual.get(kind, ""))
                    for kind in ("intervals", "name", "file")
                },
                "offered": [(kind, TREE_WORDS[kind]) for kind in forms.trees_for(bench, name)],
                "tree": None if tree is None else _tree(tree, bench.k),
            }
        )
    return {
        "rows": rows,
        "files": forms.files_for(bench.start.directory),
        "stored": bench.stored,
        "count": len(bench.trees),
        "saved": {
            field: TREE_WORDS.get(text, text) or "none"
            for field, text in state.conflicting_values(saved).items()
        },
    }


def _tree(tree: ColumnTree, k: int) -> Row:
    counts = tree.counts
    most, unit = 1, "persons" if counts.counts_persons else "rows"

    def row_of(node: TreeNode) -> Row:
        return {
            "label": node.bar.label,
            "rows": f"{node.bar.rows:,}" if node.bar.rows else "",
            "bar": svg.share_bar(node.bar.rows / most) if node.bar.rows else "",
            "below": [row_of(child) for child in node.children],
            "others": node.others_text.replace("rows", unit),
        }

    if counts.root is not None:
        most = max((child.bar.rows for child in counts.root.children), default=1) or 1
    return {
        "why": tree.why,
        "leaves": f"{counts.leaves:,}",
        "height": counts.height,
        "bound": counts.bound,
        "counted": unit,
        "outgrown": tree.is_outgrown(k),
        "root": None if counts.root is None else row_of(counts.root),
    }


def _is_numeric(bench: Workbench) -> bool:
    """Whether the quasi-identifiers are all released as numbers."""
    assert bench.proposed is not None
    profile = bench.proposed.profile
    attributes = [profile.column(name).attribute for name in bench.quasi_identifiers]
    return are_numbers(attributes, bench.hierarchies)


def sweep_map(swept: SweepResult, chosen: Point | None) -> dict[str, Any]:
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


def is_same_point(point: Point, chosen: Point | None) -> bool:
    return chosen is not None and (point.curve, point.k) == (chosen.curve, chosen.k)


def sweep(bench: Workbench, state: FormState) -> Row:
    """The map of a sweep, its table and notes."""
    swept, choice, state = bench.current_sweep, bench.sweep_choice, state.of("sweep")
    offered = OF_NUMBERS if bench.proposed and _is_numeric(bench) else OF_CATEGORIES
    saved = {
        "from": choice.k[0],
        "to": choice.k[-1],
        "sample": choice.sample,
        "limit": int(choice.time_limit),
        "seed": choice.seed,
        "nulls": choice.nulls or "",
    }
    content: Row = {
        "fields": {name: state.value(name, str(text)) for name, text in saved.items()},
        "methods": state.request.fields.get("method", ()) if state.request.name else choice.methods,
        "again": state.is_checked("again", False),
        "offered": offered,
        "swept": None,
        "columns": "",
        "persons": bench.entity or "",
        "tried": bench.sweep_digest(choice),
    }
    content["columns"] = ", ".join(bench.quasi_identifiers)
    if swept is None:
        return content
    advice = swept.advice
    points = sorted(swept.points, key=lambda point: (point.curve, point.k))
    best = {} if advice is None else {(p.curve, p.k) for p in advice.sweep.points if p.on_frontier}
    content["swept"] = {
        "whole": advice is not None,
        "map": map_of(sweep_map(swept, bench.chosen), Pictures()) if points else None,
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
                (f"without {name}", describe_set(columns))
                for name, columns in advice.singling.without.items()
            ),
            *((", ".join(s.columns), describe_set(s)) for s in advice.singling.sets[:5]),
        ],
    }
    return content


def job(bench: Workbench, state: FormState) -> Row:
    """The job file: the form, and the file as it was saved."""
    choice, saved, state = bench.job or forms.job_first(bench), bench.saved, state.of("job")
    point = bench.chosen
    texts = {name: text for name, text in vars(choice).items() if isinstance(text, str)}
    return {
        "fields": {name: state.value(name, text) for name, text in texts.items()},
        "report": state.is_checked("report", choice.report),
        "replace": state.is_checked("replace", False),
        "saved_values": {
            name: text or "none" for name, text in state.conflicting_values(texts).items()
        },
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
    """The release that the job published."""
    saved, release = bench.saved, bench.made
    return {
        "saved": None if saved is None else saved.choice.file,
        "line": "" if saved is None else _line(bench.start.directory, saved.choice.file),
        "schedule": "" if saved is None else saved.choice.schedule or "0 3 1 * *",
        "made": None
        if release is None
        else {
            "output": release.output,
            "release_id": release.release_id,
            "headline": release.headline,
            "page": bool(release.page),
            "warned": list(release.warned),
        },
    }


def _line(directory: Path, file: str) -> str:
    # cron has a short PATH of its own, and a % ends its line.
    line = f"cd {shlex.quote(str(directory))} && {shlex.quote(_program())} run {shlex.quote(file)}"
    return line.replace("%", r"\%")


def _program() -> str:
    """The path of the command beside this Python; its name if there is none."""
    script = Path(sys.executable).with_name("dbanon")
    return str(script) if script.exists() else shutil.which("dbanon") or "dbanon"


MAKERS: Mapping[str, Any] = {
    "columns": columns,
    "trees": trees,
    "sweep": sweep,
    "job": job,
    "run": run,
}
