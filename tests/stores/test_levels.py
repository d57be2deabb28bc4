"""The levels of a full domain: released, reported and recorded, on every database."""

from __future__ import annotations

import json
from itertools import pairwise

import dbanon
from tests.stores.databases import Database

PLACES = dbanon.Hierarchy.from_nested(
    {"*": {"north": {"coast": ["Kiel", "Husum"], "plain": ["Celle"]}, "south": ["Ulm", "Hof"]}}
)


def test_levels(database: Database) -> None:
    places = [PLACES.labels[node] for node in PLACES.leaves]
    rows = [(i, places[i * i % 11 % 5], i * 37 % 61, i % 2) for i in range(80)]
    columns = {"id": "integer PRIMARY KEY", "place": database.types["text"], "age": "integer"}
    database.load("people", columns | {"side": "integer"}, rows)
    report = database.anonymize(
        quasi_identifiers=["place", "age"],
        keep=["id"],
        by=["side"],
        method="full_domain",
        hierarchies={"place": PLACES},
    )
    assert report.levels is not None
    assert dict(report.rows())["levels"].startswith(f"place {report.levels['place']}, age ")
    [(arguments,)] = database.rows(
        f"SELECT CAST(arguments AS VARCHAR(9999)) FROM {database.ledger()}"
    )
    assert json.loads(arguments)["levels"] == report.levels
    nodes = PLACES.nodes_at_level(report.levels["place"])
    expected = {key: PLACES.labels[nodes[PLACES.positions[town]]] for key, town, _, _ in rows}
    released_rows = database.rows(
        f"SELECT id, place, age FROM {database.relation('release.people')}"
    )
    assert {key: town for key, town, _ in released_rows} == expected
    ages = {key: age for key, _, age, _ in rows}
    ages_by_label = {
        label: sorted(ages[key] for key, _, age in released_rows if age == label)
        for _, _, label in released_rows
    }
    ends = sorted((values[0], values[-1]) for values in ages_by_label.values())
    assert all(high < low for (_, high), (low, _) in pairwise(ends))
