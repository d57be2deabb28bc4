"""Hints of chains, and of releases that are measured together: cases as in ``run_steps``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dbanon
from dbanon.extensions.chains import joint_measure
from dbanon.extensions.chains import run as chain_run
from dbanon.measures import Model
from tests.doors.run_steps import (
    COLUMNS,
    PEOPLE,
    Act,
    Acts,
    Clinic,
    K,
    N,
    Runs,
    case,
    command,
    printed_command,
    printed_options,
)


@case("Release {} with `entity={}`, or create")
def of_another_table(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.table("others")
    clinic.chain()
    hint = yield lambda: clinic.release(table="others")
    assert "Release people " in hint
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
        "quasi_identifiers": ["age", "town"],
        "method": "kmember",
        "recoding": "representative",
    }
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
    with_tree = {**options, "hierarchies": tree, "recoding": "generalization"}
    yield lambda: clinic.release("d", "c", **with_tree)
    clinic.run("UPDATE people SET town = 'z' WHERE id > 99")
    yield lambda: clinic.release("d", "c", **with_tree)


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
    clinic.run("DELETE FROM people WHERE id > 1")
    hint = yield clinic.release
    assert f"at least {K} persons" in hint
    clinic.table("people")
    yield clinic.release


@case("Close it first: dbanon chain close URL {}")
def predecessor_is_open(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    follow = partial(clinic.chain, "d", new_chain_from="c", key=clinic.key())
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
    single.run("UPDATE people SET age = (SELECT min(p.age) FROM people p WHERE p.id = people.id)")
    single.chain(max_rows_per_person=2)
    yield single.release


@case("Merge the rows of each person in the source.")
def several_rows_of_a_person(world: Runs) -> Acts:
    clinic = world.clinic("INSERT INTO people SELECT * FROM people WHERE id < 3")
    clinic.chain()
    yield clinic.release
    dbanon.close_chain(clinic.url, "c")
    clinic.chain("d", max_rows_per_person=2)
    yield lambda: clinic.release("d")
    merged = world.clinic("INSERT INTO people SELECT * FROM people")
    merged.chain()
    merged.table("people", rows=sorted({*PEOPLE}))
    yield merged.release


@case("Delete these rows or name their persons in the source")
def rows_of_nobody(world: Runs) -> Acts:
    deletes, names, leaves_out = (
        world.clinic("UPDATE people SET id = NULL WHERE id = 5") for _ in range(3)
    )
    for clinic in (deletes, names, leaves_out):
        clinic.chain()
    yield deletes.release
    deletes.run("DELETE FROM people WHERE id IS NULL")
    yield deletes.release
    names.run("UPDATE people SET id = 5 WHERE id IS NULL")
    yield names.release
    yield lambda: leaves_out.release(where="id IS NOT NULL")


@case("If they really are other people")
def many_leave_and_come(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    clinic.run("UPDATE people SET id = id + 100 WHERE id < 12")
    hint = yield clinic.release
    yield lambda: clinic.release(part=printed_options(hint))


def by_command(clinic: Clinic, words: str = "") -> Act:
    """The same release on the command line."""
    return lambda: command(
        f"dbanon anonymize {clinic.url} --table people -q age --k {K} --entity id --output"
        f" {clinic.new_output()} --chain c --chain-key {clinic.key()} {words}"
    )


@case("If they really are other people")
def many_leave_and_come_by_command(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    clinic.run("UPDATE people SET id = id + 100 WHERE id < 12")
    hint = yield by_command(clinic)
    [flag] = re.findall(r"--[a-z-]+", hint)
    yield by_command(clinic, flag)


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
    "sensitive": ["ill"],
    "models": [Model(kind="distinct_l", level=2, attribute="ill")],
}


@case("Leave out `models`. Or create another chain")
def models_of_several_rows(world: Runs) -> Acts:
    clinic = world.clinic("INSERT INTO people SELECT * FROM people WHERE id < 3")
    clinic.chain(max_rows_per_person=2)
    yield lambda: clinic.release(**_ILL)
    yield lambda: clinic.release(sensitive=["ill"])
    clinic.run("CREATE VIEW single AS SELECT DISTINCT * FROM people")
    clinic.chain("d", table="single")
    yield lambda: clinic.release("d", table="single", row_key=["id"], **_ILL)


def _file(clinic: Clinic, codes: Sequence[str]) -> str:
    """A CSV file of persons with a code each."""
    path = clinic.folder / "rows.csv"
    path.write_text(
        "id,age,code\n" + "".join(f"{i},{age},{codes[i % len(codes)]}\n" for i, age, *_ in PEOPLE)
    )
    return f"file:{path}"


@case("State the former type (`types`)")
def other_types_of_a_file(world: Runs) -> Acts:
    clinic = world.clinic()
    url = _file(clinic, ["A1", "B2"])
    clinic.chain(table="rows", source=url)
    options: dict[str, Any] = {
        "database": url,
        "table": "rows",
        "target": clinic.url,
        "keep": ["code"],
    }
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
    clinic, rules = _labs(world, create=False), {"tables": ["labs"], "max_rows_per_person": 3}
    url = _file(clinic, ["A1"])
    yield lambda: clinic.chain(table="rows", source=url, **rules)
    lines = Path(url.removeprefix("file:")).read_text().splitlines()
    clinic.table("rows", "id INTEGER, age INTEGER, code TEXT", [x.split(",") for x in lines[1:]])
    clinic.chain(table="rows", **rules)
    yield lambda: clinic.release(table="rows", part=_outputs(clinic))


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
    clinic = world.clinic()
    clinic.table("people", COLUMNS.replace("id INTEGER", "id REAL"))
    hint = yield clinic.chain
    # The views of SQLite have no types.
    assert hint.endswith("in a copy of the table.")
    for name, kind in (("c", "TEXT"), ("d", "INTEGER")):
        clinic.table(f"of_{name}", COLUMNS.replace("id INTEGER", f"id {kind}"))
        clinic.chain(name, table=f"of_{name}")
        yield partial(clinic.release, name, table=f"of_{name}")


@case("Give it a binary, deterministic collation in a view")
def entity_without_case(world: Runs) -> Acts:
    clinic, rows = world.clinic(), [(f"p{i}" if i else "P1", 20 + i) for i in range(N)]
    clinic.table("people", "id TEXT COLLATE NOCASE, age INTEGER", rows)
    yield clinic.chain
    clinic.table("apart", "id TEXT COLLATE BINARY, age INTEGER", rows)
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


@case("Leave out `max_exposed`.")
def a_limit_of_exposed_by_command(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    hint = yield by_command(clinic, "--max-exposed 0.1")
    assert hint == "Leave out --max-exposed."
    yield by_command(clinic)


@case("The database was restored or copied.")
def a_restored_database(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    clinic.release()
    database, older, newer = (clinic.folder / f"{n}.sqlite" for n in ("clinic", "older", "newer"))
    shutil.copy(database, older)
    clinic.release()
    shutil.copy(database, newer)
    shutil.copy(older, database)
    hint = yield clinic.release
    assert "release 2" in hint
    shutil.copy(newer, database)
    yield clinic.release
    shutil.copy(older, database)
    clinic.close_for("d")
    yield lambda: clinic.release("d", "c")


@case("Ask the owner of the ledger to run it, or to grant the rights")
def a_chain_of_another_role(world: Runs) -> Acts:
    server = world.fixture("pg_server")
    with server.database() as url:
        server.execute(
            "CREATE TABLE people AS SELECT i AS id, i % 7 AS age FROM generate_series(1, 30) i",
            url=url,
        )
        key = world.path / world.new()
        dbanon.create_chain(url, "c", table="people", entity="id", changes="show", key_out=key)
        release = {
            "table": "people",
            "output": "released",
            "quasi_identifiers": ["age"],
            "k": K,
            "entity": "id",
            "chain": dbanon.Chain("c", key=f"file:{key}"),
        }
        dbanon.anonymize(url, **release)
        role = server.create_role("berta", url=url)
        server.execute("GRANT USAGE ON SCHEMA dbanon TO berta", url=url)
        yield lambda: dbanon.show_chain(role, "c")
        yield lambda: dbanon.show_chain(url, "c")
        text = (Path(__file__).parents[2] / "docs/rights.md").read_text()
        [grants] = re.findall(r"    GRANT (SELECT, INSERT, UPDATE.*?);", text, re.S)
        server.execute("GRANT " + grants.replace("publisher", "berta"), url=url)
        server.execute("GRANT SELECT ON dbanon.release TO berta", url=url)
        yield lambda: dbanon.show_chain(role, "c")


@case('Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.')
def ranges_of_another_database(world: Runs) -> Acts:
    clinic = world.clinic()
    server = world.fixture("pg_server")
    with server.database() as url:
        for number, intervals in enumerate(("range", "text", "bounds", "midpoint")):
            name = f"c{number}"
            clinic.table(name)
            clinic.chain(name, table=name)
            yield partial(
                clinic.release,
                name,
                table=name,
                target=url,
                recoding="generalization",
                intervals=intervals,
            )


@case("Release it again.")
def a_chain_that_goes_on_meanwhile(world: Runs) -> Acts:
    """What another host writes between the two transactions of a release is seen."""
    clinic, target = world.clinic(), world.clinic()
    clinic.chain()
    noted = chain_run._record_published

    def write(job: Any, update: Any) -> bool:
        clinic.run("UPDATE dbanon_chain SET sequence = sequence + 1")
        return noted(job, update)

    def interrupted() -> None:
        with patch.object(chain_run, "_record_published", write):
            clinic.release(target=target.url)

    yield interrupted
    yield lambda: clinic.release(target=target.url)


# Chains of several tables.


_LABS = [(i, age, test) for i, age, _, town, ill in PEOPLE for test in (town, ill)]


def _labs(
    world: Runs, columns: str = "id INTEGER, age INTEGER, test TEXT", create: bool = True
) -> Clinic:
    """A chain of the persons and of two tests of each."""
    clinic = world.clinic()
    clinic.table("labs", columns, _LABS)
    if create:
        clinic.chain(tables=["labs"], max_rows_per_person=3)
    return clinic


def _outputs(clinic: Clinic, **options: Any) -> dict[str, Any]:
    return {"outputs": {"labs": clinic.new_output()}} | options


@case("Give it the same type in all tables of the chain.")
def types_of_two_tables(world: Runs) -> Acts:
    clinic = _labs(world, "id INTEGER, age BIGINT, test TEXT")
    yield lambda: clinic.release(part=_outputs(clinic))
    clinic.table("labs", "id INTEGER, age INTEGER, test TEXT", _LABS)
    yield lambda: clinic.release(part=_outputs(clinic))


@case("Name one output for each of the further tables")
def tables_without_outputs(world: Runs) -> Acts:
    clinic = _labs(world)
    hint = yield by_command(clinic)
    assert "--table-output" in hint
    assert "labs" in hint
    yield by_command(clinic, "--table-output labs=labs_out --table-keep labs=test")
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
    yield lambda: clinic.run("SELECT * FROM first")


@case("Leave out `where`. To select rows, create the chain on a view of each table.")
def rows_of_tables(world: Runs) -> Acts:
    clinic = _labs(world)
    yield lambda: clinic.release(where="age > 21", part=_outputs(clinic))
    for table in ("people", "labs"):
        clinic.run(f"CREATE VIEW {table}_21 AS SELECT * FROM {table} WHERE age > 21")
    clinic.chain("d", table="people_21", tables=["labs_21"], max_rows_per_person=3)
    yield lambda: clinic.release(
        "d", table="people_21", row_key=["id"], part={"outputs": {"labs_21": "few"}}
    )
    yield lambda: clinic.release(part=_outputs(clinic))


@case("All tables are released with the quasi-identifiers")
def a_quasi_identifier_twice(world: Runs) -> Acts:
    clinic = _labs(world)
    yield lambda: clinic.release(part=_outputs(clinic, kept={"labs": ["age", "test"]}))
    yield lambda: clinic.release(part=_outputs(clinic, kept={"labs": ["test"]}))


@case("Name each table once.")
def a_table_twice(world: Runs) -> Acts:
    clinic = _labs(world, create=False)
    yield lambda: clinic.chain(tables=["labs", "labs"], max_rows_per_person=3)
    yield lambda: clinic.chain(tables=["labs"], max_rows_per_person=3)


@case("Cast it to {} in a view, and anonymize the view.")
def entities_of_two_types(world: Runs) -> Acts:
    clinic = _labs(world, "id TEXT, age INTEGER, test TEXT", create=False)
    hint = yield lambda: clinic.chain(tables=["labs"], max_rows_per_person=3)
    [kind] = re.findall(r"Cast it to (\w+) ", hint)
    clinic.table("cast_labs", f"id {kind}, age INTEGER, test TEXT", _LABS)
    clinic.chain(tables=["cast_labs"], max_rows_per_person=3)
    yield lambda: clinic.release(part={"outputs": {"cast_labs": "labs_out"}})


@case("Create the chain on a view that adds")
def a_column_of_another_table(world: Runs) -> Acts:
    clinic, names = _labs(world), {"quasi_identifiers": ["age", "smokes"]}
    clinic.run("ALTER TABLE labs ADD smokes INTEGER", "UPDATE labs SET smokes = id % 2")
    yield lambda: clinic.release(part=_outputs(clinic), **names)
    clinic.run(
        "CREATE VIEW joined AS SELECT p.*, l.smokes FROM people AS p JOIN labs AS l"
        " ON l.id = p.id AND l.test = p.town"
    )
    dbanon.close_chain(clinic.url, "c")
    clinic.chain("d", table="joined", tables=["labs"], max_rows_per_person=3)
    yield lambda: clinic.release(
        "d", table="joined", row_key=["id"], part=_outputs(clinic), **names
    )


# Releases that are measured together.


def _releases(world: Runs) -> Clinic:
    """Releases of two sources by an entity, and with another column of persons."""
    clinic = world.clinic("ALTER TABLE people ADD nr INTEGER", "UPDATE people SET nr = id + 100")
    clinic.table("others", f"{COLUMNS}, nr INTEGER", [(*row, row[0]) for row in PEOPLE])
    for name, table in (("may", "people"), ("june", "people"), ("of_others", "others")):
        clinic.anonymize(
            output=name, table=table, entity="id", releases="independent", keep=["nr", "town"]
        )
    return clinic


@case("Name two releases or more.")
def one_release(world: Runs) -> Acts:
    clinic = _releases(world)
    clinic.table("third")
    clinic.chain(table="third")
    clinic.release(table="third")
    yield lambda: dbanon.measure_releases(clinic.url, ["may"], entity="nr")
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"], entity="nr")
    yield lambda: command(f"dbanon chain measure {clinic.url} c --chain-key {clinic.key()}")


@case("Leave out `sensitive`, or name the column that identifies persons")
def sensitive_values_of_the_record(world: Runs) -> Acts:
    clinic, names = _releases(world), ["may", "june"]
    yield lambda: dbanon.measure_releases(clinic.url, names, sensitive=["town"])
    yield lambda: dbanon.measure_releases(clinic.url, names)
    yield lambda: dbanon.measure_releases(clinic.url, names, sensitive=["town"], entity="nr")


@case("Name only releases of one source with one entity.")
def releases_of_two_sources(world: Runs) -> Acts:
    clinic = _releases(world)
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "of_others"])
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"])


@case("Name only releases of one source with one entity.")
def columns_of_two_sources(world: Runs) -> Acts:
    clinic = _releases(world)
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "of_others"], entity="nr")
    yield lambda: dbanon.measure_releases(clinic.url, ["may", "june"], entity="nr")


@case("Name columns that every release has: `sensitive`.")
def a_column_of_one_release(world: Runs) -> Acts:
    clinic, names = _releases(world), ["may", "june"]
    measure = partial(dbanon.measure_releases, clinic.url, names, entity="nr")
    yield partial(measure, sensitive=["ill"])
    yield partial(measure, sensitive=["town"])


@case(joint_measure._MISSING_IDENTIFIER_HINT, is_constant=True)
def a_column_of_no_release(world: Runs) -> Acts:
    clinic, names = _releases(world), ["may", "june"]
    measure = partial(dbanon.measure_releases, clinic.url, names)
    yield partial(measure, entity="height")
    yield partial(measure, entity="nr")
    for name in names:
        clinic.anonymize(output=name, keep=["height"], if_exists="replace")
    yield partial(measure, entity="height")
    clinic.chain(mode="measure")
    yield clinic.release


@case("Name a column without NULL: `entity`.")
def nobody_in_a_release(world: Runs) -> Acts:
    clinic = world.clinic(
        "ALTER TABLE people ADD nr INTEGER", "UPDATE people SET nr = CASE WHEN id > 1 THEN id END"
    )
    options: dict[str, Any] = {"keep": ["id", "nr"], "releases": "independent"}
    for name in ("may", "june"):
        clinic.anonymize(output=name, **options)
    measure = partial(dbanon.measure_releases, clinic.url, ["may", "june"])
    yield partial(measure, entity="nr")
    yield partial(measure, entity="id")
    for name in ("may", "june"):
        clinic.anonymize(output=name, where="nr IS NOT NULL", if_exists="replace", **options)
    yield partial(measure, entity="nr")
