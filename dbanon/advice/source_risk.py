"""How many rows would be re-identified if a table were released as it is.

Advice shows few rows as a range only. A sum of risks could tell their number, so it is left out
where the number of unique or rare rows is, and rounded elsewhere.
"""

from __future__ import annotations

from dbanon.advice.singling import SetUniqueness
from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonObject
from dbanon.data.words import json_text
from dbanon.errors import pluralize

# Digits of the figure that are shown.
_DIGITS = 3
_USE = "For the controller of the data, not for publication"


@dataclass(frozen=True)
class SourceRisk:
    """The disclosure risk of a table by its quasi-identifiers.

    Parameters
    ----------
    column_set : the quasi-identifiers, with the numbers of unique and of rare rows.
    expected : the sum of the risks of all rows, 0 to the number of rows.
    design_weight : the column by which the risks are estimated; None if the rows count as the
        entire population, so that each risk is that from someone who knows that a person is in it.
    population : the sum of the design weights, in persons; None without weights.
    """

    column_set: SetUniqueness
    expected: float
    design_weight: str | None = None
    population: float | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.column_set.unique.total

    @property
    def rounded_figure(self) -> float | None:
        """The expected number of re-identifications, rounded; None if it may not be shown."""
        if self._is_hidden or self.expected < self.column_set.unique.small:
            return None
        return float(f"{self.expected:.{_DIGITS}g}")

    @property
    def _is_hidden(self) -> bool:
        """Whether the figure could tell a number of unique or rare rows that is not shown."""
        return any(count.share is None for count in (self.column_set.unique, self.column_set.few))

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "columns": list(self.column_set.columns),
            "design_weight": self.design_weight,
            "expected_reidentifications": self.rounded_figure,
            "text": self.describe(),
        }

    def describe(self) -> str:
        """Describe the risk, what it is computed from, and whose figure it is."""
        return f"{self._describe_figure()}; {self._describe_basis()}. {_USE}"

    def _describe_figure(self) -> str:
        condition = "if the table were released as it is"
        if self._is_hidden:
            return (
                f"the number of rows that would be re-identified {condition} is not shown, since"
                " it could tell how few rows are unique or rare: dbanon risk shows it"
            )
        rows = pluralize(self.rows, "row")
        if self.rounded_figure is None:
            small = self.column_set.unique.small
            return f"fewer than {small} of {rows} would be re-identified {condition}"
        share = f"{100 * self.rounded_figure / self.rows:.3g} %"
        return (
            f"about {self.rounded_figure:g} of {rows} would be re-identified ({share}) {condition}"
        )

    def _describe_basis(self) -> str:
        if self.design_weight is None:
            return (
                "without a design weight, this is the risk from someone who knows that a person is"
                " in the table"
            )
        basis = f"estimated by the design weight {json_text(self.design_weight)}"
        if self.population is not None and self.population <= self.rows * (1 + 1e-9):
            basis += (
                ", whose sum is not above the number of rows: the table would hide nobody. If the"
                " weights are scaled, give the original ones"
            )
        return basis


def describe_missing_risk() -> str:
    """Explain why advice measures no risk of a table in which persons have several rows."""
    return "not measured: the risk is that of rows, and persons have several of them"
