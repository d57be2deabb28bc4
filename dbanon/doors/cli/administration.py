"""Commands for administrators: install, upgrade, repair, uninstall, gc, and the list of methods."""

from __future__ import annotations

from dataclasses import asdict

import click

from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.log import print_message, with_log_format
from dbanon.doors.cli.support import (
    FORMAT_OPTION,
    URL_HELP,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    show_checks,
    sql_printer,
    with_common_options,
)
from dbanon.errors import InvalidParameter, pluralize
from dbanon.methods import METHODS


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL", required=False)
@click.option(
    "--keep-last",
    type=int,
    default=1,
    show_default=True,
    help="Number of replaced releases to keep for each view.",
)
@click.option(
    "--runs-older-than",
    "days",
    type=float,
    metavar="DAYS",
    help="Also delete the ledger's entries of failed runs that began longer ago than this.",
)
@click.option(
    "--spill",
    "spill_directories",
    multiple=True,
    metavar="DIR",
    help="Also remove what killed runs spilled into this directory. Repeatable, and needs no URL.",
)
@click.option(
    "--staged",
    "staging_directories",
    multiple=True,
    metavar="DIR",
    help=(
        "Also remove files that a crashed driver staged more than a day ago in this directory, to"
        " which a cluster writes releases. Repeatable, and needs no URL."
    ),
)
@click.option(
    "--spark-local",
    "spark_directories",
    multiple=True,
    metavar="DIR",
    help=(
        "Also remove what a killed driver left in this scratch directory of Spark (spark.local.dir,"
        " or /tmp). Repeatable, and needs no URL."
    ),
)
@with_common_options
def gc(
    url: str | None,
    keep_last: int,
    days: float | None,
    spill_directories: tuple[str, ...],
    staging_directories: tuple[str, ...],
    spark_directories: tuple[str, ...],
    output_format: str,
    print_sql: bool,
) -> None:
    """Drop the tables of replaced releases, and remove what killed runs left behind."""
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors.cli.render import rows_table
        from dbanon.run import gc as garbage_collection
        from dbanon.run.open import open_store

        # Removing directories needs no database; dropping tables and deleting runs do.
        has_directory_options = bool(spill_directories or staging_directories or spark_directories)
        if url is None and (days is not None or not has_directory_options):
            raise click.UsageError(
                "Missing argument 'URL', or option '--spill', '--staged' or '--spark-local'."
            )
        cleared_directories = [
            *garbage_collection.clear_spill_directories(spill_directories),
            *garbage_collection.clear_staging_directories(staging_directories),
            *garbage_collection.clear_abandoned_directories(spark_directories),
        ]
        dropped_tables: list[str] = []
        n_deleted_runs: int | None = None
        if url is not None:
            store = open_store(url, sql_printer(print_sql))
            n_deleted_runs = None if days is None else garbage_collection.clear_runs(store, days)
            dropped_tables = garbage_collection.collect_garbage(store, keep_last)
        # From here on, errors are only printed as warnings: see ``commit_guard``.
        mark_committed()
        title = f"{pluralize(len(dropped_tables), 'table')} dropped"
        document = {"dropped": dropped_tables}
        if n_deleted_runs is not None:
            title += f", {pluralize(n_deleted_runs, 'failed run')} deleted"
        if has_directory_options:
            folders = pluralize(len(cleared_directories), "directory", "directories")
            title += f", {folders} of killed runs removed"
            document["cleared"] = cleared_directories
        rows = [[name] for names in document.values() for name in names]
        run_count = {} if n_deleted_runs is None else {"runs": n_deleted_runs}
        show(output_format, document | run_count, lambda: rows_table(title, ["table"], rows))


_PYTHON_PATH_OPTION = click.option(
    "--python-path",
    "python_paths",
    multiple=True,
    metavar="DIRECTORY",
    help=(
        "Directory from which the server's Python imports dbanon and numpy. Repeatable. Default:"
        " the directory from which this Python imports them."
    ),
)
_TRUST_OWNER_OPTION = click.option(
    "--trust-owner",
    "trusted_owners",
    multiple=True,
    metavar="ACCOUNT",
    help=(
        "An account, besides root and the server's own, that may own the imported files."
        " Repeatable. DANGEROUS: it can then run code as the server's account."
    ),
)


_LOCK_TIMEOUT_OPTION = click.option(
    "--lock-timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help=(
        "How long to wait for the ledger's tables while others read them. The command waits in"
        " short attempts, so that no session queues behind it."
    ),
)


