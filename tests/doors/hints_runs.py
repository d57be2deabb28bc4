"""Hints of chains, runs, evaluations and synthetic rows: what raises each, and its ways out.

A case is a generator. The first act that it yields is refused with the hint, and every later one
succeeds: each does what the hint says, in the order of its sentences.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dbanon
from dbanon.measures import Model
from tests.doors.hint_steps import CommandRefusedError, World
from tests.doors.hint_doors import run_command

Act = Callable[[], object]
Acts = Generator[Act, str, None]
K, N = 3, 24


@dataclass(frozen=True)
class Case:
    """A hint, by the beginning of its text in the sources, and what raises and follows it."""

    hint: str
    acts: Callable[..., Acts]


CASES: list[Case] = []


def case(hint: str) -> Callable[[Callable[..., Acts]], Callable[..., Acts]]:
    """Register a function as the case of a hint."""

    def register(acts: Callable[..., Acts]) -> Callable[..., Acts]:
        CASES.append(Case(hint, acts))
        return acts

    return register


@dataclass
class Clinic:
    """A DuckDB file with a table of persons, and its chains."""

    folder: Path
    url: str = field(init=False)
    _outputs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.url = f"duckdb:///{self.folder}/clinic.duckdb"
        self.run(
            "CREATE TABLE people AS SELECT i::INTEGER AS id, (20 + i * 7 % 30)::INTEGER AS age,"
            " (150 + i * 11 % 40)::INTEGER AS height, ['a', 'b', 'c'][1 + i % 3] AS town,"
            f" ['flu', 'gout', 'none', 'mumps'][1 + i % 4] AS ill FROM range({N}) AS t(i)"
        )

    def run(self, *statements: str) -> list[Any]:
        """Execute SQL."""
        with duckdb.connect(str(self.folder / "clinic.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)
            return connection.fetchall()

    def key(self, chain: str = "c") -> str:
        return f"file:{self.folder}/{chain}.key"

    def chain(self, name: str = "c", **rules: Any) -> None:
        """Create a chain; one that follows another has its key."""
        asked = {"table": "people", "entity": "id", "changes": "show", "max_wait": 0} | rules
        if "new_chain_from" not in asked and "key" not in asked:
            asked["key_out"] = f"{self.folder}/{name}.key"
        dbanon.create_chain(self.url, name, **asked)

    def close_for(self, name: str, **rules: Any) -> None:
        """Close the chain, and create another one that follows it."""
        dbanon.close_chain(self.url, "c")
        self.chain(name, new_chain_from="c", key=self.key(), **rules)

    def new_output(self) -> str:
        self._outputs += 1
        return f"out{self._outputs}"

    def release(self, chain: str = "c", key: str = "", part: Any = None, **options: Any) -> Any:
        """Release the table in a chain; ``part`` has options of the chain."""
        return self.anonymize(
            entity="id", chain=dbanon.Chain(chain, key=self.key(key or chain), **part or {}),
            **options,
        )  # fmt: skip

    def anonymize(self, **options: Any) -> Any:
        asked: dict[str, Any] = {
            "table": "people", "output": self.new_output(), "quasi_identifiers": ["age"], "k": K,
        }  # fmt: skip
        asked |= options
        return dbanon.anonymize(asked.pop("database", self.url), **asked)


class Runs(World):
    """The folder of the cases."""

    def clinic(self, *statements: str) -> Clinic:
        """A new database, with more tables."""
        clinic = Clinic(self.path / self.new())
        clinic.run("SELECT 1", *statements)
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


# Chains.


@case("Release {} with `entity={}`, or create")
def of_another_table(world: Runs) -> Acts:
    clinic = world.clinic("CREATE TABLE others AS FROM people", "ALTER TABLE people ADD nr INTEGER")
    clinic.run("UPDATE people SET nr = id")
    clinic.chain()
    hint = yield lambda: clinic.release(table="others")
    assert "main.people" in hint or "people" in hint
    yield lambda: clinic.anonymize(
        chain=dbanon.Chain("c", key=clinic.key()), **printed_options(hint)
    )
    clinic.chain("d", table="others")
    yield lambda: clinic.release("d", table="others")


@case("Use other columns in `where`")
def where_reads_retained(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    yield lambda: clinic.release(keep=["ill"], where="people.ill <> 'flu'")
    yield lambda: clinic.release(keep=["ill"], where="age > 21")


@case("Replace them by known values in the source.")
def values_of_no_hierarchy(world: Runs) -> Acts:
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "town"], "method": "kmember", "recoding": "representative",
    }  # fmt: skip
    newcomers = "INSERT INTO people SELECT id + 100, age, height, 'z', ill FROM people WHERE id < 6"
    clinic = world.clinic()
    clinic.chain()
    clinic.release(**options)
    clinic.run(newcomers)
    yield lambda: clinic.release(**options)
    clinic.run("UPDATE people SET town = 'a' WHERE id > 99")
    yield lambda: clinic.release(**options)
    clinic.close_for("d")
    tree = {"town": {"tree": {"*": ["a", "b", "c", "z"]}}}
    more = {**options, "hierarchies": tree, "recoding": "generalization"}
    yield lambda: clinic.release("d", "c", **more)
    clinic.run("UPDATE people SET town = 'z' WHERE id > 99")
    yield lambda: clinic.release("d", "c", **more)


@case("It records the number of the last release.")
def damaged_note(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    [note] = (path for path in clinic.folder.glob("*c.key*") if path.name != "c.key")
    note.write_text("damaged")
    yield clinic.release
    note.unlink()
    yield clinic.release


@case("Name a new file for the key (key_out).")
def key_of_a_new_chain(world: Runs) -> Acts:
    clinic = world.clinic()
    rules: dict[str, Any] = {"table": "people", "entity": "id", "changes": "show"}
    yield lambda: dbanon.create_chain(clinic.url, "c", **rules)
    yield lambda: dbanon.create_chain(clinic.url, "c", key_out=clinic.folder / "c.key", **rules)
    dbanon.close_chain(clinic.url, "c")
    yield lambda: dbanon.create_chain(
        clinic.url, "d", new_chain_from="c", key=clinic.key(), **rules
    )


@case("Name the persons by their identifiers")
def nobody_to_withdraw(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    yield lambda: dbanon.withdraw(clinic.url, "c", [], key=clinic.key())
    yield lambda: dbanon.withdraw(clinic.url, "c", ["3"], key=clinic.key())


@case("Release it once there are at least {} persons")
def too_few_persons(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.run("CREATE TABLE others AS FROM people WHERE id > 1", "DELETE FROM people WHERE id > 1")
    hint = yield clinic.release
    assert f"at least {K} persons" in hint
    clinic.run("INSERT INTO people FROM others")
    yield clinic.release


@case("Close it first: dbanon chain close URL {}")
def predecessor_is_open(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    follow = lambda: clinic.chain("d", new_chain_from="c", key=clinic.key())  # noqa: E731
    hint = yield follow
    yield lambda: command(printed_command(hint, "dbanon chain close", clinic.url))
    yield follow


@case("Give each person a single value in the source")
def several_values_of_a_person(world: Runs) -> Acts:
    clinic = world.clinic("INSERT INTO people SELECT id, age + 1, height, town, ill FROM people")
    clinic.chain(max_rows_per_person=2)
    yield clinic.release
    yield lambda: clinic.release(quasi_identifiers=["height"], keep=["age"])
    single = world.clinic("INSERT INTO people SELECT id, age + 1, height, town, ill FROM people")
    single.run("UPDATE people SET age = (SELECT min(age) FROM people AS p WHERE p.id = people.id)")
    single.chain(max_rows_per_person=2)
    yield single.release


@case("Merge the rows of each person in the source.")
def several_rows_of_a_person(world: Runs) -> Acts:
    clinic = world.clinic("INSERT INTO people FROM people WHERE id < 3")
    clinic.chain()
    yield clinic.release
    dbanon.close_chain(clinic.url, "c")
    clinic.chain("d", max_rows_per_person=2)
    yield lambda: clinic.release("d")
    merged = world.clinic("CREATE TABLE rows AS FROM people UNION ALL FROM people")
    merged.run("DELETE FROM people", "INSERT INTO people SELECT DISTINCT * FROM rows")
    merged.chain()
    yield merged.release


@case("Delete these rows or name their persons in the source")
def rows_of_nobody(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.run("UPDATE people SET id = NULL WHERE id = 5")
    yield clinic.release
    yield lambda: clinic.release(where="id IS NOT NULL")
    clinic.run("UPDATE people SET id = 5 WHERE id IS NULL")
    yield clinic.release
    clinic.run("UPDATE people SET id = NULL WHERE id = 5", "DELETE FROM people WHERE id IS NULL")
    yield clinic.release


@case("If they really are other people")
def many_leave_and_come(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    clinic.run("UPDATE people SET id = id + 100 WHERE id < 12")
    hint = yield clinic.release
    yield lambda: clinic.release(part=printed_options(hint))


@case("Release it with `k={}`, or create another chain")
def another_k(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain(mode="measure")
    clinic.release()
    hint = yield lambda: clinic.release(k=4)
    yield lambda: clinic.release(**printed_options(hint))
    clinic.close_for("d", mode="measure")
    yield lambda: clinic.release("d", "c", k=4)


_ILL: dict[str, Any] = {
    "sensitive": ["ill"], "models": [Model(kind="distinct_l", level=2, attribute="ill")],
}  # fmt: skip


@case("Leave out `models`. Or create another chain")
def models_of_several_rows(world: Runs) -> Acts:
    clinic = world.clinic("INSERT INTO people FROM people WHERE id < 3")
    clinic.chain(max_rows_per_person=2)
    yield lambda: clinic.release(**_ILL)
    yield lambda: clinic.release(sensitive=["ill"])
    clinic.run("CREATE VIEW single AS SELECT DISTINCT * FROM people")
    clinic.chain("d", table="single")
    yield lambda: clinic.release("d", table="single", **_ILL)


def _file(clinic: Clinic, codes: Sequence[str]) -> str:
    """A CSV file of persons with a code each."""
    path = clinic.folder / "rows.csv"
    path.write_text("id,age,code\n" + "".join(
        f"{i},{20 + i % 9},{codes[i % len(codes)]}\n" for i in range(N)
    ))  # fmt: skip
    return f"file:{path}"


@case("State the former type (`types`)")
def other_types_of_a_file(world: Runs) -> Acts:
    clinic = world.clinic()
    url = _file(clinic, ["A1", "B2"])
    clinic.chain(table="rows", source=url)
    options: dict[str, Any] = {
        "database": url, "table": "rows", "target": clinic.url, "keep": ["code"],
    }  # fmt: skip
    clinic.release(**options)
    _file(clinic, ["1", "2"])
    yield lambda: clinic.release(**options)
    yield lambda: clinic.release(types={"code": "text"}, **options)
    _file(clinic, ["B2", "A1"])
    yield lambda: clinic.release(**options)
    _file(clinic, ["1", "2"])
    clinic.close_for("d", table="rows", source=url)
    yield lambda: clinic.release("d", "c", **options)


@case("Load the files into tables of one database")
def a_file_and_a_table(world: Runs) -> Acts:
    clinic = world.clinic("CREATE TABLE labs AS SELECT id, ill AS test FROM people")
    url = _file(clinic, ["A1"])
    yield lambda: clinic.chain(table="rows", source=url, tables=["labs"])
    clinic.run(f"CREATE TABLE rows AS FROM '{url.removeprefix('file:')}'",
               "ALTER TABLE rows ALTER id TYPE INTEGER")  # fmt: skip
    yield lambda: clinic.chain(table="rows", tables=["labs"], max_rows_per_person=1)
    yield lambda: clinic.release(table="rows", part={"outputs": {"labs": "labs_out"}})


@case("Name the database that has the chain as target")
def a_file_without_target(world: Runs) -> Acts:
    clinic = world.clinic()
    url = _file(clinic, ["A1"])
    clinic.chain(table="rows", source=url)
    options: dict[str, Any] = {"database": url, "table": "rows"}
    yield lambda: clinic.release(**options)
    yield lambda: clinic.release(target=clinic.url, **options)


@case("Cast it to text or to an integer in a view")
def entity_of_fractions(world: Runs) -> Acts:
    clinic = world.clinic("ALTER TABLE people ALTER id TYPE DOUBLE")
    yield clinic.chain
    for name, kind in (("c", "VARCHAR"), ("d", "INTEGER")):
        clinic.run(f"CREATE VIEW of_{name} AS SELECT * REPLACE (CAST(id::INTEGER AS {kind}) AS id)"
                   " FROM people")  # fmt: skip
        clinic.chain(name, table=f"of_{name}")
        yield lambda name=name: clinic.release(name, table=f"of_{name}")  # type: ignore[misc]


@case("Give it a binary, deterministic collation in a view")
def entity_without_case(world: Runs) -> Acts:
    clinic = world.clinic("CREATE TABLE named (id VARCHAR COLLATE NOCASE, age INTEGER)",
                          "INSERT INTO named SELECT 'p' || id, age FROM people",
                          "INSERT INTO named VALUES ('P1', 30)")  # fmt: skip
    yield lambda: clinic.chain(table="named")
    clinic.run("CREATE VIEW apart AS SELECT id COLLATE BINARY AS id, age FROM named")
    clinic.chain(table="apart")
    yield lambda: clinic.release(table="apart")


@case("The rules of a chain are fixed")
def other_rules(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    yield lambda: clinic.release(part={"rules": {"changes": "freeze"}})
    yield clinic.release
    clinic.close_for("d", changes="freeze")
    yield lambda: clinic.release("d", "c", part={"rules": {"changes": "freeze"}})


@case("Leave out `max_exposed`.")
def a_limit_of_exposed(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    yield lambda: clinic.release(part={"max_exposed": 0.1})
    yield clinic.release


@case("The database was restored or copied.")
def a_restored_database(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    place, older, newer = (clinic.folder / f"{n}.duckdb" for n in ("clinic", "older", "newer"))
    shutil.copy(place, older)
    clinic.release()
    shutil.copy(place, newer)
    shutil.copy(older, place)
    hint = yield clinic.release
    assert "release 2" in hint
    shutil.copy(newer, place)
    yield clinic.release
    shutil.copy(older, place)
    clinic.close_for("d")
    yield lambda: clinic.release("d", "c")


# Chains of several tables.


def _labs(world: Runs, *statements: str, create: bool = True, **rules: Any) -> Clinic:
    """A chain of the persons and of two tests of each."""
    clinic = world.clinic(
        "CREATE TABLE labs AS SELECT id, age, town AS test FROM people UNION ALL"
        " SELECT id, age, ill FROM people",
        *statements,
    )
    if create:
        clinic.chain(**{"tables": ["labs"], "max_rows_per_person": 3} | rules)
    return clinic


def _outputs(clinic: Clinic, **more: Any) -> dict[str, Any]:
    return {"outputs": {"labs": clinic.new_output()}} | more


@case("Give it the same type in all tables of the chain.")
def types_of_two_tables(world: Runs) -> Acts:
    clinic = _labs(world, "ALTER TABLE labs ALTER age TYPE BIGINT")
    yield lambda: clinic.release(part=_outputs(clinic))
    clinic.run("ALTER TABLE labs ALTER age TYPE INTEGER")
    yield lambda: clinic.release(part=_outputs(clinic))


@case("Name one output for each of the further tables")
def tables_without_outputs(world: Runs) -> Acts:
    clinic = _labs(world)
    hint = yield clinic.release
    assert "labs" in hint
    yield lambda: clinic.release(part=_outputs(clinic, kept={"labs": ["test"]}))


@case("Name another table for each: `output`")
def tables_of_one_output(world: Runs) -> Acts:
    clinic = _labs(world)
    yield lambda: clinic.release(output="same", part={"outputs": {"labs": "same"}})
    yield lambda: clinic.release(output="same", part={"outputs": {"labs": "another"}})


@case("Leave out `exports`, and export the tables yourself")
def exports_of_tables(world: Runs) -> Acts:
    clinic = _labs(world)
    exports = [{"path": str(clinic.folder / "rows.csv")}]
    yield lambda: clinic.release(exports=exports, part=_outputs(clinic))
    yield lambda: clinic.release(output="first", part=_outputs(clinic))
    yield lambda: clinic.run(f"COPY first TO '{clinic.folder}/rows.csv'")


@case("Leave out `where`. To select rows, create the chain of a view for each table.")
def rows_of_tables(world: Runs) -> Acts:
    clinic = _labs(world)
    yield lambda: clinic.release(where="age > 21", part=_outputs(clinic))
    for table in ("people", "labs"):
        clinic.run(f"CREATE VIEW {table}_21 AS SELECT * FROM {table} WHERE age > 21")
    clinic.chain("d", table="people_21", tables=["labs_21"], max_rows_per_person=3)
    yield lambda: clinic.release("d", table="people_21", part={"outputs": {"labs_21": "few"}})
    yield lambda: clinic.release(part=_outputs(clinic))


@case("All tables are released with the quasi-identifiers")
def a_quasi_identifier_twice(world: Runs) -> Acts:
    clinic = _labs(world)
    yield lambda: clinic.release(part=_outputs(clinic, kept={"labs": ["age", "test"]}))
    yield lambda: clinic.release(part=_outputs(clinic, kept={"labs": ["test"]}))


@case("Name each table once.")
def a_table_twice(world: Runs) -> Acts:
    clinic = _labs(world, create=False)
    yield lambda: clinic.chain(tables=["labs", "labs"])
    yield lambda: clinic.chain(tables=["labs"])


@case("Cast it to {} in a view, and anonymize the view.")
def entities_of_two_types(world: Runs) -> Acts:
    clinic = _labs(world, "ALTER TABLE labs ALTER id TYPE VARCHAR", create=False)
    hint = yield lambda: clinic.chain(tables=["labs"])
    [kind] = re.findall(r"Cast it to (\w+) ", hint)
    clinic.run(f"CREATE VIEW cast_labs AS SELECT * REPLACE (CAST(id AS {kind}) AS id) FROM labs")
    clinic.chain(tables=["cast_labs"], max_rows_per_person=3)
    yield lambda: clinic.release(part={"outputs": {"cast_labs": "labs_out"}})


@case("Create the chain of a view that adds")
def a_column_of_another_table(world: Runs) -> Acts:
    clinic = _labs(world, "ALTER TABLE labs ADD smokes INTEGER", "UPDATE labs SET smokes = id % 2")
    names = {"quasi_identifiers": ["age", "smokes"]}
    yield lambda: clinic.release(part=_outputs(clinic), **names)
    clinic.run("CREATE VIEW joined AS SELECT p.*, l.smokes FROM people AS p LEFT JOIN (SELECT id,"
               " max(smokes) AS smokes FROM labs GROUP BY id) AS l USING (id)")  # fmt: skip
    dbanon.close_chain(clinic.url, "c")
    clinic.chain("d", table="joined", tables=["labs"], max_rows_per_person=3)
    yield lambda: clinic.release("d", table="joined", part=_outputs(clinic), **names)


# Releases that are measured together.


def _releases(world: Runs) -> Clinic:
    """Releases of persons by an entity, and of two sources with the column itself."""
    clinic = world.clinic("CREATE TABLE others AS SELECT *, id AS nr FROM people")
    for name in ("may", "june"):
        clinic.anonymize(output=name, entity="id", releases="independent", keep=["id", "town"])
    clinic.anonymize(output="of_others", table="others", entity="nr", keep=["id"])
    return clinic


@case("Name two releases or more.")
def one_release(world: Runs) -> Acts:
    clinic = _releases(world)
    clinic.run("CREATE TABLE third AS FROM people")
    clinic.chain(table="third")
    clinic.release(table="third")
    yield lambda: dbanon.measure_releases(clinic.url, ["may"], entity="id")
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"], entity="id")
    yield lambda: command(f"dbanon chain measure {clinic.url} c --chain-key {clinic.key()}")


@case("Leave out `sensitive`, or name the column that identifies persons")
def sensitive_values_of_the_record(world: Runs) -> Acts:
    clinic, names = _releases(world), ["may", "june"]
    yield lambda: dbanon.measure_releases(clinic.url, names, sensitive=["town"])
    yield lambda: dbanon.measure_releases(clinic.url, names)
    yield lambda: dbanon.measure_releases(clinic.url, names, sensitive=["town"], entity="id")


@case("Name only releases of one source with one entity.")
def releases_of_two_sources(world: Runs) -> Acts:
    clinic = _releases(world)
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "of_others"])
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"])


@case("Name only releases of one source with one entity.")
def columns_of_two_sources(world: Runs) -> Acts:
    clinic = _releases(world)
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "of_others"], entity="id")
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"], entity="id")


@case("Name columns that every release has: `sensitive`.")
def a_column_of_one_release(world: Runs) -> Acts:
    clinic, names = _releases(world), ["may", "june"]
    measure = lambda name: dbanon.measure_releases(  # noqa: E731
        clinic.url, names, entity="id", sensitive=[name]
    )
    yield lambda: measure("ill")
    yield lambda: measure("town")


@case("Name a column without NULL: `entity`.")
def nobody_in_a_release(world: Runs) -> Acts:
    clinic = world.clinic("ALTER TABLE people ADD nr INTEGER",
                          "UPDATE people SET nr = CASE WHEN id > 1 THEN id END")  # fmt: skip
    options: dict[str, Any] = {"keep": ["id", "nr"], "releases": "independent"}
    for name in ("may", "june"):
        clinic.anonymize(output=name, **options)
    measure = lambda entity: dbanon.measure_releases(  # noqa: E731
        clinic.url, ["may", "june"], entity=entity
    )
    yield lambda: measure("nr")
    yield lambda: measure("id")
    for name in ("may", "june"):
        clinic.anonymize(output=name, where="nr IS NOT NULL", if_exists="replace", **options)
    yield lambda: measure("nr")
