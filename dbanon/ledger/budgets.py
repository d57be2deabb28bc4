"""Privacy budgets in the ledger of the database that they are of: made, spent, looked at.

Only spending changes a budget, and spending only adds. What is spent is spent when its transaction
is committed, before any noise is drawn, whatever comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

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
from dbanon.ledger.entries import newer
from dbanon.ledger.tables import TABLES, as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# What the smallest part of an epsilon is that is counted.
_PART = Decimal("1e-9")
_AMOUNT = "CAST(? AS DECIMAL(18,9))"


@dataclass(frozen=True)
class Spending:
    """What was spent at once.

    Parameters
    ----------
    state : ``spent``: nothing came of it, or not yet; ``published``.
    release_id : what came of it; None where nothing did.
    spent_by : the role, where the database has roles.
    """

    spending_id: str
    epsilon: Decimal
    state: str
    release_id: str | None
    spent_at: str
    spent_by: str | None


@dataclass(frozen=True)
class KeptBudget:
    """A budget as the ledger has it.

    Parameters
    ----------
    source : the relation whose releases spend of it.
    unit, entity : what one of is protected, ``row`` or ``person``, and the column that says whose a
        row is.
    raises : the budget that this one took the place of, with what was spent of it.
    closed : another one took its place.
    delta : with which epsilon is meant; amounts are of rho then. None: they are of epsilon.
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
    def what(self) -> str:
        """What is counted."""
        return "epsilon" if self.delta is None else "rho"

    @property
    def left(self) -> Decimal:
        """What may still be spent."""
        return Decimal(0) if self.closed else self.total - self.spent

    @property
    def told(self) -> str:
        """What is spent of it, in words."""
        if self.delta is not None:
            spent = describe_rho(float(self.spent), self.delta)
            return f"Budget {self.name} has rho = {plain(self.total)}, of which {spent} is spent"
        return f"{plain(self.spent)} of {plain(self.total)} of budget {self.name} are spent"


def charged(cost: Cost, delta: float | None) -> Decimal:
    """What is charged to a budget of this delta: the decimal, in parts that count, rounded up.

    Raises
    ------
    InvalidParameter : the budget is of epsilon alone, and the release has a delta.
    """
    return Decimal(repr(float(cost.charged(delta)))).quantize(_PART, ROUND_CEILING)


def plain(amount: Decimal) -> str:
    """An amount as people write it."""
    return f"{amount.normalize():f}"


def create(session: Session, wanted: NewBudget, source: RelationName) -> KeptBudget:
    """Make a budget of this source, resolved.

    Raises
    ------
    BudgetExists : there is one of this name, or an open one of the source: releases of rows and of
        persons tell of the same people, so that a source has one account, whatever its unit. Or one
        of a table that is gone, which the source may be under another name.
    BudgetNotFound : the one whose place it takes is none, or closed, or of another source.
    BudgetExhausted : more than its total is spent of that one already.
    InsufficientRights : the ledger is another's.
    """
    session.ensure_ledger()
    session.require_trusted_ledger()
    known = list_budgets(session)
    spent, total = Decimal(0), Decimal(repr(wanted.amount)).quantize(_PART, ROUND_FLOOR)
    open_now = [b for b in known if not b.closed and b.source == str(source)]
    open_now += _renamed(session, known, source)
    if wanted.name in [b.name for b in known]:
        raise BudgetExists(
            f"There is a budget {wanted.name} already.",
            hint="What was spent stays spent: a larger total is another budget, which raises it.",
        )
    if wanted.raises is not None:
        old = next((b for b in open_now if b.name == wanted.raises), None)
        asked = (wanted.unit, wanted.entity, wanted.delta)
        if old is None or (old.unit, old.entity, old.delta) != asked:
            raise BudgetNotFound(
                f"There is no open budget {wanted.raises} of {source}, unit {wanted.unit} and this"
                " delta.",
                hint=nearest_names(wanted.raises, [b.name for b in known]),
            )
        spent = old.spent
        if total < old.total or (total == old.total and old.source == str(source)):
            raise BudgetExhausted(
                f"Budget {old.name} has a total of {plain(old.total)} already.",
                hint="A total can only be raised.",
            )
        _close(session, old.name, len([b for b in known if b.source == old.source]))
    elif open_now:
        old = open_now[0]
        if old.source != str(source):
            raise _of_a_renamed_table(old, source)
        raise BudgetExists(
            f"{source} has the open budget {old.name} of {old.unit}s already: all its releases"
            " spend of one.",
            hint="Spend of that one. A larger total is another budget, which raises that one.",
        )
    row = {
        "name": wanted.name,
        "source": str(source),
        "unit": wanted.unit,
        "entity": wanted.entity,
        "epsilon_total": str(total),
        "spent": str(spent),
        "created_at": session.timestamp(now()),
        "created_by": session.current_user(),
        "raises": wanted.raises,
        "closed": 0,
        "delta": wanted.delta,
    }
    _insert(session, "budget", row)
    return find(session, wanted.name)


