"""Invalid rules are refused by every interface, and each hint works when copied."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.engines import Engine
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import RulesNotTrusted
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from tests.sql.rule_owners import LEAKING, RELEASE, Connect, Run, not_trusted, roles
from tests.sql.test_rules import DECLARE, PERSON

__all__ = ["roles"]

pytestmark = pytest.mark.one_database


def test_at_every_door(
    roles: dict[str, str], run_sql: Run, connect: Connect, tmp_path: Any
) -> None:
    """Python, command line, job files, plans, clusters and refreshes refuse them."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    run_sql("GRANT USAGE ON SCHEMA release TO PUBLIC")
    run_sql("ALTER TABLE app.person OWNER TO bob")
    run_sql("GRANT SELECT ON app.person TO anna")
    url = roles["anna"]
    arguments: dict[str, Any] = {
        "table": "app.person",
        "declared": True,
        "k": 5,
        "output": "release.q",
    }
    for call in (
        lambda: dbanon.anonymize(url, **arguments),
        lambda: dbanon.plan(url, **arguments),
        lambda: dbanon.refresh(url, "release.p"),
        lambda: dbanon.refresh(url, "release.p", accept=["rules", "source"]),
        lambda: Engine("spark", "local[1]").run(
            Job(
                table="app.person",
                output="release.q",
                quasi_identifiers=(),
                declared=RULES_NOT_READ,
                policy=dbanon.Policy(k=5),
            ),
            url,
            url,
        ),
    ):
        with pytest.raises(RulesNotTrusted) as refused:
            call()
        assert (refused.value.exit_code, refused.value.sqlstate) == (5, "42501")
        assert "dbanon.declare(database" in str(refused.value.hint)
    for statement in (
        "SELECT dbanon.refresh('release.p')",
        "SELECT dbanon.refresh('release.p', '{rules,source}')",
        "SELECT dbanon.anonymize('app.person', 'release.q', k => 5)",
    ):
        with not_trusted("name"):
            anna.execute(statement.encode())
    job = tmp_path / "job.yaml"
    job.write_text(
        f"version: 1\nsource: {{url: '{url}'}}\njobs:\n  - {{name: person, table: app.person, k: 5,"
        " columns: declared, output: {table: release.q}}\n"
    )
    options = ["--table", "app.person", "--k", "5", "--declared", "--output", "release.q"]
    for line in (
        ["anonymize", url, *options],
        ["plan", url, *options],
        ["refresh", url, "release.p"],
        ["run", str(job), "--allow-inline-password"],
        ["plan", str(job), "--allow-inline-password"],
    ):
        done = CliRunner().invoke(main, line)
        assert (done.exit_code, "rules_not_trusted" in done.output) == (5, True), (
            line,
            done.output,
        )
    assert run_sql("SELECT to_regclass('release.q')") == [(None,)]


def test_hints_work_when_copied(
    roles: dict[str, str], run_sql: Run, connect: Connect, tmp_path: Any, monkeypatch: Any
) -> None:
    """For the command line and Python, with a table name that needs all kinds of quoting."""
    monkeypatch.chdir(tmp_path)
    table = 'app."Per`s\'on"'
    sql = "'" + table.replace("'", "''") + "'"
    for door in ("python", "cli"):
        connect(roles["anna"]).execute(PERSON.replace("app.person", table).encode())
        connect(roles["anna"]).execute(DECLARE.replace("'app.person'", sql).encode())
        run_sql(f"ALTER TABLE {table} OWNER TO bob")
        url = roles["bob"]
        arguments = {
            "table": "app.Per`s'on",
            "declared": True,
            "k": 5,
            "output": f"release.{door}",
            "releases": "independent",
        }
        with pytest.raises(RulesNotTrusted) as refused:
            dbanon.anonymize(url, **arguments)
        hint = str(refused.value.hint)
        if door == "python":
            exec(hint[hint.index("dbanon.declare") :], {"dbanon": dbanon, "database": url})
        else:
            line = str(refused.value.format_hint(spell_cli_option))
            show, _, declare = line[line.index("dbanon rules") :].partition("; ")
            words = shlex.split(show)
            done = CliRunner().invoke(
                main, [url if word == "URL" else word for word in words[1 : words.index(">")]]
            )
            assert done.exit_code == 0, done.output
            (tmp_path / "rules.json").write_text(done.stdout)
            words = shlex.split(declare)[1:]
            done = CliRunner().invoke(main, [url if word == "URL" else word for word in words])
            assert done.exit_code == 0, done.output
        assert dbanon.anonymize(url, **arguments).k_achieved == 5
        run_sql(f"DROP TABLE {table}")
        run_sql("DELETE FROM dbanon.rule")


def test_advice_does_not_take_rules_of_others_for_decisions(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    mallory = connect(roles["mallory"])
    mallory.execute(PERSON)
    mallory.execute(LEAKING.encode())
    mallory.execute("DROP TABLE app.person")
    connect(roles["anna"]).execute(PERSON)
    url = roles["anna"]
    line = ["advise", url, "--table", "app.person", "--k", "3", "--declare", "--yes"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert "Declared by someone other than the current owner" in done.stderr
    proposals = dict(
        run_sql("SELECT column_name, role FROM dbanon.rules('app.person') WHERE state = 'current'")
    )
    assert proposals["name"] == "identifier"
