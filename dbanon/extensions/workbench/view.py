"""The content of a workbench's pages, for its templates.

A tree is the hierarchy of a column. A sweep makes trial releases; a ``Point`` is one of them, and
its curve the method with its refinement. The frontier has the Pareto-optimal points: every point
with less loss has more risk, and every point with less risk has more loss.

Counts are rounded or masked as in ``dbanon advise``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dbanon.advice.answer import ColumnAdvice, describe_entity, describe_set
from dbanon.advice.profile import SMALL_COUNT
from dbanon.advice.recommend import Point
from dbanon.advice.request import CATEGORY_METHODS, NUMBER_METHODS, are_numbers
from dbanon.advice.roles import REASONS
from dbanon.doors.html import svg
from dbanon.doors.html.card import LOSS_NAMES
from dbanon.doors.html.figures import format_figure
from dbanon.doors.html.view import PictureNumbers, describe_map
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import DbanonError, HierarchyBroken, JobFileInvalid
from dbanon.extensions.workbench import forms
from dbanon.extensions.workbench.forms import FormState
from dbanon.extensions.workbench.job import (
    list_proposed_roles,
    name_tree_files,
    render_chosen_command,
)
from dbanon.extensions.workbench.state import (
    RISK_COLUMNS,
    ROLES,
    ColumnTree,
    JobDecisions,
    RiskChoice,
    SweepResult,
    TreeChoice,
    Workbench,
)
from dbanon.extensions.workbench.tasks import BackgroundTask
from dbanon.hierarchy.edges import HierarchyProblem
from dbanon.job.rules import WEIGHT
from dbanon.run.tree_counts import TreeNode

TemplateValues: TypeAlias = dict[str, Any]


class WorkbenchStep(NamedTuple):
    """A page of the workbench.

    Parameters
    ----------
    name : the last part of the page's address.
    title, description : texts of the navigation.
    """

    name: str
    title: str
    description: str


STEPS = (
    WorkbenchStep("columns", "Columns", "The role of each column"),
    WorkbenchStep("trees", "Hierarchies", "The labels that values are generalized to"),
    WorkbenchStep("sweep", "Loss against risk", "Trial releases in memory; nothing is written"),
    WorkbenchStep("compare", "Compare", "Two releases side by side"),
    WorkbenchStep("job", "Job file", "Saved, checked, planned"),
    WorkbenchStep("run", "Run", "The release and its report"),
)
ROLE_TEXTS = {
    "quasi_identifier": "quasi-identifier: protected",
    "sensitive": "sensitive: copied unchanged",
    "identifier": "identifier: not released",
    "keep": "keep: copied unchanged, for a reason",
    "weight": "weight: for how many persons a row stands",
    "drop": "drop: not released",
}
TREE_TEXTS = {
    "dates": "calendar: month, year, decade",
    "intervals": "intervals of these widths",
    "mask": "codes, masked from the right",
    "suggest": "suggested from its values, saved as a file",
    "name": "stored in this database",
    "file": "a file next to the job file",
}


# A table with this many columns or more has a filter.
_MANY_COLUMNS = 10
# Maximum number of an error's problems on a page.
_LISTED_PROBLEMS = 10
# Maximum number of sets of columns that make rows unique on a page.
_LISTED_SETS = 5


def describe_error(error: DbanonError) -> TemplateValues:
    """Describe an error as commands print it: its first problems, and the number of others."""
    problems = _problem_texts(error)
    n_unlisted = len(problems) - _LISTED_PROBLEMS
    return {
        "code": error.code,
        "message": error.message,
        "detail": "" if problems else error.detail or "",
        "problems": problems[:_LISTED_PROBLEMS],
        "more": f"and {n_unlisted:,} more" if n_unlisted > 0 else "",
        "hint": error.format_hint(spell_cli_option) or "",
    }


def _problem_texts(error: DbanonError) -> list[str]:
    """List the problems of an error, without labels of a hierarchy."""
    if isinstance(error, JobFileInvalid):
        return list(map(str, error.problems))
    if isinstance(error, HierarchyBroken):
        return [
            problem.text_with_line
            for problem in error.problems
            if isinstance(problem, HierarchyProblem)
        ]
    return []


def describe_form_errors(errors: Mapping[str, DbanonError]) -> TemplateValues | None:
    """Describe the errors of a form's fields: a single error as it is, several as a list."""
    descriptions = list(map(describe_error, errors.values()))
    if len(descriptions) < 2:
        return next(iter(descriptions), None)
    n_unlisted = len(descriptions) - _LISTED_PROBLEMS
    return {
        "code": descriptions[0]["code"],
        "message": f"{len(descriptions):,} values need a correction. Nothing was changed.",
        "detail": "",
        "problems": [description["message"] for description in descriptions[:_LISTED_PROBLEMS]],
        "more": f"and {n_unlisted:,} more" if n_unlisted > 0 else "",
        "hint": next(
            (description["hint"] for description in descriptions if description["hint"]), ""
        ),
    }


