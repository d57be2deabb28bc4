"""The columns of a job: a role each, and what belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dbanon.data.option import REQUIRED, Option, Parameter, all_parameters
from dbanon.doors.jobfile.document import Document
from dbanon.doors.jobfile.field_types import Strict, Text, in_words, problem_text, refused, typed
from dbanon.errors import DbanonError
from dbanon.hierarchy.spec import KINDS, parse
from dbanon.job.columns import VALUE_KINDS
from dbanon.job.job import Job
from dbanon.measures import Model
from dbanon.measures.models import ORDERS, model_kinds


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
    with in_words():
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


def number(told: str, minimum: float, *, above: bool) -> Any:
    """A number with a lower limit."""
    one = Parameter("", float, REQUIRED, Option(told, minimum=minimum, above=above))
    return typed(one)


def _of_column(name: str) -> Any:
    """The number that a column has of an option with one for each."""
    [one] = [one for one in all_parameters(Job) if one.name == name]
    return number(one.help, float(one.option.minimum or 0), above=one.option.above)


def _distance(value: Any) -> Any:
    if value not in ORDERS:
        if not isinstance(value, dict):
            raise refused("must be equal, ordered or a hierarchy")
        _hierarchy(value)
    return value


class ModelSpec(Strict):
    """A privacy model that every class keeps to."""

    kind: Literal[model_kinds()]  # type: ignore[valid-type]
    level: number("The level that is wanted.", 0, above=True)  # type: ignore[valid-type]
    l: Annotated[int, Field(ge=1)] | None = None  # noqa: E741
    distance: Annotated[
        Any,
        AfterValidator(_distance),
        WithJsonSchema({"anyOf": [{"enum": list(ORDERS)}, {"type": "object"}]}),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> ModelSpec:
        # A hierarchy is read beside the others, and refused at its own place.
        plain = self.model_dump(exclude_none=True)
        if not isinstance(plain.get("distance"), dict):
            with in_words():
                Model.of_plain({**plain, "attribute": "it"}, files=False)
        return self


def _order(value: list[str]) -> list[str]:
    if len(set(value)) != len(value):
        raise refused("must not hold a value twice")
    return value


class IdentifierColumn(Strict):
    """Says whose a row is: never released."""

    role: Literal["identifier"]


class QuasiIdentifierColumn(Strict):
    """Together with others it could re-identify a person: released as its class's value."""

    role: Literal["quasi_identifier"]
    hierarchy: Hierarchy | None = None
    step: _of_column("steps") | None = None  # type: ignore[valid-type]
    weight: _of_column("weights") | None = None  # type: ignore[valid-type]
    order: Annotated[list[Text], AfterValidator(_order)] | None = None
    kind: Literal[VALUE_KINDS] | None = None  # type: ignore[valid-type]


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


class PseudonymColumn(Strict):
    """Released as a keyed hash of its value, so that it joins; the job says where the key is."""

    role: Literal["pseudonym"]


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
    PseudonymColumn,
    DropColumn,
)
ROLES = tuple(kind.model_fields["role"].annotation.__args__[0] for kind in COLUMN_KINDS)  # type: ignore[union-attr]
Column = Annotated[
    IdentifierColumn
    | QuasiIdentifierColumn
    | SensitiveColumn
    | KeepColumn
    | ByColumn
    | PseudonymColumn
    | DropColumn,
    Field(discriminator="role"),
]


def _parsed(document: Document, given: Mapping[str, Any], path: tuple[str | int, ...]) -> Any:
    """A hierarchy; None where it was refused."""
    try:
        if "file" in given:
            return parse(document.file.parent / str(given["file"]), files=True)
        return parse(given, files=False)
    except DbanonError as error:
        document.refuse(path, problem_text(error))
        return None


def hierarchies_of(
    document: Document, columns: Mapping[str, Any], path: tuple[str | int, ...]
) -> dict[str, Any] | None:
    """The hierarchies of a job's columns; None where one was refused."""
    found = {
        name: _parsed(document, column.hierarchy, (*path, "columns", name, "hierarchy"))
        for name, column in columns.items()
        if isinstance(column, QuasiIdentifierColumn) and column.hierarchy is not None
    }
    return None if None in found.values() else found


def models_of(
    document: Document, columns: Mapping[str, Any], path: tuple[str | int, ...]
) -> tuple[Model, ...] | None:
    """The privacy models of a job's columns; None where one was refused."""
    found: list[Model] = []
    fine = True
    for name, column in columns.items():
        if not isinstance(column, SensitiveColumn):
            continue
        for place, model in enumerate(column.models):
            at = (*path, "columns", name, "models", place)
            plain = model.model_dump(exclude_none=True)
            if isinstance(plain.get("distance"), dict):
                plain["distance"] = _parsed(document, plain["distance"], (*at, "distance"))
            try:
                found.append(Model.of_plain({**plain, "attribute": name}, files=False))
            except DbanonError as error:
                document.refuse(at, problem_text(error))
                fine = False
    return tuple(found) if fine else None
