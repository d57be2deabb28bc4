"""The campaign's own generator and oracle: a release that is broken by hand is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from tests.faults import doors, expected, oracle
from tests.faults.__main__ import chosen_tasks, main
from tests.faults.campaign import Tally, Task
from tests.faults.cases import GENERALIZING, POINTS, Case, random_case
from tests.faults.levels import Persons, keeps, level
from tests.faults.places import DuckdbPlace, Place, SqlitePlace
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
    given = {
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
    return Case(1, 1, kind, "python", None, table, given | arguments)


@pytest.fixture(params=["duckdb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    made: Place = DuckdbPlace(tmp_path) if request.param == "duckdb" else SqlitePlace(tmp_path)
    return made


def publish(place: Place, **arguments: Any) -> Callable[[], list[str]]:
    """Make a release; what is given back asks the oracle of it."""
    case = _case(place.kind, **arguments)
    place.load(case.table)
    original = oracle.read_rows(place, ("app", "people"))
    outcome = doors.by_python(place, "app.people", case.arguments)
    assert outcome.ok, outcome.said

    def findings() -> list[str]:
        rows = oracle.read_rows(place, ("release", "people"))
        return oracle.check(oracle.Published(case, place, place, rows, original, outcome))

    return findings


BREAKS = {
    "k": "UPDATE {r} SET age = 999 WHERE uid = 3",
    "counts": "DELETE FROM {r} WHERE uid = 3",
    "kept": "UPDATE {r} SET ill = 'other' WHERE uid = 3",
    "columns": "ALTER TABLE {r} ADD COLUMN more INTEGER",
    "ledger": "UPDATE {ledger} SET classes = classes + 1",
    "truth": "UPDATE {r} SET size = size + 0.5",
}


def test_a_broken_release_is_found_out(place: Place) -> None:
    findings = publish(place)
    assert findings() == []
    names = {
        "r": place.relation("release", "people"),
        "ledger": place.relation("dbanon", "release"),
    }
    assert isinstance(place, (DuckdbPlace, SqlitePlace))
    whole = place.path.read_bytes()
    for what, statement in BREAKS.items():
        place.execute(statement.format(**names))
        assert what in {text.partition(":")[0] for text in findings()}
        place.path.write_bytes(whole)
    assert findings() == []


def test_rows_in_the_order_of_the_source_are_found_out(place: Place) -> None:
    findings = publish(place)
    relation = place.relation("release", "people")
    place.execute(
        f"CREATE TABLE held AS SELECT * FROM {relation}",
        f"DELETE FROM {relation}",
        f"INSERT INTO {relation} SELECT * FROM held ORDER BY uid",
    )
    assert "order" in {text.partition(":")[0] for text in findings()}


def test_persons_and_models_are_counted(place: Place) -> None:
    models = [{"kind": "distinct_l", "attribute": "ill", "level": 2}]
    findings = publish(place, entity="person", models=models, method="gaa_cp")
    assert findings() == []
    place.execute(f"UPDATE {place.relation('release', 'people')} SET ill = 'qzmark 0'")
    assert {"kept", "model"} <= {text.partition(":")[0] for text in findings()}


def test_too_few_persons_are_found_out(place: Place) -> None:
    """Classes of four rows hold fewer than four persons, who have two rows each."""
    findings = publish(place, method="mondrian", k=2, entity="person")
    assert findings() == []
    half = "uid / 2" if place.kind == "sqlite" else "uid // 2"
    place.execute(f"UPDATE {place.relation('release', 'people')} SET age = {half}, size = 0")
    assert "entity" in {text.partition(":")[0] for text in findings()}


def test_what_a_refusal_leaves_is_found(place: Place) -> None:
    publish(place)
    before = place.snapshot()
    assert changes([before], [place.snapshot()]) == []
    place.execute("CREATE TABLE staging (a INTEGER)")
    with_it = place.snapshot()
    assert any("staging" in text for text in changes([before], [with_it]))
    place.execute("INSERT INTO staging VALUES (1)")
    assert any("rows of" in text for text in changes([with_it], [place.snapshot()]))


def test_refusals_are_due_or_not() -> None:
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
    one, two = Persons(4, {"a": 3, "b": 1}), Persons(4, {"a": 1, "b": 1, "c": 1, "d": 1})
    whole = Persons.all_of([one, two])
    levels = {
        kind: level({"kind": kind, "l": 2}, one, whole)
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
    assert level(ordered, one, whole) == pytest.approx(5 / 24)
    assert keeps(ordered, 5 / 24, 1e-9)
    assert not keeps({"kind": "entropy_l", "level": 3}, level({"kind": "entropy_l"}, one, whole), 0)
    # Of what it holds, "a" is 3/4 beside 1/2 of all, "b" as much as there.
    assert level({"kind": "delta_disclosure"}, one, whole) == pytest.approx(log(1.5))
    assert level({"kind": "entropy_l"}, two, whole) == pytest.approx(4)


def test_levels_in_persons_by_hand() -> None:
    """Three have the flu, one a cough, asthma and gastritis: docs/guarantees.md."""
    held = [(0, "flu"), (1, "flu"), (2, "flu"), (3, "cough"), (3, "asthma"), (3, "gastritis")]
    levels = {
        kind: level({"kind": kind, "l": 2}, Persons.of(held), Persons.of(held))
        for kind in ("distinct_l", "recursive_cl", "alpha_k", "entropy_l")
    }
    assert levels.pop("entropy_l") == pytest.approx(1.75, abs=0.005)
    assert levels == {"distinct_l": 2, "recursive_cl": 3, "alpha_k": 0.75}
    # Everybody has both in the class, and half of them in the table: half moves to having none.
    both, half = [(0, "a"), (0, "b")], [(0, "a"), (0, "b"), (1, "a")]
    for distance in ("equal", "ordered"):
        model = {"kind": "t_closeness", "distance": distance}
        assert level(model, Persons.of(both), Persons.of(half)) == pytest.approx(0.5)


def test_models_are_due_in_persons() -> None:
    """Each of 30 persons has two of three illnesses, which a third of the rows have each."""
    models = [{"kind": "alpha_k", "attribute": "ill", "level": 0.5}]
    case = _case("duckdb", models=models)
    names = [column.name for column in case.table.columns]
    values = zip(*(column.values for column in case.table.columns), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    assert expected.due(case, rows)[0] == set()
    of_persons = _case("duckdb", models=models, entity="person")
    assert "model_infeasible" in expected.due(of_persons, rows)[0]


def test_cases_come_from_seed_and_number_alone() -> None:
    assert random_case(5, 3) == random_case(5, 3)
    assert random_case(5, 3) != random_case(6, 3)
    methods = {random_case(1, number).arguments["method"] for number in range(300)}
    assert methods == {*POINTS, *GENERALIZING}


def test_every_method_of_the_registry_is_drawn() -> None:
    from dbanon.methods import METHODS

    assert {*POINTS, *GENERALIZING} == set(METHODS)


def test_a_finding_names_how_to_repeat_it() -> None:
    assert chosen_tasks({"FAULTS_CASE": "kill:7"}) == [Task("kill", 7)]
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


def test_a_row_that_is_withheld_needs_no_person() -> None:
    case = _case("duckdb", entity="person", nulls="suppress", max_suppression=1.0)
    names = [column.name for column in case.table.columns]
    values = zip(*(column.values for column in case.table.columns), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    rows[3] |= {"person": None}
    assert "null_in_entity" in expected.due(case, rows)[0]
    rows[3] |= dict.fromkeys(case.arguments["quasi_identifiers"])
    assert "null_in_entity" not in expected.due(case, rows)[0]
