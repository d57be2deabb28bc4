"""Every door answers as it did when ``recorded/`` was written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.backend_package import copy_package
from tests.conftest import CAMPAIGN
from tests.golden import records
from tests.golden.answers import Door
from tests.golden.house import DOORS, IN_POSTGRESQL, Open, installed, opened
from tests.postgres_server import Server
from tests.prerequisites import skip_or_fail


@pytest.fixture(scope="module")
def golden_url(local_pg_server: Server) -> Iterator[str]:
    """A database with the tables and all functions."""
    if not local_pg_server.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    ):
        skip_or_fail(f"PostgreSQL {local_pg_server.version} here has no PL/Python")
    folder = Path(tempfile.mkdtemp(prefix="dbanon-golden-"))
    folder.chmod(0o755)
    try:
        (folder / "site").mkdir()
        with installed(local_pg_server, copy_package(folder / "site")) as url:
            yield url
    finally:
        shutil.rmtree(folder)


# What is asked is the same at these doors and at that of SQLite, which is asked all of it. Each of
# these is asked a fourth, and together they are asked all; in a campaign each of them is.
IN_TURN = ("duckdb", "frame", "postgresql", "sql")


def compare(name: str, place: Open) -> None:
    known = records.load(name)
    with opened(name, place) as door:
        if name in IN_TURN and not CAMPAIGN:
            assert isinstance(door, Door)
            cases = door.cases()
            assert set(cases) == set(known)
            turn = {case for case in cases if crc32(case.encode()) % 4 == IN_TURN.index(name)}
            known = {case: answer for case, answer in known.items() if case in turn}
            asked = {case: given for case, given in cases.items() if case in turn}
            door.cases = lambda: asked  # type: ignore[method-assign]
        now = {case: records.recorded(answer) for case, answer in door.answers()}
    found = list(records.differences(name, known, now))
    assert not found, "\n".join(
        [*found[:40], f"{len(found)} differences: python -m tests.golden diff --door {name}"]
    )


@pytest.mark.parametrize("name", [name for name in DOORS if name not in IN_POSTGRESQL])
def test_a_door_answers_as_recorded(name: str, tmp_path: Path) -> None:
    compare(name, Open(tmp_path, None))


@pytest.mark.postgresql
@pytest.mark.parametrize("name", [name for name in DOORS if name in IN_POSTGRESQL])
def test_a_door_in_postgresql_answers_as_recorded(
    name: str, golden_url: str, tmp_path: Path
) -> None:
    compare(name, Open(tmp_path, golden_url))


def test_a_difference_is_told_by_door_case_and_field() -> None:
    before = {"one": {"labels": "[0]", "rows": "1"}, "gone": {}}
    now = {"one": {"labels": "[1]", "rows": "1"}, "new": {}}
    assert list(records.differences("door", before, now)) == [
        "door / one / labels: [0] -> [1]",
        "door / gone: is not asked any more",
        "door / new: is new",
    ]


def test_long_values_differ_by_their_hash() -> None:
    long, other = list(range(200)), [*range(199), 0]
    assert records.compact(long) != records.compact(other)
    assert len(records.compact(long)) < 120
