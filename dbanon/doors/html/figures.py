"""Describes losses and risks for the page: formatted values with their limits and meaning.

A figure is a formatted value of a measure.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dbanon.data.types import JsonMapping
from dbanon.data.words import read_key_or_former_key
from dbanon.doors.html.svg import draw_share_bar
from dbanon.job.guarantee import Guarantee
from dbanon.measures.catalogue import LOSSES, RISKS
from dbanon.measures.figure import NOT_FOR_LABELS, Measure

# Values for a template of a page, by name.
PageValues: TypeAlias = dict[str, Any]

# Minimum number of rows per column: with fewer, a correlation could reveal single records.
_ROWS_PER_COLUMN = 30
_CORRELATION_MEASURES = ("correlation_loss",)
# Measures of distance, with the value that they always have if released values are labels
# (intervals or nodes of a hierarchy) that contain the original values.
_FIXED_LABEL_VALUES = {"direct_loss": 0, "nearest_linkage_risk": 1, "disclosure_risk": 1}
# Why these values are fixed; follows a colon.
_COVER_EXPLANATION = "a label that contains the original value has distance 0 from it."
# The measures that the page emphasizes.
_HEADLINE_MEASURES = ("linkage_risk", "sse_loss")


def format_figure(value: float | None, digits: int = 4) -> str:
    """Format a number with this many decimal digits; None becomes a dash."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 0.5 * 10**-digits:
        return f"under {10**-digits:.{digits}f}" if value > 0 else f"{value:.1e}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def describe_losses(evaluation: JsonMapping) -> PageValues:
    """Describe the measures of loss: a row for each that has a value, and the names of the others.

    The names are grouped by the reason why the measures have no value.
    """
    rows = [
        _describe_measure(LOSSES[name], value, evaluation)
        for name, value in evaluation["losses"].items()
        if name in LOSSES
    ]
    return _separate_omitted(rows)


def describe_risks(evaluation: JsonMapping, guarantee: Guarantee | None) -> PageValues:
    """Describe the measures of risk, in the same form as ``describe_losses``.

    Parameters
    ----------
    guarantee : sets limits for some risks; None to describe risks without limits.
    """
    rows = []
    for name, value in evaluation["risks"].items():
        if name not in RISKS:
            continue
        row = _describe_measure(RISKS[name], value, evaluation)
        is_limited = name in ("class_risk", "linkage_risk") and value is not None
        if guarantee is not None and guarantee.has_k_anonymous_rows and is_limited:
            row["limit"] = f"1/{guarantee.k} = {format_figure(1 / guarantee.k)}"
            row["bar"] = draw_share_bar(value, 1 / guarantee.k)
        rows.append(row)
    return _separate_omitted(rows)


def describe_attacks(evaluation: JsonMapping) -> PageValues | None:
    """Describe each attack, or why none was run; None if none was requested."""
    result = evaluation.get("attacks")
    if result is None:
        return None
    if "failed" in result:
        return {"rows": [], "failed": result["failed"]}
    rows = []
    for name, attack in read_key_or_former_key(result, "results").items():
        interval = attack["interval"]
        # ``attack``, ``control`` and ``random`` are shares of right guesses: about originals, about
        # control records, which are not in the release, and at random.
        rows.append(
            (
                name.replace("_", " "),
                format_figure(attack["risk"], digits=3),
                "–" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
                format_figure(attack["attack"], digits=3),
                format_figure(attack["control"], digits=3),
                format_figure(attack["random"], digits=3),
                f"{attack['guesses']:,}",
                attack["note"],
            )
        )
    return {"rows": rows, "failed": ""}


def _separate_omitted(rows: list[PageValues]) -> PageValues:
    """Separate the rows with a figure from the names of other measures, grouped by reason.

    Parameters
    ----------
    rows : one for each measure, as ``_describe_measure`` returns them.
    """
    names_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["omission_reason"]:
            names_by_reason.setdefault(row["omission_reason"], []).append(row["name"])
    return {
        "rows": [row for row in rows if not row["omission_reason"]],
        "omitted": list(names_by_reason.items()),
    }


def describe_columns(evaluation: JsonMapping) -> PageValues:
    """Describe measures of single columns: their names, and a row of figures for each column."""
    columns = evaluation["columns"]
    names = [
        name
        for name in (*LOSSES, *RISKS)
        if any(name in column_values for column_values in columns.values())
        and name not in _CORRELATION_MEASURES
        and not _is_fixed_for_labels(evaluation, name)
    ]
    rows = [
        (
            column,
            *(
                format_figure(column_values[name]) if name in column_values else ""
                for name in names
            ),
        )
        for column, column_values in columns.items()
    ]
    return {"names": names, "rows": rows if names else []}


def describe_parts(evaluation: JsonMapping, name: str) -> list[tuple[str, str]]:
    """Describe the components from which measure ``name`` is computed: name and figure of each."""
    parts = evaluation["parts"].get(name, {})
    return [
        (
            part_name.replace("_", " "),
            f"{value:.0f}" if value == int(value) else format_figure(value),
        )
        for part_name, value in parts.items()
    ]


def _is_fixed_for_labels(evaluation: JsonMapping, name: str) -> bool:
    """Whether a measure has the same value for any labels that contain the original values.

    Evaluations by older versions have no note that says so, so infer it from their losses.
    """
    fixed_value = _FIXED_LABEL_VALUES.get(name)
    value = {**evaluation["losses"], **evaluation["risks"]}.get(name)
    if fixed_value is None or value != fixed_value:
        return False
    if evaluation["notes"].get(name, "").startswith(NOT_FOR_LABELS):
        return True
    label_loss = evaluation["losses"].get("label_loss") or 0
    return label_loss > 0 and evaluation["losses"].get("direct_loss") == 0


def _describe_measure(measure: Measure, value: float | None, evaluation: JsonMapping) -> PageValues:
    """Describe a measure and its value for a row of the page."""
    digits, note = 4, evaluation["notes"].get(measure.name, "")
    if measure.name in _CORRELATION_MEASURES and value is not None:
        digits = 2
        if evaluation["rows"] < _ROWS_PER_COLUMN * len(evaluation["columns"]):
            value = None
            note = f"not shown for fewer than {_ROWS_PER_COLUMN} rows per column"
    is_fixed = _is_fixed_for_labels(evaluation, measure.name)
    if is_fixed:
        note = (
            f"It is {format_figure(value, digits=0)} by definition, however wide the labels are:"
            f" {_COVER_EXPLANATION}"
        )
    # The note gives the reason after its last colon, if it has one.
    omission_reason = (
        "" if value is not None else note.rpartition(": ")[2] or "it has no value here"
    )
    # Only shares that are better if smaller have a bar.
    has_bar = (
        not is_fixed
        and measure.lower_is_better
        and measure.range.startswith(("0 to 1", "0 to about 1"))
    )
    return {
        "name": measure.name,
        "symbol": measure.symbol,
        "summary": measure.summary,
        "range": measure.range,
        "figure": "not meant for labels" if is_fixed else format_figure(value, digits),
        "omission_reason": omission_reason,
        "is_fixed": is_fixed,
        "bar": draw_share_bar(value) if has_bar and value is not None else "",
        "limit": "",
        "note": note,
        "is_headline": measure.name in _HEADLINE_MEASURES,
        "parts": [] if is_fixed else describe_parts(evaluation, measure.name),
    }
