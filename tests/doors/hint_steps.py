"""Hints that say in words or commands what to do: the case that raises each, and its ways out."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from dbanon.errors import DbanonError
from tests.doors.hint_doors import run_command

_NUMBERS = itertools.count()


class CommandRefusedError(Exception):
    """A command ended with an error; its hint."""


@dataclass(frozen=True)
class World:
    """A folder of a database, a view, releases and files."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}/people.sqlite"

    def new(self, ending: str = "") -> str:
        """A name that nothing has."""
        return f"n{next(_NUMBERS)}{ending}"

    def cli(self, line: str) -> object:
        """Run a command; {url} and {new} stand for the database and a new name."""
        words = shlex.split(line.format(url=self.url, new=self.new(), path=self.path))
        hint = run_command(*words)
        if hint is not None:
            raise CommandRefusedError(hint)
        return True

    def file(self, name: str, content: str | bytes = "", **options: Any) -> object:
        """Anonymize the rows of a file that is written first, unless it is there."""
        place = self.path / name
        if content:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.rows(f"file:{place}", **options)

    def rows(self, url: str, **options: Any) -> object:
        """Anonymize the rows of files."""
        asked: dict[str, Any] = {
            "table": "rows",
            "output": self.new(),
            "quasi_identifiers": ["age"],
            "k": 2,
            "target": f"sqlite:///{self.path}/target.sqlite",
            "releases": "independent",
        }
        return dbanon.anonymize(
            url, **{n: v for n, v in (asked | options).items() if v is not None}
        )

    def table(self, **options: Any) -> object:
        """Anonymize the table."""
        asked: dict[str, Any] = {
            "table": "people",
            "output": self.new(),
            "quasi_identifiers": ["age"],
            "k": 4,
            "releases": "independent",
        }
        return dbanon.anonymize(self.url, **asked | options)


Act = Callable[[World], object]


@dataclass(frozen=True)
class Steps:
    """A hint, what raises it, and what a user does who follows it."""

    hint: str
    wrong: Act
    right: Sequence[Act] = ()


def hint_of(act: Act, world: World) -> str:
    """The hint of the error that an act ends with."""
    try:
        act(world)
    except DbanonError as error:
        return error.hint or "(no hint)"
    except CommandRefusedError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def cli(line: str) -> Act:
    return lambda world: world.cli(line)


def csv(text: str | bytes, name: str = "", **options: Any) -> Act:
    return lambda w: w.file(name or w.new(".csv"), text, **options)


_RNG = np.random.default_rng(2)
N = 40
FRAME = pd.DataFrame(
    {
        "age": _RNG.integers(20, 60, N),
        "size": _RNG.normal(170, 9, N),
        "town": _RNG.choice(list("abc"), N),
        "id": np.arange(N),
    }
)
ARRAY = FRAME[["age", "size"]].to_numpy(float)
MEASURES = pd.DataFrame(ARRAY, columns=["a", "b"])

# Advice on few trials.
FEW: dict[str, Any] = {"k": (4,), "methods": ("mdav",)}
ROWS = "".join(f"{20 + i},{'ab'[i % 2]}\n" for i in range(12))
CSV = "age,x\n" + ROWS
# A release of the table, in the chain that is open; what makes a chain.
PEOPLE = "anonymize {url} --table people -q age --k 4 --output {new}"
OPEN = "--chain open --entity id --chain-key file:{path}/people.key"
SHOW = "--entity id --changes show --key-out {path}/{new}.key"


def frame(data: Any = FRAME, **options: Any) -> Act:
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], "k": 4}
    return lambda _: dbanon.anonymize_frame(data, **(asked | options))


def column(values: Any, **options: Any) -> Act:
    """A frame with such a column as a quasi-identifier."""
    return frame(
        FRAME.assign(age=pd.Series(values)),
        quasi_identifiers=["age"],
        recoding="representative",
        method="kmember",
        **options,
    )


def classes(data: Any, k: int = 4, **options: Any) -> Act:
    return lambda _: dbanon.partition(data, k, **options)


def release(**options: Any) -> tuple[Any, Any]:
    """A frame as it was released, and its report."""
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], "k": 4, "keep": ["id"]}
    frame, report = dbanon.anonymize_frame(FRAME, **(asked | options))
    return frame, report


def evaluate(original: Any = FRAME, **options: Any) -> Act:
    def act(_: World) -> object:
        released, report = release()
        given = {
            n: report if isinstance(v, str) and v == "report" else v for n, v in options.items()
        }
        asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], **given}
        return dbanon.evaluate(original, asked.pop("released", released), **asked)

    return act


def tree(spec: Any, **options: Any) -> Act:
    """A hierarchy of the towns."""
    asked: dict[str, Any] = {
        "quasi_identifiers": ["age", "town"],
        "k": 4,
        "method": "gaa_cp",
        "hierarchies": {"town": spec},
    }
    return lambda _: dbanon.anonymize_frame(FRAME, **(asked | options))


def days(spec: Any) -> Act:
    """A hierarchy of days."""
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) // 3, unit="D")
    return frame(
        FRAME.assign(day=day.date),
        quasi_identifiers=["age", "day"],
        method="gaa_cp",
        hierarchies={"day": spec},
        recoding="generalization",
    )


def noisy(data: Any = MEASURES, epsilon: float = 98.0, **options: Any) -> Act:
    """Synthetic rows."""
    asked: dict[str, Any] = {
        "method": "dp_ranks",
        "budget": dbanon.Budget(99.0),
        "epsilon": epsilon,
        "bounds": {"a": (0, 100), "b": (100, 250)},
        "types": "number",
    }
    return lambda _: dbanon.synthesize(data, **(asked | options))
