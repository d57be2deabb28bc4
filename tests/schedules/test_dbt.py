"""dbt runs the example project on DuckDB and PostgreSQL: which commands release."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from sqlalchemy import make_url

from dbanon.doors import install
from tests.postgres_server import Server, libpq_environment
from tests.schedules.commands import EXAMPLES

# The same text for both databases.
STAYS = (
    "CREATE SCHEMA hospital",
    "CREATE TABLE hospital.stay AS SELECT 20 + g * 37 % 60 AS age, g * 7919 % 60000 AS income,"
    " CASE WHEN g % 2 = 0 THEN 'flu' ELSE 'gout' END AS diagnosis,"
    " CASE WHEN g % 3 = 0 THEN 'gone' ELSE 'active' END AS status"
    " FROM generate_series(1, 600) AS s(g)",
)


@dataclass
class Project:
    """A copy of the example project with its own database."""

    folder: Path
    target: str
    programs: Path
    environment: dict[str, str]
    server: Server | None = None
    url: str = ""

    def dbt(self, *words: str, fails: bool = False) -> str:
        """The output of a dbt command."""
        done = subprocess.run(
            [
                self.programs / "dbt",
                "--no-use-colors",
                *words,
                "--profiles-dir",
                ".",
                "--target",
                self.target,
            ],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        if self.server is not None:
            return self.server.execute(statement, url=self.url)
        with duckdb.connect(self.environment["CLINIC"]) as clinic:
            return clinic.execute(statement).fetchall()

    def releases(self) -> int:
        ledger_query = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'dbanon'"
        if not self.execute(f"{ledger_query} AND table_name = 'release'"):
            return 0
        return int(self.execute("SELECT count(*) FROM dbanon.release")[0][0])


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.postgresql)])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, scheduler: Path, backend_path: Path
) -> Iterator[Project]:
    folder = tmp_path / "dbt"
    shutil.copytree(EXAMPLES / "dbt", folder)
    environment = {
        "PATH": f"{scheduler}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "PGHOST": "",
        "PGUSER": "",
        "PGDATABASE": "",
    }
    if request.param == "duckdb":
        environment |= {"CLINIC": str(tmp_path / "clinic.duckdb"), "PYTHONPATH": str(backend_path)}
        dbt_project = Project(folder, "duckdb", scheduler, environment)
        for statement in STAYS:
            dbt_project.execute(statement)
        yield dbt_project
        return
    url = request.getfixturevalue("plpython_url")
    server = request.getfixturevalue("local_pg_server")
    install.install(url, python_paths=[str(backend_path)])
    for statement in STAYS:
        server.execute(statement, url=url)
    libpq = libpq_environment(
        server.create_role("transformer", url=url, options="IN ROLE dbanon_runner")
    )
    for statement in (
        f'GRANT CREATE ON DATABASE "{make_url(url).database}" TO transformer',
        "GRANT USAGE ON SCHEMA hospital TO transformer",
        "GRANT SELECT ON hospital.stay TO transformer",
        "CREATE SCHEMA release AUTHORIZATION transformer",
    ):
        server.execute(statement, url=url)
    yield Project(folder, "postgres", scheduler, environment | libpq, server, url)


@pytest.mark.scheduler("dbt")
def test_only_successful_runs_make_a_release(project: Project) -> None:
    # Before the model exists, compiling, testing or documenting it releases nothing.
    project.dbt("compile")
    project.dbt("docs", "generate")
    assert project.releases() == 0
    assert "Release of people" in project.dbt("run")
    assert project.releases() == 1
    for words in (("compile",), ("docs", "generate"), ("test",), ("parse",), ("list",)):
        assert "Release of" not in project.dbt(*words)
        assert project.releases() == 1, words
    assert "Release of people" in project.dbt("build")
    assert project.releases() == 2
    [(rows, smallest)] = project.execute(
        "SELECT sum(n), min(n) FROM (SELECT count(*) AS n FROM release.people"
        " GROUP BY age, income) AS classes"
    )
    assert (rows, smallest >= 5) == (400, True)
    # A failing model, a failing test, and an unselected model.
    models = project.folder / "models"
    (models / "broken.sql").write_text("SELECT * FROM hospital.no_such_table")
    for command in ("run", "build"):
        assert "No release of people, as these failed: broken" in project.dbt(command, fails=True)
    (models / "broken.sql").write_text("SELECT 1 AS one")
    assert "it was not built" in project.dbt("run", "--select", "broken")
    schema = yaml.safe_load((models / "schema.yml").read_text())
    schema["models"][0]["columns"][0]["data_tests"] = [
        {"accepted_values": {"arguments": {"values": [1]}}}
    ]
    (models / "schema.yml").write_text(yaml.safe_dump(schema))
    assert "No release of people, as these failed: accepted" in project.dbt("build", fails=True)
    assert project.releases() == 2


@pytest.mark.scheduler("dbt")
def test_a_release_that_is_refused_fails_the_run(project: Project) -> None:
    text = (project.folder / "dbt_project.yml").read_text()
    (project.folder / "dbt_project.yml").write_text(text.replace("k=5", "k=500"))
    assert "k = 500" in project.dbt("run", fails=True)
    assert project.releases() == 0


def put_test(project: Project, source: str, table: str, arguments: object) -> None:
    """Put the generic test on a table that dbt does not create."""
    table_tests = {"name": table, "data_tests": [{"k_anonymity": {"arguments": arguments}}]}
    sources = {"sources": [{"name": source, "tables": [table_tests]}]}
    (project.folder / "models" / "released.yml").write_text(yaml.safe_dump(sources))


@pytest.mark.scheduler("dbt")
def test_k_anonymity_is_a_generic_test(project: Project) -> None:
    project.dbt("run")
    put_test(project, "release", "people", {"quasi_identifiers": ["age", "income"], "k": 5})
    assert "PASS source_k_anonymity_release_people" in project.dbt(
        "test", "--select", "source:release"
    )
    # A class that is too small, and one of NULL.
    project.execute('CREATE TABLE app."some_rows" ("Age" INTEGER, note VARCHAR(9))')
    rows = ", ".join(["(41, 'a')"] * 3 + ["(NULL, 'b')"] * 2 + ["(7391, 'c')"])
    project.execute(f'INSERT INTO app."some_rows" VALUES {rows}')
    if project.server is not None:
        project.execute('GRANT SELECT ON app."some_rows" TO transformer')
    for k, classes in ((2, 1), (3, 2), (4, 3)):
        put_test(project, "app", "some_rows", {"quasi_identifiers": ["Age"], "k": k})
        output = project.dbt("test", "--select", "source:app", "--store-failures", fails=True)
        assert f"Got {classes} result" in output
        assert "7391" not in output
    columns_query = "SELECT table_schema, table_name FROM information_schema.columns"
    tables = project.execute(f"{columns_query} WHERE column_name = 'class_size'")
    # One for each k: only numbers of rows.
    stored_failures = [
        project.execute(f'SELECT * FROM "{schema}"."{name}"') for schema, name in tables
    ]
    assert sorted(sorted(rows) for rows in stored_failures) == [
        [(1,)],
        [(1,), (2,)],
        [(1,), (2,), (3,)],
    ]


@pytest.mark.scheduler("dbt")
@pytest.mark.parametrize("project", ["duckdb"], indirect=True)
@pytest.mark.parametrize(
    "arguments",
    [
        {"quasi_identifiers": ["age"], "k": 1},
        {"quasi_identifiers": ["age"], "k": "5"},
        {"quasi_identifiers": ["age"], "k": True},
        {"quasi_identifiers": "age", "k": 5},
        {"quasi_identifiers": [], "k": 5},
    ],
)
def test_k_anonymity_refuses_trivial_checks(project: Project, arguments: object) -> None:
    put_test(project, "release", "people", arguments)
    assert "k_anonymity: " in project.dbt("test", "--select", "source:release", fails=True)


@pytest.mark.scheduler("dbt")
@pytest.mark.parametrize("project", ["duckdb"], indirect=True)
def test_without_the_guards_dbt_would_release(project: Project) -> None:
    """The macro's conditions handle something that dbt actually does."""
    file = project.folder / "macros" / "dbanon_release.sql"
    text = file.read_text()
    call = text.index("{{ adapter.dispatch(")
    start = text.index("  {%- if execute and flags.WHICH")
    end = text.index("{% endmacro %}")
    bare = text[call : text.index("\n", call)].replace("built[0]", "'app.people'")
    file.write_text(f"{text[:start]}{{%- if execute -%}} {bare} {{%- endif -%}}\n{text[end:]}")
    project.dbt("run")
    assert project.releases() == 1
    # dbt does so after `test`; dbt 1.11 only renders it after `compile` and `docs generate`.
    project.dbt("test")
    assert project.releases() == 2
