"""The demonstration: invented persons in a DuckDB file, anonymized and verified."""

from __future__ import annotations

from pathlib import Path

import click
import duckdb
import pyarrow as pa

from dbanon.data.memory import half_of_memory
from dbanon.doors.cli.demo_data import generate_persons
from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.progress import print_warnings, show_progress
from dbanon.doors.cli.render import (
    print_results,
    report_table,
    rows_table,
    verification_table,
)
from dbanon.doors.cli.report_files import write_report
from dbanon.doors.cli.support import handle_signals, report_errors
from dbanon.doors.python import anonymize
from dbanon.errors import InsufficientRights, InvalidParameter, MemoryLimit, OutputNotOurs
from dbanon.run.verify import Verification, verify
from dbanon.sessions.base import MARK as RELEASE_MARK
from dbanon.sessions.names import parse_relation
from dbanon.stores.duckdb.errors import translate_errors
from dbanon.stores.duckdb.store import DuckdbStore
from dbanon.stores.files import DUCKDB, ensure_database_file

QUASI_IDENTIFIERS = ("birth_date", "height_cm", "weight_kg", "income", "commute_km")
SENSITIVE = ("diagnosis",)
KEEP = ("visits",)
# Beginning of the comment on the demonstration's table. The id of the demonstration's release
# follows, once there is one.
_DEMO_MARK = "dbanon demonstration"
# Memory per person for the values as numpy and Arrow arrays.
_BYTES_PER_PERSON = 400
PRINTED_COLUMNS = ("full_name", *QUASI_IDENTIFIERS, "visits", "diagnosis")


def run_demo(n_persons: int, k: int, directory: Path, seed: int) -> None:
    """Create ``persons.duckdb`` in ``directory``, release its table, and print the results.

    An earlier demonstration is replaced; other tables in the file stay.

    Parameters
    ----------
    n_persons : number of invented persons.
    seed : random seed of the invented persons.

    Raises
    ------
    InvalidParameter, InsufficientRights : the directory cannot be created.
    MemoryLimit : the persons do not fit into half of the machine's memory.
    OutputNotOurs : the file, its table or its release is not from a demonstration.
    NotADatabase : the file is not a DuckDB database.
    """
    if n_persons * _BYTES_PER_PERSON > half_of_memory():
        raise MemoryLimit.exceeded(
            "The demonstration needs",
            half_of_memory(),
            detail=f"{n_persons} persons were requested.",
            hint=f"Make fewer: --rows {half_of_memory() // _BYTES_PER_PERSON}.",
        )
    make_directory(directory)
    database = directory / "persons.duckdb"
    make_persons(database, n_persons, seed)
    url = f"duckdb:///{database}"
    print_results(f"{n_persons} generated persons are in {url}, table app.person.\n")
    with show_progress(is_visible=True) as progress:
        report = anonymize(
            url,
            table="app.person",
            quasi_identifiers=QUASI_IDENTIFIERS,
            k=k,
            sensitive=SENSITIVE,
            keep=KEEP,
            output="release.person",
            if_exists="replace",
            evaluate=True,
            progress=progress,
        )
    print_warnings(report)
    _add_release_to_mark(database, report.release_id)
    with duckdb.connect(str(database), read_only=True) as connection:
        source_rows = connection.execute(
            f"SELECT {', '.join(PRINTED_COLUMNS)} FROM app.person ORDER BY person_id LIMIT 5"  # noqa: S608
        ).fetchall()
        result = connection.execute(
            "SELECT * FROM release.person ORDER BY birth_date, income LIMIT 10"
        )
        names = [column[0] for column in result.description or ()]
        released_rows = result.fetchall()
    print_results(
        rows_table("Before (app.person)", PRINTED_COLUMNS, source_rows),
        rows_table("After (release.person), two classes", names, released_rows),
        report_table(report),
    )
    verification = verify(DuckdbStore(str(database)), parse_relation("release.person"))
    assert isinstance(verification, Verification)
    print_results(verification_table(verification), "Anyone can recount it:\n")
    print(verification.recount_sql)
    page_path = directory / "report.html"
    write_report(report, page_path, url)
    print_results(f"\nThe report as a page: {page_path}")


