"""The disclosure risk that a job measures, as written in a job file.

Its keys are those options of ``dbanon risk`` that a run does not set itself, the private file for
the figures, and the limits of a release.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from dbanon.data.extension import load_runner
from dbanon.data.types import KeywordArguments
from dbanon.doors.jobfile.field_types import (
    ColumnName,
    StrictModel,
    build_option_type,
    require_path,
    validation_error,
    validator,
)
from dbanon.job.risk import FILE_ENDINGS, FIXED_OPTIONS, JobRisk
from dbanon.run.job_runner import RiskRunner

_RUNNER: RiskRunner = load_runner("sample_risk")
# The run sets these options, or a key of its own: the columns of the job.
_OTHER_OPTIONS = (*FIXED_OPTIONS, "quasi_identifiers")
_OPTIONS = {option.name: option for option in _RUNNER.options if option.name not in _OTHER_OPTIONS}
_Share = Annotated[float, Field(gt=0, le=1)]


def _check_file(value: str) -> None:
    require_path(value)
    if "://" in value:
        raise validation_error("must be a file on this machine")
    if PurePath(value).suffix not in FILE_ENDINGS:
        raise validation_error("must end in .html, .json or .txt")
    if "{release}" not in value:
        raise validation_error("must contain {release}: a private file is never written over")


class _RiskFields(StrictModel):
    """The base of ``RiskSpec``, with the keys that are no options of ``dbanon risk``."""

    quasi_identifiers: Annotated[list[ColumnName], Field(min_length=1)] | None = None
    # The figures, for the account that runs the job only.
    file: (
        Annotated[str, validator(_check_file), Field(json_schema_extra={"x-variables": True})]
        | None
    ) = None
    max_individual: _Share | None = None
    max_global: _Share | None = None

    @model_validator(mode="after")
    def _require_any_use(self) -> _RiskFields:
        if self.file is None and self.max_individual is None and self.max_global is None:
            raise validation_error("must have file, max_individual or max_global")
        return self


_FIELDS: KeywordArguments = {
    name: (build_option_type(option), None) for name, option in _OPTIONS.items()
}
RiskSpec: Any = create_model("RiskSpec", __base__=_RiskFields, **_FIELDS)


def build_risk(spec: Any, job_name: str) -> JobRisk | None:
    """Build what a job measures of the disclosure risk; None if a job measures nothing.

    Parameters
    ----------
    job_name : replaces ``{job}`` in the path of the private file.
    """
    if spec is None:
        return None
    names = ("quasi_identifiers", *_OPTIONS)
    options = {name: getattr(spec, name) for name in names if name in spec.model_fields_set}
    return JobRisk(
        {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
        },
        file=None if spec.file is None else spec.file.replace("{job}", job_name),
        max_individual=spec.max_individual,
        max_global=spec.max_global,
    )


def require_risk_options(
    risk: JobRisk | None, class_columns: tuple[str, ...], design_weight: str | None
) -> None:
    """Check the options of a measurement together, before a database is opened.

    Parameters
    ----------
    class_columns : the quasi-identifiers and strata of the job; empty if the rules of its table
        define them.
    design_weight : its design weight; None without one, or if the rules define it.

    Raises
    ------
    InvalidParameter : two options contradict each other.
    """
    if risk is None:
        return
    options = risk.measure_options(class_columns, design_weight)
    if options["quasi_identifiers"]:
        _RUNNER.require_options(options)
