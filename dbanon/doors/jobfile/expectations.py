"""The expectations of a job about its source, as written in a job file.

``rows: 30 %`` limits the change since the last release; ``rows: {least: 4000, most: 9000}`` sets
absolute limits.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dbanon.doors.jobfile.field_types import ColumnName, StrictModel, validation_error
from dbanon.job.expectations import PERSONS, ROWS, Bounds, Expectations

_PERCENT_PATTERN = re.compile(r"(?:±\s*)?([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*%")
_BOUND_KEYS = ("least", "most")
_BOUNDS_REQUIREMENT = (
    "must be a share of the last release, as in 30 %, or numbers, as in {least: 4000, most: 9000}"
)
_SHARE_SCHEMA = {"type": "string", "pattern": r"^(± *)?[0-9]{1,4}(\.[0-9]{1,6})? *%$"}


def _parse_percent(value: object) -> float | None:
    """Parse a share written in percent; None if the value is not one."""
    match = _PERCENT_PATTERN.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if match is None else float(match[1]) / 100


def _check_bounds(value: object) -> object:
    if not isinstance(value, dict):
        if _parse_percent(value) is None:
            raise validation_error(_BOUNDS_REQUIREMENT)
        return value
    if not value or not set(value) <= set(_BOUND_KEYS):
        raise validation_error(_BOUNDS_REQUIREMENT)
    if any(type(limit) is not int or limit < 0 for limit in value.values()):
        raise validation_error("least and most must be whole numbers, 0 or more")
    if value.get("least", 0) > value.get("most", value.get("least", 0)):
        raise validation_error("least must not be above most")
    return value


def _check_share(value: object) -> object:
    share = _parse_percent(value)
    if share is None or share > 1:
        raise validation_error("must be a share of the rows, as in 5 %, and 100 % or less")
    return value


_BOUNDS_SCHEMA = {
    "anyOf": [
        _SHARE_SCHEMA,
        {
            "type": "object",
            "minProperties": 1,
            "properties": {name: {"type": "integer", "minimum": 0} for name in _BOUND_KEYS},
            "additionalProperties": False,
        },
    ]
}
_Bounds = Annotated[Any, AfterValidator(_check_bounds), WithJsonSchema(_BOUNDS_SCHEMA)]
_Share = Annotated[Any, AfterValidator(_check_share), WithJsonSchema(_SHARE_SCHEMA)]


class ExpectSpec(StrictModel):
    """Expected counts of the source; a run is refused if the source does not meet them."""

    # Limits of the number of rows, and of the number of persons.
    rows: _Bounds | None = None
    persons: _Bounds | None = None
    # By column, the largest allowed share of rows with NULL.
    share_null: dict[ColumnName, _Share] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _require_any_expectation(self) -> ExpectSpec:
        if not self.model_fields_set:
            raise validation_error("must have one of rows, persons and share_null")
        return self


def build_expectations(spec: ExpectSpec | None) -> Expectations | None:
    """Convert the expectations of a job file; None if a job has none."""
    if spec is None:
        return None
    max_null_shares = {
        name: _parse_percent(share) or 0.0 for name, share in spec.share_null.items()
    }
    count_specs = {name: getattr(spec, name) for name in (ROWS, PERSONS)}
    bounds = {
        name: _build_bounds(value) for name, value in count_specs.items() if value is not None
    }
    return Expectations(bounds, max_null_shares)


def _build_bounds(value: object) -> Bounds:
    """Build absolute limits from a mapping, or a limit on the change from a share in percent."""
    return Bounds(**value) if isinstance(value, dict) else Bounds(change=_parse_percent(value))
