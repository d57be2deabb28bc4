"""The shape of a job file, as pydantic has it. What an option may be, the table of options says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dbanon.data.option import REQUIRED, Option, Parameter, all_parameters
from dbanon.doors.jobfile.variables import require_form
from dbanon.doors.ways import bytes_of
from dbanon.errors import DbanonError
from dbanon.hierarchy.spec import KINDS
from dbanon.job.condition import require_condition
from dbanon.job.export import COMPRESSIONS, FORMATS, FORMULAS
from dbanon.job.job import IF_EXISTS, ON_NEW_COLUMN, Job
from dbanon.measures.models import ORDERS, model_kinds
from dbanon.methods import METHODS
from dbanon.stores.names import parse_relation

VERSIONS = (1,)
NAME = r"[a-z0-9][a-z0-9_-]{0,62}"

# Options that a file says in another way: by a column's role, or as the job's source and output.
OF_COLUMNS = {
    "quasi_identifiers": "quasi_identifier",
    "sensitive": "sensitive",
    "keep": "keep",
    "by": "by",
    "weights": "weight",
    "steps": "step",
    "orders": "order",
    "hierarchies": "hierarchy",
    "models": "models",
}
# By a key of the job that has another name.
OF_FILES = {"exports": "export"}
OF_JOBS = ("table", "output", "entity", "key", "where", "output_kind", "if_exists")
_OPTIONS = {
    one.name: one
    for one in all_parameters(Job)
    if one.name not in {*OF_COLUMNS, *OF_JOBS, *OF_FILES}
}
# Of these null is a value.
NULLABLE = frozenset(name for name, one in _OPTIONS.items() if one.nullable)


class Strict(BaseModel):
    """Unknown keys are errors, and no value becomes one of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def refused(text: str) -> PydanticCustomError:
    """A refusal; its text holds no value."""
    # Braces would be taken for places of a template.
    return PydanticCustomError("refused", "{text}", {"text": text})


def _checked(what: Any) -> Any:
    """A validator of something that raises errors of ours, whose messages hold no value."""

    def validate(value: Any) -> Any:
        try:
            what(value)
        except DbanonError as error:
            raise refused(error.message[0].lower() + error.message[1:].rstrip(".")) from None
        return value

    return AfterValidator(validate)


def _relation(value: str) -> None:
    try:
        parse_relation(value)
    except DbanonError:
        raise refused('must be a name, as in app.people or "App"."Peo ple"') from None
    _no_variable(value)


def _no_variable(value: str) -> None:
    if "${" in value:
        raise refused("takes no ${…}")


def _one_name(value: str) -> None:
    if not re.fullmatch(NAME, value):
        raise refused("must be 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit")


def _not_empty(value: str) -> None:
    if not value.strip():
        raise refused("must not be empty")


def _file(value: str) -> None:
    require_form(value)
    _not_empty(value)


Relation = Annotated[str, _checked(_relation)]
Text = Annotated[str, _checked(_not_empty)]
Expanded = Annotated[str, _checked(_file), Field(json_schema_extra={"x-variables": True})]
Condition = Annotated[str, _checked(require_condition)]


def _schema_of(one: Parameter) -> dict[str, Any]:
    """JSON Schema of an option."""
    schema: dict[str, Any] = {"description": one.help}
    kind = {int: "integer", float: "number", bool: "boolean", str: "string", tuple: "array",
            Mapping: "object"}.get(one.kind)  # fmt: skip
    option = one.option
    if option.unit == "bytes":
        schema |= {"type": ["integer", "string"], "pattern": r"^[0-9.]+ ?([KMG]i?)?B?$"}
    elif kind:
        schema["type"] = [kind, "null"] if one.nullable else kind
    if option.minimum is not None:
        schema["exclusiveMinimum" if option.above else "minimum"] = option.minimum
    if option.maximum is not None:
        schema["maximum"] = option.maximum
    choices = tuple(METHODS) if one.name == "method" else option.choices
    if choices:
        schema["enum"] = [*choices, *([None] if one.nullable else [])]
    if one.default is not REQUIRED and isinstance(one.default, (int, float, str, bool)):
        schema["default"] = one.default
    return schema


def _typed(one: Parameter) -> Any:
    """The type of an option: its own check, in its own words."""

    def validate(value: Any) -> Any:
        if one.option.unit == "bytes" and isinstance(value, str):
            size = bytes_of(value)
            if size is None:
                raise refused("must be a number of bytes, or a size such as 4GiB or 500MB")
            value = size
        if one.name == "method" and value not in (*METHODS,):
            raise refused("must be one of " + ", ".join(METHODS))
        try:
            return one.check(value)
        except DbanonError:
            raise refused(f"must be {one.expected}") from None

    return Annotated[Any, AfterValidator(validate), WithJsonSchema(_schema_of(one))]


# What is not written is not set: the defaults of the file, and those of the table, come then.
_FIELDS: Any = {name: (_typed(one), None) for name, one in _OPTIONS.items()}
Options: Any = create_model("Options", __base__=Strict, **_FIELDS)


# -- columns --------------------------------------------------------------------------------------


