"""Reads and checks a job file, and builds the ``Job`` that every interface runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dbanon.data.extension import find_table_format
from dbanon.data.memory import half_of_memory
from dbanon.data.option import all_parameters
from dbanon.data.types import KeywordArguments
from dbanon.doors.engines import Engine
from dbanon.doors.html import needs_evaluation
from dbanon.doors.jobfile.columns import (
    QuasiIdentifierColumn,
    WeightColumn,
    build_models,
    parse_hierarchies,
)
from dbanon.doors.jobfile.document import Document, read_document
from dbanon.doors.jobfile.expectations import build_expectations
from dbanon.doors.jobfile.field_types import build_date_variables, describe_error, expand_variables
from dbanon.doors.jobfile.models import (
    EngineSpec,
    JobFileSpec,
    JobSpec,
    build_chain,
    build_entity_options,
)
from dbanon.doors.jobfile.outcome import Notice
from dbanon.doors.jobfile.problems import (
    record_contradictions,
    record_duplicate_names,
    record_missing_values,
    record_passwords,
    record_validation_errors,
)
from dbanon.doors.jobfile.risk import build_risk, require_risk_options
from dbanon.errors import DbanonError, InvalidParameter, nearest_names
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.private import (
    PrivateJob,
    build_job,
    build_option_refusal,
    build_private_job,
)
from dbanon.job.requirements import require_evaluation
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.schemes import FILE, is_object, is_row_file_url

# The options of private jobs, i.e. of the differentially private methods, whose rows are synthetic.
# Fields of ``PrivateJob`` without an option, such as ``method``, are not among them.
_PRIVATE_JOB_OPTIONS = frozenset(option.name for option in all_parameters(PrivateJob))

# URLs of files with a relative path: three slashes precede a relative path, four an absolute one.
_LOCAL_URL = re.compile(
    r"(?P<scheme>(?:duckdb|sqlite)(?:\+\w+)?:///(?!file:)|file:)(?P<path>(?!\w+://)[^/:~].*)",
    re.DOTALL,
)
# Valid top-level keys, to check single jobs of a file whose top-level keys are invalid.
_VALID_TOP_KEYS = {"version": 1, "source": {"url": "sqlite:///any.db"}}


@dataclass(frozen=True)
class FileJob:
    """A job of a file. "With variables" means that a text may still contain ``${VAR}``.

    Parameters
    ----------
    name : the job's name, which is also used for its lock, log lines and file names.
    job : the job in the form that all interfaces share.
    source : the source's URL, with variables; with ``reads_file``, a path.
    target : the URL of the database for releases, with variables; None for the source's database.
    keep_last : number of releases of the output view to keep, including the current one; None for
        all.
    retries : maximum number of repetitions after a database failure; 0 for private jobs.
    report : path of the job's report, with variables, ``{job}`` and ``{release}``; None for no
        report.
    notices : recipients to notify when the job ends.
    schedule : cron schedule, for information only; None if the job states none.
    engine : cluster that runs the job, with variables; None for this process, which runs all
        private jobs.
    reads_file : whether ``source`` is the path of a file of rows, relative to the job file.
    creates_chain : whether the job's first run creates the chain that the job names.
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
    reads_file: bool = False
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

    def select_jobs(self, names: Sequence[str]) -> tuple[FileJob, ...]:
        """Return the named jobs in the order of the file, or all jobs if ``names`` is empty.

        Raises
        ------
        InvalidParameter : no job has one of the names.
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
        day : the date of the run, from which ``${year}`` and ``${month}`` are set unless the
            environment sets them; None for today in local time.

        Raises
        ------
        JobFileInvalid : a variable has no value.
        """
        variables = build_date_variables(day or datetime.now().astimezone().date())
        variables |= os.environ if environment is None else environment
        expansion = _Expansion(Document(self.file), variables)
        jobs = tuple(map(expansion.expand_job, self.jobs))
        metrics = expansion.expand_path(self.metrics, "metrics")
        expansion.document.require_no_problems()
        return replace(self, jobs=jobs, metrics=metrics)


