"""Proposed job files for tables with unusual column names."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import yaml
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.init import render_job_file

# Names with YAML line breaks or invalid characters, with YAML syntax, or that YAML reads as
# non-text.
STRANGE_NAMES = [
    "a\u2028b",
    "a\u2029b",
    "a\u0085b",
    "\ufeffa",
    "a\ufeff",
    "a\nb",
    "a\rb",
    "a\tb",
    "\x01",
    "\x7f",
    "\u200f",
    "\u202ea",
    "\u00a0",
    "\U0001f600",
    "yes",
    "No",
    "on",
    "y",
    "null",
    "~",
    "true",
    "1",
    "010",
    "1_000",
    "0x1F",
    "1e5",
    ".5",
    ".inf",
    "2020-01-01",
    "1:30",
    "=",
    "<<",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a",
    "a: b",
    "a #b",
    "- a",
    "? a",
    ": a",
    "{a}",
    "[a]",
    "'a'",
    '"a"',
    "a\\b",
    " a ",
    "$a",
    "${a}",
    "$$",
    "#a",
    "|",
    "---",
    "...",
    "a" * 1100,
]


# The columns of one table.
AT_ONCE = 8
TABLES = [STRANGE_NAMES[first : first + AT_ONCE] for first in range(0, len(STRANGE_NAMES), AT_ONCE)]


@pytest.mark.parametrize("names", TABLES, ids=ascii)
def test_check_accepts_job_files_of_init_for_any_name(names: list[str], tmp_path: Path) -> None:
    """Also part of longer names, including those of the entity and the key."""
    path = tmp_path / "a.duckdb"
    quoted = ['"' + name.replace('"', '""') for name in names]
    columns = ", ".join(f'range % {3 + i} AS {name}"' for i, name in enumerate(quoted))
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f'CREATE TABLE people AS SELECT {columns}, range // 2 AS {quoted[0]} person id",'
            " range AS row_number FROM range(60)"
        )
    file = tmp_path / "job.yaml"
    file.write_text(render_job_file(f"duckdb:///{path}", "people", k=2, key=names), "utf-8")
    [job] = read_job_file(file).jobs
    assert job.job.key == tuple(names)
    assert CliRunner().invoke(main, ["check", str(file)]).exit_code == 0
    # Other parsers read the same.
    [plain] = yaml.safe_load(file.read_text("utf-8"))["jobs"]
    assert [*plain["columns"]][: len(names)] == names == plain["key"]
