"""Hierarchies in databases: read from tables, stored by name, used by releases."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon import errors
from dbanon.doors.install import install
from dbanon.doors.releases import (
    drop_hierarchy,
    load_hierarchy,
    store_hierarchy,
)
from dbanon.hierarchy.edges import HierarchyProblem
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.refusal import refuse
from tests.stores.trees import (
    LEVELS,
    OPTIONS,
    PAIRS,
    check_release,
    load,
    load_pairs,
    recounted,
    shaped,
    table,
)

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def test_the_ledger_says_which_tree(database: Database) -> None:
    load(database)
    load_pairs(database)
    tree = store_hierarchy(database.url, "places", table())
    for output, hierarchy in (("release.a", "name:places"), ("release.b", table())):
        database.anonymize(**OPTIONS, output=output, hierarchies={"place": hierarchy})
    database.anonymize(
        **OPTIONS,
        output="release.c",
        local_range=True,
        hierarchies={"age": {"intervals": [10, 20]}, "place": {"ordered": True, "fanout": 3}},
    )
    recorded = [
        (json.loads(text) if isinstance(text, str) else text)["hierarchies"]
        for (text,) in database.rows(
            f"SELECT arguments FROM {database.ledger()} ORDER BY created_at"
        )
    ]
    same = {"leaves": 6, "height": 3, "sha256": tree.sha256}
    assert recorded[0] == {"place": {**same, "from": {"name": "places"}}}
    assert recorded[1] == {"place": {**same, "from": {"table": "ref.tree"}}}
    assert recorded[2]["age"]["from"] == {"intervals": [10, 20]}
    assert recorded[2]["place"] == {
        "leaves": 6,
        "height": 2,
        "from": {"ordered": True, "fanout": 3},
    }


def test_every_way_to_name_a_tree_gives_the_same_release(database: Database) -> None:
    load(database)
    load_pairs(database)
    text = database.types["text"]
    levels = dict.fromkeys(("leaf", "level1", "level2", "level3"), text)
    database.load("ref.levels", levels, LEVELS)
    # A short way may also leave its levels out.
    short = [(a, None if b == c else b, c, d) for a, b, c, d in LEVELS]
    database.load("ref.short", levels, short)
    database.execute(
        f"CREATE VIEW {database.relation('ref.shown')} AS"
        f" SELECT parent, child, 1 AS extra FROM {database.relation('ref.tree')}"
    )
    read = load_hierarchy(database.url, "table:ref.tree")
    assert set(read.to_pairs()) == set(PAIRS)
    store_hierarchy(database.url, "places", {"table": "ref.tree"})
    ways: list[Any] = [
        read,
        table(),
        "table:ref.tree",
        table("ref.levels"),
        table("ref.short"),
        table("ref.shown"),
        {"name": "places"},
        "name:places",
        {"tree": [list(p) for p in PAIRS]},
        {"levels": [list(row) for row in sorted(LEVELS)]},
    ]
    releases = []
    for number, hierarchy in enumerate(ways):
        report = database.anonymize(
            **OPTIONS, output=f"release.r{number}", hierarchies={"place": hierarchy}, keep=["id"]
        )
        relation = database.relation(f"release.r{number}")
        releases.append(database.rows(f"SELECT * FROM {relation} ORDER BY id"))
        assert report.k_achieved >= 4
        check_release(database, f"release.r{number}", PAIRS, 4)
    # The order of siblings differs if a tree is given in its written order.
    for rows in releases[1:8]:
        assert rows == releases[0]


@pytest.mark.parametrize("hierarchy", [{"ordered": True}, {"grouped": [2, 4]}])
def test_labels_that_name_values_must_be_wanted(database: Database, hierarchy: Any) -> None:
    load(database)
    with pytest.raises(errors.InvalidParameter, match=r"place.*own order name values"):
        database.anonymize(**OPTIONS, output="release.a", hierarchies={"place": hierarchy})
    report = database.anonymize(
        **OPTIONS, output="release.a", hierarchies={"place": hierarchy}, local_range=True
    )
    assert report.arguments["local_range"] is True


BROKEN: dict[str, tuple[list[tuple[Any, ...]], dict[str, int]]] = {
    "two parents": ([*PAIRS, ("Rome", "Norway"), ("Bari", "*")], {"second parent": 2}),
    "a cycle": (
        [*PAIRS, ("x", "y"), ("y", "x")],
        {"cycle": 1},
    ),
    "no root": ([("a", "b"), ("b", "a")], {"cycle": 1, "missing root": 1}),
    "two roots": ([*PAIRS, ("Paris", "France"), ("Lyon", "France")], {"second root": 1}),
    "no labels": ([*PAIRS, (None, "Italy"), (None, None)], {"empty label": 2}),
    "all at once": (
        [*PAIRS, ("Rome", "Norway"), ("x", "y"), ("y", "x"), ("Lyon", "France"), (None, "*")],
        {"second parent": 1, "cycle": 1, "second root": 1, "empty label": 1},
    ),
    "nothing": ([], {"missing root": 1}),
}


@pytest.mark.parametrize("which", BROKEN)
def test_all_that_is_wrong_with_a_table(database: Database, which: str) -> None:
    rows, expected = BROKEN[which]
    load(database)
    load_pairs(database, rows)
    error = refuse(
        database, errors.HierarchyBroken, "ref", **OPTIONS, hierarchies={"place": table()}
    )
    assert error.sqlstate == "ZK004"
    kinds = Counter(p.kind for p in error.problems if isinstance(p, HierarchyProblem))  # type: ignore[attr-defined]
    assert kinds == expected
    assert not any(label in str(error) for label in ("Rome", "Norway", "France"))


def test_values_that_are_no_leaf(database: Database) -> None:
    load(database)
    load_pairs(database, [pair for pair in PAIRS if pair[0] not in ("Oslo", "Bari")])
    error = refuse(database, errors.HierarchyBroken, **OPTIONS, hierarchies={"place": table()})
    labels = {p.label for p in error.problems if isinstance(p, HierarchyProblem)}  # type: ignore[attr-defined]
    assert labels == {"Oslo", "Bari"}


def test_tables_of_another_form(database: Database) -> None:
    load(database)
    refuse(database, errors.TableNotFound, **OPTIONS, hierarchies={"place": table("nowhere")})
    refuse(
        database,
        errors.InvalidParameter,
        "no columns with names from which a hierarchy",
        **OPTIONS,
        hierarchies={"place": table("people")},
    )
    text = database.types["text"]
    database.load("late", {"child": text, "parent": database.types["timestamp"]}, [])
    refuse(
        database,
        errors.UnsupportedType,
        "labels are text",
        **OPTIONS,
        hierarchies={"place": table("late")},
    )
    database.load("odd", {"child": text, "parent": text, "position": text}, [])
    refuse(
        database,
        errors.UnsupportedType,
        '"position"',
        **OPTIONS,
        hierarchies={"place": table("odd")},
    )
    refuse(
        database,
        errors.InvalidParameter,
        "does not name a quasi-identifier",
        **OPTIONS,
        hierarchies={"ill": table()},
    )


def test_the_order_of_leaves_is_the_tables_own(database: Database) -> None:
    columns = {"child": "text", "parent": "text", "position": "integer"}
    rows = [("low", "*", 1), ("high", "*", 12), ("mid", "*", 2), ("*", None, None)]
    database.load("ref.grades", {n: database.types[t] for n, t in columns.items()}, rows)
    tree = load_hierarchy(database.url, "table:ref.grades")
    assert [tree.labels[leaf] for leaf in tree.leaves] == ["low", "mid", "high"]


def test_numbers_and_dates_are_labels_too(database: Database) -> None:
    types = database.types
    database.load(
        "ref.codes",
        {"child": types["integer"], "parent": types["integer"]},
        [(11, 1), (12, 1), (21, 2), (1, 0), (2, 0), (0, None)],
    )
    tree = load_hierarchy(database.url, "table:ref.codes")
    assert tree.path("21") == ("21", "2", "0")
    columns = {"leaf": types["date"], "level1": types["decimal"], "level2": types["text"]}
    database.load("ref.days", columns, [("2024-05-17", 1.5, "*"), ("2024-05-18", 2, "*")])
    tree = load_hierarchy(database.url, "table:ref.days")
    assert tree.path("2024-05-17") == ("2024-05-17", "1.50", "*")


def test_a_value_may_be_a_label_above_others(database: Database) -> None:
    text = database.types["text"]
    rows = [("E11", "E1"), ("E11", "E11"), ("E11.9", "E11"), ("E10", "E1"), ("E1", None)]
    database.load("ref.icd", {"child": text, "parent": text}, rows)
    levels = {"leaf": text, "level1": text, "level2": text}
    ways = [("E11", "E11", "E1"), ("E11.9", "E11", "E1"), ("E10", None, "E1")]
    database.load("ref.icd_levels", levels, ways)
    codes = ["E11"] * 5 + ["E11.9"] * 5 + ["E10"] * 2
    database.load("patients", {"icd": text}, [(code,) for code in codes])
    tree = load_hierarchy(database.url, "table:ref.icd")
    assert load_hierarchy(database.url, "table:ref.icd_levels") == tree
    assert sorted(tree.positions) == ["E10", "E11", "E11.9"]
    store_hierarchy(database.url, "icd", {"table": "ref.icd"})
    for number, hierarchy in enumerate((table("ref.icd"), table("ref.icd_levels"), "name:icd")):
        output = f"release.r{number}"
        job: Any = {"quasi_identifiers": ["icd"], "hierarchies": {"icd": hierarchy}, "k": 5}
        # Two rows are too few to form a class.
        planned = dbanon.plan(database.url, table="patients", method="gaa_cp", output=output, **job)
        assert planned.rows == 12
        database.anonymize(table="patients", method="gaa_cp", output=output, **job)
        assert recounted(database, output, ["icd"]) == [5, 7]


def test_a_plan_refuses_what_the_run_refuses(database: Database) -> None:
    load(database)
    few = {"tree": {"*": ["Oslo", "Rome"]}}
    for hierarchies in (
        {"place": few},
        {"place": {"intervals": [5]}},
        {"age": {"dates": ["year"]}},
    ):
        for call in (dbanon.plan, dbanon.anonymize):
            with pytest.raises((errors.HierarchyBroken, errors.InvalidParameter)) as caught:
                call(
                    database.url,
                    table="people",
                    output="release.a",
                    hierarchies=hierarchies,
                    **OPTIONS,
                )
            assert "Oslo" not in str(caught.value)


def test_the_distance_of_a_model(database: Database) -> None:
    load(database)
    text = database.types["text"]
    database.load(
        "ref.ills",
        {"child": text, "parent": text},
        [("a", "x"), ("b", "x"), ("c", "*"), ("x", "*")],
    )
    store_hierarchy(database.url, "ills", table("ref.ills"))
    levels = []
    for distance in (table("ref.ills"), "name:ills", load_hierarchy(database.url, "name:ills")):
        report = database.anonymize(
            **OPTIONS,
            sensitive=["ill"],
            if_exists="replace",
            models=[dbanon.Model("t_closeness", "ill", 0.25, distance=distance)],
        )
        levels.append(report.models[0].achieved)
        assert report.models[0].model.endswith("hierarchical")
    assert levels[0] == levels[1] == levels[2] <= 0.25 + 1e-9
    flat = database.anonymize(
        **OPTIONS,
        sensitive=["ill"],
        if_exists="replace",
        models=[dbanon.Model("t_closeness", "ill", 0.25, distance={"ordered": True})],
    )
    assert flat.models[0].achieved <= 0.25 + 1e-9
    assert flat.arguments["hierarchies"]["ill"]["from"] == {"ordered": True}


@pytest.mark.parametrize("shape", ["one leaf", "12 levels", "unbalanced", "10,000 leaves"])
def test_shapes(database: Database, shape: str) -> None:
    """Read from a table, stored, read by name, released, and recounted by independent code."""
    pairs, leaves = shaped(shape)
    rng = random.Random(9)
    n = 3_000 if shape == "10,000 leaves" else 300
    rows = [(i, rng.randrange(20, 70), rng.choice(leaves)) for i in range(n)]
    text, integer = database.types["text"], database.types["integer"]
    columns = {"id": integer + " PRIMARY KEY", "age": integer, "place": text}
    database.load("people", columns, rows)
    load_pairs(database, pairs)
    read = load_hierarchy(database.url, "table:ref.tree")
    assert set(read.to_pairs()) == set(pairs)
    assert read.n_leaves == len(leaves)
    store_hierarchy(database.url, "shape", table())
    assert load_hierarchy(database.url, "name:shape") == read
    methods = ("kmember", "mondrian") if n < 1000 else ("mondrian",)
    for method in methods:
        report = database.anonymize(
            **(OPTIONS | {"method": method}),
            hierarchies={"place": "name:shape"},
            if_exists="replace",
        )
        assert recounted(database, "release.people", ["age", "place"])[0] == report.k_achieved >= 4
        check_release(database, "release.people", pairs, 4)


@pytest.mark.postgresql
def test_the_order_of_an_enum(postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase) -> None:
    """Both databases know the order of an enumerated type, so its hierarchy needs no option."""
    grades = ["none", "low", 'it\'s "mid"', "high", "severe"]
    listed = ", ".join("'" + grade.replace("'", "''") + "'" for grade in grades)
    for database in (postgresql, duckdb_file):
        database.execute(f"CREATE TYPE grade AS ENUM ({listed})")
        database.load(
            "people",
            {"id": "integer PRIMARY KEY", "grade": "grade", "ill": "grade"},
            [(i, grades[i * 7 % 5], grades[i % 3]) for i in range(40)],
        )
        report = database.anonymize(
            quasi_identifiers=["grade"],
            sensitive=["ill"],
            method="kmember",
            k=9,
            hierarchies={"grade": {"enum": True}},
            models=[dbanon.Model("t_closeness", "ill", 0.9, distance={"enum": True, "fanout": 5})],
        )
        assert report.arguments["hierarchies"]["grade"]["height"] == 3
        relation = database.relation("release.people")
        labels = {grade for (grade,) in database.rows(f"SELECT DISTINCT grade FROM {relation}")}
        pairs = {f"{a} to {b}" for a, b in (grades[:2], grades[2:4], (grades[0], grades[3]))}
        assert labels <= {*grades, *pairs, "*"}
        assert len(labels) > 1
        refuse(
            database,
            errors.InvalidParameter,
            "enumerates no values",
            quasi_identifiers=["id"],
            method="kmember",
            output="release.x",
            hierarchies={"id": {"enum": True}},
        )


@pytest.mark.postgresql
def test_a_domain_over_an_enum(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute("CREATE TYPE grade AS ENUM ('b', 'a', 'c')", "CREATE DOMAIN marked AS grade")
    postgresql.load(
        "people",
        {"id": "integer PRIMARY KEY", "grade": "marked"},
        [(i, "abc"[i % 3]) for i in range(30)],
    )
    report = postgresql.anonymize(
        quasi_identifiers=["grade"], method="kmember", k=12, hierarchies={"grade": {"enum": True}}
    )
    assert report.arguments["hierarchies"]["grade"] == {
        "leaves": 3,
        "height": 2,
        "from": {"enum": True},
    }


def test_builders_on_timestamps(database: Database) -> None:
    columns = {
        "id": database.types["integer"] + " PRIMARY KEY",
        "seen": database.types["timestamp"],
    }
    database.load(
        "people",
        columns,
        [(i, f"2024-{1 + i % 12:02}-{1 + i % 28:02} 10:00:00") for i in range(60)],
    )
    database.anonymize(
        quasi_identifiers=["seen"],
        method="gaa_cp",
        hierarchies={"seen": {"dates": ["month", "year"]}},
    )
    relation = database.relation("release.people")
    months = {seen for (seen,) in database.rows(f"SELECT DISTINCT seen FROM {relation}")}
    assert months <= {*(f"2024-{month:02}" for month in range(1, 13)), "2024"}


@pytest.mark.postgresql
def test_rights_to_a_tree_are_the_callers(pg_url: str, pg_role: Any) -> None:
    database = PostgresqlDatabase(pg_url)
    load(database)
    load_pairs(database)
    database.execute(
        "CREATE SCHEMA release",
        f"CREATE VIEW ref.shown AS SELECT * FROM {database.relation('ref.tree')}",
    )
    store_hierarchy(pg_url, "places", table())
    database.anonymize(**OPTIONS)
    install(pg_url, sql_only=True)
    url = pg_role("anna")
    database.execute(
        "GRANT SELECT ON people TO anna",
        "GRANT USAGE, CREATE ON SCHEMA release TO anna",
        "REVOKE SELECT ON dbanon.hierarchy, dbanon.hierarchy_node FROM dbanon_runner",
        "GRANT dbanon_runner TO anna",
    )
    as_role = PostgresqlDatabase(url)
    options = {**OPTIONS, "output": "release.anna", "if_exists": "replace"}
    for hierarchy in (table(), table("ref.shown"), {"name": "places"}):
        with pytest.raises(errors.InsufficientRights):
            as_role.anonymize(**options, hierarchies={"place": hierarchy})
    database.execute("GRANT USAGE ON SCHEMA ref TO anna", "GRANT SELECT ON ref.shown TO anna")
    as_role.anonymize(**options, hierarchies={"place": table("ref.shown")})
    with pytest.raises(errors.InsufficientRights, match='"child", "parent"'):
        as_role.anonymize(**options, hierarchies={"place": table()})
    database.execute("GRANT SELECT ON dbanon.hierarchy, dbanon.hierarchy_node TO anna")
    as_role.anonymize(**options, hierarchies={"place": {"name": "places"}})
    for attempt in (
        lambda: store_hierarchy(url, "mine", table("ref.shown")),
        lambda: drop_hierarchy(url, "places"),
        lambda: store_hierarchy(url, "places", table("ref.shown"), replace=True),
    ):
        with pytest.raises(errors.InsufficientRights):
            attempt()
    database.execute(
        "ALTER TABLE ref.tree ENABLE ROW LEVEL SECURITY", "GRANT SELECT ON ref.tree TO anna"
    )
    with pytest.raises(errors.InsufficientRights, match="Row-level security"):
        as_role.anonymize(**options, hierarchies={"place": table()})


def test_a_file_keeps_no_hierarchies(tmp_path: Path) -> None:
    """Its rows are in a database for one run only, so the hierarchy would be lost."""
    file = tmp_path / "people.csv"
    file.write_text("place\nOslo\n")
    with pytest.raises(errors.InvalidParameter, match="a file is not a database"):
        store_hierarchy(f"file:{file}", "places", {"levels": [["Oslo", "*"]]})


def test_written_to_another_database(database: Database, duckdb_file: DuckdbDatabase) -> None:
    """Hierarchies are those of the database that is read; the ledger that is written names them."""
    load(database)
    load_pairs(database)
    tree = store_hierarchy(database.url, "places", table())
    store_hierarchy(duckdb_file.url, "places", {"levels": [["Oslo", "*"]]})
    for hierarchy in (table(), "name:places"):
        report = database.anonymize(
            **OPTIONS, hierarchies={"place": hierarchy}, target=duckdb_file.url, if_exists="replace"
        )
        assert report.arguments["hierarchies"]["place"]["sha256"] == tree.sha256
        sizes = recounted(duckdb_file, "release.people", ["age", "place"])
        assert (min(sizes), sum(sizes)) == (report.k_achieved, 80)
    with pytest.raises(errors.TableNotFound):
        database.anonymize(
            **OPTIONS,
            output="release.x",
            hierarchies={"place": table("ref.other")},
            target=duckdb_file.url,
        )
