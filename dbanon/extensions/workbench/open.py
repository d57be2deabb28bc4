"""Reopens a job file that the workbench saved, as values of its forms."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path

from dbanon.data.option import parameters
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.doors.jobfile.document import read_document
from dbanon.doors.jobfile.file import FileJob, read_job_file
from dbanon.doors.jobfile.init import SCHEMA
from dbanon.errors import InvalidParameter
from dbanon.extensions.workbench.job import build_further_keys
from dbanon.extensions.workbench.state import (
    DATE_STEPS,
    KEEP,
    ROLES,
    JobChoice,
    JobDecisions,
    RiskChoice,
    SaveReport,
    TreeChoice,
    WorkbenchArguments,
)
from dbanon.job.job import Job
from dbanon.job.reading import Reading
from dbanon.stores.schemes import is_row_file_url

JOB_FILE_SUFFIXES = (".yaml", ".yml")
# Options of a release, which the workbench writes under ``defaults`` or in the job.
_RELEASE_OPTIONS = ("method", "refine", "recoding", "nulls", "max_suppression")
# The keys that the workbench writes, by the section of the file.
_KNOWN_KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset(("version", "source", "target", "defaults", "jobs")),
    "source": frozenset(("url",)),
    "target": frozenset(("url", "schema")),
    "defaults": frozenset(("k", "on_new_column", *_RELEASE_OPTIONS)),
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
            "risk",
            "schedule",
            "nulls",
            "max_suppression",
            *(option.name for option in parameters(Reading)),
        )
    ),
    "output": frozenset(("view", "table", "keep_last")),
    "column": frozenset(("role", "reason", "hierarchy", "kind")),
}
# How many releases of a view are kept, as ``dbanon init`` writes it into job files.
_KEEP_LAST = 2
_DUCKDB = "duckdb:///"


def open_job_file(file: Path, save_report: SaveReport, memory_bytes: int) -> WorkbenchArguments:
    """Return the arguments for a workbench that continues with a job file.

    Parameters
    ----------
    save_report : as in ``WorkbenchArguments``.
    memory_bytes : memory limit of trial releases.

    Raises
    ------
    JobFileInvalid : the file is malformed, or a variable has no value.
    InvalidParameter : the file is in another folder, or has keys without a form in the workbench.
    """
    if file.resolve().parent != Path.cwd():
        raise InvalidParameter(
            "The job file is in another folder.",
            hint=f"Change to its folder first: cd {shlex.quote(str(file.resolve().parent))}",
        )
    jobs = read_job_file(file).with_variables().jobs
    document: JsonObject = read_document(file).content
    unknown_keys = [] if len(jobs) == 1 else ["jobs"]
    unknown_keys = unknown_keys or list(_find_unknown_keys(document, jobs[0]))
    if unknown_keys:
        raise InvalidParameter(
            f"The workbench has no form for this in the job file: {', '.join(unknown_keys)}.",
            hint=f"Run it with dbanon run {shlex.quote(str(file))}, and change it in an editor. The"
            " workbench opens only files that it could have saved.",
        )
    # ``job`` is the job of the file, with URLs, and ``job.job`` what all interfaces share: table,
    # columns and policy. ``job_keys`` has the keys as they are written in the file.
    [job] = map(_make_paths_relative, jobs)
    [job_keys] = document["jobs"]
    assert isinstance(job.job, Job)
    options = {**document.get("defaults", {}), **job_keys}
    columns: Mapping[str, JsonMapping] = job_keys["columns"]
    reads_file = is_row_file_url(job.source)
    return WorkbenchArguments(
        url=job.source,
        table=job.job.table,
        save_report=save_report,
        key=job.job.key,
        reading=job.job.reading,
        target=None if reads_file else job.target,
        memory_bytes=memory_bytes,
        opened_decisions=JobDecisions(
            choice=_build_job_choice(file, job, job_keys),
            roles={name: column["role"] for name, column in columns.items()},
            reasons={
                name: column["reason"] for name, column in columns.items() if column["role"] == KEEP
            },
            trees={
                name: tree
                for name, column in columns.items()
                if (tree := _convert_hierarchy(column.get("hierarchy"))) is not None
            },
            options={name: options[name] for name in _RELEASE_OPTIONS if name in options},
            k=job.job.policy.k,
            text=file.read_text("utf-8"),
        ),
    )


def _make_paths_relative(job: FileJob) -> FileJob:
    """Return the job with paths as the workbench writes them: relative to the current folder."""
    folder = f"{Path.cwd()}{os.sep}"
    target = None if job.target is None else job.target.replace(folder, "", 1)
    return replace(job, source=job.source.replace(folder, "", 1), target=target)


def _build_job_choice(file: Path, job: FileJob, job_keys: JsonMapping) -> JobChoice:
    """Build the values of the job form from the file.

    Parameters
    ----------
    job_keys : the keys and values of the job, as they are written in the file.
    """
    kind = "view" if "view" in job_keys["output"] else "table"
    database = (job.target or "").removeprefix(_DUCKDB)
    # The form has at most one export.
    export = job_keys.get("export") or [{"format": ""}]
    return JobChoice(
        file=file.name,
        name=job.name,
        output=str(job_keys["output"][kind]),
        kind=kind,
        database_file=database if is_row_file_url(job.source) else "released.duckdb",
        export=export[0].get("format", ""),
        report="report" in job_keys,
        schedule=job_keys.get("schedule", ""),
        risk=_build_risk_choice(job_keys.get("risk")),
    )


def _build_risk_choice(keys: JsonMapping | None) -> RiskChoice | None:
    """Build the fields of the form from the key ``risk``, without keys that have no field."""
    if keys is None:
        return None
    values = {field.name: keys.get(field.name) for field in fields(RiskChoice)}
    return RiskChoice(
        **{
            # The form takes no exponents.
            name: value if isinstance(value, str) else f"{Decimal(str(value)).normalize():f}"
            for name, value in values.items()
            if value is not None
        }
    )


def _convert_hierarchy(hierarchy: JsonMapping | None) -> TreeChoice | None:
    """Convert a hierarchy of a job file to a choice in the form.

    The result is None if there is no hierarchy, or if the form cannot show it.
    """
    if not hierarchy:
        return None
    # A hierarchy in a job file has one key, its kind, with the kind's argument as the value.
    kind = next(iter(hierarchy))
    argument = hierarchy[kind]
    if kind == "intervals":
        choice = TreeChoice(kind, ", ".join(map(str, argument)))
    else:
        choice = TreeChoice(kind, argument if isinstance(argument, str) else "")
    is_offered = kind in ("intervals", "name", "file") or hierarchy in (
        {"dates": list(DATE_STEPS)},
        {"mask": True},
    )
    return choice if is_offered and choice.to_job_file(suggested_file="") == hierarchy else None


def _find_unknown_keys(document: JsonMapping, job: FileJob) -> Iterator[str]:
    """Yield the keys without a field in a form, and those with values that no form can produce."""
    [job_keys] = document["jobs"]
    sections = {
        "": document,
        "source": document["source"],
        "target": document["target"],
        "defaults": document.get("defaults", {}),
        "job": job_keys,
        "output": job_keys["output"],
    }
    for section, keys in sections.items():
        yield from sorted(set(keys) - _KNOWN_KEYS[section])
    if not job_keys.get("columns"):
        yield "rules in place of columns"
    for name, column in job_keys.get("columns", {}).items():
        yield from (f"{key} of {name}" for key in sorted(set(column) - _KNOWN_KEYS["column"]))
        if column["role"] not in ROLES:
            yield f"role {column['role']} of {name}"
        if column.get("hierarchy") and _convert_hierarchy(column["hierarchy"]) is None:
            yield f"hierarchy of {name}"
    if document["target"].get("schema", SCHEMA) != SCHEMA:
        yield "schema"
    if job_keys["output"].get("keep_last", _KEEP_LAST) != _KEEP_LAST:
        yield "keep_last"
    if is_row_file_url(job.source) and not (job.target or "").startswith(_DUCKDB):
        yield "target"
    # These keys must be as the form would write them.
    # The name of the file does not occur in them.
    expected = build_further_keys(_build_job_choice(job=job, job_keys=job_keys, file=Path()))
    for key in ("export", "report", "risk", "schedule"):
        if job_keys.get(key) != expected.get(key):
            yield key
