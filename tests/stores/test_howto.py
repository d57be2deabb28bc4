"""The how-to of docs/jobs.md does what it says, on DuckDB and on PostgreSQL."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from tests.docs.howto import PAGE, blocks, fill_page, run_page
from tests.docs.readme import mask
from tests.stores.databases import PostgresqlDatabase

# The table of the page, as PostgreSQL has it.
TABLE = """CREATE TABLE patient AS SELECT g::bigint AS id, 'name ' || g AS full_name,
    20 + g::bigint * 37 % 60 AS age, 20000 + g::bigint * 7919 % 60000 AS income,
    (ARRAY['flu', 'asthma', 'gout'])[1 + g * 5 % 3] AS diagnosis,
    (ARRAY['active', 'gone'])[1 + g % 2] AS status FROM generate_series(0, 999) AS g"""

# A shell function instead of the program: it forwards the command and prints the answer.
ASKS = """dbanon() { printf '%s\\n' "$@" > asked; cat answered; }
trap 'echo > asked' EXIT
"""


def answered(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell, and in this process what it asks for, each of which ends well."""
    del options["capture_output"], options["check"]
    codes = []
    for name in ("asked", "answered"):
        os.mkfifo(name)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, **options) as shell:
        while any(command_words := Path("asked").read_text(encoding="utf-8").splitlines()):
            done = CliRunner().invoke(main, command_words)
            codes.append(done.exit_code)
            Path("answered").write_text(done.stdout, encoding="utf-8")
        out, err = shell.communicate()
    assert codes
    assert set(codes) == {0}, err
    return subprocess.CompletedProcess(words, shell.returncode, out, err)


def test_every_command_has_what_it_prints() -> None:
    kinds = [kind for kind, _ in blocks()]
    assert kinds == ["how-to: table", *["how-to", "prints"] * 4]


def test_the_page_is_what_duckdb_prints(tmp_path: Path) -> None:
    page = fill_page(run_page(tmp_path))
    assert mask(PAGE.read_text(encoding="utf-8")) == mask(page), "python -m tests.docs.howto"


@pytest.mark.postgresql
def test_postgresql_prints_the_same_but_for_its_words(
    postgresql: PostgresqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.execute(TABLE)
    # Its commands run in this process: eight programs would take most of the time to start.
    monkeypatch.setenv("DBANON_URL", postgresql.url)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    outputs = run_page(tmp_path, postgresql.url, run=answered, before=ASKS)
    assert postgresql.url not in (tmp_path / "job.yaml").read_text()

    def normalized(texts: list[str]) -> list[str]:
        words = {"VARCHAR": "text", "BIGINT": "bigint", "main.patient": "public.patient"}
        text = mask("\n".join(texts))
        return re.sub("|".join(words), lambda match: words[match[0]], text).split()

    assert normalized(outputs) == normalized([text for kind, text in blocks() if kind == "prints"])
