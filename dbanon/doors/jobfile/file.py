"""Reads and checks a job file, and turns its jobs into the ``Job`` that every door uses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dbanon.data.option import all_parameters, build_options
from dbanon.doors.engines import Engine
from dbanon.doors.jobfile.columns import QuasiIdentifierColumn, hierarchies_of, models_of
from dbanon.doors.jobfile.document import Document, read
from dbanon.doors.jobfile.expectations import expectations_of
from dbanon.doors.jobfile.field_types import date_variables, expand, problem_text
from dbanon.doors.jobfile.models import EngineSpec, JobFileSpec, JobSpec, chain_of, entity_options
from dbanon.doors.jobfile.outcome import Notice
from dbanon.doors.jobfile.problems import (
    note_misfits,
    note_names,
    note_nulls,
    note_passwords,
    note_refusals,
)
from dbanon.errors import DbanonError, InvalidParameter, nearest_names
from dbanon.job.export import Export, is_iceberg_table
from dbanon.job.job import Job
from dbanon.job.private import (
    PrivateJob,
    build_option_refusal,
    private_job,
    private_method_options,
    refuse_private_options,
)
from dbanon.job.requirements import require_evaluation
from dbanon.job.rules import BY_RULES
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.folders import FILE, is_row_file_url
from dbanon.stores.objects import is_object

_PRIVATE = frozenset(option.name for option in private_method_options())
# Options in a file's defaults that also apply to methods of synthetic rows.
_SHARED = frozenset(option.name for option in all_parameters(PrivateJob))


# URLs of files by a relative path: three slashes precede a relative path, four an absolute one.
_LOCAL_URL = re.compile(
    r"(?P<scheme>(?:duckdb|sqlite)(?:\+\w+)?:///(?!file:)|file:)(?P<path>(?!\w+://)[^/:~].*)",
    re.DOTALL,
)
# Valid top-level keys, to check the other jobs of a file whose own keys are invalid.
_VALID_HEAD = {"version": 1, "source": {"url": "sqlite:///any.db"}}


@dataclass(frozen=True)
class FileJob:
    """A job of a file.

    Parameters
    ----------
    name : of the job, used for its lock, log lines and file names.
    job : the job as every door uses it.
    source, target : URLs with variables; no target means the source's database. With ``of_file``
        the source is a path relative to the job file.
    keep_last : number of releases to keep behind its view, including the current one; None for all.
    retries : maximum number of repetitions after a database failure.
    report : path of its report, with variables, ``{job}`` and ``{release}``; None for no report.
    notices : notifications about how it ended.
    schedule : cron schedule, for information only; None if the file has none.
    engine : cluster that runs the job, with variables; None for this process.
    creates_chain : whether its first run creates the chain that it names.
    """

    name: str
    job: Job | PrivateJob
    source: str
    target: str | None
    keep_last: int | None
    retries: int
    report: str | None
    notices: tuple[Notice, ...] = ()
    schedule: str | None = None
    engine: Engine | None = None
    of_file: bool = False
    creates_chain: bool = False

    @property
    def max_superseded(self) -> int | None:
        """Maximum number of superseded releases to keep; None for all."""
        return None if self.keep_last is None else self.keep_last - 1


@dataclass(frozen=True)
class JobFile:
    """A valid job file.

    Parameters
    ----------
    metrics : path of the metrics file, with variables; None for no metrics.
    """

    file: Path
    jobs: tuple[FileJob, ...]
    metrics: str | None = None

    def chosen(self, names: Sequence[str]) -> tuple[FileJob, ...]:
        """Return the named jobs in the order of the file, or all jobs if ``names`` is empty.

        Raises
        ------
        InvalidParameter : there is no job of a name.
        """
        job_names = [job.name for job in self.jobs]
        for name in names:
            if name not in job_names:
                raise InvalidParameter(
                    f'The job file has no job "{name}".',
                    hint=nearest_names(name, job_names)
                    or f"Name one of its jobs: {', '.join(job_names)}.",
                )
        return tuple(job for job in self.jobs if not names or job.name in names)

    def with_variables(
        self, environment: Mapping[str, str] | None = None, day: date | None = None
    ) -> JobFile:
        """Return the file with every ``${VAR}`` expanded from the environment.

        Parameters
        ----------
        day : of the run, for ``${year}`` and ``${month}`` unless the environment sets them; None
            for today in local time.

        Raises
        ------
        JobFileInvalid : a variable has no value.
        """
        values = date_variables(day or datetime.now().astimezone().date())
        values |= os.environ if environment is None else environment
        expansion = _Expansion(Document(self.file), values)
        jobs = tuple(map(expansion.job, self.jobs))
        metrics = expansion.path(self.metrics, "metrics")
        expansion.document.require()
        return replace(self, jobs=jobs, metrics=metrics)


# Text or optional text; expansion preserves the type.
_Text = TypeVar("_Text", str, "str | None")


@dataclass(frozen=True)
class _Expansion:
    """Expands the variables of a job file; a variable without a value becomes a problem.

    Parameters
    ----------
    values : of the variables, by name.

    Each method's ``key`` is the key of the file under which problems are recorded.
    """

    document: Document
    values: Mapping[str, str]

    def text(self, text: _Text, key: str) -> _Text:
        """Expand the variables of a text."""
        if text is None:
            return text
        try:
            return expand(text, self.values)
        except InvalidParameter as error:
            self.document.refuse((key,), error.message)
            return text

    def path(self, text: _Text, key: str) -> _Text:
        """Expand the variables of a path, and resolve it against the job file's directory."""
        expanded_path = self.text(text, key)
        if expanded_path is None:
            return expanded_path
        if is_object(expanded_path) or is_iceberg_table(expanded_path):
            return expanded_path
        return os.path.join(self.document.file.resolve().parent, os.path.expanduser(expanded_path))

    def url(self, url: _Text, key: str) -> _Text:
        """Expand the variables of a URL, and resolve its file against the job file's directory."""
        expanded_url = self.text(url, key)
        if expanded_url is None:
            return expanded_url
        local = _LOCAL_URL.fullmatch(expanded_url)
        if local is None:
            return expanded_url
        directory = str(self.document.file.resolve().parent)
        return local["scheme"] + os.path.normpath(os.path.join(directory, local["path"]))

    def notice(self, notice: Notice) -> Notice:
        """Expand the webhook of a notice, which must become an https URL."""
        webhook = self.text(notice.webhook, "webhook")
        if webhook is not None and webhook != notice.webhook and not webhook.startswith("https://"):
            self.document.refuse(("webhook",), "must be an https URL in the environment")
        return replace(notice, webhook=webhook)

    def engine(self, engine: Engine) -> Engine:
        """Expand the master and the settings of a cluster."""
        conf = {name: self.text(text, "engine") for name, text in engine.conf.items()}
        return replace(engine, master=self.text(engine.master, "engine"), conf=conf)

    def job(self, job: FileJob) -> FileJob:
        """Expand all texts of a job, and turn a source path into a URL."""
        return replace(
            job,
            engine=None if job.engine is None else self.engine(job.engine),
            notices=tuple(map(self.notice, job.notices)),
            source=_file_url(self.path(job.source, "source"))
            if job.of_file
            else self.url(job.source, "source"),
            of_file=False,
            target=self.url(job.target, "target"),
            report=self.path(job.report, "report"),
            job=job.job.with_paths(
                lambda path: self.path(path, "export"), lambda text: self.text(text, "chain")
            ),
        )


