"""The clinic's tables, and the steps from which cases of runs, chains and synthesis are made."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dbanon
from tests.doors.hint_doors import run_command
from tests.doors.hint_steps import CommandRefusedError, World

Act = Callable[[], object]


Acts = Generator[Act, str, None]


K, N = 3, 24


@dataclass(frozen=True)
class Case:
    """A hint, and what raises and follows it.

    Parameters
    ----------
    hint : the beginning of its text in the sources.
    is_constant : True for the whole text, if the sources refer to it by a name.
    """

    hint: str
    acts: Callable[..., Acts]
    is_constant: bool = False


CASES: list[Case] = []


def case(
    hint: str, *, is_constant: bool = False
) -> Callable[[Callable[..., Acts]], Callable[..., Acts]]:
    """Register a function as the case of a hint."""

    def register(acts: Callable[..., Acts]) -> Callable[..., Acts]:
        CASES.append(Case(hint, acts, is_constant))
        return acts

    return register


COLUMNS = "id INTEGER, age INTEGER, height INTEGER, town TEXT, ill TEXT"


PEOPLE = [
    (i, 20 + i * 7 % 30, 150 + i * 11 % 40, "abc"[i % 3], ("flu", "gout", "none", "mumps")[i % 4])
    for i in range(N)
]


@dataclass
class Clinic:
    """A SQLite file with a table of persons, and its chains."""

    folder: Path
    url: str = field(init=False)
    _outputs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.file = self.folder / "clinic.sqlite"
        self.url = f"sqlite:///{self.file}"
        self.table("people")

    def run(self, *statements: str, rows: Sequence[Any] = ()) -> None:
        """Execute SQL, the last statement for each of the rows."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            for statement in statements[: -1 if rows else None]:
                connection.execute(statement)
            if rows:
                connection.executemany(statements[-1], rows)

    def table(self, name: str, columns: str = COLUMNS, rows: Sequence[Any] = PEOPLE) -> None:
        """Create a table, in the place of another one."""
        values = ", ".join("?" * len(rows[0]))
        self.run(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} ({columns})",
            f"INSERT INTO {name} VALUES ({values})",
            rows=rows,
        )

    def key(self, chain: str = "c") -> str:
        return f"file:{self.folder}/{chain}.key"

    def chain(self, name: str = "c", **rules: Any) -> None:
        """Create a chain; one that follows another has its key."""
        arguments = {"table": "people", "entity": "id", "changes": "show", "max_wait": 0} | rules
        if "new_chain_from" not in arguments and "key" not in arguments:
            arguments["key_out"] = f"{self.folder}/{name}.key"
        dbanon.create_chain(self.url, name, **arguments)

    def close_for(self, name: str, **rules: Any) -> None:
        """Close the chain, and create another one that follows it."""
        dbanon.close_chain(self.url, "c")
        self.chain(name, new_chain_from="c", key=self.key(), **rules)

    def new_output(self) -> str:
        self._outputs += 1
        return f"out{self._outputs}"

    def release(self, chain: str = "c", key: str = "", part: Any = None, **options: Any) -> Any:
        """Release the table in a chain; ``part`` has options of the chain."""
        if "row_key" in options:
            options["key"] = options.pop("row_key")
        return self.anonymize(
            entity="id",
            chain=dbanon.Chain(chain, key=self.key(key or chain), **part or {}),
            **options,
        )

    def anonymize(self, **options: Any) -> Any:
        arguments: dict[str, Any] = {
            "table": "people",
            "output": self.new_output(),
            "quasi_identifiers": ["age"],
            "k": K,
        }
        arguments |= options
        return dbanon.anonymize(arguments.pop("database", self.url), **arguments)


@dataclass(frozen=True)
class Runs(World):
    """The folder of the cases.

    Parameters
    ----------
    fixture : the fixture of a name, such as a server that few cases need.
    """

    fixture: Callable[[str], Any]

    def clinic(self, *statements: str) -> Clinic:
        """A new database, with more tables."""
        clinic = Clinic(self.path / self.new())
        clinic.run(*statements)
        return clinic


def command(line: str) -> None:
    """Run a command as printed, without its first word."""
    hint = run_command(*shlex.split(line.removeprefix("dbanon ")))
    if hint is not None:
        raise CommandRefusedError(hint)


def printed_command(hint: str, beginning: str, url: str = "") -> str:
    """The command that a hint prints at its end, with the URL of a database."""
    match = re.search(rf"{beginning}.*", hint)
    assert match is not None, hint
    return match[0].rstrip(".").replace("URL", url)


def printed_options(hint: str) -> dict[str, Any]:
    """Options with values, as Python has them in a hint."""
    pairs = re.findall(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s,;:()]+)", hint)
    return {name: ast.literal_eval(value.rstrip(".")) for name, value in pairs}


def job(clinic: Clinic, words: str = "", **keys: Any) -> None:
    """Run a job file of the table; ``keys`` are the job's."""
    roles = {"id": "identifier", "age": "quasi_identifier", "height": "drop", "town": "drop"}
    columns = {name: {"role": role} for name, role in {**roles, "ill": "drop"}.items()}
    arguments: dict[str, Any] = {
        "name": "people",
        "table": "people",
        "k": K,
        "columns": columns,
        "output": {"table": "released", "if_exists": "replace"},
    }
    path = clinic.folder / "job.yaml"
    path.write_text(
        json.dumps({"version": 1, "source": {"url": clinic.url}, "jobs": [{**arguments, **keys}]})
    )
    command(f"dbanon run {path} {words}")
