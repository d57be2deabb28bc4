"""The printed command makes the release whose loss the page shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbanon.data.option import all_parameters, parameters
from dbanon.doors.cli.anonymize import anonymize, to_python_options
from dbanon.doors.cli.main import main
from dbanon.doors.html.figures import format_figure
from dbanon.doors.spelling import build_job_command
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.reading import Reading
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from tests.doors.workbench.client import Client, workbench
from tests.doors.workbench.people import decide_roles, swept, trees

READING = Reading(
    dates="dmy", decimal=",", thousands=".", null_words=("k. A.",), types={"code": "text"}
)


def write_table(folder: Path) -> None:
    """Write a file that is only read correctly with ``READING``."""
    lines = ["id;born;code;area;pay;illness;note"]
    lines += [
        f"{i + 10_000_000};{1 + i * 3 % 12:02d}.{1 + i * 5 % 12:02d}.{1950 + i * 7 % 40};"
        f"{100 + i * 3 % 4};{('north', 'south', 'east')[i % 3]};"
        f"{'k. A.' if i % 20 == 0 else f'{1 + i * 37 % 9}.{i * 53 % 900 + 100},50'};"
        f"{('flu', 'asthma', 'gout')[i * 5 % 3]};open"
        for i in range(400)
    ]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path)
    with workbench("file:people.csv", "people", tmp_path, reading=READING) as opened:
        yield opened


ROLES = {
    "id": "identifier",
    "born": "quasi_identifier",
    "code": "quasi_identifier",
    "area": "quasi_identifier",
    "pay": "quasi_identifier",
    "illness": "sensitive",
    "note": "keep",
}


def printed_command(page: str) -> str:
    [line] = re.findall(r'aria-label="Command"><code>(.*?)</code>', page, re.S)
    return unescape(line)


def run(line: str) -> dict[str, object]:
    """Run a command as a user would paste it, and return its report."""
    program, *words = shlex.split(line)
    assert program == "dbanon"
    result = CliRunner().invoke(main, [*words, "--no-progress", "--format", "json"])
    assert result.exit_code == 0, result.output
    report: dict[str, object] = json.loads(result.stdout)
    return report


def test_the_printed_command_makes_the_release_of_the_page(client: Client) -> None:
    decide_roles(client, **ROLES)
    names = list(client.routes.bench.roles)
    widths = {f"intervals-{names.index('pay')}": "500, 2000"}
    chosen = trees(client, born="dates", code="mask", area="suggest", pay="intervals")
    client.done("trees", chosen | widths)
    swept(client)
    # Not the recommended point: the command is for the chosen one.
    client.sent("choose", {"point": "gaa_cp/4"})
    client.done("job", client.form(client.page("job"), "job"))
    page = client.page("sweep")
    line = printed_command(page)
    assert "people.tree-4.csv" in page
    for option in (
        "--nulls",
        "--dates dmy",
        "--decimal ,",
        "--thousands .",
        "--type code=text",
        "--null-words",
        "--keep note",
        "--k 4",
        "--hierarchy",
    ):
        assert option in line
    report = run(line)
    point = client.routes.bench.chosen_trial
    assert point is not None
    assert format_figure(report["information_loss"]) == format_figure(point.loss)
    assert f'<td class="number">{format_figure(point.loss)}</td>' in page
    # The job file makes the same release.
    release_page = client.done("run", {})
    assert "Released" in release_page
    assert client.routes.bench.published_release is not None


def test_advice_prints_how_its_file_is_read(client: Client) -> None:
    words = [
        "advise",
        "file:people.csv",
        "--table",
        "people",
        "-q",
        "born",
        "-q",
        "pay",
        "--dates",
        "dmy",
        "--decimal",
        ",",
        "--thousands",
        ".",
        "--null-words",
        '"k. A."',
        "--type",
        "code=text",
        "--k",
        "3..4",
        "--format",
        "json",
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    advice = json.loads(result.stdout)
    # They format losses differently; the classes are the same.
    assert run(advice["command"])["classes"] == advice["recommendation"]["point"]["classes"]


def test_each_form_of_an_option_is_read_again() -> None:
    """The command line's version of a job has exactly the job's options."""
    job = Job(
        table="app.people",
        output="release.people",
        quasi_identifiers=("a,b", "c"),
        sensitive=("ill",),
        by=("ward x",),
        reading=Reading(thousands=" ", decimal=",", header=False, trim=False, skip_lines=2),
        policy=Policy(
            k=3,
            method="gaa_cp",
            kinds={"c": "nominal"},
            orders={"c": ("low", "mid, or so", "high")},
            weights={"c": 2.0},
            models=(Model("recursive_cl", "ill", 3.0, l=4), Model("t_closeness", "ill", 0.5)),
            also_k=(ColumnSet(("c", "ill"), 5), ColumnSet(("a,b",))),
            strict=True,
        ),
        output_kind="view",
    )
    line = build_job_command("duckdb:///x.duckdb", job, {"a,b": "name:tree"}, "sqlite:///y")
    options = to_python_options(anonymize.make_context("anonymize", shlex.split(line)[2:]).params)
    for parameter in all_parameters(Job):
        if parameter.name not in ("chain", "hierarchies", "memory_limit", "exports"):
            parts = (job.policy, job.reading, job.pseudonym_options, job)
            part = next(part for part in parts if parameter in parameters(type(part)))
            assert options[parameter.name] == getattr(part, parameter.name), parameter.name
    assert options["hierarchies"] == {"a,b": "name:tree"}
    assert options["target"] == "sqlite:///y"
