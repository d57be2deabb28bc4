"""Releases whose attributes are grouped by themselves: k of each value, and none of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import dbanon
from dbanon.errors import InvalidParameter, RecountFailed, ReleaseChanged, RowsNotAnonymous
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database
from tests.stores.people import frame_of_people, load_people, rows_of_people
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

NAMES = ["age", "income", "height", "born", "seen"]
METHOD_OPTIONS = {"method": "individual_ranking", "guarantee": "per_attribute"}


def release(database: Database, **overrides: Any) -> dbanon.Report:
    with pytest.warns(RowsNotAnonymous):
        return database.anonymize(**({"quasi_identifiers": NAMES} | METHOD_OPTIONS | overrides))


def counted(database: Database, *names: str) -> Counter[int]:
    """The number of groups of equal values, by size."""
    rows = database.rows(
        f"SELECT count(*) FROM {database.relation('release.people')} GROUP BY {', '.join(names)}"
    )
    return Counter(size for (size,) in rows)


def test_each_value_is_shared_and_rows_are_not(database: Database) -> None:
    rows = load_people(database)
    report = release(database, keep=["id"])
    sizes = [counted(database, name) for name in NAMES]
    assert min(min(sizes_of_column) for sizes_of_column in sizes) == report.k_achieved == 3
    assert report.classes == sum(sum(sizes_of_column.values()) for sizes_of_column in sizes)
    assert report.k_rows == min(counted(database, *NAMES)) == 1
    assert "ROWS ARE NOT k-ANONYMOUS" in report.guarantee
    assert dict(report.rows())["ROWS ARE NOT k-ANONYMOUS"].endswith("shared by 1 row(s)")
    assert report.arguments["guarantee"] == "per_attribute"
    assert report.arguments["k_rows"] == 1
    # Every column by itself is what univariate classes of 3 from both ends give.
    released = {
        row[0]: row[1:]
        for row in database.rows(
            f"SELECT id, age, height FROM {database.relation('release.people')}"
        )
    }
    assert len(released) == len(rows)
    for index, column in ((0, 2), (1, 4)):
        original = {row[0]: float(row[column]) for row in rows}
        ordered = sorted(original, key=lambda key: (original[key], key))
        # The first class holds the three smallest, the last the three largest.
        for end in (ordered[:3], ordered[-3:]):
            values = {float(released[key][index]) for key in end}
            assert len(values) == 1
            mean = sum(original[key] for key in end) / 3
            assert values.pop() == pytest.approx(mean, abs=0.5 if index == 0 else 1e-9)


def test_the_same_as_of_a_data_frame(database: Database) -> None:
    rows = rows_of_people(60, seed=3)
    load_people(database, rows)
    names = ["age", "height"]
    report = release(
        database, quasi_identifiers=names, k=4, by=["site"], recoding="median", **strata(database)
    )
    frame = frame_of_people(rows)
    frame["site"] = frame["site"].str[-1]
    with pytest.warns(RowsNotAnonymous):
        expected, of_frame = dbanon.anonymize_frame(
            frame, quasi_identifiers=names, k=4, by=["site"], recoding="median", **METHOD_OPTIONS
        )
    released_rows = database.rows(
        f"SELECT age, height, site FROM {database.relation('release.people')}"
    )
    assert Counter(released_rows) == Counter(
        map(tuple, expected[["age", "height", "site"]].to_numpy())
    )
    assert (report.k_achieved, report.k_rows) == (of_frame.k_achieved, of_frame.k_rows)
    assert report.information_loss == pytest.approx(of_frame.information_loss)
    assert report.classes == of_frame.classes
    for name in names:
        assert min(counted(database, name, "site")) >= 4
    assert "with equal (site)" in report.guarantee


def strata(database: Database) -> dict[str, str]:
    """A view with ten sites of six persons."""
    database.execute(
        "CREATE VIEW sited AS"
        " SELECT id, age, height, substr(site, length(site)) AS site FROM people"
    )
    return {"table": "sited", "key": ["id"]}  # type: ignore[dict-item]


@pytest.mark.parametrize("recoding", ["mean", "median", "medoid"])
def test_nulls_and_other_recodings(database: Database, recoding: str) -> None:
    rows = [(*row[:2], None if row[0] % 4 == 0 else row[2], *row[3:]) for row in rows_of_people()]
    load_people(database, rows)
    report = release(database, nulls="category", recoding=recoding)
    assert report.null_rows == 10
    assert report.k_achieved >= 3
    assert database.rows(
        f"SELECT count(*) FROM {database.relation('release.people')} WHERE age IS NULL"
    ) == [(10,)]


def test_wide_numbers_are_exact(database: Database) -> None:
    big = 2**60
    rows = [(i, (i * 7 % 20) * 1000 + big + i, i % 5) for i in range(20)]
    columns = {"id": "integer PRIMARY KEY", "x": database.types["bigint"], "y": "integer"}
    database.load("people", columns, rows)
    release(database, quasi_identifiers=["x", "y"], keep=["id"], k=5)
    released_values = dict(
        database.rows(f"SELECT id, x FROM {database.relation('release.people')}")
    )
    ordered = sorted(rows, key=lambda row: row[1])
    for group in (ordered[:5], ordered[5:10], ordered[10:15], ordered[15:]):
        total = sum(row[1] for row in group)
        mean, remainder = divmod(total, 5)
        assert {released_values[row[0]] for row in group} == {mean + (remainder > 2)}


def test_to_another_database(database: Database, make_database: Any) -> None:
    rows = load_people(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    release(database, quasi_identifiers=["age", "height"], keep=["id"], target=other.url)
    query = "SELECT id, age, height FROM {}"
    in_target = other.rows(query.format(other.relation("release.people")))
    release(database, quasi_identifiers=["age", "height"], keep=["id"])
    in_source = database.rows(query.format(database.relation("release.people")))
    assert sorted(in_target) == sorted(in_source)
    assert len(in_source) == len(rows)


def test_verify_counts_in_the_same_way(database: Database) -> None:
    load_people(database)
    release(database)
    name = parse_relation("release.people")
    verification = verify(open_store(database.url), name)
    assert verification.unchanged
    assert (verification.k_achieved, verification.k_rows) == (3, 1)
    assert "NOT k-ANONYMOUS" in str(verification.guarantee)
    # The suggested query has one statement per column.
    assert verification.recount_sql.count("GROUP BY") == len(NAMES)
    with pytest.raises(RecountFailed):
        verify(open_store(database.url), name, NAMES, 3)
    table = database.relation("release.people")
    value = database.rows(f"SELECT max(age) FROM {table}")[0][0]
    database.execute(f"UPDATE {table} SET age = {value} WHERE age <> {value}")
    with pytest.raises(ReleaseChanged):
        verify(open_store(database.url), name)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guarantee": "rows"}, 'guarantee="per_attribute"'),
        ({"method": "mdav"}, "groups rows"),
        ({"guarantee": "nobody"}, "rows, per_attribute"),
        ({"models": [dbanon.Model("distinct_l", "site", 2)], "sensitive": ["site"]}, "models"),
        ({"entity": "name"}, "persons"),
        ({"recoding": "generalization"}, "Recoding generalization"),
        ({"refine": "fast"}, "refine"),
        ({"block_size": 20}, "blocks"),
    ],
)
def test_what_is_refused(database: Database, options: dict[str, Any], message: str) -> None:
    load_people(database)
    refuse(database, InvalidParameter, message, **(METHOD_OPTIONS | options))