def _file_url(path: str) -> str:
    return path if is_object(path) else f"{FILE}{path}"


def read_job_file(file: Path | str, *, inline_password: bool = False) -> JobFile:
    """Read and check a job file, without a database.

    Parameters
    ----------
    inline_password : allow passwords in its URLs.

    Raises
    ------
    JobFileInvalid : lists all problems, each with its line and path.
    """
    document = read(Path(file))
    spec: JobFileSpec | None = None
    if not isinstance(document.value, dict):
        if not document.problems:
            document.refuse((), "must be keys with values: version, source, jobs")
        document.require()
    note_nulls(document)
    try:
        spec = JobFileSpec.model_validate(document.value)
    except ValidationError as error:
        note_refusals(document, error)
    note_names(document)
    if not inline_password:
        note_passwords(document)
    if spec is None or document.problems:
        _note_others(document)
        document.require()
    assert spec is not None
    jobs = [_job(document, spec, index) for index in range(len(spec.jobs))]
    document.require()
    valid_jobs = tuple(job for job in jobs if job is not None)
    return JobFile(document.file, valid_jobs, spec.metrics)


def _note_others(document: Document) -> None:
    """Record problems of the valid jobs in a file that is invalid elsewhere."""
    top_keys = {problem.path.partition(".")[0] for problem in document.problems}
    jobs = document.value.get("jobs")
    if "defaults" in top_keys or not isinstance(jobs, list):
        return
    rejected = {
        problem.path.split(".")[1] for problem in document.problems if "jobs." in problem.path
    }
    for index, job in enumerate(jobs):
        if str(index) in rejected:
            note_misfits(document, job, index)
            continue
        try:
            job_alone = {"defaults": document.value.get("defaults", {}), "jobs": [job]}
            parsed = JobFileSpec.model_validate({**_VALID_HEAD, **job_alone})
        except ValidationError:
            continue
        _job(document, parsed.model_copy(update={"jobs": [*parsed.jobs] * (index + 1)}), index)


