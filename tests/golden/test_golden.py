"""All interfaces give the results in ``recorded/``."""

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
from tests.golden.additions import Additions
from tests.golden.answers import Door
from tests.golden.house import DOORS, IN_POSTGRESQL, Open, installed, opened
from tests.golden.surface import Surface
from tests.postgres_server import Server
from tests.prerequisites import skip_or_fail


@pytest.fixture(scope="module")
def golden_database(local_pg_server: Server) -> Iterator[tuple[str, Path]]:
    """A database with the tables and all functions: its URL, and from where they import dbanon."""
    if not local_pg_server.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    ):
        skip_or_fail(f"PostgreSQL {local_pg_server.version} here has no PL/Python")
    folder = Path(tempfile.mkdtemp(prefix="dbanon-golden-"))
    folder.chmod(0o755)
    try:
        package = folder / "site"
        package.mkdir()
        with installed(local_pg_server, copy_package(package)) as url:
            yield url, package
    finally:
        shutil.rmtree(folder)


# These interfaces have the same cases as SQLite, which runs all of them. Each of these runs other
# eighths: a case takes the other databases five times as long. In a campaign each runs all.
IN_TURN = {"duckdb": (0,), "frame": (1, 4), "postgresql": (2,), "sql": (3,)}


def compare(name: str, environment: Open) -> None:
    recorded, additions = records.load(name), Additions()
    with additions.left_out(), opened(name, environment) as door:
        if name in IN_TURN and not CAMPAIGN:
            assert isinstance(door, Door)
            cases = additions.cases(door.cases())
            assert set(cases) == set(recorded)
            turn = {case for case in cases if crc32(case.encode()) % 8 in IN_TURN[name]}
            recorded = {case: answer for case, answer in recorded.items() if case in turn}
            selected = {case: arguments for case, arguments in cases.items() if case in turn}
            door.cases = lambda: selected  # type: ignore[method-assign]
        now = {
            case: records.recorded(additions.answer(case, answer), environment.folders)
            for case, answer in door.answers()
        }
    differences = list(records.differences(name, recorded, additions.cases(now)))
    assert not differences, "\n".join(
        [
            *differences[:40],
            f"{len(differences)} differences: python -m tests.golden diff --door {name}",
        ]
    )


@pytest.mark.parametrize("name", [name for name in DOORS if name not in IN_POSTGRESQL])
def test_a_door_gives_the_recorded_results(name: str, tmp_path: Path) -> None:
    compare(name, Open(tmp_path))


@pytest.mark.postgresql
@pytest.mark.parametrize("name", [name for name in DOORS if name in IN_POSTGRESQL])
def test_a_door_in_postgresql_gives_the_recorded_results(
    name: str, golden_database: tuple[str, Path], tmp_path: Path
) -> None:
    compare(name, Open(tmp_path, *golden_database))


GRANTS = (
    ("INSERT ON dbanon.release", "dbanon_runner", "relation release"),
    ("SELECT ON dbanon.chain", "PUBLIC", "relation chain"),
    ("SELECT (name) ON dbanon.chain", "dbanon_reader", "column chain.name"),
    ("EXECUTE ON FUNCTION dbanon._require_room(text)", "PUBLIC", "function _require_room"),
    ("CREATE ON SCHEMA dbanon", "dbanon_admin", "schema dbanon"),
    ("USAGE ON TYPE dbanon.verification", "PUBLIC", "type verification"),
    ("dbanon_ledger", "dbanon_runner", "role dbanon_ledger"),
)


