"""The shape of a job file, as pydantic has it. What an option may be, the table of options says."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from dbanon.doors.engines import ENGINES
from dbanon.doors.jobfile.chain import ChainSpec
from dbanon.doors.jobfile.columns import Column
from dbanon.doors.jobfile.outcome import EVENTS, FIELDS, error_codes
from dbanon.doors.jobfile.shapes import (
    NAME,
    Condition,
    Expanded,
    Options,
    Relation,
    Strict,
    Text,
    a_file,
    checked,
    no_variable,
    one_name,
    refused,
)
from dbanon.job.export import COMPRESSIONS, FORMATS, FORMULAS
from dbanon.job.job import IF_EXISTS, ON_NEW_COLUMN

VERSIONS = (1,)


class Source(Strict):
    """The database that is read."""

    url: Expanded


class Target(Strict):
    """Where releases go: another database, or a schema of the source's."""

    url: Expanded | None = None
    schema_: Annotated[Text | None, Field(alias="schema")] = None


class Output(Strict):
    """What is made."""

    table: Relation | None = None
    view: Relation | None = None
    if_exists: Literal[IF_EXISTS] = "replace"  # type: ignore[valid-type]
    keep_last: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Output:
        if (self.table is None) == (self.view is None):
            raise refused("must have exactly one of table and view")
        if self.keep_last is not None and self.view is None:
            raise refused("keep_last is for a view: a table has no earlier releases beside it")
        return self


class ExportSpec(Strict):
    """A file that is made of the release."""

    format: Literal[FORMATS]  # type: ignore[valid-type]
    path: Expanded
    compression: Literal[COMPRESSIONS] = "zstd"  # type: ignore[valid-type]
    statistics: bool = False
    formulas: Literal[FORMULAS] = "error"  # type: ignore[valid-type]
    keep_last: Annotated[int, Field(ge=0)] | None = None


def _command(value: list[str]) -> list[str]:
    for word in value:
        _no_unknown_place(word)
    return value


def _no_unknown_place(word: str) -> None:
    no_variable(word)
    if any(name not in FIELDS for name in re.findall(r"\{(\w*)\}", word)):
        raise refused("takes no other places than " + ", ".join(f"{{{name}}}" for name in FIELDS))


def _webhook(value: str) -> None:
    # It may hold a secret, which is nobody's to read in a file.
    if not re.fullmatch(r"\$\{[A-Za-z_]\w*(\?[^{}]*)?\}", value, re.ASCII):
        raise refused("must be one variable of the environment, as in ${DBANON_WEBHOOK}")


def _event(value: str) -> None:
    if value not in EVENTS and value not in error_codes():
        raise refused(f"must be {', '.join(EVENTS)}, or the code of an error such as job_running")


class NoticeSpec(Strict):
    """Who is told of how a job ended."""

    on: Annotated[list[Annotated[str, checked(_event)]], Field(min_length=1)]
    command: Annotated[list[Text], AfterValidator(_command), Field(min_length=1)] | None = None
    webhook: Annotated[str, checked(_webhook)] | None = None

    @model_validator(mode="after")
    def _one(self) -> NoticeSpec:
        if (self.command is None) == (self.webhook is None):
            raise refused("must have exactly one of command and webhook")
        return self


class EngineSpec(Strict):
    """A cluster that jobs run on."""

    name: Literal[ENGINES]  # type: ignore[valid-type]
    master: Expanded
    tasks: Annotated[int, Field(ge=1)] | None = None
    conf: dict[Text, Expanded] = Field(default_factory=dict)


class _JobOptions(Options):  # type: ignore[misc]
    on_new_column: Literal[ON_NEW_COLUMN] | None = None  # type: ignore[valid-type]
    retries: Annotated[int, Field(ge=0, le=10)] | None = None
    engine: EngineSpec | None = None


class Defaults(_JobOptions):
    """What holds for all jobs that say nothing else."""


def _report(value: str) -> None:
    a_file(value)
    if PurePath(value).suffix not in (".json", ".html", ".txt"):
        raise refused("must end in .json, .html or .txt")


def _schedule(value: str) -> None:
    field = r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?"
    if not re.fullmatch(rf"({field}(,{field})*)( +{field}(,{field})*){{4}}", value, re.ASCII):
        raise refused('must be five fields as cron has them: "0 3 1 * *"')


class JobSpec(_JobOptions):
    """A job: a table, a role for each of its columns, and what is made of it."""

    name: Annotated[str, checked(one_name), Field(json_schema_extra={"pattern": f"^{NAME}$"})]
    table: Relation
    where: Condition | None = None
    entity: Text | None = None
    chain: ChainSpec | None = None
    key: list[Text] = Field(default_factory=list)
    columns: Annotated[dict[str, Column], Field(min_length=1)]
    output: Output
    export: list[ExportSpec] = Field(default_factory=list)
    report: Annotated[str, checked(_report)] | None = None
    notify: list[NoticeSpec] = Field(default_factory=list)
    schedule: Annotated[str, checked(_schedule)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        roles = {name: column.role for name, column in self.columns.items()}
        if "quasi_identifier" not in roles.values():
            raise refused("columns must have a quasi_identifier")
        whose = [name for name in (self.entity,) if name is not None]
        if any(roles.get(name) != "identifier" for name in whose):
            raise refused("entity must be a column of role identifier")
        if not set(self.key) <= set(roles):
            raise refused("key must name columns of the job")
        if self.chain is not None and not whose:
            raise refused("chain needs entity: the column that says whose a row is")
        return self


def _version(value: int) -> int:
    if value not in VERSIONS:
        raise refused("is no version that this dbanon knows: " + ", ".join(map(str, VERSIONS)))
    return value


def _metrics(value: str) -> None:
    a_file(value)
    if PurePath(value).suffix != ".prom":
        raise refused("must end in .prom, as the collector of textfiles wants it")


class JobFileSpec(Strict):
    """A file of jobs."""

    version: Annotated[
        int, AfterValidator(_version), Field(json_schema_extra={"enum": list(VERSIONS)})
    ]
    source: Source
    target: Target = Target()
    defaults: Defaults = Defaults()
    metrics: Annotated[str, checked(_metrics)] | None = None
    jobs: Annotated[list[JobSpec], Field(min_length=1)]
