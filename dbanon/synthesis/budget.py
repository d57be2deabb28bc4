"""A privacy budget: what several releases of the same rows may spend together."""

from __future__ import annotations

from decimal import Decimal
from threading import Lock

from dbanon.data.option import Option, Parameter
from dbanon.errors import BudgetExhausted

_TOTAL = Parameter("epsilon", float, 0.0, Option("In all.", minimum=0, above=True))
_NAME = Parameter("name", str, "", Option("What it is called."))


class Budget:
    """What may be spent on one source, whose releases each spend their epsilon before any noise.

    It counts releases of this process that name it; others are not covered. What was spent stays
    spent, also where a run fails.

    Parameters
    ----------
    epsilon : in all, above 0.
    name : what reports call it.
    """

    def __init__(self, epsilon: float, name: str = "unnamed") -> None:
        self._total = _exact(_TOTAL.check(epsilon))
        self.name: str = _NAME.check(name)
        self._spent = Decimal(0)
        self._lock = Lock()

    @property
    def total(self) -> float:
        """What may be spent in all."""
        return float(self._total)

    @property
    def spent(self) -> float:
        """What is spent."""
        return float(self._spent)

    @property
    def told(self) -> str:
        """What is spent, in words."""
        return f"{self.spent:g} of {self.total:g} of budget {self.name} are spent"

    def spend(self, epsilon: float) -> None:
        """Spend so much, for good.

        Raises
        ------
        InvalidParameter : it is no finite number above 0: a negative one would refund.
        BudgetExhausted : less is left; nothing is spent.
        """
        wanted = _exact(_TOTAL.check(epsilon))
        with self._lock:
            if self._spent + wanted > self._total:
                raise BudgetExhausted(
                    f"Budget {self.name} has {self._total - self._spent} of {self._total} left,"
                    f" less than epsilon {wanted}.",
                    hint="What was released stays released: a larger total is a decision, not a"
                    " setting.",
                )
            self._spent += wanted


def _exact(epsilon: float) -> Decimal:
    """The decimal that was written, so that three times 0.1 are 0.3."""
    return Decimal(repr(float(epsilon)))
