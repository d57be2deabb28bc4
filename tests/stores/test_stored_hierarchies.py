"""Hierarchies that are stored by name: read again, replaced, dropped, and broken."""

from __future__ import annotations

import pytest

from dbanon import errors
from dbanon.doors.releases import (
    drop_hierarchy,
    list_hierarchies,
    load_hierarchy,
    store_hierarchy,
)
from dbanon.hierarchy.tree import Hierarchy
from tests.stores.databases import Database
from tests.stores.refusal import refuse
from tests.stores.trees import LEVELS, OPTIONS, load

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

NAMES = ['x"; DROP TABLE people; --', "it's", "Ünï ☃", "a?b", "50%", "$1", "n" * 300]


def test_stored_and_read_again(database: Database) -> None:
    load(database)
    name = "education"
    tree = Hierarchy.from_parents(
        [("", "n"), ("it's", "n"), ('a"b', "n"), ("é\n\t☃", "n"), ("n", None)]
    )
    assert store_hierarchy(database.url, name, tree, description="50% of 'all'") == tree
    assert load_hierarchy(database.url, {"name": name}) == tree
    [stored] = list_hierarchies(database.url)
    assert (stored.name, stored.leaves, stored.nodes) == (name, 4, 5)
    assert stored.description == "50% of 'all'"
    with pytest.raises(errors.HierarchyExists):
        store_hierarchy(database.url, name, tree)
    other = Hierarchy.from_levels(LEVELS)
    store_hierarchy(database.url, name, other, replace=True)
    assert load_hierarchy(database.url, {"name": name}) == other
    store_hierarchy(database.url, "second", tree)
    database.anonymize(**OPTIONS, hierarchies={"place": {"name": name}})
    drop_hierarchy(database.url, name)
    assert [listed.name for listed in list_hierarchies(database.url)] == ["second"]
    for missing in (name, "secnd"):
        with pytest.raises(errors.HierarchyNotFound):
            load_hierarchy(database.url, {"name": missing})
        with pytest.raises(errors.HierarchyNotFound):
            drop_hierarchy(database.url, missing)
    assert load_hierarchy(database.url, "name:second") == tree


@pytest.mark.parametrize("name", NAMES)
def test_any_name(database: Database, name: str) -> None:
    load(database)
    store_hierarchy(database.url, name, Hierarchy.from_levels(LEVELS))
    database.anonymize(**OPTIONS, hierarchies={"place": {"name": name}})
    assert [stored.name for stored in list_hierarchies(database.url)] == [name]
    drop_hierarchy(database.url, name)
    assert list_hierarchies(database.url) == []


def test_invalid_names_are_refused(database: Database) -> None:
    load(database)
    assert list_hierarchies(database.url) == []
    before = database.state()
    tree = Hierarchy.from_levels(LEVELS)
    with pytest.raises(errors.HierarchyNotFound):
        load_hierarchy(database.url, "name:places")
    refuse(database, errors.HierarchyNotFound, **OPTIONS, hierarchies={"place": {"name": "places"}})
    for name in ("", "a\0b"):
        with pytest.raises(errors.InvalidName):
            store_hierarchy(database.url, name, tree)
    for hierarchy in ({"intervals": [5]}, {"enum": True}):
        with pytest.raises(errors.InvalidParameter, match="built from the values of a column"):
            store_hierarchy(database.url, "x", hierarchy)
    with pytest.raises(errors.HierarchyBroken):
        store_hierarchy(database.url, "x", {"levels": [["a", "b"], ["a", "c"]]})
    assert database.state() == before


def test_a_damaged_stored_tree_is_refused(database: Database) -> None:
    load(database)
    store_hierarchy(database.url, "places", Hierarchy.from_levels(LEVELS))
    database.execute(f"UPDATE {database.ledger('hierarchy_node')} SET parent = NULL WHERE node = 2")
    with pytest.raises(errors.HierarchyBroken, match='stored hierarchy "places"'):
        load_hierarchy(database.url, "name:places")
