"""Check that recorded releases are well-formed; anyone with write access could forge them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dbanon.errors import InvalidParameter, LedgerEntryBroken
from dbanon.job.guarantee import GUARANTEES, ROWS
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.job.sets import ColumnSet
from dbanon.ledger.tables import LedgerEntry
from dbanon.measures import Model
from dbanon.sessions.names import RelationName

# Raised for malformed values; deeply nested JSON raises RecursionError.
MISSHAPEN = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def reading_entry(name: object) -> Iterator[None]:
    """Raise LedgerEntryBroken if the entry of this name is malformed."""
    try:
        yield
    except MISSHAPEN as error:
        raise LedgerEntryBroken(
            f"The ledger's entry of {name} is broken: it does not have the form that dbanon"
            " writes.",
            # The text of the exception may quote the entry.
            detail=type(error).__name__,
            hint="Another program changed it. Name quasi-identifiers and k to recount the relation,"
            " and release the source again.",
        ) from None


def read_entry(
    release_id: str, name: RelationName, row: Sequence[Any], quasi_identifiers: tuple[str, ...]
) -> LedgerEntry:
    """Build the entry of a release from its row.

    Parameters
    ----------
    row : k, histogram, guarantee as a sentence, arguments, number of rows and epsilon.

    Raises
    ------
    TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
    InvalidParameter : a value is malformed; see ``reading_entry``.
    """
    k_requested, histogram, sentence, plain, rows, epsilon = row
    k = 0 if k_requested is None else int(k_requested)
    arguments = require_arguments(parse_json(plain))
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
        epsilon=None if epsilon is None else float(epsilon),
        rows=int(rows),
        between=arguments.get("between", {}),
        listed=arguments.get("listed", {}),
    )


def parse_json(value: Any) -> Any:
    """Parse JSON that some databases return as text."""
    return json.loads(value) if isinstance(value, str) else value


def require_arguments(arguments: Any) -> Mapping[str, Any]:
    """Check the recorded arguments of a release, and return them.

    Raises
    ------
    TypeError, ValueError, LookupError, AttributeError, InvalidParameter : one is malformed.
    """
    fits = (
        isinstance(arguments, dict)
        and are_texts(arguments.get("by", []))
        and arguments.get("guarantee", ROWS) in GUARANTEES
        and isinstance(arguments.get("entity", ""), (str, type(None)))
        and all(is_model(model) for model in arguments.get("models", []))
        and all(is_set(column_set) for column_set in arguments.get("also_k", []))
        and _are_objects(arguments.get("hierarchies", {}))
        and all(map(are_texts, arguments.get("between", {}).values()))
        and all(map(are_texts, arguments.get("listed", {}).values()))
    )
    if not fits:
        raise ValueError("arguments of an unexpected form")
    return dict(arguments)


def require_histogram(histogram: Any) -> Mapping[str, int]:
    """Check the recorded number of classes by size; raises as ``require_arguments``."""
    plain = {} if histogram is None else histogram
    if not all(int(size) > 0 and type(count) is int for size, count in plain.items()):
        raise ValueError("a histogram of an unexpected form")
    return dict(plain)


def are_texts(value: object) -> bool:
    """Return True for a list of strings."""
    return isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)


def is_set(plain: Mapping[str, Any]) -> bool:
    """Return True for a column set as reports write it."""
    try:
        ColumnSet.from_plain({name: plain[name] for name in ("columns", "k")})
    except InvalidParameter:
        return False
    return isinstance(plain["k"], int) and isinstance(plain["counted"], int)


def is_model(plain: Mapping[str, Any]) -> bool:
    """Return True for a privacy model as reports write it."""
    parts = ("kind", "attribute", "level", "l")
    named = {name: plain[name] for name in parts if name in plain}
    try:
        if "kind" in named:
            Model.from_plain(named)
    except InvalidParameter:
        return False
    return isinstance(plain["model"], str) and isinstance(plain["counted"], (int, float))


def _are_objects(value: Mapping[str, Any]) -> bool:
    return all(isinstance(part, Mapping) for part in value.values())
