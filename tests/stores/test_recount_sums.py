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
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "method": "mdav"}


def cut(query: str) -> str:
    """A query of groups as a server answers it that leaves one out."""
    return f"SELECT * FROM ({query}) AS cut_short LIMIT 1"


def test_classes_that_a_server_leaves_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    database.anonymize(**OPTIONS)
    recount = statements.recount_classes
    monkeypatch.setattr(statements, "recount_classes", lambda *args: cut(recount(*args)))
    before = database.state()
    with pytest.raises(RecountFailed, match="but there are 40"):
        database.anonymize(**OPTIONS, if_exists="replace")
    with pytest.raises(RecountFailed, match="but there are 40"):
        dbanon.verify(database.url, "release.people")
    with pytest.raises(RecountFailed, match="but there are 40"):
        dbanon.verify(database.url, "people", quasi_identifiers=["age"], k=2)
    assert database.state() == before


def test_values_that_a_server_leaves_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    options = {**OPTIONS, "models": [{"attribute": "site", "kind": "distinct_l", "level": 2}]}
    counts = statements.recount_values
    monkeypatch.setattr(statements, "recount_values", lambda *args: cut(counts(*args)))
    with pytest.raises(RecountFailed, match='values of "site"'):
        database.anonymize(**options, sensitive=["site"])
