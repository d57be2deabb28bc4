"""Commands for administrators: install, upgrade, repair, uninstall, gc, and the list of methods."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from dbanon.doors.cli.groups import OnDatabase
from dbanon.doors.cli.log import log_format, say
from dbanon.doors.cli.support import (
    FORMAT,
    URL_HELP,
    commit_guard,
    common,
    errors,
    show,
    show_checks,
    signals,
    sql_printer,
)
from dbanon.errors import InvalidParameter, pluralize
from dbanon.methods import METHODS


@click.command(cls=OnDatabase, epilog=URL_HELP)
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
    "spilled",
    multiple=True,
    metavar="DIR",
    help="Also remove what killed runs spilled into this directory. Repeatable, and needs no URL.",
)
@click.option(
    "--staged",
    multiple=True,
    metavar="DIR",
    help=(
        "Also remove what a lost driver staged into this directory of a cluster's releases more"
        " than a day ago. Repeatable, and needs no URL."
    ),
)
@click.option(
    "--spark-local",
    multiple=True,
    metavar="DIR",
    help=(
        "Also remove what a killed driver left in this directory of Spark (spark.local.dir, or"
        " /tmp). Repeatable, and needs no URL."
    ),
)
@common
def gc(
    url: str | None,
    keep_last: int,
    days: float | None,
    spilled: tuple[str, ...],
    staged: tuple[str, ...],
    spark_local: tuple[str, ...],
    form: str,
    print_sql: bool,
) -> None:
    """Drop released tables that their view no longer shows, and leftovers of killed runs."""
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors.cli.render import rows_table
        from dbanon.run import gc as garbage
        from dbanon.run.open import open_store

        directories = spilled or staged or spark_local
        if url is None and (days is not None or not directories):
            raise click.UsageError(
                "Missing argument 'URL', or option '--spill', '--staged' or '--spark-local'."
            )
        cleared = garbage.clear_spilled(spilled) + garbage.clear_staged(staged)
        cleared += garbage.clear_killed(spark_local)
        dropped, runs = [], None
        if url is not None:
            store = open_store(url, sql_printer(print_sql))
            runs = None if days is None else garbage.clear_runs(store, days)
            dropped = garbage.collect_garbage(store, keep_last)
        committed()
        title, documents = f"{pluralize(len(dropped), 'table')} dropped", {"dropped": dropped}
        if runs is not None:
            title += f", {pluralize(runs, 'failed run')} forgotten"
        if directories:
            folders = pluralize(len(cleared), "directory", "directories")
            title, documents["cleared"] = f"{title}, {folders} of killed runs taken away", cleared
        rows = [[name] for names in documents.values() for name in names]
        failed_runs = {} if runs is None else {"runs": runs}
        show(form, documents | failed_runs, lambda: rows_table(title, ["table"], rows))


_PYTHON_PATH = click.option(
    "--python-path",
    "python_paths",
    multiple=True,
    metavar="DIRECTORY",
    help=(
        "Directory from which the server's Python imports dbanon and numpy. Repeatable. Default:"
        " the one of this Python."
    ),
)
_TRUST_OWNER = click.option(
    "--trust-owner",
    "trusted_owners",
    multiple=True,
    metavar="ACCOUNT",
    help=(
        "An account, besides root and the server's own, that may own the imported files."
        " Repeatable. DANGEROUS: it can then run code as the server's account."
    ),
)


_LOCK_TIMEOUT = click.option(
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


def _warn_of(owners: tuple[str, ...]) -> None:
    for owner in owners:
        say(
            f"WARNING: {owner} can run code as the database server's account, and so read and"
            " change every database of it."
        )


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--extension",
    is_flag=True,
    help="Install as an extension, which writes to the server's files.",
)
@click.option(
    "--sql-only", is_flag=True, help="Install only the functions that do not need PL/Python."
)
@_PYTHON_PATH
@_TRUST_OWNER
@_LOCK_TIMEOUT
@log_format
def install(url: str, extension: bool, sql_only: bool, **options: Any) -> None:
    """Install the SQL functions in a PostgreSQL database."""
    with errors("table"), signals(), commit_guard() as committed:
        from dbanon.doors import install as installation

        if extension and sql_only:
            raise InvalidParameter("--extension and --sql-only exclude each other.")
        checks = installation.install(url, sql_only=sql_only, extension=extension, **options)
        _warn_of(options["trusted_owners"])
        committed()
        show_checks(checks)


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_PYTHON_PATH
@_TRUST_OWNER
@_LOCK_TIMEOUT
@log_format
def upgrade(url: str, **options: Any) -> None:
    """Bring installed SQL functions to this version; ledger, hierarchies and grants stay."""
    with errors("table"), signals(), commit_guard() as committed:
        from dbanon.doors import install as installation

        checks = installation.upgrade(url, **options)
        _warn_of(options["trusted_owners"])
        committed()
        show_checks(checks)


@click.command(cls=OnDatabase, epilog=URL_HELP)
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
@_LOCK_TIMEOUT
@FORMAT
@log_format
def repair(url: str, accept_owners: tuple[str, ...], lock_timeout: float, form: str) -> None:
    """Attach the releases of a PostgreSQL ledger to their tables again, and report what was done.

    Needed after a dump was restored, and after the owner of a release changed. A relation is
    attached if its name, its owner, its columns and its rows are those that were released.
    """
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import install as installation
        from dbanon.doors.cli.render import rows_table

        repairs = installation.repair(url, accept_owners=accept_owners, lock_timeout=lock_timeout)
        committed()
        rows = [[repaired.output, repaired.action, repaired.reason] for repaired in repairs]
        changed = sum(repaired.action != "left" for repaired in repairs)
        title, header = (
            f"{pluralize(changed, 'release')} repaired",
            ["release", "action", "reason"],
        )
        plain = {"repairs": [asdict(repaired) for repaired in repairs]}
        show(form, plain, lambda: rows_table(title, header, rows))


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--ledger", is_flag=True, help="Also drop the ledger of releases.")
@_LOCK_TIMEOUT
@log_format
def uninstall(url: str, ledger: bool, lock_timeout: float) -> None:
    """Remove the SQL functions; the ledger stays."""
    with errors("table"), signals(), commit_guard() as committed:
        from dbanon.doors import install as installation

        installation.uninstall(url, ledger=ledger, lock_timeout=lock_timeout)
        committed()
        click.echo("dbanon's functions were removed.")


@click.command(cls=OnDatabase)
@FORMAT
def methods(form: str) -> None:
    """List the methods with the data they take, class sizes, guarantee, cost, reference and
    options."""
    with errors(form):
        from dbanon.doors.cli.render import entries_text

        entries = [
            {
                "method": method.name,
                "summary": method.summary,
                "data": method.data,
                "class sizes": method.class_sizes,
                "guarantee": method.sentence,
                "cost": method.cost,
                "reference": method.reference,
                "options": ", ".join(f"{o.name}={o.default}" for o in method.options),
            }
            for method in METHODS.values()
        ]
        show(form, entries, lambda: entries_text(entries))
