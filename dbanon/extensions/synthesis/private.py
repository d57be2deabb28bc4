"""Run a differentially private synthesis, from checks to recount, and account for its budget."""

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
from dbanon.extensions.synthesis.columns import (
    PublicColumn,
    TypedTable,
    define_public_columns,
    number_persons,
)
from dbanon.extensions.synthesis.marginals import AmountShares, divide_amount, dp_marginals
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.ranks import dp_ranks
from dbanon.extensions.synthesis.shares import EpsilonShares, divide_epsilon, require_column_count
from dbanon.job.concentrated import Cost, delta_option, describe_rho, rho_of
from dbanon.job.synthesis import DP_MARGINALS, DP_RANKS, PrivateOptions

# The arguments of ``Budget``, to check their values.
_EPSILON = Parameter("epsilon", float, 0.0, Option("The total.", minimum=0, excludes_minimum=True))
_DELTA = Parameter("delta", float, 0.0, delta_option("The delta of all releases together."))
_NAME = Parameter("name", str, "", Option("The name in reports."))


class Budget:
    """A privacy budget for one source; each release spends its epsilon before any noise is drawn.

    Covers only releases of this process that use it. Spending is final, even if a run fails.

    Parameters
    ----------
    epsilon : the total, above 0.
    name : the name in reports.
    delta : the delta of a budget of (epsilon, delta), which is counted in rho; None for a budget
        that is counted in epsilon.
    """

    def __init__(
        self, epsilon: float, name: str = "unnamed", *, delta: float | None = None
    ) -> None:
        total = _EPSILON.check(epsilon)
        self.delta = None if delta is None else float(_DELTA.check(delta))
        self._total = _to_decimal(total if self.delta is None else rho_of(total, self.delta))
        self.name: str = _NAME.check(name)
        self._spent = Decimal(0)
        self._lock = Lock()

    @property
    def total(self) -> float:
        """The total budget: epsilon, or rho if there is a delta."""
        return float(self._total)

    @property
    def spent(self) -> float:
        """The amount spent so far."""
        return float(self._spent)

    @property
    def description(self) -> str:
        """A sentence about the spent amount."""
        if self.delta is not None:
            return (
                f"Budget {self.name} has rho = {self.total:.6g}, of which"
                f" {describe_rho(self.spent, self.delta)} is spent"
            )
        return f"{self.spent:g} of {self.total:g} of budget {self.name} are spent"

    def spend(self, cost: Cost | float) -> None:
        """Spend an amount, irrevocably; a number is an epsilon without a delta.

        Raises
        ------
        InvalidParameter : it is not a finite number above 0 (a negative one would refund), or it
            has a delta and the budget has none.
        BudgetExhausted : less is left; nothing is spent.
        """
        cost = cost if isinstance(cost, Cost) else Cost(_EPSILON.check(cost))
        # ``charge`` converts the cost to the parameter that this budget counts: epsilon, or rho if
        # the budget has a delta.
        charge = _to_decimal(cost.charge(self.delta))
        with self._lock:
            if self._spent + charge > self._total:
                raise BudgetExhausted(
                    f"Budget {self.name} has {self._total - self._spent} of {self._total} left,"
                    f" less than {'epsilon' if self.delta is None else 'rho'} {charge}.",
                    hint="What was released stays released: a larger total is a decision, not a"
                    " setting.",
                )
            self._spent += charge


def _to_decimal(amount: float) -> Decimal:
    """Convert an amount to the decimal as written, so that three times 0.1 is exactly 0.3."""
    return Decimal(repr(float(amount)))


