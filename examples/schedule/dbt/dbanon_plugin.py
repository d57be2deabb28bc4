"""``dbanon_release`` in dbt's DuckDB: what ``dbanon.mdav`` is inside PostgreSQL."""

# dbt is not where dbanon's types are checked.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
from typing import Any

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

import dbanon


class Plugin(BasePlugin):
    """Gives dbt's connection a function that releases; its argument has those of ``anonymize``."""

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        def dbanon_release(arguments: str) -> str:
            given: dict[str, Any] = json.loads(arguments)
            # A cursor is a connection of its own: the release is one transaction, and sees what
            # dbt has committed.
            with conn.cursor() as own:
                released = dbanon.anonymize(own, **given)
                return str(released.release_id)

        # It makes something: once for each call, whatever its arguments.
        conn.create_function(
            "dbanon_release", dbanon_release, ["VARCHAR"], "VARCHAR", side_effects=True
        )
