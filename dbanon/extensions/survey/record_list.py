"""The private list of the records of a sample with their risks. It is never part of a release."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dbanon.errors import DuplicateKeys, InvalidParameter, pluralize
from dbanon.extensions.survey.assess import RecordRisks
from dbanon.extensions.survey.private_file import open_private_file
from dbanon.extensions.survey.read_sample import SampleTable
from dbanon.measures.agreement import MISSING_CODE, Floats, combine_codes
from dbanon.stores.exports.formulas import escape_formula

# The column of the list that numbers rows without a named key.
ROW = "row"
# Differences of risks below this are those of rounding.
_NEGLIGIBLE = 1e-12
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def require_row_key(*, has_key: bool) -> None:
    """Check that the list can say which row each line is about.

    Raises
    ------
    InvalidParameter : no columns identify a row, and the rows have no positions.
    """
    if not has_key:
        raise InvalidParameter(
            "The list of records needs columns that identify a row.",
            hint='Name them: `key=["…"]`.',
        )


def require_unique_keys(table: SampleTable) -> None:
    """Check that the named key identifies each row. Databases have checked it; frames have not.

    Raises
    ------
    DuplicateKeys : rows have NULL in the key, or the key of another row.
    """
    codes = [column.codes for column in table.row_keys.values()]
    if not codes:
        return
    has_null = (np.column_stack(codes) == MISSING_CODE).any(axis=1)
    counts = np.bincount(combine_codes(codes)[~has_null])
    n_null_rows, n_repeated_keys = int(has_null.sum()), int((counts > 1).sum())
    if n_null_rows or n_repeated_keys:
        raise DuplicateKeys(
            f"The key of {table.name} is not unique: {pluralize(n_repeated_keys, 'key')}"
            f" more than once, {pluralize(n_null_rows, 'row')} with NULL in the key.",
            hint='Name columns that are unique for each row: `key=["…"]`.',
        )


def write_record_list(
    path: Path, table: SampleTable, names: Sequence[str], risks: RecordRisks
) -> None:
    """Write the list to a new file that only its owner can read, riskiest records first.

    Parameters
    ----------
    names : the quasi-identifiers, in the order of ``RecordRisks.drops``.

    Raises
    ------
    OutputExists : the file exists.
    InsufficientRights : the file cannot be created.
    """
    with open_private_file(path, "records") as file:
        csv.writer(file).writerows(_list_lines(table, names, risks))


def _list_lines(
    table: SampleTable, names: Sequence[str], risks: RecordRisks
) -> Iterator[list[object]]:
    """Yield the lines of the list, the header first."""
    suda = risks.suda
    key_names = map(_format_text, table.row_keys or (ROW,))
    header: list[object] = [*key_names, "risk", "matching_records"]
    header += [] if risks.household is None else ["household_risk"]
    header += ["columns"] if suda is None else ["columns", "suda", "dis_suda", "suda_columns"]
    yield header
    contributions = None if suda is None else suda.record_contributions()
    household = risks.individual if risks.household is None else risks.household
    # By the risk of the household, then by that of the record; ties in the order of the rows.
    order = np.lexsort((-risks.individual, -household))
    for record in order.tolist():
        line: list[object] = [
            _format_text(column.values[column.codes[record]]) for column in table.row_keys.values()
        ] or [int(table.positions[record])]
        line += [_format(risks.individual[record]), int(risks.sample[record])]
        if risks.household is not None:
            line.append(_format(risks.household[record]))
        drops = risks.drops
        line.append("" if drops is None else _name_largest(names, drops[record]))
        if suda is not None and contributions is not None:
            line += [_format(suda.scores[record]), _format(suda.dis_scores[record])]
            line.append(_name_largest(names, contributions[record]))
        yield line


def _name_largest(names: Sequence[str], shares: Floats) -> str:
    """Name the columns with a share, float64 (m,), the largest first."""
    order = np.argsort(-shares, kind="stable")
    largest = [names[column] for column in order.tolist() if shares[column] > _NEGLIGIBLE]
    return _format_text(", ".join(largest))


def _format_text(text: str) -> str:
    """Write a number as it is; a spreadsheet must not run another text as a formula."""
    return text if _NUMBER.fullmatch(text) else escape_formula(text)


def _format(value: float) -> str:
    return f"{value:.10g}"
