"""The same table through SQL and the client: same classes and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.data.partition import AttributePartition
from dbanon.doors.releases import load_hierarchy
from dbanon.methods import METHODS
from tests.conftest import CAMPAIGN
from tests.stores.trees import shaped

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

EDGE_CASES = """
CREATE TABLE app.edges AS
SELECT (g * 7919 % 1000)::smallint AS small, (9007199254740992 + g * 104729 % 5000)::bigint AS wide,
       (g * 31 % 97)::numeric / 7 AS bare, (g * 17 % 1013 / 100.0)::numeric(10,2) AS money,
       (g * 13 % 89 * 1e-300)::float8 AS tiny, (g % 53 / 3.0)::real AS single,
       date '2000-02-28' + (g * 11 % 400)::integer AS born,
       timestamptz '1999-12-31 23:59:59.999999+00' + g * 37 % 1000 * interval '1 hour 0.000001 s'
           AS seen,
       timestamp(0) '1969-12-31 00:00:00' + g * 41 % 1000 * interval '59 min' AS clock,
       'text ' || g AS label, g AS id
FROM generate_series(1, 300) AS g"""
OF_THE_CLIENT = (
    "seed",
    "refine",
    "refine_iterations",
    "recoding",
    "intervals",
    "local_range",
    "steps",
    "withhold_failing",
)
EDGE_COLUMNS = ["small", "wide", "bare", "money", "tiny", "single", "born", "seen", "clock"]


def _by_both(run_sql: Run, url: str, table: str, columns: list[str], **changes: Any) -> None:
    """Release the table both ways and compare all rows."""
    changes = {
        "k": 4,
        "method": "mdav",
        "nulls": "error",
        "keep": [],
        "sensitive": [],
        "hierarchies": {},
        "options": {},
        **changes,
    }
    engine = create_engine(url, poolclass=NullPool)
    options = dict(changes["options"])
    policy = {name: options.pop(name) for name in OF_THE_CLIENT if name in options}
    policy["models"] = [dbanon.Model(**model) for model in options.pop("models", [])]
    dbanon.anonymize(
        engine,
        table=table,
        output="release.client",
        quasi_identifiers=columns,
        **{name: changes[name] for name in ("k", "method", "nulls", "keep", "sensitive")},
        hierarchies=changes["hierarchies"],
        options=options,
        max_suppression=1,
        **policy,
    )
    run_sql(
        "SELECT dbanon." + changes["method"] + "(%s::regclass, 'release.sql', %s, %s, nulls => %s,"
        " keep => %s, sensitive => %s, hierarchies => %s, options => %s, max_suppression => 1)",
        table,
        columns,
        changes["k"],
        changes["nulls"],
        changes["keep"],
        changes["sensitive"],
        json.dumps(changes["hierarchies"]),
        json.dumps(changes["options"]),
    )
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert client
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    same = run_sql(
        "SELECT DISTINCT information_loss, histogram::text, (arguments - 'intersects')::text"
        " FROM dbanon.release"
    )
    assert len(same) == 1


# The other methods form no classes of rows; both ways refuse them.
OF_ROWS = [
    method.name for method in METHODS.values() if method.result_type is not AttributePartition
]


@pytest.mark.parametrize("method", OF_ROWS)
def test_every_method_gives_the_same_release(run_sql: Run, sql_url: str, method: str) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, cos(g * g) AS b,"
        " g * 7919 % 101 AS c, 'n ' || g AS name FROM generate_series(1, 400) AS g"
    )
    _by_both(
        run_sql,
        sql_url,
        "app.people",
        ["a", "b", "c"][: METHODS[method].max_attributes],
        method=method,
        keep=["name"],
        options={"seed": 11},
    )


@pytest.mark.parametrize("method", [m.name for m in METHODS.values() if m.takes_categories])
def test_categories(run_sql: Run, sql_url: str, method: str) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g * 7919 % 60 AS age, g % 3 = 0 AS member,"
        " (ARRAY['a\"b', 'É', 'e', '', 'Z', E'\\\\'])[1 + g % 6] AS site"
        " FROM generate_series(1, 120) AS g"
    )
    run_sql("UPDATE app.people SET site = NULL WHERE id % 10 = 0")
    _by_both(
        run_sql,
        sql_url,
        "app.people",
        ["age", "member", "site"],
        method=method,
        keep=["id"],
        nulls="suppress",
    )


OF_TREES = [
    method.name
    for method in METHODS.values()
    if method.takes_categories and not method.suppresses_cells
]
TREES = (
    "CREATE TYPE app.grade AS ENUM ('none', 'low', 'mid', 'high')",
    "CREATE TABLE app.people AS SELECT g AS id, g * 7919 % 60 AS age, (23000 + g * 31 % 40)::text"
    " AS zip, (ARRAY['none', 'low', 'mid', 'high']::app.grade[])[1 + g * 13 % 4] AS grade,"
    " date '2020-01-31' + g * 37 % 900 AS born, (ARRAY['Oslo', 'Bergen', 'Rome', 'Bari', 'it''s'])"
    "[1 + g * 11 % 5] AS place, (ARRAY['flu', 'cough', NULL, 'gout'])[1 + g * 17 % 4] AS ill,"
    " NULLIF(g * 19 % 11, 3) AS cost FROM generate_series(1, 150) AS g",
    "CREATE TABLE app.places (child text, parent text)",
    "INSERT INTO app.places VALUES ('Oslo', 'Norway'), ('Bergen', 'Norway'), ('Rome', 'Italy'),"
    " ('Bari', 'Italy'), ('it''s', '*'), ('Norway', '*'), ('Italy', '*')",
    "CREATE VIEW app.ills AS SELECT * FROM (VALUES ('flu', 'lungs', '*'), ('cough', 'lungs', '*'),"
    " ('gout', NULL, '*')) AS v (leaf, level1, level2)",
)
HIERARCHIES = {
    "zip": {"mask": [4, 3]},
    "grade": {"enum": True},
    "born": {"dates": ["month", "year"]},
    "place": {"name": "places"},
    "age": {"intervals": [5, 20]},
}
MODELS: list[dict[str, Any]] = [
    {"attribute": "ill", "kind": "distinct_l", "level": 2},
    {"attribute": "ill", "kind": "t_closeness", "level": 0.5, "distance": {"table": "app.ills"}},
    {"attribute": "cost", "kind": "t_closeness", "level": 0.4, "distance": "ordered"},
    {"attribute": "cost", "kind": "recursive_cl", "level": 4, "l": 2},
]


def _load_trees(run_sql: Run) -> None:
    for statement in TREES:
        run_sql(statement)
    run_sql("SELECT * FROM dbanon.store_hierarchy('places', '{\"table\": \"app.places\"}')")


def _refined_in_turn() -> list[Any]:
    """Each method with one refinement in turn; in campaigns with all."""
    cases = []
    for index, name in enumerate(OF_TREES):
        refinements = (None, "fast", "thorough") if METHODS[name].refine is not None else (None,)
        for turn, refine in enumerate(refinements):
            marks = [] if turn == index % len(refinements) else [pytest.mark.campaign]
            cases.append(pytest.param(name, refine, marks=marks))
    return cases


@pytest.mark.parametrize(("method", "refine"), _refined_in_turn())
def test_hierarchies_models_and_refine(
    run_sql: Run, sql_url: str, method: str, refine: str | None
) -> None:
    _load_trees(run_sql)
    options: dict[str, Any] = {"seed": 5, "models": MODELS}
    if refine is not None:
        options |= {"refine": refine, "refine_iterations": 40}
    _by_both(
        run_sql,
        sql_url,
        "app.people",
        list(HIERARCHIES),
        method=method,
        keep=["id"],
        sensitive=["ill", "cost"],
        hierarchies=HIERARCHIES,
        options=options,
    )


def test_classes_that_fail_are_withheld(run_sql: Run, sql_url: str) -> None:
    _load_trees(run_sql)
    options = {"models": [{"attribute": "ill", "kind": "distinct_l", "level": 4}]}
    _by_both(
        run_sql,
        sql_url,
        "app.people",
        ["age", "place"],
        method="gaa_cp",
        sensitive=["ill"],
        hierarchies={"place": {"name": "places"}},
        options=options | {"withhold_failing": True},
    )
    [(suppressed,)] = run_sql("SELECT DISTINCT suppressed FROM dbanon.release")
    assert suppressed > 0


FORMS = ("name", "table", "tree", "levels", "ordered", "grouped", "flat")


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_of_a_hierarchy(run_sql: Run, sql_url: str, kind: str) -> None:
    _load_trees(run_sql)
    pairs = run_sql("SELECT child, parent FROM dbanon.show_hierarchy('places')")
    forms = {
        "name": {"name": "places"},
        "table": {"table": "app.places"},
        "tree": {"tree": [list(pair) for pair in pairs]},
        "levels": {
            "levels": [
                ["Oslo", "N", "*"],
                ["Bergen", "N", "*"],
                ["Rome", "*"],
                ["Bari", "*"],
                ["it's", "*"],
            ]
        },
        "ordered": {"ordered": True, "fanout": 3},
        "grouped": {"grouped": [2, 3], "order": ["Oslo", "it's", "Bari", "Rome", "Bergen"]},
    }
    hierarchies = {} if kind == "flat" else {"place": forms[kind]}
    every = {"local_range": True} if kind == "ordered" else {}
    labels = ({}, {"intervals": "bounds", "steps": {"age": 7}}, {"local_range": True})
    # Each form has labels of one kind in turn; the first form has all.
    turn = FORMS.index(kind)
    for options in labels if CAMPAIGN or not turn else labels[turn % 3 : turn % 3 + 1]:
        _by_both(
            run_sql,
            sql_url,
            "app.people",
            ["age", "place"],
            method="gaa_cp",
            hierarchies=hierarchies,
            options=options | every,
        )
        for table in ("client", "sql", "sql_summary"):
            run_sql(f"DROP TABLE release.{table}")
        run_sql("DELETE FROM dbanon.release")


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ("one leaf", "gaa_cp"),
        ("12 levels", "gaa_cp"),
        ("unbalanced", "kaca"),
        ("10,000 leaves", "mondrian"),
    ],
)
def test_shapes_of_trees(run_sql: Run, sql_url: str, shape: str, method: str) -> None:
    pairs, leaves = shaped(shape)
    run_sql("CREATE TABLE app.tree (child text, parent text)")
    run_sql(
        "INSERT INTO app.tree SELECT * FROM unnest(%s::text[], %s::text[])",
        [child for child, _ in pairs],
        [parent for _, parent in pairs],
    )
    n = 2_500 if len(leaves) == 10_000 else 400
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g * 7919 %% 50 AS age,"
        " (%s::text[])[1 + (g * 104729::bigint %% %s)] AS place FROM generate_series(1, %s) AS g",
        leaves,
        len(leaves),
        n,
    )
    run_sql("SELECT dbanon.store_hierarchy('shape', '{\"table\": \"app.tree\"}')")
    _by_both(
        run_sql,
        sql_url,
        "app.people",
        ["age", "place"],
        method=method,
        keep=["id"],
        hierarchies={"place": {"name": "shape"}},
    )
    sizes = run_sql("SELECT count(*) FROM release.sql GROUP BY age, place")
    assert min(size for (size,) in sizes) >= 4
    assert sum(size for (size,) in sizes) == n


def test_short_forms_of_models(run_sql: Run, sql_url: str) -> None:
    _load_trees(run_sql)
    call = (
        "SELECT dbanon.kmember('app.people', 'release.sql', '{age,place}', 4, if_exists =>"
        " 'replace', sensitive => '{ill,cost}', options => %s)"
    )
    releases = []
    for options in (
        {"models": MODELS},
        {
            "l_diversity": {"ill": 2},
            "t_closeness": {
                "ill": {"level": 0.5, "distance": {"table": "app.ills"}},
                "cost": {"level": 0.4, "distance": "ordered"},
            },
            "recursive_cl": {"cost": {"level": 4, "l": 2}},
        },
    ):
        run_sql(call, json.dumps(options))
        releases.append(run_sql("SELECT t::text FROM release.sql t ORDER BY 1"))
        [(entries,)] = run_sql(
            "SELECT arguments->'models' FROM dbanon.release WHERE superseded_at IS NULL"
        )
        assert len(entries) == 4
    assert releases[0] == releases[1]
    [(values,)] = run_sql(
        "SELECT min(n) FROM (SELECT count(DISTINCT coalesce(ill, 'NULL')) AS n FROM release.sql"
        " GROUP BY age, place) AS classes"
    )
    assert values >= 2


def test_classes_take_hierarchies_and_refine(run_sql: Run, sql_url: str) -> None:
    _load_trees(run_sql)
    columns = list(HIERARCHIES)
    for refine in (None, "fast"):
        options = {"hierarchies": HIERARCHIES, "refine": refine, "key": ["id"]}
        labels = run_sql(
            "SELECT class FROM dbanon.classes('app.people', 'gaa_cp', %s, 4, %s)"
            " ORDER BY (row_key->>'id')::integer",
            columns,
            json.dumps(options),
        )
        frame = pd.DataFrame(
            run_sql("SELECT zip, grade::text, born, place, age FROM app.people ORDER BY id"),
            columns=columns,
        )
        frame["born"] = frame["born"].astype(str)
        trees = {
            **HIERARCHIES,
            "place": load_hierarchy(sql_url, "name:places"),
            "grade": {"ordered": ["none", "low", "mid", "high"]},
        }
        classes = dbanon.partition(frame, 4, method="gaa_cp", hierarchies=trees, refine=refine)
        assert [label for (label,) in labels] == classes.labels.tolist()


@pytest.mark.parametrize("key", ["", "PRIMARY KEY (id)", "PRIMARY KEY (label)"])
def test_numeric_edge_cases(run_sql: Run, sql_url: str, key: str) -> None:
    run_sql(EDGE_CASES)
    if key:
        run_sql(f"ALTER TABLE app.edges ADD {key}")
    _by_both(run_sql, sql_url, "app.edges", EDGE_COLUMNS, keep=["label"])


@pytest.mark.parametrize("nulls", ["suppress", "category"])
def test_null_handling(run_sql: Run, sql_url: str, nulls: str) -> None:
    run_sql(EDGE_CASES)
    run_sql("UPDATE app.edges SET wide = NULL WHERE id % 10 = 0")
    run_sql("UPDATE app.edges SET born = NULL, tiny = NULL WHERE id % 15 = 0")
    _by_both(run_sql, sql_url, "app.edges", EDGE_COLUMNS, keep=["label"], nulls=nulls)


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE TABLE app.parts (id integer, a float8) PARTITION BY LIST (id);"
        "CREATE TABLE app.parts1 PARTITION OF app.parts FOR VALUES IN (1);"
        "CREATE TABLE app.parts2 PARTITION OF app.parts DEFAULT;"
        "INSERT INTO app.parts SELECT g % 3, sin(g) FROM generate_series(1, 100) AS g",
        "CREATE TABLE app.base (id integer, a float8);"
        "INSERT INTO app.base SELECT g % 3, sin(g) FROM generate_series(1, 100) AS g;"
        "CREATE MATERIALIZED VIEW app.parts AS SELECT * FROM app.base",
        "CREATE TABLE app.parts (id integer, a float8);"
        "CREATE TABLE app.child (b integer) INHERITS (app.parts);"
        "INSERT INTO app.parts SELECT g % 3, sin(g) FROM generate_series(1, 50) AS g;"
        "INSERT INTO app.child SELECT g % 3, cos(g) FROM generate_series(1, 50) AS g",
    ],
    ids=["partitioned", "materialized", "inherited"],
)
def test_other_relations(run_sql: Run, sql_url: str, statements: str) -> None:
    for statement in statements.split(";"):
        run_sql(statement)
    _by_both(run_sql, sql_url, "app.parts", ["a"], keep=["id"])


def test_a_view_needs_a_key(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE VIEW app.numbers AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 99) g")
    call = "SELECT (dbanon.mdav('app.numbers', 'release.n', '{a}', 3, options => %s)).rows_out"
    with pytest.raises(Exception, match="no key of their own") as failure:
        run_sql(call, "{}")
    assert failure.value.sqlstate == "0A000"  # type: ignore[attr-defined]
    assert run_sql(call, '{"key": ["id"]}') == [(99,)]


def test_classes_are_those_of_the_release(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE TABLE app.t AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 200) AS g")
    run_sql("ALTER TABLE app.t ADD PRIMARY KEY (id)")
    labels = [
        label
        for _, label in run_sql(
            "SELECT (row_key->>'id')::integer, class FROM dbanon.classes('app.t', 'mdav', '{a}', 5)"
            " ORDER BY 1"
        )
    ]
    values = [[value] for (value,) in run_sql("SELECT a FROM app.t ORDER BY id")]
    assert labels == dbanon.partition(values, k=5).labels.tolist()
