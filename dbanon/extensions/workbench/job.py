"""The job of the current decisions: roles, options, the files of its trees, and its command."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.advice.roles import find_design_weight
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.doors.jobfile.init import SCHEMA, propose_column
from dbanon.doors.spelling import build_job_command
from dbanon.extensions.workbench import forms
from dbanon.extensions.workbench.state import KEEP, RISK_COLUMNS, Workbench
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.rules import WEIGHT
from dbanon.sessions.names import RelationName, parse_relation

if TYPE_CHECKING:
    from dbanon.extensions.workbench.state import JobChoice, TreeChoice
    from dbanon.run.advise import ProposedRoles

# The number of exported files that the job keeps: a year of monthly releases.
_N_KEPT_EXPORTS = 12


def list_proposed_roles(proposals: ProposedRoles) -> dict[str, str]:
    """List the proposed role of each column: as in ``dbanon init``, one that job files have."""
    roles = {
        column.name: propose_column(column.attribute, proposals.roles[column.name]).role
        for column in proposals.profile.columns
    }
    design_weight = find_design_weight(proposals.roles, proposals.profile)
    return roles if design_weight is None else roles | {design_weight: WEIGHT}


def build_job_options(bench: Workbench) -> JsonObject:
    """Build the options of the chosen trial release for a job file.

    Without one, these are the options of the job file that was opened, if any.
    """
    # A point is a trial release, with its method, refinement and recoding. Its other options are in
    # the policy that the sweep has for its k.
    point, sweep = bench.chosen_trial, bench.current_sweep
    if point is None:
        return {} if bench.opened_decisions is None else dict(bench.opened_decisions.options)
    policy = None if sweep is None else sweep.policies.get(point.k)
    options: JsonObject = {
        "method": point.method,
        "refine": point.refine,
        "recoding": point.recoding,
    }
    if policy is not None:
        # Job files leave out the defaults, "error" and 0.
        options["nulls"] = None if policy.nulls == "error" else policy.nulls
        options["max_suppression"] = policy.max_suppression or None
    return {name: value for name, value in options.items() if value is not None}


def build_further_keys(choice: JobChoice) -> JsonObject:
    """Build the keys of a job file for exports, the report, the schedule and the risk."""
    keys: JsonObject = {}
    if choice.export:
        path = f"out/{{job}}/{{release}}.{choice.export}"
        keys["export"] = [{"format": choice.export, "path": path, "keep_last": _N_KEPT_EXPORTS}]
    if choice.report:
        keys["report"] = "out/{job}/{release}.html"
    if choice.schedule:
        keys["schedule"] = choice.schedule
    if choice.risk is not None:
        values = {name: text for name, text in vars(choice.risk).items() if text}
        keys["risk"] = {
            name: text if name in RISK_COLUMNS else float(text) for name, text in values.items()
        } | {"file": "private/{job}-{release}.html"}
    return keys


def name_tree_files(bench: Workbench, choice: JobChoice) -> dict[str, str]:
    """Name the files for suggested trees, by column. They are written next to the job file."""
    stem = choice.file.rpartition(".")[0]
    return {
        name: f"{stem}.tree-{list(bench.roles).index(name) + 1}.csv"
        for name in bench.hierarchies
        if bench.trees[name].choice.kind == "suggest"
    }


def find_target_url(bench: Workbench, choice: JobChoice) -> str | None:
    """Return the URL of the database that the job writes to; None for the source's."""
    arguments = bench.arguments
    return (
        f"duckdb:///{choice.database_file}" if arguments.needs_database_file else arguments.target
    )


def render_chosen_command(bench: Workbench) -> str:
    """Render the command that makes the chosen release; empty until one is chosen."""
    sweep = bench.current_sweep
    policy = (
        None
        if sweep is None or bench.chosen_trial is None
        else sweep.policies.get(bench.chosen_trial.k)
    )
    if policy is None:
        return ""
    choice = bench.job_choice or forms.propose_job_choice(bench)
    files = name_tree_files(bench, choice)
    hierarchies = {
        name: _spell_hierarchy(bench.trees[name].choice, files.get(name, ""))
        for name in bench.hierarchies
    }
    job = _build_job(bench, choice, policy)
    return build_job_command(bench.shown_url, job, hierarchies, find_target_url(bench, choice))


def _build_job(bench: Workbench, choice: JobChoice, policy: Policy) -> Job:
    """Build the job of the current decisions.

    Parameters
    ----------
    policy : the policy of the chosen release, without method, refinement and recoding.
    """
    # A job file leaves out these two options if they have these values.
    options: JsonObject = {"nulls": "error", "max_suppression": 0.0} | build_job_options(bench)
    policy = replace(policy, k=bench.k, hierarchies={}, **options)
    return Job(
        table=bench.arguments.table,
        output=str(RelationName(SCHEMA, parse_relation(choice.output).name)),
        quasi_identifiers=bench.quasi_identifiers,
        sensitive=bench.sensitive,
        keep=tuple(name for name, role in bench.roles.items() if role == KEEP),
        entity=bench.entity,
        design_weight=bench.design_weight,
        key=bench.arguments.key,
        reading=bench.arguments.reading,
        policy=policy,
        hierarchies=dict(bench.hierarchies),
        output_kind=choice.kind,
    )


def _spell_hierarchy(choice: TreeChoice, file: str) -> str:
    """Spell a hierarchy for the command line."""
    hierarchy: JsonMapping = choice.to_job_file(file)
    if "file" in hierarchy:
        return str(hierarchy["file"])
    if "name" in hierarchy:
        return f"name:{hierarchy['name']}"
    return json.dumps(hierarchy)