@pytest.mark.postgresql
def test_a_grant_more_or_less_is_a_difference(
    golden_database: tuple[str, Path], local_pg_server: Server
) -> None:
    (url, _), additions = golden_database, Additions()
    # The last is of a relation that the first has, too.
    rounds = [list(GRANTS)]
    if local_pg_server.version >= 17:
        rounds.append([("MAINTAIN ON dbanon.release", "dbanon_runner", "relation release")])

    def differences_after(*changes: str) -> list[str]:
        for change in changes:
            local_pg_server.execute(change, url=url)
        now = {
            case: records.recorded(additions.answer(case, answer), [])
            for case, answer in Surface(url).answers()
        }
        return list(records.differences("surface", records.load("surface"), additions.cases(now)))

    for grants in rounds:
        differences = differences_after(
            *(f"GRANT {privilege} TO {grantee}" for privilege, grantee, _ in grants)
        )
        assert len(differences) == len(grants), differences
        for *_, changed in grants:
            [_] = [line for line in differences if line.startswith(f"surface / {changed}")]
        revoked = (f"REVOKE {privilege} FROM {grantee}" for privilege, grantee, _ in grants)
        assert differences_after(*revoked) == []
    grant = "SELECT ON dbanon.release"
    [missing] = differences_after(f"REVOKE {grant} FROM dbanon_runner")
    assert missing.startswith("surface / relation release / rights.dbanon_runner: ")
    [more] = differences_after(f"GRANT {grant} TO dbanon_runner WITH GRANT OPTION")
    assert "WITH GRANT OPTION" in more
    assert differences_after(f"REVOKE GRANT OPTION FOR {grant} FROM dbanon_runner") == []


def test_a_run_masks_its_own_folders_and_no_other_slash(tmp_path: Path) -> None:
    texts = {
        f"{tmp_path}/site/dbanon": "FOLDER/dbanon",
        f"duckdb:///{tmp_path}/golden.duckdb": "duckdb:///FOLDER/golden.duckdb",
        f"{tmp_path}": "FOLDER",
        f"{tmp_path}9/file": f"{tmp_path}9/file",
        "{a=X/postgres,b=X/postgres}": "{a=X/postgres,b=X/postgres}",
        "year/month, /etc/hosts": "year/month, /etc/hosts",
    }
    environment = Open(tmp_path, None, tmp_path / "site")
    masked = records.masked_answer({"texts": list(texts)}, environment.folders)
    assert masked == {"texts": list(texts.values())}


def test_a_difference_is_reported_by_door_case_and_field() -> None:
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


def test_each_argument_with_another_value_than_its_default_has_a_field() -> None:
    arguments = {"k": 3, "note": None, "nulls": "error", "seed": 7, "weights": {"b": 2, "a": 1}}
    answer = {
        "report.arguments": arguments,
        # A ledger has its own order.
        "release.arguments": [arguments | {"weights": {"a": 1, "b": 2}, "strict": True}],
        "run.arguments": [{"seed": 1, "note": None}, {"seed": 2}],
    }
    assert records.recorded(answer, []) == {
        "report.arguments.k": "3",
        "report.arguments.seed": "7",
        "report.arguments.weights": '{"a": 1, "b": 2}',
        "release.arguments.k": "as in report",
        "release.arguments.seed": "as in report",
        "release.arguments.weights": "as in report",
        "release.arguments.strict": "true",
        "run.arguments": '[{"seed": 1}, {"seed": 2}]',
    }


def test_only_additions_are_left_out() -> None:
    additions = Additions()
    vars(additions).update(methods=frozenset({"fresh"}), options=frozenset({"note"}))
    cases = dict.fromkeys(["fresh/own", "array fresh", "function fresh(k integer)", "fresher/own"])
    assert [*additions.cases(cases)] == ["fresher/own"]
    answer = {
        "comment": "What it does.\n  note: text.\n  seed: a number.",
        "refused.hint": "Known methods: mdav, fresh, cbfs.",
        "note": "another field",
    }
    assert additions.answer("mdav/own", answer) == {
        "comment": "What it does.\n  seed: a number.",
        "refused.hint": "Known methods: mdav, cbfs.",
        "note": "another field",
    }
    assert "note" not in additions.answer("dbanon anonymize", answer)
