"""Accounts of MariaDB: where a password comes from, and what a refused one is called."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import AccessRefused, DbanonError, InsufficientRights
from tests.mariadb_server import MariadbServer
from tests.prerequisites import only_where
from tests.stores.databases import MariadbDatabase
from tests.stores.people import load_people

pytestmark = pytest.mark.mariadb
PASSWORD = "p#ss word%1"


@pytest.fixture
def clerk(
    mariadb: MariadbDatabase,
    mariadb_server: MariadbServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The URL of an account that has a password, without the password; HOME is empty."""
    load_people(mariadb)
    [(database,)] = mariadb.rows("SELECT database()")
    mariadb_server.execute(
        "CREATE USER clerk@localhost IDENTIFIED VIA mysql_native_password USING"
        f" PASSWORD('{PASSWORD}')",
        "GRANT ALL ON *.* TO clerk@localhost",
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    yield mariadb_server.url(str(database), user="clerk")
    mariadb_server.execute("DROP USER clerk@localhost")


def reaches(url: str) -> bool:
    try:
        dbanon.plan(url, table="people", output="released", quasi_identifiers=["age"], k=3)
    except AccessRefused:
        return False
    return True


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


@pytest.mark.parametrize("wrong", ["", "wrong-one"])
def test_a_refused_account_is_not_an_unreachable_server(clerk: str, wrong: str) -> None:
    url = clerk.replace("clerk@", f"clerk:{wrong}@") if wrong else clerk
    with pytest.raises(AccessRefused) as caught:
        dbanon.plan(url, table="people", output="released", quasi_identifiers=["age"], k=3)
    error = caught.value
    assert (error.code, error.exit_code) == ("access_refused", 5)
    assert error.message.startswith("The server refused the login")
    assert "reached" not in str(error)
    assert "wrong-one" not in str(error)
    assert "'clerk'@'localhost'" in str(error.detail)
    for password_source in ("~/.my.cnf", "MYSQL_PWD", "${VAR}"):
        assert password_source in str(error.hint)


def test_a_database_of_others_is_a_matter_of_rights(
    clerk: str, mariadb_server: MariadbServer
) -> None:
    mariadb_server.execute("REVOKE ALL ON *.* FROM clerk@localhost")
    with pytest.raises(InsufficientRights, match="may not use this database"):
        dbanon.plan(
            clerk.replace("clerk@", "clerk:p%23ss%20word%251@"),
            table="people",
            output="released",
            quasi_identifiers=["age"],
            k=3,
        )


def test_the_hint_works_as_written(
    clerk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three places that it names."""
    assert not reaches(clerk)
    write(tmp_path / ".my.cnf", f'[client]\npassword = "{PASSWORD}"\n')
    assert reaches(clerk)
    (tmp_path / ".my.cnf").unlink()
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    assert reaches(clerk)
    monkeypatch.delenv("MYSQL_PWD")
    monkeypatch.setenv("DB_PASSWORD", "p%23ss%20word%251")
    job = tmp_path / "job.yaml"
    job.write_text(
        f'version: 1\nsource: {{url: "{clerk.replace("clerk@", "clerk:${DB_PASSWORD}@")}"}}\n'
        "defaults: {on_new_column: drop}\njobs:\n"
        "  - {name: a, table: people, k: 3, output: {table: released}, columns: {age: {role:"
        " quasi_identifier}}}\n"
    )
    done = CliRunner().invoke(main, ["plan", str(job)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_ignored(clerk: str, tmp_path: Path, mode: int) -> None:
    write(tmp_path / ".my.cnf", f"[client]\npassword={PASSWORD}\n", mode)
    assert not reaches(clerk)


@only_where(os.geteuid() == 0, "files of other accounts are made by root")
def test_a_file_of_another_account_is_ignored(clerk: str, tmp_path: Path) -> None:
    write(tmp_path / ".my.cnf", f"[client]\npassword={PASSWORD}\n")
    os.chown(tmp_path / ".my.cnf", 65534, 65534)
    assert not reaches(clerk)


def test_of_the_file_only_the_account_is_taken(clerk: str, tmp_path: Path) -> None:
    """Its socket, host and database would lead elsewhere; options without a value are no error."""
    write(
        tmp_path / ".my.cnf",
        "!includedir /etc/mysql/conf.d\n[client]\nsocket=/nowhere\nhost=nowhere\ncompress\n"
        "database=nothing\npassword=another\n"
        f"[client-mariadb]\nuser=clerk\npassword='{PASSWORD}'\n[mysqld]\npassword=third\n",
    )
    assert reaches(clerk)
    assert reaches(clerk.replace("clerk@", ""))


@pytest.mark.parametrize("text", ["password without a group\n", "[client\n", "\udc80"])
def test_a_file_that_is_none_is_no_error(clerk: str, tmp_path: Path, text: str) -> None:
    path = tmp_path / ".my.cnf"
    path.write_bytes(text.encode(errors="surrogateescape"))
    path.chmod(0o600)
    assert not reaches(clerk)


def test_a_password_of_the_url_comes_first(
    clerk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", "another")
    write(tmp_path / ".my.cnf", "[client]\npassword=another\n")
    assert reaches(clerk.replace("clerk@", "clerk:p%23ss%20word%251@"))


def test_a_file_that_the_url_names(clerk: str, tmp_path: Path) -> None:
    write(tmp_path / "own.cnf", f"[client]\npassword={PASSWORD}\n")
    assert reaches(f"{clerk}&read_default_file={tmp_path / 'own.cnf'}")


def test_no_password_is_shown(clerk: str, tmp_path: Path) -> None:
    write(tmp_path / ".my.cnf", f"[client]\npassword={PASSWORD}\n")
    with pytest.raises(DbanonError) as caught:
        dbanon.plan(clerk, table="nobody", output="released", quasi_identifiers=["age"], k=3)
    assert PASSWORD not in f"{caught.value} {caught.value.to_dict()}"


def test_the_right_to_grant_for_a_recount_is_named_as_mariadb_quotes(
    clerk: str, mariadb_server: MariadbServer
) -> None:
    # The right to insert shows the columns, and not the rows.
    mariadb_server.execute(
        "REVOKE ALL ON *.* FROM clerk@localhost", "GRANT INSERT ON app.people TO clerk@localhost"
    )
    url = clerk.replace("clerk@", "clerk:p%23ss%20word%251@")
    with pytest.raises(InsufficientRights) as caught:
        dbanon.verify(url, "app.people", quasi_identifiers=["age"], k=3)
    assert caught.value.hint == "Its owner runs: GRANT SELECT ON `app`.`people` TO …;"
