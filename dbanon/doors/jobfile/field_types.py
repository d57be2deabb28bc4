"""Types of the values in a job file: texts, names, and the options of ``Job``.

Variables, written ``${VAR}``, are allowed in a few texts only, such as URLs and paths. They are
expanded after the file was parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
from dbanon.data.types import JsonObject, KeywordArguments
from dbanon.data.words import json_text
from dbanon.doors.spelling import parse_bytes, spell_cli_option
from dbanon.errors import DbanonError, InvalidParameter, has_credentials
from dbanon.job.job import Job
from dbanon.job.private import private_method_options
from dbanon.job.reading import require_condition
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.methods import METHODS
from dbanon.sessions.names import parse_relation

# ``$$``, a variable with an optional operator and operand, or a dollar sign that starts neither.
_VARIABLE = re.compile(
    r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<operator>:-|\?)(?P<operand>[^{}]*))?\}|)"
)


def require_variable_syntax(text: str) -> None:
    """Check that each dollar sign starts a variable or ``$$``, and that there is no NUL.

    Raises
    ------
    InvalidParameter : the text has a NUL or another dollar sign.
    """
    if "\0" in text:
        raise InvalidParameter("A URL or path must not contain a NUL character.")
    for match in _VARIABLE.finditer(text):
        if match[0] == "$":
            raise InvalidParameter(
                "Write ${VAR}, ${VAR:-default} or ${VAR?message}, and $$ for a dollar sign."
            )


def build_date_variables(day: date) -> dict[str, str]:
    """Return the variables that depend on the run's date; the environment may override them."""
    return {"year": f"{day:%Y}", "month": f"{day:%m}"}


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Expand the variables of a text. Variables within their values are not expanded.

    Raises
    ------
    InvalidParameter : a variable has no value. The message is the text after ``?`` in
        ``${VAR?text}``, or else names the variable.
    """

    def expand_match(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, operator, operand = match.groups()
        variable_value = environment.get(name, "")
        if variable_value or (operator is None and name in environment):
            return variable_value
        if operator == ":-":
            return str(operand)
        raise InvalidParameter(operand or f"The environment has no {name}.")

    require_variable_syntax(text)
    return _VARIABLE.sub(expand_match, text)


def has_written_password(url: str) -> bool:
    """True if a URL contains a password in clear text, even as a variable's default."""

    def expand_default(match: re.Match[str]) -> str:
        if match[0] in ("$", "$$"):
            return "$"
        return str(match["operand"]) if match["operator"] == ":-" else ""

    return has_credentials(_VARIABLE.sub(expand_default, url))


# Letters and digits of any script.
_JOB_NAME_PATTERN = r"[^\W_][\w-]{0,62}"
# An approximation for editors: the only ASCII characters are letters, digits, _ and -.
JOB_NAME_SCHEMA_PATTERN = r"^[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]{0,62}$"
# Job names become part of file names, which are limited to 255 bytes.
_MAX_NAME_BYTES = 126

