"""What several releases of one source reveal together, counted by dbanon and with plain sets."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import ColumnNotFound, InvalidParameter, NullInEntity, ReleaseNotFound
from tests.stores.chain_cases import Months, load
from tests.stores.databases import Database

OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "income"],
    "sensitive": ["ill"],
    "k": 3,
    "nulls": "category",
}
RELEASES = ["release.first", "release.second", "release.third"]


def publish(database: Database, **more: Any) -> list[Any]:
    """Three releases of months in which persons leave and join, each with the copy of who it is."""
    months = Months(seed=4, n=30)
    for name in RELEASES:
        load(database, months.now)
        database.anonymize(**OPTIONS | {"output": name, "keep": ["id"]} | more)
        months.pass_on()
    return [
        database.rows(f"SELECT id, age, income, ill FROM {database.relation(name)}")
        for name in RELEASES
    ]


def plainly(releases: list[Any], k: int) -> list[tuple[int, int, int, int]]:
    """Persons, those below k, those alone, and those of whom one value is left, after each."""
    expected = []
    for count in range(1, len(releases) + 1):
        history: dict[int, list[Any]] = {
            person: [None] * count for rows in releases[:count] for person, *_ in rows
        }
        left: dict[int, set[str]] = {}
        for at, rows in enumerate(releases[:count]):
            stand = defaultdict(set)
            for person, age, income, ill in rows:
                history[person][at] = (age, income)
                stand[age, income].add(ill)
            for person, age, income, _ in rows:
                left[person] = left.get(person, stand[age, income]) & stand[age, income]
        joint = Counter(tuple(person_history) for person_history in history.values())
        sizes = [joint[tuple(person_history)] for person_history in history.values()]
        off = sum(len(values) == 1 for values in left.values())
        expected.append((len(sizes), sum(s < k for s in sizes), sizes.count(1), off))
    return expected


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_histories_are_those_of_sets_of_persons(database: Database) -> None:
    rows = publish(database)
    measured = dbanon.measure_releases(database.url, RELEASES, entity="id")
    assert (measured.k, measured.releases) == (3, tuple(RELEASES))
    seen = [
        (exposure.persons, exposure.below, exposure.alone, exposure.read_off["ill"])
        for exposure in measured.known
    ]
    assert seen == plainly(rows, 3)
    # There is something to detect: no person after one release, and most persons after three.
    assert seen[0][1] == 0 < seen[-1][1]
    more = dbanon.measure_releases(database.url, RELEASES[:2], entity="id", k=6, sensitive=[])
    assert [exposure.below for exposure in more.known] == [
        counts[1] for counts in plainly(rows[:2], 6)
    ]
    assert not more.known[0].read_off
    completed = CliRunner().invoke(
        main, ["chain", "measure", database.url, *RELEASES, "--entity", "id", "--format", "json"]
    )
    assert completed.exit_code == 0, completed.output
    assert json.loads(completed.stdout) == json.loads(json.dumps(measured.to_dict()))


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_persons_with_several_rows_have_all_of_their_classes(tmp_path: Any) -> None:
    from tests.stores.databases import DuckdbDatabase

    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rng = np.random.default_rng(2)
    rows = [(i, i // 2, int(rng.integers(0, 9)), "xyz"[i % 3]) for i in range(40)]
    types = {"row": "INTEGER", "who": "INTEGER", "age": "INTEGER", "ill": "VARCHAR"}
    database.load("stays", types, rows)
    for name in ("release.first", "release.second"):
        database.anonymize(
            table="stays",
            output=name,
            quasi_identifiers=["age"],
            keep=["who"],
            sensitive=["ill"],
            k=4 if name == "release.first" else 5,
        )
    of = []
    for name in ("release.first", "release.second"):
        classes: dict[int, set[Any]] = defaultdict(set)
        for who, age in database.rows(f"SELECT who, age FROM {name}"):
            classes[who].add(age)
        of.append({who: frozenset(its) for who, its in classes.items()})
    joint = Counter((of[0][who], of[1][who]) for who in of[0])
    measured = dbanon.measure_releases(
        database.url, ["release.first", "release.second"], entity="who"
    )
    assert measured.k == 4
    assert measured.known[1].below == sum(n for n in joint.values() if n < 4)
    assert measured.known[1].alone == sum(n for n in joint.values() if n == 1) > 0


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_what_cannot_be_measured_is_refused(tmp_path: Any) -> None:
    from tests.stores.databases import DuckdbDatabase

    database = DuckdbDatabase(tmp_path / "people.duckdb")
    publish(database)
    months = Months(n=12)
    load(database, months.now)
    database.anonymize(**OPTIONS | {"output": "release.without"})

    def refused(error: type[Exception], releases: list[str], **more: Any) -> str:
        with pytest.raises(error) as refusal:
            dbanon.measure_releases(database.url, releases, **{"entity": "id"} | more)
        return f"{refusal.value} {getattr(refusal.value, 'hint', '')}"

    assert "each once" in refused(InvalidParameter, RELEASES[:1])
    assert "each once" in refused(InvalidParameter, [RELEASES[0]] * 2)
    output = refused(ColumnNotFound, [RELEASES[0], "release.without"])
    assert 'has no column "id"' in output
    assert "with that column in" in output
    assert "quasi-identifier" in refused(InvalidParameter, RELEASES, entity="age")
    refused(ColumnNotFound, RELEASES, sensitive=["nothing"])
    refused(ReleaseNotFound, [RELEASES[0], "release.nothing"])
    database.execute("UPDATE release.second SET id = NULL WHERE id = 3")
    refused(NullInEntity, RELEASES)
    for extra_words in ([], ["--entity", "id", "--chain-key", "env:K"], ["--chain-key", "env:K"]):
        output = (
            CliRunner()
            .invoke(main, ["chain", "measure", database.url, *RELEASES, *extra_words])
            .output
        )
        assert "Error [invalid_parameter]" in output
        assert "easure" in output
