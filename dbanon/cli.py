"""The command line: one command a job, thin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dbanon.cli_support import (
    Bytes,
    Names,
    errors,
    half_of_memory,
    method_options,
    number,
    pair,
    show,
    show_checks,
    signals,
    sql_printer,
)
from dbanon.errors import InvalidParameter
from dbanon.methods import METHODS
from dbanon.pipeline import NULL_POLICIES
from dbanon.recoding import RECODINGS
from dbanon.space import STANDARDIZATIONS


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dbanon")
def main() -> None:
    """Anonymize SQL tables: k-anonymous releases, recounted before they are visible.

    Exit codes: 0 done and verified, 1 unexpected, 2 usage, 3 privacy refusal (nothing published),
    4 database unreachable or busy (retry), 5 rights, 6 a release changed, 130/143 interrupted.
    """


_URL_HELP = (
    "URL is postgresql://user@host/name, duckdb:///file.duckdb or sqlite:///file.db. Passwords"
    " come from ~/.pgpass, a service file or PGPASSWORD rather than from the URL."
)


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--format", "form", type=click.Choice(["table", "json"]), default="table",
                     show_default=True, help="How the result is printed on stdout."),
        click.option("--print-sql", is_flag=True, help="Print each SQL statement on stderr."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="What is read, as in app.people.")
@click.option("--quasi-identifiers", type=Names(), default=(), help="Columns, separated by commas.")
@click.option(
    "-q",
    "single_q",
    multiple=True,
    metavar="NAME",
    help="One quasi-identifier, taken literally; repeatable.",
)
@click.option("--k", type=int, required=True, help="Smallest class, 2 or more.")
@click.option(
    "--method",
    default="mdav",
    show_default=True,
    help="See: dbanon methods.",
    metavar="|".join(METHODS),
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the method; repeatable.",
)
@click.option("--output", required=True, help="What is made, as in release.people.")
@click.option(
    "--output-kind",
    type=click.Choice(["table", "view"]),
    default="table",
    show_default=True,
    help="view: a stable name over a released table; grants survive.",
)
@click.option(
    "--if-exists",
    type=click.Choice(["error", "replace"]),
    default="error",
    show_default=True,
    help="replace only replaces what dbanon made.",
)
@click.option("--sensitive", type=Names(), default=(), help="Columns copied as they are.")
@click.option(
    "-s",
    "single_s",
    multiple=True,
    metavar="NAME",
    help="One sensitive column, taken literally; repeatable.",
)
@click.option("--keep", type=Names(), default=(), help="Other columns copied as they are.")
@click.option(
    "--key",
    type=Names(),
    default=(),
    help="Columns that tell every row from every other; needed for views and foreign tables.",
)
@click.option("--target", help="URL of another database to write to.")
@click.option(
    "--standardize",
    type=click.Choice(STANDARDIZATIONS),
    default="zscore",
    show_default=True,
    help="How columns are made comparable.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Weight of a quasi-identifier in the distance; repeatable.",
)
@click.option(
    "--recoding",
    type=click.Choice(list(RECODINGS)),
    help="What a class is released with; the method's own by default.",
)
@click.option(
    "--nulls",
    type=click.Choice(NULL_POLICIES),
    default="error",
    show_default=True,
    help="suppress: withhold records with a NULL. category: classes within each pattern of NULLs.",
)
@click.option("--max-suppression", type=float, help="Largest share of records withheld, 0 to 1.")
@click.option("--seed", type=int, default=0, show_default=True, help="For methods that draw.")
@click.option(
    "--chunk-rows",
    type=int,
    default=65_536,
    show_default=True,
    help="Rows read at a time; never changes the result.",
)
@click.option("--memory-limit", type=Bytes(), help="Default: half of the machine's memory.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the report to a .json, .html or .txt file.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the lines on stderr.",
)
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@_common
def anonymize(url: str, **given: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    A column named nowhere is not copied.
    """
    form = given["form"]
    with errors(form), signals():
        from dbanon import api
        from dbanon.progress import ProgressDisplay
        from dbanon.render import report_table, save_report

        weights = {name: number(value) for name, value in map(pair, given["weights"])}
        limit = given["memory_limit"]
        path: Path | None = given["report"]
        if path is not None and (
            path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir()
        ):
            raise InvalidParameter(
                "The report cannot be written there.",
                hint="Name a .json, .html or .txt file in a directory that exists.",
            )
        with ProgressDisplay(not given["no_progress"], given["log_format"]) as progress:
            report = api.anonymize(
                url,
                table=given["table"],
                quasi_identifiers=(*given["quasi_identifiers"], *given["single_q"]),
                k=given["k"],
                output=given["output"],
                method=given["method"],
                options=method_options(given["method"], given["options"]),
                sensitive=(*given["sensitive"], *given["single_s"]),
                keep=given["keep"],
                key=given["key"],
                standardize=given["standardize"],
                weights=weights,
                nulls=given["nulls"],
                max_suppression=given["max_suppression"],
                recoding=given["recoding"],
                seed=given["seed"],
                output_kind=given["output_kind"],
                if_exists=given["if_exists"],
                target=given["target"],
                chunk_rows=given["chunk_rows"],
                memory_limit=half_of_memory() if limit is None else limit,
                progress=progress,
                on_sql=sql_printer(given["print_sql"]),
            )
        if path is not None:
            save_report(report, path)
        show(form, report.to_dict(), lambda: report_table(report))


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation")
@click.option(
    "--quasi-identifiers",
    type=Names(),
    default=(),
    help="For relations that are not in the ledger of this database.",
)
@click.option(
    "-q",
    "single_q",
    multiple=True,
    metavar="NAME",
    help="One quasi-identifier, taken literally; repeatable.",
)
@click.option("--k", type=int, help="What is expected; the ledger's k by default.")
@_common
def verify(
    url: str,
    relation: str,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    form: str,
    print_sql: bool,
) -> None:
    """Recount a release in the database, and compare it with the ledger."""
    with errors(form), signals():
        from dbanon import audit
        from dbanon.render import verification_table
        from dbanon.stores import open_store
        from dbanon.stores.names import parse_relation

        store = open_store(url, sql_printer(print_sql))
        names = (*quasi_identifiers, *single_q)
        found = audit.verify(store, parse_relation(relation), names, k)
        show(form, found.to_dict(), lambda: verification_table(found))


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--keep-last",
    type=int,
    default=1,
    show_default=True,
    help="Replaced releases of each view that stay.",
)
@_common
def gc(url: str, keep_last: int, form: str, print_sql: bool) -> None:
    """Drop released tables that their view no longer shows."""
    with errors(form), signals():
        from dbanon import audit
        from dbanon.render import rows_table
        from dbanon.stores import open_store

        dropped = audit.collect_garbage(open_store(url, sql_printer(print_sql)), keep_last)
        show(
            form,
            {"dropped": dropped},
            lambda: rows_table(f"{len(dropped)} tables dropped", ["table"], [[d] for d in dropped]),
        )