def _renamed(
    session: Session, known: Sequence[KeptBudget], source: RelationName
) -> list[KeptBudget]:
    """The open budgets, spent in part, of tables that are gone and that a source may have been.

    Recognized by the columns: those of all releases, and the one that says whose a row is.
    """
    columns = {name for name, _ in session.columns_of(source)}
    found = []
    for budget in known:
        if budget.closed or not budget.spent or budget.source == str(source):
            continue
        if session.find_existing(parse_relation(budget.source)) is not None:
            continue
        released = session.rows(
            f"SELECT DISTINCT c.name FROM {session.ledger_name('release_column').quoted} AS c"
            f" JOIN {session.ledger_name('spending').quoted} AS s ON s.release_id = c.release_id"
            " WHERE s.budget = ?",
            (budget.name,),
        )
        names = {name for (name,) in released} | ({budget.entity} if budget.entity else set())
        if names <= columns:
            found.append(budget)
    return found


def _of_a_renamed_table(old: KeptBudget, source: RelationName) -> BudgetExists:
    return BudgetExists(
        f"Budget {old.name} is of {old.source}, which is not there any more. {source} has all"
        " columns of its releases, and may be that table under another name.",
        hint=f"Make one that raises {old.name}, with a total of {plain(old.total)} or more: it goes"
        " on with what was spent of that one.",
    )


def _close(session: Session, name: str, number: int) -> None:
    table = session.ledger_name("budget").quoted
    try:
        session.run(f"UPDATE {table} SET closed = ? WHERE name = ? AND closed = 0", (number, name))
    except InsufficientRights:
        raise _not_the_owner() from None


def _insert(session: Session, table: str, row: dict[str, Any]) -> None:
    """A row of amounts as decimals, whatever the client's own numbers are."""
    amounts = [name for name, kind, _ in TABLES[table][0] if kind == "amount"]
    marks = ", ".join(_AMOUNT if name in amounts else "?" for name in row)
    try:
        session.run(
            f"INSERT INTO {session.ledger_name(table).quoted} ({', '.join(row)}) VALUES ({marks})",
            tuple(row.values()),
        )
    except InsufficientRights:
        raise _not_the_owner() from None


def _not_the_owner() -> InsufficientRights:
    return InsufficientRights(
        "Budgets are written by the owner of the ledger alone.",
        hint="Ask an administrator of the database to make it.",
    )


def list_budgets(session: Session) -> list[KeptBudget]:
    """The budgets of a ledger, the oldest first."""
    if not _there(session):
        return []
    session.require_trusted_ledger()
    table = session.ledger_name("budget").quoted
    known = [name for name, _, _ in TABLES["budget"][0] if name != "delta"]
    found = session.rows(
        f"SELECT {as_text('budget', known)}, {newer(session, 'delta', 'budget')} FROM {table}"
        " ORDER BY created_at, name"
    )
    budgets = []
    for *named, total, spent, created_at, created_by, raises, closed, delta in found:
        amounts = Decimal(total), Decimal(spent)
        row = (*named, *amounts, created_at, created_by, raises, closed != 0, delta)
        budgets.append(KeptBudget(*row))
    return budgets


