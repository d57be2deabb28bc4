"""Hints about shifted dates."""

from __future__ import annotations

import datetime
import sqlite3
from typing import Any

import dbanon
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from tests.doors.hint_steps import FRAME, Act, Steps, World, frame

_SHIFT: dict[str, Any] = {"days": 9, "columns": ["seen"]}
_DAY = datetime.date(2020, 5, 5)
_DATES = FRAME.assign(
    seen=[_DAY + datetime.timedelta(days=30 * (i % 3)) for i in range(len(FRAME))],
    batch=_DAY,
)
_EARLY = _DATES.assign(seen=[datetime.date(1, 1, 2), *_DATES.seen[1:]])
_COPIED: dict[str, Any] = {"keep": ["seen"], "shift_dates": _SHIFT}


def _job(**options: Any) -> Act:
    """Describe a job with dates, which must be valid."""
    columns: dict[str, Any] = {"quasi_identifiers": ("age",), "keep": ("seen",), "entity": "id"}
    policy = options.pop("policy", Policy(k=3))
    job_options = {"table": "t", "output": "o", **columns, **options}
    return lambda _: Job(policy=policy, **job_options)


def _many_rows(days: int) -> Act:
    """Anonymize a table of many equal rows, which are one class."""

    def run(world: World) -> object:
        path = world.path / world.new(".sqlite")
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE many (id INTEGER PRIMARY KEY, age INTEGER, seen DATE)")
            connection.executemany(
                "INSERT INTO many VALUES (?, 30, '2020-05-05')", ((i,) for i in range(30_000))
            )
        connection.close()
        return dbanon.anonymize(
            f"sqlite:///{path}",
            table="many",
            output="o",
            quasi_identifiers=["age"],
            k=4,
            method="mondrian",
            keep=["seen"],
            shift_dates={"days": days, "columns": ["seen"]},
        )

    return run


def _persons(spelling: str, **options: Any) -> Act:
    """Anonymize visits of persons, one of whom has two spellings that the database holds equal."""

    def run(world: World) -> object:
        path = world.path / world.new(".sqlite")
        with sqlite3.connect(path) as connection:
            connection.execute(
                "CREATE TABLE visits (id INTEGER PRIMARY KEY, who TEXT COLLATE NOCASE,"
                " age INTEGER, seen DATE)"
            )
            names = ["anna", spelling, *(f"p{i}" for i in range(20))]
            connection.executemany(
                "INSERT INTO visits VALUES (?, ?, 30, '2020-05-05')", enumerate(names)
            )
        connection.close()
        return dbanon.anonymize(
            f"sqlite:///{path}",
            table="visits",
            output="o",
            quasi_identifiers=["age"],
            k=4,
            method="mondrian",
            entity="who",
            **_COPIED,
            **{name: value.format(path=world.path) for name, value in options.items()},
        )

    return run


_KEY = {"pseudonym_key": "file:{path}/key"}

DATES = (
    Steps(
        "Leave it out of `shift_dates`, or cast it to a date",
        frame(_DATES, keep=["id"], shift_dates={"days": 9, "columns": ["id"]}),
        [frame(_DATES, keep=["id"]), frame(_DATES, **_COPIED)],
    ),
    Steps(
        "Copy it: `keep`.",
        frame(_DATES, shift_dates=_SHIFT),
        [frame(_DATES, **_COPIED)],
    ),
    Steps(
        "Leave it out of `shift_dates`, or of `models` and `also_k`.",
        frame(_DATES, also_k=[{"columns": ["seen"], "k": 2}], **_COPIED),
        [frame(_DATES, keep=["seen"]), frame(_DATES, **_COPIED)],
    ),
    Steps(
        "Correct these values in a view",
        frame(_EARLY, **_COPIED),
        [frame(_DATES, **_COPIED), frame(_EARLY, keep=["seen"])],
    ),
    Steps(
        "Leave out what tells it, or leave out `strict`.",
        frame(_DATES, keep=["seen", "batch"], shift_dates=_SHIFT, strict=True),
        [frame(_DATES, keep=["seen", "batch"], shift_dates=_SHIFT)],
    ),
    Steps(
        "Leave out `shift_dates`, or release without a chain.",
        _job(shift_dates=_SHIFT, chain=dbanon.Chain("c", key="file:key")),
        [_job(chain=dbanon.Chain("c", key="file:key")), _job(shift_dates=_SHIFT)],
    ),
    Steps(
        "Leave out `spill`, or `shift_dates`.",
        _job(entity=None, shift_dates=_SHIFT, spill="x", policy=Policy(k=3, block_size=50)),
        [
            _job(entity=None, shift_dates=_SHIFT, policy=Policy(k=3, block_size=50)),
            _job(entity=None, spill="x", policy=Policy(k=3, block_size=50)),
        ],
    ),
    Steps("Name fewer days in `shift_dates`.", _many_rows(36_500), [_many_rows(9)]),
    Steps(
        "Spell them alike in a view, or leave out `pseudonym_key`.",
        _persons("ANNA", **_KEY),
        [_persons("anna", **_KEY), _persons("ANNA")],
    ),
)
