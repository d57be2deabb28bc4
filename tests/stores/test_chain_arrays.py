"""On PostgreSQL, chains use arrays in the client for work done by statements elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dbanon.errors import ChainEntityRows, NullInEntity
from dbanon.stores.postgresql.chain_dialect import PostgresqlChainArrays
from dbanon.stores.postgresql.client import PsycopgSession
from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.postgresql

# Changes to the table before each release.
TABLES: Mapping[str, tuple[str, ...]] = {
    "no key": (),
    "rows moved": ("UPDATE people SET age = age WHERE id % 3 = 0",),
    "a key": ("ALTER TABLE people ADD PRIMARY KEY (id)",),
    "a key of text": (
        "ALTER TABLE people ADD named text",
        "UPDATE people SET named = 'row ' || id",
        "ALTER TABLE people ADD PRIMARY KEY (named)",
    ),
    "partitions": (
        "ALTER TABLE people RENAME TO whole",
        "CREATE TABLE people (LIKE whole) PARTITION BY HASH (id)",
        *(
            f"CREATE TABLE people_{i} PARTITION OF people FOR VALUES"
            f" WITH (MODULUS 3, REMAINDER {i})"
            for i in range(3)
        ),
        "INSERT INTO people SELECT * FROM whole",
        "DROP TABLE whole",
    ),
}
RULES: Mapping[str, dict[str, Any]] = {
    "show": {},
    "show, groups leave": {"class_size": 9},
    "hold": {"changes": "hold"},
    "freeze": {"changes": "freeze"},
    "withdraw": {"withdraw_above": 0.5},
    "wait": {"max_wait": 3},
}
CASES = [
    *((table, "show") for table in TABLES if table != "no key"),
    *(("no key", rules) for rules in RULES),
]
# Rows are read in the same way each month; persons who wait are admitted after three.
MONTHS = {"wait": 5}


def _state(database: PostgresqlDatabase) -> tuple[Any, ...]:
    """The state of the chain, each cell by the tags of its members."""
    members = database.rows("SELECT cell, tag, left_at_release, missed FROM dbanon.chain_member")
    tags_by_cell: dict[int, list[bytes]] = {}
    for cell, tag, _, _ in members:
        tags_by_cell.setdefault(cell, []).append(bytes(tag))
    named = {cell: tuple(sorted(tags)) for cell, tags in tags_by_cell.items()}
    cells = database.rows("SELECT cell, state, since_release, loose FROM dbanon.chain_cell")
    [(rows,)] = database.rows(
        "SELECT relname FROM pg_class WHERE relname LIKE 'chain\\_row\\_%' AND relkind = 'r'"
    )
    published_rows = database.rows(f"SELECT * FROM dbanon.{rows}")
    counts = database.rows("SELECT counts FROM dbanon.chain_release ORDER BY sequence")
    return (
        sorted((bytes(tag), named[cell], left, missed) for cell, tag, left, missed in members),
        sorted((named[cell], *more) for cell, *more in cells),
        Counter((named[cell], *more) for cell, *more in published_rows),
        sorted(database.rows("SELECT tag, since_release FROM dbanon.chain_waiting")),
        counts,
    )


def _year(
    database: PostgresqlDatabase,
    directory: Path,
    table: str,
    rules: dict[str, Any],
    like: tuple[Any, ...] | None,
    n: int,
) -> tuple[tuple[Any, ...], list[Any]]:
    """The chain's identity and key, and state and release after each month; ``like`` another."""
    directory.mkdir()
    # Rows change, and persons come back.
    months, states = Months(seed=4, n=60, leave=0.1, join=8, change=0.1, come_back=0.4), []
    load(database, months.now)
    chained = Chained.create(database, directory, **rules)
    if like is not None:
        identity, check, key = like
        database.execute(
            f"UPDATE dbanon.chain SET identity = '{identity}', key_check = decode('{check}', 'hex')"
        )
        chained.key.write_text(key)
        Path(f"{chained.key}.last").unlink(missing_ok=True)
    for _ in range(n):
        load(database, months.now)
        database.execute(*TABLES[table])
        chained.release(by=["site"] if table == "no key" else [])
        states.append((_state(database), released(database)))
        months.pass_on()
    [chain_row] = database.rows("SELECT identity, encode(key_check, 'hex') FROM dbanon.chain")
    database.execute(
        "DROP TABLE people", "DROP SCHEMA dbanon CASCADE", "DROP SCHEMA release CASCADE"
    )
    return (*chain_row, chained.key.read_text()), states


@pytest.mark.parametrize(("table", "rules"), CASES)
def test_a_year_is_the_same(
    postgresql: PostgresqlDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    rules: str,
) -> None:
    fetched: list[str] = []
    fetch = PostgresqlChainArrays.fetch

    def fetch_and_record(self: PostgresqlChainArrays, columns: Any, rows: str) -> Any:
        fetched.append(rows)
        return fetch(self, columns, rows)

    monkeypatch.setattr(PostgresqlChainArrays, "fetch", fetch_and_record)
    n = 3 if table != "no key" else MONTHS.get(rules, 4)
    chain_row, by_arrays = _year(postgresql, tmp_path / "one", table, RULES[rules], None, n)
    assert bool(fetched) == (table != "a key of text")
    fetched.clear()
    monkeypatch.setattr(PsycopgSession, "chain_arrays", None)
    _, by_statements = _year(postgresql, tmp_path / "other", table, RULES[rules], chain_row, n)
    assert not fetched
    for month, (from_arrays, other) in enumerate(zip(by_arrays, by_statements, strict=True), 1):
        assert from_arrays == other, month


