"""Hints are followed as they are printed, at the door that prints them."""

from __future__ import annotations

import json
import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dbanon
from tests.doors.hint_cases import OF_TABLES, Case
from tests.doors.hint_doors import Call, CommandDoor, JobDoor, PythonDoor, job_file
from tests.doors.hint_list import text_of
from tests.doors.hint_steps import CSV, OPEN, PEOPLE, Steps, World, csv, frame, hint_of
from tests.doors.hints_commands import COMMANDS, FILES
from tests.doors.hints_dates import DATES
from tests.doors.hints_frames import FRAMES
from tests.doors.hints_survey import SURVEYS

_N = 120
_RNG = np.random.default_rng(1)


def pattern(text: str) -> re.Pattern[str]:
    """What a hint looks like at any door: values and options differ."""
    # Sources without views have words of their own.
    text = re.sub(r"\bin a view\b(, and anonymize the view)?", "{}", re.sub(r"`[^`]*`", "{}", text))
    plain = text.split("{}")
    return re.compile("(?:.*?)".join(map(re.escape, plain)) + r"\Z", re.S)


def people() -> pd.DataFrame:
    """A table with a column for each kind of trouble."""
    n = np.arange(_N)
    return pd.DataFrame(
        {
            "id": n,
            "pid": n // 4,
            "age": _RNG.integers(20, 60, _N),
            "size": _RNG.normal(170, 9, _N).round(1),
            "town": _RNG.choice(list("abcde"), _N),
            "ill": _RNG.choice(["x", "y", "z"], _N),
            "email": [f"p{i}@example.org" for i in n],
            "hole": pd.array(n % 40, "Int64"),
            "huge": 2**60 + n % 20,
            "seldom": pd.array(n % 40, "Int64"),
            "part": pd.array(n % 40, "Int64"),
            "pair": pd.array(n % 40, "Int64"),
            "rare": np.where(n < 2, "r", "s"),
            "sums": np.where(n % 2 == 0, "=A1", "b"),
            "code": [f"K{i // 4}" if i % 2 else f"k{i // 4}" for i in n],
        }
    ).assign(
        hole=lambda f: f.hole.mask(n % 10 == 0),
        seldom=lambda f: f.seldom.mask(n < 2),
        part=lambda f: f.part.mask(n < 10),
        pair=lambda f: f.pair.mask(n < 12),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a database, a view, a release, a relation of somebody's, and a key."""
    folder = tmp_path_factory.mktemp("hints")
    place = folder / "people.sqlite"
    with closing(sqlite3.connect(place)) as connection:
        people().to_sql("people", connection, index=False)
        connection.executescript(
            "ALTER TABLE people ADD COLUMN mixed INTEGER;"
            "UPDATE people SET mixed = CASE WHEN id = 3 THEN 'three' ELSE id % 9 END;"
            "CREATE VIEW seen AS SELECT * FROM people;"
            "CREATE TABLE cast_copy AS SELECT id, CAST(mixed AS INTEGER) AS mixed FROM people;"
            "CREATE TABLE loaded (age INTEGER, x TEXT);"
            "CREATE TABLE extra AS SELECT id, age FROM people;"
            "CREATE TABLE extra2 AS SELECT id, age FROM people;"
            "CREATE TABLE few AS SELECT id, age FROM people;"
            "CREATE TABLE wide AS SELECT id, age FROM people;"
            "CREATE TABLE fewer AS SELECT * FROM people LIMIT 90;"
            "CREATE TABLE plain AS SELECT id, age, size, email FROM people;"
            "CREATE TABLE strange (x INTEGER);"
            "CREATE TABLE large (id BIGINT, size DOUBLE PRECISION, serial BIGINT);"
            "INSERT INTO large SELECT id, size, id + 9007199254740993 FROM people;"
            """CREATE TABLE named AS SELECT id, size, town AS "=A1" FROM people;"""
            'CREATE VIEW renamed AS SELECT id, size, "=A1" AS a1 FROM named;'
        )
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    (folder / "key").write_text("00" * 32)
    (folder / "key").chmod(0o600)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        url = f"sqlite:///{place}"
        dbanon.anonymize(url, table="people", output="taken", quasi_identifiers=["age"], k=4)
        yield folder


def door_of(name: str, folder: Path) -> Any:
    return {"python": PythonDoor, "cli": CommandDoor}[name]() if name != "job" else JobDoor(folder)


def try_case(case: Case, door: Any, call: Call) -> None:
    """Raise the error, then follow each way out that its hint names."""
    text = text_of(case.hint)
    hint = door.run(call)
    assert hint is not None, "nothing was refused"
    # In the details of a job file the message stands before it.
    assert pattern(text.rstrip(".")).search(hint.rstrip(".")), (text, hint)
    ways = dict(case_ways(case, door, call, hint))
    assert ways
    for name, way in ways.items():
        said = door.run(way)
        assert said is None, (name, hint, said)


def case_ways(case: Case, door: Any, call: Call, hint: str) -> Iterator[tuple[str, Call]]:
    """The ways out: as printed, with a user's values, and in words."""
    for name, way in door.changes(call, hint):
        if name in case.values or name in case.leave_out:
            continue
        printed = way.printed[-1] if way.printed else way.options[name]
        if isinstance(printed, dict):
            [printed] = printed.values()
        if f"{name}={printed}" in case.not_ways:
            continue
        yield (
            f"{name}={printed}",
            way.with_options(
                {**case.needs.get(name, {}), **case.needs.get(f"{name}={printed}", {})}
            ),
        )
    for name in (*case.values, *case.leave_out):
        assert door.spell(name) in hint, (door.spell(name), hint)
        change = {name: case.values.get(name), **case.needs.get(name, {})}
        yield name, call.with_options(change)
    for number, options in enumerate(case.does):
        yield f"in words, {number}", call.with_options(options)


_BASE = {
    "table": "people",
    "quasi_identifiers": ["age", "size"],
    "k": 4,
    "releases": "independent",
}


def at_doors(cases: tuple[Case, ...]) -> list[Any]:
    """Each case at one of its doors in turn; at the others in campaigns."""
    return [
        pytest.param(
            case,
            door,
            id=f"{case.hint[:40]}-{door}",
            marks=() if i == n % len(case.doors) else pytest.mark.campaign,
        )
        for n, case in enumerate(cases)
        for i, door in enumerate(case.doors)
    ]


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize(("case", "door"), at_doors(OF_TABLES))
def test_a_hint_for_a_table_can_be_followed(case: Case, door: str, folder: Path) -> None:
    call = Call(f"sqlite:///{folder}/people.sqlite", _BASE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try_case(case, door_of(door, folder), call.with_options(case.options))


@pytest.fixture(scope="module")
def world(folder: Path) -> World:
    """The same folder with what commands read."""
    (folder / "rows.csv").write_text(CSV)
    (folder / "order.txt").write_text("a\nb\nc\nd\ne\n")
    (folder / "empty.sqlite").touch()
    with duckdb.connect(str(folder / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE people (age INTEGER)")
    world = World(folder)
    call = Call(world.url, {**_BASE, "output": "of_job"})
    (folder / "job.yaml").write_text(json.dumps(job_file(call)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world.table(output="taken2")
        for name, table, key in (
            ("open", "people", "people"),
            ("closed", "few", "closed"),
            ("wide", "wide", "wide"),
        ):
            world.cli(
                f"chain create {{url}} {name} --table {table} --entity id --changes show"
                f" --key-out {{path}}/{key}.key"
            )
        world.cli(f"{PEOPLE} {OPEN}")
        world.cli("chain close {url} closed")
        dbanon.store_hierarchy(world.url, "towns", {"tree": {"*": ["a", "b", "c"]}})
        for name in ("dat/rows.csv", "mix/a.csv", "real/a.csv", "link/b.csv"):
            (folder / name).parent.mkdir()
            (folder / name).write_text(CSV)
        (folder / "mix/readme.doc").touch()
        (folder / "link/more").symlink_to(folder / "real")
        for name in ("with_id", "with_id2"):
            world.table(output=name, keep=["id"])
    return world


@pytest.mark.parametrize(
    "steps", [*COMMANDS, *FILES, *FRAMES, *DATES, *SURVEYS], ids=lambda steps: steps.hint[:40]
)
def test_a_hint_in_words_can_be_followed(steps: Steps, world: World) -> None:
    text = text_of(steps.hint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hint = hint_of(steps.wrong, world)
        assert pattern(text).match(hint), (text, hint)
        for act in steps.right:
            act(world)


@pytest.mark.parametrize("source", ["table", "file", "frame"])
def test_a_hint_names_no_view_where_a_source_has_none(source: str, world: World) -> None:
    """SQLite's views have no types (a cast in one is lost), and files and frames have no views."""
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "x"],
        "kinds": {"x": "numeric"},
        "recoding": "representative",
    }
    rows = pd.DataFrame({"age": [1, 2], "x": ["a", "b"]})
    act, words = {
        "table": (lambda w: w.table(**options | {"table": "loaded"}), "in a copy of the table"),
        "file": (csv(CSV, **options), "in a copy of the file"),
        "frame": (frame(rows, **options), "in the data frame"),
    }[source]
    assert hint_of(act, world) == f"Leave its kind out, or cast it to a number {words}."
