"""Create the ledger, or migrate it to this version with Alembic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dbanon.ledger.tables import (
    LEDGER_REVISION,
    VERSION_TABLE,
    create_version_table,
    ledger_ddl,
)
from dbanon.version import share_path

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dbanon.sessions.ledger import Ledger


def create_or_migrate(
    ledger: Ledger,
    connection: Connection,
    make_schema: Callable[[], object] = lambda: None,
    revoke_statements: Sequence[str] = (),
) -> None:
    """Create or migrate a ledger in the transaction of ``connection``.

    A new ledger is created with one statement per table; replaying all migrations would take far
    longer.

    Parameters
    ----------
    make_schema : creates the schema of the ledger if it is missing.
    revoke_statements : SQL that revokes the rights of everyone but the owner on a new ledger.
    """
    if ledger.exists() or ledger.has_table(VERSION_TABLE):
        migrate(connection)
        return
    make_schema()
    version = ledger.table(VERSION_TABLE)
    statements = [
        *ledger_ddl(ledger.column_types, ledger.table, existing={}),
        create_version_table(version),
        f"INSERT INTO {version.quoted} VALUES ('{LEDGER_REVISION}')",
    ]
    for statement in (*statements, *revoke_statements):
        connection.exec_driver_sql(statement)


def migrate(connection: Connection, revision: str = "head") -> None:
    """Migrate the ledger behind ``connection`` to a revision, in its open transaction."""
    # Only ledgers of earlier versions need Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(share_path("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
