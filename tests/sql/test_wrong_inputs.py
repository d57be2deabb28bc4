"""Wrong inputs at three doors: the code, its exit code and SQLSTATE, a hint of the right door.

One database for all: Python and the command line connect to it, SQL runs inside it. No answer holds
a value of the data, and nothing is left of any call. A case is a row of ``WRONG``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.data.option import Parameter, all_parameters
from dbanon.doors.cli.main import main
from dbanon.doors.sql_script import arguments
from dbanon.doors.ways import flag
from dbanon.job.job import Job
from dbanon.measures import Model
from tests.postgres_server import Server

OPTIONS = {one.name: one for one in all_parameters(Job)}
DOORS = ("python", "cli", "sql")
BY_CODE = {
    value.code: value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.DbanonError)
}
VALUES = re.compile(r"73173|qzmark", re.IGNORECASE)

TABLES = (
    "CREATE TABLE app.people (id integer PRIMARY KEY, name text, a integer, b float8,"
    " twice integer, hole integer, ill text, nan float8)",
    "INSERT INTO app.people SELECT 7317300 + g, 'qzmark ' || g, 7317300 + g % 7, 73173.5 + g,"
    " g % 3, CASE g WHEN 5 THEN NULL ELSE 7317300 END, 'qzmark ill ' || g % 2, 'NaN'"
    " FROM generate_series(1, 40) AS g",
    "CREATE VIEW app.seen AS SELECT * FROM app.people",
    "CREATE TABLE release.taken (x integer)",
)
RIGHT: dict[str, Any] = {
    "table": "app.people",
    "output": "release.people",
    "quasi_identifiers": ["a", "b"],
    "k": 5,
}
TREE = {"method": "mondrian", "recoding": "generalization", "quasi_identifiers": ["name"]}
MODELS = {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "distinct_l", "level": 2}]}

# What is wrong: the code, and the options that differ from RIGHT. What click itself refuses has
# exit code 2 and no code of ours at the command line: these end in "(word)".
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "no such column": ("column_not_found", {"quasi_identifiers": ["aa"]}),
    "no quasi-identifier": ("invalid_parameter", {"quasi_identifiers": []}),
    "a column twice": ("invalid_parameter", {"quasi_identifiers": ["a", "a"]}),
    "text for numbers": ("unsupported_type", {"quasi_identifiers": ["name"]}),
    "a NULL": ("null_in_quasi_identifier", {"quasi_identifiers": ["a", "hole"]}),
    "NaN": ("non_finite_value", {"quasi_identifiers": ["nan"]}),
    "k of one": ("invalid_parameter", {"k": 1}),
    "k below 0": ("invalid_parameter", {"k": -5}),
    "k above the rows": ("too_few_records", {"k": 41}),
    "k as text (word)": ("invalid_parameter", {"k": "five"}),
    "unknown nulls (word)": ("invalid_parameter", {"nulls": "sometimes"}),
    "a budget too small": (
        "suppression_over_budget",
        {"quasi_identifiers": ["a", "hole"], "nulls": "suppress", "max_suppression": 0.01},
    ),
    "a pattern too small": (
        "too_few_records",
        {"quasi_identifiers": ["a", "hole"], "nulls": "category"},
    ),
    "a share above 1": ("invalid_parameter", {"max_suppression": 2.5}),
    "a share below 0": ("invalid_parameter", {"max_suppression": -0.5}),
    "an output that exists": (
        "output_not_ours",
        {"output": "release.taken", "if_exists": "replace"},
    ),
    "an output in the way": ("output_exists", {"output": "release.taken"}),
    "the source as output": ("output_exists", {"output": "app.people"}),
    "an output of four parts": ("invalid_name", {"output": "a.b.c.d"}),
    "an empty output": ("invalid_name", {"output": ""}),
    "a long output": ("name_too_long", {"output": "release." + "x" * 64}),
    "unknown if_exists (word)": ("invalid_parameter", {"if_exists": "overwrite"}),
    "unknown output_kind (word)": ("invalid_parameter", {"output_kind": "heap"}),
    "unknown recoding (word)": ("invalid_parameter", {"recoding": "meen"}),
    "a recoding of another method": ("invalid_parameter", {"recoding": "secure"}),
    "unknown standardize (word)": ("invalid_parameter", {"standardize": "z"}),
    "a weight of no column": ("invalid_parameter", {"weights": {"zz": 1.0}}),
    "a weight below 0": ("invalid_parameter", {"weights": {"a": -1.0}}),
    "weights beside Mahalanobis": (
        "invalid_parameter",
        {"weights": {"a": 2.0}, "standardize": "mahalanobis"},
    ),
    "a seed below 0": ("invalid_parameter", {"seed": -1}),
    "unknown refinement (word)": ("invalid_parameter", {"refine": "fastest"}),
    "a budget without refinement": ("invalid_parameter", {"refine_iterations": 5}),
    "no time to refine": ("invalid_parameter", {"refine": "fast", "refine_seconds": 0.0}),
    "blocks below 2k": ("invalid_parameter", {"block_size": 9}),
    "an entity that is not there": ("column_not_found", {"entity": "aa"}),
    "an entity that is released": ("invalid_parameter", {"entity": "a"}),
    "a column in two roles": ("invalid_parameter", {"sensitive": ["a"]}),
    "a kept column that is not there": ("column_not_found", {"keep": ["zz"]}),
    "a sensitive column that is not there": ("column_not_found", {"sensitive": ["zz"]}),
    "a key that is not there": ("column_not_found", {"key": ["zz"]}),
    "a key that repeats": ("duplicate_keys", {"key": ["twice"]}),
    "a key named twice": ("invalid_parameter", {"key": ["id", "id"]}),
    "a view without a key": ("key_required", {"table": "app.seen"}),
    "strata that are not there": ("column_not_found", {"by": ["zz"]}),
    "strata below k": ("too_few_records", {"by": ["id"]}),
    "a model of no sensitive column": (
        "invalid_parameter",
        {"models": [{"attribute": "ill", "kind": "distinct_l", "level": 2}]},
    ),
    "an unknown model": (
        "invalid_parameter",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "likeness", "level": 2}]},
    ),
    "a level of 0": (
        "invalid_parameter",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "distinct_l", "level": 0}]},
    ),
    "a model that cannot be": (
        "model_infeasible",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "distinct_l", "level": 3}]},
    ),
    "withholding without a budget": ("invalid_parameter", {**MODELS, "withhold_failing": True}),
    "withholding without models": (
        "invalid_parameter",
        {"withhold_failing": True, "max_suppression": 0.1},
    ),
    "a hierarchy of no column": ("invalid_parameter", {"hierarchies": {"zz": {"mask": 1}}}),
    "an unknown hierarchy": ("invalid_parameter", {**TREE, "hierarchies": {"name": {"maskk": 1}}}),
    "a hierarchy that is not stored": (
        "hierarchy_not_found",
        {**TREE, "hierarchies": {"name": {"name": "nobody"}}},
    ),
    "a hierarchy without the values": (
        "hierarchy_broken",
        {**TREE, "hierarchies": {"name": {"tree": {"*": ["x", "y"]}}}},
    ),
    "a hierarchy with two parents": (
        "hierarchy_broken",
        {**TREE, "hierarchies": {"name": {"tree": [["x", "y"], ["x", "z"], ["y", "z"]]}}},
    ),
    "a hierarchy in a table that is not there": (
        "table_not_found",
        {**TREE, "hierarchies": {"name": {"table": "app.nothing"}}},
    ),
    "an order without the values": (
        "value_not_in_order",
        {"quasi_identifiers": ["name"], "orders": {"name": ["x", "y"]}},
    ),
    "an order of no column": ("invalid_parameter", {"orders": {"zz": ["x", "y"]}}),
    "an order of numbers": ("unsupported_type", {"orders": {"a": ["1", "2"]}}),
    "an order with a value twice": (
        "invalid_parameter",
        {"quasi_identifiers": ["name"], "orders": {"name": ["x", "x"]}},
    ),
    "too little memory": ("memory_limit", {"memory_limit": 500}),
    "no memory": ("invalid_parameter", {"memory_limit": 0}),
    "unknown intervals (word)": ("invalid_parameter", {"intervals": "texts"}),
    "a step of 0": ("invalid_parameter", {"steps": {"a": 0.0}}),
    "unknown guarantee (word)": ("invalid_parameter", {"guarantee": "columns"}),
    "a guarantee of another method": ("invalid_parameter", {"guarantee": "per_attribute"}),
    "a method without its guarantee": ("invalid_parameter", {"method": "individual_ranking"}),
    "a kept column that tells": ("telling_column", {"keep": ["id"], "strict": True}),
    "an option of another method": ("unknown_option", {"options": {"gamma": 1}}),
    "an option of another type": (
        "invalid_parameter",
        {"method": "vmdav", "options": {"lambda_": "much"}},
    ),
    "too many columns for the method": ("invalid_parameter", {"method": "optimal_univariate"}),
}


@pytest.fixture(scope="module")
def clinic(sql_server: Server, sql_template: str) -> Iterator[str]:
    """A database that every wrong input meets as it was."""
    with sql_server.database(template=sql_template) as url:
        for statement in TABLES:
            sql_server.execute(statement, url=url)
        yield url


@pytest.fixture(scope="module")
def state(sql_server: Server, clinic: str) -> Callable[[], Any]:
    """All relations, and what the ledger says was released."""

    def now() -> Any:
        return sql_server.execute(
            "SELECT n.nspname, c.relname, obj_description(c.oid) FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
            " UNION ALL SELECT 'release', release_id::text, '' FROM dbanon.release ORDER BY 1, 2",
            url=clinic,
        )

    before = now()
    return lambda: now() == before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_input(case: str, door: str, clinic: str, state: Callable[[], bool]) -> None:
    code, given = WRONG[case]
    kind = BY_CODE[code]
    if door == "python":
        hint = by_python(kind, clinic, given)
    elif door == "cli":
        hint = by_command(kind, clinic, given, word=case.endswith("(word)"))
    else:
        hint = by_sql(kind, clinic, given)
    # Of the door: no flag outside the command line, no => outside SQL, no mark left.
    assert "`" not in hint
    assert door == "cli" or not re.search(r"(^|\s)--[a-z]", hint), hint
    assert door == "sql" or "=>" not in hint, hint
    assert door == "python" or not re.search(r'\b[a-z_]+=["\[\d]', hint), hint
    assert state(), "something is left"


def by_python(kind: type[errors.DbanonError], url: str, given: Mapping[str, Any]) -> str:
    def call() -> None:
        job = {**RIGHT, **given}
        if "models" in job:
            job["models"] = [Model(**one) for one in job["models"]]
        dbanon.anonymize(url, **job)

    with pytest.raises(errors.DbanonError) as caught:
        call()
    assert type(caught.value) is kind, caught.value
    assert not VALUES.search(f"{caught.value} {caught.value!r}")
    assert caught.value.__cause__ is None
    return caught.value.hint or ""


def by_command(
    kind: type[errors.DbanonError], url: str, given: Mapping[str, Any], word: bool
) -> str:
    line = ["anonymize", url, "--format", "json", "--no-progress"]
    for name, value in {**RIGHT, **given}.items():
        line += in_words(OPTIONS[name], value)
    done = CliRunner().invoke(main, line)
    assert done.exit_code == kind.exit_code, done.output
    assert not VALUES.search(done.output.replace(url, ""))
    if word:
        assert "Invalid value for '--" in done.stderr
        return ""
    told = json.loads(done.stdout)["error"]
    assert told["code"] == kind.code, told
    assert told["sqlstate"] == kind.sqlstate
    assert told["exit_code"] == kind.exit_code
    return str(told["hint"] or "")


def in_words(one: Parameter, value: Any) -> list[str]:
    """An option as it is written at the command line."""
    name = flag(one)
    if one.item is Model:
        texts = [f"{model['attribute']}={model['kind']}:{model['level']}" for model in value]
        return [part for text in texts for part in (name, text)]
    if isinstance(value, dict):
        texts = [f"{key}={in_pair(part)}" for key, part in value.items()]
        return [part for text in texts for part in (name, text)]
    if isinstance(value, bool):
        return [name] if value else []
    if isinstance(value, list):
        return [name, ",".join(value)] if value else []
    return [name, str(value)]


def in_pair(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return ",".join(value) if isinstance(value, list) else str(value)


def by_sql(kind: type[errors.DbanonError], url: str, given: Mapping[str, Any]) -> str:
    job = {**RIGHT, **given}
    source, method = job.pop("table"), job.pop("method", "mdav")
    own = job.pop("options", {})
    named = [name for name in job if name in arguments()]
    options = {name: job[name] for name in job if name not in named} | own
    types = {"k": "", "hierarchies": "::jsonb", "max_suppression": "::float8"}
    types |= dict.fromkeys(("quasi_identifiers", "keep", "sensitive"), "::text[]")
    call = ", ".join(f"{name} => %s{types.get(name, '')}" for name in named)
    values = [json.dumps(job[name]) if name == "hierarchies" else job[name] for name in named]
    with (
        psycopg.connect(conninfo_of(url), autocommit=True) as connection,
        pytest.raises(psycopg.Error) as caught,
    ):
        connection.execute(
            f"SELECT dbanon.{method}(source => %s::regclass, {call}, options => %s::jsonb)",
            [source, *values, json.dumps(options)],
        )
    told = caught.value.diag
    # A word where PostgreSQL wants a number never reaches the function.
    assert told.sqlstate == ("22P02" if isinstance(job["k"], str) else kind.sqlstate), told
    parts = (told.message_primary, told.message_detail, told.message_hint, told.context)
    assert not VALUES.search(" ".join(map(str, parts)))
    return told.message_hint or ""


def conninfo_of(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")


def test_they_are_enough() -> None:
    assert len(WRONG) * len(DOORS) >= 200
    assert {*RIGHT, *(name for _, given in WRONG.values() for name in given)} >= {
        name for name in OPTIONS if name not in ("chunk_rows", "local_range")
    }
