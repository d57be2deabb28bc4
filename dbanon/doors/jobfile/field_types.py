"""Types of the values in a job file: texts, names, and options as declared in their table.

``${VAR}`` is expanded once, after parsing, and only in a few texts.
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
    """Check that each dollar sign starts a variable or ``$$``, and that there is no NUL.

    Raises
    ------
    InvalidParameter : the text has a NUL or another dollar sign.
    """
    if "\0" in text:
        raise InvalidParameter("No URL or path holds a NUL.")
    for match in _VARIABLE.finditer(text):
        if match[0] == "$":
            raise InvalidParameter(
                "Write ${VAR}, ${VAR:-default} or ${VAR?message}, and $$ for a dollar sign."
            )


def date_variables(day: date) -> dict[str, str]:
    """Return the variables of the run's date, which the environment may override."""
    return {"year": f"{day:%Y}", "month": f"{day:%m}"}


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Expand the variables of a text once; their values are not expanded again.

    Raises
    ------
    InvalidParameter : a variable has no value. The message is the file's, or names the variable.
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, operator, operand = match.groups()
        variable_value = environment.get(name, "")
        if variable_value or (operator is None and name in environment):
            return variable_value
        if operator == ":-":
            return str(operand)
        raise InvalidParameter(operand or f"The environment has no {name}.")

    require_form(text)
    return _VARIABLE.sub(value, text)


def written_password(url: str) -> bool:
    """True if a URL contains a password in clear text, even as a variable's default."""

    def written(match: re.Match[str]) -> str:
        return "$" if match[0] in ("$", "$$") else str(match[3]) if match[2] == ":-" else ""

    return has_credentials(_VARIABLE.sub(written, url))


# Letters and digits of any script.
NAME = r"[^\W_][\w-]{0,62}"
# An approximation for editors: the only ASCII characters are letters, digits, _ and -.
NAME_PATTERN = r"^[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]{0,62}$"
# Job names become part of file names, which are limited to 255 bytes.
_NAME_BYTES = 126

# Options that a file states differently: as keys of columns, or as the job's source and output.
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
# Options whose key in a job has another name.
OF_FILES = {"exports": "export"}
OF_JOBS = (
    "table",
    "output",
    "entity",
    "entity_normalize",
    "chain",
    "key",
    "where",
    "output_kind",
    "if_exists",
)
# Options that are keys of a job's output.
_OF_OUTPUT = {"output_kind": "view", "if_exists": "if_exists"}
_OPTIONS = {
    option.name: option
    for option in (*all_parameters(Job), *own_options())
    if option.name not in {*OF_COLUMNS, *OF_JOBS, *OF_FILES}
}
_METHODS = (*METHODS, *PRIVATE_METHODS)
# Options that accept null.
NULLABLE = frozenset(name for name, option in _OPTIONS.items() if option.nullable)


class StrictModel(BaseModel):
    """A model that rejects unknown keys and never converts types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def refused(text: str) -> PydanticCustomError:
    """Build a validation error with a text that quotes no value."""
    # Passing the text as context keeps its braces from being read as a template.
    return PydanticCustomError("refused", "{text}", {"text": text})


@contextmanager
def as_refusals() -> Iterator[None]:
    """Convert dbanon's errors, whose messages quote no value, into validation errors."""
    try:
        yield
    except DbanonError as error:
        raise refused(error.message[0].lower() + error.message[1:].rstrip(".")) from None


def validator(check: Any) -> Any:
    """Build a pydantic validator from a check that raises dbanon's errors."""

    def validate(value: Any) -> Any:
        with as_refusals():
            check(value)
        return value

    return AfterValidator(validate)


def _relation(value: str) -> None:
    try:
        parse_relation(value)
    except DbanonError:
        raise refused('must be a name, as in app.people or "App"."Peo ple"') from None
    require_no_variable(value)


