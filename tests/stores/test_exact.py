"""Whether a source has other rows than a release read, exactly, on every database."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from tests.stores.databases import Database
from tests.stores.test_rules import people, released, table

__all__ = ["people"]


def staleness(database: Database) -> tuple[bool | None, str | None]:
    [release] = [
        release
        for release in dbanon.releases(database.url, exact=True)
        if release.state == "current"
    ]
    return release.stale, release.stale_by


@pytest.mark.in_turn(of="file")
def test_changed_rows_are_reported_and_irrelevant_changes_are_not(people: Database) -> None:
    name = people.relation(table(people))
    released(
        people, declared=False, quasi_identifiers=["age"], where="age < 45", source_digest=True
    )
    for change, stale in (
        ("UPDATE {} SET ill = 'other'", False),
        ("UPDATE {} SET age = age + 1 WHERE person = 3", True),
        ("UPDATE {} SET age = age - 1 WHERE person = 3", False),
        ("INSERT INTO {} SELECT person + 1000, name, 80, ill FROM {} WHERE person = 3", False),
        ("INSERT INTO {} SELECT person + 2000, name, age, ill FROM {} WHERE person = 3", True),
    ):
        people.execute(change.replace("{}", name))
        assert staleness(people) == (stale, "digest")
    dbanon.refresh(people.url, "release.people")
    assert staleness(people) == (False, "digest")
    done = CliRunner().invoke(main, ["releases", people.url, "--exact", "--format", "json"])
    current = next(release for release in json.loads(done.stdout) if release["state"] == "current")
    assert (current["stale"], current["stale_by"]) == (False, "digest")
    # A column that is gone is another source.
    kind = people.types["integer"]
    people.execute(
        f"ALTER TABLE {name} ADD COLUMN years {kind}", f"ALTER TABLE {name} DROP COLUMN age"
    )
    assert staleness(people) == (True, "digest")


@pytest.mark.in_turn(of="file")
def test_without_a_digest_counters_say_what_they_say(people: Database) -> None:
    released(people, declared=False, quasi_identifiers=["age"])
    assert staleness(people)[1] != "digest"


def test_two_releases_of_the_same_rows_have_nothing_in_common(people: Database) -> None:
    """Equal hashes never reveal that a source is unchanged."""
    read = []
    for _ in range(2):
        released(
            people,
            declared=False,
            quasi_identifiers=["age"],
            source_digest=True,
            if_exists="replace",
        )
    for (request,) in people.rows(f"SELECT request FROM {people.ledger()}"):
        plain = request if isinstance(request, dict) else json.loads(request)
        read.append(plain["source"]["read"])
    assert (
        len({fingerprint["hash"] for fingerprint in read})
        == len({fingerprint["salt"] for fingerprint in read})
        == 2
    )
    assert all(set(fingerprint) == {"columns", "way", "salt", "hash"} for fingerprint in read)
