"""Hints of synthetic rows, and of differentially private releases: cases as in ``run_steps``."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import dbanon
from dbanon.extensions.synthesis import columns, declared_types
from dbanon.extensions.synthesis import run as private
from tests.doors.hint_steps import World
from tests.doors.run_steps import Act, Acts, Clinic, Runs, case, command, printed_options

_RNG = np.random.default_rng(5)
_ROWS = _RNG.uniform(0, 100, (400, 2))
_TOWNS = _RNG.choice(["a", "b"], 400)
_BOUNDS = {"a": (0, 100), "b": (0, 100)}
_FRAME = pd.DataFrame({"a": _ROWS[:, 0], "b": _ROWS[:, 1]})
_TEXTS: Any = _FRAME.assign(town=pd.Categorical(_TOWNS).astype(object))
_PERSONS = np.arange(400) // 2


def synthesize(data: Any = _FRAME, **options: Any) -> Act:
    """Make synthetic rows; an option that is None is left out."""
    arguments: dict[str, Any] = {
        "method": "dp_ranks",
        "budget": dbanon.Budget(99.0),
        "epsilon": 9.0,
        "bounds": _BOUNDS,
        "types": "number",
    }
    pairs = (arguments | options).items()
    named = {name: value for name, value in pairs if value is not None}
    return lambda: dbanon.synthesize(data, **named)


def with_towns(**options: Any) -> Act:
    """The same of rows with a text, whose missing values become one of its values."""
    types = {"a": "number", "b": "number", "town": "text"}
    return synthesize(_TEXTS, **{"types": types, "null_as": {"town": "a"}} | options)


@case("Install it with: pip install {}")
def without_opendp(world: Runs) -> Acts:
    def missing() -> object:
        with patch.dict(sys.modules, {"opendp": None}):
            return synthesize()()

    hint = yield missing
    words = shlex.split(hint.removeprefix("Install it with: pip "))
    # Here it is installed, so that nothing is fetched.
    yield lambda: subprocess.run(
        [sys.executable, "-m", "pip", words[0], "--no-index", "--dry-run", *words[1:]],
        check=True,
        capture_output=True,
    )
    yield synthesize()


@case(columns._BOUNDS_HINT, is_constant=True)
def a_column_without_bounds(world: Runs) -> Acts:
    yield synthesize(bounds={"a": (0, 100)})
    yield synthesize(bounds=_BOUNDS)


@case(declared_types._TYPES_HINT, is_constant=True)
def a_column_without_type(world: Runs) -> Acts:
    yield synthesize(types={"a": "number"})
    yield synthesize(types={"a": "number", "b": "integer"})
    yield synthesize(types="number")


@case("Say which value replaces NULL")
def a_column_that_may_hold_null(world: Runs) -> Acts:
    towns = {"town": ["a", "b"]}
    yield with_towns(orders=towns, null_as=None)
    yield with_towns(orders=towns, null_as={"town": "a"})


@case("Raise the low bound (`bounds`)")
def logarithms_of_zero(world: Runs) -> Acts:
    yield synthesize(scale={"a": "log"})
    yield synthesize(scale={"a": "log"}, bounds={**_BOUNDS, "a": (1, 100)})


@case("Write out its tree or levels, or load it first")
def a_tree_of_the_values(world: Runs) -> Acts:
    clinic = world.clinic()
    dbanon.store_hierarchy(clinic.url, "towns", {"tree": {"*": ["a", "b"]}})
    yield with_towns(hierarchies={"town": {"name": "towns"}})
    yield with_towns(hierarchies={"town": {"tree": {"*": ["a", "b"]}}})
    yield with_towns(hierarchies={"town": {"levels": [["a", "*"], ["b", "*"]]}})
    yield lambda: with_towns(
        hierarchies={"town": dbanon.load_hierarchy(clinic.url, "name:towns")}
    )()


@case("List the values in `orders` or `hierarchies`")
def values_without_list(world: Runs) -> Acts:
    yield with_towns()
    yield with_towns(orders={"town": ["a", "b"]})
    yield with_towns(hierarchies={"town": {"tree": {"*": ["a", "b"]}}})


@case("Pass a pandas.DataFrame.")
def persons_of_an_array(world: Runs) -> Acts:
    options: dict[str, Any] = {"entity": "p", "bounds": _BOUNDS}
    yield synthesize(_ROWS, **options)
    yield synthesize(_FRAME.assign(p=_PERSONS), **options)


@case("Convert it to whole numbers without NULL, such as int64.")
def persons_that_may_be_null(world: Runs) -> Acts:
    frame = _FRAME.assign(p=pd.array(_PERSONS, "Int64"))
    yield synthesize(frame, entity="p")
    yield synthesize(frame.astype({"p": "int64"}), entity="p")


def many_columns(n: int, **options: Any) -> Act:
    rows = _RNG.uniform(0, 100, (400, n))
    names = [f"x{i}" for i in range(n)]
    return synthesize(
        pd.DataFrame(rows, columns=names), bounds=dict.fromkeys(names, (0, 100)), **options
    )


@case('Leave out columns, or use `method="dp_ranks"`.')
def too_many_columns(world: Runs) -> Acts:
    options: dict[str, Any] = {"method": "dp_marginals", "epsilon": 98.0}
    hint = yield many_columns(60, **options)
    yield many_columns(6, **options)
    yield many_columns(60, **options | printed_options(hint))


@case("Release {} rows or more, raise `epsilon`, or leave out columns.")
def mostly_noise(world: Runs) -> Acts:
    options: dict[str, Any] = {"method": "dp_marginals", "epsilon": 0.055}
    hint = yield synthesize(**options)
    [rows] = re.findall(r"Release (\d+) rows", hint)
    enough = pd.DataFrame(_RNG.uniform(0, 100, (int(rows), 2)), columns=["a", "b"])
    yield synthesize(enough, **options)
    yield synthesize(**options | {"epsilon": 9.0})
    yield synthesize(_FRAME[["a"]], **options | {"bounds": {"a": (0, 100)}})


@case("Choose a far smaller delta")
def a_large_delta(world: Runs) -> Acts:
    rows = pd.DataFrame({"a": np.arange(100_000) % 100})
    options: dict[str, Any] = {
        "method": "dp_marginals",
        "accounting": "zcdp",
        "budget": dbanon.Budget(99.0, delta=1e-5),
        "bounds": {"a": (0, 100)},
    }
    hint = yield synthesize(rows, delta=1e-5, **options)
    yield synthesize(rows, **options | printed_options(hint))


# In a database.


class Magic(Clinic):
    """A table with a budget."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.load()
        dbanon.create_budget(self.url, "magic", source="magic", epsilon=60)

    def load(self, rows: Sequence[Any] = ()) -> None:
        kinds = "a REAL NOT NULL, town TEXT NOT NULL"
        pairs = zip(_ROWS[:, 0].tolist(), _TOWNS.tolist(), strict=True)
        self.table("magic", kinds, [*pairs, *rows])

    def private(self, **options: Any) -> Any:
        arguments: dict[str, Any] = {
            "table": "magic",
            "quasi_identifiers": ["a"],
            "method": "dp_ranks",
            "epsilon": 5.0,
            "bounds": {"a": (0, 100)},
            "budget": "magic",
            "output": self.new_output(),
        }
        arguments |= options
        return dbanon.anonymize(arguments.pop("database", self.url), **arguments)


