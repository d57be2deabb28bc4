"""Figures of losses and risks as the page shows them: digits, limits, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.data.words import read_renamed
from dbanon.doors.html.svg import share_bar
from dbanon.job.guarantee import Guarantee
from dbanon.measures.catalogue import LOSSES, RISKS
from dbanon.measures.figure import NOT_FOR_LABELS, Measure

Row = dict[str, Any]

# With fewer rows per column, a correlation could reveal single records.
_ROWS_PER_COLUMN = 30
_OF_CORRELATIONS = ("correlation_loss",)
# Measures of distance, and their value if every label covers its value.
_OF_LABELS = {"direct_loss": 0, "nearest_linkage_risk": 1, "disclosure_risk": 1}
_COVERS = "a label that covers its value has distance 0 from it."
_HEADLINES = ("linkage_risk", "sse_loss")


def figure(value: float | None, digits: int = 4) -> str:
    """A figure with this many digits; a dash for None."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 0.5 * 10**-digits:
        return f"under {10**-digits:.{digits}f}" if value > 0 else f"{value:.1e}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def losses(evaluation: Mapping[str, Any]) -> Row:
    """A row for each measure of loss with a figure, and the names of the others by reason."""
    rows = [
        _row(LOSSES[name], value, evaluation)
        for name, value in evaluation["losses"].items()
        if name in LOSSES
    ]
    return _describe_rows(rows)


def risks(evaluation: Mapping[str, Any], guarantee: Guarantee | None) -> Row:
    """Like ``losses``, for measures of risk, with the limits that the guarantee sets."""
    rows = []
    for name, value in evaluation["risks"].items():
        if name not in RISKS:
            continue
        row = _row(RISKS[name], value, evaluation)
        is_limited = name in ("class_risk", "linkage_risk") and value is not None
        if guarantee is not None and guarantee.has_k_anonymous_rows and is_limited:
            row["limit"] = f"1/{guarantee.k} = {figure(1 / guarantee.k)}"
            row["bar"] = share_bar(value, 1 / guarantee.k)
        rows.append(row)
    return _describe_rows(rows)


def attacks(evaluation: Mapping[str, Any]) -> Row | None:
    """A row for each attack with its interval, or why none was run; None if none was requested."""
    result = evaluation.get("attacks")
    if result is None:
        return None
    if "failed" in result:
        return {"rows": [], "failed": result["failed"]}
    rows = []
    for name, attack in read_renamed(result, "results").items():
        ends = attack["interval"]
        rows.append(
            (
                name.replace("_", " "),
                figure(attack["risk"], 3),
                "–" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}",
                figure(attack["attack"], 3),
                figure(attack["control"], 3),
                figure(attack["random"], 3),
                f"{attack['guesses']:,}",
                attack["note"],
            )
        )
    return {"rows": rows, "failed": ""}


def _describe_rows(rows: list[Row]) -> Row:
    """Rows with a figure, and the names of the others by the reason."""
    left: dict[str, list[str]] = {}
    for row in rows:
        if row["left"]:
            left.setdefault(row["left"], []).append(row["name"])
    return {"rows": [row for row in rows if not row["left"]], "left": list(left.items())}


def by_column(evaluation: Mapping[str, Any]) -> Row:
    """Measures of single columns: their names, and a row of figures for each column."""
    columns = evaluation["columns"]
    names = [
        name
        for name in (*LOSSES, *RISKS)
        if any(name in of_column for of_column in columns.values())
        and name not in _OF_CORRELATIONS
        and not _by_definition(evaluation, name)
    ]
    rows = [
        (column, *(figure(of_column[name]) if name in of_column else "" for name in names))
        for column, of_column in columns.items()
    ]
    return {"names": names, "rows": rows if names else []}


def parts_of(evaluation: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """The parts of a figure: their names and figures."""
    parts = evaluation["parts"].get(name, {})
    return [
        (part.replace("_", " "), f"{value:.0f}" if value == int(value) else figure(value))
        for part, value in parts.items()
    ]


def _by_definition(evaluation: Mapping[str, Any], name: str) -> bool:
    """Whether a figure of labels is 0 or 1 whatever the labels hide.

    Old evaluations have no note on such figures and are recognized by their losses.
    """
    fixed = _OF_LABELS.get(name)
    if fixed is None or {**evaluation["losses"], **evaluation["risks"]}.get(name) != fixed:
        return False
    if evaluation["notes"].get(name, "").startswith(NOT_FOR_LABELS):
        return True
    label_loss = evaluation["losses"].get("label_loss") or 0
    return label_loss > 0 and evaluation["losses"].get("direct_loss") == 0


def _row(measure: Measure, value: float | None, evaluation: Mapping[str, Any]) -> Row:
    digits, note = 4, evaluation["notes"].get(measure.name, "")
    if measure.name in _OF_CORRELATIONS and value is not None:
        digits = 2
        if evaluation["rows"] < _ROWS_PER_COLUMN * len(evaluation["columns"]):
            value = None
            note = f"not shown for fewer than {_ROWS_PER_COLUMN} rows per column"
    fixed = _by_definition(evaluation, measure.name)
    if fixed:
        note = f"It is {figure(value, 0)} by definition, whatever the labels hide: {_COVERS}"
    left = "" if value is not None else note.rpartition(": ")[2] or "it has no value here"
    has_bar = (
        not fixed
        and measure.lower_is_better
        and measure.range.startswith(("0 to 1", "0 to about 1"))
    )
    return {
        "name": measure.name,
        "symbol": measure.symbol,
        "summary": measure.summary,
        "range": measure.range,
        "figure": "not meant for labels" if fixed else figure(value, digits),
        "left": left,
        "fixed": fixed,
        "bar": share_bar(value) if has_bar and value is not None else "",
        "limit": "",
        "note": note,
        "headline": measure.name in _HEADLINES,
        "parts": [] if fixed else parts_of(evaluation, measure.name),
    }
