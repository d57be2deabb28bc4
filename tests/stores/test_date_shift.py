"""Shifted dates: one secret offset per person or row, counted before anyone can see them."""

from __future__ import annotations

import datetime
import json
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    InvalidParameter,
    RecountFailed,
    ShiftedDatesTell,
    UnsupportedType,
)
from dbanon.stores.copied_rows import shift_value
from tests.prerequisites import skip_case
from tests.stores.chain_cases import Chained
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES
DAYS = 100
COLUMNS = ("admitted", "discharged", "seen")
SHIFT = {"days": DAYS, "columns": list(COLUMNS)}


def rows(n: int = 90) -> list[tuple[Any, ...]]:
    """Three rows per person, over ten years: id, person, age, three dates."""
    draw = np.random.default_rng(4)
    start = datetime.date(2010, 1, 1)
    table = []
    for i in range(n):
        admitted = start + datetime.timedelta(days=int(draw.integers(0, 3650)))
        stay = None if i % 9 == 4 else admitted + datetime.timedelta(days=i % 40)
        seen = datetime.datetime.combine(admitted, datetime.time(i % 24, 30, i % 60))
        table.append((i, f"p{i % 30}", int(draw.integers(20, 90)), admitted, stay, seen))
    return table


def load(database: Database, table: list[tuple[Any, ...]] | None = None) -> pd.DataFrame:
    types = database.types
    columns = {
        "id": "integer PRIMARY KEY",
        "person": types["text"],
        "age": types["integer"],
        "admitted": "date",
        "discharged": "date",
        "seen": types["timestamp"],
    }
    table = rows() if table is None else table
    database.load("people", columns, table)
    frame = pd.DataFrame(table, columns=list(columns))
    return frame.assign(seen=pd.to_datetime(frame["seen"]))


def options(**more: Any) -> dict[str, Any]:
    # The number of each row is copied, so that tests can pair rows with their originals.
    return {
        "quasi_identifiers": ["age"],
        "keep": ["id", *COLUMNS],
        "k": 3,
        "entity": "person",
        "shift_dates": SHIFT,
        **more,
    }


def released(database: Database, output: str = "release.people") -> list[tuple[Any, ...]]:
    return database.rows(
        f"SELECT id, admitted, discharged, seen FROM {database.relation(output)} ORDER BY id"
    )


def moment(value: Any) -> datetime.datetime | None:
    if value is None or value is pd.NaT:
        return None
    text = str(value)[:19]
    return datetime.datetime.fromisoformat(text)


def shift_of(original: Any, date: Any) -> datetime.timedelta:
    """The distance of a released date from its original; neither is NULL."""
    before, after = moment(original), moment(date)
    assert before is not None
    assert after is not None
    return after - before


def offsets(table: list[tuple[Any, ...]]) -> dict[int, set[float]]:
    """The distances of released dates from their originals, in days, by number of the row."""
    originals = {row[0]: row[3:] for row in rows()}
    distances_by_row: dict[int, set[float]] = defaultdict(set)
    for number, *dates in table:
        for original, date in zip(originals[number], dates, strict=True):
            before, after = moment(original), moment(date)
            assert (before is None) == (after is None)
            if before is not None and after is not None:
                distances_by_row[number].add((after - before) / datetime.timedelta(days=1))
    return distances_by_row


