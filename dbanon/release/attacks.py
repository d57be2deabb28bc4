"""Attacks on released rows, however they were made, and their success rates.

Rates refer to real persons and are for the controller only: they are not part of a release, and no
data about a single record leaves this module.
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
from dbanon.data.words import LabelledTextWithCard, with_former_key
from dbanon.hierarchy.leaves import Hierarchies, trees_of
from dbanon.measures.attacks import run_attacks
from dbanon.measures.attacks.rates import AttackResult
from dbanon.measures.attacks.task import AttackData
from dbanon.recoding import ReleasedColumn
from dbanon.release.evaluation import columns_of
from dbanon.release.words import attack_text


@dataclass(frozen=True, repr=False)
class Attacks(LabelledTextWithCard):
    """The results of attacks on released rows.

    Parameters
    ----------
    originals, controls, released : the numbers of records and rows.
    results : by attack, as docs/evaluation.md lists them.
    linked : the columns that the attacker knows from one data set, and from another.
    """

    originals: int
    controls: int
    released: int
    results: Mapping[str, AttackResult]
    linked: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def found(self) -> Mapping[str, AttackResult]:
        """The former name of ``results``."""
        return self.results

    @property
    def risks(self) -> dict[str, float | None]:
        """Risk by attack; None if it cannot be estimated."""
        return {name: attack.risk for name, attack in self.results.items()}

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values, for JSON."""
        return {
            "originals": self.originals,
            "controls": self.controls,
            "released": self.released,
            "linked": [list(part) for part in self.linked],
            **with_former_key(
                "results", {name: attack.to_dict() for name, attack in self.results.items()}
            ),
        }

    def pairs(self) -> list[tuple[str, str]]:
        """The figures as pairs of label and text, for people."""
        return [(name, attack_text(attack.to_dict())) for name, attack in self.results.items()]


def attack_data_of(
    microdata: Microdata,
    members: int,
    columns: Iterable[ReleasedColumn],
    weights: NDArray[np.int64],
    hierarchies: Hierarchies | None = None,
    measures: Measures | None = None,
    linked: Sequence[Sequence[str]] | None = None,
    **options: Any,
) -> AttackData:
    """Combine originals, control records and distinct released rows for attacks.

    Parameters
    ----------
    microdata : the originals, followed by the control records.
    members : the number of originals.
    columns : as they are written, of m distinct rows.
    weights : int64 (m,), the multiplicity of each row.
    linked : two lists of columns; None for the first and the second half.
    """
    names = [attribute.name for attribute in microdata.attributes]
    half = (len(names) + 1) // 2
    parts = linked or (names[:half], names[half:])
    table_measures = measures or Measures.of(microdata)
    trees = trees_of(microdata.attributes, hierarchies or {}, table_measures)
    return AttackData(
        columns=columns_of(microdata, table_measures, trees, columns),
        n_members=members,
        n_controls=microdata.n_records - members,
        weights=weights,
        source_columns=(
            tuple(names.index(name) for name in parts[0]),
            tuple(names.index(name) for name in parts[1]),
        ),
        **options,
    )


def attacks_of(exposed: AttackData) -> Attacks:
    """Run all attacks."""
    names = [column.name for column in exposed.columns]
    first, second = (tuple(names[at] for at in part) for part in exposed.source_columns)
    return Attacks(
        exposed.n_members,
        exposed.n_controls,
        int(exposed.weights.sum()),
        MappingProxyType(run_attacks(exposed)),
        (first, second),
    )
