"""Budgets of tables that were renamed, as far as they can be recognized."""

from __future__ import annotations

import pytest

import dbanon
from dbanon.errors import BudgetExhausted, BudgetExists
from tests.prerequisites import import_or_skip
from tests.stores.databases import Database
from tests.stores.test_private import release, with_budget

pytestmark = pytest.mark.in_turn(of="file")

import_or_skip("opendp")


def test_a_table_that_is_renamed_has_what_it_spent(database: Database) -> None:
    with_budget(database)
    url = database.url
    release(database)
    database.execute("ALTER TABLE magic RENAME TO magic_2027")
    with pytest.raises(BudgetExists, match="magic, which no longer exists") as caught:
        dbanon.create_budget(url, "fresh", source="magic_2027", epsilon=3)
    assert "one that raises magic, with a total of 3 or more" in str(caught.value.hint)
    with pytest.raises(BudgetExhausted, match="Choose a total of at least 3"):
        dbanon.create_budget(url, "fresh", source="magic_2027", epsilon=2, raises="magic")
    # Of persons it is another account, and less would be promised than is said.
    with pytest.raises(BudgetExists, match="under another name"):
        dbanon.create_budget(
            url, "fresh", source="magic_2027", epsilon=3, unit="person", entity="p"
        )
    moved = dbanon.create_budget(url, "moved", source="magic_2027", epsilon=3, raises="magic")
    assert (moved.spent, moved.left) == (1.0, 2.0)
    release(database, table="magic_2027", budget="moved", output="release.more")
    assert dbanon.show_budget(url, "moved").left == 1.0
    # Other columns are another table.
    other = database.types["integer"]
    database.load("orders", {"a": other, "b": other}, [(1, 2)])
    database.execute("DROP TABLE magic_2027")
    assert dbanon.create_budget(url, "orders", source="orders", epsilon=1).spent == 0.0
