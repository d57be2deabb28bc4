"""A differentially private synthesis, from the first refusal to the last check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dbanon.data.synthesis import Synthesis
from dbanon.errors import RecountFailed
from dbanon.job.synthesis import Private
from dbanon.synthesis.columns import PublicColumn, public_columns
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.ranks import dp_ranks
from dbanon.synthesis.shares import require_columns, shares
from dbanon.synthesis.table import Table, numbered
from dbanon.synthesis.words import guarantee, told


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
        table.n, len(columns), wished.epsilon, [one.tree for one in columns], wished.margins
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
        told=told(divided),
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
