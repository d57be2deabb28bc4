"""Databases that were restored from a backup, state and ledger together: the key remembers."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from dbanon.errors import ChainBehind, ChainKeyWrong, ReleaseNotNoted
from dbanon.extensions.chains.key import note_published, read_last_published
from tests.stores.chain_cases import Chained, Months, load
from tests.stores.databases import Database, DuckdbDatabase

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def set_back(database: Database, sequence: int) -> None:
    """Restores the state as a backup of the database would, without any later release."""
    database.execute(
        f"DELETE FROM {database.ledger()} WHERE chain_sequence > {sequence}",
        f"DELETE FROM {database.ledger('chain_release')} WHERE sequence > {sequence}",
        f"UPDATE {database.ledger('chain')} SET sequence = {sequence}",
    )


def test_the_key_reveals_a_restored_backup(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    for _ in range(2):
        chained.release()
    note = tmp_path / "chain.key.last"
    assert list(json.loads(note.read_text()).values()) == [2]
    assert note.stat().st_mode & 0o777 == 0o600
    set_back(database, 1)
    with pytest.raises(ChainBehind, match=r"Release 2 .* next to its key"):
        chained.release()
    note.unlink()
    # This is forgotten by now.
    again = chained.release(output="release.again")
    assert again.arguments["chain"]["sequence"] == 2
    assert sorted(path.name for path in tmp_path.glob("chain.key*")) == [
        "chain.key",
        "chain.key.last",
    ]


def test_a_backup_is_noticed_by_the_last_export(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "source.duckdb")
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    file = tmp_path / "people.parquet"
    chained.release(exports=[file])
    shutil.copy2(database.path, tmp_path / "backup")
    chained.release(exports=[file])
    shutil.copy2(tmp_path / "backup", database.path)
    (tmp_path / "chain.key.last").unlink()
    with pytest.raises(ChainBehind, match=r"Release 2 .* people.parquet"):
        chained.release(exports=[file])
    assert chained.show().sequence == 1


def test_releases_of_another_role_count(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    for _ in range(2):
        chained.release()
    (tmp_path / "chain.key.last").unlink()
    database.execute(
        f"UPDATE {database.ledger()} SET published_by = 'somebody'",
        f"UPDATE {database.ledger('chain')} SET sequence = 1",
    )
    with pytest.raises(ChainBehind, match=r"Release 2 .* ledger"):
        chained.release()


def test_what_is_noted_beside_a_key(tmp_path: Path) -> None:
    where = f"file:{tmp_path / 'k'}"
    (tmp_path / "k").touch()
    assert read_last_published(where, "a") == 0
    assert note_published(where, "a", 3)
    note_published(where, "b", 1)
    note_published(where, "a", 2)
    assert (read_last_published(where, "a"), read_last_published(where, "b")) == (3, 1)
    # A variable has no place beside it, and a directory that is not there none to write.
    assert note_published("env:KEY", "a", 3)
    assert read_last_published("env:KEY", "a") == 0
    assert not note_published(f"file:{tmp_path / 'no' / 'k'}", "a", 3)
    # An unreadable file is neither treated as missing nor overwritten.
    (tmp_path / "k.last").write_text("no list")
    with pytest.raises(ChainKeyWrong, match=r"k\.last"):
        read_last_published(where, "a")
    assert not note_published(where, "a", 4)
    assert (tmp_path / "k.last").read_text() == "no list"


def test_chains_of_one_key_note_one_after_the_other(tmp_path: Path) -> None:
    where = f"file:{tmp_path / 'k'}"
    (tmp_path / "k").touch()
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda n: note_published(where, str(n % 40), n), range(200)))
    assert [read_last_published(where, str(n)) for n in range(40)] == list(range(160, 200))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "k.last"]


def test_a_note_that_cannot_be_written_warns_once_published(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "source.duckdb")
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    (tmp_path / "chain.key.last").unlink()
    with (
        mock.patch("os.fsync", side_effect=OSError("read only")),
        pytest.warns(ReleaseNotNoted, match="chain patients"),
    ):
        chained.release()
    assert chained.show().sequence == 2
    assert not list(tmp_path.glob("chain.key.last*"))


def test_a_restored_state_is_behind(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    chained.release()
    database.execute(f"UPDATE {database.ledger('chain')} SET sequence = 1")
    with pytest.raises(ChainBehind, match="Release 2"):
        chained.release()
