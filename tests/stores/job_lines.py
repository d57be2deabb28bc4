"""Job files over the invented people, and the command line on them, for tests of any database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main

ROLES = {
    "id": "{role: identifier}",
    "name": "{role: identifier}",
    "age": "{role: quasi_identifier, weight: 2}",
    "income": "{role: quasi_identifier}",
    "height": "{role: drop}",
    "born": "{role: drop}",
    "seen": "{role: drop}",
    "site": '{role: keep, reason: "a public list"}',
}


def job(
    name: str = "people",
    roles: Mapping[str, str] = ROLES,
    output: str = "{view: people, keep_last: 2}",
    **more: str,
) -> str:
    """A job of a file; ``more`` are keys with their text as YAML."""
    lines = [f"  - name: {name}", *(f"    {key}: {text}" for key, text in more.items())]
    lines += [] if "table" in more else ["    table: people"]
    lines += ["    columns:", *(f'      "{column}": {role}' for column, role in roles.items())]
    return "\n".join([*lines, f"    output: {output}"]) + "\n"


def write(
    tmp_path: Path, *jobs: str, defaults: str = "{k: 3}", head: str = "", name: str = "job.yaml"
) -> Path:
    """A job file; ``head`` is text of more keys of the file."""
    file = tmp_path / name
    text = 'version: 1\nsource: {url: "${PEOPLE}"}\ntarget: {schema: release}\n'
    file.write_text(f"{text}{head}defaults: {defaults}\njobs:\n" + "".join(jobs))
    return file


def call(*words: Any, **environment: str) -> Result:
    """A command, which ends as one does."""
    done = CliRunner().invoke(
        main, [str(word) for word in words], env={"COLUMNS": "200", **environment}
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def job_results(done: Result) -> Any:
    """The jobs of a command's JSON result."""
    return json.loads(done.stdout)["jobs"]