def check(distances_by_row: dict[int, set[float]], per_person: bool) -> None:
    assert len(distances_by_row) == 90
    assert all(len(distances) == 1 for distances in distances_by_row.values())
    of_units: dict[int, set[float]] = defaultdict(set)
    for number, distances in distances_by_row.items():
        of_units[number % 30 if per_person else number] |= distances
    assert all(len(distances) == 1 for distances in of_units.values())
    all_distances = [distance for distances in of_units.values() for distance in distances]
    assert all(abs(distance) <= DAYS and distance == int(distance) for distance in all_distances)
    assert len(set(all_distances)) > len(all_distances) / 2


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("entity", ["person", None])
def test_each_person_or_row_has_one_offset(database: Database, entity: str | None) -> None:
    frame = load(database)
    report = database.anonymize(**options(entity=entity))
    check(offsets(released(database)), per_person=entity is not None)
    unit = "person" if entity else "row"
    assert report.arguments["shift_dates"] == {**SHIFT, "offset_per": unit}
    assert f"by up to {DAYS} days, one secret offset for each {unit}" in str(report)
    assert dbanon.verify(database.url, "release.people").unchanged
    of_frame, _ = dbanon.anonymize_frame(frame, **options(entity=entity))
    check(offsets([*of_frame[["id", *COLUMNS]].itertuples(index=False)]), entity is not None)
    assert of_frame["seen"].dtype == frame["seen"].dtype


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_a_key_gives_the_same_offsets_everywhere(
    database: Database, make_database: Any, tmp_path: Path
) -> None:
    frame = load(database)
    key = tmp_path / "key"
    key.write_text("5c" * 32, encoding="ascii")
    key.chmod(0o600)
    keyed = options(pseudonym_key=f"file:{key}")
    of_frame, report = dbanon.anonymize_frame(frame, **keyed)
    expected = offsets([*of_frame[["id", *COLUMNS]].itertuples(index=False)])
    check(expected, per_person=True)
    assert len(report.arguments["shift_dates"]["key"]) == 32
    if database.name == "mariadb":
        refuse(database, dbanon.errors.PseudonymsNotHere, "", **keyed)
        return
    database.anonymize(**keyed)
    assert offsets(released(database)) == expected
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(target=other.url, **keyed)
    assert offsets(released(other)) == expected
    key.write_text("7d" * 32, encoding="ascii")
    database.anonymize(**keyed | {"output": "release.second", "releases": "independent"})
    assert offsets(released(database, "release.second")) != expected
    # A refresh needs the key.
    refused = pytest.raises(InvalidParameter, match="shifted dates, which need their key")
    with refused:
        dbanon.refresh(database.url, "release.second")


def write_keys(folder: Path) -> list[str]:
    """Write two keys, and return their sources."""
    for name in ("5c", "7d"):
        (folder / name).write_text(name * 32, encoding="ascii")
        (folder / name).chmod(0o600)
    return [f"file:{folder / name}" for name in ("5c", "7d")]


