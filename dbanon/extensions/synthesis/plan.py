"""Check a differentially private release before spending, by reading only public metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from dbanon.data.memory import records_share
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter, MemoryLimit
from dbanon.extensions.synthesis.budgets import require_table_rows
from dbanon.extensions.synthesis.columns import PublicColumn, TypedTable
from dbanon.extensions.synthesis.domains import NumericDomain
from dbanon.extensions.synthesis.enumerated_column import to_listed_column
from dbanon.extensions.synthesis.private import plan_columns
from dbanon.extensions.synthesis.synthetic_rows import (
    AnyColumn,
    count_privacy_units,
    numpy_dtype,
    require_entity,
    require_kind,
    to_synthetic_column,
)
from dbanon.hierarchy.spec import TABLE, HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.private import PrivateJob
from dbanon.job.synthesis import PrivateOptions
from dbanon.ledger import budgets
from dbanon.ledger.budgets import RecordedBudget
from dbanon.ledger.outputs import plan_output
from dbanon.run.hierarchies import read_specs
from dbanon.run.plan import require_roles, require_types
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import parse_relation, require_length
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget

# Upper bound of the memory for one value, in bytes: as read, as encoded, and as written.
_BYTES_PER_VALUE = 64


@dataclass(frozen=True)
class PrivatePlan:
    """A private release after all checks, before spending. All of its fields are public.

    Parameters
    ----------
    job : the request.
    settings : the job's privacy settings, with hierarchies that have been read.
    relation : the source table, with its columns.
    columns : the columns to synthesize, with their domains.
    n : the number of protected units: rows, or persons if the job names an entity.
    output : the names of the release, and of the table that its rows are written to first.
    release_id : the id under which the ledger records spending and release.
    hierarchies : by column, a description of the hierarchy for the ledger.
    """

    job: PrivateJob
    settings: PrivateOptions
    relation: Relation
    columns: tuple[AnyColumn, ...]
    n: int
    output: Output
    release_id: str
    hierarchies: Mapping[str, JsonMapping]


def plan_private(job: PrivateJob, session: Session, release_id: str) -> PrivatePlan:
    """Check names, types, rights and the budget; count rows without reading them.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    source = SqlSource(session)
    relation = source.describe(job)
    require_table_rows(relation)
    # Refuses columns without a role in the release, if the job halts at these.
    require_roles(job, relation)
    # Refuses columns whose type is of another family than at the last release of this named job.
    require_types(job, relation, SqlTarget(session).last_types(job, relation.name))
    session.catalog.require_readable(relation, job.columns_to_read)
    # The entity if the job names one, else nothing.
    for name in job.entity_columns:
        require_entity(relation.attribute(name))
    budget = budgets.find(session, job.budget)
    _require_matching_budget(budget, job, relation)
    budgets.require_sufficient(budget, job.private_options.cost)
    attributes = [relation.attribute(name) for name in job.quasi_identifiers]
    for attribute in attributes:
        require_kind(attribute)
        require_length(attribute.name, session.dialect.name_limit, "name of a column")
    if job.output_kind == "view":
        session.dialect.require_names_allowed_in_views(job.quasi_identifiers)
    settings, hierarchies = _read_trees(job, source, relation)
    # The domains of the columns do not depend on the number of units, so pass 0.
    columns = tuple(
        _build_column(session, attribute, public_column)
        for attribute, public_column in zip(
            attributes, plan_columns(describe_table(job, relation, n=0), settings), strict=True
        )
    )
    output = plan_output(
        session, parse_relation(job.output), job.output_kind, job.if_exists, release_id
    )
    n = count_privacy_units(session, relation, job.entity_columns)
    needed_bytes = n * len(columns) * _BYTES_PER_VALUE
    if job.memory_limit is not None and needed_bytes > records_share(
        job.memory_limit, session.n_databases
    ):
        raise MemoryLimit(
            f"{n} {job.unit}s of {len(columns)} columns need about {needed_bytes / 2**20:.0f} MiB,"
            " more than the limit.",
            hint="Raise the limit (`memory_limit`), or use fewer quasi-identifiers.",
        )
    return PrivatePlan(
        job=job,
        settings=settings,
        relation=relation,
        columns=columns,
        n=n,
        output=output,
        release_id=release_id,
        hierarchies=hierarchies,
    )


def _read_trees(
    job: PrivateJob, source: SqlSource, relation: Relation
) -> tuple[PrivateOptions, dict[str, JsonObject]]:
    """Return the job's settings with hierarchies, and descriptions of these for the ledger."""
    specs = job.private_options.hierarchies
    for name, spec in specs.items():
        if isinstance(spec, HierarchySpec) and spec.kind == TABLE:
            table = source.session.catalog.find_source(parse_relation(spec.value)).name
            if source.session.catalog.is_same_name(table, relation.name):
                raise InvalidParameter(
                    f'The hierarchy of "{name}" is read from the rows that are released.',
                    hint="List the values in `orders` or `hierarchies`, as anyone may know them"
                    " without the table.",
                )
    # ``origins`` says where a hierarchy comes from, such as a table, by column.
    trees, origins = read_specs(source, relation, specs)
    descriptions = {
        name: {"leaves": tree.n_leaves, "height": tree.height, **origins.get(name, {})}
        for name, tree in trees.items()
        if isinstance(tree, Hierarchy)
    }
    return replace(job.private_options, hierarchies=trees), descriptions


def _build_column(session: Session, attribute: Attribute, public_column: PublicColumn) -> AnyColumn:
    """Build the database column of an attribute from its public description."""
    if isinstance(public_column, NumericDomain):
        return to_synthetic_column(session, attribute, (public_column.low, public_column.high))
    if attribute.kind is Kind.BOOLEAN:
        return to_synthetic_column(session, attribute, (0.0, 1.0))  # These bounds are ignored.
    return to_listed_column(session, attribute, public_column.labels)


def _require_matching_budget(budget: RecordedBudget, job: PrivateJob, relation: Relation) -> None:
    """Check that a budget protects the source and the unit of a job."""
    expected_protection = (str(relation.name), job.unit, job.private_options.entity)
    if (budget.source, budget.unit, budget.entity) != expected_protection:
        entity_text = f" by {budget.entity}" if budget.entity else ""
        raise InvalidParameter(
            f"Budget {budget.name} belongs to {budget.source}, and protects one {budget.unit}"
            f"{entity_text}.",
            hint="Name the budget of this source and unit, or create one: dbanon budget create.",
        )


def describe_table(job: PrivateJob, relation: Relation, n: int) -> TypedTable:
    """Describe the table for the synthesis by its metadata, without access to its columns.

    An attempt to read a column raises an error.

    Parameters
    ----------
    n : the number of protected units, rows or persons.
    """
    attributes = [relation.attribute(name) for name in job.quasi_identifiers]

    def refuse_reading(column_index: int) -> NoReturn:
        raise AssertionError("columns must not be read before the budget is charged")

    return TypedTable(
        n=n,
        names=job.quasi_identifiers,
        dtypes=tuple(map(numpy_dtype, attributes)),
        nullable=tuple(attribute.nullable for attribute in attributes),
        labels={attribute.name: attribute.order for attribute in attributes if attribute.order},
        read=refuse_reading,
        source=str(relation.name),
    )
