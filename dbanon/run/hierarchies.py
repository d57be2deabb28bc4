"""Read the hierarchies that a job names, and compare column values with their leaves.

All reads run in the job's own transaction, with the caller's rights. Some specifications are
builders: they make a hierarchy from the values of a column, such as intervals of a given width.
Functions in this module call their argument ``pulse`` regularly; if it raises an exception, they
end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.edges import Pulse, ignore_pulses
from dbanon.hierarchy.leaves import spell_as_leaves
from dbanon.hierarchy.spec import (
    ENUM,
    NAME,
    TABLE,
    HierarchySpec,
    build,
    build_enum_hierarchy,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.measures import Model
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.stores.ports import Source
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.sessions.store import Store


@dataclass(frozen=True)
class JobHierarchies:
    """The hierarchies of a job, as far as they can be read without the records.

    Parameters
    ----------
    trees : by quasi-identifier, its hierarchy, or the specification of a builder that needs the
        records.
    models : the privacy models, with their hierarchies.
    origins : by column, where its hierarchy came from, for the ledger.
    model_trees : by sensitive column, the hierarchies that ``models`` contain.
    """

    trees: Mapping[str, Hierarchy | HierarchySpec] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    origins: Mapping[str, JsonMapping] = field(default_factory=dict)
    model_trees: Mapping[str, Hierarchy] = field(default_factory=dict)

    def describe(self, trees: Mapping[str, Hierarchy]) -> dict[str, JsonObject]:
        """Describe size and origin of hierarchies by column, without labels, for the ledger."""
        return {
            column: {"leaves": tree.n_leaves, "height": tree.height, **self.origins.get(column, {})}
            for column, tree in {**trees, **self.model_trees}.items()
        }


def read_hierarchies(
    source: Source, relation: Relation, job: Job, pulse: Pulse = ignore_pulses
) -> JobHierarchies:
    """Read the hierarchies that a job names.

    Raises
    ------
    TableNotFound, HierarchyNotFound : there is no such hierarchy.
    InsufficientRights : the role may not read it.
    HierarchyBroken : the rows of a hierarchy are not a tree.
    InvalidParameter : a hierarchy table lacks the expected columns, a column is not of an
        enumerated type, or a builder cannot use the values of a model's column.
    """
    origins: dict[str, JsonObject] = {}
    model_trees: dict[str, Hierarchy] = {}
    models = []
    for model in job.policy.models:
        if isinstance(model.distance, HierarchySpec):
            name = model.attribute
            tree, origins[name] = _read_hierarchy(source, relation, name, model.distance, pulse)
            if isinstance(tree, HierarchySpec):
                values = source.list_distinct_values(relation, relation.attribute(name))
                tree = build(tree, values, name, pulse)
            model = replace(model, distance=tree)
            model_trees[name] = tree
        models.append(model)
    trees, named_origins = read_specs(source, relation, job.hierarchies, pulse)
    return JobHierarchies(trees, tuple(models), origins | named_origins, model_trees)


def read_specs(
    source: Source,
    relation: Relation,
    specs: Mapping[str, Hierarchy | HierarchySpec],
    pulse: Pulse = ignore_pulses,
) -> tuple[dict[str, Hierarchy | HierarchySpec], dict[str, JsonObject]]:
    """Read hierarchies; return them and, for the ledger, their origins, both by column.

    Specifications of builders are returned unchanged.

    Raises
    ------
    DbanonError : as ``read_hierarchies``.
    """
    trees: dict[str, Hierarchy | HierarchySpec] = {}
    origins: dict[str, JsonObject] = {}
    for name, tree_or_spec in specs.items():
        if isinstance(tree_or_spec, HierarchySpec):
            tree_or_spec, origins[name] = _read_hierarchy(
                source, relation, name, tree_or_spec, pulse
            )
        trees[name] = tree_or_spec
    return trees, origins


def _read_hierarchy(
    source: Source, relation: Relation, column: str, spec: HierarchySpec, pulse: Pulse
) -> tuple[Hierarchy | HierarchySpec, JsonObject]:
    """Read a hierarchy; return it and, for the ledger, its origin.

    The specification of a builder is returned unchanged.
    """
    origin: JsonObject = {"from": spec.parameters}
    # Kinds that need the database: a table of the hierarchy's rows, a hierarchy stored by name, and
    # an enumerated type. All other kinds are builders.
    if spec.kind in (TABLE, NAME):
        tree = source.load_hierarchy(column, spec, pulse)
        return tree, origin | {"sha256": tree.sha256}
    if spec.kind != ENUM:
        return spec, origin
    attribute = relation.attribute(column)
    if not attribute.order:
        raise InvalidParameter(
            f'Column "{column}" is of type {attribute.sql_type or "text"}, which enumerates'
            " no values.",
            hint='Give its values in order: {"ordered": ["low", "high"]}.',
        )
    return build_enum_hierarchy(spec, attribute.order), origin


def read_column_values(store: Store, table: RelationName, column: str) -> list[str]:
    """Return the distinct values of a column except NULL, ordered by code point.

    Raises
    ------
    InvalidParameter : the column holds timestamps, which databases spell differently.
    """
    _, values = _read_column(store, table, column)
    return values


def require_leaves(store: Store, table: RelationName, column: str, tree: Hierarchy) -> None:
    """Check that the values of a column are leaves of a hierarchy.

    Raises
    ------
    HierarchyBroken : some values are not leaves; the attribute ``problems`` of the error names
        them.
    InvalidParameter : the column holds timestamps, which databases spell differently.
    """
    attribute, values = _read_column(store, table, column)
    # ``encode`` raises HierarchyBroken if a value is not a leaf. A number may be written in another
    # way than its leaf, such as 0.50 for 0.5, which does not count as a difference.
    tree.encode(spell_as_leaves(tree, values, attribute), column)


def _read_column(store: Store, table: RelationName, column: str) -> tuple[Attribute, list[str]]:
    """Return the attribute of a column and its distinct values except NULL, sorted."""
    with store.session(write=False) as session:
        relation = session.catalog.find_source(table)
        [attribute] = session.complete_attributes_from_values(
            relation, [relation.attribute(column)]
        )
        if attribute.kind is Kind.TIMESTAMP:
            raise InvalidParameter(
                f'Column "{column}" holds timestamps.', hint="Cast it to a date in a view."
            )
        session.catalog.require_readable(relation, [column])
        values = SqlSource(session).list_distinct_values(relation, relation.attribute(column))
        return attribute, sorted(values)


def require_coverage(
    source: Source, relation: Relation, hierarchies: JobHierarchies, pulse: Pulse = ignore_pulses
) -> None:
    """Check that hierarchies cover the distinct values of their columns.

    Timestamps are skipped, because databases spell them differently; the run checks them.

    Raises
    ------
    HierarchyBroken : a value is not a leaf.
    InvalidParameter : a builder cannot use the values.
    """
    for name, tree_or_spec in hierarchies.trees.items():
        attribute = relation.attribute(name)
        if attribute.kind is Kind.TIMESTAMP:
            continue
        values = source.list_distinct_values(relation, attribute)
        # Called for their errors: both raise one if the hierarchy does not cover the values.
        if isinstance(tree_or_spec, Hierarchy):
            tree_or_spec.encode(spell_as_leaves(tree_or_spec, values, attribute), name)
        else:
            build(tree_or_spec, values, name, pulse)