# A text or an optional text; methods that expand it return None for None.
_Text = TypeVar("_Text", str, "str | None")


@dataclass(frozen=True)
class _Expansion:
    """Expands the variables of a job file, and records a problem for each that has no value.

    The methods' argument ``key`` is the key of the job file at which problems are recorded.

    Parameters
    ----------
    document : the document to which problems are added.
    variables : from name to value.
    """

    document: Document
    variables: Mapping[str, str]

    def expand_text(self, text: _Text, key: str) -> _Text:
        """Expand the variables of a text."""
        if text is None:
            return text
        try:
            return expand_variables(text, self.variables)
        except InvalidParameter as error:
            self.document.add_problem((key,), error.message)
            return text

    def expand_path(self, text: _Text, key: str) -> _Text:
        """Expand the variables of a path, and resolve it against the job file's directory."""
        expanded_path = self.expand_text(text, key)
        if expanded_path is None:
            return expanded_path
        # URLs of object stores and names of tables, such as Iceberg's, are not paths.
        if is_object(expanded_path) or find_table_format(expanded_path, writable_only=True):
            return expanded_path
        return os.path.join(self.document.file.resolve().parent, os.path.expanduser(expanded_path))

    def expand_url(self, url: _Text, key: str) -> _Text:
        """Expand a URL's variables, and resolve a local path against the job file's directory."""
        expanded_url = self.expand_text(url, key)
        if expanded_url is None:
            return expanded_url
        local_url = _LOCAL_URL.fullmatch(expanded_url)
        if local_url is None:
            return expanded_url
        directory = str(self.document.file.resolve().parent)
        return local_url["scheme"] + os.path.normpath(os.path.join(directory, local_url["path"]))

    def expand_notice(self, notice: Notice) -> Notice:
        """Expand the webhook of a notice, which must become an https URL."""
        webhook = self.expand_text(notice.webhook, "webhook")
        # The file may only contain a variable, so an expanded webhook differs from it.
        if webhook is not None and webhook != notice.webhook and not webhook.startswith("https://"):
            self.document.add_problem(("webhook",), "must be an https URL in the environment")
        return replace(notice, webhook=webhook)

    def expand_engine(self, engine: Engine) -> Engine:
        """Expand the master and the settings of a cluster."""
        conf = {name: self.expand_text(text, "engine") for name, text in engine.conf.items()}
        return replace(engine, master=self.expand_text(engine.master, "engine"), conf=conf)

    def expand_job(self, file_job: FileJob) -> FileJob:
        """Expand all texts of a job, and turn a source path into a URL."""
        return replace(
            file_job,
            engine=None if file_job.engine is None else self.expand_engine(file_job.engine),
            notices=tuple(map(self.expand_notice, file_job.notices)),
            source=_to_file_url(self.expand_path(file_job.source, "source"))
            if file_job.reads_file
            else self.expand_url(file_job.source, "source"),
            reads_file=False,
            target=self.expand_url(file_job.target, "target"),
            report=self.expand_path(file_job.report, "report"),
            job=file_job.job.with_paths(
                # Paths of exports and key files, and names of variables that hold keys.
                map_path=lambda path: self.expand_path(path, "export"),
                map_text=lambda text: self.expand_text(text, "chain"),
            ),
        )


def _to_file_url(path: str) -> str:
    """Return a local path with the prefix ``file:``, and the URL of an object unchanged."""
    return path if is_object(path) else f"{FILE}{path}"


