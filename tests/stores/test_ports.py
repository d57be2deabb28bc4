"""One run over both ports, whichever store answers them."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.data.option import build_options
from dbanon.errors import OutputExists, RecountFailed
from dbanon.job.job import Job
from dbanon.run.open import open_store
from dbanon.run.plan import plan
from dbanon.run.run import run
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from dbanon.stores.frame.source import FrameSource
from dbanon.stores.frame.target import FrameTarget
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget
from tests.stores.databases import Database

N = 60
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ("age", "place"),
    "sensitive": ("ill",),
    "keep": ("row",),
    "by": ("site",),
    "entity": "who",
    "k": 3,
    "method": "gaa_cp",
    "models": [dbanon.Model("distinct_l", "ill", 2)],
}


def people() -> dict[str, list[Any]]:
    return {
        "row": list(range(N)),
        "who": [f"person {i // 2}" for i in range(N)],
        "age": [20 + i // 2 * 7 % 50 for i in range(N)],
        "place": [("north", "east", "south")[i // 2 % 3] for i in range(N)],
        "site": [("a", "b")[i // 2 % 2] for i in range(N)],
        "ill": [("flu", "cough", None)[i % 3] for i in range(N)],
    }


def job(**overrides: Any) -> Job:
    return build_options(
        Job, {"table": "data frame", "output": "release.people", **OPTIONS, **overrides}
    )


def test_a_frame_is_released_into_a_database(database: Database) -> None:
    """The person identifiers travel, the persons do not; counted as any release is."""
    data = people()
    frame = pd.DataFrame(data)
    with open_store(database.url).session(write=True) as session:
        report = run(job(), FrameSource(frame), SqlTarget(session))
    relation = database.relation("release.people")
    rows = database.rows(f'SELECT age, place, site, ill, "row" FROM {relation}')
    assert sorted(row[-1] for row in rows) == list(range(N))
    classes = Counter(row[:3] for row in rows)
    assert (len(classes), min(classes.values())) == (report.classes, report.smallest_class)
    assert all((r[2], r[3]) == (data["site"][r[4]], data["ill"][r[4]]) for r in rows)
    persons_by_class: dict[Any, set[str]] = {}
    for row in rows:
        persons_by_class.setdefault(row[:3], set()).add(data["who"][row[4]])
    assert min(map(len, persons_by_class.values())) == report.k_achieved >= 3
    assert report.persons == N // 2
    assert verify(open_store(database.url), parse_relation("release.people")).unchanged
    released, other = dbanon.anonymize_frame(frame, **OPTIONS)
    assert Counter(zip(released.age, released.place, released.site, strict=True)) == classes
    assert other.to_dict()["models"] == report.to_dict()["models"]
    assert (other.information_loss, other.k_achieved) == (
        report.information_loss,
        report.k_achieved,
    )
    with (
        pytest.raises(OutputExists),
        open_store(database.url).session(write=True) as session,
    ):
        run(job(), FrameSource(frame), SqlTarget(session))


def test_columns_are_read_by_name(database: Database) -> None:
    """And a plan outlives its transaction: it holds values only."""
    columns = dict.fromkeys(("row", "age"), database.types["integer"])
    columns |= dict.fromkeys(("who", "place", "site", "ill"), database.types["text"])
    data = people()
    database.load("people", columns, zip(*(data[name] for name in columns), strict=True))
    requested_job = job(table="people", key=("row",))
    with open_store(database.url).session(write=False) as session:
        source = SqlSource(session)
        planned = plan(requested_job, source, SqlTarget(session))
        microdata = source.read(planned.relation, planned.roles, requested_job, lambda share: None)
    assert planned.roles.hierarchy_columns == frozenset()
    assert (planned.not_copied, planned.written_output.kind) == (("who",), "table")
    with pytest.raises(FrozenInstanceError):
        planned.job = requested_job  # type: ignore[misc]
    assert [a.name for a in microdata.attributes] == ["age", "place"]
    assert list(microdata.sensitive) == ["ill"]
    ill = microdata.sensitive["ill"]
    assert [None if c < 0 else ill.values[c] for c in ill.codes.tolist()] == data["ill"]
    for codes, name in ((microdata.strata, "site"), (microdata.entities, "who")):
        assert codes is not None
        pairs = set(zip(codes.tolist(), data[name], strict=True))
        assert len(pairs) == len(set(data[name])) == len(set(codes.tolist()))


def test_what_was_not_counted_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    target = FrameTarget()
    count = target.count

    def fewer(*args: Any) -> Any:
        counts = count(*args)
        histogram = {2: 1, **counts.rows.histogram}
        object.__setattr__(counts.rows, "histogram", histogram)
        return counts

    monkeypatch.setattr(target, "count", fewer)
    with pytest.raises(RecountFailed, match="holds 2 rows, fewer than k = 3"):
        run(job(entity=None, models=[]), FrameSource(pd.DataFrame(people())), target)
    assert target.released is None
