"""What becomes of NULLs in a release that is advised, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.data.frozen import dataclass


@dataclass(frozen=True)
class NullChoice:
    """What becomes of NULLs in a release.

    Parameters
    ----------
    nulls : the value of the option.
    max_suppression : the share of records that is withheld with it, in hundredths, rounded up.
    lost : by each value that was tried, the share that it loses of all cells with a value, cells of
        withheld records among them; empty where nothing was tried.
    """

    nulls: str
    max_suppression: float
    lost: Mapping[str, float]

    def __str__(self) -> str:
        """The choice in words."""
        if not self.lost:
            return f"{self.nulls}, as asked for"
        shares = {name: f"{100 * share:.3g} %" for name, share in self.lost.items()}
        others = [f"{name} {share}" for name, share in shares.items() if name != self.nulls]
        return (
            f"{self.nulls}: a release loses about {shares[self.nulls]} of all cells with a value"
            + (f" ({', '.join(others)})" if others else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """The choice as plain values."""
        lost = {name: float(f"{share:.4g}") for name, share in self.lost.items()}
        return {"nulls": self.nulls, "max_suppression": self.max_suppression, "lost": lost}
