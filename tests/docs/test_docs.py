"""Everything is documented, and examples marked as runnable work.

The line ``<!-- runnable -->`` before a block marks it. The blocks of a file run in order in one
empty directory; Python blocks share their names.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from dbanon import errors
from dbanon.doors.cli.main import main
from dbanon.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(main.commands)
ERRORS = sorted(
    {
        value.code
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.DbanonError)
    }
    - {"error"}
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
RUNNABLE = re.compile(r"<!-- runnable -->\n```(python|bash)\n(.*?)```", re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """The text below a heading of the third level, which may name several."""
    listed = rf"(?:[^\n]*, )?`?{re.escape(heading)}`?(?:, [^\n]*)?"
    match = re.search(rf"^### {listed}$(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert match, f"no heading {heading!r}"
    return match.group(1)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_its_options_are_documented(command: str) -> None:
    text = section(page("cli.md"), f"dbanon {command}") + page("cli.md").partition("###")[0]
    if command == "plan":
        # It refers to them; only additional ones are named there.
        text += section(page("cli.md"), "dbanon anonymize")
    missing = [
        option
        for parameter in main.commands[command].params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)
    ]
    assert not missing


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_documented(method: str) -> None:
    text = section(page("methods.md") + page("generalization.md"), method)
    missing = [option.name for option in METHODS[method].options if f"`{option.name}`" not in text]
    assert not missing


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_is_documented(code: str) -> None:
    assert f"`{code}`" in page("errors.md")


def test_only_existing_errors_are_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", page("errors.md"), re.M)
    assert set(documented) <= set(ERRORS)


def test_every_exit_code_is_documented() -> None:
    codes = {int(code) for code in re.findall(r"\b\d+\b", page("cli.md").rpartition("## Exit")[2])}
    assert {0, 1, 2, 3, 4, 5, 6, 9, 10, 130, 143} <= codes


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.slow
def test_runnable_examples_run(tmp_path: Path, monkeypatch: Any) -> None:
    bin_directory = str(Path(sys.executable).parent)
    # README, microdata.md and chains.md have tests of their own, which also compare the output.
    for path in PAGES[1:]:
        if path.name in ("chains.md", "microdata.md"):
            continue
        (tmp_path / path.stem).mkdir()
        monkeypatch.chdir(tmp_path / path.stem)
        names: dict[str, Any] = {"__name__": "example"}
        for language, code in RUNNABLE.findall(path.read_text(encoding="utf-8")):
            if language == "python":
                exec(compile(code, path.name, "exec"), names)
            else:
                subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", code],
                    check=True,
                    capture_output=True,
                    env={**os.environ, "PATH": f"{bin_directory}:{os.environ['PATH']}"},
                )


def test_the_counts_of_attacks_are_those_of_the_tests() -> None:
    from tests.sql.test_attacks_relations import RELATIONS
    from tests.sql.test_attacks_types import TYPES

    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"{len(TYPES)} kinds of types and {len(RELATIONS)} kinds of relations" in policy
