"""A differentially private synthesis, from the first refusal to the last check, and its budget."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from threading import Lock
from typing import Protocol

import numpy as np

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Synthesis
from dbanon.errors import BudgetExhausted, RecountFailed
from dbanon.job.synthesis import Private
from dbanon.synthesis.columns import PublicColumn, Table, numbered, public_columns
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.ranks import dp_ranks
from dbanon.synthesis.shares import Shares, require_columns, shares

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


def guarantee(shares: Shares, unit: str, source: str, budget: str) -> str:
    """What holds of the release.

    Parameters
    ----------
    unit : ``row`` or ``person``: what one of is protected.
    source : what was read, in words.
    budget : what is spent of which budget, in words.
    """
    e = f"{shares.epsilon:g}"
    return (
        f"ε-differential privacy with ε = {e} for one {unit}: replacing one {unit} of {source} by"
        " any other changes the probability of every possible release by a factor of at most"
        f" e^{e}. The number of {unit}s, the bounds and the hierarchies are taken as public."
        f" {budget}; what was released outside this budget is not counted. This rests on the"
        " method's proof and its noise source; it cannot be checked on the release, and was not."
        " Rows are synthetic: none stands for a source row, and the release is not k-anonymous."
    )


def describe_shares(shares: Shares) -> tuple[str, ...]:
    """How it was made."""
    dependence = (
        f"Dependence: a tree of {shares.p - 1} two-way counts of up to {shares.bins} bins a column,"
        f" and {shares.pairs} noisy correlations of what it leaves open."
        if shares.dependent
        else "One column: there is nothing to depend on."
        if shares.p == 1
        else "Columns are independent in the release: epsilon and rows are too few for more."
    )
    sums = shares.n // shares.class_size
    margins = []
    ranked = shares.p - sum(shares.by_counts)
    if ranked:
        margins.append(f"Margins: {sums} sums of {shares.class_size} order statistics a column.")
    if ranked and shares.edges is not None:
        margins.append(f"Beside them counts between {2**shares.edges.depth - 1} noisy quantiles.")
    listed = sum(tree is not None for tree in shares.trees)
    if listed:
        margins.append(f"Margins of {listed} columns: counts of their public values.")
    if listed + ranked < shares.p:
        many = shares.p - listed - ranked
        margins.append(f"Margins of {many} columns: counts of their whole numbers.")
    return (*margins, dependence)


class Spendable(Protocol):
    """A budget, wherever it is kept."""

    @property
    def told(self) -> str:
        """What is spent of it, in words."""

    def spend(self, epsilon: float) -> None:
        """Spend so much, for good, before values are read and noise is drawn."""


def planned_columns(table: Table, wished: Private) -> tuple[PublicColumn, ...]:
    """What is public of the columns of a table; raises as ``public_columns``."""
    require_columns(len(table.names))
    return public_columns(table, wished)


def private_rows(
    table: Table, wished: Private, budget: Spendable, noise: Callable[[], Noise]
) -> Synthesis:
    """As many synthetic rows as the table has rows, or persons.

    All that can be refused is refused by public figures, before anything is spent; then epsilon is
    spent, whatever comes of it; and only then the values are read.

    Raises
    ------
    DbanonError : of the class that says what went wrong; never by what a row holds.
    """
    columns = planned_columns(table, wished)
    divided = shares(
        table.n,
        len(columns),
        wished.epsilon,
        [one.tree for one in columns],
        wished.margins,
        [one.many for one in columns],
    )
    source = noise()
    budget.spend(wished.epsilon)
    lines = [one.on_line(*table.read(j)) for j, one in enumerate(columns)]
    if table.whose is not None:
        person = numbered(table.whose())
        lines = [one.of_persons(line, person) for one, line in zip(columns, lines, strict=True)]
    grid = np.array([one.to_grid(line) for one, line in zip(columns, lines, strict=True)])
    # What is drawn of noisy figures needs no secret, and no seed.
    rows = dp_ranks(grid, divided, source, np.random.default_rng())
    unit = "row" if table.whose is None else "person"
    released = Synthesis(
        {one.name: one.of_grid(row) for one, row in zip(columns, rows, strict=True)},
        method="dp_ranks",
        guarantee=guarantee(divided, unit, table.source, budget.told),
        epsilon=wished.epsilon,
        told=describe_shares(divided),
    )
    _recount(released, table.n, columns)
    return released


def _recount(released: Synthesis, n: int, columns: tuple[PublicColumn, ...]) -> None:
    """Check rows, columns and bounds of what is released; privacy cannot be counted."""
    names = tuple(one.name for one in columns)
    inside = all(one.holds(released.columns[one.name]) for one in columns)
    if released.n_rows != n or tuple(released.columns) != names or not inside:
        raise RecountFailed(
            "The synthetic rows are not as many as they must be, or outside their bounds.",
            hint="This is an error in dbanon: please report it.",
        )