def state_guarantee(cost: Cost, unit: str, source: str, budget: str) -> str:
    """State the privacy guarantee of a release.

    Parameters
    ----------
    cost : the epsilon, and delta if there is one, of the release.
    unit : the protected unit, ``row`` or ``person``.
    source : description of the source.
    budget : description of the spent budget.
    """
    epsilon = f"{cost.epsilon:g}"
    name, stated_budget = "ε", f"ε = {epsilon}"
    effect = (
        f"changes the probability of every possible release by a factor of at most e^{epsilon}."
    )
    if cost.delta is not None:
        name, stated_budget = "(ε, δ)", f"ε = {epsilon} and δ = {cost.delta:g}"
        effect = (
            f"makes the probability of any set of releases at most e^{epsilon} times what it was,"
            f" plus {cost.delta:g} (it has zero-concentrated privacy of ρ = {cost.rho:.6g})."
        )
    return (
        f"{name}-differential privacy with {stated_budget} for one {unit}: replacing one {unit} of"
        f" {source} by any other {effect} The number of {unit}s, the bounds and the hierarchies are"
        " taken as public."
        f" {budget}; what was released outside this budget is not counted. This rests on the"
        " method's proof and its noise source; it cannot be checked on the release, and was not."
        " Rows are synthetic: none stands for a source row, and the release is not k-anonymous."
    )


def describe_shares(epsilon_shares: EpsilonShares) -> tuple[str, ...]:
    """Describe ``dp_ranks`` and how it divides epsilon, in sentences."""
    dependence = (
        f"Dependence: a tree of {epsilon_shares.p - 1} two-way counts of up to"
        f" {epsilon_shares.n_bins} bins a column, and {epsilon_shares.n_pairs} noisy correlations"
        " for the dependence that it misses."
        if epsilon_shares.has_dependence
        else "One column: there is nothing to depend on."
        if epsilon_shares.p == 1
        else "Columns are independent in the release: epsilon and rows are too few for more."
    )
    n_sums = epsilon_shares.n // epsilon_shares.values_per_sum
    margins = []
    n_summed_columns = epsilon_shares.p - sum(epsilon_shares.has_counts)
    if n_summed_columns:
        margins.append(
            f"Margins: {n_sums} sums of {epsilon_shares.values_per_sum} order statistics a column."
        )
    if n_summed_columns and epsilon_shares.edge_shares is not None:
        margins.append(
            f"Also counts between {2**epsilon_shares.edge_shares.depth - 1} noisy quantiles."
        )
    n_listed_columns = sum(tree is not None for tree in epsilon_shares.trees)
    if n_listed_columns:
        margins.append(f"Margins of {n_listed_columns} columns: counts of their public values.")
    if n_listed_columns + n_summed_columns < epsilon_shares.p:
        n_integer_columns = epsilon_shares.p - n_listed_columns - n_summed_columns
        margins.append(f"Margins of {n_integer_columns} columns: counts of their whole numbers.")
    return (*margins, dependence)


class SpendableBudget(Protocol):
    """A budget, in memory or in a ledger."""

    @property
    def description(self) -> str:
        """A sentence about the spent amount."""

    def spend(self, cost: Cost) -> None:
        """Spend an amount irrevocably, before values are read and noise is drawn."""


