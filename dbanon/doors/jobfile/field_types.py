"""What values in a job file are: texts, names, and options, whose kinds their table says.

``${VAR}`` is expanded once, after the file was parsed, inside a few texts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
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
from dbanon.data.words import json_text
from dbanon.doors.spelling import bytes_of, declare_again_command, on_command_line
from dbanon.errors import DbanonError, InvalidParameter, has_credentials
from dbanon.job.job import Job
from dbanon.job.private import own_options
from dbanon.job.reading import require_condition
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.methods import METHODS
from dbanon.sessions.names import parse_relation

_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-|\?)([^{}]*))?\}|)")


def require_form(text: str) -> None:
    """Check that each dollar sign stands before a variable or another, and that files may be so.

    Raises
    ------
    InvalidParameter : one does not.
    """
    if "\0" in text:
        raise InvalidParameter("No URL or path holds a NUL.")
    for found in _VARIABLE.finditer(text):
        if found[0] == "$":
            raise InvalidParameter(
                "Write ${VAR}, ${VAR:-default} or ${VAR?message}, and $$ for a dollar sign."
            )


def of_day(day: date) -> dict[str, str]:
    """What stands for itself where the environment does not say it: year and month of the run."""
    return {"year": f"{day:%Y}", "month": f"{day:%m}"}


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """The text with its variables; what they hold is not looked at again.

    Raises
    ------
    InvalidParameter : a variable has no value. The message is the file's own, or names it.
    """

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name, way, more = found.groups()
        held = environment.get(name, "")
        if held or (way is None and name in environment):
            return held
        if way == ":-":
            return str(more)
        raise InvalidParameter(more or f"The environment has no {name}.")

    require_form(text)
    return _VARIABLE.sub(value, text)


def written_password(url: str) -> bool:
    """True for a URL with a password that stands in the text itself, if only as a default."""

    def written(found: re.Match[str]) -> str:
        return "$" if found[0] in ("$", "$$") else str(found[3]) if found[2] == ":-" else ""

    return has_credentials(_VARIABLE.sub(written, url))


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
    "pseudonyms": "pseudonym",
    "weights": "weight",
    "steps": "step",
    "orders": "order",
    "kinds": "kind",
    "hierarchies": "hierarchy",
    "models": "models",
}
_BY_ROLE = ("quasi_identifiers", "sensitive", "keep", "by", "pseudonyms")
# By a key of the job that has another name.
OF_FILES = {"exports": "export"}
OF_JOBS = ("table", "output", "entity", "entity_normalize", "chain", "key", "where", "output_kind",
           "if_exists")  # fmt: skip
# Keys of a job whose values are keys themselves.
_OF_OUTPUT = {"output_kind": "view", "if_exists": "if_exists"}
_OPTIONS = {
    one.name: one
    for one in (*all_parameters(Job), *own_options())
    if one.name not in {*OF_COLUMNS, *OF_JOBS, *OF_FILES}
}
_METHODS = (*METHODS, *PRIVATE_METHODS)
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


def a_column(value: str) -> None:
    """Check the name of a column, which may be a space to databases."""
    if not value:
        raise refused("must not be empty")


Text = Annotated[str, checked(not_empty)]
ColumnName = Annotated[str, checked(a_column)]
Expanded = Annotated[str, checked(a_file), Field(json_schema_extra={"x-variables": True})]
Condition = Annotated[str, checked(require_condition)]


def in_job_file(name: str, value: Any) -> str:
    """An option as a job file has it, in a hint: its key, or the role that says it."""
    if name == "problems()":
        return "dbanon hierarchy check"
    if name == "declare_again()":
        return declare_again_command(value)
    if name in ("accept_types", "accept_counts"):
        # Said of one run, never in the file.
        return on_command_line(name, value)
    if name == "entity_normalize":
        return f"entity: {{column: …, normalize: {value}}}" if value else "entity.normalize"
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
    return f"{key}: {value if plain else json_text(value)}"


def problem_text(error: DbanonError) -> str:
    """What is wrong at a place of the file, and what to do, in the words of a job file."""
    hint = error.hint_by(in_job_file)
    return f"{error.message} {hint}".rstrip(".") if hint else error.message.rstrip(".")


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