def _hierarchy(value: dict[str, Any]) -> dict[str, Any]:
    kinds = [key for key in value if key in KINDS or key == "file"]
    if len(kinds) != 1:
        known = ", ".join([*KINDS, "file"])
        raise refused(f"must say exactly one kind of hierarchy: {known}")
    [kind] = kinds
    if kind == "file":
        if set(value) != {"file"} or not isinstance(value["file"], str) or not value["file"]:
            raise refused("a file takes no other key, and must be a path")
        return value
    keys = {kind: KINDS[kind].key, **KINDS[kind].options}
    for key, part in value.items():
        if key not in keys:
            raise refused(f"{kind} takes no other keys than " + ", ".join(keys))
        if not keys[key].fits(part):
            raise refused(f"{key} must be {keys[key].expected}")
    return value


Hierarchy = Annotated[
    dict[str, Any],
    AfterValidator(_hierarchy),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "properties": {
                **{name: {"description": kind.key.expected} for name, kind in KINDS.items()},
                "file": {"type": "string", "description": "a CSV or JSON file, from the job file"},
                **{
                    name: {"description": key.expected}
                    for kind in KINDS.values()
                    for name, key in kind.options.items()
                },
            },
            "additionalProperties": False,
        }
    ),
]


def _number(told: str, minimum: float, *, above: bool) -> Any:
    """A number with a lower limit."""
    one = Parameter("", float, REQUIRED, Option(told, minimum=minimum, above=above))
    return _typed(one)


def _of_column(name: str) -> Any:
    """The number that a column has of an option with one for each."""
    [one] = [one for one in all_parameters(Job) if one.name == name]
    return _number(one.help, float(one.option.minimum or 0), above=one.option.above)


def _distance(value: Any) -> Any:
    if value not in ORDERS:
        if not isinstance(value, dict):
            raise refused("must be equal, ordered or a hierarchy")
        _hierarchy(value)
    return value


class ModelSpec(Strict):
    """A privacy model that every class keeps to."""

    kind: Literal[model_kinds()]  # type: ignore[valid-type]
    level: _number("The level that is wanted.", 0, above=True)  # type: ignore[valid-type]
    l: Annotated[int, Field(ge=1)] | None = None  # noqa: E741
    distance: Annotated[
        Any,
        AfterValidator(_distance),
        WithJsonSchema({"anyOf": [{"enum": list(ORDERS)}, {"type": "object"}]}),
    ] = None


class IdentifierColumn(Strict):
    """Says whose a row is: never released."""

    role: Literal["identifier"]


class QuasiIdentifierColumn(Strict):
    """Together with others it could re-identify a person: released as its class's value."""

    role: Literal["quasi_identifier"]
    hierarchy: Hierarchy | None = None
    step: _of_column("steps") | None = None  # type: ignore[valid-type]
    weight: _of_column("weights") | None = None  # type: ignore[valid-type]
    order: list[Text] | None = None


class SensitiveColumn(Strict):
    """Released as it is, and counted as sensitive."""

    role: Literal["sensitive"]
    models: list[ModelSpec] = Field(default_factory=list)


class KeepColumn(Strict):
    """Released as it is, for a reason."""

    role: Literal["keep"]
    reason: Text


class ByColumn(Strict):
    """Its values make strata: released as they are, no class crosses them."""

    role: Literal["by"]


class DropColumn(Strict):
    """Not released."""

    role: Literal["drop"]
    reason: Text | None = None


COLUMN_KINDS = (
    IdentifierColumn,
    QuasiIdentifierColumn,
    SensitiveColumn,
    KeepColumn,
    ByColumn,
    DropColumn,
)
ROLES = tuple(kind.model_fields["role"].annotation.__args__[0] for kind in COLUMN_KINDS)  # type: ignore[union-attr]
Column = Annotated[
    IdentifierColumn | QuasiIdentifierColumn | SensitiveColumn | KeepColumn | ByColumn | DropColumn,
    Field(discriminator="role"),
]


# -- jobs -----------------------------------------------------------------------------------------


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


class _JobOptions(Options):  # type: ignore[misc]
    on_new_column: Literal[ON_NEW_COLUMN] | None = None  # type: ignore[valid-type]
    retries: Annotated[int, Field(ge=0, le=10)] | None = None


class Defaults(_JobOptions):
    """What holds for all jobs that say nothing else."""


def _report(value: str) -> None:
    _file(value)
    if PurePath(value).suffix not in (".json", ".html", ".txt"):
        raise refused("must end in .json, .html or .txt")


class JobSpec(_JobOptions):
    """A job: a table, a role for each of its columns, and what is made of it."""

    name: Annotated[str, _checked(_one_name), Field(json_schema_extra={"pattern": f"^{NAME}$"})]
    table: Relation
    where: Condition | None = None
    entity: Text | None = None
    key: list[Text] = Field(default_factory=list)
    columns: Annotated[dict[str, Column], Field(min_length=1)]
    output: Output
    export: list[ExportSpec] = Field(default_factory=list)
    report: Annotated[str, _checked(_report)] | None = None

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
        return self


def _version(value: int) -> int:
    if value not in VERSIONS:
        raise refused("is no version that this dbanon knows: " + ", ".join(map(str, VERSIONS)))
    return value


class JobFileSpec(Strict):
    """A file of jobs."""

    version: Annotated[
        int, AfterValidator(_version), Field(json_schema_extra={"enum": list(VERSIONS)})
    ]
    source: Source
    target: Target = Target()
    defaults: Defaults = Defaults()
    jobs: Annotated[list[JobSpec], Field(min_length=1)]
