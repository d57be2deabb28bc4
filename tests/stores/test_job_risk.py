"""The disclosure risk that a job measures: the figures, who can see them, and the limits."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import RiskTooHigh
from dbanon.extensions.survey.risk_comparison import RiskComparison
from tests.figures import leading_digits
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase
from tests.stores.job_lines import call, job, job_results, write

DATABASES = ALL_NAMES
ROLES = {
    "id": "{role: identifier}",
    "age": "{role: quasi_identifier}",
    "region": "{role: quasi_identifier}",
    "weight": '{role: keep, reason: "design"}',
    "household": "{role: drop}",
}
COLUMNS = {
    "id": "integer",
    "age": "integer",
    "region": "text",
    "weight": "integer",
    "household": "integer",
}
KEYS = ["age", "region"]


def _load(database: Database) -> None:
    database.execute("DROP TABLE IF EXISTS people")
    rows = [
        (n, None if n % 15 == 7 else 20 + n * n % 13, "NSEW"[n * n % 11 % 4], 20 + n % 5, n // 2)
        for n in range(90)
    ]
    database.load("people", {name: database.types[kind] for name, kind in COLUMNS.items()}, rows)


def _risk_job(risk: str, **keys: str) -> str:
    return job(
        roles=ROLES,
        output="{table: people}",
        method="gaa_cp",
        nulls="category",
        releases="independent",
        risk=risk,
        **keys,
    )


def _figures(value: Any) -> Iterator[str]:
    """The figures with many digits, as texts that nothing else contains."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _figures(item)
    elif isinstance(value, float) and len(repr(value)) > 12:
        yield leading_digits(value)