_PYTHON_PATH = click.option(
    "--python-path",
    "python_paths",
    multiple=True,
    metavar="DIRECTORY",
    help="Where the server's Python imports dbanon and numpy from; repeatable. Default: where this"
    " Python does.",
)


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--extension", is_flag=True, help="As an extension: writes to the server's files.")
@click.option("--sql-only", is_flag=True, help="Only what needs no PL/Python.")
@_PYTHON_PATH
def install(url: str, extension: bool, sql_only: bool, python_paths: tuple[str, ...]) -> None:
    """Install the SQL functions in a PostgreSQL database."""
    with errors("table"), signals():
        from dbanon import install as installation

        if extension and sql_only:
            raise InvalidParameter("--extension and --sql-only exclude each other.")
        show_checks(
            installation.install(
                url, python_paths=python_paths, sql_only=sql_only, extension=extension
            )
        )


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_PYTHON_PATH
def upgrade(url: str, python_paths: tuple[str, ...]) -> None:
    """Bring installed SQL functions to this version; ledger, hierarchies and grants stay."""
    with errors("table"), signals():
        from dbanon import install as installation

        show_checks(installation.upgrade(url, python_paths=python_paths))


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--ledger", is_flag=True, help="Also drop the ledger of releases.")
def uninstall(url: str, ledger: bool) -> None:
    """Remove the SQL functions; the ledger stays."""
    with errors("table"), signals():
        from dbanon import install as installation

        installation.uninstall(url, ledger=ledger)
        click.echo("dbanon's functions were removed.")


@main.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed on stdout.",
)
def methods(form: str) -> None:
    """List the methods: data they take, class sizes, guarantee, cost, reference, options."""
    with errors(form):
        from dbanon.render import rows_table

        entries = [
            {
                "method": method.name,
                "summary": method.summary,
                "data": method.data,
                "class sizes": method.class_sizes,
                "guarantee": method.guarantee,
                "cost": method.cost,
                "reference": method.reference,
                "options": ", ".join(f"{o.name}={o.default}" for o in method.options),
            }
            for method in METHODS.values()
        ]
        header = [name for name in entries[0] if name != "summary"]
        rows = [[entry[name] for name in header] for entry in entries]
        show(form, entries, lambda: rows_table("Methods", header, rows))


@main.command()
@click.option("--rows", type=click.IntRange(min=100), default=100_000, show_default=True)
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Where the database file is made.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the invented persons.")
def demo(rows: int, k: int, directory: Path, seed: int) -> None:
    """Invent a table of persons in a DuckDB file, anonymize it, and verify it."""
    with errors("table"), signals():
        from dbanon.demo import run_demo

        run_demo(rows, k, directory, seed)
