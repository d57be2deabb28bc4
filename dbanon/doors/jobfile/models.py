"""The pydantic models of a job file; options are validated as declared in ``Job``.

Their JSON Schema, with which editors check job files, is in ``job.schema.json``.
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
from dbanon.data.types import JsonObject, KeywordArguments
from dbanon.doors.engines import ENGINES
from dbanon.doors.jobfile.columns import Column
from dbanon.doors.jobfile.expectations import ExpectSpec
from dbanon.doors.jobfile.field_types import (
    JOB_NAME_SCHEMA_PATTERN,
    ColumnName,
    Condition,
    ExpandedText,
    Options,
    Relation,
    StrictModel,
    Text,
    as_validation_errors,
    build_option_type,
    require_job_name,
    require_no_variable,
    require_path,
    validation_error,
    validator,
)
from dbanon.doors.jobfile.outcome import EVENTS, FIELDS, error_codes
from dbanon.doors.jobfile.risk import RiskSpec
from dbanon.doors.jobfile.schedule import require_schedule
from dbanon.job.chain import Chain, ChainRules, require_chain_name, require_key_form
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.export import (
    CODES,
    COMPRESSIONS,
    DECIMALS,
    FORMATS,
    FORMULAS,
    OF_RELEASE,
    SEPARATORS,
    Export,
)
from dbanon.job.job import IF_EXISTS, ON_NEW_COLUMN
from dbanon.stores.schemes import is_row_file_url

_REQUIRED_CHAIN_FIELDS: KeywordArguments = {
    "name": (Annotated[str, validator(require_chain_name)], ...),
    # The location of the secret key, never the key itself.
    "key": (Annotated[ExpandedText, validator(require_key_form)], ...),
}
_OPTIONAL_CHAIN_FIELDS: KeywordArguments = {
    option.name: (build_option_type(option), None)
    for option in (*parameters(Chain), *parameters(ChainRules))
    if option.name not in _REQUIRED_CHAIN_FIELDS
}
# The first run creates the chain, if neither the chain nor its key file exists.
_CREATE_CHAIN_FIELD: KeywordArguments = {"create": (bool, False)}


class _ChainFields(StrictModel):
    """The base of ``ChainSpec``, with checks that concern several of its fields."""

    @model_validator(mode="after")
    def _require_creatable(self) -> _ChainFields:
        # ``Any``, because only ``ChainSpec`` has the fields.
        chain: Any = self
        # ``changes`` says how the chain treats values that change between releases.
        if chain.create and (chain.changes is None or not chain.key.startswith("file:")):
            raise validation_error(
                "create: true needs changes (show, hold or freeze), and key: file:PATH, where the"
                " first run writes the key"
            )
        return self


# A chain's rules are fixed when it is created. A run is refused if the file states other rules.
ChainSpec: Any = create_model(
    "ChainSpec",
    __base__=_ChainFields,
    **_REQUIRED_CHAIN_FIELDS,
    **_OPTIONAL_CHAIN_FIELDS,
    **_CREATE_CHAIN_FIELD,
)


def build_chain(spec: Any) -> Chain | None:
    """Build the chain that a job names; None if it names no chain.

    Variables in the location of its secret key are not expanded yet.
    """
    if spec is None:
        return None
    field_names = spec.model_fields_set - _CREATE_CHAIN_FIELD.keys()
    return Chain.from_plain({name: getattr(spec, name) for name in field_names})


# Roles of columns that a release has as numbers, so that they can be its design weight.
_WEIGHT_ROLES = ("weight", "keep", "sensitive", "by")
# The versions of the format of job files that this version of dbanon reads.
FORMAT_VERSIONS = (1,)


def _check_url(value: str) -> None:
    # A URL that starts with a variable is checked after its expansion. Any scheme is accepted,
    # because the installed drivers determine which schemes exist.
    if not re.match(r"\$\{|\w+(\+\w+)?://|file:", value):
        raise validation_error(
            "must be a URL with its scheme: postgresql://user@host/name, duckdb:///file.duckdb,"
            " sqlite:///file.db, file:rows.csv, s3://bucket/rows.parquet, or ${VAR}"
        )


def _check_target_url(value: str) -> None:
    _check_url(value)
    if is_row_file_url(value):
        raise validation_error("must be a database: releases are not written into files of rows")


class Source(StrictModel):
    """The source: a database, or a file of rows relative to the job file."""

    url: Annotated[ExpandedText, validator(_check_url)] | None = None
    path: ExpandedText | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Source:
        if (self.url is None) == (self.path is None):
            raise validation_error("must have exactly one of url and path")
        return self


class Target(StrictModel):
    """The database for releases, if it is not the source's, and the schema for releases."""

    url: Annotated[ExpandedText, validator(_check_target_url)] | None = None
    schema_: Annotated[Text | None, Field(alias="schema")] = None


