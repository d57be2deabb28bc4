"""Chains on every database: the guarantees across releases, and the refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ChainBehind,
    ChainChanged,
    ChainClosed,
    InvalidParameter,
    OutputExists,
    RecountFailed,
    TooFewRecords,
    TraceTooSmall,
)
from dbanon.extensions.chains import cell_rows, recount
from dbanon.extensions.chains import membership as chain_cells
from dbanon.extensions.chains import step as chain_step
from dbanon.stores.exports.formats import metadata_of
from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

APART = "^[1-9][0-9]* classes do not have exactly the rows of their persons"
CHANGED_FROZEN_CLASSES = "^[1-9][0-9]* rows of held classes differ from those released"


def run_months(chained: Chained, months: Months, n: int, **more: Any) -> list[Counter[Any]]:
    releases = []
    for _ in range(n):
        load(chained.database, months.now)
        # So few persons that a month may look as if the spelling of identifiers had changed.
        chained.release(**{"chain": chained.chain(accept_turnover=True)} | more)
        releases.append(released(chained.database))
        months.pass_on()
    return releases


def test_who_left_stays_as_shown_until_all_have_left(database: Database, tmp_path: Path) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    guarantee = "chain patients, release {}: every history over {} is shared by at least 3 persons"
    assert chained.release().earlier_releases == guarantee.format(1, "it")
    first = released(database)
    history = chained.history(list(months.now))
    together = [person for person, (cell, _) in history.items() if cell == history[1][0]]
    months.out[1] = months.now.pop(1)
    for person in together[1:]:
        months.now[person] = (*months.now[person][:3], "changed", 0)
    load(database, months.now)
    report = chained.release()
    assert released(database) == first
    assert chained.show().releases[-1]["held"] == 1
    assert report.rows_out == 12 == report.rows_in + 1
    assert "; 1 of 12 rows are of persons who left, 3 are in classes" in report.earlier_releases
    months.out |= {person: months.now.pop(person) for person in together[1:]}
    load(database, months.now)
    chained.release()
    assert sum(released(database).values()) == 12 - len(together)
    assert {chained.history([person])[person][1] for person in together} == {3}
    # Whose leaving was published stays out for good.
    months.now |= {person: months.out[person] for person in together}
    load(database, months.now)
    report = chained.release()
    assert sum(released(database).values()) == 12 - len(together)
    assert report.arguments["chain"]["returned"] == len(together)
    guarantee = guarantee.format(4, "releases 1 to 4") + "; 0 of 9 rows are of persons who left, 0"
    guarantee += (
        " are in classes that are shown unchanged; the loss is measured on the 0 persons who"
    )
    guarantee += " joined, not on all rows; 3 returned"
    assert report.earlier_releases == guarantee


@pytest.mark.parametrize(
    "rules",
    [
        {"changes": "show"},
        {"changes": "show", "class_size": 9},
        {"changes": "hold"},
        {"changes": "freeze", "class_size": 6},
        {"changes": "show", "departures": "withdraw"},
        {"changes": "show", "withdraw_above": 0.5, "admit_every": 2},
    ],
    ids=lambda rules: ",".join(map(str, rules.values())),
)
def test_every_history_is_shared(database: Database, tmp_path: Path, rules: dict[str, Any]) -> None:
    """Combinations never change, and each gains and loses no person or k persons between
    releases.
    """
    months = Months(come_back=0.1)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, **rules)
    releases = run_months(chained, months, 7)
    assert chained.smallest() >= 3
    for earlier in range(7):
        for later in range(earlier + 1, 7):
            sizes = [
                Counter(row[:2] for row in r.elements())
                for r in (releases[earlier], releases[later])
            ]
            for combination in {*sizes[0], *sizes[1]}:
                change = abs(sizes[0][combination] - sizes[1][combination])
                assert change == 0 or change >= 3, (earlier, later, combination)
    chain = chained.show()
    assert (chain.sequence, chain.k, chain.state) == (7, 3, "open")
    assert [release["confirmed"] for release in chain.releases] == [True] * 7
    assert dbanon.measure_chain(database.url, "patients", key=f"file:{chained.key}").exposed == 0


def test_who_comes_back_while_held_is_shown_anew(database: Database, tmp_path: Path) -> None:
    months = Months(n=9, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, class_size=4)
    chained.release()
    absent = months.now.pop(4)
    load(database, months.now)
    chained.release()
    months.now[4] = (*absent[:3], "new", 1)
    load(database, months.now)
    chained.release()
    assert "new" in {row[2] for row in released(database)}
    assert chained.show().releases[-1]["held"] == 0


def test_without_holds_the_recount_refuses(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That exchanges can be seen then, tests/unit/test_chain_theorem.py shows."""
    decide = chain_cells.ChainState.decide_cell_states

    def without_holds(state: chain_cells.ChainState, staging: str, **how: Any) -> None:
        decide(state, staging, **how)
        state.session.run("UPDATE \"dbanon_verdict\" SET state = 'live' WHERE state = 'held'")

    monkeypatch.setattr(chain_cells.ChainState, "decide_cell_states", without_holds)
    # With arrays, persons of frozen classes are not staged: those who stayed would leave with the
    # rest.
    monkeypatch.setattr(chain_step, "match_persons", lambda *args: None)
    months = Months()
    load(database, months.now)
    chained = Chained.create(database, tmp_path, changes="show")
    with pytest.raises(TraceTooSmall):
        run_months(chained, months, 5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE {rows} SET k0 = 'else' WHERE cell IN {held}", CHANGED_FROZEN_CLASSES),
        ("DELETE FROM {rows} WHERE cell = (SELECT min(cell) FROM {held} AS h)", APART),
        ("INSERT INTO {rows} SELECT * FROM {rows} WHERE cell = {last}", APART),
        ("UPDATE {rows} SET cell = -cell WHERE cell = {last}", APART),
        ("DELETE FROM {values} WHERE cell = {last}", APART),
        ("INSERT INTO {values} SELECT * FROM {values} WHERE cell = {last}", APART),
    ],
    ids=["held changed", "held lost", "shown twice", "of nobody", "no values", "values twice"],
)
def test_the_recount_sees_rows_that_are_not_as_they_must_be(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, message: str
) -> None:
    months = Months()
    load(database, months.now)
    chained = Chained.create(database, tmp_path, changes="show")
    run_months(chained, months, 2)
    before, update = released(database), cell_rows.update_displayed_rows

    def damaged(state: chain_cells.ChainState, *args: Any) -> dict[str, int]:
        counted = update(state, *args)
        frozen = f"(SELECT cell FROM {state.ledger_table('chain_cell')} WHERE state = 'held')"
        last = f"(SELECT max(cell) FROM {state.row_table})"
        state.session.run(
            damage.format(held=frozen, last=last, rows=state.row_table, values=state.value_table)
        )
        return counted

    monkeypatch.setattr(cell_rows, "update_displayed_rows", damaged)
    with pytest.raises(RecountFailed, match=message):
        run_months(chained, months, 1)
    assert released(database) == before
    assert chained.show().sequence == 2


