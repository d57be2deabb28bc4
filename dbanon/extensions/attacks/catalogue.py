"""The catalogue of attacks on released rows; each has its own module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dbanon.extensions.attacks import inference, linkability, singling_out
from dbanon.extensions.attacks.rates import AttackResult
from dbanon.extensions.attacks.task import AttackData


class Attack(NamedTuple):
    """An attack: the function that runs it, and a description in one line."""

    run: Callable[[AttackData], AttackResult]
    summary: str


ATTACKS: dict[str, Attack] = {
    module.NAME: Attack(module.attack, module.SUMMARY)
    for module in (singling_out, linkability, inference)
}


def run_attacks(data: AttackData) -> dict[str, AttackResult]:
    """Run all attacks, and return the result of each by name."""
    results = {}
    for position, (name, attack) in enumerate(ATTACKS.items()):
        # Each attack reports its share of the progress of all.
        def tick(progress: float, index: int = position) -> None:
            data.tick((index + progress) / len(ATTACKS))

        results[name] = attack.run(replace(data, tick=tick))
    return results