# Options that a file spells as keys or roles of columns: from option to that key or role.
COLUMN_KEYS = {
    "quasi_identifiers": "quasi_identifier",
    "sensitive": "sensitive",
    "keep": "keep",
    "by": "by",
    "pseudonyms": "pseudonym",
    "design_weight": "weight",
    "weight_as": "weight_as",
    "weights": "weight",
    "steps": "step",
    "orders": "order",
    "kinds": "kind",
    "hierarchies": "hierarchy",
    "models": "models",
}
_ROLE_OPTIONS = (
    "quasi_identifiers",
    "sensitive",
    "keep",
    "by",
    "pseudonyms",
    "design_weight",
)
# Options that ``JobSpec`` declares itself under another name: from option to that name.
RENAMED_KEYS = {"exports": "export"}
# Options that ``JobSpec`` or ``Output`` declares itself, some of them in another form.
JOB_LEVEL_OPTIONS = (
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
# Options that are keys of a job's ``output``: from option to that key.
_OUTPUT_KEYS = {"output_kind": "view", "if_exists": "if_exists"}
# All other options: a job file has them under their own names, in jobs and in defaults.
_OPTIONS = {
    option.name: option
    for option in (*all_parameters(Job), *private_method_options())
    if option.name not in {*COLUMN_KEYS, *JOB_LEVEL_OPTIONS, *RENAMED_KEYS}
}
_METHODS = (*METHODS, *PRIVATE_METHODS)
# Options that accept null.
NULLABLE = frozenset(name for name, option in _OPTIONS.items() if option.nullable)


class StrictModel(BaseModel):
    """The base of models that reject unknown keys and never convert types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validation_error(text: str) -> PydanticCustomError:
    """Build an error of validation from a text, which must not quote a value of the file."""
    # Passing the text as context keeps its braces from being read as a template.
    return PydanticCustomError("refused", "{text}", {"text": text})


@contextmanager
def as_validation_errors() -> Iterator[None]:
    """Convert dbanon's errors in the block into pydantic's; their messages quote no value."""
    try:
        yield
    except DbanonError as error:
        # The message follows the path of the problem and a colon.
        raise validation_error(error.message[0].lower() + error.message[1:].rstrip(".")) from None


def validator(check: Callable[[str], None]) -> AfterValidator:
    """Build a pydantic validator from a check that raises dbanon's errors."""

    def validate(value: str) -> str:
        with as_validation_errors():
            check(value)
        return value

    return AfterValidator(validate)


def _require_relation(value: str) -> None:
    try:
        parse_relation(value)
    except DbanonError:
        raise validation_error('must be a name, as in app.people or "App"."Peo ple"') from None
    require_no_variable(value)


def require_no_variable(value: str) -> None:
    """Refuse a text with ``${…}`` where variables are not expanded."""
    if "${" in value:
        raise validation_error("must not contain ${…}")


def is_job_name(value: str) -> bool:
    """True for a valid job name."""
    return bool(re.fullmatch(_JOB_NAME_PATTERN, value)) and len(value.encode()) <= _MAX_NAME_BYTES


def require_job_name(value: str) -> None:
    if not is_job_name(value):
        raise validation_error(
            "must be 1 to 63 letters, digits, _ and -, beginning with a letter or digit"
        )


def require_text(value: str) -> None:
    if not value.strip():
        raise validation_error("must not be empty")


def require_path(value: str) -> None:
    """Refuse an empty path or URL, and wrong syntax of its variables."""
    require_variable_syntax(value)
    require_text(value)


Relation = Annotated[str, validator(_require_relation)]


def require_column_name(value: str) -> None:
    """Check the name of a column. It may consist of spaces, unlike a table's name."""
    if not value:
        raise validation_error("must not be empty")


Text = Annotated[str, validator(require_text)]
ColumnName = Annotated[str, validator(require_column_name)]
# The schema's extra key says that the text may contain variables.
ExpandedText = Annotated[
    str, validator(require_path), Field(json_schema_extra={"x-variables": True})
]
Condition = Annotated[str, validator(require_condition)]


def spell_in_job_file(name: str, value: object) -> str:
    """Spell an option for a hint as in a job file: as a key, or as a column's role.

    Parameters
    ----------
    name : an option, or a placeholder with parentheses for an action that each interface offers in
        its own way: ``problems()`` lists all problems of a hierarchy, and ``declare_again()``
        declares the rules of a table again.
    value : the value to show; None to name only the key.
    """
    if name in ("problems()", "declare_again()", "accept_types", "accept_counts", "skip_unchanged"):
        # Other commands, and options of a single run, which a file cannot contain.
        return spell_cli_option(name, value)
    if name == "entity_normalize":
        return f"entity: {{column: …, normalize: {value}}}" if value else "entity.normalize"
    if name in _OUTPUT_KEYS:
        key = _OUTPUT_KEYS[name]
        # The value of ``output_kind`` is not that of its key ``view``, so name the key alone.
        return f"output: {{{key}: {value}}}" if key == name and value else f"output.{key}"
    column_key = COLUMN_KEYS.get(name)
    if name in _ROLE_OPTIONS:
        return f"role: {column_key}"
    key = column_key or RENAMED_KEYS.get(name, name)
    if value is None:
        return key
    needs_no_quotes = isinstance(value, str) and re.fullmatch(r"[a-z_]+", value)
    return f"{key}: {value if needs_no_quotes else json_text(value)}"


def describe_error(error: DbanonError) -> str:
    """Render an error's message and hint, naming options as in a job file."""
    hint = error.format_hint(spell_in_job_file)
    return f"{error.message} {hint}".rstrip(".") if hint else error.message.rstrip(".")


@contextmanager
def with_job_file_hints() -> Iterator[None]:
    """Make the hints of errors raised in the block name options as in a job file."""
    try:
        yield
    except DbanonError as error:
        # Fixed: the interface that prints the error must not use its own notation.
        error.fixed_notation = spell_in_job_file
        raise


def _build_schema(parameter: Parameter) -> JsonObject:
    """Build the JSON Schema of an option."""
    schema: JsonObject = {"description": parameter.help}
    json_types: dict[object, str] = {
        int: "integer",
        float: "number",
        bool: "boolean",
        str: "string",
        tuple: "array",
        Mapping: "object",
    }
    json_type = json_types.get(parameter.kind)
    option = parameter.option
    if option.unit == "bytes":
        schema |= {"type": ["integer", "string"], "pattern": r"^[0-9.]+ ?([KMG]i?)?B?$"}
    elif json_type:
        schema["type"] = [json_type, "null"] if parameter.nullable else json_type
    if option.minimum is not None:
        schema["exclusiveMinimum" if option.excludes_minimum else "minimum"] = option.minimum
    if option.maximum is not None:
        schema["maximum"] = option.maximum
    choices = _METHODS if parameter.name == "method" else option.choices
    if choices:
        schema["enum"] = [*choices, *([None] if parameter.nullable else [])]
    if parameter.default is not REQUIRED and isinstance(parameter.default, (int, float, str, bool)):
        schema["default"] = parameter.default
    return schema


def build_option_type(parameter: Parameter) -> Any:
    """Build the type of an option, validated by the option's check."""

    def validate(value: object) -> object:
        if parameter.option.unit == "bytes" and isinstance(value, str):
            n_bytes = parse_bytes(value)
            if n_bytes is None:
                raise validation_error("must be a number of bytes, or a size such as 4GiB or 500MB")
            value = n_bytes
        if parameter.name == "method" and value not in _METHODS:
            raise validation_error("must be one of " + ", ".join(_METHODS))
        try:
            return parameter.check(value)
        except DbanonError:
            raise validation_error(f"must be {parameter.expected}") from None

    return Annotated[Any, AfterValidator(validate), WithJsonSchema(_build_schema(parameter))]


# Options default to None, meaning unset: then the file's ``defaults`` apply, and after them the
# defaults of ``Job``.
_FIELDS: KeywordArguments = {
    name: (build_option_type(option), None) for name, option in _OPTIONS.items()
}
Options: Any = create_model("Options", __base__=StrictModel, **_FIELDS)
