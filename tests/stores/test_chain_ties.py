"""Tags decide between equal quasi-identifiers; the order and place of rows have no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbanon.extensions.chains import step as chain_step
from dbanon.extensions.chains.membership import ChainState
from tests.stores.chain_cases import Chained, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

# Four combinations of ten persons each: classes of three to five, by ties alone.
PERSONS: dict[Any, Any] = {i: (20 + i % 2, 1000 + i // 2 % 2, "a", "flu", i / 4) for i in range(40)}
PERSONS |= dict.fromkeys(range(40, 44), (None, 1000, "a", "flu", 1))


class Looked(Exception):
    """Record the classes without changing anything."""


def classes(chained: Chained, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    """The classes that the next release would have, as sets of tags; it is not made."""
    member_sets: list[frozenset[bytes]] = []

    def look(state: ChainState, *args: Any) -> None:
        together: dict[int, set[bytes]] = {}
        for tag, cell in state.session.rows(
            f"SELECT tag, cell FROM {state.ledger_table('chain_member')}"
        ):
            together.setdefault(cell, set()).add(bytes(tag))
        member_sets.extend(map(frozenset, together.values()))
        raise Looked

    monkeypatch.setattr(chain_step.cell_rows, "update_displayed_rows", look)
    with pytest.raises(Looked):
        chained.release(**more)
    assert member_sets
    return set(member_sets)


@pytest.mark.parametrize(
    "more", [{}, {"nulls": "category", "by": ["site"]}, {"method": "mondrian"}], ids=str
)
def test_a_row_that_moves_changes_no_class(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Any
) -> None:
    load(database, PERSONS)
    chained = Chained.create(database, tmp_path)
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "income"],
        "nulls": "suppress",
        "max_suppression": 0.5,
    } | more
    before = classes(chained, monkeypatch, **options)
    # Where an UPDATE puts a row is the database's choice; where these are put is not.
    database.execute("UPDATE people SET ill = 'gout' WHERE id % 7 = 3")
    assert classes(chained, monkeypatch, **options) == before
    for moved in (2, 3, 17, 41):
        database.execute(
            f"CREATE TABLE moved AS SELECT * FROM people WHERE id = {moved}",
            f"DELETE FROM people WHERE id = {moved}",
            "UPDATE moved SET ill = 'gout'",
            "INSERT INTO people SELECT * FROM moved",
            "DROP TABLE moved",
        )
    assert classes(chained, monkeypatch, **options) == before


def test_in_the_order_of_rows_one_that_moves_changes_classes(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of the test above if records were used in storage order."""
    monkeypatch.setattr(
        ChainState,
        "order_by_tag",
        lambda s, r, microdata: (np.arange(len(microdata.keys)), np.zeros(len(microdata.keys))),
    )
    load(database, PERSONS)
    chained = Chained.create(database, tmp_path)
    before = classes(chained, monkeypatch, nulls="suppress", max_suppression=0.5)
    database.execute(
        "CREATE TABLE moved AS SELECT * FROM people WHERE id < 8",
        "DELETE FROM people WHERE id < 8",
        "INSERT INTO people SELECT * FROM moved",
    )
    assert classes(chained, monkeypatch, nulls="suppress", max_suppression=0.5) != before