def _magic(world: World) -> Magic:
    return Magic(world.path / world.new())


@case("Release it again while nobody changes the table.")
def rows_that_come_meanwhile(world: Runs) -> Acts:
    magic, spend = _magic(world), private._spend_with_retries

    def write(store: Any, begun: Any) -> Any:
        budget = spend(store, begun)
        magic.run("INSERT INTO magic VALUES (1, 'a')")
        return budget

    def interrupted() -> None:
        with patch.object(private, "_spend_with_retries", write):
            magic.private()

    yield interrupted
    yield magic.private
    assert dbanon.show_budget(magic.url, "magic").spent == 10


@case("Release it again while nobody changes the table.")
def columns_that_come_meanwhile(world: Runs) -> Acts:
    magic, spend = _magic(world), private._spend_with_retries

    def write(store: Any, begun: Any) -> Any:
        budget = spend(store, begun)
        magic.run("ALTER TABLE magic ADD b REAL")
        return budget

    def interrupted() -> None:
        with patch.object(private, "_spend_with_retries", write):
            magic.private()

    yield interrupted
    yield magic.private


@case("Load the rows into a table of a database, create a budget for it")
def a_budget_of_a_file(world: Runs) -> Acts:
    magic = _magic(world)
    path = magic.folder / "rows.csv"
    path.write_text("a\n" + "\n".join(map(str, _ROWS[:, 0])))
    yield lambda: magic.private(database=f"file:{path}", table="rows")
    magic.table("loaded", "a REAL NOT NULL", [[a] for a in _ROWS[:, 0].tolist()])
    yield lambda: dbanon.create_budget(magic.url, "loaded", source="loaded", epsilon=60)
    yield lambda: magic.private(table="loaded", budget="loaded")


