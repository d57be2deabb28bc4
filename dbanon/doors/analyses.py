"""The Python API for the analyses of readers: on a release, next to the same on its originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from dbanon.data.option import Option, Parameter, find_parameter
from dbanon.data.schema import apply_orders
from dbanon.errors import InvalidParameter, hints_without_views, name_missing_extras
from dbanon.hierarchy.spec import HierarchySource, HierarchySpec, parse_all
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.analyses import AnalysisRequest
from dbanon.job.policy import Policy
from dbanon.stores.ports import IN_DATA_FRAME

if TYPE_CHECKING:
    import os

    import pandas as pd

    from dbanon.release.analysis_columns import ColumnValues
    from dbanon.release.analysis_comparison import AnalysisComparison
    from dbanon.sessions.base import OnSql

_SEED = Parameter(
    "seed", int, 0, Option("Draws the parts in which a classifier is tested.", minimum=0)
)


def compare_analyses(
    original: ArrayLike | pd.DataFrame,
    released: ArrayLike | pd.DataFrame,
    analyses: str | os.PathLike[str] | Sequence[object] | Mapping[str, object],
    *,
    database: object = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    on_sql: OnSql | None = None,
) -> AnalysisComparison:
    """Compare what readers compute from a release with the same from its originals.

    Rows need not be paired: the tables may have any order and any number of rows, so that the
    effect of withheld rows is part of the difference. Nothing is written. The result is computed
    from the originals: it is for the owner of the data, not for publication.

    Parameters
    ----------
    original, released : tables as ``anonymize_frame`` takes them, or both arrays of numbers. With
        ``database``, the names of two relations in it.
    analyses : the path of a file, or its content: a list of analyses such as
        ``{"mean": "income", "by": "region"}``, or a dict with the keys ``analyses``, ``weight``
        and ``nominal``. docs/evaluation.md lists the analyses.
    database : a URL, a SQLAlchemy engine or a DuckDB connection; None for tables in memory.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``. They say what the labels of the release stand for.
    orders : for text columns, by name: their values from the lowest to the highest.
    seed : draws the parts of the originals in which a classifier is tested.
    on_sql : called with the text of each SQL statement before it runs.

    Raises
    ------
    AnalysesInvalid : the analyses are not valid; lists all problems.
    ColumnNotFound, TableNotFound, InsufficientRights : a table cannot be read.
    InvalidParameter, UnsupportedType : a column does not fit its analysis, or a label is unknown.
    """
    seed = _SEED.check(seed)
    # If pydantic or PyYAML is missing, the error names the extra that installs it.
    with name_missing_extras():
        from dbanon.doors.jobfile.analyses import read_analyses
    request = read_analyses(analyses)
    tree_sources = parse_all(hierarchies, files=True)
    column_orders = find_parameter(Policy, "orders").check(orders)
    if database is None:
        # Data frames have no views, so hints say "in the data frame" in place of "in a view".
        with hints_without_views(IN_DATA_FRAME):
            return _compare_frames(original, released, request, tree_sources, column_orders, seed)
    if not isinstance(original, str) or not isinstance(released, str):
        raise InvalidParameter(
            "With a database, original and released are names of tables.",
            hint='Name both, as in "app.people", or leave out database to compare data frames.',
        )
    from dbanon.run.compare_analyses import compare_relations
    from dbanon.run.open import open_store
    from dbanon.sessions.names import parse_relation

    return compare_relations(
        open_store(database, on_sql),
        parse_relation(original),
        parse_relation(released),
        request,
        tree_sources=tree_sources,
        orders=column_orders,
        seed=seed,
    )


@name_missing_extras()
def _compare_frames(
    original: object,
    released: object,
    request: AnalysisRequest,
    tree_sources: Mapping[str, Hierarchy | HierarchySpec],
    orders: Mapping[str, Sequence[str]],
    seed: int,
) -> AnalysisComparison:
    """Compare the analyses of two tables in memory."""
    # Imports pandas, which databases do not need.
    from dbanon.doors.evaluate import as_frames
    from dbanon.run.compare_analyses import build_trees, compare_columns, find_bounds
    from dbanon.stores.frame.microdata import require_columns

    original_frame, released_frame = as_frames(original, released)
    released_names = [str(name) for name in released_frame.columns]
    bounds = find_bounds(request.columns, released_names)
    require_columns(original_frame, request.columns)
    require_columns(released_frame, [part for parts in bounds.values() for part in parts])
    original_columns = {
        name: _read_original(name, original_frame[name], orders) for name in request.columns
    }
    released_columns = {
        part: _read_released(original_columns[name], part, released_frame[part])
        for name, parts in bounds.items()
        for part in parts
    }
    trees = build_trees(tree_sources, original_columns, session=None)
    return compare_columns(request, original_columns, released_columns, bounds, trees, seed)


def _read_original(
    name: str, series: pd.Series, orders: Mapping[str, Sequence[str]]
) -> ColumnValues:
    """Read a column of the originals."""
    from dbanon.doors.evaluate import ReleasedValues
    from dbanon.release.analysis_columns import ColumnValues
    from dbanon.stores.frame.microdata import attribute_of

    [attribute] = apply_orders(
        [attribute_of(name, series)], {name: orders[name]} if name in orders else {}
    )
    values = ReleasedValues.of(attribute, series)
    return ColumnValues(attribute, values.values, values.missing)


def _read_released(original: ColumnValues, name: str, series: pd.Series) -> ColumnValues:
    """Read a released column of this original one, or a column of its bounds."""
    from dbanon.doors.evaluate import ReleasedValues
    from dbanon.release.analysis_columns import ColumnValues
    from dbanon.stores.frame.microdata import attribute_of

    # Numbers in place of texts are read as numbers, and refused when both columns are paired.
    attribute = original.attribute if original.are_numbers else attribute_of(name, series)
    values = ReleasedValues.of(attribute, series)
    return ColumnValues(values.attribute, values.values, values.missing)
