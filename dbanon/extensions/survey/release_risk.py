"""The disclosure risk of a job's source and of its release, from rows that the run reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Kind
from dbanon.data.weights import WEIGHT_KINDS, require_positive_weights, require_weight_type
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.extensions.survey.private_file import open_private_file
from dbanon.extensions.survey.read_sample import (
    SampleTable,
    code_sample,
    find_released_parts,
    join_parts,
)
from dbanon.extensions.survey.request import RiskRequest
from dbanon.extensions.survey.risk_comparison import RiskComparison, compare_samples
from dbanon.job.risk import FILE_ENDINGS
from dbanon.measures.agreement import MISSING_CODE
from dbanon.measures.figure import Tick
from dbanon.run.job_runner import TableRows

# Texts of these kinds are those of numbers, which may be written in several ways.
_NUMBER_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def compare_release(
    request: RiskRequest, sample: TableRows, released: TableRows, tick: Tick
) -> RiskComparison:
    """Measure the risk of a table and of its release.

    Parameters
    ----------
    request : the options; ``released`` names the release.
    sample : the quasi-identifiers, the weight and the household, as far as the request names them.
    released : all columns of the release.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    ColumnNotFound : the release has none of the quasi-identifiers.
    TooFewRecords, UnsupportedType, InvalidParameter : the rows cannot be measured.
    """
    sample_table = _read_rows(sample, request.quasi_identifiers, request.weight, request.household)
    tick(0.3)
    released_names = [attribute.name for attribute in released.attributes]
    parts_by_name = find_released_parts(released.name, request.quasi_identifiers, released_names)
    parts = tuple(dict.fromkeys(part for parts in parts_by_name.values() for part in parts))
    kinds = {attribute.name: attribute.kind for attribute in released.attributes}
    weight = request.weight if kinds.get(str(request.weight)) in WEIGHT_KINDS else None
    household = request.household if request.household in released_names else None
    released_table = _read_rows(released, parts, weight, household)
    tick(0.6)
    comparison, _ = compare_samples(
        code_sample(sample_table),
        code_sample(join_parts(released_table, parts, parts_by_name)),
        request,
        request.for_release(tuple(parts_by_name), weight, household),
        tick=lambda share: tick(0.6 + 0.4 * share),
    )
    return comparison


def write_private_figures(comparison: RiskComparison, release_id: str, file: Path) -> None:
    """Write the figures to a new file that only its owner can read.

    Parameters
    ----------
    release_id : the release that they are about; JSON has it.

    Raises
    ------
    InvalidParameter : the file has another ending than those in ``FILE_ENDINGS``.
    OutputExists, InsufficientRights : the file cannot be written.
    """
    if file.suffix == ".html":
        from dbanon.extensions.survey.risk_page import render_risk_page

        text = render_risk_page(comparison.view())
    elif file.suffix == ".json":
        text = json.dumps({"release_id": release_id, **comparison.to_dict()}, indent=2) + "\n"
    elif file.suffix == ".txt":
        text = f"{comparison}\n"
    else:
        raise InvalidParameter(f"The private file must end in one of {', '.join(FILE_ENDINGS)}.")
    with open_private_file(file, "report") as stream:
        stream.write(text)


def _read_rows(
    rows: TableRows, names: Sequence[str], weight: str | None, household: str | None
) -> SampleTable:
    """Read some columns of a table, as codes.

    Parameters
    ----------
    names : the quasi-identifiers.
    weight, household : the columns of these roles; None if there are none.
    """
    attributes = {attribute.name: attribute for attribute in rows.attributes}
    positions = {attribute.name: index for index, attribute in enumerate(rows.attributes)}
    if weight is not None:
        require_weight_type(attributes[weight])
    columns = [*names, *(name for name in (weight, household) if name is not None)]
    coded = dict(
        zip(columns, _code_values(rows.batches, [positions[n] for n in columns]), strict=True)
    )
    n_rows = len(coded[columns[0]].codes)
    if not n_rows:
        raise TooFewRecords(f"{rows.name} has no rows.")
    return SampleTable(
        name=rows.name,
        columns=tuple(coded[name] for name in names),
        is_number=tuple(attributes[name].kind in _NUMBER_KINDS for name in names),
        weights=None if weight is None else _to_weights(coded[weight], weight),
        household=None if household is None else coded[household],
        row_keys={},
        positions=np.arange(n_rows),
    )


def _code_values(batches: Iterable[Any], positions: Sequence[int]) -> list[CodedColumn]:
    """Code the values of the columns at these positions."""
    code_of_value: list[dict[object, int]] = [{} for _ in positions]
    codes: list[list[NDArray[np.int32]]] = [[np.empty(0, np.int32)] for _ in positions]
    for batch in batches:
        if not len(batch):
            continue
        for index, values in enumerate(_list_values(batch, positions)):
            value_codes = code_of_value[index]
            batch_codes = [
                MISSING_CODE
                if value is None
                else value_codes.setdefault(_to_key(value), len(value_codes))
                for value in values
            ]
            codes[index].append(np.array(batch_codes, np.int32))
    return [
        CodedColumn(np.concatenate(parts), tuple(map(str, value_codes)))
        for parts, value_codes in zip(codes, code_of_value, strict=True)
    ]


def _list_values(batch: Any, positions: Sequence[int]) -> Iterator[Sequence[object]]:
    """Yield the values of the columns at these positions, in a list of rows or an Arrow batch."""
    if isinstance(batch, list):
        columns = list(zip(*batch, strict=True))
        return (columns[position] for position in positions)
    return (batch.column(position).to_pylist() for position in positions)


def _to_key(value: object) -> object:
    """Return what identifies a value: the value of numbers and texts, the text of all others."""
    is_plain = isinstance(value, (str, int, float))
    # Not a number equals nothing, not even itself.
    return value if is_plain and value == value else str(value)


def _to_weights(column: CodedColumn, name: str) -> NDArray[np.float64]:
    """Convert a column to design weights, float64 (n,).

    Raises
    ------
    InvalidParameter : a weight is not a number above 0.
    """
    numbers = np.array([_to_float(text) for text in column.values] + [np.nan], np.float64)
    # NULL has the code -1, the last element.
    weights: NDArray[np.float64] = numbers[column.codes]
    require_positive_weights(weights, column.codes != MISSING_CODE, name)
    return weights


def _to_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
