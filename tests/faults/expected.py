"""Which refusals a case must lead to, computed from its rows alone, without dbanon."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.faults.cases import CATEGORICAL, CROSSING_PATTERNS, LEVELS, Case
from tests.faults.levels import keeps, levels_of
from tests.faults.tables import LIMITS, NUMBERS, SYSTEM_NAMES

Row = dict[str, str | None]

TOO_FEW = {"too_few_records", "privacy_refusal"}
# Unsupported combinations of type, recoding and option; they are refused before reading.
UNFIT = {"unsupported_type", "invalid_parameter"}


def groups(rows: Sequence[Row], case: Case) -> list[list[Row]]:
    """The sets of rows that classes may not cross: strata, and patterns of NULLs.

    Methods that release cells as NULL build classes across patterns.

    If rows may be withheld and some sets have k rows, smaller sets are omitted.
    """
    arguments = case.arguments
    names = arguments["quasi_identifiers"]
    if arguments["nulls"] == "suppress":
        rows = [row for row in rows if None not in [row[name] for name in names]]
    by_stratum: dict[Any, list[Row]] = defaultdict(list)
    crosses_patterns = arguments["method"] in CROSSING_PATTERNS
    for row in rows:
        pattern = () if crosses_patterns else tuple(row[name] is None for name in names)
        by_stratum[(tuple(row[name] for name in arguments.get("by", ())), pattern)].append(row)
    strata = list(by_stratum.values())
    if arguments.get("max_suppression", 0) == 0:
        return strata
    return [rows for rows in strata if counted(rows, case) >= arguments["k"]] or strata


def counted(rows: Sequence[Row], case: Case) -> int:
    """Number of rows, or of persons."""
    entity = case.arguments.get("entity")
    return len(rows) if entity is None else len({row[entity] for row in rows})


def due(case: Case, rows: Sequence[Row]) -> tuple[set[str], set[str]]:
    """Error codes in two sets: one of the first, if not empty, must be raised; others may be."""
    arguments = case.arguments
    names = arguments["quasi_identifiers"]
    must: set[str] = set()
    may: set[str] = set()
    columns = [case.table.column(name) for name in names]
    if any(row[name] is None for row in rows for name in names) and arguments["nulls"] == "error":
        must.add("null_in_quasi_identifier")
    entity = arguments.get("entity")
    strata = groups(rows, case)
    # A row withheld for another NULL may lack a person identifier.
    if entity is not None and any(row[entity] is None for stratum in strata for row in stratum):
        must.add("null_in_entity")
    elif entity is not None and any(row[entity] is None for row in rows):
        may.add("null_in_entity")
    small = [stratum for stratum in strata if counted(stratum, case) < case.arguments["k"]]
    if not strata or small:
        must |= TOO_FEW
    withheld = len(rows) - sum(map(len, strata))
    budget = arguments.get("max_suppression", 0)
    if withheld and withheld / max(len(rows), 1) > budget:
        must |= {"suppression_over_budget"}
    if not may_be_small(case):
        must |= _infeasible(case, strata)
    else:
        may |= {"model_infeasible", "suppression_over_budget", *TOO_FEW}
        must -= TOO_FEW
    may |= _unfit(case, columns)
    if case.arguments["method"] in LEVELS:
        may |= {"suppression_over_budget", *TOO_FEW}
    if any(column.extreme for column in case.table.columns):
        may |= {"non_finite_value", "mixed_types", *UNFIT, *must}
        must = set()
        may |= TOO_FEW | {"null_in_quasi_identifier", "suppression_over_budget", "null_in_entity"}
    return must, may


def may_be_small(case: Case) -> bool:
    """Whether strata that fail a model may be withheld entirely."""
    return bool(case.arguments.get("withhold_failing"))


def _unfit(case: Case, columns: Sequence[Any]) -> set[str]:
    arguments, codes = case.arguments, set()
    method = arguments["method"]
    recoding = arguments.get("recoding")
    coded = [c for c in columns if c.family not in NUMBERS]
    ordered = [c for c in coded if c.family == "enum" or c.name in arguments.get("orders", {})]
    if method not in CATEGORICAL and len(coded) > len(ordered):
        codes |= UNFIT
    if ordered and (method == "secure_kward" or recoding in ("secure", "mean")):
        codes |= UNFIT
    if recoding == "mean" and coded:
        codes |= UNFIT
    if "hierarchies" in arguments and recoding in ("mean", "median", "medoid"):
        codes |= UNFIT
    # Means of wide numbers are exact, and text can store their bounds; other recodings refuse them.
    if any(_wide(column) for column in columns):
        codes |= UNFIT | {"hierarchy_broken"}
    beyond = arguments.get("intervals") in ("bounds", "midpoint") or method == "secure_kward"
    if beyond and any(map(_at_the_end, columns)):
        # The type cannot represent the bounds of the ranges, or values moved away.
        codes |= {"unsupported_type"}
    # PostgreSQL's names have at most 63 bytes; a bound adds up to five to the column's name.
    longest = 63 - (5 if arguments.get("intervals") == "bounds" else 0)
    if (case.target or case.database) == "postgresql" and any(
        len(c.name.encode()) > longest for c in case.table.columns
    ):
        codes |= {"name_too_long"}
    if case.target is not None:
        others = [c.sql_type for c in case.table.columns if c.family == "other"]
        codes |= UNFIT if others or arguments.get("intervals") == "range" else set()
    if any(c.family == "other" for c in case.table.columns):
        # Strata and copies of json, arrays or geometry: some types have no equality.
        codes |= {"unsupported_type"}
    names = {c.name.casefold() for c in case.table.columns}
    if case.target == "postgresql" and names & set(SYSTEM_NAMES):
        codes |= {"invalid_name"}
    if "rowid" in names and case.table.shape != "view":
        # It hides the row address, and there may be no key.
        codes |= {"key_required"}
    if any(set(c.values) - set(c.levels) - {None} for c in ordered):
        codes |= {"value_not_in_order"}
    return codes


def _wide(column: Any) -> bool:
    if column.family not in ("integer", "decimal", "float"):
        return False
    return any(
        len(value.lstrip("-").replace(".", "")) > 15 or "e" in value
        for value in column.values
        if value is not None
    )


def _at_the_end(column: Any) -> bool:
    """Whether a value plus a fifth of the column's range may exceed the type."""
    present = [value for value in column.values if value is not None]
    decimal = re.match(r"(?i)(?:decimal|numeric)\((\d+), *(\d+)\)", column.sql_type)
    if decimal:
        most = 10.0 ** (int(decimal[1]) - int(decimal[2]))
        first, last = -most, most
    elif column.family == "integer":
        first, last = LIMITS.get(column.sql_type.upper(), (-(2.0**31), 2.0**31))
    else:
        return False
    if not present:
        return False
    low, high = min(map(float, present)), max(map(float, present))
    reach = (high - low) / 5
    return low - reach < first or high + reach >= last


def _infeasible(case: Case, strata: Sequence[Sequence[Row]]) -> set[str]:
    """Whether a stratum breaks a model even as one class, so that no release can satisfy it."""
    entity = case.arguments.get("entity")
    for model in case.arguments.get("models", ()):
        name = model["attribute"]
        numbers = case.table.column(name).family in ("integer", "decimal", "float")
        strata_values = [
            [row[name] if entity is None else (row[entity], row[name]) for row in stratum]
            for stratum in strata
        ]
        reached = levels_of(model, strata_values, numbers, persons=entity is not None)
        if not all(keeps(model, value, 1e-6) for value in reached):
            return {"model_infeasible", *TOO_FEW}
    return set()
