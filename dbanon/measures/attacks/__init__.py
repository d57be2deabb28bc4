"""What an attacker reaches with released rows: one file and one line for each attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dbanon.measures.attacks import inference, linkability, singling_out
from dbanon.measures.attacks.rates import Attacked
from dbanon.measures.attacks.task import Exposed


class Attack(NamedTuple):
    """What is run, and one line for people."""

    run: Callable[[Exposed], Attacked]
    summary: str


ATTACKS: dict[str, Attack] = {
    module.NAME: Attack(module.attack, module.SUMMARY)
    for module in (singling_out, linkability, inference)
}


def attacked(exposed: Exposed) -> dict[str, Attacked]:
    """What each attack reaches."""
    found = {}
    for number, (name, one) in enumerate(ATTACKS.items()):

        def tick(share: float, at: int = number) -> None:
            exposed.tick((at + share) / len(ATTACKS))

        found[name] = one.run(replace(exposed, tick=tick))
    return found
