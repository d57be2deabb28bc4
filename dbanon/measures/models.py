"""Privacy models: what every class must keep to in a sensitive attribute, beside k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySource, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import sensitive
from dbanon.measures.sensitive import Counts, Values

Sizes: TypeAlias = NDArray[np.int64]

# Rounding of shares must not fail a class that reaches its level exactly.
_SLACK = 1e-9

ORDERS = ("equal", "ordered")
HIERARCHICAL = "hierarchical"


@dataclass(frozen=True)
class Model:
    """A privacy model for one sensitive attribute.

    Parameters
    ----------
    kind : ``distinct_l`` (also p-sensitive k-anonymity), ``entropy_l``, ``recursive_cl``,
        ``t_closeness``, ``alpha_k``, ``beta_likeness`` or ``delta_disclosure``.
    attribute : the sensitive column.
    level : the l, c, t, alpha, beta or delta wanted.
    l : of ``recursive_cl``.
    distance : of ``t_closeness``: ``equal``, ``ordered`` or a hierarchy of the values, given in
        any form of ``hierarchy.spec``.

    Delta-disclosure looks at the values that a class holds, as ARX and pycanon do; its authors at
    all values of the table, as it does beside a ``distinct_l`` of their number.
    """

    kind: str
    attribute: str
    level: float
    l: int = 2  # noqa: E741
    distance: HierarchySource = "equal"

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidParameter(
                f'There is no privacy model "{self.kind}".',
                hint="Known: " + ", ".join(_KINDS) + ".",
            )
        if not np.isfinite(self.level) or self.level <= 0:
            raise InvalidParameter(f"The level of {self.kind} must be a number above 0.")
        if self.kind in ("t_closeness", "alpha_k") and self.level > 1:
            raise InvalidParameter(
                f"The level of {self.kind} must be 1 or less.",
                hint="A distance or a share is never more: every release would do.",
            )
        if self.l < 1:
            raise InvalidParameter("The l of recursive_cl must be a whole number, 1 or more.")
        if self.distance not in ORDERS:
            object.__setattr__(self, "distance", parse(self.distance, files=True))

    @classmethod
    def of_plain(cls, given: Mapping[str, Any], *, files: bool = True) -> Model:
        """The model of an object with its parameters by name.

        Parameters
        ----------
        files : True where a hierarchy may be the path of a file; never inside a server.

        Raises
        ------
        InvalidParameter : a key is missing, unknown or has another type.
        """
        if not {"attribute", "kind", "level"} <= set(given):
            raise InvalidParameter(
                "A privacy model must be an object with attribute, kind and level.", hint=_AS_IN
            )
        plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()}
        for key, value in plain.items():
            if key not in _KEYS or _OWN_KEYS.get(key, plain["kind"]) != plain["kind"]:
                raise InvalidParameter(
                    "A privacy model has no such key.",
                    hint="Known keys: " + ", ".join(_KEYS) + "; l belongs to recursive_cl, distance"
                    " to t_closeness.",
                )
            types, expected = _KEYS[key]
            if not isinstance(value, types) or isinstance(value, bool):
                raise InvalidParameter(f'"{key}" of a privacy model must be {expected}.')
        if plain.get("distance", "equal") not in ORDERS:
            plain["distance"] = parse(plain["distance"], files=files)
        return cls(**plain)

    def satisfied(
        self, counts: Counts, whole: Values, persons: Sizes | None = None
    ) -> NDArray[np.bool_]:
        """Which classes keep to the model, bool (m,).

        Parameters
        ----------
        counts : int64 (m, s), of these classes.
        whole : float64 (s,), the distribution of the whole table.
        persons : int64 (m,), where ``counts`` and ``whole`` are of persons: those of each class.
        """
        values, at_least = self._levels(counts, whole, persons)
        level = self.level
        if self.kind == "recursive_cl":
            return values < level
        return values >= level - _SLACK if at_least else values <= level + _SLACK

    def worst(self, counts: Counts, whole: Values, persons: Sizes | None = None) -> float:
        """The level that each of these classes keeps to, of at least one; as for ``satisfied``."""
        values, at_least = self._levels(counts, whole, persons)
        return float(values.min() if at_least else values.max())

    def _levels(self, counts: Counts, whole: Values, persons: Sizes | None) -> tuple[Values, bool]:
        """The level of each class, float64 (m,), and whether more is better."""
        if persons is not None and not self.compares_with_table:
            counts = sensitive.least_diverse(counts, persons)
        return _KINDS[self.kind](self, counts, whole, persons)

    @property
    def order(self) -> str | Hierarchy:
        """The distance, once its hierarchy is known.

        Raises
        ------
        InvalidParameter : the hierarchy is still to be read or made.
        """
        if isinstance(self.distance, (str, Hierarchy)):
            return self.distance
        raise InvalidParameter(
            f'The hierarchy of "{self.attribute}" is still to be read or made.',
            hint="Give it as a Hierarchy.",
        )

    @property
    def at_least(self) -> bool:
        """True when a higher level is the stronger wish."""
        return self.kind in ("distinct_l", "entropy_l")

    @property
    def compares_with_table(self) -> bool:
        """True when a class is compared with the distribution of the whole table."""
        return self.kind in ("t_closeness", "beta_likeness", "delta_disclosure")

    def holds_together(self, of_persons: bool) -> bool:
        """True when classes that keep to the model, as it was asked, keep to it as one class, too.

        Not of delta-disclosure: beside a class without a value its share is too small. Nor of
        entropy_l where persons have several values.
        """
        if self.kind == "entropy_l":
            return not of_persons
        return self.kind != "delta_disclosure"

    def plain(self) -> dict[str, Any]:
        """The model as plain values, for the ledger; a hierarchy is told of, not told."""
        found: dict[str, Any] = {"kind": self.kind, "attribute": self.attribute}
        found["level"] = float(self.level)
        if self.kind == "recursive_cl":
            found["l"] = int(self.l)
        if self.kind == "t_closeness":
            found["distance"] = self.distance if self.distance in ORDERS else HIERARCHICAL
        return found

    def describe(self) -> str:
        """The model in words."""
        text = f'{self.kind} {self.level:g} of "{self.attribute}"'
        if self.kind == "recursive_cl":
            text += f" with l = {self.l}"
        if self.kind == "t_closeness":
            text += f", {self.distance if self.distance in ORDERS else HIERARCHICAL}"
        return text


_AS_IN = 'As in {"attribute": "diagnosis", "kind": "distinct_l", "level": 3}.'
# Keys of a model as an object: its type, and what it must be.
_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "attribute": ((str,), "the name of a sensitive column"),
    "kind": ((str,), "the name of a privacy model"),
    "level": ((int, float), "a number"),
    "l": ((int,), "a whole number"),
    "distance": ((str, Mapping, Hierarchy, Path), "equal, ordered or a hierarchy"),
}
_OWN_KEYS = {"l": "recursive_cl", "distance": "t_closeness"}


def model_kinds() -> tuple[str, ...]:
    """The kinds that there are."""
    return tuple(_KINDS)


_Each = Callable[[Model, Counts, Values, "Sizes | None"], tuple[Values, bool]]

_KINDS: dict[str, _Each] = {
    "distinct_l": lambda model, counts, whole, persons: (sensitive.each_distinct(counts), True),
    "entropy_l": lambda model, counts, whole, persons: (sensitive.each_entropy(counts), True),
    "recursive_cl": lambda model, counts, whole, persons: (
        sensitive.each_recursive(counts, model.l),
        False,
    ),
    "t_closeness": lambda model, counts, whole, persons: (
        sensitive.each_t(counts, model.order, whole, persons),
        False,
    ),
    "alpha_k": lambda model, counts, whole, persons: (sensitive.each_largest_share(counts), False),
    "beta_likeness": lambda model, counts, whole, persons: (
        sensitive.each_beta(counts, whole, persons),
        False,
    ),
    "delta_disclosure": lambda model, counts, whole, persons: (
        sensitive.each_delta(counts, whole, persons),
        False,
    ),
}


@dataclass(frozen=True)
class CountedModel:
    """A privacy model in words, and the level that every class written keeps to, as counted."""

    model: str
    achieved: float
