"""Every error is explained by its code: in the terminal, in the repository and on the site."""

from __future__ import annotations

import json
import re

import click
import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.errors.explanations import explain, load_explanations, load_sections
from dbanon.methods import METHODS
from tests.docs.test_docs import ERRORS, page

TEXT = "\n".join(load_sections().values())


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words], env={"COLUMNS": "200"})


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    assert set(load_sections()) == {*ERRORS, "unexpected"}
    assert list(load_sections()) == sorted(load_sections())


@pytest.mark.parametrize("code", [*ERRORS, "unexpected"])
def test_a_section_explains_the_error_and_the_remedy(code: str) -> None:
    meaning, act, more = load_sections()[code].partition("**What to do.**")
    assert act
    assert meaning.strip()
    assert more.strip()
    assert f"`{code}`" in page("errors.md")


def test_options_and_commands_that_are_named_exist() -> None:
    def options(command: click.Command) -> set[str]:
        names = {
            name
            for parameter in command.params
            for name in [*parameter.opts, *parameter.secondary_opts]
        }
        if isinstance(command, click.Group):
            names.update(*(options(command.commands[name]) for name in command.commands))
        return names

    existing = options(main) | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) - existing == set()
    for words in re.findall(r"`dbanon ([a-z]+(?: [a-z]+)?)", TEXT):
        first, _, second = words.partition(" ")
        command = main.commands[first]
        assert not second or not isinstance(command, click.Group) or second in command.commands
    named = set(re.findall(r"`(\w+)`", TEXT))
    assert {"anonymize_frame", "strict"} <= named
    assert not named & set(METHODS) - {"full_domain"}


def test_a_code_is_printed_in_machine_readable_form() -> None:
    done = run("null_in_quasi_identifier")
    assert done.exit_code == 0
    head, summary = done.stdout.split("\n\n")[:2]
    assert head == (
        "null_in_quasi_identifier (exit code 2, SQLSTATE 22004,"
        " dbanon.errors.NullInQuasiIdentifier)"
    )
    assert summary == "A quasi-identifier holds NULL."
    assert "--nulls suppress" in done.stdout
    assert "**" not in done.stdout


def test_classes_and_sqlstates_are_understood() -> None:
    [explanation] = explain("NullInQuasiIdentifier")
    assert explanation.code == "null_in_quasi_identifier"
    assert {explanation.code for explanation in explain("zk009")} == {
        "budget_exhausted",
        "noise_too_large",
    }


def test_an_unknown_code_is_an_error_with_near_matches() -> None:
    done = run("null_in_quasi")
    assert done.exit_code == 2
    assert 'There is no error "null_in_quasi".' in done.stderr
    assert "null_in_quasi_identifier" in done.stderr
    assert "dbanon explain lists all codes" in run("zzz").stderr


def test_without_a_code_all_are_listed() -> None:
    errors = json.loads(run("--format", "json").stdout)
    assert [error["code"] for error in errors] == list(load_explanations())
    listed = run().stdout
    assert all(code in listed for code in load_explanations())
