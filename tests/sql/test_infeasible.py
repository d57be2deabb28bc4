"""What nothing can meet, asked through every door: the code, what would be feasible, no trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors.cli.main import main

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# 60 rows of 20 persons with 4 diseases; all at site 1 have the first; 6 ages are missing.
PEOPLE = """
CREATE TABLE app.people AS
SELECT g AS id, g % 20 AS who, CASE WHEN g <= 6 THEN NULL ELSE g * 7 % 50 END AS age,
       (ARRAY['north', 'south'])[1 + g % 2] AS place, (g <= 15)::integer AS site,
       CASE WHEN g <= 15 THEN 'flu' ELSE (ARRAY['flu', 'cough', 'angina', 'gout'])[1 + g % 4] END
           AS ill
FROM generate_series(1, 60) AS g"""


@dataclass(frozen=True)
class Wish:
    """What is asked for beyond k = 3 of place, and the error that all doors give."""

    sqlstate: str
    code: str
    said: str
    feasible: str
    k: int = 3
    columns: tuple[str, ...] = ("place",)
    given: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] | None = None


WISHES = {
    "l above the number of values": Wish(
        "ZK002",
        "model_infeasible",
        "Even the whole table as one class does not keep to distinct_l 5",
        '"ill" has 4 distinct values; distinct_l of "ill" is feasible up to 4',
        model={"attribute": "ill", "kind": "distinct_l", "level": 5},
    ),
    "l above what a stratum has": Wish(
        "ZK002",
        "model_infeasible",
        "The 15 records of a stratum",
        'distinct_l of "ill" is feasible up to 1',
        given={"by": ["site"]},
        model={"attribute": "ill", "kind": "distinct_l", "level": 2},
    ),
    "t below what a stratum has": Wish(
        "ZK002",
        "model_infeasible",
        "records of a stratum",
        't_closeness of "ill" is feasible from 0.',
        given={"by": ["site"]},
        model={"attribute": "ill", "kind": "t_closeness", "level": 0.1},
    ),
    "k above the number of rows": Wish(
        "ZK002", "too_few_records", "There are 60 records", "60 or less.", k=61
    ),
    "k above the number of persons": Wish(
        "ZK002",
        "too_few_records",
        "There are 20 persons",
        "20 or less.",
        k=21,
        given={"entity": "who"},
    ),
    "a pattern of NULLs below k": Wish(
        "ZK002",
        "too_few_records",
        'A stratum holds only 6 records with NULL in "age"',
        "withholds records with a NULL instead",
        k=7,
        columns=("place", "age"),
        given={"nulls": "category"},
    ),
    "a budget below the rows with NULL": Wish(
        "ZK003",
        "suppression_over_budget",
        "6 of 60 records would be suppressed, more than the allowed share 0.05",
        "0.1 or more.",
        columns=("place", "age"),
        given={"nulls": "suppress", "max_suppression": 0.05},
    ),
    "a budget below what fails a model": Wish(
        "ZK002",
        "model_infeasible",
        "The 15 records of a stratum",
        "0.25 or more",
        given={"by": ["site"], "max_suppression": 0.2, "withhold_failing": True},
        model={"attribute": "ill", "kind": "distinct_l", "level": 2},
    ),
}


def by_sql(url: str, wish: Wish) -> tuple[str, str]:
    """SQLSTATE and text of the error of a call inside the database."""
    options = {name: wish.given[name] for name in ("by", "withhold_failing") if name in wish.given}
    if wish.model is not None:
        options["models"] = [wish.model]
    arguments = {
        n: wish.given[n] for n in ("entity", "nulls", "max_suppression") if n in wish.given
    }
    text = "".join(f", {name} => %({name})s" for name in arguments)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "SELECT dbanon.gaa_cp('app.people', 'release.people', %(columns)s, %(k)s,"
                f" sensitive => '{{ill}}', options => %(options)s{text})",  # type: ignore[arg-type]
                {
                    **arguments,
                    "columns": list(wish.columns),
                    "k": wish.k,
                    "options": json.dumps(options),
                },
            )
        diagnosis = caught.value.diag
        return str(diagnosis.sqlstate), f"{diagnosis.message_primary} {diagnosis.message_hint}"


def by_python(url: str, wish: Wish) -> tuple[str, str]:
    """SQLSTATE and text of the error of the client."""
    models = [] if wish.model is None else [dbanon.Model(**wish.model)]
    with pytest.raises(dbanon.DbanonError) as caught:
        dbanon.anonymize(
            create_engine(url, poolclass=NullPool),
            table="app.people",
            output="release.people",
            quasi_identifiers=wish.columns,
            sensitive=["ill"],
            k=wish.k,
            method="gaa_cp",
            models=models,
            **wish.given,
        )
    assert (caught.value.code, caught.value.exit_code) == (wish.code, 3)
    return caught.value.sqlstate, str(caught.value)


def by_command(url: str, wish: Wish) -> tuple[str, str]:
    """SQLSTATE and text of the error of the command, which ends with 3."""
    given = ["--table", "app.people", "--output", "release.people", "--method", "gaa_cp"]
    given += ["--quasi-identifiers", ",".join(wish.columns), "--sensitive", "ill"]
    given += ["--k", str(wish.k), "--no-progress", "--format", "json"]
    for name, value in wish.given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            given.append(option)
        else:
            given += [option, ",".join(value) if isinstance(value, list) else str(value)]
    if wish.model is not None:
        given += ["--model", "{attribute}={kind}:{level}".format(**wish.model)]
    done = CliRunner().invoke(main, ["anonymize", url, *given])
    assert done.exit_code == 3, done.output
    error = json.loads(done.output)
    error = error.get("error", error)
    assert error["code"] == wish.code
    return error["sqlstate"], f"{error['message']} {error['hint']}"


@pytest.mark.parametrize("door", [by_sql, by_python, by_command], ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", WISHES)
def test_what_cannot_be_is_said(
    run_sql: Run, sql_url: str, name: str, door: Callable[[str, Wish], tuple[str, str]]
) -> None:
    wish = WISHES[name]
    run_sql(PEOPLE)
    state = (
        "SELECT (SELECT array_agg(relname::text ORDER BY relname) FROM pg_class WHERE relnamespace"
        " IN (SELECT oid FROM pg_namespace WHERE nspname IN ('app', 'release', 'dbanon'))),"
        " (SELECT count(*) FROM dbanon.release)"
    )
    before = run_sql(state)
    sqlstate, text = door(sql_url, wish)
    assert sqlstate == wish.sqlstate
    assert wish.said in text
    assert wish.feasible in text
    assert not any(value in text for value in ("flu", "gout", "north"))
    assert run_sql(state) == before
    # A call in SQL rolls back whole; a client says in the ledger that it failed.
    noted = [] if door is by_sql else [("failed", None)]
    assert run_sql("SELECT state, release_id FROM dbanon.run") == noted
