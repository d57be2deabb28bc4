"""The Python API for privacy budgets, and for synthetic rows of arrays and data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dbanon.data.array_types import AnyArray
from dbanon.data.partition import Synthesis
from dbanon.doors.arrays import microdata_of
from dbanon.errors import (
    InvalidParameter,
    NotDifferentiallyPrivate,
    TooFewRecords,
    UnsupportedType,
    warn_caller,
)
from dbanon.extensions.synthesis import budgets as budget_commands
from dbanon.extensions.synthesis.budgets import BudgetShown
from dbanon.extensions.synthesis.dcmdp import (
    NO_GUARANTEE,
    cluster_with_dbscan,
    dcmdp,
    describe_variance_loss,
)
from dbanon.extensions.synthesis.declared_types import wrap_data
from dbanon.extensions.synthesis.noise import OpenDpNoise
from dbanon.extensions.synthesis.private import Budget, synthesize_privately
from dbanon.hierarchy.spec import parse_all
from dbanon.job.private import ROW, NewBudget
from dbanon.job.synthesis import DcmdpOptions, parse_synthesis_options
from dbanon.run.open import open_store

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.sessions.base import OnSql


def create_budget(
    database: object,
    name: str,
    *,
    source: str,
    epsilon: float,
    delta: float | None = None,
    unit: str = ROW,
    entity: str | None = None,
    raises: str | None = None,
    on_sql: OnSql | None = None,
) -> BudgetShown:
    """Create a privacy budget, which pays for all differentially private releases of a table.

    The budget is stored in the table's database. Only the owner of the ledger can create one.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    source : the table, as in ``app.people``.
    epsilon : the total epsilon of all releases.
    delta : the total delta. With a delta the budget is accounted in rho (zero-concentrated
        differential privacy), which Gaussian noise requires.
    unit : the unit of protection: a ``row``, or a ``person`` with ``entity``.
    entity : the column that identifies the person of a row.
    raises : name of an open budget with a smaller total, which the new budget replaces.

    Raises
    ------
    InvalidParameter : an argument is invalid, or the source is files, which keep no budgets.
    BudgetExists : the name is taken, or the table has an open budget of this unit.
    BudgetNotFound : the budget that ``raises`` names does not exist, or is closed.
    InsufficientRights : another role owns the ledger.
    TableNotFound, ColumnNotFound, UnsupportedType : the table or its entity cannot have a budget.
    """
    new_budget = NewBudget(
        name=name,
        source=source,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        entity=entity,
        raises=raises,
    )
    return budget_commands.create(open_store(database, on_sql), new_budget)


def budgets(database: object, *, on_sql: OnSql | None = None) -> list[BudgetShown]:
    """List the privacy budgets of a database, the oldest first."""
    return budget_commands.list_budgets(open_store(database, on_sql))


def show_budget(database: object, name: str, *, on_sql: OnSql | None = None) -> BudgetShown:
    """Return a privacy budget, with everything that was spent from it.

    Raises
    ------
    BudgetNotFound : there is no budget of this name.
    """
    return budget_commands.show_budget(open_store(database, on_sql), name)


def synthesize(
    data: AnyArray | pd.DataFrame,
    *,
    method: str,
    budget: Budget | None = None,
    types: Mapping[str, str] | str | None = None,
    **options: Any,
) -> Synthesis:
    """Make synthetic rows, from noisy statistics or, with ``dcmdp``, from records with noise.

    Parameters
    ----------
    data : numbers, (n, p), with columns named "column 0" and so on, or a data frame. All columns
        are released, except ``entity``.
    method : ``dp_ranks``: differentially private, with ``epsilon`` and public ``bounds``.
        ``dp_marginals``: the same, with a graphical model of two-way counts, for tables with
        categories; ``accounting="zcdp"`` with a ``delta`` uses Gaussian noise.
        ``dcmdp``: noise as Liu and Li published it, which guarantees nothing. It requires
        ``guarantee="as_published"``, and gives the warning ``NotDifferentiallyPrivate``.
    budget : the budget that pays for epsilon, before any noise is drawn; not for ``dcmdp``.
    types : declared types by column, or one type for all: ``integer``, ``number``, ``boolean``,
        ``text``, ``date`` or ``timestamp``. Types are never inferred from the data, because a
        single value could change them, and so be revealed. Not for ``dcmdp``.
    options : options of the method; docs/differential-privacy.md lists them.

    Raises
    ------
    InvalidParameter, UnknownMethod, UnknownOption, BoundsRequired : an option is wrong or missing.
    UnsupportedType : the method does not take a column's type.
    TooFewRecords, NoiseTooLarge : there are too few rows for k, or for epsilon.
    BudgetExhausted : epsilon exceeds the remaining budget.
    MissingDependency : OpenDP is not installed.
    """
    # The caller may read hierarchies from files, unlike callers of the SQL procedures.
    if "hierarchies" in options:
        options["hierarchies"] = parse_all(options["hierarchies"], files=True)
    request = parse_synthesis_options(method, options)
    if isinstance(request, DcmdpOptions):
        if budget is not None:
            raise InvalidParameter(
                "Method dcmdp is not differentially private, and does not spend from a budget."
            )
        if types is not None:
            raise InvalidParameter("Method dcmdp takes only numbers, and no types.")
        return _synthesize_as_published(data, request)
    if not isinstance(budget, Budget):
        raise InvalidParameter(
            f"Method {method} needs a budget, and the source has none.",
            hint="Create one budget for all releases of these rows: dbanon.Budget(3.0).",
        )
    table = wrap_data(data, request.entity, types)
    return synthesize_privately(table, request, budget, OpenDpNoise, method)


def _synthesize_as_published(data: object, request: DcmdpOptions) -> Synthesis:
    """Run ``dcmdp``, which is not differentially private."""
    microdata = microdata_of(data)
    for attribute in microdata.attributes:
        if attribute.kind.is_coded:
            raise UnsupportedType(
                f'Column "{attribute.name}" is not a number, and dcmdp needs numbers.'
            )
    # ``valid`` is None if no value is NULL.
    if microdata.valid is not None:
        raise UnsupportedType(
            "Method dcmdp does not accept NULLs.",
            hint="Leave out rows with NULLs, as with frame.dropna().",
        )
    if microdata.n_records < request.k:
        raise TooFewRecords(f"There are {microdata.n_records} records, fewer than k = {request.k}.")
    warn_caller(NotDifferentiallyPrivate(NotDifferentiallyPrivate.__doc__))
    rng = np.random.default_rng(request.seed)
    classes = cluster_with_dbscan(microdata.numbers, request.k, request.radius)
    rows = dcmdp(
        microdata.numbers,
        request.k,
        request.epsilon,
        radius=request.radius,
        reading=request.reading,
        rng=rng,
        classes=classes,
    )
    # Shuffle: a row's position would tell from which record it was made.
    rows = rows[rng.permutation(len(rows))]
    return Synthesis(
        {
            attribute.name: rows[:, index].copy()
            for index, attribute in enumerate(microdata.attributes)
        },
        method="dcmdp",
        guarantee=NO_GUARANTEE,
        method_notes=describe_variance_loss(microdata.numbers, classes, request.k),
    )
