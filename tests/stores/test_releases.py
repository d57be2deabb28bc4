"""Releases of a ledger: what became of each, all of one, and taking one away; at every door."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from dbanon.measures import Model
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database
from tests.stores.people import frame_of_people, load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

NAMES = ["age", "height"]


def release(database: Database, output: str = "release.people", **more: Any) -> Any:
    options = {"quasi_identifiers": NAMES, "output": output} | more
    return database.anonymize(**options)


def states(database: Database) -> dict[str, str]:
    return {release.release_id: release.state for release in dbanon.releases(database.url)}


def command(*words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--format", "json"])
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_without_a_ledger_there_are_none(database: Database) -> None:
    load_people(database)
    assert dbanon.releases(database.url) == []
    with pytest.raises(errors.ReleaseNotFound):
        dbanon.show(database.url, "release.people")
    with pytest.raises(errors.ReleaseNotFound, match="dbanon releases"):
        dbanon.drop(database.url, "release.people")


@pytest.mark.parametrize("kind", ["table", "view"])
def test_the_state_of_each_release(database: Database, kind: str) -> None:
    load_people(database)
    first = release(database, output_kind=kind)
    second = release(database, output_kind=kind, if_exists="replace")
    other = release(database, "release.other")
    assert [release.release_id for release in dbanon.releases(database.url)] == [
        other.release_id,
        second.release_id,
        first.release_id,
    ]
    assert states(database) == {
        first.release_id: "superseded",
        second.release_id: "current",
        other.release_id: "current",
    }
    listed = command("releases", database.url)
    assert [release["release_id"] for release in listed] == list(states(database))
    assert listed[0]["output"] == other.output
    before = database.relations()

    dropped = dbanon.drop(database.url, "release.people")

    assert dropped[0] == second.output
    assert len(dropped) == (2 if kind == "view" else 1)
    left = database.relations()
    assert left < before
    assert {name for _, name in before - left} == {
        parse_relation(name_text).name for name_text in dropped
    }
    assert states(database)[second.release_id] == "dropped"
    assert states(database)[other.release_id] == "current"
    with pytest.raises(errors.TableNotFound, match="dropped or renamed"):
        dbanon.drop(database.url, "release.people")
    assert command("verify", database.url, "release.other")["unchanged"]
    again = release(database)
    assert states(database)[again.release_id] == "current"
    assert states(database)[second.release_id] == "superseded"


def test_all_details_of_a_release(database: Database) -> None:
    load_people(database)
    report = release(database, sensitive=["site"])
    details = dbanon.show(database.url, "release.people")
    assert details == dbanon.show(database.url, report.release_id.upper())
    assert details["state"] == "current"
    assert details["k_achieved"] == report.k_achieved
    assert details["arguments"] == json.loads(json.dumps(report.to_dict()["arguments"]))
    assert [(c["name"], c["role"]) for c in details["columns"][:3]] == [
        ("age", "quasi_identifier"),
        ("height", "quasi_identifier"),
        ("site", "sensitive"),
    ]
    assert details["run"]["door"] == "python"
    assert command("show", database.url, "release.people") == json.loads(
        json.dumps(details, default=str)
    )
    done = CliRunner().invoke(main, ["show", database.url, "release.people"])
    assert "column site" in done.stdout
    assert "sensitive" in done.stdout


def test_a_release_is_verified(database: Database) -> None:
    load_people(database)
    report = release(database, sensitive=["site"])
    verification = dbanon.verify(database.url, "release.people")
    assert (verification.release_id, verification.unchanged) == (report.release_id, True)
    assert (verification.k_achieved, verification.classes) == (report.k_achieved, report.classes)
    assert verification.to_dict() | {"models": [], "also_k": []} == command(
        "verify", database.url, "release.people"
    ) | {"quasi_identifiers": verification.quasi_identifiers}
    with pytest.raises(errors.RecountFailed, match="fewer than"):
        dbanon.verify(database.url, "release.people", k=report.k_achieved + 1)
    with pytest.raises(errors.ReleaseNotFound):
        dbanon.verify(database.url, "people")
    with pytest.raises(errors.RecountFailed) as unknown:
        dbanon.verify(database.url, "people", quasi_identifiers=NAMES, k=3)
    assert "The ledger has no release of this name" in str(unknown.value.hint)
    # A release whose other columns are asked about is known all the same.
    with pytest.raises(errors.RecountFailed) as other:
        dbanon.verify(database.url, "release.people", quasi_identifiers=[*NAMES, "site"], k=50)
    assert f"Release {report.release_id} has this name" in str(other.value.hint)
    assert f'"{NAMES[0]}"' in str(other.value.hint)


def test_only_what_is_ours_is_dropped(database: Database) -> None:
    load_people(database)
    release(database)
    before = database.state()
    for name in ("people", "release.nothing"):
        with pytest.raises(errors.ReleaseNotFound):
            dbanon.drop(database.url, name)
    assert command("drop", database.url, "people")["error"]["exit_code"] == 2
    assert database.state() == before


def test_a_report_says_the_same_of_a_frame(database: Database) -> None:
    """The same names, the same arguments, and moments written alike."""
    rows = load_people(database)
    more = {"sensitive": ["site"], "seed": 7, "models": [Model("distinct_l", "site", 2)]}
    report_json = release(database, **more).to_dict()
    frame = frame_of_people(rows)
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=NAMES, k=report_json["k_requested"], **more
    )
    same = report.to_dict()
    assert list(same) == list(report_json)
    assert same["arguments"] == report_json["arguments"]
    assert same["arguments"]["seed"] == 7
    for document in (same, report_json):
        moment = datetime.fromisoformat(document["created_at"])
        assert (moment.utcoffset(), moment.isoformat()) == (timedelta(0), document["created_at"])
