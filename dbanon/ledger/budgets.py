"""Create, spend and list privacy budgets, in the ledger of their source's database.

Budgets are never refunded. An amount counts as spent once its transaction is committed, before any
noise is drawn, even if no release follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dbanon.data.frozen import dataclass
from dbanon.errors import (
    BudgetExhausted,
    BudgetExists,
    BudgetNotFound,
    InsufficientRights,
    SourceChanged,
    nearest_names,
)
from dbanon.job.concentrated import Cost, describe_rho
from dbanon.job.private import NewBudget
from dbanon.ledger.entries import optional_column
from dbanon.ledger.tables import TABLES, LedgerRow, as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# All amounts are multiples of this.
_AMOUNT_STEP = Decimal("1e-9")
# SQL of an amount that is passed as a parameter.
_AMOUNT_PARAMETER = "CAST(? AS DECIMAL(18,9))"


@dataclass(frozen=True)
class Spending:
    """One amount spent from a budget.

    Parameters
    ----------
    spending_id : the UUID of the spending.
    epsilon : the amount, in the privacy parameter of the budget (epsilon or rho).
    state : ``spent`` (no release yet, or none at all) or ``published``.
    release_id : the release that it was spent on; None if there is none.
    spent_by : the role that spent it, if the database has roles.
    """

    spending_id: str
    epsilon: Decimal
    state: str
    release_id: str | None
    spent_at: str
    spent_by: str | None


@dataclass(frozen=True)
class RecordedBudget:
    """A budget as the ledger records it.

    Parameters
    ----------
    source : the relation whose releases spend from it.
    unit, entity : the protected unit, ``row`` or ``person``, and the column that identifies the
        person a row belongs to.
    total : the amount that the budget started with.
    spent : the amount spent so far.
    created_by : the role that created it, if the database has roles.
    raises : name of the budget that this one replaces, to raise its total; None if there is none.
        The amount spent from that budget carries over.
    closed : whether another budget replaces this one.
    delta : the delta of the guarantee, if amounts are values of rho; None if they are values of
        epsilon.
    """

    name: str
    source: str
    unit: str
    entity: str | None
    total: Decimal
    spent: Decimal
    created_at: str
    created_by: str | None
    raises: str | None
    closed: bool
    delta: float | None = None

    @property
    def parameter(self) -> str:
        """The privacy parameter in which amounts are measured: ``epsilon`` or ``rho``."""
        return "epsilon" if self.delta is None else "rho"

    @property
    def remaining(self) -> Decimal:
        """The amount that may still be spent."""
        return Decimal(0) if self.closed else self.total - self.spent

    @property
    def description(self) -> str:
        """A sentence about the total and the amount spent."""
        total = format_amount(self.total)
        if self.delta is not None:
            spent = describe_rho(float(self.spent), self.delta)
            return f"Budget {self.name} has rho = {total}, of which {spent} is spent"
        return f"{format_amount(self.spent)} of {total} of budget {self.name} are spent"


def compute_charge(cost: Cost, delta: float | None) -> Decimal:
    """Return the amount that a budget is charged for a release, rounded up to nine decimals.

    Parameters
    ----------
    cost : the cost of the release.
    delta : the delta of the budget; None for a budget of epsilon.

    Raises
    ------
    InvalidParameter : the budget has no delta, but the release has one.
    """
    return Decimal(repr(float(cost.charge(delta)))).quantize(_AMOUNT_STEP, ROUND_CEILING)


def format_amount(amount: Decimal) -> str:
    """Write an amount without trailing zeros or an exponent."""
    return f"{amount.normalize():f}"


def create(session: Session, new_budget: NewBudget, source: RelationName) -> RecordedBudget:
    """Create a budget for a source.

    Parameters
    ----------
    source : the full name of the source, with its schema.

    Raises
    ------
    BudgetExists : the name is taken, or the source has an open budget. Releases that protect rows
        and releases that protect persons reveal facts about the same people, so a source has one
        budget, whatever its unit. Also raised if a dropped table with a budget may have been this
        source, before it was renamed.
    BudgetNotFound : the budget to replace does not exist, is closed or has another source.
    BudgetExhausted : the new total is not larger than that of the budget to replace. (For a renamed
        table it may be equal.)
    InsufficientRights : the ledger belongs to another role.
    """
    session.ledger.ensure_current()
    session.ledger.require_trusted()
    budgets = list_budgets(session)
    spent = Decimal(0)
    total = Decimal(repr(new_budget.amount)).quantize(_AMOUNT_STEP, ROUND_FLOOR)
    # A source has one open budget at most. But several missing tables may have been this source.
    open_budgets = [b for b in budgets if not b.closed and b.source == str(source)]
    open_budgets += _find_former_budgets(session, budgets, source)
    if new_budget.name in [b.name for b in budgets]:
        raise BudgetExists(
            f"There is a budget {new_budget.name} already.",
            hint="Spend from it, or create a larger one under another name that raises"
            f" {new_budget.name} (dbanon budget create).",
        )
    if new_budget.raises is not None:
        replaced_budget = next((b for b in open_budgets if b.name == new_budget.raises), None)
        # The amount spent carries over, so unit, person identifier and delta must be the same.
        terms = (new_budget.unit, new_budget.entity, new_budget.delta)
        if (
            replaced_budget is None
            or (replaced_budget.unit, replaced_budget.entity, replaced_budget.delta) != terms
        ):
            raise BudgetNotFound(
                f"There is no open budget {new_budget.raises} of {source} with the unit"
                f" {new_budget.unit} and the same person identifier and delta.",
                hint=nearest_names(new_budget.raises, [b.name for b in budgets]),
            )
        spent = replaced_budget.spent
        is_same_source = replaced_budget.source == str(source)
        if total < replaced_budget.total or (total == replaced_budget.total and is_same_source):
            minimum = "above" if is_same_source else "of at least"
            raise BudgetExhausted(
                f"Budget {replaced_budget.name} has a total of"
                f" {format_amount(replaced_budget.total)} already.",
                hint=f"Choose a total {minimum} {format_amount(replaced_budget.total)}.",
            )
        n_budgets = len([b for b in budgets if b.source == replaced_budget.source])
        _close(session, replaced_budget.name, n_budgets)
    elif open_budgets:
        open_budget = open_budgets[0]
        if open_budget.source != str(source):
            raise _renamed_table_error(open_budget, source)
        raise BudgetExists(
            f"{source} has the open budget {open_budget.name} of {open_budget.unit}s already: all"
            " releases of a source draw on one budget.",
            hint=f"Spend from {open_budget.name}, or create a larger one that raises"
            f" {open_budget.name} (dbanon budget create).",
        )
    row = {
        "name": new_budget.name,
        "source": str(source),
        "unit": new_budget.unit,
        "entity": new_budget.entity,
        "epsilon_total": str(total),
        "spent": str(spent),
        "created_at": session.ledger.to_timestamp(now()),
        "created_by": session.catalog.find_current_user(),
        "raises": new_budget.raises,
        # Open; ``_close`` sets another number.
        "closed": 0,
        "delta": new_budget.delta,
    }
    _insert(session, "budget", row)
    return find(session, new_budget.name)


def _find_former_budgets(
    session: Session, budgets: Sequence[RecordedBudget], source: RelationName
) -> list[RecordedBudget]:
    """Return the open budgets of missing tables that may have been renamed to this source.

    A missing table may be this source if the source has all columns of the table's releases, and
    the person identifier of the budget. Budgets from which nothing is spent are left out.
    """
    source_columns = {name for name, _ in session.catalog.list_columns(source)}
    former_budgets = []
    for budget in budgets:
        if budget.closed or not budget.spent or budget.source == str(source):
            continue
        if session.catalog.find_existing(parse_relation(budget.source)) is not None:
            continue
        released_columns = session.rows(
            f"SELECT DISTINCT c.name FROM {session.ledger.table('release_column').quoted} AS c"
            f" JOIN {session.ledger.table('spending').quoted} AS s ON s.release_id = c.release_id"
            " WHERE s.budget = ?",
            (budget.name,),
        )
        required_columns = {name for (name,) in released_columns} | (
            {budget.entity} if budget.entity else set()
        )
        if required_columns <= source_columns:
            former_budgets.append(budget)
    return former_budgets


def _renamed_table_error(budget: RecordedBudget, source: RelationName) -> BudgetExists:
    """Build the error for a source that may be the renamed table of another budget."""
    return BudgetExists(
        f"Budget {budget.name} belongs to {budget.source}, which no longer exists. {source} has all"
        " columns of its releases, so it may be that table under another name.",
        hint=f"Create one that raises {budget.name}, with a total of {format_amount(budget.total)}"
        f" or more (dbanon budget create). It carries over the amount spent from {budget.name}.",
    )


def _close(session: Session, name: str, n_budgets: int) -> None:
    """Close a budget.

    Parameters
    ----------
    n_budgets : how many budgets its source has had so far. It is stored in the column ``closed``,
        where 0 means open; different numbers keep (source, unit, closed) unique.
    """
    table = session.ledger.table("budget").quoted
    try:
        session.run(
            f"UPDATE {table} SET closed = ? WHERE name = ? AND closed = 0", (n_budgets, name)
        )
    except InsufficientRights:
        raise _not_owner_error() from None


def _insert(session: Session, table: str, row: LedgerRow) -> None:
    """Insert a row into a ledger table; amounts, which are passed as text, are cast to decimals.

    Parameters
    ----------
    table : the name of the table, as in ``TABLES``.
    row : the values, by column.
    """
    columns, _primary_key = TABLES[table]
    amount_columns = [name for name, kind, _ in columns if kind == "amount"]
    placeholders = ", ".join(_AMOUNT_PARAMETER if name in amount_columns else "?" for name in row)
    relation = session.ledger.table(table).quoted
    try:
        session.run(
            f"INSERT INTO {relation} ({', '.join(row)}) VALUES ({placeholders})",
            tuple(row.values()),
        )
    except InsufficientRights:
        raise _not_owner_error() from None


def _not_owner_error() -> InsufficientRights:
    return InsufficientRights(
        "Only the owner of the ledger can write budgets.",
        hint="The owner of the ledger, schema dbanon, runs dbanon budget create.",
    )


def list_budgets(session: Session) -> list[RecordedBudget]:
    """List the budgets of a ledger, oldest first."""
    if not _has_budget_table(session):
        return []
    session.ledger.require_trusted()
    table = session.ledger.table("budget").quoted
    # Older ledgers have no column for delta, which is the last column of the table.
    columns, _primary_key = TABLES["budget"]
    names = [name for name, _, _ in columns if name != "delta"]
    rows = session.rows(
        f"SELECT {as_text('budget', names)}, {optional_column(session, 'delta', 'budget')}"
        f" FROM {table} ORDER BY created_at, name"
    )
    budgets = []
    for (
        name,
        source,
        unit,
        entity,
        total,
        spent,
        created_at,
        created_by,
        raises,
        closed,
        delta,
    ) in rows:
        budgets.append(
            RecordedBudget(
                name=name,
                source=source,
                unit=unit,
                entity=entity,
                total=Decimal(total),
                spent=Decimal(spent),
                created_at=created_at,
                created_by=created_by,
                raises=raises,
                closed=closed != 0,
                delta=delta,
            )
        )
    return budgets


def find(session: Session, name: str) -> RecordedBudget:
    """Return the budget of this name.

    Raises
    ------
    BudgetNotFound : there is no such budget.
    """
    session.require_capability("budgets")
    budgets = list_budgets(session)
    for budget in budgets:
        if budget.name == name:
            return budget
    raise BudgetNotFound(
        f"The ledger of this database has no budget {name}.",
        hint=nearest_names(name, [b.name for b in budgets])
        or "Create one for all releases of the source: dbanon budget create.",
    )


def list_spendings(session: Session, name: str) -> list[Spending]:
    """List the amounts spent from a budget, newest first."""
    rows = session.rows(
        f"SELECT {as_text('spending', (field.name for field in fields(Spending)))}"
        f" FROM {session.ledger.table('spending').quoted} WHERE budget = ?"
        " ORDER BY spent_at DESC, spending_id",
        (name,),
    )
    return [Spending(id_, Decimal(epsilon), *details) for id_, epsilon, *details in rows]


def require_sufficient(budget: RecordedBudget, cost: Cost) -> None:
    """Check that the budget covers a cost.

    Raises
    ------
    BudgetExhausted : the budget does not cover it.
    InvalidParameter : the budget has no delta, but the release has one.
    """
    amount = compute_charge(cost, budget.delta)
    if amount > budget.remaining:
        raise _exhausted_error(budget, amount)


def spend(session: Session, name: str, cost: Cost, spending_id: str) -> RecordedBudget:
    """Spend from a budget; the caller commits the transaction before any noise is drawn.

    Parameters
    ----------
    name : the name of the budget.
    cost : the cost of the release.
    spending_id : a new UUID, under which the spending is recorded.

    Raises
    ------
    BudgetNotFound : there is no such budget.
    BudgetExhausted : the budget is closed, or what remains of it is less than the cost.
    SourceChanged : another session spent at the same time; retry in a new transaction.
    """
    # The delta of a budget never changes.
    amount = compute_charge(cost, find(session, name).delta)
    is_spent = session.ledger.spend_budget_as_owner(name, str(amount), spending_id)
    # None if the database has no function that spends with the ledger owner's rights.
    if is_spent is None:
        is_spent = _spend(session, name, amount, spending_id)
    budget = find(session, name)
    if not is_spent:
        raise _exhausted_error(budget, amount)
    return budget


def _spend(session: Session, name: str, amount: Decimal, spending_id: str) -> bool:
    """Spend with this session's rights; return False if the budget does not cover the amount.

    A single statement checks the total and spends.
    """
    table = session.ledger.table("budget").quoted
    new_spent = f"round(spent + {_AMOUNT_PARAMETER}, 9)"
    updated_rows = session.rows(
        f"UPDATE {table} SET spent = {new_spent}"
        f" WHERE name = ? AND closed = 0 AND {new_spent} <= epsilon_total RETURNING name",
        (str(amount), name, str(amount)),
    )
    if not updated_rows:
        return False
    row = {
        "spending_id": spending_id,
        "budget": name,
        "epsilon": str(amount),
        "state": "spent",
        "spent_at": session.ledger.to_timestamp(now()),
        "spent_by": session.catalog.find_current_user(),
    }
    _insert(session, "spending", row)
    return True


def require_spent(session: Session, spending_id: str) -> None:
    """Check that a spending is recorded; call it in a transaction begun after its commit.

    Raises
    ------
    SourceChanged : the spending is not recorded; no noise was drawn.
    """
    table = session.ledger.table("spending").quoted
    rows = session.rows(
        f"SELECT state FROM {table} WHERE CAST(spending_id AS VARCHAR(36)) = ?", (spending_id,)
    )
    if rows != [("spent",)]:
        raise SourceChanged(
            "The recorded spending is no longer in the ledger; no noise was drawn.",
            hint="Another program removed it. Find out which one writes to the ledger, then run"
            " this again.",
        )


def record_publication(session: Session, release_id: str) -> None:
    """Record that a release was published, with this session's rights.

    The amount for a release was spent under the id of the release.
    """
    table = session.ledger.table("spending").quoted
    session.run(
        f"UPDATE {table} SET state = 'published', release_id = spending_id"
        " WHERE CAST(spending_id AS VARCHAR(36)) = ?",
        (release_id,),
    )


def _exhausted_error(budget: RecordedBudget, amount: Decimal) -> BudgetExhausted:
    if budget.closed:
        return BudgetExhausted(
            f"Budget {budget.name} is closed: another budget replaced it.",
            hint="dbanon budget list shows the open ones.",
        )
    return BudgetExhausted(
        f"Budget {budget.name} has {format_amount(budget.remaining)} of"
        f" {format_amount(budget.total)} left, less than"
        f" {budget.parameter} {format_amount(amount)}.",
        hint="What was released stays released: a larger total is a decision, not a setting.",
    )


def _has_budget_table(session: Session) -> bool:
    return session.ledger.has_table("budget")
