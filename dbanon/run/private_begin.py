"""Checks of a differentially private release before spending; they read only public figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, MemoryLimit
from dbanon.hierarchy.spec import TABLE, HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.private import PrivateJob
from dbanon.job.synthesis import Private
from dbanon.ledger import budgets
from dbanon.ledger.budgets import RecordedBudget
from dbanon.ledger.releases import plan_output
from dbanon.run.budgets import require_of_rows
from dbanon.run.hierarchies import read_named
from dbanon.run.plan import require_roles
from dbanon.run.source_types import require_types
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import check_length, parse_relation
from dbanon.sessions.session import Session
from dbanon.stores.enumerated_column import listed_column
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget
from dbanon.stores.synthetic import (
    AnyColumn,
    count_units,
    dtype_of,
    require_entity,
    require_kind,
    synthetic_column,
)
from dbanon.synthesis.columns import PublicColumn, Table
from dbanon.synthesis.domains import NumericDomain
from dbanon.synthesis.private import planned_columns

# Maximum bytes per figure: as read, on its grid and as written.
_OF_A_FIGURE = 64


@dataclass(frozen=True)
class PrivatePlan:
    """A private release after all checks, before spending. All of its fields are public.

    Parameters
    ----------
    settings : the job's privacy settings, with their hierarchies read.
    hierarchies : by column, their description for the ledger.
    """

    job: PrivateJob
    settings: Private
    relation: Relation
    columns: tuple[AnyColumn, ...]
    n: int
    output: Output
    release_id: str
    hierarchies: Mapping[str, Mapping[str, Any]]


def plan_private(job: PrivateJob, session: Session, release_id: str) -> PrivatePlan:
    """Check public figures, names, types and rights.

    Raises
    ------
    DbanonError : its class says what went wrong. Rows were counted but not read.
    """
    source = SqlSource(session)
    relation = source.describe(job)
    require_of_rows(relation)
    require_roles(job, relation)
    require_types(job, relation, SqlTarget(session).last_types(job, relation.name))
    session.require_rights(relation, job.read)
    for name in job.persons:
        require_entity(relation.attribute(name))
    budget = budgets.find(session, job.budget)
    _require_of(budget, job, relation)
    budgets.require_sufficient(budget, job.private_options.cost)
    attributes = [relation.attribute(name) for name in job.quasi_identifiers]
    for attribute in attributes:
        require_kind(attribute)
        check_length(attribute.name, session.name_limit, "name of a column")
    if job.output_kind == "view":
        session.require_columns_of_views(job.quasi_identifiers)
    settings, hierarchies = _read_trees(job, source, relation)
    columns = tuple(
        _column(session, attribute, public)
        for attribute, public in zip(
            attributes, planned_columns(shape_of(job, relation, 0), settings), strict=True
        )
    )
    output = plan_output(
        session, parse_relation(job.output), job.output_kind, job.if_exists, release_id
    )
    n = count_units(session, relation, job.persons)
    needed = n * len(columns) * _OF_A_FIGURE
    if job.memory_limit is not None and needed > job.memory_limit:
        raise MemoryLimit(
            f"{n} {job.unit}s of {len(columns)} columns need about {needed / 2**20:.0f} MiB, more"
            " than the limit.",
            hint="Raise the limit (`memory_limit`), or use fewer quasi-identifiers.",
        )
    return PrivatePlan(job, settings, relation, columns, n, output, release_id, hierarchies)


def _read_trees(
    job: PrivateJob, source: SqlSource, relation: Relation
) -> tuple[Private, dict[str, dict[str, Any]]]:
    """The job's settings with their hierarchies read, and descriptions for the ledger."""
    specs = job.private_options.hierarchies
    for name, spec in specs.items():
        if isinstance(spec, HierarchySpec) and spec.kind == TABLE:
            table = source.session.find_source(parse_relation(spec.value)).name
            if source.session.same_name(table, relation.name):
                raise InvalidParameter(
                    f'The hierarchy of "{name}" is read from the rows that are released.',
                    hint="List the values in `orders` or `hierarchies`, as anyone may know them"
                    " without the table.",
                )
    trees, origins = read_named(source, relation, specs)
    described = {
        name: {"leaves": tree.n_leaves, "height": tree.height, **origins.get(name, {})}
        for name, tree in trees.items()
        if isinstance(tree, Hierarchy)
    }
    return replace(job.private_options, hierarchies=trees), described


def _column(session: Session, attribute: Attribute, public: PublicColumn) -> AnyColumn:
    """The database column for a public column."""
    if isinstance(public, NumericDomain):
        return synthetic_column(session, attribute, (public.low, public.high))
    if attribute.kind is Kind.BOOLEAN:
        return synthetic_column(session, attribute, (0.0, 1.0))
    return listed_column(session, attribute, public.labels)


def _require_of(budget: RecordedBudget, job: PrivateJob, relation: Relation) -> None:
    expected = (str(relation.name), job.unit, job.private_options.entity)
    if (budget.source, budget.unit, budget.entity) != expected:
        entity_text = f" by {budget.entity}" if budget.entity else ""
        raise InvalidParameter(
            f"Budget {budget.name} is of {budget.source}, and protects one {budget.unit}"
            f"{entity_text}.",
            hint="Name the budget of this source and unit, or create one: dbanon budget create.",
        )


def shape_of(job: PrivateJob, relation: Relation, n: int) -> Table:
    """The columns by their types; reading them raises."""
    attributes = [relation.attribute(name) for name in job.quasi_identifiers]

    def never(j: int) -> Any:
        raise AssertionError("columns are not read before they are paid for")

    return Table(
        n=n,
        names=job.quasi_identifiers,
        dtypes=tuple(map(dtype_of, attributes)),
        nullable=tuple(attribute.nullable for attribute in attributes),
        labels={attribute.name: attribute.order for attribute in attributes if attribute.order},
        read=never,
        source=str(relation.name),
    )