def read_job_file(file: Path | str, *, allow_inline_password: bool = False) -> JobFile:
    """Read and check a job file, without a database.

    Parameters
    ----------
    allow_inline_password : whether URLs in the file may contain passwords.

    Raises
    ------
    JobFileInvalid : lists all problems, each with its line and path.
    """
    document = read_document(Path(file))
    spec: JobFileSpec | None = None
    if not isinstance(document.content, dict):
        if not document.problems:
            document.add_problem((), "must be keys with values: version, source, jobs")
        document.require_no_problems()
    record_missing_values(document)
    try:
        spec = JobFileSpec.model_validate(document.content)
    except ValidationError as error:
        record_validation_errors(document, error)
    record_duplicate_names(document)
    if not allow_inline_password:
        record_passwords(document)
    if spec is None or document.problems:
        _check_other_jobs(document)
        document.require_no_problems()
    assert spec is not None
    jobs = [_build_job(document, spec, index) for index in range(len(spec.jobs))]
    document.require_no_problems()
    valid_jobs = tuple(job for job in jobs if job is not None)
    return JobFile(document.file, valid_jobs, spec.metrics)


def _check_other_jobs(document: Document) -> None:
    """Record the problems of jobs that were not checked because the file is invalid elsewhere."""
    top_keys = {problem.path.partition(".")[0] for problem in document.problems}
    jobs = document.content.get("jobs")
    # Jobs cannot be checked alone if the defaults, which are a part of each job, are invalid.
    if "defaults" in top_keys or not isinstance(jobs, list):
        return
    rejected_indexes = {
        problem.path.split(".")[1] for problem in document.problems if "jobs." in problem.path
    }
    for index, job in enumerate(jobs):
        if str(index) in rejected_indexes:
            record_contradictions(document, job, index)
            continue
        try:
            single_job_keys = {"defaults": document.content.get("defaults", {}), "jobs": [job]}
            single_job_spec = JobFileSpec.model_validate({**_VALID_TOP_KEYS, **single_job_keys})
        except ValidationError:
            continue  # its problems are recorded already
        # Repeat the job, so that its problems are recorded at the index that it has in the file.
        jobs_up_to_index = [*single_job_spec.jobs] * (index + 1)
        _build_job(document, single_job_spec.model_copy(update={"jobs": jobs_up_to_index}), index)


def open_jobs(file: Path | str, *, allow_inline_password: bool = False) -> JobFile:
    """Read a job file for a program that runs its jobs: expand variables, and set defaults.

    Raises
    ------
    JobFileInvalid : as ``read_job_file``, or a variable has no value.
    """
    job_file = read_job_file(file, allow_inline_password=allow_inline_password).with_variables()
    return replace(job_file, jobs=tuple(map(_with_program_defaults, job_file.jobs)))


def _with_program_defaults(file_job: FileJob) -> FileJob:
    """Limit a job to half of the memory unless the file sets a limit; evaluate for HTML reports."""
    job = file_job.job
    if job.memory_limit is None:
        job = replace(job, memory_limit=half_of_memory())
    return replace(
        file_job, job=job.with_evaluation() if needs_evaluation(file_job.report) else job
    )


