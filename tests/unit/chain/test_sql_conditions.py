"""Decisions of SQL about classes of a chain, at the exact numbers where they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbanon.data.schema import Attribute, Kind
from dbanon.extensions.chains import recount
from dbanon.extensions.chains.membership import ChainState
from dbanon.job.chain import ChainRules
from dbanon.measures import Model
from dbanon.run.open import open_store
from dbanon.sessions.chain_staging import CELL_COUNTS, NEXT_CELL_STATES
from dbanon.sessions.session import Session

K = 3
NO_CELLS = "SELECT 0 AS cell WHERE 1 = 0"


@pytest.fixture(params=["duckdb", "sqlite"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = open_store(f"{request.param}:///{tmp_path}/chain.db")
    with store.session(write=True, create=True) as session:
        yield session


def decide(
    session: Session, counts: list[tuple[int, int]], cells: str = NO_CELLS, **rules: Any
) -> list[str]:
    """The state of each class, from its persons and how many of them are still in the source."""
    rows = [(cell, members, present, 1) for cell, (members, present) in enumerate(counts)]
    values = ", ".join(map(str, rows))
    session.run(
        f"CREATE TEMPORARY TABLE {CELL_COUNTS} AS"
        f" WITH c (cell, members, present, is_unchanged) AS (VALUES {values}) SELECT * FROM c"
    )
    chain: Any = SimpleNamespace(rules=ChainRules.from_plain(rules))
    fetched_persons: Any = object()
    ChainState(
        session, chain, release_number=2, k=K, fetched_persons=fetched_persons
    ).decide_cell_states(cells, groups_may_leave=True)
    return [
        state for (state,) in session.rows(f"SELECT state FROM {NEXT_CELL_STATES} ORDER BY cell")
    ]


def test_a_class_goes_on_while_k_left_and_k_stay(session: Session) -> None:
    """With exactly k on both sides no group is too small; with one less on either side, held."""
    counts = [(members, present) for members in range(3, 9) for present in range(members + 1)]
    states = decide(session, counts, changes="show")
    for (members, present), state in zip(counts, states, strict=True):
        left = members - present
        expected = "held"
        if left == 0:
            expected = "live"
        elif present == 0:
            expected = "gone"
        elif left >= K and present >= K:
            expected = "live"
        assert state == expected, f"{left} left, {present} stay"
    by_counts = dict(zip(counts, states, strict=True))
    assert by_counts[6, 3] == "live"
    assert by_counts[6, 2] == by_counts[6, 4] == by_counts[5, 2] == by_counts[5, 3] == "held"


def test_some_classes_no_k_persons_may_leave(session: Session) -> None:
    states = decide(session, [(6, 3), (6, 3)], "SELECT 1 AS cell", changes="show")
    assert states == ["live", "held"]


def test_a_class_is_withdrawn_above_its_share_and_not_at_it(session: Session) -> None:
    states = decide(
        session, [(8, 5), (8, 6), (8, 7), (8, 8)], changes="freeze", withdraw_above=0.25
    )
    assert states == ["withdrawn", "held", "held", "live"]


def failing(session: Session, model: Model, classes: list[list[int]]) -> int:
    """How many classes fail a model; ``classes`` as rows for each value."""
    rows = [
        (cell, f"value {value}")
        for cell, counts in enumerate(classes)
        for value, count in enumerate(counts)
        for _ in range(count)
    ]
    values = ", ".join(map(str, rows))
    session.run(
        f"CREATE TEMPORARY TABLE shown AS WITH s (cell, k0) AS (VALUES {values}) SELECT * FROM s"
    )
    state: Any = SimpleNamespace(session=session, row_table="shown")
    n_failing = recount.count_failing_cells(state, [Attribute("ill", Kind.CATEGORY)], [model])
    session.run("DROP TABLE shown")
    return n_failing


@pytest.mark.parametrize(("level", "expected"), [(3.0, 2), (3.0000001, 0), (2.9999999, 2)])
def test_recursive_diversity_fails_at_equality(
    session: Session, level: float, expected: int
) -> None:
    """For 3 and 1, 6 and 2, and 4 and 2: only the last has r_1 < 3 r_2."""
    model = Model("recursive_cl", "ill", level, l=2)
    assert failing(session, model, [[3, 1], [6, 2], [4, 2]]) == expected


@pytest.mark.parametrize(
    ("kind", "level", "classes"),
    [
        ("distinct_l", 2, [[1, 1], [2, 2], [2, 0]]),
        ("alpha_k", 0.5, [[1, 1], [2, 2], [3, 1]]),
        ("entropy_l", 2, [[1, 1], [2, 2], [3, 1]]),
        ("recursive_cl", 2, [[1, 1], [2, 2], [4, 1]]),
    ],
)
def test_a_level_that_is_reached_holds_and_one_failing_class_counts(
    session: Session, kind: str, level: float, classes: list[list[int]]
) -> None:
    assert failing(session, Model(kind, "ill", level), classes[:2]) == 0
    assert failing(session, Model(kind, "ill", level), classes) == 1