def describe_field_errors(state: FormState) -> dict[str, str]:
    """Map the names of fields to their error messages."""
    return {name: error.message for name, error in state.errors.items() if name}


def describe_task(task: BackgroundTask | None, step: str) -> TemplateValues | None:
    """Describe the progress of a task; once it has ended, only on the page of its step."""
    if task is None or (not task.is_busy and task.step != step):
        return None
    return {
        "name": task.name,
        "is_of_step": task.step == step,
        "step": task.step,
        "part": task.phase,
        "percent": round(100 * min(max(task.fraction, 0.0), 1.0)),
        "state": "running" if task.is_busy else task.state,
        "error": describe_error(task.error) if task.state == "failed" and task.error else None,
    }


def describe_columns(bench: Workbench, state: FormState) -> TemplateValues:
    """Build the content of the columns' page: their roles, the proposals and the reasons."""
    role_proposals, state = bench.role_proposals, state.for_form("columns")
    if role_proposals is None:
        return {"rows": []}
    rows, proposed_roles = [], list_proposed_roles(role_proposals)
    for index, column in enumerate(role_proposals.profile.columns):
        role_proposal = role_proposals.roles[column.name]
        nulls, distinct = _describe_counts(bench, column.name)
        allowed_roles = forms.list_allowed_roles(bench, column.name)
        selected_role = state.find_shown_value(f"role-{index}", bench.roles[column.name])
        rows.append(
            {
                "index": index,
                "name": column.name,
                "kind": column.attribute.sql_type or column.attribute.kind.value,
                "nulls": nulls,
                "distinct": distinct,
                "proposed_role": proposed_roles[column.name],
                "role": selected_role
                if selected_role in allowed_roles
                else bench.roles[column.name],
                "proposal_reason": REASONS[role_proposal.reason],
                "alternative": role_proposal.alternative or "",
                "reason": state.find_shown_value(
                    f"reason-{index}", bench.reasons.get(column.name, "")
                ),
                "role_choices": [(role, ROLE_TEXTS[role]) for role in allowed_roles],
            }
        )
    names = list(bench.roles)
    saved_values = {f"role-{names.index(name)}": role for name, role in bench.roles.items()}
    reasons = {f"reason-{names.index(name)}": text for name, text in bench.reasons.items()}
    differing_values = state.find_conflicting_values(saved_values)
    return {
        "rows": rows,
        "saved": {field: ROLE_TEXTS[role] for field, role in differing_values.items()}
        | state.find_conflicting_values(reasons),
        "n_rows": f"{role_proposals.profile.rows:,}",
        # The roles of many columns at once; only one column can be the design weight.
        "roles": [(role, ROLE_TEXTS[role]) for role in ROLES if role != WEIGHT]
        if len(rows) >= _MANY_COLUMNS
        else [],
        "entity": describe_entity(bench.entity) if bench.entity else "",
    }


def _describe_counts(bench: Workbench, name: str) -> tuple[str, str]:
    """Return the numbers of NULLs and of distinct values of a column, rounded as in advice."""
    assert bench.role_proposals is not None
    profile = bench.role_proposals.profile
    # Counts below SMALL_COUNT are shown only as a range.
    advice = ColumnAdvice(
        profile.column(name), bench.role_proposals.roles[name], profile.rows, SMALL_COUNT
    )
    return str(advice.nulls), str(advice.distinct)


def describe_trees(bench: Workbench, state: FormState) -> TemplateValues:
    """Build the content of the hierarchies' page: the quasi-identifiers and their trees."""
    names, state = list(bench.roles), state.for_form("trees")
    rows, saved_values = [], {}
    for name in bench.quasi_identifiers:
        tree, index = bench.trees.get(name), names.index(name)
        choice = TreeChoice("") if tree is None else tree.choice
        saved_values[f"tree-{index}"] = choice.kind
        if choice.argument:
            saved_values[f"{choice.kind}-{index}"] = choice.argument
        default_arguments = {"intervals": "5, 10, 20", choice.kind: choice.argument}
        rows.append(
            {
                "index": index,
                "name": name,
                "kind": state.find_shown_value(f"tree-{index}", choice.kind),
                "arguments": {
                    kind: state.find_shown_value(f"{kind}-{index}", default_arguments.get(kind, ""))
                    for kind in ("intervals", "name", "file")
                },
                "kind_choices": [
                    (kind, TREE_TEXTS[kind]) for kind in forms.list_tree_kinds(bench, name)
                ],
                "tree": None if tree is None else _describe_tree(tree, bench.k),
            }
        )
    return {
        "rows": rows,
        "files": forms.list_tree_files(bench.arguments.directory),
        "stored": bench.stored_hierarchies,
        "saved": {
            field: TREE_TEXTS.get(text, text) or "none"
            for field, text in state.find_conflicting_values(saved_values).items()
        },
    }