def _build_job(document: Document, spec: JobFileSpec, index: int) -> FileJob | None:
    """Build a job; if it is refused, record the problem and return None."""
    job_spec, path = spec.jobs[index], ("jobs", index)
    hierarchies = parse_hierarchies(document, job_spec.columns, path)
    models = build_models(document, job_spec.columns, path)
    exports = _build_exports(document, job_spec, path)
    if hierarchies is None or models is None or exports is None:
        return None
    # The job's own options override the defaults, since they come later.
    options = {
        name: getattr(options_spec, name)
        for options_spec in (spec.defaults, job_spec)
        for name in _find_set_options(options_spec)
    }
    on_new_column, retries = (options.pop(name, None) for name in ("on_new_column", "retries"))
    engine = _build_engine(options.pop("engine", None))
    is_private = options.get("method") in PRIVATE_METHODS
    if "k" not in options and not is_private:
        document.add_problem((*path, "k"), "is missing: write it here, or in defaults")
        return None
    if is_private:
        # Defaults that this method does not have are ignored, since they may be for other jobs. The
        # job's own options are all kept, and are refused later if the method does not have them.
        options = {name: getattr(job_spec, name) for name in _find_set_options(job_spec)} | {
            name: value
            for name, value in options.items()
            if name in _PRIVATE_JOB_OPTIONS or name in PrivateJob.__dataclass_fields__
        }
        for name in ("on_new_column", "retries", "engine"):
            options.pop(name, None)
    try:
        job_options = {
            **options,
            "table": job_spec.table,
            "output": _build_output_name(spec, job_spec),
            "output_kind": "table" if job_spec.output.view is None else "view",
            "if_exists": job_spec.output.if_exists,
            "where": job_spec.where,
            **build_entity_options(job_spec.entity),
            "chain": build_chain(job_spec.chain),
            **_build_checks(job_spec),
            "key": tuple(job_spec.key),
            **_build_column_options(job_spec),
            "hierarchies": hierarchies,
            "models": models,
            "exports": exports,
            # The columns that have a role in the file, including dropped ones.
            "roles": tuple(job_spec.columns) or None,
            # Without columns, a placeholder, until the run has read the rules that define them.
            "declared": None if job_spec.columns else RULES_NOT_READ,
            "on_new_column": on_new_column or "halt",
            "name": job_spec.name,
            "door": "job",
        }
        job = (
            _build_private_job(spec, job_spec, job_options)
            if is_private
            else build_job(job_options)
        )
        if isinstance(job, Job):
            _require_runnable(spec, job_spec, job, on_cluster=engine is not None)
    except DbanonError as error:
        document.add_problem(path, describe_error(error))
        return None
    return FileJob(
        name=job_spec.name,
        job=job,
        source=str(spec.source.url or spec.source.path),
        target=spec.target.url,
        keep_last=job_spec.output.keep_last,
        retries=0 if is_private else retries or 0,
        report=job_spec.report,
        notices=tuple(
            Notice(on=tuple(notice.on), command=tuple(notice.command or ()), webhook=notice.webhook)
            for notice in job_spec.notify
        ),
        schedule=job_spec.schedule,
        engine=None if is_private else engine,
        reads_file=spec.source.path is not None,
        creates_chain=job_spec.chain is not None and job_spec.chain.create,
    )


def _build_checks(job_spec: JobSpec) -> KeywordArguments:
    """Build the options of a job that check its source and its release."""
    return {
        "expect": build_expectations(job_spec.expect),
        "risk": build_risk(job_spec.risk, job_spec.name),
    }


def _build_column_options(job_spec: JobSpec) -> KeywordArguments:
    """Build the options of a job that are keys of columns in a job file."""
    columns_by_role = _group_columns_by_role(
        job_spec, ("quasi_identifier", "sensitive", "keep", "by", "pseudonym")
    )
    # Only quasi-identifiers have the keys step, kind, weight and order.
    qi_columns = {
        name: column
        for name, column in job_spec.columns.items()
        if isinstance(column, QuasiIdentifierColumn)
    }
    return {
        "quasi_identifiers": columns_by_role["quasi_identifier"],
        "sensitive": columns_by_role["sensitive"],
        "keep": columns_by_role["keep"],
        "by": columns_by_role["by"],
        "pseudonyms": columns_by_role["pseudonym"],
        **_build_weight_options(job_spec),
        **{
            option: {
                name: getattr(column, key)
                for name, column in qi_columns.items()
                if getattr(column, key)
            }
            for option, key in (("steps", "step"), ("kinds", "kind"))
        },
        "weights": {
            name: column.weight for name, column in qi_columns.items() if column.weight is not None
        },
        "orders": {
            name: tuple(column.order)
            for name, column in qi_columns.items()
            if column.order is not None
        },
    }


def _build_weight_options(job_spec: JobSpec) -> KeywordArguments:
    """Build the options of the design weight; at most one column has this role."""
    for name, column in job_spec.columns.items():
        if isinstance(column, WeightColumn):
            return {"design_weight": name, "weight_as": column.weight_as}
    return {}


