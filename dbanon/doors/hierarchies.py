"""Python's door to the hierarchies that a database keeps by name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dbanon.hierarchy.spec import Given, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.run.open import open_store
from dbanon.sessions.session import Session
from dbanon.stores import hierarchies
from dbanon.stores.hierarchies import Stored

if TYPE_CHECKING:
    from dbanon.sessions.base import OnSql


def store_hierarchy(
    database: Any,
    name: str,
    hierarchy: Given,
    *,
    replace: bool = False,
    description: str | None = None,
    on_sql: OnSql | None = None,
) -> Hierarchy:
    """Store a hierarchy by name in a database, beside the ledger; what was stored.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    hierarchy : a Hierarchy, the path of a file, a table of the same database
        (``{"table": "ref.tree"}``), or another form that needs no values of a column.
    replace : True to take the place of the one of this name.

    Raises
    ------
    HierarchyExists : there is one of this name, and ``replace`` is False.
    HierarchyBroken : it is no tree.
    """
    given = parse(hierarchy, files=True)
    with open_store(database, on_sql).session(write=True) as session:
        tree = hierarchies.resolve(session, given)
        hierarchies.store(session, name, tree, replace=replace, description=description)
    return tree


def load_hierarchy(database: Any, hierarchy: Given, *, on_sql: OnSql | None = None) -> Hierarchy:
    """Read a hierarchy from a database: stored (``"name:education"``), or ``"table:ref.tree"``.

    Raises
    ------
    HierarchyNotFound, TableNotFound : there is none.
    HierarchyBroken : it is no tree.
    """
    given = parse(hierarchy, files=True)
    with _reading(database, on_sql) as session:
        return hierarchies.resolve(session, given)


def drop_hierarchy(database: Any, name: str, *, on_sql: OnSql | None = None) -> None:
    """Remove a stored hierarchy; releases that used it stay as they are.

    Raises
    ------
    HierarchyNotFound : there is none.
    """
    with open_store(database, on_sql).session(write=True) as session:
        hierarchies.drop(session, name)


def list_hierarchies(database: Any, *, on_sql: OnSql | None = None) -> list[Stored]:
    """What a database has stored, by name."""
    with _reading(database, on_sql) as session:
        return hierarchies.list_hierarchies(session)


def _reading(database: Any, on_sql: OnSql | None) -> AbstractContextManager[Session]:
    return open_store(database, on_sql).session(write=False)
