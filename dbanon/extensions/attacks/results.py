"""Attacks on released rows, however these were made, and the success rates of the attacks.

The rates describe real persons. They are only for the controller of the data and not part of a
release. No data about a single record leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.types import JsonObject
from dbanon.data.words import LabelledText, also_under_former_key
from dbanon.extensions.attacks.catalogue import run_attacks
from dbanon.extensions.attacks.rates import AttackResult
from dbanon.extensions.attacks.task import AttackData
from dbanon.hierarchy.leaves import Hierarchies, resolve_hierarchies
from dbanon.measures.figure import Tick, ignore_progress
from dbanon.recoding import ReleasedColumn
from dbanon.release.evaluation import pair_columns
from dbanon.release.words import describe_attack


@dataclass(frozen=True, repr=False)
class Attacks(LabelledText):
    """The results of attacks on released rows.

    Parameters
    ----------
    originals, controls, released : numbers of original records, control records and released rows.
    results : the results by name of the attack; docs/evaluation.md lists the attacks.
    linked : for the attack that links two data sets, the columns of each.
    """

    originals: int
    controls: int
    released: int
    results: Mapping[str, AttackResult]
    linked: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def found(self) -> Mapping[str, AttackResult]:
        """The former name of ``results``; version 1.0 will remove it."""
        return self.results

    @property
    def risks(self) -> dict[str, float | None]:
        """The risk by attack; None if it cannot be estimated."""
        return {name: attack.risk for name, attack in self.results.items()}

    def _repr_html_(self) -> str:
        """Return the card for notebooks."""
        # Import only when displayed, to keep database backends small.
        from dbanon.doors.html import card, svg

        rows = [
            {
                "name": name,
                "summary": text,
                "figure": f"{risk:.3f}",
                "bar": svg.draw_share_bar(risk),
            }
            for (name, text), risk in zip(self.pairs(), self.risks.values(), strict=True)
            if risk is not None
        ]
        omitted = [
            (attack.note, [name]) for name, attack in self.results.items() if attack.risk is None
        ]
        counts = [
            ("originals", f"{self.originals:,}", "records"),
            ("controls", f"{self.controls:,}", "records"),
            ("released", f"{self.released:,}", "rows"),
        ]
        return card.wrap_card(
            "attacks",
            card.render_paragraph("warning", "For the controller, not for publication."),
            card.render_figures(counts),
            card.render_measures("What an attacker gains", {"rows": rows, "omitted": omitted}),
            card.render_details("In words", card.render_pairs(self.pairs())),
        )

    def to_dict(self) -> JsonObject:
        """Return the results as JSON values."""
        return {
            "originals": self.originals,
            "controls": self.controls,
            "released": self.released,
            "linked": [list(columns) for columns in self.linked],
            **also_under_former_key(
                "results", {name: attack.to_dict() for name, attack in self.results.items()}
            ),
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Return the results as pairs of label and text, for display."""
        return [(name, describe_attack(attack.to_dict())) for name, attack in self.results.items()]


def build_attack_data(
    microdata: Microdata,
    n_members: int,
    columns: Iterable[ReleasedColumn],
    weights: NDArray[np.int64],
    hierarchies: Hierarchies | None = None,
    column_statistics: ColumnStatistics | None = None,
    linked: Sequence[Sequence[str]] | None = None,
    *,
    seed: int = 0,
    tick: Tick = ignore_progress,
) -> AttackData:
    """Combine originals, control records and distinct released rows for attacks.

    Parameters
    ----------
    microdata : the originals, followed by the control records.
    n_members : number of originals, which are members of the released data.
    columns : the released columns as written, with the values of m distinct rows.
    weights : int64 (m,), how often each distinct row occurs.
    hierarchies : hierarchies by column; None if there are none.
    column_statistics : statistics of the originals and control records; None to compute them.
    linked : for the attack that links two data sets, the columns of each; None for the first and
        the second half of all columns.
    seed, tick : as in ``AttackData``.
    """
    names = [attribute.name for attribute in microdata.attributes]
    half = (len(names) + 1) // 2
    first_columns, second_columns = linked or (names[:half], names[half:])
    table_statistics = column_statistics or ColumnStatistics.of(microdata)
    trees = resolve_hierarchies(microdata.attributes, hierarchies or {}, table_statistics)
    return AttackData(
        # Pairs of a column's original values and its released values.
        columns=pair_columns(microdata, table_statistics, trees, columns),
        n_members=n_members,
        n_controls=microdata.n_records - n_members,
        weights=weights,
        linked_columns=(
            tuple(names.index(name) for name in first_columns),
            tuple(names.index(name) for name in second_columns),
        ),
        seed=seed,
        tick=tick,
    )


def run_all_attacks(attack_data: AttackData) -> Attacks:
    """Run all attacks and collect their results."""
    names = [column.name for column in attack_data.columns]
    first_columns, second_columns = (
        tuple(names[index] for index in indices) for indices in attack_data.linked_columns
    )
    return Attacks(
        originals=attack_data.n_members,
        controls=attack_data.n_controls,
        released=int(attack_data.weights.sum()),
        results=MappingProxyType(run_attacks(attack_data)),
        linked=(first_columns, second_columns),
    )
