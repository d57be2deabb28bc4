"""Privacy budgets of a database: create, list and show them."""

from __future__ import annotations

from dataclasses import dataclass

from dbanon.data.types import JsonObject
from dbanon.errors import BudgetExists, InvalidParameter, OutputExists, UnsupportedType
from dbanon.job.concentrated import epsilon_of
from dbanon.job.private import NewBudget
from dbanon.ledger import budgets
from dbanon.ledger.budgets import RecordedBudget, Spending, format_amount
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation
from dbanon.sessions.store import Store

# Relations that a budget may protect. Views are excluded, as they may run a different query later.
_SOURCE_KINDS = ("table", "partitioned table", "inherited table", "materialized view")


@dataclass(frozen=True)
class BudgetShown:
    """A budget with its spendings.

    Amounts are in the privacy parameter that the budget counts: epsilon or, if the budget has a
    delta, rho.

    Parameters
    ----------
    record : the budget as stored in the ledger.
    spendings : the amounts spent, newest first; empty in a list of budgets.
    """

    record: RecordedBudget
    spendings: tuple[Spending, ...] = ()

    @property
    def name(self) -> str:
        """The name of the budget."""
        return self.record.name

    @property
    def total(self) -> float:
        """The amount that may be spent in total."""
        return float(self.record.total)

    @property
    def spent(self) -> float:
        """The amount already spent."""
        return float(self.record.spent)

    @property
    def left(self) -> float:
        """The amount that may still be spent."""
        return float(self.record.remaining)

    def to_dict(self) -> JsonObject:
        """Return the budget as plain values, for JSON."""
        record = self.record
        return {
            "name": record.name,
            "source": record.source,
            "unit": record.unit,
            "entity": record.entity,
            # ``epsilon`` or ``rho``: the privacy parameter of total, spent, left and spendings.
            "counts": record.parameter,
            "delta": record.delta,
            **self._convert_to_epsilons(),
            "total": self.total,
            "spent": self.spent,
            "left": self.left,
            "state": "closed" if record.closed else "open",
            # The name of the smaller budget that this one replaced.
            "raises": record.raises,
            "created_at": record.created_at,
            "created_by": record.created_by,
            # The key ``epsilon`` holds the amount, also if the budget counts rho.
            "spendings": [
                vars(spending) | {"epsilon": float(spending.epsilon)} for spending in self.spendings
            ],
        }

    def _convert_to_epsilons(self) -> dict[str, float]:
        """Convert amounts of rho to epsilon; empty for a budget that counts epsilon."""
        delta = self.record.delta
        if delta is None:
            return {}
        return {
            "epsilon_total": epsilon_of(self.total, delta),
            "epsilon_spent": epsilon_of(self.spent, delta),
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of label and text, for display."""
        record = self.record
        epsilon_pairs = []
        if epsilons := self._convert_to_epsilons():
            amounts = " / ".join(f"{epsilon:.4g}" for epsilon in epsilons.values())
            epsilon_pairs.append((f"epsilon at delta {record.delta:g}", amounts))
        entity_text = f", by {record.entity}" if record.entity else ""
        return [
            ("budget", record.name + (", closed" if record.closed else "")),
            ("source", record.source),
            ("protects", f"one {record.unit}{entity_text}"),
            (
                f"{record.parameter}: total / spent / left",
                " / ".join(map(format_amount, (record.total, record.spent, record.remaining))),
            ),
            *epsilon_pairs,
            *([("raises", record.raises)] if record.raises else []),
            (
                "created",
                record.created_at + (f" by {record.created_by}" if record.created_by else ""),
            ),
            *(
                (
                    f"{record.parameter} {format_amount(spending.epsilon)}",
                    _describe_spending(spending),
                )
                for spending in self.spendings
            ),
            ("counts", "only releases that name this budget, not others of the same source"),
        ]


def require_table_rows(relation: Relation) -> None:
    """Check that a relation stores its rows, unlike a view.

    Raises
    ------
    UnsupportedType : it is a view or another relation whose rows may differ each time.
    """
    if relation.kind not in _SOURCE_KINDS:
        raise UnsupportedType(
            f"{relation.name} is a {relation.kind}: only tables and materialized views can be"
            " read, because a view could run a different query each time.",
            hint="Name a table, or create one from the rows of this relation with CREATE TABLE … AS"
            " TABLE …;",
        )


def require_database(store: Store) -> None:
    """Check that a store keeps budgets, unlike one of files, whose rows are there for one run only.

    Raises
    ------
    InvalidParameter : the source is files.
    """
    if not store.is_persistent:
        raise InvalidParameter(
            "A budget is stored in the database that is read, and a file is not a database.",
            hint="Load the rows into a table of a database, create a budget for it, and release the"
            " table.",
        )


def create(store: Store, budget: NewBudget) -> BudgetShown:
    """Create a budget in the database of its source.

    Raises
    ------
    InvalidParameter : the source is files.
    BudgetExists : another session has just created it.
    UnsupportedType : the source is a view.
    DbanonError : see ``dbanon.ledger.budgets.create``.
    """
    require_database(store)
    with store.session(write=True) as session:
        # Raises an error for kinds of databases that cannot hold budgets.
        session.require_capability("budgets")
        relation = session.catalog.find_source(parse_relation(budget.source))
        require_table_rows(relation)
        if budget.entity:
            # Raises ColumnNotFound if there is no such column.
            relation.attribute(budget.entity)
        try:
            return BudgetShown(budgets.create(session, budget, relation.name))
        except OutputExists:
            raise BudgetExists(
                f"Another session has just created a budget for {relation.name}."
            ) from None


def list_budgets(store: Store) -> list[BudgetShown]:
    """List the budgets of a database, oldest first."""
    with store.session(write=False) as session:
        return [BudgetShown(record) for record in budgets.list_budgets(session)]


def show_budget(store: Store, name: str) -> BudgetShown:
    """Read a budget and everything that was spent from it; raises BudgetNotFound."""
    with store.session(write=False) as session:
        record = budgets.find(session, name)
        return BudgetShown(record, tuple(budgets.list_spendings(session, name)))


def _describe_spending(spending: Spending) -> str:
    """Describe when and by whom an amount was spent, and for which release."""
    spender = f" by {spending.spent_by}" if spending.spent_by else ""
    outcome = f"release {spending.release_id}" if spending.release_id else "nothing was published"
    return f"{spending.spent_at}{spender}: {outcome}"