def require_no_variable(value: str) -> None:
    if "${" in value:
        raise refused("takes no ${…}")


def is_name(value: str) -> bool:
    """True for a valid job name."""
    return bool(re.fullmatch(NAME, value)) and len(value.encode()) <= _NAME_BYTES


def require_job_name(value: str) -> None:
    if not is_name(value):
        raise refused("must be 1 to 63 letters, digits, _ and -, beginning with a letter or digit")


def require_text(value: str) -> None:
    if not value.strip():
        raise refused("must not be empty")


def require_path(value: str) -> None:
    require_form(value)
    require_text(value)


Relation = Annotated[str, validator(_relation)]


def require_column_name(value: str) -> None:
    """Check the name of a column. Unlike other names it may consist of spaces."""
    if not value:
        raise refused("must not be empty")


Text = Annotated[str, validator(require_text)]
ColumnName = Annotated[str, validator(require_column_name)]
Expanded = Annotated[str, validator(require_path), Field(json_schema_extra={"x-variables": True})]
Condition = Annotated[str, validator(require_condition)]


def in_job_file(name: str, value: Any) -> str:
    """Render an option for a hint as in a job file: as a key, or as a column's role."""
    if name == "problems()":
        return "dbanon hierarchy check"
    if name == "declare_again()":
        return declare_again_command(value)
    if name in ("accept_types", "accept_counts", "skip_unchanged"):
        # Options of a single run, which a file cannot contain.
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
    """Render an error's message and hint, naming options as in a job file."""
    hint = error.hint_by(in_job_file)
    return f"{error.message} {hint}".rstrip(".") if hint else error.message.rstrip(".")


@contextmanager
def with_job_file_hints() -> Iterator[None]:
    """Make the hints of errors raised in the block name options as in a job file."""
    try:
        yield
    except DbanonError as error:
        error.fixed_notation = in_job_file
        raise


def _schema_of(parameter: Parameter) -> dict[str, Any]:
    """Build the JSON Schema of an option."""
    schema: dict[str, Any] = {"description": parameter.help}
    kind = {
        int: "integer",
        float: "number",
        bool: "boolean",
        str: "string",
        tuple: "array",
        Mapping: "object",
    }.get(parameter.kind)
    option = parameter.option
    if option.unit == "bytes":
        schema |= {"type": ["integer", "string"], "pattern": r"^[0-9.]+ ?([KMG]i?)?B?$"}
    elif kind:
        schema["type"] = [kind, "null"] if parameter.nullable else kind
    if option.minimum is not None:
        schema["exclusiveMinimum" if option.above else "minimum"] = option.minimum
    if option.maximum is not None:
        schema["maximum"] = option.maximum
    choices = _METHODS if parameter.name == "method" else option.choices
    if choices:
        schema["enum"] = [*choices, *([None] if parameter.nullable else [])]
    if parameter.default is not REQUIRED and isinstance(parameter.default, (int, float, str, bool)):
        schema["default"] = parameter.default
    return schema


def option_type(parameter: Parameter) -> Any:
    """Build the type of an option, validated by the option's check."""

    def validate(value: Any) -> Any:
        if parameter.option.unit == "bytes" and isinstance(value, str):
            size = bytes_of(value)
            if size is None:
                raise refused("must be a number of bytes, or a size such as 4GiB or 500MB")
            value = size
        if parameter.name == "method" and value not in _METHODS:
            raise refused("must be one of " + ", ".join(_METHODS))
        try:
            return parameter.check(value)
        except DbanonError:
            raise refused(f"must be {parameter.expected}") from None

    return Annotated[Any, AfterValidator(validate), WithJsonSchema(_schema_of(parameter))]


# Options default to None, meaning unset: the file's defaults and then the option table apply.
_FIELDS: Any = {name: (option_type(option), None) for name, option in _OPTIONS.items()}
Options: Any = create_model("Options", __base__=StrictModel, **_FIELDS)
