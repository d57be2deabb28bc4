"""Labels of a release read back: which interval or which node they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import unit_of
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import UTC
from dbanon.hierarchy.tree import Hierarchy

# What stands for any value.
ANY = "*"


def intervals(
    labels: Sequence[str], attribute: Attribute, least: float, most: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of ``[a, b)``, ``[a, b]`` or one value, float64 (m,) each; ``*`` is least to most.

    The upper end of ``[a, b)`` is the largest value of the column's type below b. ARX writes
    ``[a, b[``.

    Parameters
    ----------
    labels : m texts, numbers in them spelled as leaves of hierarchies spell them.

    Raises
    ------
    InvalidParameter : a label is none of these.
    """
    known: dict[str, tuple[float, float] | None] = {ANY: (least, most)}
    for label in set(labels) - {ANY}:
        known[label] = _ends(label, attribute)
    wrong = sum(ends is None for ends in known.values())
    if wrong:
        raise InvalidParameter(
            f'Column "{attribute.name}" holds {wrong} labels that are neither a value nor an'
            " interval.",
            hint="Give the hierarchy that they come from.",
        )
    found = np.array([known[label] for label in labels], np.float64).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].copy()


def nodes(labels: Sequence[str], tree: Hierarchy, name: str) -> NDArray[np.int32]:
    """The node of each label, int32 (m,).

    Raises
    ------
    InvalidParameter : a label is none of the hierarchy's.
    """
    of_label = {label: node for node, label in enumerate(tree.labels)}
    of_label.setdefault(ANY, 0)
    wrong = len(set(labels) - set(of_label))
    if wrong:
        raise InvalidParameter(f'Column "{name}" holds {wrong} labels that its hierarchy has not.')
    return np.array([of_label[label] for label in labels], np.int32)


def _ends(label: str, attribute: Attribute) -> tuple[float, float] | None:
    if (value := _number(label, attribute)) is not None:
        return value, value
    if label[:1] != "[" or label[-1:] not in ("]", ")", "["):
        return None
    inner = label[1:-1]
    at = inner.find(", ")
    # Values of an order may hold the separator themselves.
    while at >= 0:
        low, high = _number(inner[:at], attribute), _number(inner[at + 2 :], attribute)
        if low is not None and high is not None:
            return low, high if label[-1] == "]" else max(low, high - unit_of(attribute))
        at = inner.find(", ", at + 1)
    return None


def _number(text: str, attribute: Attribute) -> float | None:
    """What ``number_text`` has spelled; None where it is nothing of the kind."""
    try:
        if attribute.kind is Kind.ORDINAL:
            return float(attribute.order.index(text))
        if attribute.kind is Kind.DATE:
            return float(np.datetime64(text, "D").astype(np.int64))
        if attribute.kind is Kind.TIMESTAMP:
            plain = text.removesuffix(UTC) if attribute.zoned else text
            return float(np.datetime64(plain.replace(" ", "T"), "us").astype(np.int64))
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
