"""How often guesses are right, and the risk that follows, with intervals of confidence.

Of the guesses at originals and at the records of a control group, that no release was made of, the
risk is what originals have to fear beyond what is true of everybody:

    (attack - reference) / (1 - reference)

where the reference is the rate of the control group, or of random guesses without one. Both rates
have a Wilson interval of 97.5 %, so that both hold at about 95 % or more, whatever they have in
common, where guesses are not few; the risk's ends are those of the worst pair of ends. Several
guesses at one record are not independent: as many independent ones count as tell as much.

Sources: M. Giomi, F. Boenisch, C. Wehmeyer and B. Tasnádi, "A unified framework for quantifying
privacy risk in synthetic data", PoPETs 2023; E. Wilson, "Probable inference, the law of succession,
and statistical inference", JASA 22 (1927); L. Kish, "Survey Sampling", 1965, section 5.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of the normal distribution, two-sided 97.5 % and 95 %.
_BOTH, _ALONE = 2.241402727604947, 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """Of ``guesses`` how many were ``right``.

    Parameters
    ----------
    independent : how many independent guesses tell as much; all of them when None.
    """

    right: int
    guesses: int
    independent: float | None = field(default=None, compare=False)

    @classmethod
    def of_records(cls, records: NDArray[np.int64], right: NDArray[np.bool_]) -> Rate:
        """The rate of guesses of which several are about one record.

        These are right or wrong together. All tell as much as so many independent ones as have the
        variance of the rate when records are drawn, not guesses (Kish's effective sample size).
        Where all are right, or all wrong, only records count.

        Parameters
        ----------
        records : int64 (g,), what each guess is about.
        right : bool (g,), whether it is right.
        """
        guesses, hits = len(right), int(right.sum())
        _, places = np.unique(records, return_inverse=True)
        share = hits / max(guesses, 1)
        beyond = np.bincount(places.reshape(-1), right - share)
        spread = float((beyond**2).sum())
        if spread == 0 or len(beyond) < 2:
            return cls(hits, guesses, float(len(beyond)))
        independent = share * (1 - share) * guesses**2 / spread * (1 - 1 / len(beyond))
        return cls(hits, guesses, min(independent, float(guesses)))

    @property
    def value(self) -> float | None:
        """The share; None without guesses."""
        return self.right / self.guesses if self.guesses else None

    def interval(self, z: float = _ALONE) -> tuple[float, float]:
        """Wilson's, for the share; 0 to 1 without guesses."""
        if not self.guesses:
            return 0.0, 1.0
        n, share = self.independent or self.guesses, self.right / self.guesses
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        low = 0.0 if self.right == 0 else max(middle - half, 0.0)
        return low, 1.0 if self.right == self.guesses else min(middle + half, 1.0)


def _beyond(attack: float, reference: float) -> float:
    """What remains of an attack's rate; 0 where everybody's is 1."""
    return 0.0 if reference >= 1 else (attack - reference) / (1 - reference)


@dataclass(frozen=True)
class Attacked:
    """What one attack reached.

    Parameters
    ----------
    attack : guesses at originals.
    random : guesses that use nothing of how released values go together.
    control : the same attack at records that the release was not made of; None without such.
    columns : by secret column, where there are several.
    chance : the rate of random guesses where it is known without guessing.
    note : why there is no figure, or what one has to know about it.
    """

    attack: Rate
    random: Rate
    control: Rate | None = None
    columns: Mapping[str, Attacked] = field(default_factory=dict)
    chance: float | None = None
    note: str = ""

    @property
    def reference(self) -> Rate:
        """What is not to be held against the release."""
        return self.random if self.control is None else self.control

    @property
    def risk(self) -> float | None:
        """0 or below for nothing beyond the reference, 1 for everybody; None without guesses."""
        attack = self.attack.value
        reference = self.reference.value if self.chance is None else self.chance
        return None if attack is None or reference is None else _beyond(attack, reference)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the risk is, at about 95 % or more; below 0 where the reference is higher."""
        if self.risk is None:
            return None
        if self.chance is not None:
            ends = self.attack.interval()
            return _beyond(ends[0], self.chance), _beyond(ends[1], self.chance)
        (low, high), (least, most) = (
            rate.interval(_BOTH) for rate in (self.attack, self.reference)
        )
        # Where everybody may be guessed, nothing bounds from below what is beyond it.
        return (_beyond(low, most) if most < 1 else min(0.0, self.risk)), _beyond(high, least)

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values, for JSON."""
        interval = self.interval
        found: dict[str, Any] = {
            "risk": self.risk,
            "interval": None if interval is None else list(interval),
            "guesses": self.attack.guesses,
            "attack": self.attack.value,
            "random": self.random.value if self.chance is None else self.chance,
            "control": None if self.control is None else self.control.value,
            "note": self.note,
        }
        if self.columns:
            found["columns"] = {name: one.to_dict() for name, one in self.columns.items()}
        return found