def _describe_tree(tree: ColumnTree, k: int) -> TemplateValues:
    """Describe a tree with its labels and counts."""
    # ``counts.bound`` is the smallest number of rows or persons that is shown. A node has no entry
    # for its children with fewer; its ``others_text`` describes them.
    counts = tree.counts
    # ``max_rows`` is the number of rows of the longest bar.
    max_rows, unit = 1, "persons" if counts.counts_persons else "rows"

    def describe_node(node: TreeNode) -> TemplateValues:
        return {
            "label": node.bar.label,
            "rows": f"{node.bar.rows:,}" if node.bar.rows else "",
            "bar": svg.draw_share_bar(node.bar.rows / max_rows) if node.bar.rows else "",
            "children": [describe_node(child) for child in node.children],
            "others_note": node.others_text.replace("rows", unit),
        }

    if counts.root is not None:
        max_rows = max((child.bar.rows for child in counts.root.children), default=1) or 1
    return {
        "reason": tree.reason,
        "leaves": f"{counts.leaves:,}",
        "height": counts.height,
        "bound": counts.bound,
        "unit": unit,
        "is_outgrown": tree.is_outgrown(k),
        "root": None if counts.root is None else describe_node(counts.root),
    }


def _is_numeric(bench: Workbench) -> bool:
    """Whether the quasi-identifiers are all released as numbers."""
    assert bench.role_proposals is not None
    profile = bench.role_proposals.profile
    attributes = [profile.column(name).attribute for name in bench.quasi_identifiers]
    return are_numbers(attributes, bench.hierarchies)


def describe_sweep_map(sweep_result: SweepResult, chosen_trial: Point | None) -> TemplateValues:
    """Return the points of a sweep, in the form that ``describe_map`` expects."""
    points = sorted(sweep_result.points, key=lambda point: (point.curve, point.k))
    return {
        "risk": "linkage risk",
        "loss": "loss"
        if sweep_result.advice is None
        else LOSS_NAMES[sweep_result.advice.sweep.measure],
        "points": [
            {
                "curve": point.curve,
                "label": f"k = {point.k}",
                "risk": point.risk,
                "loss": point.loss,
                "chosen": is_same_trial(point, chosen_trial),
            }
            for point in points
        ],
    }


def is_same_trial(point: Point, other: Point | None) -> bool:
    """Whether two trial releases have the same curve and k."""
    return other is not None and (point.curve, point.k) == (other.curve, other.k)


def describe_sweep(bench: Workbench, state: FormState) -> TemplateValues:
    """Build the content of the sweep's page: its form, its map, its table and notes."""
    sweep_result, choice, state = bench.current_sweep, bench.sweep_choice, state.for_form("sweep")
    method_choices = (
        NUMBER_METHODS if bench.role_proposals and _is_numeric(bench) else CATEGORY_METHODS
    )
    saved_values = {
        "from": choice.k[0],
        "to": choice.k[-1],
        "sample": choice.sample,
        "limit": int(choice.time_limit),
        "seed": choice.seed,
        "nulls": choice.nulls or "",
    }
    content: TemplateValues = {
        "fields": {
            name: state.find_shown_value(name, str(text)) for name, text in saved_values.items()
        },
        "methods": state.request.fields.get("method", ()) if state.request.name else choice.methods,
        "repeats_sweep": state.is_checked("again", False),
        "method_choices": method_choices,
        "sweep": None,
        "columns": ", ".join(bench.quasi_identifiers),
        "entity": bench.entity or "",
        "sweep_digest": bench.compute_sweep_digest(choice),
    }
    if sweep_result is None:
        return content
    advice = sweep_result.advice
    points = sorted(sweep_result.points, key=lambda point: (point.curve, point.k))
    frontier_points = (
        {}
        if advice is None
        else {(point.curve, point.k) for point in advice.sweep.points if point.on_frontier}
    )
    content["sweep"] = {
        "is_complete": advice is not None,
        "map": describe_map(describe_sweep_map(sweep_result, bench.chosen_trial), PictureNumbers())
        if points
        else None,
        "has_chosen_trial": bench.chosen_trial is not None,
        "points": [
            {
                "id": f"{point.curve}/{point.k}",
                "curve": point.curve,
                "k": point.k,
                # With all rows instead of a sample, records have nearer neighbors, and lose less.
                "loss": ("at most " if advice and advice.sweep.sampled else "")
                + format_figure(point.loss),
                "risk": format_figure(point.risk),
                "class_risk": format_figure(point.class_risk),
                "withheld": str(point.suppressed),
                "is_on_frontier": (point.curve, point.k) in frontier_points,
                "is_chosen": is_same_trial(point, bench.chosen_trial),
            }
            for point in points
        ],
        "notes": [] if advice is None else advice.sweep.notes(),
        # Pairs of label and text.
        "recommendation": [] if advice is None else advice.recommended(),
        "command": render_chosen_command(bench),
        "tree_files": sorted(
            name_tree_files(bench, bench.job_choice or forms.propose_job_choice(bench)).values()
        ),
        # How many rows are unique, by sets of columns: all quasi-identifiers, all but one of them,
        # and small sets. ``singling`` is the part of the advice on what singles out rows.
        "unique_sets": []
        if advice is None
        else [
            ("all of them", describe_set(advice.singling.chosen)),
            *(
                (f"without {name}", describe_set(columns))
                for name, columns in advice.singling.without.items()
            ),
            *(
                (", ".join(column_set.columns), describe_set(column_set))
                for column_set in advice.singling.sets[:_LISTED_SETS]
            ),
        ],
    }
    return content


