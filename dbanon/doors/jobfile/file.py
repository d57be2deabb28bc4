"""A job file: read, checked, and each of its jobs as the ``Job`` that every door makes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dbanon.data.option import all_parameters, make
from dbanon.doors.engines import Engine
from dbanon.doors.jobfile.columns import QuasiIdentifierColumn, hierarchies_of, models_of
from dbanon.doors.jobfile.document import Document, read
from dbanon.doors.jobfile.expectations import expectations_of
from dbanon.doors.jobfile.field_types import expanded, of_day, problem_text
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
from dbanon.job.export import Export, is_table
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob, own_options, private_job, refused, require_other
from dbanon.job.requirements import require_evaluation
from dbanon.job.rules import BY_RULES
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.folders import FILE, is_of_files
from dbanon.stores.objects import is_object

_PRIVATE = frozenset(one.name for one in own_options())
# What stands in the defaults of a file and is of dp_ranks, too.
_SHARED = frozenset(one.name for one in all_parameters(PrivateJob))


# URLs of files by a relative path; what follows three slashes is relative, and four are absolute.
_LOCAL_URL = re.compile(
    r"(?P<scheme>(?:duckdb|sqlite)(?:\+\w+)?:///(?!file:)|file:)(?P<path>(?!\w+://)[^/:~].*)",
    re.DOTALL,
)
# In place of what is wrong itself, where the jobs beside it are looked at.
_ANY = {"version": 1, "source": {"url": "sqlite:///any.db"}}


@dataclass(frozen=True)
class FileJob:
    """A job of a file.

    Parameters
    ----------
    name : of the job: lock, log lines and names of files use it.
    job : what is run.
    source, target : URLs as the file has them, with variables; the target's is None where it is
        the source. With ``of_file`` the source is a path, from where the job file is.
    keep_last : releases of its view that stay, with the one that it shows; None for all.
    retries : how often it is run again when the database failed.
    report : where its report goes, with variables and ``{job}``, ``{release}``; None for nowhere.
    notices : who is told how it ended.
    schedule : when it is to run, as cron has it; a hint, by which nothing runs. None for no hint.
    engine : the cluster that it runs on, with variables; None for this process.
    creates_chain : whether its first run makes the chain that it names.
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
    def superseded_kept(self) -> int | None:
        """How many releases stay beside the one that the view shows; None for all."""
        return None if self.keep_last is None else self.keep_last - 1


@dataclass(frozen=True)
class JobFile:
    """A file without a problem.

    Parameters
    ----------
    metrics : where what monitoring reads goes, with variables; None for nowhere.
    """

    file: Path
    jobs: tuple[FileJob, ...]
    metrics: str | None = None

    def chosen(self, names: Sequence[str]) -> tuple[FileJob, ...]:
        """The jobs of these names, in the order of the file; all where none is named.

        Raises
        ------
        InvalidParameter : there is no job of a name.
        """
        known = [job.name for job in self.jobs]
        for name in names:
            if name not in known:
                raise InvalidParameter(
                    f'The job file has no job "{name}".',
                    hint=nearest_names(name, known) or f"It has: {', '.join(known)}.",
                )
        return tuple(job for job in self.jobs if not names or job.name in names)

    def with_variables(
        self, environment: Mapping[str, str] | None = None, day: date | None = None
    ) -> JobFile:
        """The file with what the environment holds in place of ``${VAR}``.

        Parameters
        ----------
        day : of the run, for ``${year}`` and ``${month}`` where the environment has none; today,
            where this machine is, when None.

        Raises
        ------
        JobFileInvalid : a variable has no value.
        """
        values = of_day(day or datetime.now().astimezone().date())
        values |= os.environ if environment is None else environment
        expansion = _Expansion(Document(self.file), values)
        jobs = tuple(map(expansion.job, self.jobs))
        metrics = expansion.path(self.metrics, "metrics")
        expansion.document.require()
        return replace(self, jobs=jobs, metrics=metrics)


# A text of a file, or one that may be missing: what comes back is of the same type.
_Text = TypeVar("_Text", str, "str | None")


