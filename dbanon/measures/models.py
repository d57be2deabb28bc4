"""Privacy models: conditions on the sensitive values of every class, in addition to k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySource, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import sensitive
from dbanon.measures.sensitive import Counts, Values

PersonCounts: TypeAlias = NDArray[np.int64]

# Tolerance for rounding errors, for classes that reach their level exactly.
_ROUNDING_TOLERANCE = 1e-9

SIMPLE_DISTANCES = ("equal", "ordered")
HIERARCHICAL = "hierarchical"


@dataclass(frozen=True)
class Model:
    """A privacy model for one sensitive attribute.

    Parameters
    ----------
    kind : ``distinct_l`` (also p-sensitive k-anonymity), ``entropy_l``, ``recursive_cl``,
        ``t_closeness``, ``alpha_k``, ``beta_likeness`` or ``delta_disclosure``.
    attribute : the sensitive column.
    level : the required l, c, t, alpha, beta or delta, depending on the kind.
    l : the l of ``recursive_cl``, whose level is c.
    distance : the distance of values for ``t_closeness``: ``equal``, ``ordered`` or a hierarchy of
        the values, in any form of ``hierarchy.spec``.

    Delta-disclosure considers the values in a class, as ARX and pycanon do; its authors consider
    all values of the table. Both agree if ``distinct_l`` requires all values.
    """

    kind: str
    attribute: str
    level: float
    l: int = 2  # noqa: E741
    distance: HierarchySource = "equal"

    def __post_init__(self) -> None:
        if self.kind not in _LEVEL_FUNCTIONS:
            raise InvalidParameter(
                f'There is no privacy model "{self.kind}".',
                hint="Known: " + ", ".join(_LEVEL_FUNCTIONS) + ".",
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
        if self.distance not in SIMPLE_DISTANCES:
            object.__setattr__(self, "distance", parse(self.distance, files=True))

    @classmethod
    def from_plain(cls, parameters: JsonMapping, *, files: bool = True) -> Model:
        """Build a model from its parameters by name.

        Parameters
        ----------
        files : True if a hierarchy may be the path of a file, which is never allowed on a server.

        Raises
        ------
        InvalidParameter : a key is missing, unknown or has another type.
        """
        if not {"attribute", "kind", "level"} <= set(parameters):
            raise InvalidParameter(
                "A privacy model must be an object with attribute, kind and level.", hint=_FORM_HINT
            )
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in parameters.items()
        }
        for key, value in plain.items():
            if key not in _KEYS or _KIND_OF_KEY.get(key, plain["kind"]) != plain["kind"]:
                raise InvalidParameter(
                    "A privacy model has no such key.",
                    hint="Known keys: " + ", ".join(_KEYS) + "; l belongs to recursive_cl, distance"
                    " to t_closeness.",
                )
            types, expected = _KEYS[key]
            if not isinstance(value, types) or isinstance(value, bool):
                raise InvalidParameter(f'"{key}" of a privacy model must be {expected}.')
        if plain.get("distance", "equal") not in SIMPLE_DISTANCES:
            plain["distance"] = parse(plain["distance"], files=files)
        return cls(**plain)

    def is_satisfied(
        self, counts: Counts, table_shares: Values, persons: PersonCounts | None = None
    ) -> NDArray[np.bool_]:
        """Return bool (m,), True for classes that satisfy the model.

        Parameters
        ----------
        counts : int64 (m, s), how often each of s values occurs in each of m classes.
        table_shares : float64 (s,), the share of each value in the whole table.
        persons : int64 (m,), persons per class if ``counts`` and ``table_shares`` count persons;
            None if they count rows.
        """
        class_levels, is_higher_stricter = self._levels(counts, table_shares, persons)
        level = self.level
        if self.kind == "recursive_cl":
            # Its definition excludes the level itself, so there is no tolerance.
            return class_levels < level
        return (
            class_levels >= level - _ROUNDING_TOLERANCE
            if is_higher_stricter
            else class_levels <= level + _ROUNDING_TOLERANCE
        )

    def reached_level(
        self, counts: Counts, table_shares: Values, persons: PersonCounts | None = None
    ) -> float:
        """Return the strictest level that all classes reach; there must be at least one class.

        Parameters
        ----------
        counts, table_shares, persons : as for ``is_satisfied``.
        """
        class_levels, is_higher_stricter = self._levels(counts, table_shares, persons)
        return float(class_levels.min() if is_higher_stricter else class_levels.max())

    def _levels(
        self, counts: Counts, table_shares: Values, persons: PersonCounts | None
    ) -> tuple[Values, bool]:
        """Return the level of each class, float64 (m,), and True if a higher level is stricter."""
        # Persons may have several values: the model must hold whichever of them is counted. Models
        # that compare with the table count all values of a person; their functions take
        # ``persons``.
        if persons is not None and not self.compares_with_table:
            counts = sensitive.least_diverse_counts(counts, persons)
        return _LEVEL_FUNCTIONS[self.kind](self, counts, table_shares, persons)

    @property
    def resolved_distance(self) -> str | Hierarchy:
        """The name of the distance, or its hierarchy.

        Raises
        ------
        InvalidParameter : the hierarchy has not been read or built yet.
        """
        if isinstance(self.distance, (str, Hierarchy)):
            return self.distance
        raise InvalidParameter(
            f'The hierarchy of "{self.attribute}" has not been read or built yet.',
            hint="Give the distance as a Hierarchy.",
        )

    @property
    def is_higher_stricter(self) -> bool:
        """True if a higher level is stricter."""
        return self.kind in ("distinct_l", "entropy_l")

    @property
    def compares_with_table(self) -> bool:
        """True if classes are compared with the distribution in the whole table."""
        return self.kind in ("t_closeness", "beta_likeness", "delta_disclosure")

    def is_union_closed(self, counts_persons: bool) -> bool:
        """True if the union of classes that satisfy the model always satisfies it.

        It does not hold for delta-disclosure: a class that lacks a value reduces the value's share
        in the union. Nor does it hold for entropy_l if persons have several values.

        Parameters
        ----------
        counts_persons : True if the model counts persons instead of rows.
        """
        if self.kind == "entropy_l":
            return not counts_persons
        return self.kind != "delta_disclosure"

    def to_plain(self) -> JsonObject:
        """Return the model as plain values, for the ledger, without the content of a hierarchy."""
        values: JsonObject = {"kind": self.kind, "attribute": self.attribute}
        values["level"] = float(self.level)
        if self.kind == "recursive_cl":
            values["l"] = int(self.l)
        if self.kind == "t_closeness":
            values["distance"] = (
                self.distance if self.distance in SIMPLE_DISTANCES else HIERARCHICAL
            )
        return values

    def describe(self) -> str:
        """Describe the model in a few words."""
        text = f'{self.kind} {self.level:g} of "{self.attribute}"'
        if self.kind == "recursive_cl":
            text += f" with l = {self.l}"
        if self.kind == "t_closeness":
            text += f", {self.distance if self.distance in SIMPLE_DISTANCES else HIERARCHICAL}"
        return text


_FORM_HINT = 'Write {"attribute": "diagnosis", "kind": "distinct_l", "level": 3}.'
# By parameter of a model, the types of valid values and a description of them.
_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "attribute": ((str,), "the name of a sensitive column"),
    "kind": ((str,), "the name of a privacy model"),
    "level": ((int, float), "a number"),
    "l": ((int,), "a whole number"),
    "distance": ((str, Mapping, Hierarchy, Path), "equal, ordered or a hierarchy"),
}
# The only kind of model that a parameter applies to.
_KIND_OF_KEY = {"l": "recursive_cl", "distance": "t_closeness"}


def model_kinds() -> tuple[str, ...]:
    """Return the names of all kinds of models."""
    return tuple(_LEVEL_FUNCTIONS)


# Takes a model, and the arguments of ``Model.is_satisfied``: counts, table_shares and persons.
# Returns the level of each class, and True if a higher level is stricter.
_LevelFunction = Callable[[Model, Counts, Values, "PersonCounts | None"], tuple[Values, bool]]

_LEVEL_FUNCTIONS: dict[str, _LevelFunction] = {
    "distinct_l": lambda model, counts, table_shares, persons: (
        sensitive.class_distinct_counts(counts),
        True,
    ),
    "entropy_l": lambda model, counts, table_shares, persons: (
        sensitive.class_entropies(counts),
        True,
    ),
    "recursive_cl": lambda model, counts, table_shares, persons: (
        sensitive.class_recursive_ratios(counts, model.l),
        False,
    ),
    "t_closeness": lambda model, counts, table_shares, persons: (
        sensitive.class_distances(counts, model.resolved_distance, table_shares, persons),
        False,
    ),
    "alpha_k": lambda model, counts, table_shares, persons: (
        sensitive.class_largest_shares(counts),
        False,
    ),
    "beta_likeness": lambda model, counts, table_shares, persons: (
        sensitive.class_gains(counts, table_shares, persons),
        False,
    ),
    "delta_disclosure": lambda model, counts, table_shares, persons: (
        sensitive.class_log_ratios(counts, table_shares, persons),
        False,
    ),
}


@dataclass(frozen=True)
class CountedModel:
    """A privacy model, and the best level that all classes of a written table reach.

    Parameters
    ----------
    model : a description of the model.
    achieved : the level.
    """

    model: str
    achieved: float
