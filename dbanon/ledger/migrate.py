"""Create the ledger, or migrate it to this version with Alembic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbanon.ledger.tables import HEAD, VERSION_TABLE, ledger_ddl
from dbanon.version import share_path

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dbanon.sessions.session import Session


def make_or_migrate(session: Session, connection: Connection, closing: Sequence[str] = ()) -> None:
    """Create or migrate the ledger of ``session`` in the transaction of ``connection``.

    A new ledger takes one statement per table; replaying the history would take far longer.

    Parameters
    ----------
    closing : statements that leave only the owner with rights on a new ledger.
    """
    version = session.ledger_name(VERSION_TABLE)
    if session.has_ledger() or session.find_existing(version) is not None:
        migrate(connection)
        return
    session.make_schema(version)
    statements = [
        *ledger_ddl(session.ledger_types, session.ledger_name, {}),
        f"CREATE TABLE {version.quoted} (version_num VARCHAR(32) NOT NULL,"
        f" CONSTRAINT {version.name}_pkc PRIMARY KEY (version_num))",
        f"INSERT INTO {version.quoted} VALUES ('{HEAD}')",
    ]
    for statement in (*statements, *closing):
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
