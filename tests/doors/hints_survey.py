"""Hints of measuring the disclosure risk of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

import dbanon
from tests.doors.hint_steps import FRAME, Act, Steps, World, cli

_RISK = "risk {url} --table people -q age,town"


def risk(data: Any = FRAME, **options: Any) -> Act:
    """The risk of a frame."""
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "town"]}
    return lambda _: dbanon.disclosure_risk(data, **(asked | options))


def table_risk(**options: Any) -> Act:
    """The risk of the table."""
    asked: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age", "town"]}
    return lambda world: dbanon.disclosure_risk(world.url, **(asked | options))


def listed_again(world: World) -> object:
    """A list of records in a file that is there."""
    path = world.path / world.new(".csv")
    path.touch()
    return dbanon.disclosure_risk(FRAME, quasi_identifiers=["age"], records=path)


def reported_again(world: World) -> object:
    """A report in a file that is there."""
    path = world.path / world.new(".html")
    path.touch()
    return dbanon.disclosure_risk(FRAME, quasi_identifiers=["age"], report=path)


def many_cells(**options: Any) -> Act:
    """A frame with more combinations than a model with interactions takes."""
    rng = np.random.default_rng(5)
    columns = {f"c{j}": rng.integers(0, 40, 2000) for j in range(5)}
    return lambda _: dbanon.disclosure_risk(
        columns, **({"quasi_identifiers": list(columns), "sampling_fraction": 0.1} | options)
    )


def evaluated(**options: Any) -> Act:
    """The evaluation of a release."""
    return lambda world: dbanon.evaluate_release(world.url, "taken", **options)


SURVEYS = (
    Steps(
        "Name the table that the release was made from",
        evaluated(risk={}),
        [evaluated(original="people", risk={})],
    ),
    Steps(
        "Write {} for the defaults, or options by name",
        evaluated(original="people", risk=["size"]),
        [
            evaluated(original="people", risk={}),
            evaluated(original="people", risk={"quasi_identifiers": ["age"], "weight": "size"}),
        ],
    ),
    Steps(
        "Write --risk '{",
        cli("evaluate {url} taken --original people --risk size"),
        [
            cli("evaluate {url} taken --original people --risk '{{}}'"),
            cli(
                "evaluate {url} taken --original people"
                """ --risk '{{"weight": "size", "quasi_identifiers": ["age"]}}'"""
            ),
        ],
    ),
    Steps(
        "Add --original TABLE.",
        cli("evaluate {url} taken --risk '{{}}'"),
        [cli("evaluate {url} taken --original people --risk '{{}}'")],
    ),
    Steps(
        "Name columns that others may know",
        risk(quasi_identifiers=[]),
        [risk(quasi_identifiers=["age"])],
    ),
    Steps(
        "A column is a quasi-identifier, the `weight`",
        risk(weight="age"),
        [risk(weight="size"), risk(household="id"), risk()],
    ),
    Steps(
        "Name fewer `quasi_identifiers`: those that others",
        lambda _: dbanon.disclosure_risk(
            {f"c{j}": [1, 2] for j in range(28)},
            quasi_identifiers=[f"c{j}" for j in range(28)],
            suda=True,
        ),
        [risk(suda=True)],
    ),
    Steps("Leave out `suda_size` to search", risk(suda_size=3), [risk(suda=True)]),
    Steps(
        "A row without such a number stands for nobody.",
        risk(FRAME.assign(size=FRAME["size"].mask(FRAME.id < 3)), weight="size"),
        [risk(FRAME[FRAME.id >= 3], weight="size")],
    ),
    Steps(
        "Give numbers of persons (`weight`",
        risk(FRAME.assign(size=1e308), weight="size"),
        [risk(weight="size"), risk(sampling_fraction=0.1)],
    ),
    Steps(
        "Name a column of numbers, or cast",
        risk(FRAME.assign(size=FRAME["size"].astype(str)), weight="size"),
        [
            risk(weight="size"),
            risk(FRAME.assign(size=FRAME["size"].astype(str).astype(float)), weight="size"),
        ],
    ),
    Steps(
        "Choose main effects (`log_linear`)",
        many_cells(log_linear="two_way"),
        [
            many_cells(log_linear="main_effects"),
            risk(log_linear="two_way", sampling_fraction=0.1, quasi_identifiers=["town"]),
        ],
    ),
    Steps("Leave it out of `key`.", risk(weight="size", key=["size"]), [risk(weight="size")]),
    Steps(
        "Name it (`population`), or leave out",
        risk(population_count="size"),
        [risk(), risk(population=FRAME, population_count="size")],
    ),
    Steps(
        "Give its name, or give both tables as data frames.",
        table_risk(population=FRAME),
        [table_risk(population="people"), risk(population=FRAME)],
    ),
    Steps(
        "Name a table, or copy the view into one.",
        table_risk(population="seen"),
        [table_risk(population="people")],
    ),
    Steps(
        "Give both as data frames, or a database with the names",
        risk(released="people"),
        [risk(released=FRAME), table_risk(released="people")],
    ),
    Steps(
        "Give a data frame, or the name of a table in the same database.",
        table_risk(released=7),
        [table_risk(released=FRAME), table_risk(released="people"), risk(released=FRAME)],
    ),
    Steps(
        "Name a release that has released values of them",
        risk(released=FRAME[["id", "size"]]),
        [risk(released=FRAME[["id", "town"]])],
    ),
    Steps(
        "Name a table, or copy the view into one.",
        table_risk(released="seen"),
        [table_risk(released="people")],
    ),
    Steps(
        "Name a new file: `records`.",
        listed_again,
        [cli(f"{_RISK} --key id --records {{path}}/{{new}}.csv")],
    ),
    Steps(
        "Name a new file: `report`.",
        reported_again,
        [cli(f"{_RISK} --report {{path}}/{{new}}.html")],
    ),
    Steps(
        "Name a new file that ends in .html",
        cli(f"{_RISK} --report {{path}}/{{new}}.pdf"),
        [cli(f"{_RISK} --report {{path}}/{{new}}.html")],
    ),
    Steps(
        "Name two new files",
        cli(f"{_RISK} --key id --records {{path}}/one.html --report {{path}}/one.html"),
        [cli(f"{_RISK} --key id --records {{path}}/{{new}}.csv --report {{path}}/{{new}}.html")],
    ),
    Steps(
        "Name them: `key=",
        cli(f"{_RISK} --records {{path}}/{{new}}.csv"),
        [cli(f"{_RISK} --records {{path}}/{{new}}.csv --key id")],
    ),
)