def find(session: Session, name: str) -> KeptBudget:
    """The budget of this name.

    Raises
    ------
    BudgetNotFound : there is none.
    """
    session.require("budgets")
    known = list_budgets(session)
    for budget in known:
        if budget.name == name:
            return budget
    raise BudgetNotFound(
        f"The ledger of this database has no budget {name}.",
        hint=nearest_names(name, [b.name for b in known])
        or "Make one for all releases of the source, once: dbanon budget create.",
    )


def spendings(session: Session, name: str) -> list[Spending]:
    """What was spent of a budget, the newest first."""
    found = session.rows(
        f"SELECT {as_text('spending', (field.name for field in fields(Spending)))}"
        f" FROM {session.ledger_name('spending').quoted} WHERE budget = ?"
        " ORDER BY spent_at DESC, spending_id",
        (name,),
    )
    return [Spending(one, Decimal(epsilon), *told) for one, epsilon, *told in found]


def require_left(budget: KeptBudget, cost: Cost) -> None:
    """Check that so much is left.

    Raises
    ------
    BudgetExhausted : less is.
    InvalidParameter : the budget is of epsilon alone, and the release has a delta.
    """
    amount = charged(cost, budget.delta)
    if amount > budget.left:
        raise _exhausted(budget, amount)


def spend(session: Session, name: str, cost: Cost, spending_id: str) -> KeptBudget:
    """Spend of a budget, in a transaction that the caller commits before any noise is drawn.

    Raises
    ------
    BudgetNotFound, BudgetExhausted : nothing is spent.
    SourceChanged : another session spent meanwhile; in a new transaction it can be tried again.
    """
    # Of what it is made when it is made, a budget stays.
    amount = charged(cost, find(session, name).delta)
    asked = session.have_spent(name, str(amount), spending_id)
    if asked is None:
        asked = _spend(session, name, amount, spending_id)
    budget = find(session, name)
    if not asked:
        raise _exhausted(budget, amount)
    return budget


def _spend(session: Session, name: str, amount: Decimal, spending_id: str) -> bool:
    """By this session's own rights: what is left is asked and taken by one statement."""
    table = session.ledger_name("budget").quoted
    after = f"round(spent + {_AMOUNT}, 9)"
    taken = session.rows(
        f"UPDATE {table} SET spent = {after}"
        f" WHERE name = ? AND closed = 0 AND {after} <= epsilon_total RETURNING name",
        (str(amount), name, str(amount)),
    )
    if not taken:
        return False
    row = {
        "spending_id": spending_id,
        "budget": name,
        "epsilon": str(amount),
        "state": "spent",
        "spent_at": session.timestamp(now()),
        "spent_by": session.current_user(),
    }
    _insert(session, "spending", row)
    return True


def require_spent(session: Session, spending_id: str) -> None:
    """Check that a spending is there, in a transaction that began after it was committed.

    Raises
    ------
    SourceChanged : it is not; no noise was drawn.
    """
    table = session.ledger_name("spending").quoted
    found = session.rows(
        f"SELECT state FROM {table} WHERE CAST(spending_id AS VARCHAR(36)) = ?", (spending_id,)
    )
    if found != [("spent",)]:
        raise SourceChanged(
            "What was spent is not in the ledger any more; no noise was drawn.",
            hint="Somebody changed the ledger meanwhile: find out who.",
        )


def published(session: Session, release_id: str) -> None:
    """Note what came of a spending, by this session's own rights."""
    table = session.ledger_name("spending").quoted
    session.run(
        f"UPDATE {table} SET state = 'published', release_id = spending_id"
        " WHERE CAST(spending_id AS VARCHAR(36)) = ?",
        (release_id,),
    )


def _exhausted(budget: KeptBudget, amount: Decimal) -> BudgetExhausted:
    if budget.closed:
        return BudgetExhausted(
            f"Budget {budget.name} is closed: another one took its place.",
            hint="dbanon budget list says which.",
        )
    return BudgetExhausted(
        f"Budget {budget.name} has {plain(budget.left)} of {plain(budget.total)} left, less than"
        f" {budget.what} {plain(amount)}.",
        hint="What was released stays released: a larger total is a decision, not a setting.",
    )


def _there(session: Session) -> bool:
    return session.find_existing(session.ledger_name("budget")) is not None
