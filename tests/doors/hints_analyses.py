"""Hints of analyses that readers make of a release."""

from __future__ import annotations

from typing import Any

import pandas as pd

import dbanon
from tests.doors.hint_steps import FRAME, Act, N, Steps, World, cli

_DATA = FRAME.assign(
    seen=pd.Timestamp("2020-01-01") + pd.to_timedelta(FRAME["age"], unit="D"),
    sign=[1, 2] * (N // 2),
    loss=[1, -2] * (N // 2),
    loss_or_null=[1, None] * (N // 2),
    letter=["a", "b"] * (N // 2),
)
_MANY = pd.DataFrame({"row": [f"r{i}" for i in range(600)], "y": range(600)})
_MANY["half"] = [f"h{i // 2}" for i in range(600)]
_MANY["other"] = [f"o{(i + 1) // 2}" for i in range(600)]
_MANY["few"] = _MANY["row"].str[:2]


def analyze(analysis: dict[str, Any], data: pd.DataFrame = _DATA, **options: Any) -> Act:
    """Compare the analysis of a table with that of itself."""
    return lambda _: dbanon.compare_analyses(data, data, [analysis], **options)


def _of_tables(original: Any, released: Any) -> Act:
    def act(world: World) -> object:
        return dbanon.compare_analyses(
            original, released, [{"mean": "age"}], database=world.url, on_sql=None
        )

    return act


def _logistic(column: str, **options: Any) -> Act:
    return analyze({"regression": column, "on": "age", "model": "logistic", **options})


def _weighted(weight: str) -> Act:
    """Weight rows by a column."""
    request = {"weight": weight, "analyses": [{"mean": "age"}]}
    return lambda _: dbanon.compare_analyses(_DATA, _DATA, request)


def _labelled(leaf: object) -> Act:
    """Analyze numbers that are released as a label, which stands for this leaf."""
    released = pd.DataFrame({"age": ["grown"] * N})
    tree = dbanon.Hierarchy.from_nested({"*": {"grown": [str(leaf)]}})
    return lambda _: dbanon.compare_analyses(
        _DATA, released, [{"mean": "age"}], hierarchies={"age": tree}
    )


def _coded(**options: Any) -> Act:
    """Analyze a release of coded numbers."""

    def act(_: World) -> object:
        released, _report = dbanon.anonymize_frame(
            _DATA[["age"]], quasi_identifiers=["age"], k=2, method="gaa_cp",
            recoding="generalization", recode={"age": [30]}, **options,
        )  # fmt: skip
        return dbanon.compare_analyses(_DATA, released, [{"mean": "age"}])

    return act


ANALYSES = (
    Steps(
        "Release it with one label per value:",
        _coded(intervals="bounds"),
        [_coded(intervals="text")],
    ),
    Steps(
        "Use columns of numbers or texts: make others,",
        analyze({"table": "seen"}),
        [analyze({"table": "year"}, _DATA.assign(year=_DATA["seen"].dt.year))],
    ),
    Steps(
        "Means, totals, quantiles, the Gini coefficient, correlations and linear",
        analyze({"mean": "town"}),
        [analyze({"mean": "age"})],
    ),
    Steps(
        "Name a column of numbers as weight, or leave it out.",
        _weighted("town"),
        [_weighted("sign"), analyze({"mean": "age"})],
    ),
    Steps(
        "Correct these weights, or set them to NULL:",
        _weighted("loss"),
        [_weighted("sign"), _weighted("loss_or_null")],
    ),
    Steps(
        "Name a hierarchy whose leaves are the numbers of the column:",
        _labelled("adult"),
        [_labelled(30)],
    ),
    Steps(
        "Use a column with fewer values: make it of this one",
        analyze({"table": "row"}, _MANY),
        [analyze({"table": "few"}, _MANY)],
    ),
    Steps(
        "Use columns with fewer values, or fewer columns.",
        analyze({"regression": "y", "on": ["half", "other"]}, _MANY),
        [
            analyze({"regression": "y", "on": ["half", "few"]}, _MANY),
            analyze({"regression": "y", "on": ["half"]}, _MANY),
        ],
    ),
    Steps(
        "Name the value that it explains among the analyses",
        _logistic("town"),
        [_logistic("town", event="a")],
    ),
    Steps(
        "Name the value whose probability it explains among",
        _logistic("sign"),
        [_logistic("sign", event="2")],
    ),
    Steps(
        "Write event as the value is written in the column.",
        _logistic("letter", event="A"),
        [_logistic("letter", event="a")],
    ),
    Steps(
        'Name both, as in "app.people", or leave out database',
        _of_tables(_DATA, _DATA),
        [_of_tables("people", "people"), analyze({"mean": "age"})],
    ),
    Steps(
        "See docs/evaluation.md#what-readers-will-compute for",
        analyze({"mean": "age", "on": "sex"}),
        [analyze({"mean": "age", "by": "letter"})],
    ),
    Steps(
        "Add --analyses FILE.",
        cli("evaluate {url} taken --original people --hierarchy age={path}/tree.json"),
        [cli("evaluate {url} taken --original people")],
    ),
)