@case("Raise the limit (`memory_limit`), or use fewer quasi-identifiers.")
def little_memory(world: Runs) -> Acts:
    magic = _magic(world)
    towns: dict[str, Any] = {
        "quasi_identifiers": ["a", "town"],
        "orders": {"town": ["a", "b"]},
    }
    yield lambda: magic.private(memory_limit=20_000, **towns)
    yield lambda: magic.private(memory_limit=10**8, **towns)
    yield lambda: magic.private(memory_limit=30_000)


@case("List the values in `orders` or `hierarchies`")
def a_tree_of_the_released_rows(world: Runs) -> Acts:
    magic, named = _magic(world), {"quasi_identifiers": ["a", "town"]}
    tree = {"town": {"table": "magic"}}
    yield lambda: magic.private(hierarchies=tree, **named)
    yield lambda: magic.private(orders={"town": ["a", "b"]}, **named)
    yield lambda: magic.private(hierarchies={"town": {"tree": {"*": ["a", "b"]}}}, **named)


@case("Name the budget of this source and unit, or create one")
def the_budget_of_another_table(world: Runs) -> Acts:
    magic = _magic(world)
    magic.table("other", "a REAL NOT NULL", [[a] for a in _ROWS[:, 0].tolist()])
    yield lambda: magic.private(table="other")
    yield lambda: command(f"dbanon budget create {magic.url} other --source other --epsilon 9")
    yield lambda: magic.private(table="other", budget="other")


@case("Drop it (dbanon drop), and release the table again. That spends again.")
def a_changed_synthesis(world: Runs) -> Acts:
    magic = _magic(world)
    magic.private(output="synthetic")
    magic.run("UPDATE synthetic SET a = 900")
    verify = partial(dbanon.verify, magic.url, "synthetic")
    yield verify
    yield lambda: command(f"dbanon drop {magic.url} synthetic")
    yield lambda: magic.private(output="synthetic")
    yield verify


@case("Leave out --risk.")
def the_disclosure_risk_of_synthetic_rows(world: Runs) -> Acts:
    magic = _magic(world)
    magic.private(output="synthetic")
    risk = dbanon.disclosure_risk(magic.url, "magic", quasi_identifiers=["a"], released="synthetic")
    (magic.folder / "risk.json").write_text(json.dumps(risk.to_dict()))
    line = f"dbanon report {magic.url} synthetic -o {magic.folder}/page.html"
    yield lambda: command(f"{line} --risk {magic.folder}/risk.json")
    yield lambda: command(line)
