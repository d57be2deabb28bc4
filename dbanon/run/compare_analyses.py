"""Compare analyses of two relations of a database: originals and a release.

Neither relation needs a row key, as rows are not paired. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbanon.data.schema import Attribute, apply_orders
from dbanon.hierarchy.spec import (
    DATABASE_KINDS,
    ENUM,
    HierarchySpec,
    build,
    build_enum_hierarchy,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.analyses import AnalysisRequest
from dbanon.release.analyses import compare_analyses
from dbanon.release.analysis_columns import (
    NUMBER_KINDS,
    ColumnReader,
    ColumnValues,
    format_values,
    join_bounds,
)
from dbanon.release.analysis_comparison import AnalysisComparison
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores import hierarchies
from dbanon.stores.sql_source import read_rows

# Releases with ``intervals="bounds"`` have two columns with these suffixes instead of one.
_BOUND_SUFFIXES = ("_low", "_high")


def compare_relations(
    store: Store,
    original: RelationName,
    released: RelationName,
    request: AnalysisRequest,
    *,
    tree_sources: Mapping[str, Hierarchy | HierarchySpec],
    orders: Mapping[str, Sequence[str]],
    seed: int,
) -> AnalysisComparison:
    """Run the analyses on both relations, and compare their estimates.

    Parameters
    ----------
    tree_sources : hierarchies or their specifications, by column; those of other columns are
        ignored.
    orders : the values of text columns from the lowest to the highest, by column; as above.
    seed : as in ``release.analyses.compare_analyses``.

    Raises
    ------
    TableNotFound, ColumnNotFound, InsufficientRights : a relation cannot be read.
    InvalidParameter, UnsupportedType : a column does not fit its analysis.
    """
    with store.session(write=False) as session:
        source, release = (session.catalog.find_source(name) for name in (original, released))
        original_columns = _read_columns(session, source, request.columns, orders)
        released_names = [attribute.name for attribute in release.schema.attributes]
        bounds = find_bounds(request.columns, released_names)
        released_columns = _read_columns(
            session, release, [part for parts in bounds.values() for part in parts], {}
        )
        trees = build_trees(tree_sources, original_columns, session)
    return compare_columns(request, original_columns, released_columns, bounds, trees, seed)


def find_bounds(names: Sequence[str], released_names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the released columns of each column: itself, or the two columns of its bounds."""
    released_parts = {}
    for name in names:
        parts = tuple(f"{name}{suffix}" for suffix in _BOUND_SUFFIXES)
        has_bounds = name not in released_names and set(parts) <= set(released_names)
        released_parts[name] = parts if has_bounds else (name,)
    return released_parts


def compare_columns(
    request: AnalysisRequest,
    original_columns: Mapping[str, ColumnValues],
    released_columns: Mapping[str, ColumnValues],
    bounds: Mapping[str, Sequence[str]],
    trees: Mapping[str, Hierarchy],
    seed: int,
) -> AnalysisComparison:
    """Pair each column of the originals with that of the release, and compare the analyses.

    Parameters
    ----------
    bounds : by column, the names of its released columns, as ``find_bounds`` returns them.
    seed : as in ``release.analyses.compare_analyses``.
    """
    readers = {}
    for name, column in original_columns.items():
        parts = [released_columns[part] for part in bounds[name]]
        released = join_bounds(name, parts[0], parts[1]) if len(parts) == 2 else parts[0]
        readers[name] = ColumnReader(column, released, trees.get(name))
    original_rows, released_rows = (
        len(next(iter(columns.values())).values) for columns in (original_columns, released_columns)
    )
    return compare_analyses(request, readers, original_rows, released_rows, seed=seed)


def build_trees(
    sources: Mapping[str, Hierarchy | HierarchySpec],
    columns: Mapping[str, ColumnValues],
    session: Session | None,
) -> dict[str, Hierarchy]:
    """Build or load the hierarchies of these columns; without a session, only from no database.

    Raises
    ------
    InvalidParameter, HierarchyBroken, HierarchyNotFound, TableNotFound : there is no hierarchy.
    """
    return {
        name: _build_tree(sources[name], column, session)
        for name, column in columns.items()
        if name in sources
    }


def _build_tree(
    source: Hierarchy | HierarchySpec, column: ColumnValues, session: Session | None
) -> Hierarchy:
    """Build or load the hierarchy of a column, as ``build_trees`` describes."""
    if isinstance(source, Hierarchy):
        return source
    if session is not None and source.kind in DATABASE_KINDS:
        return hierarchies.resolve(session, source)
    if source.kind == ENUM and column.attribute.order:
        return build_enum_hierarchy(source, column.attribute.order)
    return build(source, format_values(column), column.attribute.name)


def _read_columns(
    session: Session,
    relation: Relation,
    names: Sequence[str],
    orders: Mapping[str, Sequence[str]],
) -> dict[str, ColumnValues]:
    """Read columns of a relation, in no particular order of its rows."""
    attributes: Sequence[Attribute] = [relation.attribute(name) for name in names]
    session.require_typed(names)
    session.catalog.require_readable(relation, names)
    attributes = session.complete_attributes_from_values(relation, attributes)
    attributes = apply_orders(attributes, {n: orders[n] for n in names if n in orders})
    rows = read_rows(session, relation, attributes)
    columns = {}
    for attribute, values in zip(
        attributes, zip(*rows, strict=True) if rows else [()] * len(names), strict=True
    ):
        missing = np.array([value is None for value in values], bool)
        if attribute.kind in NUMBER_KINDS:
            array = np.array([0.0 if value is None else float(value) for value in values])
        else:
            array = np.array([str(value) for value in values], object)
        columns[attribute.name] = ColumnValues(attribute, array, missing)
    return columns