def test_a_limit_of_memory_holds(
    postgresql: PostgresqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    months, fetched = Months(n=300), []
    load(postgresql, months.now)
    chained = Chained.create(postgresql, tmp_path)
    chained.release()
    fetch = PostgresqlChainArrays.fetch

    def fetch_and_record(self: PostgresqlChainArrays, columns: Any, rows: str) -> Any:
        fetched.append(rows)
        return fetch(self, columns, rows)

    monkeypatch.setattr(PostgresqlChainArrays, "fetch", fetch_and_record)
    months.pass_on()
    load(postgresql, months.now)
    # Enough for newcomers and for all who are in the source, and not for all who ever were.
    assert len(months.now) < 300
    chained.release(memory_limit=200 * len(months.now))
    assert not fetched
    n_cells = len(chained.cells())
    chained.release(memory_limit=200 * n_cells - 1)
    assert not fetched
    chained.release(memory_limit=200 * n_cells)
    assert fetched


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("arrays", [False, True])
def test_refusals_are_the_same(
    postgresql: PostgresqlDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: bool,
    arrays: bool,
) -> None:
    load(postgresql, Months(n=20).now)
    if not arrays:
        monkeypatch.setattr(PsycopgSession, "chain_arrays", None)
    chained = Chained.create(postgresql, tmp_path)
    if later:
        chained.release()
    postgresql.execute("INSERT INTO people SELECT * FROM people WHERE id IN (3, 4)")
    with pytest.raises(ChainEntityRows, match=r"^The 22 rows .* have 20 values") as refused:
        chained.release()
    assert refused.value.detail == "99 of 100 persons have at most 2."
    postgresql.execute("UPDATE people SET id = NULL WHERE id IN (3, 4)")
    with pytest.raises(NullInEntity, match="NULL in 4 of 22 rows"):
        chained.release()


def test_rows_of_equal_values_stand_together_and_those_of_a_cell_do_not(
    postgresql: PostgresqlDatabase, tmp_path: Path
) -> None:
    # Two combinations, each of many cells; what a row says last, says whose it is.
    who = {i: (40, 1000 + i % 2 * 5000, "a", "flu", i / 4) for i in range(240)}
    load(postgresql, who)
    chained = Chained.create(postgresql, tmp_path)
    orders = []
    for _ in range(2):
        chained.release(keep=["cost"])
        rows = postgresql.rows("SELECT income, 4 * cost FROM release.people ORDER BY ctid")
        cells = chained.history(list(who))
        incomes = [income for income, _ in rows]
        assert sum(income != other for income, other in pairwise(incomes)) == 1
        orders.append([cells[int(person)] for _, person in rows])
        # A random order gives two or three of 239 pairs; 160 would mean that cells stay together.
        equal_pairs = sum(order == other for order, other in pairwise(orders[-1]))
        assert equal_pairs < 30
        ranks = [cell for cell, _ in orders[-1][:120]]
        assert ranks != sorted(ranks)
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("key", "arrays"), [("id", True), ("place", True), ("place", False)])
def test_a_view_with_a_key_that_is_stated(
    postgresql: PostgresqlDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    arrays: bool,
) -> None:
    if not arrays:
        monkeypatch.setattr(PsycopgSession, "chain_arrays", None)
    months, chained = Months(seed=4, leave=0, change=0.3), None
    places = "id, CASE WHEN id > 3 THEN 1000 - id END AS place"

    def view(columns: str) -> None:
        postgresql.execute("DROP VIEW IF EXISTS seen")
        load(postgresql, months.now)
        postgresql.execute(f"CREATE VIEW seen AS SELECT {columns}, age, income, ill FROM people")

    for _ in range(2):
        # Only the first release reads all keys.
        view(places.replace("> 3", "> 0") if chained is None else places)
        chained = chained or Chained.create(postgresql, tmp_path, table="seen")
        assert chained.release(table="seen", key=[key]).rows_out == len(months.now)
        expected_counts = Counter(ill for _, _, _, ill, _ in months.now.values())
        assert (
            Counter(ill for (ill,) in postgresql.rows("SELECT ill FROM release.people"))
            == expected_counts
        )
        months.pass_on()
    assert chained is not None
    view("nullif(id, 5) AS id, id AS place")
    with pytest.raises(NullInEntity, match="NULL in 1 of"):
        chained.release(table="seen", key=[key])


def test_a_column_named_as_that_of_a_row_key(
    postgresql: PostgresqlDatabase, tmp_path: Path
) -> None:
    months, chained = Months(seed=4), None
    for _ in range(2):
        load(postgresql, months.now)
        postgresql.execute("ALTER TABLE people RENAME income TO dbanon_key0")
        chained = chained or Chained.create(postgresql, tmp_path)
        report = chained.release(quasi_identifiers=["age", "dbanon_key0"])
        assert report.rows_in == len(months.now)
        months.pass_on()
