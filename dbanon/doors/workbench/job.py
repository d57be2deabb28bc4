"""The job of the current decisions: its options, the files of its trees, and its command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbanon.doors.jobfile.init import SCHEMA
from dbanon.doors.spelling import build_job_command
from dbanon.doors.workbench import forms
from dbanon.doors.workbench.state import KEEP, Workbench
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.sessions.names import RelationName, parse_relation

if TYPE_CHECKING:
    from dbanon.doors.workbench.state import JobChoice, TreeChoice


def job_options(bench: Workbench) -> dict[str, Any]:
    """The options of the release that was chosen, as a job file has them."""
    point, swept = bench.chosen, bench.current_sweep
    if point is None:
        return {} if bench.opened is None else dict(bench.opened.options)
    policy = None if swept is None else swept.policies.get(point.k)
    options: dict[str, Any] = {
        "method": point.method,
        "refine": point.refine,
        "recoding": point.recoding,
    }
    if policy is not None:
        options["nulls"] = None if policy.nulls == "error" else policy.nulls
        options["max_suppression"] = policy.max_suppression or None
    return {name: value for name, value in options.items() if value is not None}


def more_keys(choice: JobChoice) -> dict[str, Any]:
    """Further keys of the job in its file."""
    keys: dict[str, Any] = {}
    if choice.export:
        path = f"out/{{job}}/{{release}}.{choice.export}"
        keys["export"] = [{"format": choice.export, "path": path, "keep_last": 12}]
    if choice.report:
        keys["report"] = "out/{job}/{release}.html"
    if choice.schedule:
        keys["schedule"] = choice.schedule
    return keys


def tree_files(bench: Workbench, choice: JobChoice) -> dict[str, str]:
    """Names of the files that suggested trees are kept in beside the job file, by column."""
    stem = choice.file.rpartition(".")[0]
    return {
        name: f"{stem}.tree-{list(bench.roles).index(name) + 1}.csv"
        for name in bench.hierarchies
        if bench.trees[name].choice.kind == "suggest"
    }


def target_of(bench: Workbench, choice: JobChoice) -> str | None:
    """URL of the database that the job writes to; None for the source's."""
    start = bench.start
    return f"duckdb:///{choice.place}" if start.needs_place else start.target


def chosen_command(bench: Workbench) -> str:
    """The command that makes the chosen release; empty until one is chosen."""
    swept = bench.current_sweep
    policy = None if swept is None or bench.chosen is None else swept.policies.get(bench.chosen.k)
    if policy is None:
        return ""
    choice = bench.job or forms.job_first(bench)
    files = tree_files(bench, choice)
    hierarchies = {
        name: _in_text(bench.trees[name].choice, files.get(name, "")) for name in bench.hierarchies
    }
    job = _job(bench, choice, policy)
    return build_job_command(bench.shown_url, job, hierarchies, target_of(bench, choice))


def _job(bench: Workbench, choice: JobChoice, policy: Policy) -> Job:
    """The job of the current decisions.

    Parameters
    ----------
    policy : that of the chosen release, except for its method.
    """
    options: dict[str, Any] = {"nulls": "error", "max_suppression": 0.0} | job_options(bench)
    policy = replace(policy, k=bench.k, hierarchies={}, **options)
    return Job(
        table=bench.start.table,
        output=str(RelationName(SCHEMA, parse_relation(choice.output).name)),
        quasi_identifiers=bench.quasi_identifiers,
        sensitive=bench.sensitive,
        keep=tuple(name for name, role in bench.roles.items() if role == KEEP),
        entity=bench.entity,
        key=bench.start.key,
        reading=bench.start.reading,
        policy=policy,
        hierarchies=dict(bench.hierarchies),
        output_kind=choice.kind,
    )


def _in_text(choice: TreeChoice, file: str) -> str:
    """A tree as the command line has it."""
    plain: Mapping[str, Any] = choice.plain(file)
    if "file" in plain:
        return str(plain["file"])
    if "name" in plain:
        return f"name:{plain['name']}"
    return json.dumps(plain)