def with_memory_limit(job: FileJob, memory: int) -> FileJob:
    """Limit a job's memory, in bytes, unless the file sets a limit."""
    if job.job.memory_limit is not None:
        return job
    return replace(job, job=replace(job.job, memory_limit=memory))


def _job(document: Document, spec: JobFileSpec, index: int) -> FileJob | None:
    """Build a job; if it is refused, record the problem and return None."""
    job_spec, path = spec.jobs[index], ("jobs", index)
    hierarchies = hierarchies_of(document, job_spec.columns, path)
    models = models_of(document, job_spec.columns, path)
    exports = _exports(document, job_spec, path)
    if hierarchies is None or models is None or exports is None:
        return None
    options = {
        name: getattr(keys, name) for keys in (spec.defaults, job_spec) for name in _stated(keys)
    }
    on_new_column, retries = (options.pop(name, None) for name in ("on_new_column", "retries"))
    engine = _engine(options.pop("engine", None))
    private = options.get("method") in PRIVATE_METHODS
    if "k" not in options and not private:
        document.refuse((*path, "k"), "is missing: write it here, or in defaults")
        return None
    by_role = _by_role(job_spec, ("quasi_identifier", "sensitive", "keep", "by", "pseudonym"))
    columns = {n: c for n, c in job_spec.columns.items() if isinstance(c, QuasiIdentifierColumn)}
    if private:
        # The file's defaults may be for other methods, but the job's own options must fit.
        options = {name: getattr(job_spec, name) for name in _stated(job_spec)} | {
            name: value
            for name, value in options.items()
            if name in _SHARED or name in PrivateJob.__dataclass_fields__
        }
        for name in ("on_new_column", "retries", "engine"):
            options.pop(name, None)
    try:
        job_options = {
            **options,
            "table": job_spec.table,
            "output": _output(spec, job_spec),
            "output_kind": "table" if job_spec.output.view is None else "view",
            "if_exists": job_spec.output.if_exists,
            "where": job_spec.where,
            **entity_options(job_spec.entity),
            "chain": chain_of(job_spec.chain),
            "expect": expectations_of(job_spec.expect),
            "key": tuple(job_spec.key),
            "quasi_identifiers": by_role["quasi_identifier"],
            "sensitive": by_role["sensitive"],
            "keep": by_role["keep"],
            "by": by_role["by"],
            "pseudonyms": by_role["pseudonym"],
            "hierarchies": hierarchies,
            "models": models,
            "exports": exports,
            **{
                option: {n: getattr(c, key) for n, c in columns.items() if getattr(c, key)}
                for option, key in (("steps", "step"), ("kinds", "kind"))
            },
            "weights": {n: c.weight for n, c in columns.items() if c.weight is not None},
            "orders": {n: tuple(c.order) for n, c in columns.items() if c.order is not None},
            "roles": tuple(job_spec.columns) or None,
            "declared": None if job_spec.columns else BY_RULES,
            "on_new_column": on_new_column or "halt",
            "name": job_spec.name,
            "door": "job",
        }
        job = _private(spec, job_spec, job_options) if private else _make_job(job_options)
        if isinstance(job, Job):
            _require_runnable(spec, job_spec, job, on_cluster=engine is not None)
    except DbanonError as error:
        document.refuse(path, problem_text(error))
        return None
    return FileJob(
        job_spec.name,
        job,
        str(spec.source.url or spec.source.path),
        spec.target.url,
        job_spec.output.keep_last,
        0 if private else retries or 0,
        job_spec.report,
        tuple(Notice(tuple(o.on), tuple(o.command or ()), o.webhook) for o in job_spec.notify),
        job_spec.schedule,
        None if private else engine,
        spec.source.path is not None,
        job_spec.chain is not None and job_spec.chain.create,
    )


