"""The columns of a job: their roles, and the keys of each role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dbanon.data.option import REQUIRED, Option, Parameter, all_parameters
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.doors.jobfile.document import Document
from dbanon.doors.jobfile.field_types import (
    StrictModel,
    Text,
    as_validation_errors,
    build_option_type,
    describe_error,
    validation_error,
)
from dbanon.errors import DbanonError
from dbanon.hierarchy.spec import KINDS, HierarchySpec, parse
from dbanon.hierarchy.tree import Hierarchy as HierarchyTree
from dbanon.job.columns import VALUE_KINDS
from dbanon.job.job import Job
from dbanon.job.weight import WEIGHT_FORMS
from dbanon.measures import Model
from dbanon.measures.models import SIMPLE_DISTANCES, model_kinds


def _check_hierarchy(value: JsonObject) -> JsonObject:
    kinds = [key for key in value if key in KINDS or key == "file"]
    if len(kinds) != 1:
        all_kinds = ", ".join([*KINDS, "file"])
        raise validation_error(f"must have exactly one kind of hierarchy: {all_kinds}")
    [kind] = kinds
    if kind == "file":
        if set(value) != {"file"} or not isinstance(value["file"], str) or not value["file"]:
            raise validation_error("a file must be a path, without other keys")
        return value
    # The key that names the kind also holds its main setting; the kind may have further options.
    allowed_keys = {kind: KINDS[kind].key, **KINDS[kind].options}
    for key, key_value in value.items():
        if key not in allowed_keys:
            raise validation_error(f"{kind} allows only the keys " + ", ".join(allowed_keys))
        if not allowed_keys[key].is_valid(key_value):
            raise validation_error(f"{key} must be {allowed_keys[key].expected}")
    # Only for its errors; the result is built later, by ``parse_hierarchies``. With
    # ``files=False``, a text in the specification is never taken for the path of a file.
    with as_validation_errors():
        parse(value, files=False)
    return value


Hierarchy = Annotated[
    JsonObject,
    AfterValidator(_check_hierarchy),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "properties": {
                **{name: {"description": kind.key.expected} for name, kind in KINDS.items()},
                "file": {
                    "type": "string",
                    "description": "the path of a CSV or JSON file, relative to the job file",
                },
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


def build_number_type(description: str, minimum: float, *, excludes_minimum: bool) -> Any:
    """Return the type of a number of at least ``minimum``; above it with ``excludes_minimum``."""
    parameter = Parameter(
        name="",
        type=float,
        default=REQUIRED,
        option=Option(description, minimum=minimum, excludes_minimum=excludes_minimum),
    )
    return build_option_type(parameter)


def _build_number_option_type(name: str) -> Any:
    """Return the type of one column's value of a job option that maps columns to numbers."""
    [parameter] = [parameter for parameter in all_parameters(Job) if parameter.name == name]
    return build_number_type(
        parameter.help,
        float(parameter.option.minimum or 0),
        excludes_minimum=parameter.option.excludes_minimum,
    )


def _check_distance(value: object) -> object:
    if value not in SIMPLE_DISTANCES:
        if not isinstance(value, dict):
            raise validation_error("must be equal, ordered or a hierarchy")
        _check_hierarchy(value)
    return value


# Stands for the column when a privacy model is checked: in the file, a model's keys do not name the
# column that it is about.
_PLACEHOLDER_COLUMN = "column"


class ModelSpec(StrictModel):
    """A privacy model that every class must satisfy."""

    kind: Literal[model_kinds()]  # type: ignore[valid-type]
    level: build_number_type("The required level.", 0, excludes_minimum=True)  # type: ignore[valid-type]
    # Only ``recursive_cl`` has ``l``, and only ``t_closeness`` a distance.
    l: Annotated[int, Field(ge=1)] | None = None  # noqa: E741
    distance: Annotated[
        Any,
        AfterValidator(_check_distance),
        WithJsonSchema({"anyOf": [{"enum": list(SIMPLE_DISTANCES)}, {"type": "object"}]}),
    ] = None

    @model_validator(mode="after")
    def _require_valid_model(self) -> ModelSpec:
        # A distance that is a hierarchy is parsed later, so that its errors have its own path.
        model_keys = self.model_dump(exclude_none=True)
        if not isinstance(model_keys.get("distance"), dict):
            with as_validation_errors():
                Model.from_plain({**model_keys, "attribute": _PLACEHOLDER_COLUMN}, files=False)
        return self


