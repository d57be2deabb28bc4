"""Every recount checks that the sizes of its groups add up to the rows."""

from __future__ import annotations

from typing import Any

import pytest

import dbanon
from dbanon.errors import RecountFailed
from dbanon.sessions import recount_statements as statements
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.people import load_people

DATABASES = ALL_NAMES
GIVEN: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "method": "mdav"}


def cut(query: str) -> str:
    """A query of groups as a server answers it that leaves one out."""
    return f"SELECT * FROM ({query}) AS cut_short LIMIT 1"


def test_classes_that_a_server_leaves_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    database.anonymize(**GIVEN)
    recount = statements.recount
    monkeypatch.setattr(statements, "recount", lambda *given: cut(recount(*given)))
    before = database.state()
    with pytest.raises(RecountFailed, match="and there are 40"):
        database.anonymize(**GIVEN, if_exists="replace")
    with pytest.raises(RecountFailed, match="and there are 40"):
        dbanon.verify(database.url, "release.people")
    with pytest.raises(RecountFailed, match="and there are 40"):
        dbanon.verify(database.url, "people", quasi_identifiers=["age"], k=2)
    assert database.state() == before


def test_values_that_a_server_leaves_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    given = {**GIVEN, "models": [{"attribute": "site", "kind": "distinct_l", "level": 2}]}
    counts = statements.recount_values
    monkeypatch.setattr(statements, "recount_values", lambda *given: cut(counts(*given)))
    with pytest.raises(RecountFailed, match='values of "site"'):
        database.anonymize(**given, sensitive=["site"])
