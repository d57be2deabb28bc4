"""The disclosure risk of two tables in memory, as ``dbanon.evaluate`` measures it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.job.risk import require_rows_of_persons
from dbanon.job.weight import WEIGHT_RECORD
from dbanon.run.evaluate_risk import check_risk, compare_tables
from dbanon.run.job_runner import TableRows

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.release.report import Report
    from dbanon.release.risk_figures import RiskFigures


def measure_risk(
    options: object,
    original: pd.DataFrame,
    released: pd.DataFrame,
    names: Sequence[str],
    report: Report | None,
    entities: NDArray[np.int32] | None,
) -> RiskFigures:
    """Measure the risk of a table and of its release.

    Parameters
    ----------
    options : as ``check_risk`` takes them.
    names : the columns whose values others may know, unless the options name them. Without a
        report, the weight and the household of the options are none of them.
    report : the report of the run; its strata count, too, and its design weight.
    entities : int32 (n,), the person of each original; None if each row is a person.

    Raises
    ------
    InvalidParameter, UnknownOption : an option is not allowed, or persons have several rows.
    ColumnNotFound : a table lacks a named column.
    """
    risk = check_risk(options)
    weight = None
    weight_and_household = (risk.options.get("weight"), risk.options.get("household"))
    class_columns = tuple(
        name for name in names if report is not None or name not in weight_and_household
    )
    if report is not None:
        class_columns += tuple(report.arguments.get("by", ()))
        weight = report.arguments.get(WEIGHT_RECORD, {}).get("column")
    if entities is not None:
        require_rows_of_persons(len(entities), len(np.unique(entities)))
    columns = risk.columns(class_columns, weight)
    return compare_tables(
        risk,
        _read_rows("original", original, columns),
        _read_rows("released", released, [str(name) for name in released.columns]),
        class_columns,
        weight,
    )


def _read_rows(table: str, frame: pd.DataFrame, names: Sequence[str]) -> TableRows:
    """Read columns of a frame, whose rows are values of Python with None for NULL."""
    from dbanon.stores.frame.microdata import attribute_of, require_columns

    require_columns(frame, names)
    columns = frame[list(names)].astype(object)
    rows = columns.where(columns.notna(), None).itertuples(index=False, name=None)
    attributes = tuple(attribute_of(name, frame[name]) for name in names)
    return TableRows(table, attributes, [list(rows)])