def _check_order(value: list[str]) -> list[str]:
    if len(set(value)) != len(value):
        raise validation_error("must not contain a value twice")
    return value


class IdentifierColumn(StrictModel):
    """Identifies persons, and is never released."""

    role: Literal["identifier"]


class QuasiIdentifierColumn(StrictModel):
    """Could re-identify a person if combined with other columns; each class is given one value."""

    role: Literal["quasi_identifier"]
    hierarchy: Hierarchy | None = None
    # The width of the grid on which released ranges begin and end.
    step: _build_number_option_type("steps") | None = None  # type: ignore[valid-type]
    weight: _build_number_option_type("weights") | None = None  # type: ignore[valid-type]
    order: Annotated[list[Text], AfterValidator(_check_order)] | None = None
    # Whether numbers are codes (nominal) or amounts (numeric).
    kind: Literal[VALUE_KINDS] | None = None  # type: ignore[valid-type]


class SensitiveColumn(StrictModel):
    """Released unchanged, and counted as sensitive."""

    role: Literal["sensitive"]
    models: list[ModelSpec] = Field(default_factory=list)


class KeepColumn(StrictModel):
    """Released unchanged, for the reason given."""

    role: Literal["keep"]
    reason: Text


class StratumColumn(StrictModel):
    """Its values define strata: they are released as they are, and no class spans two strata."""

    role: Literal["by"]


class PseudonymColumn(StrictModel):
    """Released as a keyed hash of its value, so that releases can be joined."""

    role: Literal["pseudonym"]


class WeightColumn(StrictModel):
    """The design weight: for how many persons of the population a row stands."""

    role: Literal["weight"]
    # Whether classes get the mean of their weights, or weights are copied as they are.
    weight_as: Literal[WEIGHT_FORMS] | None = None  # type: ignore[valid-type]


class DropColumn(StrictModel):
    """Not released."""

    role: Literal["drop"]
    reason: Text | None = None


COLUMN_MODELS = (
    IdentifierColumn,
    QuasiIdentifierColumn,
    SensitiveColumn,
    KeepColumn,
    StratumColumn,
    PseudonymColumn,
    WeightColumn,
    DropColumn,
)
# The only value that the field ``role`` of each model allows, in the order of the models.
ROLES = tuple(model.model_fields["role"].annotation.__args__[0] for model in COLUMN_MODELS)  # type: ignore[union-attr]
Column = Annotated[
    IdentifierColumn
    | QuasiIdentifierColumn
    | SensitiveColumn
    | KeepColumn
    | StratumColumn
    | PseudonymColumn
    | WeightColumn
    | DropColumn,
    Field(discriminator="role"),
]


ParsedHierarchy: TypeAlias = HierarchyTree | HierarchySpec


def _parse_hierarchy(
    document: Document, content: JsonMapping, path: tuple[str | int, ...]
) -> ParsedHierarchy | None:
    """Parse a hierarchy; if it is refused, record the problem and return None."""
    try:
        if "file" in content:
            return parse(document.file.parent / str(content["file"]), files=True)
        return parse(content, files=False)
    except DbanonError as error:
        document.add_problem(path, describe_error(error))
        return None


def parse_hierarchies(
    document: Document, columns: Mapping[str, object], path: tuple[str | int, ...]
) -> dict[str, ParsedHierarchy] | None:
    """Parse the hierarchies of a job's columns; None if any was refused.

    Parameters
    ----------
    columns : from column name to its ``Column``.
    path : the path of the job in the document.
    """
    hierarchies = {
        name: _parse_hierarchy(document, column.hierarchy, (*path, "columns", name, "hierarchy"))
        for name, column in columns.items()
        if isinstance(column, QuasiIdentifierColumn) and column.hierarchy is not None
    }
    parsed = {name: tree for name, tree in hierarchies.items() if tree is not None}
    return parsed if len(parsed) == len(hierarchies) else None


def build_models(
    document: Document, columns: Mapping[str, object], path: tuple[str | int, ...]
) -> tuple[Model, ...] | None:
    """Build the privacy models of a job's columns; None if any was refused.

    Parameters
    ----------
    columns : from column name to its ``Column``.
    path : the path of the job in the document.
    """
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
                document.add_problem(model_path, describe_error(error))
                is_valid = False
    return tuple(models) if is_valid else None