class SynthesisMethod(Protocol):
    """A synthesis method that has divided the amount, before any value is read."""

    @property
    def description(self) -> tuple[str, ...]:
        """A description of the method, in sentences."""

    def generate_rows(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Generate synthetic rows, float64 (p, n), from columns of integers, int64 (p, n).

        Both are on the scale that ``to_grid`` of the columns' domains defines.
        """


@dataclass(frozen=True)
class _RanksMethod:
    """The method ``dp_ranks``, after epsilon has been divided."""

    epsilon_shares: EpsilonShares
    noise: Noise

    @property
    def description(self) -> tuple[str, ...]:
        return describe_shares(self.epsilon_shares)

    def generate_rows(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        # Draws from noisy figures need neither secrecy nor a seed.
        return dp_ranks(columns, self.epsilon_shares, self.noise, np.random.default_rng())


@dataclass(frozen=True)
class _MarginalsMethod:
    """The method ``dp_marginals``, after the amount (epsilon or rho) has been divided."""

    amount_shares: AmountShares
    noise: Noise

    @property
    def description(self) -> tuple[str, ...]:
        return self.amount_shares.description

    def generate_rows(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        return dp_marginals(columns, self.amount_shares, self.noise, np.random.default_rng())


def _prepare_ranks(
    n: int, columns: Sequence[PublicColumn], options: PrivateOptions, new_noise: Callable[[], Noise]
) -> SynthesisMethod:
    """Divide epsilon for ``dp_ranks``, and check that all draws cost no more than epsilon."""
    # The hierarchy of a column with listed values, else None; the number of values of a numeric
    # column if there are few enough to count each, else 0.
    trees, values = [column.tree for column in columns], [column.n_values for column in columns]
    epsilon_shares = divide_epsilon(
        n,
        p=len(columns),
        epsilon=options.epsilon,
        trees=trees,
        margins=options.margins,
        n_values=values,
    )
    method = _RanksMethod(epsilon_shares, new_noise())
    method.epsilon_shares.require_affordable(method.noise)
    return method


def _prepare_marginals(
    n: int, columns: Sequence[PublicColumn], options: PrivateOptions, new_noise: Callable[[], Noise]
) -> SynthesisMethod:
    """Divide epsilon or rho for ``dp_marginals``, and check that all draws cost no more."""
    cost = options.cost
    if cost.delta is not None and cost.delta * n >= 1:
        raise InvalidParameter(
            f"delta must be below 1 in the {n} rows: otherwise a row could be released unchanged.",
            hint="Choose a far smaller delta: `delta=1e-9`.",
        )
    amount = cost.epsilon if cost.delta is None else cost.rho
    trees, values = [column.tree for column in columns], [column.n_values for column in columns]
    method = _MarginalsMethod(
        divide_amount(n, amount, options.accounting, trees, values), new_noise()
    )
    method.amount_shares.require_affordable(method.noise)
    return method


_METHODS = {DP_RANKS: _prepare_ranks, DP_MARGINALS: _prepare_marginals}


def plan_columns(table: TypedTable, options: PrivateOptions) -> tuple[PublicColumn, ...]:
    """Determine the columns' public domains.

    Raises the same errors as ``define_public_columns``.
    """
    require_column_count(len(table.names))
    return define_public_columns(table, options)


def synthesize_privately(
    table: TypedTable,
    options: PrivateOptions,
    budget: SpendableBudget,
    new_noise: Callable[[], Noise],
    method: str = DP_RANKS,
) -> Synthesis:
    """Generate one synthetic row per row, or person, of the table.

    All checks use public figures only and run before the budget is spent. The budget is spent
    whatever happens next, and only then are values read.

    Parameters
    ----------
    budget : the budget that pays for the release.
    new_noise : creates the source of noise.
    method : ``dp_ranks`` or ``dp_marginals``.

    Raises
    ------
    DbanonError : of a subclass that describes the problem; never because of a row's values.
    """
    columns = plan_columns(table, options)
    prepared_method = _METHODS[method](table.n, columns, options, new_noise)
    budget.spend(options.cost)
    # ``read`` returns the values of a column and which of them are NULL.
    encoded_columns = [column.encode(*table.read(j)) for j, column in enumerate(columns)]
    if table.read_persons is not None:
        person_ids = number_persons(table.read_persons())
        encoded_columns = [
            column.aggregate_persons(values, person_ids)
            for column, values in zip(columns, encoded_columns, strict=True)
        ]
    grid_columns = np.array(
        [column.to_grid(values) for column, values in zip(columns, encoded_columns, strict=True)]
    )
    synthetic_columns = prepared_method.generate_rows(grid_columns)
    unit = "row" if table.read_persons is None else "person"
    synthesis = Synthesis(
        {
            column.name: column.from_grid(values)
            for column, values in zip(columns, synthetic_columns, strict=True)
        },
        method=method,
        guarantee=state_guarantee(options.cost, unit, table.source, budget.description),
        epsilon=options.epsilon,
        method_notes=prepared_method.description,
    )
    _recount_synthesis(synthesis, table.n, columns)
    return synthesis


def _recount_synthesis(synthesis: Synthesis, n: int, columns: tuple[PublicColumn, ...]) -> None:
    """Check the rows, columns and bounds of the release; privacy itself cannot be recounted."""
    names = tuple(column.name for column in columns)
    all_inside = all(column.contains_all(synthesis.columns[column.name]) for column in columns)
    if synthesis.n_rows != n or tuple(synthesis.columns) != names or not all_inside:
        raise RecountFailed(
            "The number of synthetic rows is wrong, or values are outside their bounds.",
            hint="This is an error in dbanon: please report it.",
        )
