"""Check that recorded releases are well-formed; anyone with write access could forge them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dbanon.data.types import JsonMapping, SqlRow
from dbanon.errors import InvalidParameter, LedgerEntryBroken
from dbanon.job.guarantee import GUARANTEES, ROWS
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.job.sets import ColumnSet
from dbanon.job.weight import CLASS_FORMS, WEIGHT_FORMS, WEIGHT_RECORD
from dbanon.ledger.tables import LedgerEntry
from dbanon.measures import Model
from dbanon.methods.registry import MISSING_OPTION, WILDCARD
from dbanon.sessions.names import RelationName

# The errors that malformed values cause when they are read; deeply nested JSON raises
# RecursionError.
MALFORMED_ERRORS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@contextmanager
def reading_entry(name: object) -> Iterator[None]:
    """Raise LedgerEntryBroken if the block fails because the entry is malformed.

    Parameters
    ----------
    name : the output of the entry, or another phrase for messages.
    """
    try:
        yield
    except MALFORMED_ERRORS as error:
        raise LedgerEntryBroken(
            f"The ledger's entry of {name} is broken: it does not have the form that dbanon"
            " writes.",
            # The text of the exception may quote the entry.
            detail=type(error).__name__,
            hint="Another program changed it. Name quasi-identifiers and k to recount the relation,"
            " and release the source again.",
        ) from None


def read_entry(
    release_id: str, name: RelationName, row: SqlRow, quasi_identifiers: tuple[str, ...]
) -> LedgerEntry:
    """Build the entry of a release from its row.

    Parameters
    ----------
    row : six values: the requested k, the histogram, the guarantee as a sentence, the arguments,
        the number of rows, and epsilon.
    quasi_identifiers : the released quasi-identifiers and strata, in column order.

    Raises
    ------
    InvalidParameter, and any of ``MALFORMED_ERRORS`` : a value is malformed; see ``reading_entry``.
    """
    k_requested, histogram, sentence, arguments_json, rows, epsilon = row
    k = 0 if k_requested is None else int(k_requested)
    arguments = require_arguments(parse_json(arguments_json))
    return LedgerEntry(
        release_id=release_id,
        name=name,
        quasi_identifiers=quasi_identifiers,
        k_requested=k,
        histogram=require_histogram(parse_json(histogram)),
        guarantee=guarantee_from_ledger(k, arguments),
        sentence=str(sentence),
        entity=arguments.get("entity"),
        models=arguments.get("models", []),
        hierarchies=arguments.get("hierarchies", {}),
        design_weight=arguments.get(WEIGHT_RECORD, {}),
        epsilon=None if epsilon is None else float(epsilon),
        rows=int(rows),
        # Only private releases have these: the declared ranges and the declared values of columns.
        between=arguments.get("between", {}),
        listed=arguments.get("listed", {}),
    )


def parse_json(value: object) -> Any:
    """Parse a JSON value of a ledger column, which some databases return as text."""
    return json.loads(value) if isinstance(value, str) else value


def require_arguments(arguments: JsonMapping) -> JsonMapping:
    """Check the recorded arguments of a release, and return them.

    Raises
    ------
    InvalidParameter, and any of ``MALFORMED_ERRORS`` : an argument is malformed.
    """
    is_well_formed = (
        isinstance(arguments, dict)
        and is_list_of_strings(arguments.get("by", []))
        and arguments.get("guarantee", ROWS) in GUARANTEES
        and isinstance(arguments.get("entity", ""), (str, type(None)))
        and all(is_model(model) for model in arguments.get("models", []))
        and all(is_column_set(column_set) for column_set in arguments.get("also_k", []))
        and isinstance(arguments.get("options", {}), Mapping)
        # The number of rows that agree is recorded where NULL agrees with every value.
        and (
            arguments.get("options", {}).get(MISSING_OPTION) != WILDCARD
            or type(arguments.get("agreeing_rows")) is int
        )
        and _has_only_objects(arguments.get("hierarchies", {}))
        and (WEIGHT_RECORD not in arguments or is_weight_record(arguments[WEIGHT_RECORD]))
        and all(map(is_list_of_strings, arguments.get("between", {}).values()))
        and all(map(is_list_of_strings, arguments.get("listed", {}).values()))
    )
    if not is_well_formed:
        raise ValueError("arguments of an unexpected form")
    return dict(arguments)


def require_histogram(histogram: JsonMapping | None) -> Mapping[str, int]:
    """Check the recorded number of classes by size, and return it.

    Raises
    ------
    Any of ``MALFORMED_ERRORS`` : a size or a count is malformed.
    """
    counts_by_size = {} if histogram is None else histogram
    if not all(int(size) > 0 and type(count) is int for size, count in counts_by_size.items()):
        raise ValueError("a histogram of an unexpected form")
    return dict(counts_by_size)


def is_list_of_strings(value: object) -> bool:
    """Return True for a list of strings."""
    return isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)


def is_column_set(recorded_set: JsonMapping) -> bool:
    """Return True for a column set in the form that reports write.

    ``counted`` is the size of the smallest class of these columns, as the recount found it.
    """
    try:
        ColumnSet.from_plain({name: recorded_set[name] for name in ("columns", "k")})
    except InvalidParameter:
        return False
    return isinstance(recorded_set["k"], int) and isinstance(recorded_set["counted"], int)


def is_weight_record(record: JsonMapping) -> bool:
    """Return True for the record of a design weight in the form that reports write."""
    form = record["as"]
    has_valid_sum = form not in CLASS_FORMS or math.isfinite(record["sum"])
    return isinstance(record["column"], str) and form in WEIGHT_FORMS and has_valid_sum


def is_model(recorded_model: JsonMapping) -> bool:
    """Return True for a privacy model in the form that reports write.

    ``model`` describes it in words, and ``counted`` is the level that the recount found.
    """
    field_names = ("kind", "attribute", "level", "l")
    model_fields = {name: recorded_model[name] for name in field_names if name in recorded_model}
    try:
        # Entries of earlier versions have no kind; they describe a model only by its text.
        if "kind" in model_fields:
            Model.from_plain(model_fields)
    except InvalidParameter:
        return False
    return isinstance(recorded_model["model"], str) and isinstance(
        recorded_model["counted"], (int, float)
    )


def _has_only_objects(value: JsonMapping) -> bool:
    """Return True if all values of a JSON object are JSON objects."""
    return all(isinstance(inner_value, Mapping) for inner_value in value.values())
