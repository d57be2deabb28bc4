"""docs/managed.md: servers whose administrator is not a superuser."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import make_url

from tests.postgres_server import Server
from tests.sql.ledger_entries import PEOPLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "managed.md"


def test_an_administrator_without_superuser(
    sql_server: Server, fresh: Callable[[], str], programs: str
) -> None:
    url = fresh()
    admin = sql_server.create_role("service_admin", url=url, options="CREATEROLE")
    publisher = sql_server.create_role("publisher", url=url)
    for statement in (
        "CREATE SCHEMA app",
        "CREATE SCHEMA release",
        PEOPLE,
        f'GRANT CREATE ON DATABASE "{make_url(url).database}" TO service_admin',
        "GRANT USAGE ON SCHEMA app TO publisher",
        "GRANT SELECT ON app.people TO publisher",
        "GRANT USAGE, CREATE ON SCHEMA release TO publisher",
    ):
        sql_server.execute(statement, url=url)
    if sql_server.version >= 16:
        # Rights of a role creator there; another test's administrator may have created them.
        for (role,) in sql_server.execute(
            "SELECT rolname FROM pg_roles WHERE rolname ~ '^dbanon_'"
        ):
            sql_server.execute(
                f"GRANT {role} TO service_admin WITH ADMIN OPTION, INHERIT FALSE, SET FALSE"
            )
    [script] = re.findall(r"<!-- managed -->\n```bash\n(.*?)```", PAGE.read_text(), re.S)
    urls = {
        name: make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        for name, url in (("ADMIN", admin), ("PUBLISHER", publisher))
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": programs, "COLUMNS": "200", **urls},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"unchanged \n-+\n t\n", done.stdout), done.stdout
    assert sql_server.execute(
        "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'dbanon.release'::regclass",
        url=url,
    ) == [("dbanon_ledger",)]
    # Before the role that granted it: from PostgreSQL 16 on the membership names that role.
    sql_server.execute("DROP OWNED BY publisher CASCADE", url=url)
    sql_server.execute("DROP ROLE publisher")