def make_directory(directory: Path) -> bool:
    """Create a directory if it does not exist. Return True if it has entries.

    Raises
    ------
    InvalidParameter, InsufficientRights : the directory cannot be created or read.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return any(directory.iterdir())
    except OSError as error:
        is_denied = isinstance(error, PermissionError)
        raise (InsufficientRights if is_denied else InvalidParameter)(
            f"{directory} is not a directory, and cannot be created.",
            hint="Choose another one (--directory).",
        ) from None


def make_persons(database: Path, n_persons: int, seed: int) -> None:
    """Create table ``app.person`` in a DuckDB file and fill it with invented persons.

    An existing file must have the mark of a demonstration; its table is replaced.

    Raises
    ------
    OutputNotOurs : the file has no mark, or its release is not from the demonstration.
    """
    file_exists = database.exists()
    with (
        ensure_database_file(database, DUCKDB, write=True, create=True),
        translate_errors(f"The database {database} cannot be opened."),
        duckdb.connect(str(database)) as connection,
    ):
        if file_exists:
            _require_demonstration(connection, database)
        connection.register("persons", pa.table(generate_persons(n_persons, seed)))
        connection.execute("BEGIN TRANSACTION")
        connection.execute("CREATE SCHEMA IF NOT EXISTS app")
        connection.execute("DROP TABLE IF EXISTS app.person")
        connection.execute(
            "CREATE TABLE app.person AS SELECT * REPLACE ("
            " CAST(weight_kg AS DECIMAL(5,1)) AS weight_kg,"
            " CAST(commute_km AS DECIMAL(6,1)) AS commute_km) FROM persons"
        )
        connection.execute("ALTER TABLE app.person ADD PRIMARY KEY (person_id)")
        connection.execute(f"COMMENT ON TABLE app.person IS '{_DEMO_MARK}'")
        connection.execute("COMMIT")


def _require_demonstration(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    """Check that the demonstration made the table and, if there is one, the release."""

    def find_comment(schema: str) -> str | None:
        """Return the comment on table ``person``: "" for a view, None if there is neither."""
        comments = connection.execute(
            "SELECT comment FROM duckdb_tables() WHERE database_name = current_database()"
            " AND schema_name = ? AND table_name = 'person' UNION ALL"
            " SELECT '' FROM duckdb_views() WHERE database_name = current_database()"
            " AND schema_name = ? AND view_name = 'person'",
            [schema, schema],
        ).fetchall()
        return (comments[0][0] or "") if comments else None

    choose_directory_hint = "Choose another directory (--directory), or remove the file yourself."
    table_comment = find_comment("app")
    if table_comment is None or not table_comment.startswith(_DEMO_MARK):
        raise OutputNotOurs(
            f"{database} exists, and its table app.person was not made by the demonstration, so"
            " nothing was changed.",
            hint=choose_directory_hint,
        )
    # The comment on a released table has the release's id, as has the mark of the demonstration.
    release_comment = find_comment("release")
    if (
        release_comment is not None
        and release_comment != RELEASE_MARK + table_comment.removeprefix(_DEMO_MARK).strip()
    ):
        raise OutputNotOurs(
            f"Table release.person in {database} is not the release that the demonstration made,"
            " so nothing was changed.",
            hint=choose_directory_hint,
        )


def _add_release_to_mark(database: Path, release_id: str) -> None:
    """Record the release in the table's mark, so that a later demonstration may replace it."""
    with translate_errors(), duckdb.connect(str(database)) as connection:
        connection.execute(f"COMMENT ON TABLE app.person IS '{_DEMO_MARK} {release_id}'")


@click.command(cls=DatabaseCommand)
@click.option("--rows", type=click.IntRange(min=100), default=100_000, show_default=True)
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="The directory for the database file.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Random seed of the generated persons."
)
def demo(rows: int, k: int, directory: Path, seed: int) -> None:
    """Generate a table of persons in a DuckDB file, anonymize it, and verify it."""
    with report_errors(output_format="table"), handle_signals():
        run_demo(rows, k, directory, seed)