def warnings_of_history(database: Database, **more: Any) -> list[str]:
    """Make a release; return what it warns of about the offsets of earlier ones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        database.anonymize(**options(**{"releases": "independent", **more}))
    texts = [str(w.message) for w in caught if w.category is ShiftedDatesTell]
    return [text for text in texts if "before" in text]


def test_other_offsets_in_earlier_releases(database: Database, tmp_path: Path) -> None:
    """Readers who find a person in two releases compare the dates."""
    load(database)
    assert warnings_of_history(database, output="release.random") == []
    unshifted = 'Column "seen" is released with its own dates, which were shifted before'
    shifts: tuple[Any, ...] = (None, {"days": 9, "columns": ["admitted"]})
    for shift in shifts:
        own_options = {"output": "release.own", "if_exists": "replace"}
        texts = warnings_of_history(database, **own_options, shift_dates=shift)
        assert any(text.startswith(unshifted) for text in texts)
        error = refuse(
            database,
            dbanon.errors.TellingColumnRefused,
            "Something would",
            **options(releases="independent", shift_dates=shift, keep=[*COLUMNS]),
            output="release.strict",
            strict=True,
        )
        assert unshifted in str(error.detail)
    if database.name != "mariadb":  # which computes no keyed hashes
        key = write_keys(tmp_path)[0]
        [text] = warnings_of_history(database, pseudonym_key=key)
        assert text.startswith("Dates had other offsets before: the ledger has 2 earlier releases")
        assert all(name in text for name in ("random", "own"))


def test_earlier_releases_that_the_ledger_finds(
    database: Database, make_database: Any, tmp_path: Path
) -> None:
    """They are in the target's ledger, under the source's name or, on PostgreSQL, its oid."""
    load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    assert warnings_of_history(database, target=other.url) == []
    [text] = warnings_of_history(database, target=other.url, output="release.second")
    assert text.startswith("The source was released before")
    assert warnings_of_history(database) == []
    database.execute("ALTER TABLE people RENAME TO patients")
    renamed: dict[str, Any] = {"table": "patients", "output": "release.patients"}
    assert len(warnings_of_history(database, **renamed)) == (database.name == "postgresql")


def test_synthetic_rows_have_no_dates_to_compare(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "d.duckdb")
    load(database)
    dbanon.create_budget(database.url, "persons", source="people", epsilon=5)
    dbanon.anonymize(
        database.url,
        table="people",
        method="dp_ranks",
        quasi_identifiers=["age"],
        bounds={"age": (0, 120)},
        null_as={"age": 40},
        epsilon=1,
        budget="persons",
        output="release.synthetic",
    )
    assert warnings_of_history(database) == []


def test_a_chain_copies_dates_that_were_shifted(
    database: Database, make_database: Any, tmp_path: Path
) -> None:
    if database.name == "mariadb":
        skip_case("MariaDB keeps no chains")
    load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    shifted = options(entity=None, releases="independent", output="release.shifted")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        database.anonymize(**shifted)
        database.anonymize(**shifted, target=other.url)
    chained = Chained.create(database, tmp_path)
    copied = options(entity="id", keep=["seen"], shift_dates=None, chain=chained.chain())
    for target in ({}, {"target": other.url}):
        [text] = warnings_of_history(database, **copied, **target, releases=None)
        assert text.startswith('Column "seen" is released with its own dates')


def test_the_same_offsets_in_earlier_releases(database: Database, tmp_path: Path) -> None:
    if database.name == "mariadb":
        skip_case("MariaDB computes no keyed hashes")
    load(database)
    key, other_key = write_keys(tmp_path)
    assert warnings_of_history(database, pseudonym_key=key) == []
    same: dict[str, Any] = {
        "keep": ["id", "seen"],
        "shift_dates": {"days": DAYS, "columns": ["seen"]},
        "output": "release.same",
        "pseudonym_key": key,
    }
    assert warnings_of_history(database, **same) == []
    for different in (
        {"pseudonym_key": other_key},
        {"shift_dates": {**SHIFT, "days": DAYS + 1}},
        {"entity_normalize": "casefold"},
    ):
        more = {"pseudonym_key": key, "output": "release.other", "if_exists": "replace"}
        [text] = warnings_of_history(database, **more | different)
        assert text.startswith("Dates had other offsets before")
        assert "same" in text.partition("With the same key")[0]
    # Without a key, every earlier release has other offsets.
    [text] = warnings_of_history(database, output="release.random")
    assert text.startswith("The source was released before")


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("entity", ["person", None])
def test_to_another_database(database: Database, make_database: Any, entity: str | None) -> None:
    load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(target=other.url, **options(entity=entity))
    check(offsets(released(other)), per_person=entity is not None)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("copies_to", ["duckdb", "sqlite", "postgresql"])
def test_instants_to_another_database(
    database: Database, make_database: Any, copies_to: str
) -> None:
    if database.name == copies_to:
        skip_case("the target is another database")
    instant_types = {"mariadb": "timestamp", "sqlite": "timestamp"}
    columns = {
        "id": "integer PRIMARY KEY",
        "age": "integer",
        "seen": instant_types.get(database.name, "timestamptz"),
    }
    # Clocks change in the year of these instants.
    start = datetime.datetime(2020, 1, 1, 1, 30)
    instants = [start + datetime.timedelta(days=9 * i) for i in range(40)]
    database.load("people", columns, [(i, 30, instant) for i, instant in enumerate(instants)])
    other = make_database(copies_to)
    database.anonymize(
        target=other.url,
        quasi_identifiers=["age"],
        keep=["id", "seen"],
        shift_dates={"days": DAYS, "columns": ["seen"]},
    )
    relation = other.relation("release.people")
    originals = dict(database.rows("SELECT id, seen FROM people"))
    distances = [
        shift_of(originals[i], seen) for i, seen in other.rows(f"SELECT id, seen FROM {relation}")
    ]
    assert len(set(distances)) > 10
    assert all(abs(distance) <= datetime.timedelta(DAYS) for distance in distances)


@pytest.mark.parametrize("days", [-200, -1, 0, 30, 200])
def test_days_of_24_hours(days: int) -> None:
    noon = datetime.datetime(2020, 3, 1, 12, tzinfo=ZoneInfo("America/New_York"))
    shifted = shift_value(noon, days)
    assert isinstance(shifted, datetime.datetime)
    assert shifted.timestamp() - noon.timestamp() == days * 86_400
    assert shifted.tzinfo == noon.tzinfo


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_pseudonyms_and_withheld_rows(database: Database, tmp_path: Path) -> None:
    if database.name == "mariadb":
        skip_case("MariaDB makes no pseudonyms")
    table = [(i, p, None if i % 10 == 3 else a, *d) for i, p, a, *d in rows()]
    load(database, table)
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    database.anonymize(
        **options(
            entity=None,
            keep=["id", "admitted"],
            shift_dates={"days": DAYS, "columns": ["admitted"]},
            pseudonyms=["person"],
            pseudonym_key=f"file:{key}",
            nulls="suppress",
            max_suppression=0.5,
        )
    )
    relation = database.relation("release.people")
    table = database.rows(f"SELECT id, admitted FROM {relation}")
    originals = {row[0]: row[3] for row in rows()}
    assert len(table) == 81
    distances = [shift_of(originals[i], date).days for i, date in table]
    assert len(set(distances)) > 20
    assert max(map(abs, distances)) <= DAYS


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("wrong", ["a date", "a person"])
def test_the_recount_refuses_a_wrong_offset(
    database: Database, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    load(database)
    if wrong == "a person":
        monkeypatch.setattr(
            "dbanon.run.run.draw_offsets",
            lambda planned, source, microdata: np.arange(microdata.n_records, dtype=np.int32) % 90,
        )
    else:
        # The recount expects dates that are not shifted.
        monkeypatch.setattr("dbanon.stores.sql_date_counts.units_per_day", lambda attribute: 0)
    refuse(database, RecountFailed, "not their originals with one offset", **options())


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_the_recount_refuses_wrong_copies(
    database: Database, make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    message = "not their originals with one offset"
    with monkeypatch.context() as patch:
        patch.setattr("dbanon.stores.copied_rows.shift_value", lambda value, offset: value)
        refuse(database, RecountFailed, message, **options(target=other.url))
        assert ("release", "people") not in other.relations()
    monkeypatch.setattr(
        "dbanon.stores.frame.target._shifted_column",
        lambda values, draft, records: values.reset_index(drop=True),
    )
    with pytest.raises(RecountFailed, match=message):
        dbanon.anonymize_frame(frame, **options())


@pytest.mark.parametrize(
    ("value", "column"),
    [("0001-01-20", "admitted"), ("9999-12-20", "discharged"), ("2262-01-01 00:00:00", "seen")],
)
def test_dates_at_the_ends_of_the_calendar(database: Database, value: str, column: str) -> None:
    load(database)
    relation = database.relation("people")
    database.execute(f"UPDATE {relation} SET {column} = '{value}' WHERE id = 7")
    error = refuse(database, UnsupportedType, f'"{column}" has values that cannot be', **options())
    assert value[:10] not in str(error)


def test_what_tells_offsets(database: Database) -> None:
    load(database)
    relation = database.relation("people")
    database.execute(
        f"ALTER TABLE {relation} ADD COLUMN batch date",
        f"ALTER TABLE {relation} ADD COLUMN day integer",
        f"ALTER TABLE {relation} ADD COLUMN ward integer",
    )
    # Two dates for all rows, and a column that follows from them.
    database.execute(
        f"UPDATE {relation} SET admitted = '2020-01-06', day = 1, batch = '2020-02-01',"
        " ward = id % 3",
        f"UPDATE {relation} SET admitted = '2020-01-07', day = 2 WHERE id % 2 = 0",
    )
    shift = {"days": DAYS, "columns": ["admitted"]}
    release_options = options(keep=["admitted", "batch", "day", "ward"], shift_dates=shift)
    error = refuse(
        database,
        dbanon.errors.TellingColumnRefused,
        "Something would",
        **release_options,
        strict=True,
        output="plain",
    )
    assert '"admitted" lie closer' in str(error.detail)
    with pytest.warns(ShiftedDatesTell) as caught:
        database.anonymize(**release_options)
    texts = sorted(str(w.message) for w in caught if w.category is ShiftedDatesTell)
    assert len(texts) == 3
    assert texts[0].startswith('Column "batch" is released with its own dates.')
    assert texts[1].startswith('Column "day" follows from the date in "admitted"')
    assert texts[2].startswith('The dates in "admitted" lie closer together')
    assert not any("2020" in text for text in texts)


def test_refusals(database: Database, tmp_path: Path) -> None:
    load(database)

    def refused(message: str, **more: Any) -> None:
        refuse(database, InvalidParameter, message, **options(**more))

    refused("is not copied", keep=["id"])
    refused("must name at least one column", shift_dates={"days": 9, "columns": []})
    refused("from 1 to 36500", shift_dates={"days": 0, "columns": ["seen"]})
    refused("the keys days and columns", shift_dates={"days": 9})
    refused("spills values", spill=str(tmp_path / "s"), block_size=50, entity=None)
    refused("are counted in classes", also_k=[["age", "seen"]])
    refused("A chain shows", chain=dbanon.Chain("survey", key=f"file:{tmp_path / 'key'}"))
    error = refuse(
        database,
        UnsupportedType,
        "holds no dates",
        **options(shift_dates={"days": 9, "columns": ["id"]}),
    )
    assert error.hint


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_a_job_file_and_the_command_line(database: Database, tmp_path: Path) -> None:
    load(database)
    copied_columns = {name: {"role": "keep", "reason": "a test"} for name in ("id", *COLUMNS)}
    job = {
        "name": "survey",
        "table": "people",
        "on_new_column": "drop",
        "columns": {
            "age": {"role": "quasi_identifier"},
            "person": {"role": "identifier"},
            **copied_columns,
        },
        "entity": "person",
        "k": 3,
        "shift_dates": SHIFT,
        "output": {"table": "release.people"},
    }
    path = tmp_path / "job.yaml"
    path.write_text(
        json.dumps({"version": 1, "source": {"url": database.url}, "jobs": [job]}), encoding="utf-8"
    )
    for command in ("check", "plan", "run"):
        result = CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])
        assert result.exit_code == 0, result.output
    check(offsets(released(database)), per_person=True)
    dbanon.refresh(database.url, "release.people", accept=["independent"])
    check(offsets(released(database)), per_person=True)
    command_line = ["anonymize", database.url, "--table", "people", "--output", "release.again"]
    command_line += ["-q", "age", "--k", "3", "--keep", "id,admitted,discharged,seen"]
    shifted = f"admitted,discharged,seen={DAYS}"
    result = CliRunner().invoke(main, [*command_line, "--shift-dates", shifted])
    assert result.exit_code == 0, result.output
    check(offsets(released(database, "release.again")), per_person=False)
    wrong = CliRunner().invoke(main, [*command_line, "--shift-dates", "admitted"])
    assert wrong.exit_code == 2
    assert "Write A,B=DAYS" in wrong.output


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_selected_rows_with_a_key_of_texts(database: Database) -> None:
    types = database.types
    columns = {
        "code": "varchar(9)",
        "part": types["integer"],
        "age": types["integer"],
        "seen": types["timestamp"],
        "region": types["text"],
    }
    start = datetime.datetime(2001, 3, 1, 5, 6, 7)
    table = [
        (f"k{i // 2:03d}", i % 2, 20 + i % 30, start + datetime.timedelta(40 * i), "NS"[i % 2])
        for i in range(80)
    ]
    database.load("people", columns, table)
    database.anonymize(
        quasi_identifiers=["age"],
        keep=["code", "part", "seen"],
        by=["region"],
        key=["code", "part"],
        where="age < 45",
        k=3,
        shift_dates={"days": 50, "columns": ["seen"]},
    )
    relation = database.relation("release.people")
    released_rows = database.rows(f"SELECT code, part, seen FROM {relation}")
    originals = {(code, part): seen for code, part, _, seen, _ in table}
    distances = [shift_of(originals[code, part], seen) for code, part, seen in released_rows]
    assert len(distances) == sum(age < 45 for _, _, age, _, _ in table)
    assert all(abs(distance) <= datetime.timedelta(50) for distance in distances)
    assert all(distance.seconds == 0 for distance in distances)
    assert len(set(distances)) > 20


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_the_order_of_rows_tells_no_offset(database: Database) -> None:
    n = 3000
    columns = {"id": "integer PRIMARY KEY", "age": database.types["integer"], "seen": "date"}
    database.load("people", columns, [(i, 30, datetime.date(2020, 5, 5)) for i in range(n)])
    database.anonymize(
        quasi_identifiers=["age"],
        keep=["id", "seen"],
        k=3,
        method="mondrian",
        shift_dates={"days": DAYS, "columns": ["seen"]},
    )
    table = database.rows(f"SELECT id, seen FROM {database.relation('release.people')}")
    numbers = np.array([number for number, _ in table], float)
    distances = np.array([shift_of("2020-05-05", date).days for _, date in table])
    positions = np.arange(n)
    # Five standard deviations of the correlation of independent numbers.
    assert abs(np.corrcoef(positions, distances)[0, 1]) < 5 / n**0.5
    assert abs(np.corrcoef(numbers, distances)[0, 1]) < 5 / n**0.5
    assert abs(np.corrcoef(np.diff(distances), positions[1:])[0, 1]) < 5 / n**0.5


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_all_offsets_are_equally_likely() -> None:
    n = 40_000
    frame = pd.DataFrame({"age": 1, "seen": pd.Timestamp("2020-05-05"), "id": range(n)})
    of_frame, _ = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        keep=["id", "seen"],
        k=3,
        method="mondrian",
        shift_dates={"days": 2, "columns": ["seen"]},
    )
    counts = Counter((of_frame["seen"] - pd.Timestamp("2020-05-05")).dt.days)
    assert set(counts) == {-2, -1, 0, 1, 2}
    # Five standard deviations of a share of a fifth.
    assert all(abs(count - n / 5) < 5 * (n * 0.16) ** 0.5 for count in counts.values())
