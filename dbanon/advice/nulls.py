"""The recommended treatment of NULLs, and the trial results that support it."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonObject
from dbanon.data.words import also_under_former_key


@dataclass(frozen=True)
class NullChoice:
    """The treatment of NULLs in a release.

    Parameters
    ----------
    nulls : the recommended value of the option ``nulls``.
    max_suppression : the resulting share of withheld records, rounded up to hundredths.
    loss_shares : for each value of the option that was tried, the share of all non-NULL values
        that a release loses, including the values of withheld records; empty if none was tried.
    """

    nulls: str
    max_suppression: float
    loss_shares: Mapping[str, float]

    def __str__(self) -> str:
        """Describe the choice."""
        if not self.loss_shares:
            return f"{self.nulls}, as requested"
        shares = {name: f"{100 * share:.3g} %" for name, share in self.loss_shares.items()}
        others = [f"{name} {share}" for name, share in shares.items() if name != self.nulls]
        return (
            f"{self.nulls}: a release loses about {shares[self.nulls]} of all cells with a value"
            + (f" ({', '.join(others)})" if others else "")
        )

    def to_dict(self) -> JsonObject:
        """The choice as plain values."""
        loss_shares = {name: float(f"{share:.4g}") for name, share in self.loss_shares.items()}
        return {
            "nulls": self.nulls,
            "max_suppression": self.max_suppression,
            # Earlier versions wrote this key under another name.
            **also_under_former_key("loss_shares", loss_shares),
        }