@pytest.mark.in_turn(of="file")
def test_a_job_measures_what_the_command_measures(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    risk = '{weight: weight, household: household, suda: true, file: "own/{job}-{release}.json"}'
    done = call("run", write(tmp_path, _risk_job(risk)), "--format", "json")
    assert done.exit_code == 0, done.stderr
    [file] = (tmp_path / "own").iterdir()
    [result] = job_results(done)
    assert file.name == f"people-{result['report']['release_id']}.json"
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (
        0o600,
        0o700,
    )
    figures = json.loads(file.read_text())
    expected = dbanon.disclosure_risk(
        database.url,
        "people",
        quasi_identifiers=KEYS,
        weight="weight",
        household="household",
        suda=True,
        released="release.people",
    ).to_dict()
    for side in ("before", "after"):
        assert figures[side].pop("source").replace('"', "").endswith("people")
        del expected[side]["source"]
    assert figures.pop("release_id") == result["report"]["release_id"]
    assert _close(figures, expected)
    # What readers of the release, its ledger and the job's output can see.
    seen = done.output + done.stderr + json.dumps(database.state(), default=str)
    for table in ("release", "run", "release_internal"):
        seen += json.dumps(database.ledger_rows(table), default=str)
    secrets = [*_figures(figures["before"]), *_figures(figures["after"])]
    assert len(secrets) > 10
    assert not [figure for figure in secrets if figure in seen]
    assert "reidentif" not in seen


def _close(first: Any, second: Any) -> bool:
    """Whether two results have equal figures, apart from rounding."""
    if isinstance(first, dict):
        return set(first) == set(second) and all(_close(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_close, first, second))
    if isinstance(second, float):
        return first == pytest.approx(second, rel=1e-9)
    return bool(first == second)


@pytest.mark.in_turn(of="file")
def test_a_release_above_a_limit_is_not_published(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    assert call("run", write(tmp_path, _risk_job("{max_individual: 0.34}"))).exit_code == 0
    before = database.rows(f"SELECT count(*) FROM {database.relation('release.people')}")
    report = 'risk: {max_individual: 0.2, file: "own/{release}.html"}\n    report: report.html'
    file = write(tmp_path, _risk_job("x").replace("risk: x", report))
    refused = call("run", file)
    assert refused.exit_code == 3, refused.stderr
    assert "[risk_too_high]" in refused.stderr
    assert "above risk.max_individual." in refused.stderr
    assert database.rows(f"SELECT count(*) FROM {database.relation('release.people')}") == before
    [page] = (tmp_path / "own").iterdir()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "not for publication" in page.read_text()
    # Why it was refused may be read by others: no figure.
    assert "0.333" not in refused.stderr + (tmp_path / "report.refused.html").read_text()
    assert "The job's private file (risk.file) has the figures." in refused.stderr
    with pytest.raises(RiskTooHigh, match="max_global") as without_file:
        dbanon.run_job(write(tmp_path, _risk_job("{max_global: 0.01}")))
    assert str(without_file.value.hint).endswith("Name a private file for the figures: risk.file.")
    # Each record stands for 50 persons.
    rare = _risk_job("{max_individual: 0.02, max_global: 0.02, sampling_fraction: 0.02}")
    report_of_rare = dbanon.run_job(write(tmp_path, rare))
    assert report_of_rare is not None
    assert isinstance(report_of_rare, dbanon.Report)
    assert report_of_rare.internal is not None
    assert isinstance(report_of_rare.internal.risk, RiskComparison)
    assert report_of_rare.internal.risk.before.records == 90
    assert "risk" not in report_of_rare.to_dict()


def test_a_limit_needs_the_weight_also_with_declared_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    rules: dict[str, Any] = {"id": "identifier", "household": "drop"}
    rules |= dict.fromkeys(KEYS, "quasi_identifier")
    risk = '{weight: weight, max_individual: 0.2, file: "own/{release}.json"}'
    text = _risk_job(risk)
    text = text[: text.index("    columns:")] + "    columns: declared\n" + text.splitlines()[-1]
    for role, exit_code in (("drop", 2), ("quasi_identifier", 2), ("weight", 0)):
        dbanon.declare(database.url, "people", {**rules, "weight": role})
        done = call("run", write(tmp_path, text + "\n"))
        assert done.exit_code == exit_code, done.stderr
        assert ("need the weight in the release" in done.stderr) == (exit_code == 2)
        assert (tmp_path / "own").exists() == (exit_code == 0)


@pytest.mark.in_turn(of="file")
def test_rows_that_are_withheld_count_before(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    text = _risk_job('{file: "own/{release}.json"}', where='"id < 60"', max_suppression="0.1")
    file = write(tmp_path, text.replace("nulls: category", "nulls: suppress"))
    done = call("run", file)
    assert done.exit_code == 0, done.stderr
    [private_file] = (tmp_path / "own").iterdir()
    figures = json.loads(private_file.read_text())
    assert (figures["before"]["records"], figures["after"]["records"]) == (60, 56)
    assert figures["before"]["incomplete"] == 4


def test_only_a_terminal_shows_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    file = write(tmp_path, _risk_job('{file: "own/{release}.txt"}'))
    piped = call("run", file)
    assert piped.exit_code == 0
    assert "highest individual risk" not in piped.output
    assert "private and not for publication" in piped.stderr
    monkeypatch.setattr("dbanon.doors.cli.run.is_terminal", lambda: True)
    text = _risk_job('{file: "own/{release}.txt"}').replace("{table: people}", "{table: again}")
    on_terminal = call("run", write(tmp_path, text))
    assert on_terminal.exit_code == 0, on_terminal.stderr
    assert "highest individual risk" in on_terminal.stdout
    as_json = call("run", write(tmp_path, text), "--format", "json")
    assert "highest" not in as_json.output


def test_strata_count_as_columns_that_others_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    text = _risk_job('{file: "own/{release}.json"}', max_suppression="1.0")
    roles = text.replace('"region": {role: quasi_identifier}', '"region": {role: by}')
    done = call("run", write(tmp_path, roles))
    assert done.exit_code == 0, done.stderr
    [private_file] = (tmp_path / "own").iterdir()
    assert json.loads(private_file.read_text())["after"]["quasi_identifiers"] == KEYS


def test_released_design_weights_are_those_of_the_risk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database)
    text = _risk_job('{weight: weight, max_individual: 0.2, file: "own/{release}.json"}')
    roles = text.replace('{role: keep, reason: "design"}', "{role: weight}")
    done = call("run", write(tmp_path, roles))
    assert done.exit_code == 0, done.stderr
    [private_file] = (tmp_path / "own").iterdir()
    figures = json.loads(private_file.read_text())
    assert figures["after"]["basis"] == "weights"
    sizes = [figures[side]["population_size"] for side in ("before", "after")]
    assert sizes[1] == pytest.approx(sizes[0])


def test_the_weight_of_withheld_rows_does_not_lower_the_risk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    ages = [(20, 60)[n % 2] if n < 66 else 100 + 13 * n for n in range(90)]
    database.load(
        "people",
        dict.fromkeys(("id", "age", "weight"), database.types["integer"]),
        [(n, age, 20) for n, age in enumerate(ages)],
    )
    roles = {"id": "{role: identifier}", "age": "{role: quasi_identifier}"}
    keys = {"method": "full_domain", "k": "5", "options": "{suppression: 0.3}"}
    keys |= {"max_suppression": "0.3", "releases": "independent", "output": "{table: people}"}

    def run(weight: str, risk: str) -> int:
        # The design weight counts without its name.
        named_risk = f"weight: weight, {risk}" if weight == as_copied else risk
        text = job(roles={**roles, "weight": weight}, risk=f"{{{named_risk}}}", **keys)
        return call("run", write(tmp_path, text)).exit_code

    as_copied = '{role: keep, reason: "design"}'
    figures = []
    for weight in (as_copied, "{role: weight}"):
        assert run(weight, 'file: "own/{release}.json"') == 0
        [file] = (tmp_path / "own").iterdir()
        figures.append(json.loads(file.read_text())["after"]["individual"])
        file.unlink()
    copied, averaged = (figure["highest"] for figure in figures)
    # Some rows are withheld.
    assert averaged < copied
    limit = f"max_individual: {(averaged + copied) / 2}"
    assert [run(weight, limit) for weight in (as_copied, "{role: weight}")] == [3, 3]
    assert run("{role: weight}", f"max_individual: {copied * 1.01}") == 0


def test_rounded_weights_do_not_lower_the_risk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the classes get 2 in place of 1.5, so that their rows seem to be of more persons."""
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    monkeypatch.setenv("PEOPLE", database.url)
    types = dict.fromkeys(("id", "age"), database.types["integer"])
    ages = range(20, 60, 2)
    database.load(
        "people",
        types | {"weight": database.types["double"]},
        [(n, ages[n % len(ages)], 1.5) for n in range(5 * len(ages))],
    )
    roles = {"id": "{role: identifier}", "age": "{role: quasi_identifier}"}
    keys = {"k": "5", "releases": "independent", "output": "{table: people}"}

    def run(form: str, limit: float) -> int:
        weight = f"{{role: weight, weight_as: {form}}}"
        risk = f"{{max_individual: {limit}}}"
        text = job(roles={**roles, "weight": weight}, risk=risk, **keys)
        return call("run", write(tmp_path, text)).exit_code

    # The highest risk is that of five rows of weight 1, 1/5; 2 is a third more than 1.5.
    assert [run("mean", 0.21), run("rounded", 0.21), run("rounded", 0.27)] == [0, 3, 0]
