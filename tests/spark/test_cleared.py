"""Files of a dead driver are removed by ``dbanon gc``, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter
from dbanon.run.gc import clear_abandoned_directories, clear_staging_directories, collect_garbage
from dbanon.run.open import open_store
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql import pieces
from dbanon.stores.scratch import create_locked_directory
from tests.spark.statements import execute

COLUMNS = [("age", "integer")]
OUTPUT = RelationName("public", "people")


def make_pieces(url: str, release_id: str, age: int, count: int = 2) -> list[RelationName]:
    """Create pieces of a release that was started so many seconds ago."""
    names = pieces.names(OUTPUT, release_id, count, 63)
    with open_store(url).session(write=True) as session:
        pieces.make(session.connection, names, COLUMNS, release_id)
        for name in names:
            mark = f"{pieces.MARK}{release_id} {int(time.time()) - age}"
            session.run(f"COMMENT ON TABLE {name.quoted} IS '{mark}'")
    return names


def remaining_pieces(url: str) -> list[str]:
    listing = execute(
        url, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'peop%'"
    )
    return sorted(name for (name,) in listing)


def test_old_pieces_of_a_dead_driver_are_dropped(pg_url: str) -> None:
    old = make_pieces(pg_url, str(uuid.uuid4()), 2 * 86_400, 3)
    young = make_pieces(pg_url, str(uuid.uuid4()), 3600)
    assert len(remaining_pieces(pg_url)) == 5
    done = CliRunner().invoke(main, ["gc", pg_url, "--format", "json"])
    assert json.loads(done.stdout)["dropped"] == [str(name) for name in old]
    assert remaining_pieces(pg_url) == sorted(name.name for name in young)
    assert collect_garbage(open_store(pg_url)) == []


def test_those_of_a_driver_at_work_are_left_however_old_they_are(pg_url: str) -> None:
    release_id = str(uuid.uuid4())
    names = make_pieces(pg_url, release_id, 10 * 86_400)
    store = open_store(pg_url)
    with store.job_lock(pieces.lock_name(release_id)):
        assert collect_garbage(store) == []
    assert collect_garbage(store) == [str(name) for name in names]


def test_tables_resembling_pieces_are_left(pg_url: str) -> None:
    release_id, old = str(uuid.uuid4()), int(time.time()) - 10 * 86_400
    [name, *_] = pieces.names(OUTPUT, release_id, 1, 63)
    execute(
        pg_url,
        # Not a piece's name; no mark; a mark of another form; a table that must survive a crash.
        f"CREATE UNLOGGED TABLE people_all (a integer);"
        f" COMMENT ON TABLE people_all IS 'dbanon piece {release_id} {old}';"
        f" CREATE UNLOGGED TABLE {name.quoted} (a integer);"
        f" CREATE UNLOGGED TABLE people_p0123456789ab_1 (a integer);"
        f" COMMENT ON TABLE people_p0123456789ab_1 IS 'dbanon piece {release_id} soon';"
        f" CREATE TABLE people_p0123456789ab_2 (a integer);"
        f" COMMENT ON TABLE people_p0123456789ab_2 IS 'dbanon piece {release_id} {old}'",
    )
    assert collect_garbage(open_store(pg_url)) == []
    assert len(remaining_pieces(pg_url)) == 4


def test_those_of_another_role_are_left(pg_url: str, pg_role: Any) -> None:
    make_pieces(pg_url, str(uuid.uuid4()), 2 * 86_400)
    other = pg_role("other")
    assert collect_garbage(open_store(other)) == []
    assert len(remaining_pieces(pg_url)) == 2


def test_names_fit_and_differ() -> None:
    long = RelationName("s", "ä" * 40)
    names = pieces.names(long, str(uuid.uuid4()), 200, 63)
    assert len(set(names)) == 200
    assert all(len(name.name.encode()) <= 63 for name in names)


def staged(folder: Path, name: str, age: float) -> Path:
    staged_path = folder / name
    staged_path.mkdir()
    (staged_path / "part-0.parquet").write_text("rows")
    for path in (staged_path / "part-0.parquet", staged_path):
        os.utime(path, (time.time() - age, time.time() - age))
    return staged_path


def test_staged_directories_of_a_dead_driver_are_removed(tmp_path: Path) -> None:
    old = staged(tmp_path, ".people.0123456789ab.dbanon", 2 * 86_400)
    young = staged(tmp_path, ".people.0123456789ac.dbanon", 60)
    at_work = staged(tmp_path, ".people.0123456789ad.dbanon", 2 * 86_400)
    (at_work / "part-1.parquet").write_text("rows")
    os.utime(at_work, (1, 1))
    others = [
        staged(tmp_path, name, 2 * 86_400)
        for name in ("people", ".people.dbanon", ".people.0123456789ab", "x.0123456789ab.dbanon")
    ]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".link.0123456789ab.dbanon").symlink_to(tmp_path / "elsewhere")
    done = CliRunner().invoke(
        main, ["gc", "--staged", str(tmp_path), "--format", "json"], env={"DBANON_URL": None}
    )
    assert json.loads(done.stdout) == {"dropped": [], "cleared": [str(old)]}
    assert not old.exists()
    assert all(path.exists() for path in (young, at_work, *others, tmp_path / "elsewhere"))
    assert clear_staging_directories([str(tmp_path / "missing")]) == []
    with pytest.raises(InvalidParameter):
        clear_staging_directories([str(young / "part-0.parquet")])


def test_only_files_of_a_killed_driver_are_removed(tmp_path: Path) -> None:
    """Our directories are recognized by name, owner, mode and the absence of a lock."""
    name = "dbanon-spark-" + "0123456789abcdef" * 2
    alive = create_locked_directory(str(tmp_path))
    (alive / "rdd_1_1").write_text("rows")
    dead = tmp_path / name
    (dead / "blockmgr-1").mkdir(parents=True)
    (dead / "blockmgr-1" / "rdd_1_1").write_text("rows")
    dead.chmod(0o700)
    (dead / "out").symlink_to(alive)
    (tmp_path / f"{name[:-1]}0").mkdir(mode=0o755)
    (tmp_path / f"{name[:-1]}1").symlink_to(alive)
    (tmp_path / f"{name[:-1]}2").write_text("of nobody")
    (tmp_path / "dbanon-spark-mine").mkdir(mode=0o700)
    if os.geteuid() == 0:
        other = tmp_path / f"{name[:-1]}3"
        other.mkdir(mode=0o700)
        os.chown(other, 12345, 12345)
    before = sorted(tmp_path.iterdir())
    done = CliRunner().invoke(
        main, ["gc", "--spark-local", str(tmp_path), "--format", "json"], env={"DBANON_URL": None}
    )
    assert json.loads(done.stdout) == {"dropped": [], "cleared": [str(dead)]}
    assert sorted(tmp_path.iterdir()) == [path for path in before if path != dead]
    assert (alive / "rdd_1_1").exists()
    assert clear_abandoned_directories([str(tmp_path / "missing")]) == []
    with pytest.raises(InvalidParameter):
        clear_abandoned_directories([str(alive / "rdd_1_1")])


def test_our_directories_are_removed_with_their_process(tmp_path: Path) -> None:
    code = (
        "import os; from dbanon.stores.scratch import create_locked_directory as held;"
        f" print(held({str(tmp_path / 'new')!r}), flush=True); os.fork()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "new" / "dbanon-spark-"))
    assert list((tmp_path / "new").iterdir()) == []