class Output(StrictModel):
    """The table or view that the job writes."""

    table: Relation | None = None
    view: Relation | None = None
    if_exists: Literal[IF_EXISTS] = "replace"  # type: ignore[valid-type]
    keep_last: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Output:
        if (self.table is None) == (self.view is None):
            raise validation_error("must have exactly one of table and view")
        if self.keep_last is not None and self.view is None:
            raise validation_error("keep_last needs a view: a table has no earlier releases")
        return self


class ExportSpec(StrictModel):
    """A file to which the release is exported."""

    format: Literal[FORMATS]  # type: ignore[valid-type]
    path: ExpandedText
    compression: Literal[COMPRESSIONS] = "zstd"  # type: ignore[valid-type]
    # Whether Parquet has the minima and maxima of all columns, not only of the quasi-identifiers.
    statistics: bool = False
    # What becomes of texts in CSV that spreadsheets would run as formulas.
    formulas: Literal[FORMULAS] = "error"  # type: ignore[valid-type]
    separator: Literal[tuple(SEPARATORS)] = ","  # type: ignore[valid-type]
    decimal: Literal[DECIMALS] = "."  # type: ignore[valid-type]
    byte_order_mark: bool = False
    # Which numbers the labels of SPSS and Stata have.
    codes: Literal[CODES] = OF_RELEASE  # type: ignore[valid-type]
    keep_last: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_export(self) -> ExportSpec:
        # Only for its errors; the export of the job is built later.
        with as_validation_errors():
            Export(**self.model_dump())
        return self


def _check_command(value: list[str]) -> list[str]:
    for word in value:
        _require_known_placeholders(word)
    return value


def _require_known_placeholders(word: str) -> None:
    require_no_variable(word)
    if any(name not in FIELDS for name in re.findall(r"\{(\w*)\}", word)):
        raise validation_error(
            "allows no placeholders except " + ", ".join(f"{{{name}}}" for name in FIELDS)
        )


def _check_webhook(value: str) -> None:
    # A webhook URL may contain a secret, which does not belong in a file.
    if not re.fullmatch(r"\$\{[A-Za-z_]\w*(\?[^{}]*)?\}", value, re.ASCII):
        raise validation_error("must be a single environment variable, as in ${DBANON_WEBHOOK}")


def _check_event(value: str) -> None:
    if value not in EVENTS and value not in error_codes():
        raise validation_error(
            f"must be {', '.join(EVENTS)}, or the code of an error such as job_running"
        )


class NoticeSpec(StrictModel):
    """Which outcomes of the job to report, and the command or webhook that gets the report."""

    on: Annotated[list[Annotated[str, validator(_check_event)]], Field(min_length=1)]
    command: Annotated[list[Text], AfterValidator(_check_command), Field(min_length=1)] | None = (
        None
    )
    webhook: Annotated[str, validator(_check_webhook)] | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> NoticeSpec:
        if (self.command is None) == (self.webhook is None):
            raise validation_error("must have exactly one of command and webhook")
        return self


