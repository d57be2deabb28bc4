"""The examples in the documentation work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dbanon.methods import METHODS
from tests.postgres_server import Server

ROOT = Path(__file__).resolve().parents[2]


def test_the_psql_session_prints_the_documented_output(sql_server: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "examples.psql_session"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "examples" / "psql_session.out").read_text()


def test_every_function_is_documented(sql_server: Server, sql_url: str) -> None:
    text = (ROOT / "docs" / "sql.md").read_text()
    functions = sql_server.execute(
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace"
        " AND proname NOT LIKE '\\_%'",
        url=sql_url,
    )
    for (name,) in functions:
        assert name in METHODS or f"`dbanon.{name}(" in text, name