def _warn_about_owners(owners: tuple[str, ...]) -> None:
    """Warn that trusted accounts can run code as the database server."""
    for owner in owners:
        print_message(
            f"WARNING: {owner} can run code as the database server's account, and so read and"
            " change every database of the server."
        )


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--extension",
    is_flag=True,
    help="Install as an extension, which writes to the server's files.",
)
@click.option(
    "--sql-only", is_flag=True, help="Install only the functions that do not need PL/Python."
)
@_PYTHON_PATH_OPTION
@_TRUST_OWNER_OPTION
@_LOCK_TIMEOUT_OPTION
@with_log_format
def install(
    url: str,
    extension: bool,
    sql_only: bool,
    python_paths: tuple[str, ...],
    trusted_owners: tuple[str, ...],
    lock_timeout: float,
) -> None:
    """Install the SQL functions in a PostgreSQL database."""
    with report_errors(output_format="table"), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import install as installation

        if extension and sql_only:
            raise InvalidParameter("--extension and --sql-only cannot be combined.")
        checks = installation.install(
            url,
            python_paths=python_paths,
            sql_only=sql_only,
            extension=extension,
            trusted_owners=trusted_owners,
            lock_timeout=lock_timeout,
        )
        _warn_about_owners(trusted_owners)
        mark_committed()
        show_checks(checks)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_PYTHON_PATH_OPTION
@_TRUST_OWNER_OPTION
@_LOCK_TIMEOUT_OPTION
@with_log_format
def upgrade(
    url: str,
    python_paths: tuple[str, ...],
    trusted_owners: tuple[str, ...],
    lock_timeout: float,
) -> None:
    """Bring installed SQL functions to this version; ledger, hierarchies and grants stay."""
    with report_errors(output_format="table"), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import install as installation

        checks = installation.upgrade(
            url,
            python_paths=python_paths,
            trusted_owners=trusted_owners,
            lock_timeout=lock_timeout,
        )
        _warn_about_owners(trusted_owners)
        mark_committed()
        show_checks(checks)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--accept-owner",
    "accept_owners",
    multiple=True,
    metavar="ROLE",
    help=(
        "A role whose tables may be releases that another role published, for example after a"
        " restore without owners. Repeatable."
    ),
)
@_LOCK_TIMEOUT_OPTION
@FORMAT_OPTION
@with_log_format
def repair(
    url: str, accept_owners: tuple[str, ...], lock_timeout: float, output_format: str
) -> None:
    """Attach the releases of a PostgreSQL ledger to their tables again, and report what was done.

    Needed after a dump was restored, and after the owner of a release changed. A relation is
    attached if its name, its owner, its columns and its rows are those that were released.
    """
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import install as installation
        from dbanon.doors.cli.render import rows_table

        repairs = installation.repair(url, accept_owners=accept_owners, lock_timeout=lock_timeout)
        mark_committed()
        rows = [[entry.output, entry.action, entry.reason] for entry in repairs]
        # The action "left" means that nothing was changed; the reason says why.
        n_repaired = sum(entry.action != "left" for entry in repairs)
        title = f"{pluralize(n_repaired, 'release')} repaired"
        header = ["release", "action", "reason"]
        document = {"repairs": [asdict(entry) for entry in repairs]}
        show(output_format, document, lambda: rows_table(title, header, rows))


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--ledger", is_flag=True, help="Also drop the ledger of releases.")
@_LOCK_TIMEOUT_OPTION
@with_log_format
def uninstall(url: str, ledger: bool, lock_timeout: float) -> None:
    """Remove the SQL functions; the ledger stays."""
    with report_errors(output_format="table"), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import install as installation

        installation.uninstall(url, ledger=ledger, lock_timeout=lock_timeout)
        mark_committed()
        click.echo("dbanon's functions were removed.")


@click.command(cls=DatabaseCommand)
@FORMAT_OPTION
def methods(output_format: str) -> None:
    """List the methods with the data they take, class sizes, guarantee, cost, reference and
    options."""
    with report_errors(output_format):
        from dbanon.doors.cli.render import render_catalog

        entries = [
            {
                "method": method.name,
                "summary": method.summary,
                "data": method.data,
                "class sizes": method.class_sizes,
                "guarantee": method.sentence,
                "cost": method.cost,
                "reference": method.reference,
                "options": ", ".join(
                    f"{option.name}={option.default}" for option in method.options
                ),
            }
            for method in METHODS.values()
        ]
        show(output_format, entries, lambda: render_catalog(entries))