def describe_job(bench: Workbench, state: FormState) -> TemplateValues:
    """Build the content of the job file's page: the form, and the saved file."""
    state = state.for_form("job")
    choice = bench.job_choice or forms.propose_job_choice(bench)
    saved_file = bench.saved_file
    point = bench.chosen_trial
    texts = {name: text for name, text in vars(choice).items() if isinstance(text, str)}
    texts |= forms.write_risk_fields(bench, choice.risk or RiskChoice())
    conflicting_values = state.find_conflicting_values(texts)
    risk_columns = {key: forms.list_risk_columns(bench, key) for key in RISK_COLUMNS}
    for key, columns in risk_columns.items():
        field_name = f"risk-{key}"
        if field_name in conflicting_values:
            names = dict(columns)
            conflicting_values[field_name] = names.get(conflicting_values[field_name], "")
    return {
        "fields": {name: state.find_shown_value(name, text) for name, text in texts.items()},
        "writes_report": state.is_checked("report", choice.report),
        "replaces_file": state.is_checked("replace", False),
        "saved_values": {name: text or "none" for name, text in conflicting_values.items()},
        "measures_risk": state.is_checked("risk", choice.risk is not None),
        "risk_columns": risk_columns,
        "risk_texts": forms.RISK_TEXTS,
        "kinds": bench.arguments.output_kinds,
        "needs_database_file": bench.arguments.needs_database_file,
        "directory": str(bench.arguments.directory),
        "point": None if point is None else str(point),
        "opened": ""
        if bench.opened_decisions is None
        else _describe_options(bench.opened_decisions),
        "roles": [(name, ROLE_TEXTS[role].partition(":")[0]) for name, role in bench.roles.items()],
        "saved": None
        if saved_file is None
        else {
            "file": saved_file.choice.file,
            "text": saved_file.text,
            "tree_files": saved_file.tree_files,
            "plan": saved_file.plan,
            "is_current": saved_file.decision_revision == bench.decision_revision,
        },
    }


def _describe_options(decisions: JobDecisions) -> str:
    """Describe the options of a release in a job file."""
    options = {"k": decisions.k, **decisions.options}
    return ", ".join(f"{name} = {value}" for name, value in options.items())


def describe_run(bench: Workbench, state: FormState) -> TemplateValues:
    """Build the content of the page with the release that the job published."""
    saved_file, release = bench.saved_file, bench.published_release
    return {
        "saved": None if saved_file is None else saved_file.choice.file,
        "command": ""
        if saved_file is None
        else _render_cron_command(bench.arguments.directory, saved_file.choice.file),
        "schedule": "" if saved_file is None else saved_file.choice.schedule or "0 3 1 * *",
        "release": None
        if release is None
        else {
            "output": release.output,
            "release_id": release.release_id,
            "headline": release.headline,
            "has_report": bool(release.report_html),
            "warnings": list(release.warnings),
            "disclosure": release.disclosure,
        },
    }


def _render_cron_command(directory: Path, file: str) -> str:
    """Render the command that cron runs."""
    # cron searches only a few directories for programs, and ends the command at an unescaped %.
    run_command = f"{shlex.quote(_find_program())} run {shlex.quote(file)}"
    command = f"cd {shlex.quote(str(directory))} && {run_command}"
    return command.replace("%", r"\%")


def _find_program() -> str:
    """Return the path of the command next to this Python; its name if there is none."""
    script = Path(sys.executable).with_name("dbanon")
    return str(script) if script.exists() else shutil.which("dbanon") or "dbanon"


PAGE_BUILDERS: Mapping[str, Callable[..., TemplateValues]] = {
    "columns": describe_columns,
    "trees": describe_trees,
    "sweep": describe_sweep,
    "job": describe_job,
    "run": describe_run,
}
