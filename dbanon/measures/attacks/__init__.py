"""Attacks on released rows: one file and one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dbanon.measures.attacks import inference, linkability, singling_out
from dbanon.measures.attacks.rates import AttackResult
from dbanon.measures.attacks.task import AttackData


class Attack(NamedTuple):
    """The function of an attack, and a line for display."""

    run: Callable[[AttackData], AttackResult]
    summary: str


ATTACKS: dict[str, Attack] = {
    module.NAME: Attack(module.attack, module.SUMMARY)
    for module in (singling_out, linkability, inference)
}


def run_attacks(exposed: AttackData) -> dict[str, AttackResult]:
    """The result of each attack."""
    results = {}
    for position, (name, attack) in enumerate(ATTACKS.items()):

        def tick(share: float, index: int = position) -> None:
            exposed.tick((index + share) / len(ATTACKS))

        results[name] = attack.run(replace(exposed, tick=tick))
    return results
