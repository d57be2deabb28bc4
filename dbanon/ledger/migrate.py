"""Bringing the ledger to this version by its Alembic history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.version import share_path

if TYPE_CHECKING:
    from sqlalchemy import Connection


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the ledger behind ``connection`` to a revision, inside its open transaction."""
    # Alembic is needed by the first release in a database only.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(share_path("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
