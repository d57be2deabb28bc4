"""The pydantic models of a job file. The table of options defines the values of options.

The JSON Schema, with which editors check job files, is a file in the wheel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from dbanon.data.option import parameters
from dbanon.data.schema import NORMALIZE
from dbanon.doors.engines import ENGINES
from dbanon.doors.jobfile.columns import Column
from dbanon.doors.jobfile.expectations import ExpectSpec
from dbanon.doors.jobfile.field_types import (
    NAME_PATTERN,
    ColumnName,
    Condition,
    Expanded,
    Options,
    Relation,
    StrictModel,
    Text,
    as_refusals,
    option_type,
    refused,
    require_job_name,
    require_no_variable,
    require_path,
    validator,
)
from dbanon.doors.jobfile.outcome import EVENTS, FIELDS, error_codes
from dbanon.doors.jobfile.schedule import require_schedule
from dbanon.job.chain import Chain, ChainRules, require_chain_name, require_key_form
from dbanon.job.export import COMPRESSIONS, DECIMALS, FORMATS, FORMULAS, SEPARATORS, Export
from dbanon.job.job import IF_EXISTS, ON_NEW_COLUMN
from dbanon.job.rules import BY_RULES
from dbanon.stores.folders import is_row_file_url

_REQUIRED_FIELDS: Any = {
    "name": (Annotated[str, validator(require_chain_name)], ...),
    # The location of the key, never the key.
    "key": (Annotated[Expanded, validator(require_key_form)], ...),
}
_OPTIONAL_FIELDS: Any = {
    option.name: (option_type(option), None)
    for option in (*parameters(Chain), *parameters(ChainRules))
    if option.name not in _REQUIRED_FIELDS
}
# The first run creates the chain, if neither the chain nor its key file exists.
_CREATE_FIELD: Any = {"create": (bool, False)}


class _ChainKeys(StrictModel):
    """The checks across the keys of a chain."""

    @model_validator(mode="after")
    def _creatable(self) -> _ChainKeys:
        keys: Any = self
        if keys.create and (keys.changes is None or not keys.key.startswith("file:")):
            raise refused(
                "create: true needs changes (show, hold or freeze), and key: file:PATH, where the"
                " first run writes the key"
            )
        return self


# Rules state what the file expects of the chain; they are fixed when the chain is created.
ChainSpec: Any = create_model(
    "ChainSpec", __base__=_ChainKeys, **_REQUIRED_FIELDS, **_OPTIONAL_FIELDS, **_CREATE_FIELD
)


def chain_of(spec: Any) -> Chain | None:
    """Build the chain that a job names, its key with variables; None if it names none."""
    if spec is None:
        return None
    keys = spec.model_fields_set - _CREATE_FIELD.keys()
    return Chain.from_plain({name: getattr(spec, name) for name in keys})


VERSIONS = (1,)


def _url(value: str) -> None:
    # Variables are checked after their expansion.
    # Installed drivers decide which schemes exist.
    if not re.match(r"\$\{|\w+(\+\w+)?://|file:", value):
        raise refused(
            "must be a URL with its scheme: postgresql://user@host/name, duckdb:///file.duckdb,"
            " sqlite:///file.db, file:rows.csv, s3://bucket/rows.parquet, or ${VAR}"
        )


def _target(value: str) -> None:
    _url(value)
    if is_row_file_url(value):
        raise refused("must be a database: releases are not written into files of rows")


class Source(StrictModel):
    """What is read: a database, or a file of rows from where the job file is."""

    url: Annotated[Expanded, validator(_url)] | None = None
    path: Expanded | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Source:
        if (self.url is None) == (self.path is None):
            raise refused("must have exactly one of url and path")
        return self


class Target(StrictModel):
    """Where releases go: another database, or a schema of the source's."""

    url: Annotated[Expanded, validator(_target)] | None = None
    schema_: Annotated[Text | None, Field(alias="schema")] = None


class Output(StrictModel):
    """What is made."""

    table: Relation | None = None
    view: Relation | None = None
    if_exists: Literal[IF_EXISTS] = "replace"  # type: ignore[valid-type]
    keep_last: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Output:
        if (self.table is None) == (self.view is None):
            raise refused("must have exactly one of table and view")
        if self.keep_last is not None and self.view is None:
            raise refused("keep_last needs a view: a table has no earlier releases")
        return self


class ExportSpec(StrictModel):
    """A file that is made of the release."""

    format: Literal[FORMATS]  # type: ignore[valid-type]
    path: Expanded
    compression: Literal[COMPRESSIONS] = "zstd"  # type: ignore[valid-type]
    statistics: bool = False
    formulas: Literal[FORMULAS] = "error"  # type: ignore[valid-type]
    separator: Literal[tuple(SEPARATORS)] = ","  # type: ignore[valid-type]
    decimal: Literal[DECIMALS] = "."  # type: ignore[valid-type]
    byte_order_mark: bool = False
    keep_last: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> ExportSpec:
        with as_refusals():
            Export(**self.model_dump())
        return self


def _command(value: list[str]) -> list[str]:
    for word in value:
        _require_known_places(word)
    return value


def _require_known_places(word: str) -> None:
    require_no_variable(word)
    if any(name not in FIELDS for name in re.findall(r"\{(\w*)\}", word)):
        raise refused(
            "allows no placeholders except " + ", ".join(f"{{{name}}}" for name in FIELDS)
        )


