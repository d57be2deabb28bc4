"""Tests of the campaign's generator and oracle: the oracle detects releases broken by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from tests.faults import doors, expected, oracle
from tests.faults.__main__ import chosen_tasks, main
from tests.faults.backends import Backend, DuckdbBackend, SqliteBackend
from tests.faults.campaign import BackgroundTask, Tally
from tests.faults.cases import CATEGORICAL, POINTS, Case, random_case
from tests.faults.levels import Persons, keeps, level
from tests.faults.scenario import changes, refusal_findings
from tests.faults.tables import Column, Table

N = 60


def _case(kind: str, **arguments: Any) -> Case:
    text = {"duckdb": "VARCHAR", "sqlite": "TEXT"}[kind]
    columns = (
        Column("uid", "integer", "INTEGER", tuple(str(i) for i in range(N))),
        Column("age", "integer", "INTEGER", tuple(str(i * 7 % 50) for i in range(N))),
        Column("size", "float", "DOUBLE", tuple(repr(i * 3 % 40 / 2) for i in range(N))),
        Column("ill", "text", text, tuple(f"qzmark {i % 3}" for i in range(N))),
        Column("person", "integer", "INTEGER", tuple(str(i // 2) for i in range(N))),
    )
    defaults = {
        "k": 4,
        "method": "mdav",
        "quasi_identifiers": ["age", "size"],
        "nulls": "error",
        "sensitive": ["ill"],
        "keep": ["uid"],
        "output": "release.people",
        "output_kind": "table",
    }
    table = Table("app", "people", columns, "plain", "uid")
    return Case(1, 1, kind, "python", None, table, defaults | arguments)


@pytest.fixture(params=["duckdb", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    backend: Backend = (
        DuckdbBackend(tmp_path) if request.param == "duckdb" else SqliteBackend(tmp_path)
    )
    return backend


def publish(backend: Backend, **arguments: Any) -> Callable[[], list[str]]:
    """Make a release; the returned function asks the oracle about it."""
    case = _case(backend.kind, **arguments)
    backend.load(case.table)
    original = oracle.read_rows(backend, ("app", "people"))
    outcome = doors.by_python(backend, "app.people", case.arguments)
    assert outcome.ok, outcome.messages

    def findings() -> list[str]:
        rows = oracle.read_rows(backend, ("release", "people"))
        return oracle.check(
            oracle.PublishedRelease(case, backend, backend, rows, original, outcome)
        )

    return findings


BREAKS = {
    "k": "UPDATE {r} SET age = 999 WHERE uid = 3",
    "counts": "DELETE FROM {r} WHERE uid = 3",
    "kept": "UPDATE {r} SET ill = 'other' WHERE uid = 3",
    "columns": "ALTER TABLE {r} ADD COLUMN more INTEGER",
    "ledger": "UPDATE {ledger} SET classes = classes + 1",
    "truth": "UPDATE {r} SET size = size + 0.5",
}


def test_a_broken_release_is_detected(backend: Backend) -> None:
    findings = publish(backend)
    assert findings() == []
    names = {
        "r": backend.relation("release", "people"),
        "ledger": backend.relation("dbanon", "release"),
    }
    assert isinstance(backend, (DuckdbBackend, SqliteBackend))
    original = backend.path.read_bytes()
    for check, statement in BREAKS.items():
        backend.execute(statement.format(**names))
        assert check in {text.partition(":")[0] for text in findings()}
        backend.path.write_bytes(original)
    assert findings() == []


def test_rows_in_the_order_of_the_source_are_detected(backend: Backend) -> None:
    findings = publish(backend)
    relation = backend.relation("release", "people")
    backend.execute(
        f"CREATE TABLE held AS SELECT * FROM {relation}",
        f"DELETE FROM {relation}",
        f"INSERT INTO {relation} SELECT * FROM held ORDER BY uid",
    )
    assert "order" in {text.partition(":")[0] for text in findings()}


def test_persons_and_models_are_counted(backend: Backend) -> None:
    models = [{"kind": "distinct_l", "attribute": "ill", "level": 2}]
    findings = publish(backend, entity="person", models=models, method="gaa_cp")
    assert findings() == []
    backend.execute(f"UPDATE {backend.relation('release', 'people')} SET ill = 'qzmark 0'")
    assert {"kept", "model"} <= {text.partition(":")[0] for text in findings()}


def test_too_few_persons_are_detected(backend: Backend) -> None:
    """A class of four rows has fewer than four persons if each has two rows."""
    findings = publish(backend, method="mondrian", k=2, entity="person")
    assert findings() == []
    half = "uid / 2" if backend.kind == "sqlite" else "uid // 2"
    backend.execute(f"UPDATE {backend.relation('release', 'people')} SET age = {half}, size = 0")
    assert "entity" in {text.partition(":")[0] for text in findings()}


def test_leftovers_of_a_refusal_are_detected(backend: Backend) -> None:
    publish(backend)
    before = backend.snapshot()
    assert changes([before], [backend.snapshot()]) == []
    backend.execute("CREATE TABLE staging (a INTEGER)")
    with_it = backend.snapshot()
    assert any("staging" in text for text in changes([before], [with_it]))
    backend.execute("INSERT INTO staging VALUES (1)")
    assert any("rows of" in text for text in changes([with_it], [backend.snapshot()]))


def test_unexpected_refusals_are_reported() -> None:
    case = _case("duckdb", k=61)
    rows = [
        dict(zip([c.name for c in case.table.columns], row, strict=True))
        for row in zip(*(column.values for column in case.table.columns), strict=True)
    ]
    must, _ = expected.due(case, rows)
    assert "too_few_records" in must
    refused = doors.Outcome(False, "too_few_records", 3, "ZK002", "")
    assert refusal_findings(refused, "python", must, set()) == []
    assert refusal_findings(refused, "python", set(), set())
    assert refusal_findings(replace(refused, exit_code=1), "python", must, set())
    assert refusal_findings(replace(refused, code="unexpected"), "python", must, set())
    odd = replace(refused, code=None, exit_code=None, sqlstate="XX000")
    assert refusal_findings(odd, "sql", must, set())


def test_levels_by_hand() -> None:
    """Two classes of four values: 3, 1, 0, 0 and 1, 1, 1, 1."""
    first, two = Persons(4, {"a": 3, "b": 1}), Persons(4, {"a": 1, "b": 1, "c": 1, "d": 1})
    everyone = Persons.all_of([first, two])
    levels = {
        kind: level({"kind": kind, "l": 2}, first, everyone)
        for kind in ("distinct_l", "recursive_cl", "alpha_k", "t_closeness", "beta_likeness")
    }
    assert levels == {
        "distinct_l": 2,
        "recursive_cl": 3,
        "alpha_k": 0.75,
        "t_closeness": 0.25,
        "beta_likeness": 0.5,
    }
    ordered = {"kind": "t_closeness", "distance": "ordered", "level": 5 / 24}
    assert level(ordered, first, everyone) == pytest.approx(5 / 24)
    assert keeps(ordered, 5 / 24, 1e-9)
    assert not keeps(
        {"kind": "entropy_l", "level": 3}, level({"kind": "entropy_l"}, first, everyone), 0
    )
    # In the class "a" is 3/4, in the table 1/2; "b" has the same ratio.
    assert level({"kind": "delta_disclosure"}, first, everyone) == pytest.approx(log(1.5))
    assert level({"kind": "entropy_l"}, two, everyone) == pytest.approx(4)


def test_levels_in_persons_by_hand() -> None:
    """Three persons have the flu; one has a cough, asthma and gastritis: docs/guarantees.md."""
    pairs = [(0, "flu"), (1, "flu"), (2, "flu"), (3, "cough"), (3, "asthma"), (3, "gastritis")]
    levels = {
        kind: level({"kind": kind, "l": 2}, Persons.of(pairs), Persons.of(pairs))
        for kind in ("distinct_l", "recursive_cl", "alpha_k", "entropy_l")
    }
    assert levels.pop("entropy_l") == pytest.approx(1.75, abs=0.005)
    assert levels == {"distinct_l": 2, "recursive_cl": 3, "alpha_k": 0.75}
    # In the class everyone has both values, in the table half do: half the mass moves to no value.
    both, half = [(0, "a"), (0, "b")], [(0, "a"), (0, "b"), (1, "a")]
    for distance in ("equal", "ordered"):
        model = {"kind": "t_closeness", "distance": distance}
        assert level(model, Persons.of(both), Persons.of(half)) == pytest.approx(0.5)


def test_models_count_persons() -> None:
    """Each of 30 persons has two of three illnesses; each illness is a third of the rows."""
    models = [{"kind": "alpha_k", "attribute": "ill", "level": 0.5}]
    case = _case("duckdb", models=models)
    names = [column.name for column in case.table.columns]
    values = zip(*(column.values for column in case.table.columns), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    assert expected.due(case, rows)[0] == set()
    of_persons = _case("duckdb", models=models, entity="person")
    assert "model_infeasible" in expected.due(of_persons, rows)[0]


def test_seed_and_number_determine_a_case() -> None:
    assert random_case(5, 3) == random_case(5, 3)
    assert random_case(5, 3) != random_case(6, 3)
    methods = {random_case(1, number).arguments["method"] for number in range(300)}
    assert methods == {*POINTS, *CATEGORICAL}


def test_every_registered_method_is_sampled() -> None:
    from dbanon.methods import METHODS

    assert {*POINTS, *CATEGORICAL} == set(METHODS)


def test_a_finding_names_how_to_repeat_it() -> None:
    assert chosen_tasks({"FAULTS_CASE": "kill:7"}) == [BackgroundTask("kill", 7)]
    assert {task.kind for task in chosen_tasks({})} >= {"table", "kill"}
    counts = [task.kind for task in chosen_tasks({"FAULTS": "full"})]
    assert counts.count("table") >= 2000
    assert counts.count("kill") >= 200
    tally = Tally()
    tally.done["table"] = 3
    tally.findings.append("x")
    assert tally.line() == "faults: 3 tables … 1 findings"


def test_help_runs_no_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "FAULTS_SEED" in capsys.readouterr().out


def test_a_withheld_row_needs_no_person() -> None:
    case = _case("duckdb", entity="person", nulls="suppress", max_suppression=1.0)
    names = [column.name for column in case.table.columns]
    values = zip(*(column.values for column in case.table.columns), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    rows[3] |= {"person": None}
    assert "null_in_entity" in expected.due(case, rows)[0]
    rows[3] |= dict.fromkeys(case.arguments["quasi_identifiers"])
    assert "null_in_entity" not in expected.due(case, rows)[0]
