"""Infeasible requests through every interface: error code, feasible values, no trace left."""

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

# 60 rows of 20 persons with 4 diseases. Everyone at site 1 has the first; 6 ages are missing.
PEOPLE = """
CREATE TABLE app.people AS
SELECT g AS id, g % 20 AS who, CASE WHEN g <= 6 THEN NULL ELSE g * 7 % 50 END AS age,
       (ARRAY['north', 'south'])[1 + g % 2] AS place, (g <= 15)::integer AS site,
       CASE WHEN g <= 15 THEN 'flu' ELSE (ARRAY['flu', 'cough', 'angina', 'gout'])[1 + g % 4] END
           AS ill
FROM generate_series(1, 60) AS g"""


@dataclass(frozen=True)
class InfeasibleCase:
    """The requirements besides k = 3 for place, and the error that all interfaces raise."""

    sqlstate: str
    code: str
    message: str
    feasible: str
    k: int = 3
    columns: tuple[str, ...] = ("place",)
    options: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] | None = None


CASES = {
    "l above the number of values": InfeasibleCase(
        "ZK002",
        "model_infeasible",
        "Even the whole table as one class violates distinct_l 5",
        '"ill" has 4 distinct values; distinct_l of "ill" is feasible up to 4',
        model={"attribute": "ill", "kind": "distinct_l", "level": 5},
    ),
    "l above what a stratum has": InfeasibleCase(
        "ZK002",
        "model_infeasible",
        "The 15 records of a stratum",
        'distinct_l of "ill" is feasible up to 1',
        options={"by": ["site"]},
        model={"attribute": "ill", "kind": "distinct_l", "level": 2},
    ),
    "t below what a stratum has": InfeasibleCase(
        "ZK002",
        "model_infeasible",
        "records of a stratum",
        't_closeness of "ill" is feasible from 0.',
        options={"by": ["site"]},
        model={"attribute": "ill", "kind": "t_closeness", "level": 0.1},
    ),
    "k above the number of rows": InfeasibleCase(
        "ZK002", "too_few_records", "There are 60 records", "60 or less.", k=61
    ),
    "k above the number of persons": InfeasibleCase(
        "ZK002",
        "too_few_records",
        "There are 20 persons",
        "20 or less.",
        k=21,
        options={"entity": "who"},
    ),
    "a pattern of NULLs below k": InfeasibleCase(
        "ZK002",
        "too_few_records",
        'A stratum holds only 6 records with NULL in "age"',
        "withholds records with a NULL instead",
        k=7,
        columns=("place", "age"),
        options={"nulls": "category"},
    ),
    "a budget below the rows with NULL": InfeasibleCase(
        "ZK003",
        "suppression_over_budget",
        "6 of 60 records would be suppressed, more than the allowed share 0.05",
        "0.1 or more.",
        columns=("place", "age"),
        options={"nulls": "suppress", "max_suppression": 0.05},
    ),
    "a budget below what fails a model": InfeasibleCase(
        "ZK002",
        "model_infeasible",
        "The 15 records of a stratum",
        "0.25 or more",
        options={"by": ["site"], "max_suppression": 0.2, "withhold_failing": True},
        model={"attribute": "ill", "kind": "distinct_l", "level": 2},
    ),
}


def by_sql(url: str, case: InfeasibleCase) -> tuple[str, str]:
    """SQLSTATE and text of the error of a call inside the database."""
    options = {
        name: case.options[name] for name in ("by", "withhold_failing") if name in case.options
    }
    if case.model is not None:
        options["models"] = [case.model]
    arguments = {
        n: case.options[n] for n in ("entity", "nulls", "max_suppression") if n in case.options
    }
    text = "".join(f", {name} => %({name})s" for name in arguments)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "SELECT dbanon.gaa_cp('app.people', 'release.people', %(columns)s, %(k)s,"
                f" sensitive => '{{ill}}', options => %(options)s{text})",  # type: ignore[arg-type]
                {
                    **arguments,
                    "columns": list(case.columns),
                    "k": case.k,
                    "options": json.dumps(options),
                },
            )
        diagnosis = caught.value.diag
        return str(diagnosis.sqlstate), f"{diagnosis.message_primary} {diagnosis.message_hint}"


def by_python(url: str, case: InfeasibleCase) -> tuple[str, str]:
    """SQLSTATE and text of the client's error."""
    models = [] if case.model is None else [dbanon.Model(**case.model)]
    with pytest.raises(dbanon.DbanonError) as caught:
        dbanon.anonymize(
            create_engine(url, poolclass=NullPool),
            table="app.people",
            output="release.people",
            quasi_identifiers=case.columns,
            sensitive=["ill"],
            k=case.k,
            method="gaa_cp",
            models=models,
            **case.options,
        )
    assert (caught.value.code, caught.value.exit_code) == (case.code, 3)
    return caught.value.sqlstate, str(caught.value)


def by_command(url: str, case: InfeasibleCase) -> tuple[str, str]:
    """SQLSTATE and text of the command's error; its exit code is 3."""
    command_line = ["--table", "app.people", "--output", "release.people", "--method", "gaa_cp"]
    command_line += ["--quasi-identifiers", ",".join(case.columns), "--sensitive", "ill"]
    command_line += ["--k", str(case.k), "--no-progress", "--format", "json"]
    for name, value in case.options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            command_line.append(option)
        else:
            command_line += [option, ",".join(value) if isinstance(value, list) else str(value)]
    if case.model is not None:
        command_line += ["--model", "{attribute}={kind}:{level}".format(**case.model)]
    done = CliRunner().invoke(main, ["anonymize", url, *command_line])
    assert done.exit_code == 3, done.output
    error = json.loads(done.output)
    error = error.get("error", error)
    assert error["code"] == case.code
    return error["sqlstate"], f"{error['message']} {error['hint']}"


@pytest.mark.parametrize("door", [by_sql, by_python, by_command], ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", CASES)
def test_infeasible_requests_are_explained(
    run_sql: Run, sql_url: str, name: str, door: Callable[[str, InfeasibleCase], tuple[str, str]]
) -> None:
    case = CASES[name]
    run_sql(PEOPLE)
    state = (
        "SELECT (SELECT array_agg(relname::text ORDER BY relname) FROM pg_class WHERE relnamespace"
        " IN (SELECT oid FROM pg_namespace WHERE nspname IN ('app', 'release', 'dbanon'))),"
        " (SELECT count(*) FROM dbanon.release)"
    )
    before = run_sql(state)
    sqlstate, text = door(sql_url, case)
    assert sqlstate == case.sqlstate
    assert case.message in text
    assert case.feasible in text
    assert not any(value in text for value in ("flu", "gout", "north"))
    assert run_sql(state) == before
    # A SQL call rolls back completely; a client records the failure in the ledger.
    expected_runs = [] if door is by_sql else [("failed", None)]
    assert run_sql("SELECT state, release_id FROM dbanon.run") == expected_runs
