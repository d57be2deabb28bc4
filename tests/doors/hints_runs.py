"""Hints of chains, runs, evaluations and synthetic rows: what raises each, and its ways out.

A case is a generator. The first act that it yields is refused with the hint, and every later one
succeeds: each does what the hint says, in the order of its sentences.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from functools import partial
from typing import Any

import duckdb
import pandas as pd
import psycopg
import sqlalchemy
from pyarrow import parquet

import dbanon
from dbanon.run import comparison
from dbanon.run import open as opening
from dbanon.run import verify as verification
from tests.doors.hint_steps import release
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
    job,
    printed_command,
    printed_options,
)
from tests.postgres_server import conninfo
from tests.stores.linking import COLUMNS as LINKING

# What runs read.


@case("Leave out `entity_normalize`, and spell them alike in a view.")
def spellings_that_are_equal(world: Runs) -> Acts:
    clinic = world.clinic()
    rows = [(("a" if i % 2 else "A") + str(i // 2 % 6), 20 + i) for i in range(N)]
    columns = "pid TEXT COLLATE NOCASE, age INTEGER"
    clinic.table("people", columns, rows)
    options: dict[str, Any] = {"entity": "pid", "k": 2}
    yield lambda: clinic.anonymize(entity_normalize="trim", **options)
    clinic.table("alike", columns, [(pid.lower(), age) for pid, age in rows])
    yield lambda: clinic.anonymize(table="alike", **options)


@case("Check whether the source is complete.")
def a_truncated_source(world: Runs) -> Acts:
    clinic, expect = world.clinic(), {"rows": "30 %"}
    job(clinic, expect=expect)
    clinic.run("DELETE FROM people WHERE id > 11")
    hint = yield lambda: job(clinic, expect=expect)
    [option] = re.findall(r"--accept-counts \w+", hint)
    yield lambda: job(clinic, option, expect=expect)
    # Later runs compare with that release.
    yield lambda: job(clinic, expect=expect)
    clinic.table("people")
    yield lambda: job(clinic, "--accept-counts rows", expect=expect)


@case("Look at the column's values. If the type is as it should be")
def another_type(world: Runs) -> Acts:
    clinic = world.clinic()
    job(clinic)
    clinic.table("people", COLUMNS.replace("age INTEGER", "age REAL"))
    hint = yield lambda: job(clinic)
    [option] = re.findall(r"--accept-types \w+", hint)
    yield lambda: job(clinic, option)
    yield lambda: job(clinic)


@case("Give each a role in the job file, or set on_new_column: drop.")
def a_column_without_role(world: Runs) -> Acts:
    clinic = world.clinic()
    columns = {"age": {"role": "quasi_identifier"}}
    yield lambda: job(clinic, columns=columns)
    yield lambda: job(clinic)
    yield lambda: job(clinic, columns=columns, on_new_column="drop")


@case("Leave out `where`, and name a view of these rows.")
def a_condition_of_a_driver(world: Runs) -> Acts:
    import adbc_driver_sqlite.dbapi

    clinic = world.clinic("CREATE VIEW adults AS SELECT * FROM people WHERE age > 21")
    with adbc_driver_sqlite.dbapi.connect(str(clinic.file)) as connection:
        options: dict[str, Any] = {
            "database": connection,
            "target": f"sqlite:///{clinic.folder}/target.sqlite",
            "kept_columns": "client",
        }
        yield lambda: clinic.anonymize(where="age > 21", **options)
        yield lambda: clinic.anonymize(table="adults", **options)


@case("Write mysql+pymysql://user@host/database.")
def another_driver_of_mariadb(world: Runs) -> Acts:
    server = world.fixture("mariadb_server")
    url = server.url("mysql")
    yield lambda: dbanon.releases(re.sub(r"^[a-z+]+:", "mysql+mysqldb:", url))
    yield lambda: dbanon.releases(re.sub(r"^[a-z+]+:", "mysql+pymysql:", url))


@case("Give the connection and the name of a table, or the relation to")
def a_relation_of_duckdb(world: Runs) -> Acts:
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": K}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT range % 7 AS age FROM range(24)")
        relation = connection.table("people")
        call = {"table": "people", "output": "released", **options}
        yield lambda: dbanon.anonymize(relation, **call)
        yield lambda: dbanon.anonymize(connection, **call)
        yield lambda: dbanon.anonymize_frame(relation, **options)


@case("Commit or roll back first, or give connection.engine.")
def a_transaction_of_sqlalchemy(world: Runs) -> Acts:
    clinic = world.clinic()
    engine = sqlalchemy.create_engine(clinic.url)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
        yield lambda: clinic.anonymize(database=connection)
        yield lambda: clinic.anonymize(database=connection.engine)
        connection.commit()
        yield lambda: clinic.anonymize(database=connection)
        connection.execute(sqlalchemy.text("SELECT 1"))
        connection.rollback()
        yield lambda: clinic.anonymize(database=connection)
    engine.dispose()


@case("Commit first, and give session.get_bind().")
def a_session_of_sqlalchemy(world: Runs) -> Acts:
    from sqlalchemy.orm import Session

    clinic = world.clinic()
    engine = sqlalchemy.create_engine(clinic.url)
    with Session(engine) as session:
        yield lambda: clinic.anonymize(database=session)
        session.commit()
        yield lambda: clinic.anonymize(database=session.get_bind())
    engine.dispose()


@case("Take their rights away: chmod 600 {}.")
def a_readable_key(world: Runs) -> Acts:
    clinic = world.clinic()
    key = clinic.folder / "a key"
    key.write_text("00" * 32)
    key.chmod(0o644)
    options: dict[str, Any] = {"pseudonyms": ["id"], "pseudonym_key": f"file:{key}"}
    hint = yield lambda: clinic.anonymize(**options)
    [line] = re.findall(r"chmod 600 .*?(?=\. If others)", hint)
    subprocess.run(shlex.split(line), check=True)
    yield lambda: clinic.anonymize(**options)


@case("Leave out cluster.")
def classes_of_a_chain(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.chain()
    plan = partial(
        dbanon.plan,
        clinic.url,
        table="people",
        quasi_identifiers=["age"],
        k=K,
        entity="id",
        output="planned",
        chain=dbanon.Chain("c", key=clinic.key()),
    )
    yield partial(plan, cluster=True)
    yield plan


@case("Raise the limit (`time_limit`), or use a faster `method`.")
def a_slow_method(world: Runs) -> Acts:
    clinic = world.clinic()

    def ring(phase: str, share: float) -> None:
        if phase == "cluster":
            signal.raise_signal(signal.SIGALRM)

    yield lambda: clinic.anonymize(time_limit=500.0, progress=ring)
    yield lambda: clinic.anonymize(time_limit=600.0)
    yield lambda: clinic.anonymize(time_limit=500.0, method="mondrian", recoding="generalization")


@case("The time passed while the run waited for the database")
def a_slow_source(world: Runs) -> Acts:
    clinic = world.clinic()
    yield lambda: clinic.anonymize(time_limit=1e-4)
    yield lambda: clinic.anonymize(time_limit=60)


@case("Declare a role for each, such as drop")
def a_column_without_rule(world: Runs) -> Acts:
    clinic = world.clinic()
    rules = {"id": "identifier", "age": "quasi_identifier", "height": "drop", "town": "drop"}
    dbanon.declare(clinic.url, "people", {**rules, "ill": "drop"})
    clinic.run("ALTER TABLE people ADD income INTEGER")
    anonymize = partial(
        dbanon.anonymize, clinic.url, table="people", output="released", k=K, declared=True
    )
    yield anonymize
    (clinic.folder / "rules.json").write_text('{"income": "drop"}')
    yield lambda: command(f"dbanon declare {clinic.url} {clinic.folder}/rules.json --table people")
    yield anonymize


@case("Declare that column as the entity (dbanon declare), or")
def rules_without_an_entity(world: Runs) -> Acts:
    clinic = world.clinic()
    roles = dict.fromkeys(("id", "height", "town", "ill"), "drop")
    dbanon.declare(clinic.url, "people", {**roles, "age": "quasi_identifier"})
    expecting = partial(job, clinic, columns="declared", releases="independent")
    yield lambda: expecting(expect={"persons": {"least": 1}})
    yield lambda: expecting(expect={"rows": {"least": 1}})
    (clinic.folder / "rules.json").write_text('{"id": "entity"}')
    yield lambda: command(f"dbanon declare {clinic.url} {clinic.folder}/rules.json --table people")
    yield lambda: expecting(expect={"persons": {"least": 1}})


_WAYS_TO_LESS_RISK = "Increase `k`, release fewer columns, or code them in wider bands. "


@case(_WAYS_TO_LESS_RISK + "The job's private file (risk.file) has the figures.")
def a_release_above_its_limit_with_a_file(world: Runs) -> Acts:
    clinic = world.clinic()
    file = f"{clinic.folder}/{{release}}.json"
    risk = {"max_individual": 0.3, "file": file}
    yield lambda: job(clinic, risk=risk, releases="independent")
    yield lambda: job(clinic, risk=risk, releases="independent", k=2 * K)


@case(_WAYS_TO_LESS_RISK + "Name a private file for the figures: risk.file.")
def a_release_above_its_limit(world: Runs) -> Acts:
    clinic = world.clinic()
    risky = partial(job, clinic, risk={"max_individual": 0.3}, releases="independent")
    yield risky
    yield lambda: risky(k=2 * K)
    columns = {name: {"role": "drop"} for name in ("id", "height", "ill", "age")}
    yield lambda: risky(columns={**columns, "town": {"role": "quasi_identifier"}}, method="gaa_cp")
    yield lambda: risky(recode={"age": [18]}, method="gaa_cp")
    file = f"{clinic.folder}/{{release}}.json"
    risk = {"max_individual": 0.9, "file": file}
    yield lambda: job(clinic, risk=risk, releases="independent")


@case("Give its column the role weight, or set risk.sampling_fraction in place of risk.weight.")
def a_limit_without_its_weight(world: Runs) -> Acts:
    clinic = world.clinic()
    roles = {"id": "identifier", "age": "quasi_identifier", "town": "drop", "ill": "drop"}
    limited = partial(job, clinic, columns="declared", releases="independent")
    dbanon.declare(clinic.url, "people", {**roles, "height": "drop"})
    yield lambda: limited(risk={"weight": "height", "max_individual": 0.9})
    yield lambda: limited(risk={"sampling_fraction": 0.5, "max_individual": 0.9})
    dbanon.declare(clinic.url, "people", {**roles, "height": "weight"})
    yield lambda: limited(risk={"weight": "height", "max_individual": 0.9})


@case("In the key risk, leave out the columns, or name one that is released.")
def a_risk_of_columns_that_are_not_released(world: Runs) -> Acts:
    clinic = world.clinic()
    roles = dict.fromkeys(("height", "town", "ill"), "drop")
    dbanon.declare(clinic.url, "people", {"id": "identifier", "age": "quasi_identifier", **roles})
    measured = partial(job, clinic, columns="declared", releases="independent")
    yield lambda: measured(risk={"quasi_identifiers": ["town"], "max_global": 0.9})
    yield lambda: measured(risk={"max_global": 0.9})
    yield lambda: measured(risk={"quasi_identifiers": ["town", "age"], "max_global": 0.9})


@case("Leave out `risk`, or read a view with one row per person.")
def the_risk_of_persons_with_several_rows(world: Runs) -> Acts:
    clinic = world.clinic()
    several = [(i // 2, *row[1:]) for i, row in enumerate(PEOPLE)]
    clinic.table("stays", rows=several)
    options = {"entity": "id", "releases": "independent", "persons": "rows"}
    risk = {"max_global": 0.9}
    yield lambda: job(clinic, table="stays", risk=risk, **options)
    yield lambda: job(clinic, table="stays", **options)
    clinic.run("CREATE VIEW persons AS SELECT * FROM stays GROUP BY id")
    yield lambda: job(clinic, table="persons", key=["id"], risk=risk, **options)


@case("Its owner runs: GRANT SELECT ON {} TO …;")
def a_role_without_rights(world: Runs) -> Acts:
    server = world.fixture("pg_server")
    with server.database() as url:
        server.execute(
            "CREATE TABLE people AS SELECT i % 7 AS age FROM generate_series(1, 30) i", url=url
        )
        role = server.create_role("anna", url=url)
        verify = partial(dbanon.verify, role, "people", quasi_identifiers=["age"], k=K)
        hint = yield verify
        statement = hint.removeprefix("Its owner runs: ").replace("…", "anna")
        server.execute(statement, url=url)
        yield verify


@case(opening._FRAME_HINT, is_constant=True)
def a_frame_as_a_database(world: Runs) -> Acts:
    frame = pd.DataFrame({"age": [20, 21] * 12})
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": K}
    yield lambda: dbanon.anonymize(frame, table="people", output="released", **options)
    yield lambda: dbanon.anonymize_frame(frame, **options)


@case(opening._ENGINE_HINT, is_constant=True)
def a_connection_of_psycopg(world: Runs) -> Acts:
    server = world.fixture("pg_server")
    with server.database() as url, psycopg.connect(conninfo(url)) as connection:
        yield lambda: dbanon.releases(connection)
        yield lambda: dbanon.releases(url)
        engine = sqlalchemy.create_engine(re.sub(r"^[a-z+]+:", "postgresql+psycopg:", url))
        yield lambda: dbanon.releases(engine)
        engine.dispose()


@case(opening._CLIENT_HINT, is_constant=True)
def a_source_without_store(world: Runs) -> Acts:
    import adbc_driver_sqlite.dbapi

    clinic = world.clinic()
    target = {"target": f"sqlite:///{clinic.folder}/target.sqlite"}
    with adbc_driver_sqlite.dbapi.connect(str(clinic.file)) as connection:
        hint = yield lambda: clinic.anonymize(database=connection, **target)
        yield lambda: clinic.anonymize(database=connection, **target, **printed_options(hint))


@case("A key is 64 hexadecimal digits, or a file of {} bytes")
def a_key_that_is_missing(world: Runs) -> Acts:
    clinic = world.clinic()
    key = clinic.folder / "key"
    options: dict[str, Any] = {"pseudonyms": ["id"], "pseudonym_key": f"file:{key}"}
    hint = yield lambda: clinic.anonymize(**options)
    [line] = re.findall(r"openssl rand -hex 32", hint)
    key.write_bytes(subprocess.run(line.split(), check=True, capture_output=True).stdout)
    key.chmod(0o600)
    yield lambda: clinic.anonymize(**options)


@case(comparison.RELEASE_AGAIN_HINT, is_constant=True)
def a_release_below_k(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.anonymize(output="released")
    clinic.run("UPDATE released SET age = 99 WHERE rowid = 1")
    verify = partial(dbanon.verify, clinic.url, "released")
    yield verify
    yield lambda: command(f"dbanon drop {clinic.url} released")
    clinic.anonymize(output="released")
    yield verify


@case(verification._NOT_RELEASED_HINT, is_constant=True)
def a_table_below_k(world: Runs) -> Acts:
    clinic = world.clinic()
    yield lambda: dbanon.verify(clinic.url, "people", quasi_identifiers=["age"], k=K)
    yield lambda: clinic.anonymize(output="released")
    yield lambda: dbanon.verify(clinic.url, "released")


# What strict refuses, and earlier releases.


@case("To release it all the same, with no protection against this: {}")
def a_second_release(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.anonymize(entity="id")
    hint = yield lambda: clinic.anonymize(entity="id")
    yield lambda: clinic.anonymize(entity="id", **printed_options(hint))
    line = printed_command(hint, "dbanon chain create", clinic.url)
    yield lambda: command(line.replace("people.key", clinic.key("people")[5:]))
    yield lambda: clinic.release("people")


def _linking(world: Runs) -> Clinic:
    """A table with columns that undo classes."""
    clinic = world.clinic()
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in LINKING.items())
    rows = zip(*(values for _, values in LINKING.values()), strict=True)
    clinic.table("people", columns, list(rows))
    return clinic


@case("Name it as a quasi-identifier or, if it numbers groups, as `entity`")
def a_household_that_is_kept(world: Runs) -> Acts:
    clinic = _linking(world)
    key = clinic.folder / "key"
    key.write_text("00" * 32)
    key.chmod(0o600)
    names = ["age", "height"]
    options: dict[str, Any] = {"quasi_identifiers": names, "k": 5, "releases": "independent"}
    yield lambda: clinic.anonymize(keep=["household"], strict=True, **options)
    yield lambda: clinic.anonymize(strict=True, **options)
    yield lambda: clinic.anonymize(keep=["household"], **options)
    yield lambda: clinic.anonymize(entity="household", strict=True, **options)
    yield lambda: clinic.anonymize(pseudonyms=["household"], pseudonym_key=f"file:{key}", **options)
    options["quasi_identifiers"] = [*names, "household"]
    yield lambda: clinic.anonymize(strict=True, **options)


@case("Stop copying it, name it as a quasi-identifier, or leave out `strict`.")
def a_column_that_tells(world: Runs) -> Acts:
    clinic = world.clinic("ALTER TABLE people ADD born INTEGER", "UPDATE people SET born = id * 37")
    yield lambda: clinic.anonymize(keep=["born"], strict=True)
    yield lambda: clinic.anonymize(strict=True)
    yield lambda: clinic.anonymize(quasi_identifiers=["age", "born"], strict=True)
    yield lambda: clinic.anonymize(keep=["born"])


# Advice, evaluations and certificates.


@case("Name the columns whose values others may know about a person")
def nothing_to_advise_on(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.table("notes", "id INTEGER, note TEXT", [(i, f"note {i}") for i in range(60)])
    advise = partial(dbanon.advise, clinic.url, "notes", k=(4, 5))
    yield advise
    yield partial(advise, quasi_identifiers=["note"])


def _advise(**options: Any) -> Act:
    frame = pd.DataFrame(PEOPLE, columns=["id", "age", "height", "town", "ill"])
    arguments: dict[str, Any] = {
        "quasi_identifiers": ["age", "height"],
        "k": (3, 4),
        "methods": ("mdav",),
    }
    return lambda: dbanon.advise(frame, **(arguments | options))


@case("Raise `max_risk` or `max_loss`, try other `k`")
def limits_that_nothing_fits(world: Runs) -> Acts:
    yield _advise(max_loss=0.0)
    yield _advise(max_loss=1.0)
    yield _advise(max_risk=1.0)
    yield _advise(max_loss=0.9, k=(3, 4, 5), methods=("mdav", "mondrian"))
    yield _advise(max_loss=0.9, quasi_identifiers=["age"])


@case("Raise `max_seconds`.")
def few_seconds(world: Runs) -> Acts:
    yield _advise(max_seconds=1e-9)
    yield _advise(max_seconds=60.0)


@case("Choose a smaller `k`, or a larger table.")
def few_rows(world: Runs) -> Acts:
    yield _advise(k=(50, 60))
    yield _advise(k=(3, 4))


@case("Choose a smaller `k`, another value of `nulls`, or a larger table.")
def few_rows_without_nulls(world: Runs) -> Acts:
    frame = pd.DataFrame(PEOPLE, columns=["id", "age", "height", "town", "ill"])
    frame["age"] = frame.age.where(frame.index % 2 == 0)
    advise = partial(dbanon.advise, frame, quasi_identifiers=["age"], methods=("mdav",), k=(13, 14))
    yield partial(advise, nulls="suppress")
    yield partial(advise, nulls="suppress", k=(3, 4))
    yield partial(advise, nulls="merge", k=(12, 13))


@case("Leave out the rows with NULL in a view.")
def a_bound_of_nulls(world: Runs) -> Acts:
    frame = pd.DataFrame({"age": [None, *range(23)], "size": range(24)})
    for rows in (frame, frame.dropna()):
        yield partial(dbanon.certificate, rows, 4, seconds=0.1)


@case("Name the hierarchy that the labels come from: `hierarchies`.")
def labels_without_hierarchy(world: Runs) -> Acts:
    original = pd.DataFrame({"age": [1, 2, 3, 4] * 3})
    released = pd.DataFrame({"age": ["low", "low", "high", "high"] * 3})
    evaluate = partial(dbanon.evaluate, original, released, quasi_identifiers=["age"])
    yield evaluate
    tree = {"tree": {"*": {"low": ["1", "2"], "high": ["3", "4"]}}}
    yield partial(evaluate, hierarchies={"age": tree})


@case("dbanon releases lists them. To evaluate tables from elsewhere")
def no_release_to_evaluate(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.anonymize(output="released")
    yield lambda: dbanon.evaluate_release(clinic.url, "nothing")
    yield lambda: command(f"dbanon releases {clinic.url}")
    yield lambda: dbanon.evaluate_release(clinic.url, "released")
    rows, _ = release(rows="input")
    yield lambda: dbanon.evaluate(rows, rows, quasi_identifiers=["age", "size"])


@case("Cast it to a date in a view.")
def timestamps_of_a_tree(world: Runs) -> Acts:
    path = world.path / world.new(".duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE days AS SELECT TIMESTAMP '2020-01-01' + INTERVAL 1 DAY"
            " * (range % 5) AS day FROM range(20)"
        )
        connection.execute("CREATE VIEW dates AS SELECT CAST(day AS DATE) AS day FROM days")
    for table in ("days", "dates"):
        words = f"--table {table} --column day"
        yield partial(command, f"dbanon hierarchy suggest duckdb:///{path} {words}")


@case('Give its values in order: {"ordered": ["low", "high"]}.')
def a_column_that_enumerates_nothing(world: Runs) -> Acts:
    clinic = world.clinic()
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "town"],
        "recoding": "generalization",
        "method": "gaa_cp",
    }
    yield lambda: clinic.anonymize(hierarchies={"town": {"enum": True}}, **options)
    order = {"town": {"ordered": ["a", "b", "c"]}}
    yield lambda: clinic.anonymize(hierarchies=order, **options)


# Verifications and exports.


@case("Find out who changed it, and release it again.")
def a_changed_release(world: Runs) -> Acts:
    clinic = world.clinic()
    clinic.anonymize(output="released", keep=["ill"])
    clinic.run("UPDATE released SET ill = 'well'")
    verify = partial(dbanon.verify, clinic.url, "released")
    yield verify
    clinic.anonymize(output="released", keep=["ill"], if_exists="replace")
    yield verify


@case("Leave out `quasi_identifiers`, or name the table instead of the id.")
def columns_of_a_release_by_id(world: Runs) -> Acts:
    clinic = world.clinic()
    report = clinic.anonymize(output="released")
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": K}
    yield lambda: dbanon.verify(clinic.url, report.release_id, **options)
    yield lambda: dbanon.verify(clinic.url, report.release_id)
    yield lambda: dbanon.verify(clinic.url, "released", **options)


@case("Do not pass this file on.")
def a_changed_file(world: Runs) -> Acts:
    clinic = world.clinic()
    path = clinic.folder / "rows.csv"
    exports = [{"path": str(path)}]
    export = partial(clinic.anonymize, output="released", exports=exports, if_exists="replace")
    export()
    path.write_text(path.read_text().replace("2", "3"))
    yield lambda: dbanon.verify_file(path, ledger=clinic.url)
    path.unlink()
    yield export
    yield lambda: dbanon.verify_file(path, ledger=clinic.url)


@case("Delete the file, and export the release again.", is_constant=True)
def a_file_below_k(world: Runs) -> Acts:
    clinic = world.clinic()
    path = clinic.folder / "rows.parquet"
    export = partial(clinic.anonymize, exports=[{"path": str(path)}])
    export()
    # Slices keep the metadata, which names the release.
    parquet.write_table(parquet.read_table(path).slice(0, 1), path)
    yield lambda: dbanon.verify_file(path)
    path.unlink()
    yield export
    yield lambda: dbanon.verify_file(path)


@case("Name the database that has the release's ledger")
def a_file_of_another_ledger(world: Runs) -> Acts:
    clinic, other = world.clinic(), world.clinic()
    path = clinic.folder / "rows.csv"
    report = clinic.anonymize(output="released", exports=[{"path": str(path)}])
    other.anonymize()
    yield lambda: dbanon.verify_file(path, ledger=other.url)
    yield lambda: dbanon.verify_file(path, ledger=clinic.url)
    yield lambda: command(f"dbanon show {clinic.url} {report.release_id}")


@case("To recount it, name its `quasi_identifiers` and `k`.")
def a_file_of_no_release(world: Runs) -> Acts:
    path = world.path / world.new(".parquet")
    pd.DataFrame({"age": [20] * 9}).to_parquet(path)
    yield lambda: dbanon.verify_file(path)
    yield lambda: dbanon.verify_file(path, quasi_identifiers=["age"], k=K)


@case("Export Parquet instead: some of these values may look alike")
def a_file_of_other_rows(world: Runs) -> Acts:
    from unittest.mock import patch

    from dbanon.run import export

    clinic, write = world.clinic(), export.formats.write

    def lose_a_row(file: Any, format_of: Any, schema: Any, pieces: Any, **options: Any) -> None:
        truncated_pieces = (
            pieces if format_of.format == "parquet" else [batch.slice(1) for batch in pieces]
        )
        write(file, format_of, schema, truncated_pieces, **options)

    with patch.object(export.formats, "write", lose_a_row):
        for ending in ("csv", "parquet"):
            path = clinic.folder / f"rows.{ending}"
            yield partial(clinic.anonymize, exports=[{"path": str(path)}])
