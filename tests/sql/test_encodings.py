"""Databases with other encodings than UTF-8: the installed SQL is ASCII and works there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from dbanon.doors import install, sql_script
from dbanon.errors import InstallRefused
from tests.postgres_server import Server


@contextmanager
def database_of(server: Server, encoding: str) -> Iterator[str]:
    name = f"encoded_{uuid.uuid4().hex[:8]}"
    server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'"
        " LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with server.roles_dropped():
            yield server.url(name)
            server.drop_database(name)
    finally:
        server.drop_database(name)


def test_all_sql_is_ascii() -> None:
    paths = ["/home/José/dbanon"]
    for text in (
        sql_script.install_script(paths),
        sql_script.functions_script(paths, with_roles=True),
        sql_script.ledger_script(extension=True),
        sql_script.record_oids_script(),
    ):
        assert text.isascii()
    assert "for path in ['/home/Jos\\xe9/dbanon']:" in sql_script.install_script(paths)
    for file in Path(sql_script.share_path("sql")).rglob("*.sql"):
        assert file.read_bytes().isascii(), file.name


# One of a byte a character and one of several; the others differ from LATIN1 in few characters.
@pytest.mark.parametrize(
    "encoding",
    [
        "LATIN1",
        pytest.param("LATIN9", marks=pytest.mark.campaign),
        pytest.param("WIN1252", marks=pytest.mark.campaign),
        "EUC_JP",
    ],
)
def test_functions_work_in_a_database_of_another_encoding(
    sql_server: Server, backend_path: Path, encoding: str
) -> None:
    label = "東京" if encoding == "EUC_JP" else "Málaga"
    with database_of(sql_server, encoding) as url:
        install.install(url, python_paths=[str(backend_path)])
        install.upgrade(url, python_paths=[str(backend_path)])
        run = sql_server.execute
        run("CREATE SCHEMA release", url=url)
        run(
            "CREATE TABLE people AS SELECT g AS id, g % 5 AS a, %s || g % 2 AS town"
            " FROM generate_series(1, 60) AS g".replace("% ", "%% "),
            label,
            url=url,
        )
        assert run("SELECT dbanon.help('mdav')", url=url)
        call = "SELECT rows_out FROM dbanon.mondrian('people', %s, '{a,town}', 3)"
        assert run(call, "release.p", url=url) == [(60,)]
        # In the other interfaces the hint has an ellipsis.
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            run("SELECT dbanon.check_hierarchy('{\"levels\": 7}')", url=url)
        assert "..." in str(refused.value)


def test_a_database_without_encoding_is_refused(sql_server: Server, backend_path: Path) -> None:
    with database_of(sql_server, "SQL_ASCII") as url:
        for more in ({"python_paths": [str(backend_path)]}, {"sql_only": True}):
            with pytest.raises(InstallRefused, match="encoding SQL_ASCII"):
                install.install(url, **more)