class EngineSpec(StrictModel):
    """The cluster that jobs run on."""

    name: Literal[ENGINES]  # type: ignore[valid-type]
    master: ExpandedText
    tasks: Annotated[int, Field(ge=1)] | None = None
    conf: dict[Text, ExpandedText] = Field(default_factory=dict)


class _JobOptions(Options):  # type: ignore[misc]
    """The options that both jobs and defaults accept: ``Options``, and three about runs."""

    # What a run does if the source has a column without a role.
    on_new_column: Literal[ON_NEW_COLUMN] | None = None  # type: ignore[valid-type]
    retries: Annotated[int, Field(ge=0, le=10)] | None = None
    engine: EngineSpec | None = None


class Defaults(_JobOptions):
    """Options for all jobs that do not set them."""


def _require_local_path(value: str) -> None:
    require_path(value)
    if "://" in value:
        raise validation_error("must be a file on this machine")


def _check_report_path(value: str) -> None:
    _require_local_path(value)
    if PurePath(value).suffix not in (".json", ".html", ".txt"):
        raise validation_error("must end in .json, .html or .txt")


def _validate_columns(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Validate the columns of a job; return {} if the rules of its table define them.

    In the file, such a job has the word ``declared`` instead of columns.
    """
    return {} if value == RULES_NOT_READ else handler(value)


def _allow_declared_columns(schema: JsonObject) -> None:
    """Let the JSON Schema of ``columns`` also accept the word ``declared``; see above.

    Changes the schema in place.
    """
    columns_schema = dict(schema)
    # The title stays at the top level.
    title = columns_schema.pop("title", None)
    schema.clear()
    schema.update(
        {"anyOf": [{"const": RULES_NOT_READ}, columns_schema]} | ({"title": title} if title else {})
    )


class EntitySpec(StrictModel):
    """The column that identifies persons, and how its texts are compared."""

    column: ColumnName
    normalize: Literal[NORMALIZE] | None = None  # type: ignore[valid-type]


class JobSpec(_JobOptions):
    """A job: a table, a role for each column (or the rules declared for it), and the output."""

    name: Annotated[
        str,
        validator(require_job_name),
        Field(json_schema_extra={"pattern": JOB_NAME_SCHEMA_PATTERN}),
    ]
    table: Relation
    where: Condition | None = None
    entity: ColumnName | EntitySpec | None = None
    chain: ChainSpec | None = None
    key: list[ColumnName] = Field(default_factory=list)
    columns: Annotated[
        dict[str, Column],
        Field(min_length=1, json_schema_extra=_allow_declared_columns),
        WrapValidator(_validate_columns),
    ]
    expect: ExpectSpec | None = None
    risk: RiskSpec | None = None
    output: Output
    export: list[ExportSpec] = Field(default_factory=list)
    report: Annotated[str, validator(_check_report_path)] | None = None
    notify: list[NoticeSpec] = Field(default_factory=list)
    schedule: Annotated[str, validator(require_schedule)] | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> JobSpec:
        self._require_fitting_expectations()
        self._require_fitting_risk()
        # Without columns, the rules of the table define them.
        if not self.columns:
            if self.entity:
                raise validation_error(
                    "leave entity out: with declared columns, the rules define the entity"
                )
            return self
        roles = {name: column.role for name, column in self.columns.items()}
        entity = build_entity_options(self.entity)["entity"]
        entity_columns = [entity] if entity else []
        for text in find_contradictions(
            roles, entity_columns, self.key, has_chain=self.chain is not None
        ):
            # Pydantic takes one error per check; ``record_contradictions`` adds the others.
            raise validation_error(text)
        return self

    def _require_fitting_expectations(self) -> None:
        if self.expect is None or not self.columns:
            # The rules of the table define its columns and its entity.
            return
        if "persons" in self.expect.model_fields_set and not self.entity:
            raise validation_error(
                "expect.persons needs entity: the column that identifies persons"
            )
        if not set(self.expect.share_null) <= set(self.columns):
            raise validation_error("expect.share_null must name columns of the job")

    def _require_fitting_risk(self) -> None:
        if self.risk is None or not self.columns:
            return
        quasi_identifiers = self.risk.quasi_identifiers
        others = [name for name in (self.risk.weight, self.risk.household) if name is not None]
        if not {*(quasi_identifiers or ()), *others} <= set(self.columns):
            raise validation_error("risk must name columns of the job")
        if quasi_identifiers is not None and all(
            self.columns[name].role in ("identifier", "drop") for name in quasi_identifiers
        ):
            raise validation_error("risk.quasi_identifiers must name a column that is released")
        has_limit = (self.risk.max_individual, self.risk.max_global) != (None, None)
        weight = None if self.risk.weight is None else self.columns[self.risk.weight]
        # Without its weight, a released row counts as one of the mean weight, so that a class of
        # small weights would seem less at risk.
        if has_limit and weight is not None and weight.role not in _WEIGHT_ROLES:
            raise validation_error(
                "risk.max_individual and risk.max_global need the weight in the release (role:"
                " weight), or sampling_fraction in place of weight"
            )


def build_entity_options(entity: str | EntitySpec | None) -> dict[str, str | None]:
    """Convert the entity column and its normalization into options of a job."""
    if isinstance(entity, EntitySpec):
        return {"entity": entity.column, "entity_normalize": entity.normalize}
    return {"entity": entity, "entity_normalize": None}


def find_contradictions(
    roles: Mapping[str, str], entity_columns: Sequence[str], key: Sequence[str], *, has_chain: bool
) -> Iterator[str]:
    """Yield a text for each contradiction between a job's keys.

    Parameters
    ----------
    roles : from column name to role.
    entity_columns : the column that identifies the person of a row; empty if rows are persons.
    key : columns that make rows unique.
    has_chain : whether the job names a chain.
    """
    if "quasi_identifier" not in roles.values():
        yield "columns must have a quasi_identifier"
    if list(roles.values()).count("weight") > 1:
        yield "columns must have no more than one weight"
    if any(roles.get(name) != "identifier" for name in entity_columns):
        yield "entity must be a column of role identifier"
    if not set(key) <= set(roles):
        yield "key must name columns of the job"
    if has_chain and not entity_columns:
        yield "chain needs entity: the column that identifies persons"


def _check_version(value: int) -> int:
    if value not in FORMAT_VERSIONS:
        versions = " or ".join(map(str, FORMAT_VERSIONS))
        raise validation_error(f"must be {versions}: the version of the file format, not of dbanon")
    return value


def _check_metrics_path(value: str) -> None:
    _require_local_path(value)
    if PurePath(value).suffix != ".prom":
        raise validation_error("must end in .prom, as required by the textfile collector")


class JobFileSpec(StrictModel):
    """A job file."""

    version: Annotated[
        int,
        AfterValidator(_check_version),
        Field(json_schema_extra={"enum": list(FORMAT_VERSIONS)}),
    ]
    source: Source
    target: Target = Target()
    defaults: Defaults = Defaults()
    metrics: Annotated[str, validator(_check_metrics_path)] | None = None
    jobs: Annotated[list[JobSpec], Field(min_length=1)]


SCHEMA_FILE = Path(__file__).with_name("job.schema.json")


def build_json_schema() -> JsonObject:
    """Return the JSON Schema of a job file, draft 2020-12."""
    schema = JobFileSpec.model_json_schema(by_alias=True)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Job file of dbanon",
    }


def render_json_schema() -> str:
    """Render the schema for printing and for the schema file."""
    return json.dumps(build_json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(render_json_schema(), encoding="utf-8")
