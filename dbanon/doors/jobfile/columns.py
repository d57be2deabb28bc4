"""The columns of a job: their roles, and the keys of each role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dbanon.data.option import REQUIRED, Option, Parameter, all_parameters
from dbanon.doors.jobfile.document import Document
from dbanon.doors.jobfile.field_types import (
    StrictModel,
    Text,
    as_refusals,
    option_type,
    problem_text,
    refused,
)
from dbanon.errors import DbanonError
from dbanon.hierarchy.spec import KINDS, parse
from dbanon.job.columns import VALUE_KINDS
from dbanon.job.job import Job
from dbanon.measures import Model
from dbanon.measures.models import SIMPLE_DISTANCES, model_kinds


def _hierarchy(value: dict[str, Any]) -> dict[str, Any]:
    kinds = [key for key in value if key in KINDS or key == "file"]
    if len(kinds) != 1:
        all_kinds = ", ".join([*KINDS, "file"])
        raise refused(f"must say exactly one kind of hierarchy: {all_kinds}")
    [kind] = kinds
    if kind == "file":
        if set(value) != {"file"} or not isinstance(value["file"], str) or not value["file"]:
            raise refused("a file must be a path, without other keys")
        return value
    keys = {kind: KINDS[kind].key, **KINDS[kind].options}
    for key, part in value.items():
        if key not in keys:
            raise refused(f"{kind} takes no other keys than " + ", ".join(keys))
        if not keys[key].fits(part):
            raise refused(f"{key} must be {keys[key].expected}")
    with as_refusals():
        parse(value, files=False)
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


def number_type(description: str, minimum: float, *, above: bool) -> Any:
    """Return the type of a number with a lower limit."""
    parameter = Parameter(
        "", float, REQUIRED, Option(description, minimum=minimum, excludes_minimum=above)
    )
    return option_type(parameter)


def _option_number(name: str) -> Any:
    """Return the type of a column's value in an option that maps columns to numbers."""
    [parameter] = [parameter for parameter in all_parameters(Job) if parameter.name == name]
    return number_type(
        parameter.help,
        float(parameter.option.minimum or 0),
        above=parameter.option.excludes_minimum,
    )


def _distance(value: Any) -> Any:
    if value not in SIMPLE_DISTANCES:
        if not isinstance(value, dict):
            raise refused("must be equal, ordered or a hierarchy")
        _hierarchy(value)
    return value


class ModelSpec(StrictModel):
    """A privacy model that every class keeps to."""

    kind: Literal[model_kinds()]  # type: ignore[valid-type]
    level: number_type("The required level.", 0, above=True)  # type: ignore[valid-type]
    l: Annotated[int, Field(ge=1)] | None = None  # noqa: E741
    distance: Annotated[
        Any,
        AfterValidator(_distance),
        WithJsonSchema({"anyOf": [{"enum": list(SIMPLE_DISTANCES)}, {"type": "object"}]}),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> ModelSpec:
        # Hierarchies are parsed later, with an error path of their own.
        plain = self.model_dump(exclude_none=True)
        if not isinstance(plain.get("distance"), dict):
            with as_refusals():
                Model.from_plain({**plain, "attribute": "it"}, files=False)
        return self


def _order(value: list[str]) -> list[str]:
    if len(set(value)) != len(value):
        raise refused("must not hold a value twice")
    return value


class IdentifierColumn(StrictModel):
    """Identifies persons, and is never released."""

    role: Literal["identifier"]


class QuasiIdentifierColumn(StrictModel):
    """Together with others it could re-identify a person: released as its class's value."""

    role: Literal["quasi_identifier"]
    hierarchy: Hierarchy | None = None
    step: _option_number("steps") | None = None  # type: ignore[valid-type]
    weight: _option_number("weights") | None = None  # type: ignore[valid-type]
    order: Annotated[list[Text], AfterValidator(_order)] | None = None
    kind: Literal[VALUE_KINDS] | None = None  # type: ignore[valid-type]


class SensitiveColumn(StrictModel):
    """Released as it is, and counted as sensitive."""

    role: Literal["sensitive"]
    models: list[ModelSpec] = Field(default_factory=list)


class KeepColumn(StrictModel):
    """Released as it is, for a reason."""

    role: Literal["keep"]
    reason: Text


class StratumColumn(StrictModel):
    """Its values make strata: released as they are, no class crosses them."""

    role: Literal["by"]


class PseudonymColumn(StrictModel):
    """Released as a keyed hash of its value, so that it joins; the job says where the key is."""

    role: Literal["pseudonym"]


class DropColumn(StrictModel):
    """Not released."""

    role: Literal["drop"]
    reason: Text | None = None


COLUMN_KINDS = (
    IdentifierColumn,
    QuasiIdentifierColumn,
    SensitiveColumn,
    KeepColumn,
    StratumColumn,
    PseudonymColumn,
    DropColumn,
)
ROLES = tuple(kind.model_fields["role"].annotation.__args__[0] for kind in COLUMN_KINDS)  # type: ignore[union-attr]
Column = Annotated[
    IdentifierColumn
    | QuasiIdentifierColumn
    | SensitiveColumn
    | KeepColumn
    | StratumColumn
    | PseudonymColumn
    | DropColumn,
    Field(discriminator="role"),
]


def _parse_hierarchy(
    document: Document, content: Mapping[str, Any], path: tuple[str | int, ...]
) -> Any:
    """Parse a hierarchy; if it is refused, record the problem and return None."""
    try:
        if "file" in content:
            return parse(document.file.parent / str(content["file"]), files=True)
        return parse(content, files=False)
    except DbanonError as error:
        document.refuse(path, problem_text(error))
        return None


def hierarchies_of(
    document: Document, columns: Mapping[str, Any], path: tuple[str | int, ...]
) -> dict[str, Any] | None:
    """Parse the hierarchies of a job's columns; None if one was refused."""
    hierarchies = {
        name: _parse_hierarchy(document, column.hierarchy, (*path, "columns", name, "hierarchy"))
        for name, column in columns.items()
        if isinstance(column, QuasiIdentifierColumn) and column.hierarchy is not None
    }
    return None if None in hierarchies.values() else hierarchies


def models_of(
    document: Document, columns: Mapping[str, Any], path: tuple[str | int, ...]
) -> tuple[Model, ...] | None:
    """Build the privacy models of a job's columns; None if one was refused."""
    models: list[Model] = []
    is_valid = True
    for name, column in columns.items():
        if not isinstance(column, SensitiveColumn):
            continue
        for index, model in enumerate(column.models):
            model_path = (*path, "columns", name, "models", index)
            fields = model.model_dump(exclude_none=True)
            if isinstance(fields.get("distance"), dict):
                fields["distance"] = _parse_hierarchy(
                    document, fields["distance"], (*model_path, "distance")
                )
            try:
                models.append(Model.from_plain({**fields, "attribute": name}, files=False))
            except DbanonError as error:
                document.refuse(model_path, problem_text(error))
                is_valid = False
    return tuple(models) if is_valid else None