@dataclass(frozen=True)
class _Expansion:
    """Replaces the variables of a job file; a variable without a value is noted as a problem.

    Parameters
    ----------
    values : of the variables, by name.

    The ``key`` of each method is that of the file which a problem is noted with.
    """

    document: Document
    values: Mapping[str, str]

    def text(self, text: _Text, key: str) -> _Text:
        """The text with the values of its variables."""
        if text is None:
            return text
        try:
            return expanded(text, self.values)
        except InvalidParameter as error:
            self.document.refuse((key,), error.message)
            return text

    def path(self, text: _Text, key: str) -> _Text:
        """The path with the values of its variables, seen from the directory of the job file."""
        found = self.text(text, key)
        if found is None:
            return found
        if is_object(found) or is_table(found):
            return found
        return os.path.join(self.document.file.resolve().parent, os.path.expanduser(found))

    def url(self, url: _Text, key: str) -> _Text:
        """The URL with the values of its variables, its file seen from where the job file is."""
        found = self.text(url, key)
        if found is None:
            return found
        local = _LOCAL_URL.fullmatch(found)
        if local is None:
            return found
        directory = str(self.document.file.resolve().parent)
        return local["scheme"] + os.path.normpath(os.path.join(directory, local["path"]))

    def notice(self, notice: Notice) -> Notice:
        """The notice with its webhook; a URL that holds a variable must become an https URL."""
        found = self.text(notice.webhook, "webhook")
        if found is not None and found != notice.webhook and not found.startswith("https://"):
            self.document.refuse(("webhook",), "must be an https URL in the environment")
        return replace(notice, webhook=found)

    def engine(self, engine: Engine) -> Engine:
        """The cluster with its master and settings."""
        conf = {name: self.text(text, "engine") for name, text in engine.conf.items()}
        return replace(engine, master=self.text(engine.master, "engine"), conf=conf)

    def job(self, job: FileJob) -> FileJob:
        """The job with all of its texts; a source that is a file becomes a URL."""
        return replace(
            job,
            engine=None if job.engine is None else self.engine(job.engine),
            notices=tuple(map(self.notice, job.notices)),
            source=_of_file(self.path(job.source, "source"))
            if job.of_file
            else self.url(job.source, "source"),
            of_file=False,
            target=self.url(job.target, "target"),
            report=self.path(job.report, "report"),
            job=job.job.placed(
                lambda path: self.path(path, "export"), lambda text: self.text(text, "chain")
            ),
        )


def _of_file(path: str) -> str:
    return path if is_object(path) else f"{FILE}{path}"


def read_job_file(file: Path | str, *, inline_password: bool = False) -> JobFile:
    """Read and check a job file, without a database.

    Parameters
    ----------
    inline_password : let passwords stand in its URLs.

    Raises
    ------
    JobFileInvalid : with all that is wrong in it, each at its line and path.
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
    jobs = [_job(document, spec, place) for place in range(len(spec.jobs))]
    document.require()
    done = tuple(job for job in jobs if job is not None)
    return JobFile(document.file, done, spec.metrics)


def _note_others(document: Document) -> None:
    """Note what is wrong in jobs that are well-formed, where something else in the file is not."""
    wrong = {problem.path.partition(".")[0] for problem in document.problems}
    jobs = document.value.get("jobs")
    if "defaults" in wrong or not isinstance(jobs, list):
        return
    bad = {problem.path.split(".")[1] for problem in document.problems if "jobs." in problem.path}
    for place, job in enumerate(jobs):
        if str(place) in bad:
            note_misfits(document, job, place)
            continue
        try:
            well_formed = {"defaults": document.value.get("defaults", {}), "jobs": [job]}
            read = JobFileSpec.model_validate({**_ANY, **well_formed})
        except ValidationError:
            continue
        _job(document, read.model_copy(update={"jobs": [*read.jobs] * (place + 1)}), place)


def limited(job: FileJob, memory: int) -> FileJob:
    """The job with this limit of memory, in bytes, where the file says none."""
    if job.job.memory_limit is not None:
        return job
    return replace(job, job=replace(job.job, memory_limit=memory))


def _job(document: Document, spec: JobFileSpec, place: int) -> FileJob | None:
    """A job of a file; None where it was refused, which is noted then."""
    given, path = spec.jobs[place], ("jobs", place)
    hierarchies = hierarchies_of(document, given.columns, path)
    models = models_of(document, given.columns, path)
    exports = _exports(document, given, path)
    if hierarchies is None or models is None or exports is None:
        return None
    merged = {
        name: getattr(options, name) for options in (spec.defaults, given) for name in _set(options)
    }
    on_new_column, retries = (merged.pop(name, None) for name in ("on_new_column", "retries"))
    engine = _engine(merged.pop("engine", None))
    private = merged.get("method") in PRIVATE_METHODS
    if "k" not in merged and not private:
        document.refuse((*path, "k"), "is missing: write it here, or in defaults")
        return None
    of_role = _by_role(given, ("quasi_identifier", "sensitive", "keep", "by", "pseudonym"))
    columns = {n: c for n, c in given.columns.items() if isinstance(c, QuasiIdentifierColumn)}
    if private:
        # Defaults of the file are of all methods; what the job itself says must be of this one.
        merged = {name: getattr(given, name) for name in _set(given)} | {
            name: value
            for name, value in merged.items()
            if name in _SHARED or name in PrivateJob.__dataclass_fields__
        }
        for name in ("on_new_column", "retries", "engine"):
            merged.pop(name, None)
    try:
        wanted = {
            **merged,
            "table": given.table,
            "output": _output(spec, given),
            "output_kind": "table" if given.output.view is None else "view",
            "if_exists": given.output.if_exists,
            "where": given.where,
            **entity_options(given.entity),
            "chain": chain_of(given.chain),
            "expect": expectations_of(given.expect),
            "key": tuple(given.key),
            "quasi_identifiers": of_role["quasi_identifier"],
            "sensitive": of_role["sensitive"],
            "keep": of_role["keep"],
            "by": of_role["by"],
            "pseudonyms": of_role["pseudonym"],
            "hierarchies": hierarchies,
            "models": models,
            "exports": exports,
            **{
                option: {n: getattr(c, key) for n, c in columns.items() if getattr(c, key)}
                for option, key in (("steps", "step"), ("kinds", "kind"))
            },
            "weights": {n: c.weight for n, c in columns.items() if c.weight is not None},
            "orders": {n: tuple(c.order) for n, c in columns.items() if c.order is not None},
            "roles": tuple(given.columns) or None,
            "declared": None if given.columns else BY_RULES,
            "on_new_column": on_new_column or "halt",
            "name": given.name,
            "door": "job",
        }
        job = _private(spec, given, wanted) if private else _made(wanted)
        if isinstance(job, Job):
            _require_runnable(spec, given, job, on_cluster=engine is not None)
    except DbanonError as error:
        document.refuse(path, problem_text(error))
        return None
    return FileJob(
        given.name,
        job,
        str(spec.source.url or spec.source.path),
        spec.target.url,
        given.output.keep_last,
        0 if private else retries or 0,
        given.report,
        tuple(Notice(tuple(o.on), tuple(o.command or ()), o.webhook) for o in given.notify),
        given.schedule,
        None if private else engine,
        spec.source.path is not None,
        given.chain is not None and given.chain.create,
    )


def _require_runnable(spec: JobFileSpec, given: JobSpec, job: Job, *, on_cluster: bool) -> None:
    """Refuse what each run of a job would refuse, whatever its source holds.

    Raises
    ------
    InvalidParameter : a chain of a file without a database, or with a page; attacks on what is not
        evaluated; counts that a cluster would have to compare.
    """
    if on_cluster and job.expect is not None:
        raise InvalidParameter("expect is not counted on a cluster: leave it or engine out")
    is_page = given.report is not None and given.report.endswith(".html")
    if job.chain is not None and is_page:
        raise InvalidParameter(
            "A release of a chain has no page, as it is not evaluated: report must be .json or .txt"
        )
    of_files = bool(spec.source.path) or is_of_files(str(spec.source.url))
    if job.chain is not None and of_files and spec.target.url is None:
        raise InvalidParameter(
            "A chain keeps its state in a database, and a file is not a database: name a database"
            " (target.url)"
        )
    require_evaluation((job.evaluated() if is_page else job).policy)


def _by_role(given: JobSpec, roles: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns of a job by their roles."""
    return {
        role: tuple(name for name, column in given.columns.items() if column.role == role)
        for role in roles
    }