def _webhook(value: str) -> None:
    # A webhook URL may contain a secret, which does not belong in a file.
    if not re.fullmatch(r"\$\{[A-Za-z_]\w*(\?[^{}]*)?\}", value, re.ASCII):
        raise refused("must be one variable of the environment, as in ${DBANON_WEBHOOK}")


def _event(value: str) -> None:
    if value not in EVENTS and value not in error_codes():
        raise refused(f"must be {', '.join(EVENTS)}, or the code of an error such as job_running")


class NoticeSpec(StrictModel):
    """Who is told of how a job ended."""

    on: Annotated[list[Annotated[str, validator(_event)]], Field(min_length=1)]
    command: Annotated[list[Text], AfterValidator(_command), Field(min_length=1)] | None = None
    webhook: Annotated[str, validator(_webhook)] | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> NoticeSpec:
        if (self.command is None) == (self.webhook is None):
            raise refused("must have exactly one of command and webhook")
        return self


class EngineSpec(StrictModel):
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


def _of_this_machine(value: str) -> None:
    require_path(value)
    if "://" in value:
        raise refused("must be a file of this machine")


def _report(value: str) -> None:
    _of_this_machine(value)
    if PurePath(value).suffix not in (".json", ".html", ".txt"):
        raise refused("must end in .json, .html or .txt")


def _by_rules(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate the columns of a job; empty if the rules of its table define them."""
    return {} if value == BY_RULES else handler(value)


def _or_declared(schema: dict[str, Any]) -> None:
    named = dict(schema)
    title = named.pop("title", None)
    schema.clear()
    schema.update({"anyOf": [{"const": BY_RULES}, named]} | ({"title": title} if title else {}))


class EntitySpec(StrictModel):
    """The column that identifies persons, and how its texts are compared."""

    column: ColumnName
    normalize: Literal[NORMALIZE] | None = None  # type: ignore[valid-type]


class JobSpec(_JobOptions):
    """A job: a table, a role for each of its columns, or its rules, and what is made of it."""

    name: Annotated[
        str, validator(require_job_name), Field(json_schema_extra={"pattern": NAME_PATTERN})
    ]
    table: Relation
    where: Condition | None = None
    entity: ColumnName | EntitySpec | None = None
    chain: ChainSpec | None = None
    key: list[ColumnName] = Field(default_factory=list)
    columns: Annotated[
        dict[str, Column],
        Field(min_length=1, json_schema_extra=_or_declared),
        WrapValidator(_by_rules),
    ]
    expect: ExpectSpec | None = None
    output: Output
    export: list[ExportSpec] = Field(default_factory=list)
    report: Annotated[str, validator(_report)] | None = None
    notify: list[NoticeSpec] = Field(default_factory=list)
    schedule: Annotated[str, validator(require_schedule)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        self._require_expected()
        if not self.columns:
            if self.entity:
                raise refused("with declared columns, the rules say which column is the entity")
            return self
        roles = {name: column.role for name, column in self.columns.items()}
        entity_columns = list(filter(None, (entity_options(self.entity)["entity"],)))
        for text in find_misfits(roles, entity_columns, self.key, chained=self.chain is not None):
            raise refused(text)
        return self

    def _require_expected(self) -> None:
        if self.expect is None or not self.columns:
            # The rules of the table define its columns and its entity.
            return
        if "persons" in self.expect.model_fields_set and not self.entity:
            raise refused("expect.persons needs entity: the column that identifies persons")
        if not set(self.expect.share_null) <= set(self.columns):
            raise refused("expect.share_null must name columns of the job")


def entity_options(entity: str | EntitySpec | None) -> dict[str, str | None]:
    """Convert the entity column and its normalization into options of a job."""
    if isinstance(entity, EntitySpec):
        return {"entity": entity.column, "entity_normalize": entity.normalize}
    return {"entity": entity, "entity_normalize": None}


def find_misfits(
    roles: Mapping[str, str], entity_columns: Sequence[str], key: Sequence[str], *, chained: bool
) -> Iterator[str]:
    """Yield the contradictions between a job's keys.

    Parameters
    ----------
    roles : by column.
    entity_columns : the column that identifies the person of a row; empty if rows are persons.
    """
    if "quasi_identifier" not in roles.values():
        yield "columns must have a quasi_identifier"
    if any(roles.get(name) != "identifier" for name in entity_columns):
        yield "entity must be a column of role identifier"
    if not set(key) <= set(roles):
        yield "key must name columns of the job"
    if chained and not entity_columns:
        yield "chain needs entity: the column that identifies persons"


def _version(value: int) -> int:
    if value not in VERSIONS:
        versions = " or ".join(map(str, VERSIONS))
        raise refused(f"must be {versions}: the version of the file format, not of dbanon")
    return value


def _metrics(value: str) -> None:
    _of_this_machine(value)
    if PurePath(value).suffix != ".prom":
        raise refused("must end in .prom, as required by the textfile collector")


class JobFileSpec(StrictModel):
    """A file of jobs."""

    version: Annotated[
        int, AfterValidator(_version), Field(json_schema_extra={"enum": list(VERSIONS)})
    ]
    source: Source
    target: Target = Target()
    defaults: Defaults = Defaults()
    metrics: Annotated[str, validator(_metrics)] | None = None
    jobs: Annotated[list[JobSpec], Field(min_length=1)]


FILE = Path(__file__).with_name("job.schema.json")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a job file, draft 2020-12."""
    schema = JobFileSpec.model_json_schema(by_alias=True)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Job file of dbanon",
    }


def schema_text() -> str:
    """Render the schema for printing and for the schema file."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
