"""How rows travel from MariaDB and back: doubles as bytes, pieces, statements of bounded length."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon import errors
from dbanon.data.schema import Attribute, Kind
from dbanon.extensions.mariadb import dialect, staging, store
from dbanon.recoding import ReleasedColumn
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.databases import MariadbDatabase
from tests.stores.people import load_people


def test_doubles_are_read_as_they_are(mariadb: MariadbDatabase) -> None:
    rng = np.random.default_rng(3)
    values = (rng.normal(size=400) * 10.0 ** rng.integers(-300, 300, 400)).tolist()
    values += [0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 2.0**53 + 2]
    key = 2**62
    rows = ", ".join(f"({key + i}, {value!r})" for i, value in enumerate(values))
    mariadb.execute("CREATE TABLE t (id bigint PRIMARY KEY, x double, y double)")
    mariadb.execute(f"INSERT INTO t (id, x) VALUES {rows}")
    with open_store(mariadb.url).session(write=False) as session:
        relation = session.catalog.with_row_locator(
            session.catalog.find_source(parse_relation("t")), ()
        )
        relation = session.pin(relation, ["x", "y"])
        attributes = [relation.attribute("x"), relation.attribute("y")]
        [chunk] = session.read_chunks(relation, attributes, 1000)
    assert chunk.keys[:, 0].tolist() == [key + i for i in range(len(values))]
    assert chunk.numbers[:, 0].tolist() == values
    assert chunk.valid is not None
    assert chunk.valid.all(0).tolist() == [True, False]


def test_rows_come_in_many_pieces(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of all sizes, NULLs and decimals, more rows than one answer holds."""
    rng = np.random.default_rng(5)
    keys = sorted(
        {-(2**63), -(2**53) - 1, -1, 0, 2**53 + 1, 2**63 - 1}
        | set(rng.integers(-(2**62), 2**62, 300).tolist())
    )
    decimals = [f"{n}.{m:06d}" for n, m in rng.integers(0, 10**6, (len(keys), 2)).tolist()]
    names = [None if i % 7 == 0 else f"text {i % 5}" for i in range(len(keys))]
    rows = ", ".join(
        f"({key}, {decimal}, {'NULL' if name is None else repr(name)})"
        for key, decimal, name in zip(keys, decimals, names, strict=True)
    )
    mariadb.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, `x{0}%s` decimal(20,6), name varchar(20))"
    )
    mariadb.execute(f"INSERT INTO t VALUES {rows}")
    monkeypatch.setattr(staging, "_PACKET_BYTES", 1_000)
    with open_store(mariadb.url).session(write=False) as session:
        relation = session.catalog.with_row_locator(
            session.catalog.find_source(parse_relation("t")), ()
        )
        relation = session.pin(relation, ["x{0}%s", "name"])
        attributes = [relation.attribute("x{0}%s"), relation.attribute("name")]
        [values] = session.stage_values(relation, attributes)
        chunks = list(session.read_chunks(relation, attributes, 1000))
    assert len(chunks) > 20
    keys_read = np.concatenate([chunk.keys[:, 0] for chunk in chunks])
    order = np.argsort(keys_read)
    numbers = np.concatenate([chunk.numbers[:, 0] for chunk in chunks])[order]
    codes = np.concatenate([chunk.codes[:, 0] for chunk in chunks if chunk.codes is not None])
    assert keys_read[order].tolist() == keys
    assert numbers.tolist() == list(map(float, decimals))
    assert [None if code < 0 else values[code] for code in codes[order]] == names