def _require_runnable(spec: JobFileSpec, job_spec: JobSpec, job: Job, *, on_cluster: bool) -> None:
    """Refuse a job that every run would refuse, whatever the rows of its source.

    Raises
    ------
    InvalidParameter : a chain of files without a database or with an HTML report, attacks without
        an evaluation, or expectations on a cluster.
    """
    if on_cluster and job.expect is not None:
        raise InvalidParameter("expect is not available on a cluster: leave out expect or engine")
    is_page = job_spec.report is not None and job_spec.report.endswith(".html")
    if job.chain is not None and is_page:
        raise InvalidParameter(
            "HTML reports are not available for chains, which are not evaluated: report must be"
            " .json or .txt"
        )
    of_files = bool(spec.source.path) or is_row_file_url(str(spec.source.url))
    if job.chain is not None and of_files and spec.target.url is None:
        raise InvalidParameter(
            "A chain keeps its state in a database, not in a file: name a database (target.url)"
        )
    require_evaluation((job.with_evaluation() if is_page else job).policy)


def _by_role(job_spec: JobSpec, roles: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Group the columns of a job by role."""
    return {
        role: tuple(name for name, column in job_spec.columns.items() if column.role == role)
        for role in roles
    }


def _engine(spec: EngineSpec | None) -> Engine | None:
    return None if spec is None else Engine(spec.name, spec.master, spec.tasks, spec.conf)


def _make_job(options: dict[str, Any]) -> Job:
    refuse_private_options(options.get("method"), options)
    job_options = {name: value for name, value in options.items() if name not in _PRIVATE}
    return build_options(Job, job_options)


def _private(spec: JobFileSpec, job_spec: JobSpec, options: dict[str, Any]) -> PrivateJob:
    """Build a job of a method of synthetic rows."""
    if options.pop("declared") is not None:
        raise build_option_refusal("declared", options["method"])
    if options.pop("expect") is not None:
        raise build_option_refusal("expect", options["method"])
    if job_spec.retries or job_spec.engine:
        raise build_option_refusal("retries" if job_spec.retries else "engine", options["method"])
    return private_job(options | {"target": spec.target.url})


def _stated(options: Any) -> list[str]:
    """Return the names of the options that the file sets."""
    shared = {*spec_options()}
    return [name for name in options.model_fields_set if name in shared]


def spec_options() -> tuple[str, ...]:
    """Return the names of the options that both jobs and defaults accept."""
    return tuple(type(JobFileSpec.model_fields["defaults"].default).model_fields)


def _output(spec: JobFileSpec, job_spec: JobSpec) -> str:
    """Return the output's name, by default in the target's schema."""
    name = parse_relation(str(job_spec.output.table or job_spec.output.view))
    schema = spec.target.schema_
    return str(name if name.schema or not schema else RelationName(schema, name.name))


def _exports(
    document: Document, job_spec: JobSpec, path: tuple[str | int, ...]
) -> tuple[Export, ...] | None:
    """Build the exports of a job, with its name in their paths; None if one was refused."""
    exports = []
    for index, spec in enumerate(job_spec.export):
        fields = spec.model_dump()
        try:
            exports.append(Export(**{**fields, "path": spec.path.replace("{job}", job_spec.name)}))
        except DbanonError as error:
            document.refuse((*path, "export", index), problem_text(error))
    return tuple(exports) if len(exports) == len(job_spec.export) else None
