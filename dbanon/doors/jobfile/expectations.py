"""A job's expectations of its source, as written in a job file.

``rows: 30 %`` compares with the last release; ``rows: {least: 4000, most: 9000}`` needs none.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dbanon.doors.jobfile.field_types import ColumnName, StrictModel, refused
from dbanon.job.expectations import PERSONS, ROWS, Bounds, Expectations

_PERCENT = re.compile(r"(?:±\s*)?([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*%")
_LIMITS = ("least", "most")
_OF_COUNTS = (
    "must be a share of the last release, as in 30 %, or numbers, as in {least: 4000, most: 9000}"
)
_SHARE_SCHEMA = {"type": "string", "pattern": r"^(± *)?[0-9]{1,4}(\.[0-9]{1,6})? *%$"}


def _percent(value: Any) -> float | None:
    """Parse a share written in percent; None if the value is not one."""
    written = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if written is None else float(written[1]) / 100


def _bounds(value: Any) -> Any:
    if not isinstance(value, dict):
        if _percent(value) is None:
            raise refused(_OF_COUNTS)
        return value
    if not value or not set(value) <= set(_LIMITS):
        raise refused(_OF_COUNTS)
    if any(type(limit) is not int or limit < 0 for limit in value.values()):
        raise refused("least and most must be whole numbers, 0 or more")
    if value.get("least", 0) > value.get("most", value.get("least", 0)):
        raise refused("least must not be above most")
    return value


def _share(value: Any) -> Any:
    share = _percent(value)
    if share is None or share > 1:
        raise refused("must be a share of the rows, as in 5 %, and 100 % or less")
    return value


_BOUNDS_SCHEMA = {
    "anyOf": [
        _SHARE_SCHEMA,
        {
            "type": "object",
            "minProperties": 1,
            "properties": {name: {"type": "integer", "minimum": 0} for name in _LIMITS},
            "additionalProperties": False,
        },
    ]
}
_Bounds = Annotated[Any, AfterValidator(_bounds), WithJsonSchema(_BOUNDS_SCHEMA)]
_Share = Annotated[Any, AfterValidator(_share), WithJsonSchema(_SHARE_SCHEMA)]


class ExpectSpec(StrictModel):
    """What the source is expected to hold; a run that reads something else is refused."""

    rows: _Bounds | None = None
    persons: _Bounds | None = None
    share_null: dict[ColumnName, _Share] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _some(self) -> ExpectSpec:
        if not self.model_fields_set:
            raise refused("must have one of rows, persons and share_null")
        return self


def expectations_of(spec: ExpectSpec | None) -> Expectations | None:
    """Convert a job's expectations; None if it has none."""
    if spec is None:
        return None
    shares = {name: _percent(share) or 0.0 for name, share in spec.share_null.items()}
    counts = {name: getattr(spec, name) for name in (ROWS, PERSONS)}
    bounds = {name: _bounds_of(value) for name, value in counts.items() if value is not None}
    return Expectations(bounds, shares)


def _bounds_of(value: Any) -> Bounds:
    return Bounds(**value) if isinstance(value, dict) else Bounds(change=_percent(value))
