"""Jobs that have nothing to do, and jobs whose source has other types than they know."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import dbanon
from dbanon.errors import InvalidParameter, TableChanged
from tests.stores.conftest import FINGERPRINT_HASH_ROUNDS
from tests.stores.databases import Database
from tests.stores.job_lines import ROLES, call, job, job_results, write
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

WITH_ALL = ROLES | {
    "site": "{role: sensitive}",
    "height": "{role: by}",
    "born": '{role: keep, reason: "public"}',
}
SKIP = ("--skip-unchanged", "--format", "json")


@pytest.fixture(autouse=True)
def _people(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", database.url)


def released(database: Database) -> int:
    return len(database.ledger_rows("release"))


def test_another_version_releases_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    file = write(tmp_path, job())
    assert call("run", file, *SKIP).exit_code == 0
    monkeypatch.setattr("dbanon.run.fingerprint.version", lambda: "9.9")
    assert call("run", file, *SKIP).exit_code == 0


def test_nothing_is_done_twice(database: Database, tmp_path: Path) -> None:
    load_people(database)
    more = {"export": "[{format: csv, path: out.csv}]", "report": "out.txt"}
    file = write(tmp_path, job(**more), job("other", output="{table: other}"))
    first = call("run", file, *SKIP)
    assert (first.exit_code, released(database)) == (0, 2), first.stderr
    before = database.state(), (tmp_path / "out.csv").stat().st_mtime_ns
    again = call("run", file, *SKIP)
    assert again.exit_code == 99, again.stderr
    assert job_results(again) == [
        {
            "job": job_result["job"],
            "skipped": True,
            "release_id": job_result["report"]["release_id"],
        }
        for job_result in job_results(first)
    ]
    assert (database.state(), (tmp_path / "out.csv").stat().st_mtime_ns) == before
    assert "nothing changed" in call("run", file, "--skip-unchanged", "--job", "other").stdout
    assert dbanon.run_job(file, job="other", skip_unchanged=True) is None
    # One that was changed: not all were skipped.
    file = write(tmp_path, job(**more), job("other", output="{table: other}", k="4"))
    mixed = call("run", file, *SKIP)
    assert mixed.exit_code == 0
    assert ["skipped" in job_result for job_result in job_results(mixed)] == [True, False]
    file = write(tmp_path, job(**more), job("other", output="{table: other}", k="41"))
    assert call("run", file, *SKIP).exit_code == 8
    assert call("run", file, *SKIP, "--job", "other").exit_code == 3
    # Without the option nothing is skipped, and such a release has no fingerprint.
    assert call("run", file, "--job", "people").exit_code == 0
    assert call("run", file, "--job", "people", *SKIP).exit_code == 0
    assert call("run", file, "--job", "people", *SKIP).exit_code == 99


@pytest.mark.parametrize("column", ["age", "income", "height", "born", "site", "id"])
def test_a_value_of_any_column_that_matters_is_seen(
    database: Database, tmp_path: Path, column: str
) -> None:
    load_people(database)
    # Strata of one value each, but that which is changed.
    database.execute("UPDATE people SET height = 170.5")
    file = write(tmp_path, job(roles=WITH_ALL, entity="id", releases="independent"))
    assert call("run", file, *SKIP).exit_code == 0
    assert call("run", file, *SKIP).exit_code == 99
    change = f"UPDATE people SET {column} = (SELECT min({column}) FROM people)"
    if column in ("height", "id"):
        change = f"UPDATE people SET {column} = 171"
    database.execute(f"{change} WHERE id = 17")
    done = call("run", file, *SKIP)
    # A person less, or a stratum of one: other rows, which the run judges.
    assert done.exit_code in (0, 3), done.stderr
    assert "skipped" not in job_results(done)[0]


def test_columns_that_are_not_released_do_not_matter(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(where='"age >= 30"'))
    assert call("run", file, *SKIP).exit_code == 0
    database.execute(
        "UPDATE people SET height = height + 1",
        "UPDATE people SET name = 'x' WHERE id = 3",
        "DELETE FROM people WHERE age < 30",
    )
    assert call("run", file, *SKIP).exit_code == 99
    # Two rows swap: each column keeps the same values.
    database.execute(
        "CREATE TABLE before AS SELECT id, age FROM people ORDER BY age DESC LIMIT 1",
        "UPDATE people SET age = (SELECT min(age) FROM people) WHERE id = (SELECT id FROM before)",
    )
    assert call("run", file, *SKIP).exit_code == 0


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "changed",
    [
        {"k": "4"},
        {"method": "kmember"},
        {"where": '"age >= 31"'},
        {"key": "[id]"},
        {"max_suppression": "0.5"},
        {"roles": ROLES | {"site": "{role: sensitive}"}},
        {"roles": ROLES | {"age": "{role: quasi_identifier, weight: 3}"}},
        {"roles": ROLES | {"name": "{role: drop}"}, "entity": "id"},
        {"output": "{view: next}"},
        {"export": "[{format: csv, path: out.csv}]"},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_another_definition_is_seen(
    database: Database, tmp_path: Path, changed: dict[str, str]
) -> None:
    load_people(database)
    before = {"where": '"age >= 30"', "output": "{table: people}"}
    assert call("run", write(tmp_path, job(**before)), *SKIP).exit_code == 0
    file = write(tmp_path, job(**(before | changed)))  # type: ignore[arg-type]
    done = call("run", file, *SKIP)
    assert done.exit_code == 0, done.stderr
    assert "skipped" not in job_results(done)[0]
    assert call("run", file, *SKIP).exit_code == 99


def test_a_hierarchy_is_seen(database: Database, tmp_path: Path) -> None:
    load_people(database)
    names = [f"site{n % 4}" for n in range(40)]
    database.execute(
        *(f"UPDATE people SET site = '{n}' WHERE id = {i + 1}" for i, n in enumerate(names))
    )
    tree = tmp_path / "sites.csv"
    tree.write_text("".join(f"site{n};{'a' if n < 2 else 'b'};*\n" for n in range(4)))
    roles = ROLES | {"site": "{role: quasi_identifier, hierarchy: {file: sites.csv}}"}
    file = write(tmp_path, job(roles=roles, method="gaa_cp"))
    first = call("run", file, *SKIP)
    assert first.exit_code == 0, first.stdout
    assert call("run", file, *SKIP).exit_code == 99
    tree.write_text("".join(f"site{n};{'a' if n < 1 else 'b'};*\n" for n in range(4)))
    assert call("run", file, *SKIP).exit_code == 0


def drop(database: Database, tmp_path: Path) -> None:
    database.execute(f"DROP TABLE {database.relation('release.people')}")


def tamper(database: Database, tmp_path: Path) -> None:
    database.execute(
        f"UPDATE {database.relation('release.people')} SET site = 'x' WHERE site ="
        f" (SELECT min(site) FROM {database.relation('release.people')})"
    )


def widen(database: Database, tmp_path: Path) -> None:
    kind = database.types["text"]
    database.execute(f"ALTER TABLE {database.relation('release.people')} ADD COLUMN more {kind}")


def replaced(database: Database, tmp_path: Path) -> None:
    database.anonymize(
        quasi_identifiers=["age"], keep=["site"], k=3, output="release.people", if_exists="replace"
    )


def no_file(database: Database, tmp_path: Path) -> None:
    (tmp_path / "out.csv").unlink()


def other_file(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(path.read_text() + "1,2,3\n")


def no_report(database: Database, tmp_path: Path) -> None:
    (tmp_path / "out.txt").unlink()


@pytest.mark.parametrize("change", [drop, tamper, widen, replaced, no_file, other_file, no_report])
def test_what_was_made_must_be_there_as_it_was_made(
    database: Database, tmp_path: Path, change: Callable[[Database, Path], None]
) -> None:
    load_people(database)
    more = {"export": "[{format: csv, path: out.csv}]", "report": "out.txt"}
    file = write(tmp_path, job(output="{table: people}", **more))
    assert call("run", file, *SKIP).exit_code == 0
    assert call("run", file, *SKIP).exit_code == 99
    change(database, tmp_path)
    done = call("run", file, *SKIP)
    # A file that someone changed is not overwritten.
    expected = (2, "output_exists") if change is other_file else (0, None)
    [job_result] = job_results(done)
    assert (done.exit_code, job_result.get("error", {}).get("code")) == expected, done.stderr


def test_two_fingerprints_of_the_same_rows_tell_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    for _ in range(2):
        assert call("run", write(tmp_path, job()), *SKIP).exit_code == 0
        database.execute(f"DELETE FROM {database.ledger('run')} WHERE job <> 'people'")
        write(tmp_path, job(k="4"))
        assert call("run", tmp_path / "job.yaml", *SKIP).exit_code == 0
    fingerprints = [
        text for (text,) in database.rows(f"SELECT fingerprint FROM {database.ledger('run')}")
    ]
    assert len(set(fingerprints)) == len(fingerprints) == 4
    assert all(re.fullmatch(r"[0-9]+:[0-9a-f]{64}", text) for text in fingerprints)
    # The fingerprint contains neither the row count nor the sum, and a key changes it.
    assert call("run", tmp_path / "job.yaml", *SKIP).exit_code == 99
    assert call("run", tmp_path / "job.yaml", *SKIP, DBANON_FINGERPRINT_KEY="s").exit_code == 0
    assert call("run", tmp_path / "job.yaml", *SKIP, DBANON_FINGERPRINT_KEY="s").exit_code == 99
    assert call("run", tmp_path / "job.yaml", *SKIP, DBANON_FINGERPRINT_KEY="t").exit_code == 0


def test_who_tries_values_waits_for_each() -> None:
    assert FINGERPRINT_HASH_ROUNDS >= 200_000


def test_files_of_rows(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "people.csv"
    rows.write_text("id,age\n" + "".join(f"{n},{n * 7 % 50}\n" for n in range(30)))
    file = tmp_path / "job.yaml"
    file.write_text(
        f'version: 1\nsource: {{url: "file:{rows}"}}\ntarget: {{url: "${{PEOPLE}}"}}\n'
        "defaults: {k: 3}\njobs:\n  - name: people\n    table: people\n    columns:\n"
        "      id: {role: identifier}\n      age: {role: quasi_identifier}\n"
        "    output: {table: release.people}\n"
    )
    first = call("run", file, *SKIP)
    assert first.exit_code == 0, first.stderr
    assert call("run", file, *SKIP).exit_code == 99
    os.utime(rows)
    assert call("run", file, *SKIP).exit_code == 99
    rows.write_text(rows.read_text().replace("\n7,49\n", "\n7,48\n"))
    assert call("run", file, *SKIP).exit_code == 0
    # One that is no number, in a column of numbers, is a mistake of the file.
    rows.write_text(rows.read_text().replace("\n7,48\n", "\n7,unknown\n"))
    done = call("run", file, *SKIP)
    assert done.exit_code == 2
    assert job_results(done)[0]["error"]["code"] == "file_malformed"
    assert "unknown" not in done.stdout + done.stderr


def test_another_type_halts_until_it_is_accepted(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(output="{table: people}"))
    assert call("run", file).exit_code == 0
    types = database.rows(f"SELECT source_types FROM {database.ledger('run')}")
    recorded = types[0][0] if isinstance(types[0][0], dict) else json.loads(types[0][0])
    assert set(recorded) == set(ROLES)
    database.execute("CREATE TABLE other AS SELECT * FROM people", "DROP TABLE people")
    columns = [
        f"CAST({c} AS {database.types['double']}) AS age" if c == "age" else c for c in ROLES
    ]
    database.execute(f"CREATE TABLE people AS SELECT {', '.join(columns)} FROM other")
    for command in ("plan", "run"):
        done = call(command, file)
        assert done.exit_code == 6, done.stderr
        assert "[table_changed]" in done.stderr
        assert '"age" was' in done.stderr
    with pytest.raises(TableChanged):
        dbanon.run_job(file, skip_unchanged=True)
    assert released(database) == 1
    assert "--accept-types age" in done.stderr
    assert call("run", file, "--accept-types", "income").exit_code == 6
    assert call("run", file, "--accept-types", "age").exit_code == 0
    assert call("run", file).exit_code == 0
    failed = database.rows(
        f"SELECT job, error_code FROM {database.ledger('run')} WHERE state = 'failed'"
    )
    assert failed == [("people", "table_changed")] * 3
    with pytest.raises(InvalidParameter, match="must be a list of columns"):
        dbanon.run_job(file, accept_types="age")
