"""A server without OpenDP: the call prints the install command and spends nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import psycopg
import pytest

import dbanon
from tests.sql.private_calls import CALL, MAGIC, Connect, Run, spent


def test_the_hint_installs_opendp_beside_the_servers_dbanon(
    run_sql: Run, connect: Connect, sql_url: str, backend_path: Path
) -> None:
    run_sql(MAGIC)
    dbanon.create_budget(sql_url, "magic", source="app.magic", epsilon=3)
    with pytest.raises(psycopg.Error, match="not installed") as failure:
        connect(sql_url).execute(CALL.format("magic", 1))
    hint = str(failure.value.diag.message_hint)
    intro, _, command = hint.partition(": ")
    assert intro == "On the server's machine run"
    sudo, python, *arguments = shlex.split(command)
    assert (sudo, python.partition(".")[0]) == ("sudo", "python3")
    assert arguments == ["-m", "pip", "install", "--target", str(backend_path), "opendp>=0.16"]
    assert spent(run_sql) == (0.0, 0)
