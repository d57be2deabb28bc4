"""Arguments, results and errors of the SQL functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from dbanon.doors.plpython_options import SHORT_MODELS, allowed_keys
from dbanon.hierarchy.spec import KINDS
from dbanon.measures import model_kinds
from dbanon.methods import METHODS
from tests.postgres_server import Server

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, cos(g) AS b, 't ' || g % 4 AS t"
    " FROM generate_series(1, 40) AS g"
)


@pytest.fixture(scope="module")
def expect_refusal(
    sql_server: Server, sql_template: str
) -> Iterator[Callable[[str], psycopg.Error]]:
    """The error of a call with these arguments. Nothing is created, so all share one database."""
    with sql_server.database(template=sql_template) as url:
        sql_server.execute(PEOPLE, url=url)

        def call(arguments: str, method: str = "mdav") -> psycopg.Error:
            with pytest.raises(psycopg.Error) as failure:
                sql_server.execute(f"SELECT dbanon.{method}({arguments})", url=url)
            assert "Traceback" not in str(failure.value)
            assert (
                sql_server.execute(
                    "SELECT relname FROM pg_class WHERE relnamespace = 'release'::regnamespace",
                    url=url,
                )
                == []
            )
            return failure.value

        yield call


OF_MODELS = "'app.people', 'release.p', '{{a}}', 5, sensitive => '{{t}}', options => '{}'"


@pytest.mark.parametrize(
    ("state", "arguments"),
    [
        ("42P01", "'app.nobody', 'release.p', '{a}', 5"),
        ("42P01", "0::regclass, 'release.p', '{a}', 5"),
        ("22004", "NULL, 'release.p', '{a}', 5"),
        ("22023", "'app.people', NULL, '{a}', 5"),
        # Without a list the table's rules apply, and it has none.
        ("42704", "'app.people', 'release.p', NULL, 5"),
        ("22023", "'app.people', 'release.p', '{}', 5"),
        ("22023", "'app.people', 'release.p', '{a,NULL}', 5"),
        ("22023", "'app.people', 'release.p', '{a,a}', 5"),
        ("22023", "'app.people', 'release.p', '{a}', NULL"),
        ("22023", "'app.people', 'release.p', '{a}', 1"),
        ("22023", "'app.people', 'release.p', '{a}', -5"),
        ("ZK002", "'app.people', 'release.p', '{a}', 41"),
        ("42703", "'app.people', 'release.p', '{nobody}', 5"),
        ("42703", "'app.people', 'release.p', '{a}', 5, keep => '{nobody}'"),
        ("42602", "'app.people', 'people', '{a}', 5"),
        ("42602", "'app.people', 'pg_temp.people', '{a}', 5"),
        ("42602", "'app.people', 'pg_catalog.people', '{a}', 5"),
        ("42622", "'app.people', 'release.' || repeat('n', 60), '{a}', 5"),
        ("0A000", "'app.people', 'release.p', '{t}', 5"),
        ("22023", "'app.people', 'release.p', '{a}', 5, entity => 'a'"),
        ("42703", "'app.people', 'release.p', '{a}', 5, entity => 'nobody'"),
        ("ZK002", "'app.people', 'release.p', '{a}', 5, entity => 't'"),
        ("0A000", "'app.people', 'release.p', '{a}', 5, options => '{\"where\": \"true\"}'"),
        ("0A000", "'app.people', 'release.p', '{a}', 5, options => '{\"chain\": \"patients\"}'"),
        (
            "0A000",
            "'app.people', 'release.p', '{a}', 5,"
            ' options => \'{"chain": {"name": "patients", "key": "env:K"}}\'',
        ),
        ("0A000", "'app.people', 'release.p', '{a}', 5, options => '{\"on_column_change\": 1}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"l_diversity\": 2}'"),
        *(
            ("22023", OF_MODELS.format(models))
            for models in (
                '{"l_diversity": {"b": 2}}',
                '{"l_diversity": {"t": "2"}}',
                '{"models": {}}',
                '{"l_diversity": {"t": {"level": 2, "kind": "alpha_k"}}}',
                '{"models": [{}]}',
                '{"t_closeness": {"t": {"level": 1, "distance": "tree.csv"}}}',
                '{"t_closeness": {"t": {"level": 1, "distance": {"tabel": "x"}}}}',
                '{"t_closeness": {"t": {"level": 1, "l": 2}}}',
                '{"entropy_l": {"t": true}}',
                '{"models": [{"attribute": "t", "kind": "l", "level": 2}]}',
                '{"models": [{"attribute": "t", "kind": ["l"], "level": 2}]}',
                '{"l_diversity": {"t": 1e400}}',
                '{"l_diversity": {"t": 1e5000}}',
                '{"weights": {"a": 1e30}}',
                '{"refine": "fast", "refine_iterations": 1e19}',
            )
        ),
        (
            "ZK002",
            "'app.people', 'release.p', '{a}', 5, sensitive => '{t}',"
            ' options => \'{"l_diversity": {"t": 5}}\'',
        ),
        ("ZK002", OF_MODELS.format('{"recursive_cl": {"t": {"level": 2, "l": 3000000000}}}')),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"sede\": 1}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"seed\": \"1\"}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"seed\": -1}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '[]'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"output_kind\": \"x\"}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, options => '{\"weights\": [1]}'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, nulls => 'maybe'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, nulls => NULL"),
        ("22023", "'app.people', 'release.p', '{a}', 5, if_exists => 'append'"),
        ("22023", "'app.people', 'release.p', '{a}', 5, max_suppression => 2"),
        ("22023", "'app.people', 'release.p', '{a}', 5, max_suppression => 'NaN'"),
        ("54000", "'app.people', 'release.p', '{a}', 5, options => '{\"memory_limit\": 1000}'"),
    ],
)
def test_sqlstates(
    expect_refusal: Callable[[str], psycopg.Error], state: str, arguments: str
) -> None:
    assert expect_refusal(arguments).sqlstate == state


def test_a_key_of_a_chain_is_no_argument(expect_refusal: Callable[[str], psycopg.Error]) -> None:
    options = '{"chain": {"name": "patients", "key": "' + 64 * "a" + '"}}'
    error = expect_refusal(f"'app.people', 'release.p', '{{a}}', 5, options => '{options}'")
    assert error.sqlstate == "0A000"
    assert "the key must not appear" in str(error)
    assert 64 * "a" not in f"{error}{error.diag.message_detail}{error.diag.message_hint}"


@pytest.mark.parametrize(
    ("state", "hierarchies"),
    [
        ("22023", '{"t": {}}'),
        ("22023", '{"t": {"mask": true}}'),
        ("22023", "7"),
        ("22023", '{"a": {"ordered": 1}}'),
        ("22023", '{"a": "a.csv"}'),
        ("22023", '{"a": {"dates": ["year"]}}'),
        ("22023", '{"a": {"enum": true}}'),
        ("22023", '{"a": "table:app.people"}'),
        ("42704", '{"a": "name:x"}'),
        ("42P01", '{"a": "table:app.x"}'),
        ("42P01", '{"a": "table:people"}'),
        ("3F000", '{"a": "table:x.x"}'),
        ("42602", '{"a": "table:x.y.z"}'),
        ("ZK004", '{"a": {"tree": [["x", "y"], ["y", "x"]]}}'),
        ("ZK004", '{"a": {"tree": {}}}'),
        ("ZK004", '{"a": {"tree": {"*": ["x"]}}}'),
    ],
)
def test_sqlstates_of_hierarchies(
    expect_refusal: Callable[..., psycopg.Error], state: str, hierarchies: str
) -> None:
    arguments = f"'app.people', 'release.p', '{{a}}', 5, hierarchies => '{hierarchies}'"
    assert expect_refusal(arguments, "gaa_cp").sqlstate == state
    # mdav ignores hierarchies.
    assert expect_refusal(arguments).sqlstate in (state, "22023")


def test_withheld_rows_count_against_the_budget(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET a = NULL WHERE id <= 2")
    call = "SELECT * FROM dbanon.mdav('app.people', 'release.p', '{a}', 5, nulls => 'suppress'%s)"
    with pytest.raises(psycopg.Error, match="would be suppressed") as failure:
        run_sql(call % "")
    assert failure.value.sqlstate == "ZK003"
    [row] = run_sql(call % ", max_suppression => 0.05")
    assert row[3:9] == (40, 38, 2, 7, 5, 5)
    assert run_sql("SELECT rows, suppressed, k_achieved FROM release.p_summary") == [(38, "1-4", 5)]


def test_rare_patterns_of_nulls_join_others(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET a = NULL WHERE id <= 7")
    run_sql("UPDATE app.people SET b = NULL WHERE id BETWEEN 3 AND 7")
    call = "SELECT * FROM dbanon.mdav('app.people', 'release.p', '{a,b}', 5, nulls => '%s')"
    with pytest.raises(psycopg.Error, match="only 2 records with NULL in"):
        run_sql(call % "category")
    [row] = run_sql(call % "merge")
    assert row[3:6] == (40, 40, 0)
    assert run_sql("SELECT count(*) FROM release.p WHERE a IS NULL AND b IS NULL") == [(7,)]
    [(cells,)] = run_sql("SELECT arguments->'suppressed_cells' FROM dbanon.release")
    assert cells == {"b": 2}
    classes = "dbanon.classes('app.people', 'mdav', '{a,b}', 5, '{\"nulls\": \"merge\"}')"
    sizes = run_sql(f"SELECT count(*) FROM {classes} GROUP BY class ORDER BY 1 DESC LIMIT 1")
    assert sizes[0][0] >= 7


def test_codes_are_categories_if_declared(run_sql: Run, sql_url: str) -> None:
    columns = "g AS id, g % 9 AS age, greatest(1, 5 - g) AS marital"
    rows = "generate_series(1, 60) AS g WHERE g NOT IN (3, 4)"
    run_sql(f"CREATE TABLE app.people AS SELECT {columns} FROM {rows}")
    notices: list[str] = []
    with psycopg.connect(sql_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SELECT dbanon.mdav('app.people', 'release.p', '{age,marital}', 7)")
    assert any('column "marital" is a code, and was averaged' in text for text in notices)
    nominal = json.dumps({"kinds": {"marital": "nominal"}, "releases": "independent"})
    run_sql(
        "SELECT dbanon.gaa_cp('app.people', 'release.q', '{age,marital}', 7, options => %s)",
        nominal,
    )
    values = run_sql("SELECT DISTINCT marital FROM release.q")
    assert {value for (value,) in values} <= {"1", "3", "4", "*"}


def test_a_text_column_by_a_method_that_takes_it(run_sql: Run) -> None:
    run_sql(PEOPLE)
    taking = [name for name, method in METHODS.items() if method.takes_categories]
    assert taking
    run_sql(f"SELECT dbanon.{taking[0]}('app.people', 'release.p', '{{t,a}}', 5)")
    assert run_sql("SELECT (dbanon.verify('release.p')).k_achieved >= 5") == [(True,)]
    labels = run_sql(
        "SELECT count(*), min(size) >= 5 FROM (SELECT count(*) AS size FROM"
        " dbanon.classes('app.people', %s, '{t,a}', 5) GROUP BY class) AS sizes",
        taking[0],
    )
    assert labels[0][1]


def test_every_known_option_is_accepted(run_sql: Run) -> None:
    run_sql(PEOPLE)
    options = {
        "standardize": "range",
        "weights": {"a": 2},
        "orders": {},
        "seed": 3,
        "key": ["id"],
        "progress": False,
        "memory_limit": 10**9,
        "output_kind": "view",
        "recoding": "mean",
        "intervals": "text",
        "local_range": True,
        "steps": {"a": 0.5},
        "refine": None,
        "refine_iterations": None,
        "refine_seconds": None,
        "block_size": None,
        "by": ["t"],
        "models": [{"attribute": "id", "kind": "distinct_l", "level": 2}],
        "withhold_failing": True,
        **{kind: {"id": 1.5} for kind in (*SHORT_MODELS, *model_kinds())},
        "guarantee": "rows",
        "strict": False,
        "evaluate": True,
        "attacks": False,
        "certificate": None,
        "also_k": [["a"]],
        "source_digest": True,
        "entity_normalize": None,
        "releases": "independent",
        "kinds": {"a": "numeric"},
        "top": {},
        "bottom": {},
        "recode": {},
        "shift_dates": None,
        "profile": None,
        "zip_population": None,
        "persons": "whole",
        "design_weight": None,
        "weight_as": None,
    }
    arguments = {
        "entity",
        "sensitive",
        "keep",
        "quasi_identifiers",
        "k",
        "hierarchies",
        "nulls",
        "max_suppression",
        "if_exists",
        "output",
    }
    assert set(options) == set(allowed_keys("mdav", arguments, writes=True))
    options |= {"delta_disclosure": {}, "beta_likeness": {"id": 99}}
    options |= {kind: {"id": 1} for kind in ("t_closeness", "alpha_k")}
    run_sql(
        "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5, sensitive => '{id}',"
        " max_suppression => 0.5, options => %s)",
        json.dumps(options),
    )
    [(arguments,)] = run_sql("SELECT arguments FROM dbanon.release")
    assert arguments["standardize"] == "range"
    assert arguments["seed"] == 3
    assert arguments["weights"] == {"a": 2}


def test_information_loss_from_the_ledger_and_from_two_relations(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("SELECT dbanon.mdav('app.people', 'release.p', '{a,b}', 5)")
    [(recorded, computed)] = run_sql(
        "SELECT dbanon.information_loss('release.p'),"
        " dbanon.information_loss('release.p', 'app.people', '{a,b}')"
    )
    # The record is for readers: shares are rounded, and a small table has few of them.
    assert 0 < computed < recorded == round(recorded, 2) < 1


def test_a_changed_view_is_refused(run_sql: Run) -> None:
    run_sql(PEOPLE)
    kind = "if_exists => 'replace', options => '{\"output_kind\": \"view\"}'"
    run_sql(f"SELECT dbanon.mdav('app.people', 'release.p', '{{a}}', 5, {kind})")
    with pytest.raises(psycopg.Error, match="other columns or types") as failure:
        run_sql(f"SELECT dbanon.mdav('app.people', 'release.p', '{{b}}', 5, {kind})")
    assert failure.value.sqlstate == "42P16"


def test_a_view_whose_column_widened_is_replaced(run_sql: Run) -> None:
    run_sql(PEOPLE)
    call = (
        "SELECT rows_out FROM dbanon.mdav('app.people', 'release.p', '{id,a}', 5,"
        " if_exists => 'replace', options => '{\"output_kind\": \"view\"}')"
    )
    assert run_sql(call) == [(40,)]
    run_sql("GRANT SELECT ON release.p TO dbanon_reader")
    run_sql("ALTER TABLE app.people ALTER COLUMN id TYPE bigint")
    assert run_sql(call) == [(40,)]
    assert run_sql("SELECT has_table_privilege('dbanon_reader', 'release.p', 'SELECT')") == [
        (True,)
    ]
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.p')") == [(True,)]


def test_help_and_versions(run_sql: Run) -> None:
    [(text,)] = run_sql("SELECT dbanon.help()")
    assert all(f"{name}: " in text for name in METHODS)
    [(manual,)] = run_sql("SELECT dbanon.help('mdav')")
    assert "k => 5" in manual or "k integer" in manual
    [(manual,)] = run_sql("SELECT dbanon.help('gaa_cp')")
    assert all(f"  {kind}: " in manual for kind in (*KINDS, *model_kinds(), "l_diversity"))
    checked = dict(run_sql("SELECT * FROM dbanon.check()"))
    assert checked["sql functions"] == checked["dbanon"]
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        run_sql("SELECT dbanon.help('no such function')")


def test_row_keys_are_unique_where_a_part_of_the_table_is_foreign(run_sql: Run) -> None:
    run_sql("CREATE EXTENSION file_fdw")
    run_sql("CREATE SERVER there FOREIGN DATA WRAPPER file_fdw")
    run_sql("CREATE TABLE app.parted (id integer, a integer) PARTITION BY LIST (a)")
    run_sql(
        "CREATE FOREIGN TABLE app.part PARTITION OF app.parted DEFAULT SERVER there"
        " OPTIONS (program 'seq 1 20 | paste -d, - -', format 'csv')"
    )
    call = "SELECT count(DISTINCT row_key) FROM dbanon.classes('app.parted', 'mdav', '{a}', 2"
    with pytest.raises(psycopg.Error, match="with a foreign part"):
        run_sql(f"{call})")
    assert run_sql(f'{call}, \'{{"key": ["id"]}}\')') == [(10,)]