def _require_runnable(spec: JobFileSpec, job_spec: JobSpec, job: Job, *, on_cluster: bool) -> None:
    """Refuse a job that every run would refuse, whatever the rows of its source.

    Raises
    ------
    InvalidParameter : a chain of files without a database or with an HTML report, attacks without
        an evaluation, expectations or risk on a cluster, risk in a chain, or options of risk that
        contradict each other.
    """
    for key, value in (("expect", job.expect), ("risk", job.risk)):
        if on_cluster and value is not None:
            raise InvalidParameter(
                f"{key} is not available on a cluster: leave out {key} or engine"
            )
    if job.chain is not None and job.risk is not None:
        raise InvalidParameter(
            "risk is not available in a chain, where a refusal would depend on who has which"
            " values: leave out risk or chain"
        )
    require_risk_options(job.risk, job.class_columns, job.design_weight)
    has_html_report = needs_evaluation(job_spec.report)
    if job.chain is not None and has_html_report:
        raise InvalidParameter(
            "HTML reports are not available for chains, which are not evaluated: report must be"
            " .json or .txt"
        )
    reads_files = bool(spec.source.path) or is_row_file_url(str(spec.source.url))
    if job.chain is not None and reads_files and spec.target.url is None:
        raise InvalidParameter(
            "A chain keeps its state in a database, not in a file: name a database (target.url)"
        )
    # Attacks need an evaluation, which an HTML report turns on.
    require_evaluation((job.with_evaluation() if has_html_report else job).policy)


def _group_columns_by_role(job_spec: JobSpec, roles: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Group the columns of a job by role."""
    return {
        role: tuple(name for name, column in job_spec.columns.items() if column.role == role)
        for role in roles
    }


def _build_engine(spec: EngineSpec | None) -> Engine | None:
    return None if spec is None else Engine(spec.name, spec.master, spec.tasks, spec.conf)


def _build_private_job(
    spec: JobFileSpec, job_spec: JobSpec, options: KeywordArguments
) -> PrivateJob:
    """Build a job of a method for synthetic rows."""
    if options.pop("declared") is not None:
        raise build_option_refusal("declared", options["method"])
    for name in ("expect", "risk"):
        if options.pop(name) is not None:
            raise build_option_refusal(name, options["method"])
    if job_spec.retries or job_spec.engine:
        raise build_option_refusal("retries" if job_spec.retries else "engine", options["method"])
    return build_private_job(options | {"target": spec.target.url})


def _find_set_options(options: BaseModel) -> list[str]:
    """Return the names of the options that a job or the defaults set explicitly."""
    option_names = {*list_option_names()}
    return [name for name in options.model_fields_set if name in option_names]


def list_option_names() -> tuple[str, ...]:
    """Return the names of the options that both jobs and defaults accept."""
    # The fields of ``Defaults``, which is the type of the key ``defaults``.
    return tuple(type(JobFileSpec.model_fields["defaults"].default).model_fields)


def _build_output_name(spec: JobFileSpec, job_spec: JobSpec) -> str:
    """Return the output's name, by default in the target's schema."""
    name = parse_relation(str(job_spec.output.table or job_spec.output.view))
    schema = spec.target.schema_
    return str(name if name.schema or not schema else RelationName(schema, name.name))


def _build_exports(
    document: Document, job_spec: JobSpec, path: tuple[str | int, ...]
) -> tuple[Export, ...] | None:
    """Build the exports of a job, with its name in their paths; None if any was refused."""
    exports = []
    for index, spec in enumerate(job_spec.export):
        fields = spec.model_dump()
        try:
            exports.append(Export(**{**fields, "path": spec.path.replace("{job}", job_spec.name)}))
        except DbanonError as error:
            document.add_problem((*path, "export", index), describe_error(error))
    return tuple(exports) if len(exports) == len(job_spec.export) else None
