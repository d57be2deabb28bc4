"""Wrong inputs in three interfaces: error code, exit code, SQLSTATE, and a fitting hint.

All cases share a database: Python and the command line connect to it, SQL runs inside. No output
contains a value of the data, and no call leaves anything. The cases are in
``tests.sql.wrong_inputs``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

import dbanon
from dbanon import errors
from dbanon.data.option import Parameter, all_parameters
from dbanon.doors.cli.main import main
from dbanon.doors.spelling import flag
from dbanon.doors.sql_script import method_arguments
from dbanon.job.job import Job
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from tests.postgres.connection_pool import pooled
from tests.postgres.warm import close_warm, warm
from tests.postgres_server import Server, conninfo
from tests.sql.wrong_inputs import CALLS, CONNECTED, RIGHT, TABLES, WRONG

OPTIONS = {parameter.name: parameter for parameter in all_parameters(Job)}
DOORS = ("python", "cli", "sql")
BY_CODE = {
    value.code: value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.DbanonError)
}
VALUES = re.compile(r"73173|qzmark", re.IGNORECASE)


@pytest.fixture(scope="module")
def clinic(sql_server: Server, sql_template: str) -> Iterator[str]:
    """A database that is in the same state for every wrong input."""
    with sql_server.database(template=sql_template) as url:
        for statement in TABLES:
            sql_server.execute(statement, url=url)
        # Starting a backend takes longer than refusing.
        with warm(url):
            yield url
        close_warm()


@pytest.fixture
def state(sql_server: Server, clinic: str) -> Iterator[Callable[[], bool]]:
    """Require the same relations and releases as before, and remove anything else."""

    def now() -> Any:
        return sql_server.execute(
            "SELECT n.nspname, c.relname, obj_description(c.oid) FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
            " UNION ALL SELECT 'release', release_id::text, '' FROM dbanon.release"
            " UNION ALL SELECT 'hierarchy', name, '' FROM dbanon.hierarchy ORDER BY 1, 2",
            url=clinic,
        )

    before = now()
    yield lambda: now() == before
    sql_server.execute("DROP TABLE IF EXISTS release.people, release.people_summary", url=clinic)


@pytest.fixture(scope="module")
def urls(sql_server: Server, clinic: str) -> Callable[[Mapping[str, Any]], str]:
    """The URL of the calling role, with parameters."""
    roles = {}
    for name in ("blind", "reader"):
        roles[name] = sql_server.create_role(name, url=clinic, options="IN ROLE dbanon_runner")
        sql_server.execute(f"GRANT USAGE ON SCHEMA app, release TO {name}", url=clinic)
    sql_server.execute("GRANT SELECT ON app.people TO reader", url=clinic)
    sql_server.execute("GRANT CREATE ON SCHEMA release TO blind", url=clinic)

    def url_for(how: Mapping[str, Any]) -> str:
        url = make_url(roles.get(how.get("role", ""), clinic))
        return url.update_query_dict(how.get("query", {})).render_as_string(hide_password=False)

    return url_for


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", [*WRONG, *CONNECTED, *CALLS])
def test_a_wrong_input(
    case: str, door: str, urls: Callable[[Mapping[str, Any]], str], state: Callable[[], bool]
) -> None:
    case_input = asked_for(case)
    url = urls(CONNECTED.get(case, ("", {}))[1])
    kind = BY_CODE[case_input.code]
    if door == "python":
        hint = by_python(kind, lambda: case_input.python(url))
    elif door == "cli":
        words = [url if word == "URL" else word for word in case_input.words]
        hint = by_command(kind, words, url, click=re.search(r"\((word|missing)\)$", case))
    else:
        hint = by_sql(kind, url, case_input)
    # Hints fit the interface: flags only on the command line, => only in SQL, no placeholders.
    assert "`" not in hint
    # dbanon's administration commands are named in all interfaces.
    hint = re.sub(r"dbanon (install|upgrade)( --[a-z-]+)?", "", hint)
    assert door == "cli" or not re.search(r"(^|\s)--[a-z]", hint), hint
    assert door == "sql" or "=>" not in hint, hint
    assert door == "python" or not re.search(r'\b[a-z_]+=["\[\d]', hint), hint
    assert state(), "something is left"


@dataclass(frozen=True)
class CaseInput:
    """One wrong call in the form of each interface."""

    code: str
    python: Callable[[str], Any]
    words: list[str]
    sql: str
    values: tuple[Any, ...] = ()
    sqlstate: str | None = None


def asked_for(case: str) -> CaseInput:
    if case in CALLS:
        return CaseInput(*CALLS[case])
    code, changes = WRONG.get(case) or (CONNECTED[case][0], {})
    job = {**RIGHT, **changes}

    def python(url: str) -> None:
        arguments = dict(job)
        if "models" in arguments:
            arguments["models"] = [Model(**fields) for fields in arguments["models"]]
        dbanon.anonymize(url, **arguments)

    words = ["anonymize", "URL", "--no-progress"]
    for name, value in job.items():
        words += in_words(OPTIONS[name], value)
    return CaseInput(code, python, words, *in_a_call(job))


def by_python(kind: type[errors.DbanonError], call: Callable[[], object]) -> str:
    with pytest.raises(errors.DbanonError) as caught:
        call()
    assert type(caught.value) is kind, caught.value
    assert not VALUES.search(f"{caught.value} {caught.value!r}")
    assert caught.value.__cause__ is None
    return caught.value.hint or ""


def by_command(
    kind: type[errors.DbanonError], words: list[str], url: str, click: re.Match[str] | None
) -> str:
    form = [] if words[:2] == ["hierarchy", "drop"] else ["--format", "json"]
    done = CliRunner().invoke(main, [*words, *form])
    assert done.exit_code == kind.exit_code, done.output
    assert not VALUES.search(done.output.replace(url, ""))
    if click is not None:
        assert {"word": "Invalid value for '--", "missing": "Missing option '--"}[
            click[1]
        ] in done.stderr
        return ""
    if not form:
        assert f"[{kind.code}]" in done.stderr
        return done.stderr.partition("Hint: ")[2]
    error_fields = json.loads(done.stdout)["error"]
    assert error_fields["code"] == kind.code, error_fields
    assert error_fields["sqlstate"] == kind.sqlstate
    assert error_fields["exit_code"] == kind.exit_code
    return str(error_fields["hint"] or "")


def in_words(parameter: Parameter, value: Any) -> list[str]:
    """An option as it is written on the command line."""
    name = flag(parameter)
    if value is None:
        return []
    if parameter.item_type is ColumnSet:
        return [part for columns in value for part in (name, ",".join(columns))]
    if parameter.item_type is Model:
        texts = [f"{model['attribute']}={model['kind']}:{model['level']}" for model in value]
        return [part for text in texts for part in (name, text)]
    if parameter.name == "shift_dates":
        return [name, f"{','.join(value['columns'])}={value['days']}"]
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
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def in_a_call(inputs: Mapping[str, Any]) -> tuple[str, tuple[Any, ...], str | None]:
    """A run in SQL: statement, values, and the SQLSTATE if the server itself refuses it."""
    job = dict(inputs)
    source, method = job.pop("table"), job.pop("method", "mdav")
    extra_options = job.pop("options", {})
    named = [name for name in job if name in method_arguments()]
    options = {name: job[name] for name in job if name not in named} | extra_options
    types = {"k": "::integer", "hierarchies": "::jsonb", "max_suppression": "::float8"}
    types |= dict.fromkeys(("quasi_identifiers", "keep", "sensitive"), "::text[]")
    call = ", ".join(f"{name} => %s{types.get(name, '::text')}" for name in named)
    values = [json.dumps(job[name]) if name == "hierarchies" else job[name] for name in named]
    # JSON has no such numbers: a call would write them as text.
    options_json = json.dumps(options).replace("NaN", '"NaN"').replace("Infinity", '"Infinity"')
    numbers = (job["k"], job.get("max_suppression"))
    return (
        f"SELECT dbanon.{method}(source => %s::regclass, {call}, options => %s::jsonb)",
        (source, *values, options_json),
        # A word where PostgreSQL expects a number.
        "22P02" if any(isinstance(number, str) for number in numbers) else None,
    )


def by_sql(kind: type[errors.DbanonError], url: str, case_input: CaseInput) -> str:
    # Reuse the connection: loading Python and dbanon takes longer than everything else.
    with pooled(conninfo(url)) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(case_input.sql.encode(), case_input.values or None)
    diagnostics = caught.value.diag
    assert diagnostics.sqlstate == (case_input.sqlstate or kind.sqlstate), (
        diagnostics.message_primary
    )
    parts = (
        diagnostics.message_primary,
        diagnostics.message_detail,
        diagnostics.message_hint,
        diagnostics.context,
    )
    assert not VALUES.search(" ".join(map(str, parts)))
    return diagnostics.message_hint or ""


def test_they_are_enough() -> None:
    assert len({*WRONG, *CONNECTED, *CALLS}) >= 100
    assert {*RIGHT, *(name for _, changes in WRONG.values() for name in changes)} >= {
        # For the three interfaces.
        name
        for name, parameter in OPTIONS.items()
        if parameter.option.available_in_sql and name != "local_range"
    }