def _engine(spec: EngineSpec | None) -> Engine | None:
    return None if spec is None else Engine(spec.name, spec.master, spec.tasks, spec.conf)


def _made(wanted: dict[str, Any]) -> Job:
    require_other(wanted.get("method"), wanted)
    own = {name: value for name, value in wanted.items() if name not in _PRIVATE}
    return make(Job, own)


def _private(spec: JobFileSpec, given: JobSpec, wanted: dict[str, Any]) -> PrivateJob:
    """A job of a method of synthetic rows."""
    if wanted.pop("declared") is not None:
        raise refused("declared", wanted["method"])
    if wanted.pop("expect") is not None:
        raise refused("expect", wanted["method"])
    if given.retries or given.engine:
        raise refused("retries" if given.retries else "engine", wanted["method"])
    return private_job(wanted | {"target": spec.target.url})


def _set(options: Any) -> list[str]:
    """The options that are written in the file."""
    shared = {*spec_options()}
    return [name for name in options.model_fields_set if name in shared]


def spec_options() -> tuple[str, ...]:
    """The options that stand in a job as in the defaults."""
    return tuple(type(JobFileSpec.model_fields["defaults"].default).model_fields)


def _output(spec: JobFileSpec, given: JobSpec) -> str:
    """The output's name, in the schema of the target where it names none."""
    name = parse_relation(str(given.output.table or given.output.view))
    schema = spec.target.schema_
    return str(name if name.schema or not schema else RelationName(schema, name.name))


def _exports(
    document: Document, given: JobSpec, path: tuple[str | int, ...]
) -> tuple[Export, ...] | None:
    """The files of a job, the job's name in their paths; None where one was refused."""
    found = []
    for place, spec in enumerate(given.export):
        plain = spec.model_dump()
        try:
            found.append(Export(**{**plain, "path": spec.path.replace("{job}", given.name)}))
        except DbanonError as error:
            document.refuse((*path, "export", place), problem_text(error))
    return tuple(found) if len(found) == len(given.export) else None
