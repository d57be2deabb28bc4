"""Reopens a job file that the workbench saved, as values of its forms."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbanon.data.option import parameters
from dbanon.doors.jobfile.file import FileJob, read_job_file
from dbanon.doors.jobfile.init import SCHEMA
from dbanon.doors.workbench.job import more_keys
from dbanon.doors.workbench.state import (
    DATE_STEPS,
    KEEP,
    ROLES,
    JobChoice,
    JobDecisions,
    JobFileCommands,
    Start,
    TreeChoice,
)
from dbanon.errors import InvalidParameter
from dbanon.job.job import Job
from dbanon.job.reading import Reading
from dbanon.stores.folders import is_of_files

ENDINGS = (".yaml", ".yml")
_OPTIONS = ("method", "refine", "recoding", "nulls", "max_suppression")
# The keys that the workbench writes, by their parent.
_KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset(("version", "source", "target", "defaults", "jobs")),
    "source": frozenset(("url",)),
    "target": frozenset(("url", "schema")),
    "defaults": frozenset(("k", "on_new_column", *_OPTIONS)),
    "job": frozenset(
        (
            "name",
            "table",
            "key",
            "entity",
            "expect",
            "columns",
            "output",
            "export",
            "report",
            "schedule",
            "nulls",
            "max_suppression",
            *(option.name for option in parameters(Reading)),
        )
    ),
    "output": frozenset(("view", "table", "keep_last")),
    "column": frozenset(("role", "reason", "hierarchy", "kind")),
}
_KEPT_VIEWS = 2
_DUCKDB = "duckdb:///"


def open_job_file(file: Path, commands: JobFileCommands, memory: int) -> Start:
    """The start of a workbench that continues with a job file.

    Parameters
    ----------
    memory : limit of trials, in bytes.

    Raises
    ------
    JobFileInvalid : the file is malformed, or a variable has no value.
    InvalidParameter : it is in another folder, or has a key that no form of the workbench has.
    """
    if file.resolve().parent != Path.cwd():
        raise InvalidParameter(
            "The job file is in another folder.",
            hint=f"Change to its folder first: cd {shlex.quote(str(file.resolve().parent))}",
        )
    jobs = read_job_file(file).with_variables().jobs
    values: dict[str, Any] = read_document(file).content
    strange = [] if len(jobs) == 1 else ["jobs"]
    strange = strange or list(_unknown_keys(values, jobs[0]))
    if strange:
        raise InvalidParameter(
            f"The workbench has no form for this in the job file: {', '.join(strange)}.",
            hint=f"Run it with dbanon run {shlex.quote(str(file))}, and change it in an editor. The"
            " workbench opens only files that it could have saved.",
        )
    [job], [written] = map(_relative_to_directory, jobs), values["jobs"]
    assert isinstance(job.job, Job)
    options = {**values.get("defaults", {}), **written}
    columns: Mapping[str, Mapping[str, Any]] = written["columns"]
    is_of_file = is_of_files(job.source)
    return Start(
        job.source,
        job.job.table,
        commands,
        key=job.job.key,
        reading=job.job.reading,
        target=None if is_of_file else job.target,
        memory=memory,
        opened=JobDecisions(
            choice=_choice(file, job, written),
            roles={name: column["role"] for name, column in columns.items()},
            reasons={n: c["reason"] for n, c in columns.items() if c["role"] == KEEP},
            trees={
                name: tree
                for name, column in columns.items()
                if (tree := _tree_choice(column.get("hierarchy"))) is not None
            },
            options={name: options[name] for name in _OPTIONS if name in options},
            k=job.job.policy.k,
            text=file.read_text("utf-8"),
        ),
    )


def _relative_to_directory(job: FileJob) -> FileJob:
    """The job with paths as the workbench writes them: relative to the current folder."""
    folder = f"{Path.cwd()}{os.sep}"
    target = None if job.target is None else job.target.replace(folder, "", 1)
    return replace(job, source=job.source.replace(folder, "", 1), target=target)


def _choice(file: Path, job: FileJob, written: Mapping[str, Any]) -> JobChoice:
    """The choices that the file was written with."""
    kind = "view" if "view" in written["output"] else "table"
    database = (job.target or "").removeprefix(_DUCKDB)
    export = written.get("export") or [{"format": ""}]
    return JobChoice(
        file.name,
        job.name,
        str(written["output"][kind]),
        kind,
        place=database if is_of_files(job.source) else "released.duckdb",
        export=export[0].get("format", ""),
        report="report" in written,
        schedule=written.get("schedule", ""),
    )


def _tree_choice(hierarchy: Mapping[str, Any] | None) -> TreeChoice | None:
    """A tree as the form has it; None for no tree, and for one that the form does not offer."""
    if not hierarchy:
        return None
    kind = next(iter(hierarchy))
    value = hierarchy[kind]
    if kind == "intervals":
        choice = TreeChoice(kind, ", ".join(map(str, value)))
    else:
        choice = TreeChoice(kind, value if isinstance(value, str) else "")
    is_offered = kind in ("intervals", "name", "file") or hierarchy in (
        {"dates": list(DATE_STEPS)},
        {"mask": True},
    )
    return choice if is_offered and choice.plain("") == hierarchy else None


def _unknown_keys(values: Mapping[str, Any], job: FileJob) -> Iterator[str]:
    """Keys that no form has, and values that the workbench never writes."""
    [written] = values["jobs"]
    parts = {
        "": values,
        "source": values["source"],
        "target": values["target"],
        "defaults": values.get("defaults", {}),
        "job": written,
        "output": written["output"],
    }
    for part, keys in parts.items():
        yield from sorted(set(keys) - _KEYS[part])
    if not written.get("columns"):
        yield "rules in place of columns"
    for name, column in written.get("columns", {}).items():
        yield from (f"{key} of {name}" for key in sorted(set(column) - _KEYS["column"]))
        if column["role"] not in ROLES:
            yield f"role {column['role']} of {name}"
        if column.get("hierarchy") and _tree_choice(column["hierarchy"]) is None:
            yield f"hierarchy of {name}"
    if values["target"].get("schema", SCHEMA) != SCHEMA:
        yield "schema"
    if written["output"].get("keep_last", _KEPT_VIEWS) != _KEPT_VIEWS:
        yield "keep_last"
    if is_of_files(job.source) and not (job.target or "").startswith(_DUCKDB):
        yield "target"
    expected = more_keys(_choice(job=job, written=written, file=Path()))
    for key in ("export", "report", "schedule"):
        if written.get(key) != expected.get(key):
            yield key
