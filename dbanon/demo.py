"""The demonstration: invented persons in a DuckDB file, anonymized and verified."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from dbanon import audit
from dbanon.api import anonymize
from dbanon.demo_data import generate_persons
from dbanon.progress import ProgressDisplay
from dbanon.render import make_console, report_table, rows_table, verification_table
from dbanon.stores.duckdb_store import DuckdbStore
from dbanon.stores.names import parse_relation

QUASI_IDENTIFIERS = ("birth_date", "height_cm", "weight_kg", "income", "commute_km")
SENSITIVE = ("diagnosis",)
KEEP = ("visits",)
SHOWN = ("full_name", *QUASI_IDENTIFIERS, "visits", "diagnosis")


def run_demo(rows: int, k: int, directory: Path, seed: int) -> None:
    """Make ``persons.duckdb`` in ``directory``, release its table, and print what happened.

    Parameters
    ----------
    rows : number of persons.
    seed : of the invented persons.
    """
    console = make_console()
    directory.mkdir(parents=True, exist_ok=True)
    database = directory / "persons.duckdb"
    database.unlink(missing_ok=True)
    make_persons(database, rows, seed)
    url = f"duckdb:///{database}"
    console.print(f"{rows} invented persons are in {url}, table app.person.\n")
    with ProgressDisplay() as progress:
        report = anonymize(
            url,
            table="app.person",
            quasi_identifiers=QUASI_IDENTIFIERS,
            k=k,
            sensitive=SENSITIVE,
            keep=KEEP,
            output="release.person",
            if_exists="replace",
            progress=progress,
        )
    with duckdb.connect(str(database), read_only=True) as connection:
        before = connection.execute(
            f"SELECT {', '.join(SHOWN)} FROM app.person ORDER BY person_id LIMIT 5"  # noqa: S608
        ).fetchall()
        released = connection.execute(
            "SELECT * FROM release.person ORDER BY birth_date, income LIMIT 10"
        )
        names = [column[0] for column in released.description or ()]
        after = released.fetchall()
    console.print(rows_table("Before (app.person)", SHOWN, before))
    console.print(rows_table("After (release.person), two classes", names, after))
    console.print(report_table(report))
    found = audit.verify(DuckdbStore(str(database)), parse_relation("release.person"))
    console.print(verification_table(found))
    console.print("Anyone can recount it:\n")
    print(found.recount_sql)


def make_persons(database: Path, rows: int, seed: int) -> None:
    """Create table ``app.person`` in a DuckDB file and fill it with invented persons."""
    persons = pa.table(generate_persons(rows, seed))
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE SCHEMA app")
        connection.register("persons", persons)
        connection.execute(
            "CREATE TABLE app.person AS SELECT * REPLACE ("
            " CAST(weight_kg AS DECIMAL(5,1)) AS weight_kg,"
            " CAST(commute_km AS DECIMAL(6,1)) AS commute_km) FROM persons"
        )
        connection.execute("ALTER TABLE app.person ADD PRIMARY KEY (person_id)")
