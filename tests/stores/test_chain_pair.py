"""A second chain over the same persons: refused, or measured with the first one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ChainExposed,
    ChainKeyWrong,
    ChainNotFound,
    ChainSamePersons,
    InvalidParameter,
)
from tests.stores.chain_cases import OPTIONS, Chained, Months, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

OF_NEXT: dict[str, Any] = {"table": "people", "entity": "id", "changes": "show"}


def follow(chained: Chained, **more: Any) -> Chained:
    """The chain of the next year, with the key of the one before."""
    options = OF_NEXT | {"new_chain_from": "patients", "key": f"file:{chained.key}"} | more
    dbanon.create_chain(chained.database.url, "next", **options)
    return Chained(chained.database, chained.key, "next")


def by_person(chained: Chained, persons: list[int]) -> dict[int, Any]:
    """Cell and leaving of each in one of both chains, by the tags of that chain."""
    rows = chained.database.rows(
        f"SELECT m.tag, m.cell, m.left_at_release FROM {chained.database.ledger('chain_member')}"
        f" AS m JOIN {chained.database.ledger('chain')} AS c ON c.chain_id = m.chain_id"
        f" WHERE c.name = '{chained.name}'"
    )
    assert rows
    cells = {bytes(tag): (cell, left) for tag, cell, left in rows}
    return {person: cells[tag] for person, tag in chained.tags(persons).items() if tag in cells}


def test_more_than_allowed_is_refused_and_nothing_kept(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=40).now)
    first = Chained.create(database, tmp_path)
    first.release()
    dbanon.close_chain(database.url, "patients")
    later = follow(first, class_size=7)
    with pytest.raises(ChainExposed):
        later.release(output="release.next", chain=later.chain(max_exposed=0.0))
    assert later.show().sequence == 0
    later.release(output="release.next", chain=later.chain(max_exposed=1.0))


def test_what_both_expose_is_counted_with_the_first_release(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=50, join=6)
    load(database, months.now)
    first = Chained.create(database, tmp_path)
    for _ in range(3):
        load(database, months.now)
        first.release(chain=first.chain(accept_turnover=True))
        months.pass_on()
    load(database, months.now)
    dbanon.close_chain(database.url, "patients")
    later = follow(first)
    report = later.release(output="release.next")
    ever = [*months.now, *months.out]
    before, now = by_person(first, ever), by_person(later, ever)
    assert set(before) - set(now)
    assert set(now) - set(before)
    joint = Counter((before.get(person), now.get(person)) for person in {*before, *now})
    exposed = sum(size for size in joint.values() if size < 3)
    chain_record = report.arguments["chain"]
    assert (chain_record["pair_exposed"], chain_record["pair_known"]) == (
        exposed,
        sum(joint.values()),
    )
    assert exposed > 3
    assert f"with the releases of chain patients, of {sum(joint.values())} persons {exposed}" in (
        report.earlier_releases
    )
    assert later.show().releases[0]["pair_exposed"] == exposed
    assert "pair_exposed" not in later.release(output="release.next").arguments["chain"]


def test_a_second_chain_is_refused_without_a_word_for_it(
    database: Database, tmp_path: Path
) -> None:
    load(database, Months(n=20).now)
    first = Chained.create(database, tmp_path)
    options = OF_NEXT | {"key_out": tmp_path / "next.key"}
    with pytest.raises(ChainSamePersons, match="patients"):
        dbanon.create_chain(database.url, "next", **options)
    assert not (tmp_path / "next.key").exists()
    with pytest.raises(ChainSamePersons, match="still open"):
        follow(first)
    dbanon.close_chain(database.url, "patients")
    # No release of it has been read yet.
    dbanon.create_chain(database.url, "next", **options)
    first = Chained(database, tmp_path / "next.key", "next")
    first.release()
    dbanon.close_chain(database.url, "next")
    with pytest.raises(ChainSamePersons, match="next"):
        dbanon.create_chain(database.url, "third", **options | {"key_out": tmp_path / "third.key"})
    with pytest.raises(ChainKeyWrong):
        follow(first)
    with pytest.raises(ChainNotFound):
        follow(first, new_chain_from="nobody")
    with pytest.raises(InvalidParameter, match="a new key"):
        follow(first, key_out=tmp_path / "third.key")
    with pytest.raises(InvalidParameter, match="a new key"):
        dbanon.create_chain(database.url, "third", **OF_NEXT)
    database.execute("CREATE TABLE others AS SELECT * FROM people")
    dbanon.create_chain(
        database.url, "third", **OF_NEXT | {"table": "others", "key_out": tmp_path / "o.key"}
    )


def test_the_command_follows_a_chain(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=20).now)
    first = Chained.create(database, tmp_path)
    first.release()
    dbanon.close_chain(database.url, "patients")
    words = ["chain", "create", database.url, "next", "--table", "people", "--entity", "id"]
    words += ["--changes", "show"]
    refused = CliRunner().invoke(main, [*words, "--key-out", str(tmp_path / "next.key")])
    assert refused.exit_code == 2, refused.output
    words += ["--new-chain-from", "patients", "--chain-key", f"file:{first.key}"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "new_chain_from patients" in done.output
    assert OPTIONS["k"] == 3


def test_another_closed_chain_is_no_way_around_an_open_one(
    database: Database, tmp_path: Path
) -> None:
    """Only chains that are followed, one after the other, are not in the way."""
    load(database, Months(n=20).now)
    first = Chained.create(database, tmp_path)
    first.release()
    database.execute("CREATE TABLE others AS SELECT * FROM people")
    options = OF_NEXT | {"table": "others", "key_out": tmp_path / "others.key"}
    dbanon.create_chain(database.url, "others", **options)
    dbanon.close_chain(database.url, "others")
    around = {"new_chain_from": "others", "key": f"file:{tmp_path / 'others.key'}"}
    for close in (lambda *_: None, dbanon.close_chain):
        close(database.url, "patients")
        with pytest.raises(ChainSamePersons, match="patients"):
            follow(first, **around)
    follow(first)
    dbanon.close_chain(database.url, "next")
    options = OF_NEXT | {"new_chain_from": "next", "key": f"file:{first.key}"}
    assert dbanon.create_chain(database.url, "third", **options).state == "new"