def test_the_recount_sees_a_release_that_is_not_the_state(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    months = Months()
    load(database, months.now)
    chained = Chained.create(database, tmp_path, changes="show")
    write = recount.ChainTarget.write

    def moved(target: recount.ChainTarget, *args: Any) -> Any:
        written = write(target, *args)
        # A whole class under other values: as many rows as before, all shared by k.
        table = written.relation.quoted
        greatest = f"SELECT max(age) FROM {table}"
        target.session.run(f"UPDATE {table} SET age = age + 0.5 WHERE age IN ({greatest})")
        return written

    monkeypatch.setattr(recount.ChainTarget, "write", moved)
    with pytest.raises(RecountFailed, match="combinations"):
        chained.release()


def test_strata_nulls_and_conditions(database: Database, tmp_path: Path) -> None:
    months = Months(n=60, join=9)
    for person in (2, 3, 4, 5, 6, 7, 8):
        months.now[person] = (None, *months.now[person][1:])
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    options: dict[str, Any] = {
        "by": ["site"],
        "nulls": "category",
        "where": "income > 1500",
        "keep": ["cost"],
    }
    for month in range(4):
        load(database, months.now)
        report = chained.release(**options)
        rows = Counter(
            database.rows(f"SELECT age, income, site FROM {database.relation('release.people')}")
        )
        assert min(rows.values()) >= 3
        assert sum(rows.values()) == report.rows_out
        months.pass_on()
        # A member's quasi-identifier that is lost meanwhile is no news: the class stays.
        months.now = {
            person: (None if person % 11 == month else v[0], *v[1:])
            for person, v in months.now.items()
        }
    assert chained.smallest() >= 3
    with pytest.raises(InvalidParameter, match="may not use a column that is released"):
        chained.release(**options | {"where": "ill <> 'gout'"})
    with pytest.raises(ChainChanged) as changed:
        chained.release(**options | {"where": "income > 1600"})
    assert changed.value.detail == "These settings differ: where."


def test_generalization_is_by_the_first_release(database: Database, tmp_path: Path) -> None:
    months = Months(n=40, join=6)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    options = {
        "quasi_identifiers": ["age", "site"],
        "method": "gaa_cp",
        "hierarchies": {"age": {"intervals": [5, 20]}},
    }
    for _ in range(3):
        load(database, months.now)
        chained.release(**options)
        months.pass_on()
    labels = {row[0] for row in released(database, "age, site, ill")}
    assert chained.smallest() >= 3
    assert labels
    months.now |= {900 + i: (30, 2000, "nowhere", "flu", 0) for i in range(4)}
    load(database, months.now)
    with pytest.raises(ChainChanged, match='"site" has 1 value that') as refused:
        chained.release(**options)
    assert "nowhere" not in str(refused.value)


def test_what_is_not_as_at_first_is_refused(database: Database, tmp_path: Path) -> None:
    months = Months(n=20, join=0, leave=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    for more, message in (
        ({"k": 4}, "k"),
        ({"quasi_identifiers": ["age"]}, "quasi_identifiers"),
        ({"sensitive": ["ill", "cost"]}, "sensitive"),
        ({"method": "mondrian"}, "method, recoding"),
        ({"standardize": "range"}, "standardize"),
    ):
        with pytest.raises(ChainChanged) as refused:
            chained.release(**more)
        assert message.split(", ")[0] in str(refused.value.detail)
    rules = {"name": "patients", "key": f"file:{chained.key}", "changes": "freeze"}
    with pytest.raises(ChainChanged, match="other rules"):
        chained.release(chain=rules)
    database.execute("CREATE TABLE others AS SELECT * FROM people")
    with pytest.raises(ChainChanged, match="with the entity"):
        chained.release(table="others")
    with pytest.raises(ChainChanged) as refused:
        chained.release(models=[dbanon.Model("distinct_l", "ill", 2)])
    assert refused.value.detail == "These settings differ: models."
    with pytest.raises(InvalidParameter, match="cannot be evaluated"):
        chained.release(evaluate=True)
    assert chained.show().sequence == 1
    assert chained.release().arguments["chain"]["sequence"] == 2


def test_few_wait(database: Database, tmp_path: Path) -> None:
    months = Months(n=9, leave=0, join=2, change=0)
    load(database, {1: months.now[1], 2: months.now[2]})
    chained = Chained.create(database, tmp_path)
    with pytest.raises(TooFewRecords, match="wait"):
        chained.release()
    run_months(chained, months, 2)
    load(database, {person: v for person, v in months.now.items() if person < 12})
    report = chained.release()
    # The count is as coarse as the counts of rows that came and went; one would reveal the other.
    assert report.arguments["chain"]["waiting"] == report.rows_in - report.rows_out == 2
    assert "2 waiting" in report.earlier_releases
    assert report.rows_out == 9
    load(database, months.now)
    assert chained.release().rows_out == 13


def test_withdrawn_and_closed(database: Database, tmp_path: Path) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    key = f"file:{chained.key}"
    assert dbanon.withdraw(database.url, "patients", ["no such person"], key=key) == 0
    assert dbanon.withdraw(database.url, "patients", ["7"], key=key) == 1
    size = sum(left is not None for _, left in chained.cells().values())
    report = chained.release()
    assert report.rows_out == 12 - size <= 9
    assert report.arguments["chain"]["returned"] == 0
    assert chained.smallest() >= 3
    assert dbanon.close_chain(database.url, "patients").state == "closed"
    for call in (chained.release, lambda: dbanon.withdraw(database.url, "patients", "7", key=key)):
        with pytest.raises(ChainClosed):
            call()
    assert [chain.state for chain in dbanon.chains(database.url)] == ["closed"]


def test_the_release_goes_elsewhere(
    database: Database, make_database: Callable[[str], Database], tmp_path: Path
) -> None:
    other = (
        SqliteDatabase(tmp_path / "target.db")
        if database.name != "sqlite"
        else DuckdbDatabase(tmp_path / "target.duckdb")
    )
    months = Months(n=30, join=5)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    for _ in range(3):
        load(database, months.now)
        report = chained.release(target=other.url, sensitive=["ill"], keep=["cost"])
        months.pass_on()
    rows = Counter(row[:2] for row in released(other, "age, income, ill, cost").elements())
    assert min(rows.values()) >= 3
    assert sum(rows.values()) == report.rows_out
    assert [release["confirmed"] for release in chained.show().releases] == [True] * 3
    [(sequence,)] = other.rows(f"SELECT max(chain_sequence) FROM {other.ledger()}")
    assert sequence == 3
    assert not [name for _, name in other.relations() if "chain_row" in name]
    # The release counts as published even if the target rejects it afterwards.
    load(database, months.now)
    with pytest.raises(OutputExists):
        chained.release(target=other.url, keep=["cost"], if_exists="error")
    assert chained.show().sequence == 3
    database.execute(f"UPDATE {database.ledger('chain')} SET sequence = 2")
    with pytest.raises(ChainBehind):
        chained.release(target=other.url, keep=["cost"])


def test_files_of_a_release(database: Database, tmp_path: Path) -> None:
    months = Months(n=20, join=4)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    for _ in range(2):
        load(database, months.now)
        report = chained.release(exports=[tmp_path / "people.parquet"])
        months.pass_on()
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "people.parquet")
    assert table.num_rows == report.rows_out == sum(released(database).values())
    assert "cell" not in table.column_names
    metadata, chain = metadata_of(tmp_path / "people.parquet"), report.arguments["chain"]
    assert (metadata["chain"], metadata["chain_sequence"]) == (chain["chain_id"], "2")
    verified = CliRunner().invoke(main, ["verify", str(tmp_path / "people.parquet")])
    assert verified.exit_code == 0, verified.output
    assert [release["confirmed"] for release in chained.show().releases] == [True] * 2


def test_a_chain_needs_a_database_and_an_entity(
    tmp_path: Path, sqlite_file: SqliteDatabase
) -> None:
    load(sqlite_file, Months(n=9).now)
    chained = Chained.create(sqlite_file, tmp_path)
    with pytest.raises(InvalidParameter, match="entity"):
        chained.release(entity=None)
    file = tmp_path / "people.csv"
    file.write_text("id,age,income,ill\n1,2,3,x\n")
    with pytest.raises(InvalidParameter, match="not in a file"):
        dbanon.create_chain(
            f"file:{file}", "c", table="people", entity="id", changes="show", key_out=tmp_path / "k"
        )


def test_more_rows_than_duckdb_keeps_together(tmp_path: Path) -> None:
    """DuckDB 2.0 did not order the rows of a table that was emptied and refilled to the same
    size.
    """
    database = DuckdbDatabase(tmp_path / "many.duckdb")
    database.execute(
        "CREATE TABLE people AS SELECT g AS id, g % 977 AS age, g % 1009 AS income,"
        " 'ill ' || g % 7 AS ill FROM range(130000) AS s(g)"
    )
    chained = Chained.create(database, tmp_path, changes="show")
    for _ in range(2):
        assert chained.release().rows_out == 130_000
        database.execute("DELETE FROM people WHERE id % 1000 = 0")
