"""Measure the disclosure risk of a job's source and of its release, before readers see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dbanon.data.extension import load_runner
from dbanon.data.schema import Attribute
from dbanon.data.weights import WEIGHT_KINDS
from dbanon.errors import InvalidParameter, RiskTooHigh
from dbanon.job.job import Job
from dbanon.job.risk import JobRisk, require_rows_of_persons
from dbanon.release.risk_figures import RiskFigures
from dbanon.release.weights import compute_weight_excess
from dbanon.run.job_runner import RiskRunner, TableRows
from dbanon.stores.exports.destinations import file_for, make_directories
from dbanon.stores.ports import PreparedRelease, Source
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget


def build_risk_measure(
    risk: JobRisk, source: Source, target: SqlTarget
) -> Callable[..., RiskFigures]:
    """Return what measures the disclosure risk of a run."""

    def measure(
        draft: PreparedRelease, staged_release: StagedSqlRelease, tick: Callable[[float], None]
    ) -> RiskFigures:
        return _measure_risk(risk, draft, source, target, staged_release, tick)

    return measure


def _measure_risk(
    risk: JobRisk,
    draft: PreparedRelease,
    source: Source,
    target: SqlTarget,
    staged_release: StagedSqlRelease,
    tick: Callable[[float], None],
) -> RiskFigures:
    """Measure the risk before and after, and write the figures to the file of their owner.

    All rows of the source count before, including those that are withheld.

    Raises
    ------
    InvalidParameter : persons have several rows, no measured column or not the weight of a limit is
        released, or an option is not allowed.
    OutputExists, InsufficientRights : the file cannot be written.
    RiskTooHigh : the release exceeds a limit of the job.
    """
    job = draft.job
    options = risk.measure_options(job.class_columns, job.design_weight)
    weight: str | None = options.get("weight")
    _require_rows_of_persons(draft)
    _require_released_columns(options["quasi_identifiers"], job)
    names = job.columns_for_risk
    relation = replace(draft.relation, non_null_columns=())
    sample = TableRows(
        str(relation.name),
        tuple(relation.attribute(name) for name in names),
        (rows for _, rows in source.read_retained_rows(relation, names, job.chunk_rows)),
    )
    attributes, batches = target.read_released(staged_release, job.chunk_rows)
    if (risk.max_individual, risk.max_global) != (None, None):
        _require_released_weight(weight, job, attributes)
    runner: RiskRunner = load_runner("sample_risk")
    figures = runner.compare(
        options,
        sample,
        TableRows(str(draft.output.name), attributes, batches),
        tick,
    )
    if risk.file is not None:
        file = file_for(risk.file, draft.output.release_id)
        make_directories(file.parent)
        runner.write(figures, draft.output.release_id, file)
    _require_limits(risk, figures, _find_weight_factor(weight, draft))
    return figures


def _require_rows_of_persons(draft: PreparedRelease) -> None:
    """Check that each person has one row, since the risk is that of rows.

    Raises
    ------
    InvalidParameter : a person has several rows.
    """
    entities = draft.microdata.entities
    if entities is not None:
        require_rows_of_persons(len(entities), len(np.unique(entities)))


def _require_released_columns(names: Sequence[str], job: Job) -> None:
    """Check that the release has a column whose risk is measured.

    Raises
    ------
    InvalidParameter : it has none.
    """
    if not set(names) & set(job.named_columns):
        raise InvalidParameter(
            "risk.quasi_identifiers names no column that is released.",
            hint="In the key risk, leave out the columns, or name one that is released.",
        )


def _require_released_weight(
    weight: str | None, job: Job, released_attributes: Sequence[Attribute]
) -> None:
    """Check that a limit is compared with risks by the weights that the release has.

    Job files with columns are checked when they are read. Declared rules are known only now.

    Raises
    ------
    InvalidParameter : the release does not have the weight.
    """
    if weight is None:
        return
    names = [attribute.name for attribute in released_attributes if attribute.kind in WEIGHT_KINDS]
    # A quasi-identifier is released as labels or means, which are no weights.
    if weight not in names or weight in job.quasi_identifiers:
        raise InvalidParameter(
            "risk.max_individual and risk.max_global need the weight in the release.",
            hint="Give its column the role weight, or set risk.sampling_fraction in place of"
            " risk.weight.",
        )


def _find_weight_factor(weight: str | None, draft: PreparedRelease) -> float:
    """Return how many times more persons the released weights count than the originals, at most.

    Released rows have the weight of withheld ones, too, and weights may be rounded up, so each row
    seems to be one of more persons.
    """
    released_weight = draft.release.weight
    if released_weight is None or released_weight.attribute.name != weight:
        return 1.0
    return compute_weight_excess(draft.microdata, draft.release)


def _require_limits(risk: JobRisk, figures: RiskFigures, weight_factor: float) -> None:
    """Check the limits of a job; the error says which one is exceeded, and no figure.

    Parameters
    ----------
    weight_factor : how many times more persons the weights count, 1 and more. With fewer persons,
        risks are higher by this factor at most.

    Raises
    ------
    RiskTooHigh : a limit is exceeded.
    """
    limits = (
        ("max_individual", risk.max_individual, figures.highest_after),
        ("max_global", risk.max_global, figures.mean_after),
    )
    exceeded = [
        name
        for name, limit, figure in limits
        # Risks such as 1/11 are rounded.
        if limit is not None and figure * weight_factor > limit * (1 + 1e-9)
    ]
    if exceeded:
        names = " and ".join(f"risk.{name}" for name in exceeded)
        raise RiskTooHigh(
            f"The disclosure risk of the release is above {names}. Nothing was published.",
            hint="Increase `k`, release fewer columns, or code them in wider bands. "
            + (
                "Name a private file for the figures: risk.file."
                if risk.file is None
                else "The job's private file (risk.file) has the figures."
            ),
        )