def test_numbers_are_staged_as_they_are(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bytes, in packets smaller than the rows."""
    monkeypatch.setattr(staging, "_STATEMENT_CHARACTERS", 1_000)
    rng = np.random.default_rng(7)
    keys = np.array([-(2**63), -1, 0, 2**53 + 1, 2**63 - 1, *rng.integers(-(2**62), 2**62, 300)])
    classes = rng.permutation(len(keys)).astype(np.int32)
    positions = rng.permutation(len(keys)).astype(np.int32)
    doubles = np.array(
        [
            0.0,
            5e-324,
            1.7976931348623157e308,
            0.1 + 0.2,
            *rng.normal(size=301) * 10.0 ** rng.integers(-300, 300, 301),
        ]
    )
    numbers = rng.integers(-(2**63), 2**63 - 1, 305)
    released = [
        ReleasedColumn(Attribute("x", Kind.FLOAT, sql_type="double"), doubles),
        ReleasedColumn(Attribute("n", Kind.INTEGER, sql_type="bigint"), numbers),
    ]
    with open_store(mariadb.url).session(write=False) as session:
        session.load_labels(keys.reshape(-1, 1), classes, positions, ["BIGINT"])
        session.load_classes(released, len(doubles))
        staged_rows = session.rows("SELECT key0, class, position FROM dbanon_labels")
        values = session.rows("SELECT class, v0, v1 FROM dbanon_classes ORDER BY class")
    assert sorted(staged_rows) == sorted(
        zip(*(array.tolist() for array in (keys, classes, positions)), strict=True)
    )
    assert [int(position) for position, _, _ in values] == list(range(305))
    assert [repr(value) for _, value, _ in values] == list(map(repr, doubles.tolist()))
    assert [int(value) for _, _, value in values] == numbers.tolist()


def test_a_server_that_reads_points_otherwise_is_not_written_to(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(mariadb)
    monkeypatch.setattr(dialect, "DOUBLE_FORMAT_PROBE", "SELECT 0")
    with pytest.raises(errors.DatabaseFailure, match="unknown format"):
        dbanon.anonymize(
            mariadb.url, table="people", k=3, output="release.people", quasi_identifiers=["height"]
        )
    query = (
        "SELECT 1 FROM information_schema.tables WHERE table_name = 'people' AND table_schema = "
    )
    assert mariadb.rows(f"{query}'release'") == []


def test_an_answer_that_is_cut_is_an_error(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(mariadb)
    monkeypatch.setattr(store, "_SETTINGS", (*store._SETTINGS, "SET group_concat_max_len = 100"))
    with pytest.raises(errors.DatabaseFailure, match="truncated"):
        dbanon.anonymize(
            mariadb.url,
            table="people",
            k=3,
            output="release.people",
            quasi_identifiers=["age", "height"],
            method="mdav",
        )


def test_texts_longer_than_a_statement(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged in several statements, with what SQL and the driver give a meaning."""
    monkeypatch.setattr(staging, "_STATEMENT_CHARACTERS", 200)
    mariadb.execute("CREATE TABLE t (id int PRIMARY KEY, name varchar(80))")
    names = ["%s 'quoted' \\ back", "a%d", "ü" * 60, "plain"]
    for i in range(40):
        encoded = names[i % 4].encode().hex()
        mariadb.execute(f"INSERT INTO t VALUES ({i}, CONVERT(0x{encoded} USING utf8mb4))")
    report = dbanon.anonymize(
        mariadb.url,
        table="t",
        quasi_identifiers=["name"],
        k=10,
        output="release.t",
        method="mdav",
        recoding="representative",
    )
    assert report.rows_out == 40
    counts = mariadb.rows("SELECT name, count(*) FROM `release`.t GROUP BY BINARY name, name")
    assert sorted(counts) == sorted((name, 10) for name in names)


def test_wide_texts_fit_into_what_a_server_takes_at_once(mariadb: MariadbDatabase) -> None:
    """A statement is counted in characters; a server counts bytes, three for each of these."""
    [(usual,)] = mariadb.rows("SELECT @@max_allowed_packet")
    table = [(i, float(i % 10), chr(0x4E00 + i % 500) * 900) for i in range(1_000)]
    frame = pd.DataFrame(table, columns=["id", "a", "note"])
    mariadb.execute(f"SET GLOBAL max_allowed_packet = {2**21}")
    try:
        report = dbanon.anonymize(
            iter([frame]),
            table="t",
            quasi_identifiers=["a"],
            keep=["note"],
            k=5,
            kept_columns="client",
            output="release.t",
            target=mariadb.url,
            method="mdav",
        )
    finally:
        mariadb.execute(f"SET GLOBAL max_allowed_packet = {usual}")
    assert report.rows_out == 1_000


@pytest.mark.parametrize("key", ["id int PRIMARY KEY", "id varchar(9) PRIMARY KEY", "id int"])
@pytest.mark.parametrize("name", ["Dbanon_Class", "Dbanon_Row"])
def test_a_kept_column_with_a_name_of_ours(mariadb: MariadbDatabase, name: str, key: str) -> None:
    mariadb.execute(f"CREATE TABLE t ({key}, a double, {name} int)")
    rows = ", ".join(f"({i}, {i % 4}, {99 - i % 50})" for i in range(60))
    mariadb.execute(f"INSERT INTO t (id, a, {name}) VALUES {rows}")
    dbanon.anonymize(
        mariadb.url,
        table="t",
        quasi_identifiers=["a"],
        keep=[name],
        k=5,
        output="release.t",
        method="mdav",
        where=f"{name} < 1000",
    )
    released_rows = mariadb.rows(f"SELECT a, {name} FROM `release`.t")
    assert sorted(released_rows) == sorted((float(i % 4), 99 - i % 50) for i in range(60))
