"""Verification holds a release against the k of its ledger entry, and a caller's k besides."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyarrow import parquet

import dbanon
from dbanon.errors import InvalidParameter, RecountFailed, ReleaseChanged
from dbanon.run.open import open_store
from dbanon.run.verify import Verification, verify
from dbanon.run.verify_file import verify_file
from dbanon.sessions.names import parse_relation
from dbanon.stores.exports.formats import metadata_of

K = 5


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    """A release of 20 rows in 4 classes of 5."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS age, 'x' AS ill FROM range(20)")
    report = dbanon.anonymize(
        connection, table="people", quasi_identifiers=["age"], k=K, output="released"
    )
    assert report.classes == 4
    return connection


def verified(connection: duckdb.DuckDBPyConnection, k: int | None = None) -> Verification:
    verification = verify(open_store(connection), parse_relation("released"), k=k)
    assert isinstance(verification, Verification)
    return verification


def test_the_ledger_says_which_k(connection: duckdb.DuckDBPyConnection) -> None:
    verification = verified(connection)
    assert (verification.k_requested, verification.k_achieved, verification.unchanged) == (
        K,
        K,
        True,
    )


def test_a_class_below_the_k_of_the_ledger_fails(connection: duckdb.DuckDBPyConnection) -> None:
    """Not as a mere change: 4 rows would be enough for a k of 2, 3 or 4."""
    connection.execute("DELETE FROM released WHERE rowid = (SELECT min(rowid) FROM released)")
    with pytest.raises(RecountFailed, match=f"holds 4 rows, fewer than k = {K}"):
        verified(connection)
    with pytest.raises(ReleaseChanged):
        verified(connection, k=4)


def test_a_larger_k_of_the_entry_is_held_against_the_rows(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute(f"UPDATE dbanon.release SET k_requested = {K + 1}")
    with pytest.raises(RecountFailed, match=f"holds 5 rows, fewer than k = {K + 1}"):
        verified(connection)


def test_a_caller_may_ask_for_more(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(RecountFailed, match=f"holds 5 rows, fewer than k = {K + 1}"):
        verified(connection, k=K + 1)
    assert verified(connection, k=K).k_requested == K


def test_a_file_is_held_against_the_k_that_it_names(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    path = tmp_path / "released.parquet"
    options = {"table": "people", "quasi_identifiers": ["age"], "k": K, "output": "again"}
    dbanon.anonymize(connection, **options, exports=[path])
    assert verify_file(path).k_requested == K
    table = parquet.read_table(path)
    metadata = {f"dbanon.{name}": value for name, value in metadata_of(path).items()}
    parquet.write_table(table.slice(1).replace_schema_metadata(metadata), path)
    with pytest.raises(RecountFailed, match=f"holds 4 rows, fewer than k = {K}"):
        verify_file(path)
    # Attack: a smaller k lets the classes pass as those of the release.
    with pytest.raises(InvalidParameter, match="smaller k"):
        verify_file(path, k=4)
    assert verify_file(path, ["age"], k=4).k_achieved == 4
