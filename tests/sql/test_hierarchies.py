"""The SQL functions on hierarchies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from dbanon.doors.releases import list_hierarchies, load_hierarchy, store_hierarchy
from dbanon.errors import HierarchyExists

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, 'town ' || g % 6 AS place, g * 7 % 90 AS age,"
    " date '2020-01-01' + g * 40 AS born FROM generate_series(1, 60) AS g",
    "CREATE TABLE app.tree AS SELECT 'town ' || g AS child, 'side ' || g % 2 AS parent"
    " FROM generate_series(0, 5) AS g UNION ALL SELECT 'side ' || g, '*' FROM generate_series(0, 1)"
    " AS g",
)
CHECK = "SELECT problem, label FROM dbanon.check_hierarchy(%s, %s::regclass, %s) ORDER BY 1, 2"


def _load(run_sql: Run) -> None:
    for statement in PEOPLE:
        run_sql(statement)


def test_all_doors_share_stored_hierarchies(run_sql: Run, sql_url: str) -> None:
    _load(run_sql)
    [(leaves, height, sha256)] = run_sql(
        "SELECT * FROM dbanon.store_hierarchy('towns', '{\"table\": \"app.tree\"}',"
        " description => 'of app')"
    )
    tree = load_hierarchy(sql_url, "name:towns")
    assert (tree.n_leaves, tree.height, tree.sha256) == (leaves, height, sha256)
    [hierarchy] = list_hierarchies(sql_url)
    assert (hierarchy.name, hierarchy.leaves, hierarchy.description) == ("towns", 6, "of app")
    store_hierarchy(sql_url, "from outside", tree)
    pairs = run_sql("SELECT * FROM dbanon.show_hierarchy('from outside')")
    assert pairs == tree.to_pairs()
    listed = run_sql("SELECT name, leaves, nodes, description FROM dbanon.hierarchies()")
    assert listed == [("from outside", 6, 9, None), ("towns", 6, 9, "of app")]
    run_sql(
        "SELECT dbanon.kmember('app.people', 'release.p', '{place}', 5,"
        ' hierarchies => \'{"place": "name:from outside"}\')'
    )
    [(recorded,)] = run_sql("SELECT arguments->'hierarchies'->'place' FROM dbanon.release")
    assert recorded == {
        "leaves": 6,
        "height": 2,
        "sha256": sha256,
        "from": {"name": "from outside"},
    }


def test_storing_is_part_of_the_callers_transaction(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    _load(run_sql)
    connection = connect(autocommit=False)
    connection.execute("SELECT dbanon.store_hierarchy('towns', '\"table:app.tree\"')")
    call = (
        "SELECT (dbanon.gaa_cp('app.people', 'release.p', '{place}', 5,"
        ' hierarchies => \'{"place": {"name": "towns"}}\')).rows_out'
    )
    assert connection.execute(call.encode()).fetchall() == [(60,)]
    connection.rollback()
    assert run_sql("SELECT count(*) FROM dbanon.hierarchy_node") == [(0,)]
    with pytest.raises(psycopg.errors.UndefinedObject):
        run_sql(call)


def test_two_sessions_store_the_same_name(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]], sql_url: str
) -> None:
    _load(run_sql)
    first = connect(autocommit=False)
    refused: list[BaseException] = []

    def second(store: Callable[[], object]) -> None:
        try:
            store()
        except (psycopg.Error, HierarchyExists) as error:
            refused.append(error)

    store = "SELECT dbanon.store_hierarchy('towns', '\"table:app.tree\"')"
    for name, other in (
        ("sql", lambda: run_sql(store)),
        ("client", lambda: store_hierarchy(sql_url, "towns", {"table": "app.tree"})),
    ):
        first.execute(store)
        thread = threading.Thread(target=second, args=(other,))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        deadline = time.monotonic() + 60
        while run_sql(waiting) == [(0,)]:
            assert time.monotonic() < deadline, name
            time.sleep(0.02)
        first.commit()
        thread.join()
        assert len(refused) == 1, name
        assert getattr(refused.pop(), "sqlstate", None) == "42710"
        run_sql("SELECT dbanon.drop_hierarchy('towns')")


def test_all_problems_are_listed(run_sql: Run) -> None:
    _load(run_sql)
    hierarchy = json.dumps({"table": "app.tree"})
    assert run_sql(CHECK, hierarchy, None, None) == []
    assert run_sql(CHECK, hierarchy, "app.people", "place") == []
    run_sql("DELETE FROM app.tree WHERE child IN ('town 1', 'town 4')")
    assert run_sql(CHECK, hierarchy, "app.people", "place") == [
        ("missing value", "town 1"),
        ("missing value", "town 4"),
    ]
    run_sql("INSERT INTO app.tree VALUES ('town 2', 'x'), ('a', 'b'), ('b', 'a'), (NULL, 'x')")
    assert [problem for problem, _ in run_sql(CHECK, hierarchy, None, None)] == [
        "cycle",
        "empty label",
        "second parent",
        "second root",
    ]
    for wrong, state in (
        (("{}", None, None), "22023"),
        ((None, None, None), "22004"),
        ((hierarchy, "app.people", None), "22004"),
        ((hierarchy, "app.people", "nowhere"), "ZK004"),
        (('"name:x"', None, None), "42704"),
    ):
        if state == "ZK004":
            # The hierarchy is broken: its problems come first.
            assert len(run_sql(CHECK, *wrong)) == 4
            continue
        with pytest.raises(psycopg.Error) as failure:
            run_sql(CHECK, *wrong)
        assert failure.value.sqlstate == state


@pytest.mark.parametrize("column", ["place", "age", "born"])
def test_a_proposal_can_be_stored_and_used(run_sql: Run, column: str) -> None:
    _load(run_sql)
    run_sql(
        "SELECT dbanon.store_hierarchy('proposed', dbanon.suggest_hierarchy('app.people', %s))",
        column,
    )
    assert run_sql(CHECK, '"name:proposed"', "app.people", column) == []
    call = (
        "SELECT (dbanon.gaa_cp('app.people', 'release.p', ARRAY[%s], 5,"
        " hierarchies => %s)).k_achieved"
    )
    [(k,)] = run_sql(call, column, json.dumps({column: {"name": "proposed"}}))
    assert k >= 5


def test_wrong_arguments(run_sql: Run) -> None:
    _load(run_sql)
    for call, state in (
        ("dbanon.store_hierarchy(NULL, '{}')", "22004"),
        ("dbanon.store_hierarchy('x', NULL)", "22004"),
        ("dbanon.store_hierarchy('', '\"table:app.tree\"')", "42602"),
        ("dbanon.store_hierarchy('x', '{\"mask\": true}')", "22023"),
        ("dbanon.store_hierarchy('x', '[]')", "22023"),
        ("dbanon.store_hierarchy('x', '{\"table\": \"app.people\"}')", "22023"),
        ('dbanon.store_hierarchy(\'x\', \'{"levels": [["a", "b"], ["a", "c"]]}\')', "ZK004"),
        ("dbanon.drop_hierarchy('x')", "42704"),
        ("dbanon.show_hierarchy('x')", "42704"),
        ("dbanon.suggest_hierarchy('app.people', 'nowhere')", "42703"),
        ("dbanon.suggest_hierarchy(NULL, 'place')", "22004"),
    ):
        with pytest.raises(psycopg.Error) as failure:
            run_sql(f"SELECT {call}")
        assert failure.value.sqlstate == state, call
    assert run_sql("SELECT * FROM dbanon.hierarchies()") == []
