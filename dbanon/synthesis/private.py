"""A differentially private synthesis, from the first refusal to the last check, and its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Synthesis
from dbanon.errors import BudgetExhausted, InvalidParameter, RecountFailed
from dbanon.job.concentrated import Cost, amount_told, delta_option, rho_of
from dbanon.job.synthesis import DP_MARGINALS, DP_RANKS, Private
from dbanon.synthesis.columns import PublicColumn, Table, numbered, public_columns
from dbanon.synthesis.marginals import Division, divide, dp_marginals
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.ranks import dp_ranks
from dbanon.synthesis.shares import Shares, require_columns, shares

_TOTAL = Parameter("epsilon", float, 0.0, Option("In all.", minimum=0, above=True))
_DELTA = Parameter("delta", float, 0.0, delta_option("Of all together."))
_NAME = Parameter("name", str, "", Option("What it is called."))


class Budget:
    """What may be spent on one source, whose releases each spend their epsilon before any noise.

    It counts releases of this process that name it; others are not covered. What was spent stays
    spent, also where a run fails.

    Parameters
    ----------
    epsilon : in all, above 0.
    name : what reports call it.
    delta : with which epsilon is meant; what is counted is rho then. None: epsilon is counted.
    """

    def __init__(
        self, epsilon: float, name: str = "unnamed", *, delta: float | None = None
    ) -> None:
        total = _TOTAL.check(epsilon)
        self.delta = None if delta is None else float(_DELTA.check(delta))
        self._total = _exact(total if self.delta is None else rho_of(total, self.delta))
        self.name: str = _NAME.check(name)
        self._spent = Decimal(0)
        self._lock = Lock()

    @property
    def total(self) -> float:
        """What may be spent in all: epsilon, or rho where there is a delta."""
        return float(self._total)

    @property
    def spent(self) -> float:
        """What is spent."""
        return float(self._spent)

    @property
    def told(self) -> str:
        """What is spent, in words."""
        if self.delta is not None:
            return (
                f"Budget {self.name} has rho = {self.total:.6g}, of which"
                f" {amount_told(self.spent, self.delta)} is spent"
            )
        return f"{self.spent:g} of {self.total:g} of budget {self.name} are spent"

    def spend(self, cost: Cost | float) -> None:
        """Spend so much, for good; a number is an epsilon without a delta.

        Raises
        ------
        InvalidParameter : it is no finite number above 0: a negative one would refund; or it has
            a delta, and the budget none.
        BudgetExhausted : less is left; nothing is spent.
        """
        cost = cost if isinstance(cost, Cost) else Cost(_TOTAL.check(cost))
        wanted = _exact(cost.charged(self.delta))
        with self._lock:
            if self._spent + wanted > self._total:
                raise BudgetExhausted(
                    f"Budget {self.name} has {self._total - self._spent} of {self._total} left,"
                    f" less than {'epsilon' if self.delta is None else 'rho'} {wanted}.",
                    hint="What was released stays released: a larger total is a decision, not a"
                    " setting.",
                )
            self._spent += wanted


def _exact(epsilon: float) -> Decimal:
    """The decimal that was written, so that three times 0.1 are 0.3."""
    return Decimal(repr(float(epsilon)))


def guarantee(cost: Cost, unit: str, source: str, budget: str) -> str:
    """What holds of the release.

    Parameters
    ----------
    cost : of the release.
    unit : ``row`` or ``person``: what one of is protected.
    source : what was read, in words.
    budget : what is spent of which budget, in words.
    """
    e = f"{cost.epsilon:g}"
    name, told = "ε", f"ε = {e}"
    means = f"changes the probability of every possible release by a factor of at most e^{e}."
    if cost.delta is not None:
        name, told = "(ε, δ)", f"ε = {e} and δ = {cost.delta:g}"
        means = (
            f"makes the probability of any set of releases at most e^{e} times what it was, plus"
            f" {cost.delta:g} (it has zero-concentrated privacy of ρ = {cost.rho:.6g})."
        )
    return (
        f"{name}-differential privacy with {told} for one {unit}: replacing one {unit} of {source}"
        f" by any other {means} The number of {unit}s, the bounds and the hierarchies are taken as"
        " public."
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

    def spend(self, cost: Cost) -> None:
        """Spend so much, for good, before values are read and noise is drawn."""


class Way(Protocol):
    """A method with its shares, before anything is read."""

    @property
    def description(self) -> tuple[str, ...]:
        """How rows are made, in words."""

    def rows(self, grid: NDArray[np.int64]) -> NDArray[np.float64]:
        """Synthetic rows, float64 (p, n), of columns of whole numbers, int64 (p, n)."""


@dataclass(frozen=True)
class _Ranks:
    divided: Shares
    noise: Noise

    @property
    def description(self) -> tuple[str, ...]:
        return describe_shares(self.divided)

    def rows(self, grid: NDArray[np.int64]) -> NDArray[np.float64]:
        # What is drawn of noisy figures needs no secret, and no seed.
        return dp_ranks(grid, self.divided, self.noise, np.random.default_rng())


@dataclass(frozen=True)
class _Marginals:
    divided: Division
    noise: Noise

    @property
    def description(self) -> tuple[str, ...]:
        return self.divided.description

    def rows(self, grid: NDArray[np.int64]) -> NDArray[np.float64]:
        return dp_marginals(grid, self.divided, self.noise, np.random.default_rng())


def _ranks(
    n: int, columns: Sequence[PublicColumn], wished: Private, noise: Callable[[], Noise]
) -> Way:
    trees, values = [one.tree for one in columns], [one.many for one in columns]
    divided = shares(n, len(columns), wished.epsilon, trees, wished.margins, values)
    way = _Ranks(divided, noise())
    way.divided.require_paid(way.noise)
    return way


def _marginals(
    n: int, columns: Sequence[PublicColumn], wished: Private, noise: Callable[[], Noise]
) -> Way:
    cost = wished.cost
    if cost.delta is not None and cost.delta * n >= 1:
        raise InvalidParameter(
            f"delta must be below 1 in the {n} rows: otherwise one of them could be released as"
            f" it is.",
            hint="Choose a far smaller delta, such as 1e-9.",
        )
    amount = cost.epsilon if cost.delta is None else cost.rho
    trees, values = [one.tree for one in columns], [one.many for one in columns]
    way = _Marginals(divide(n, amount, wished.accounting, trees, values), noise())
    way.divided.require_paid(way.noise)
    return way


_WAYS = {DP_RANKS: _ranks, DP_MARGINALS: _marginals}


def planned_columns(table: Table, wished: Private) -> tuple[PublicColumn, ...]:
    """What is public of the columns of a table; raises as ``public_columns``."""
    require_columns(len(table.names))
    return public_columns(table, wished)


def private_rows(
    table: Table,
    wished: Private,
    budget: Spendable,
    noise: Callable[[], Noise],
    method: str = DP_RANKS,
) -> Synthesis:
    """As many synthetic rows as the table has rows, or persons.

    All that can be refused is refused by public figures, before anything is spent; then it is
    spent, whatever comes of it; and only then the values are read.

    Raises
    ------
    DbanonError : of the class that says what went wrong; never by what a row holds.
    """
    columns = planned_columns(table, wished)
    way = _WAYS[method](table.n, columns, wished, noise)
    budget.spend(wished.cost)
    lines = [one.on_line(*table.read(j)) for j, one in enumerate(columns)]
    if table.whose is not None:
        person = numbered(table.whose())
        lines = [one.of_persons(line, person) for one, line in zip(columns, lines, strict=True)]
    grid = np.array([one.to_grid(line) for one, line in zip(columns, lines, strict=True)])
    rows = way.rows(grid)
    unit = "row" if table.whose is None else "person"
    released = Synthesis(
        {one.name: one.of_grid(row) for one, row in zip(columns, rows, strict=True)},
        method=method,
        guarantee=guarantee(wished.cost, unit, table.source, budget.told),
        epsilon=wished.epsilon,
        told=way.description,
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
