"""Attacks: what an attacker reaches who holds released rows, whatever made them.

Rates are of real persons, known to nobody but the controller: they are no part of a release, and
nothing of a single record leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.words import WithCard
from dbanon.hierarchy.leaves import Hierarchies, trees_of
from dbanon.measures.attacks import run_attacks
from dbanon.measures.attacks.rates import AttackResult
from dbanon.measures.attacks.task import AttackData
from dbanon.recoding import ReleasedColumn
from dbanon.release.evaluation import columns_of
from dbanon.release.words import attack_text


@dataclass(frozen=True, repr=False)
class Attacks(WithCard):
    """What attacks on released rows reach.

    Parameters
    ----------
    originals, controls, released : how many records and rows there are.
    found : by attack, as docs/evaluation.md lists them.
    linked : the columns that are known from one place, and from another.
    """

    originals: int
    controls: int
    released: int
    found: Mapping[str, AttackResult]
    linked: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def risks(self) -> dict[str, float | None]:
        """By attack; None where there is none."""
        return {name: one.risk for name, one in self.found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values, for JSON."""
        return {
            "originals": self.originals,
            "controls": self.controls,
            "released": self.released,
            "linked": [list(part) for part in self.linked],
            "found": {name: one.to_dict() for name, one in self.found.items()},
        }

    def pairs(self) -> list[tuple[str, str]]:
        """The figures as pairs of label and text, for people."""
        return [(name, attack_text(one.to_dict())) for name, one in self.found.items()]


def exposed_of(
    microdata: Microdata,
    members: int,
    columns: Iterable[ReleasedColumn],
    weights: NDArray[np.int64],
    hierarchies: Hierarchies | None = None,
    measures: Measures | None = None,
    linked: Sequence[Sequence[str]] | None = None,
    **options: Any,
) -> AttackData:
    """Originals, then control records, beside released rows that differ.

    Parameters
    ----------
    microdata : both together.
    columns : as they are written, of m rows.
    weights : int64 (m,), how many rows are released as each.
    linked : two lists of columns; None for the first half of them, and the second.
    """
    names = [attribute.name for attribute in microdata.attributes]
    half = (len(names) + 1) // 2
    parts = linked or (names[:half], names[half:])
    known = measures or Measures.of(microdata)
    trees = trees_of(microdata.attributes, hierarchies or {}, known)
    return AttackData(
        columns=columns_of(microdata, known, trees, columns),
        members=members,
        controls=microdata.n_records - members,
        weights=weights,
        linked=(
            tuple(names.index(name) for name in parts[0]),
            tuple(names.index(name) for name in parts[1]),
        ),
        **options,
    )


def attacks_of(exposed: AttackData) -> Attacks:
    """What each attack reaches."""
    names = [column.name for column in exposed.columns]
    first, second = (tuple(names[at] for at in part) for part in exposed.linked)
    return Attacks(
        exposed.members,
        exposed.controls,
        int(exposed.weights.sum()),
        MappingProxyType(run_attacks(exposed)),
        (first, second),
    )
