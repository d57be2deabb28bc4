"""What values in a job file are: texts, names, and options, whose kinds their table says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from dbanon.data.option import REQUIRED, Parameter, all_parameters
from dbanon.doors.jobfile.variables import require_form
from dbanon.doors.spelling import bytes_of
from dbanon.errors import DbanonError
from dbanon.job.job import Job
from dbanon.job.private import METHOD, own_options
from dbanon.job.reading import require_condition
from dbanon.methods import METHODS
from dbanon.sessions.names import parse_relation

# Letters and digits of all scripts.
NAME = r"[^\W_][\w-]{0,62}"
# The same as far as all editors read it: of ASCII nothing but letters, digits, _ and -.
NAME_PATTERN = r"^[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]{0,62}$"
# The names of files hold it: these may have 255.
_NAME_BYTES = 126

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
_BY_ROLE = ("quasi_identifiers", "sensitive", "keep", "by")
# By a key of the job that has another name.
OF_FILES = {"exports": "export"}
OF_JOBS = ("table", "output", "entity", "chain", "key", "where", "output_kind", "if_exists")
# Keys of a job whose values are keys themselves.
_OF_OUTPUT = {"output_kind": "view", "if_exists": "if_exists"}
_OPTIONS = {
    one.name: one
    for one in (*all_parameters(Job), *own_options())
    if one.name not in {*OF_COLUMNS, *OF_JOBS, *OF_FILES}
}
_METHODS = (*METHODS, METHOD)
# Of these null is a value.
NULLABLE = frozenset(name for name, one in _OPTIONS.items() if one.nullable)


class Strict(BaseModel):
    """Unknown keys are errors, and no value becomes one of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def refused(text: str) -> PydanticCustomError:
    """A refusal; its text holds no value."""
    # Braces would be taken for places of a template.
    return PydanticCustomError("refused", "{text}", {"text": text})


@contextmanager
def in_words() -> Iterator[None]:
    """Errors of ours, whose messages hold no value, as refusals."""
    try:
        yield
    except DbanonError as error:
        raise refused(error.message[0].lower() + error.message[1:].rstrip(".")) from None


def checked(what: Any) -> Any:
    """A validator of something that raises errors of ours, whose messages hold no value."""

    def validate(value: Any) -> Any:
        with in_words():
            what(value)
        return value

    return AfterValidator(validate)


def _relation(value: str) -> None:
    try:
        parse_relation(value)
    except DbanonError:
        raise refused('must be a name, as in app.people or "App"."Peo ple"') from None
    no_variable(value)


def no_variable(value: str) -> None:
    if "${" in value:
        raise refused("takes no ${…}")


def is_name(value: str) -> bool:
    """True for what a job may be called."""
    return bool(re.fullmatch(NAME, value)) and len(value.encode()) <= _NAME_BYTES


def one_name(value: str) -> None:
    if not is_name(value):
        raise refused("must be 1 to 63 letters, digits, _ and -, beginning with a letter or digit")


def not_empty(value: str) -> None:
    if not value.strip():
        raise refused("must not be empty")


def a_file(value: str) -> None:
    require_form(value)
    not_empty(value)


Relation = Annotated[str, checked(_relation)]
Text = Annotated[str, checked(not_empty)]
Expanded = Annotated[str, checked(a_file), Field(json_schema_extra={"x-variables": True})]
Condition = Annotated[str, checked(require_condition)]


def in_job_file(name: str, value: Any) -> str:
    """An option as a job file has it, in a hint: its key, or the role that says it."""
    if name == "problems()":
        return "dbanon hierarchy check"
    if name in _OF_OUTPUT:
        key = _OF_OUTPUT[name]
        return f"output: {{{key}: {value}}}" if key == name and value else f"output.{key}"
    role = OF_COLUMNS.get(name)
    if name in _BY_ROLE:
        return f"role: {role}"
    key = role or OF_FILES.get(name, name)
    if value is None:
        return key
    plain = isinstance(value, str) and re.fullmatch(r"[a-z_]+", value)
    return f"{key}: {value if plain else json.dumps(value, ensure_ascii=False)}"


@contextmanager
def in_its_words() -> Iterator[None]:
    """Whatever is refused in the block says options as a job file has them."""
    try:
        yield
    except DbanonError as error:
        error.way = in_job_file
        raise


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
    choices = _METHODS if one.name == "method" else option.choices
    if choices:
        schema["enum"] = [*choices, *([None] if one.nullable else [])]
    if one.default is not REQUIRED and isinstance(one.default, (int, float, str, bool)):
        schema["default"] = one.default
    return schema


def typed(one: Parameter) -> Any:
    """The type of an option: its own check, in its own words."""

    def validate(value: Any) -> Any:
        if one.option.unit == "bytes" and isinstance(value, str):
            size = bytes_of(value)
            if size is None:
                raise refused("must be a number of bytes, or a size such as 4GiB or 500MB")
            value = size
        if one.name == "method" and value not in _METHODS:
            raise refused("must be one of " + ", ".join(_METHODS))
        try:
            return one.check(value)
        except DbanonError:
            raise refused(f"must be {one.expected}") from None

    return Annotated[Any, AfterValidator(validate), WithJsonSchema(_schema_of(one))]


# What is not written is not set: the defaults of the file, and those of the table, come then.
_FIELDS: Any = {name: (typed(one), None) for name, one in _OPTIONS.items()}
Options: Any = create_model("Options", __base__=Strict, **_FIELDS)
