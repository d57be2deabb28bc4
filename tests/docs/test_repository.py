"""Repository files that people and forges read agree with the project's settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_both_forges_run_the_same_command_on_the_same_systems() -> None:
    github, gitlab = (
        load(".github/workflows/ci.yml")["jobs"]["test"],
        load(".gitlab-ci.yml")["test"],
    )
    assert github["steps"][-1]["run"] == gitlab["script"][-1] == ".ci/run"
    [images] = gitlab["parallel"]["matrix"]
    assert images["IMAGE"] == github["strategy"]["matrix"]["image"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_hooks_call_tools_of_the_development_extra() -> None:
    [repository] = load(".pre-commit-config.yaml")["repos"]
    tools = {hook["entry"].split()[0].rpartition("/")[2] for hook in repository["hooks"]}
    extra = {re.match(r"[\w-]+", line)[0] for line in PROJECT["optional-dependencies"]["dev"]}  # type: ignore[index]
    assert tools <= extra


def test_the_citation_has_the_version() -> None:
    citation = load("CITATION.cff")
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


def test_classifiers_begin_with_the_oldest_python() -> None:
    prefix = "Programming Language :: Python :: 3."
    minors = [int(c[len(prefix) :]) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_every_question_of_an_issue_form_has_a_label(name: str) -> None:
    form = load(f".github/ISSUE_TEMPLATE/{name}")
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert questions
    assert all(part["attributes"]["label"] for part in questions)
