"""Python's door to privacy budgets that a database keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbanon.job.budget import ROW, NewBudget
from dbanon.run import budgets as run
from dbanon.run.budgets import BudgetShown
from dbanon.run.open import open_store

if TYPE_CHECKING:
    from dbanon.sessions.base import OnSql


def create_budget(
    database: Any,
    name: str,
    *,
    source: str,
    epsilon: float,
    unit: str = ROW,
    entity: str | None = None,
    raises: str | None = None,
    on_sql: OnSql | None = None,
) -> BudgetShown:
    """Make a privacy budget, of which all differentially private releases of a table spend.

    It is kept in the database of the table, and only the owner of the ledger can make one.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    source : the table, as in ``app.people``.
    epsilon : in all.
    unit : ``row``, or ``person`` with ``entity``: what one of is protected.
    entity : the column that says whose a row is.
    raises : the open budget whose place it takes, with a larger total.

    Raises
    ------
    BudgetExists : there is one of this name, or an open one of the table and unit.
    BudgetNotFound : there is none that it could take the place of.
    InsufficientRights : the ledger is another role's.
    TableNotFound, ColumnNotFound, UnsupportedType : it cannot be of this table.
    """
    wanted = NewBudget(
        name=name, source=source, epsilon=epsilon, unit=unit, entity=entity, raises=raises
    )
    return run.create(open_store(database, on_sql), wanted)


def budgets(database: Any, *, on_sql: OnSql | None = None) -> list[BudgetShown]:
    """The privacy budgets of a database, the oldest first."""
    return run.listed(open_store(database, on_sql))


def show_budget(database: Any, name: str, *, on_sql: OnSql | None = None) -> BudgetShown:
    """A privacy budget, with all that was spent of it.

    Raises
    ------
    BudgetNotFound : there is none of this name.
    """
    return run.shown(open_store(database, on_sql), name)
