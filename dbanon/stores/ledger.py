"""The ledger: one row a release, one row a column of it, kept beside the releases.

The columns are the same on every database; only the names of their types differ. PostgreSQL and
SQLite get them by the Alembic history in ``migrations/``, DuckDB by ``ledger_ddl``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dbanon.release import Report
from dbanon.schema import Role
from dbanon.stores.names import RelationName, quote

LEDGER_SCHEMA = "dbanon"

# Column, type, nullable. Types are words of our own; each dialect translates them.
RELEASE_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("release_id", "uuid", False),
    ("created_at", "timestamp", False),
    ("dbanon_version", "text", False),
    ("source", "text", False),
    ("output_schema", "text", True),
    ("output_name", "text", False),
    ("output_kind", "text", False),
    ("relation_name", "text", False),
    ("method", "text", False),
    ("arguments", "json", False),
    ("k_requested", "integer", False),
    ("k_achieved", "bigint", False),
    ("rows_in", "bigint", False),
    ("rows_out", "bigint", False),
    ("suppressed", "bigint", False),
    ("null_rows", "bigint", False),
    ("classes", "bigint", False),
    ("smallest_class", "bigint", False),
    ("median_class", "double", False),
    ("largest_class", "bigint", False),
    ("histogram", "json", False),
    ("information_loss", "double", False),
    ("information_loss_before_rounding", "double", False),
    ("seconds", "json", False),
    ("guarantee", "text", False),
    ("seed_policy", "text", False),
    ("earlier_releases", "text", False),
    ("published_by", "text", True),
    ("superseded_at", "timestamp", True),
    # Room for the check between releases: what classes held, and who was in them, under a key
    # that is kept outside this database.
    ("class_signature", "bytes", True),
    ("entity_hash", "bytes", True),
)

RELEASE_COLUMN_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("release_id", "uuid", False),
    ("position", "integer", False),
    ("name", "text", False),
    ("role", "text", False),
    ("sql_type", "text", False),
    ("information_loss", "double", True),
    ("information_loss_before_rounding", "double", True),
)

NOT_COPIED = "not_copied"


def ledger_ddl(types: Mapping[str, str], release: RelationName, column: RelationName) -> list[str]:
    """CREATE statements of the ledger's two tables for a dialect without Alembic."""
    statements = []
    for relation, columns, key in (
        (release, RELEASE_COLUMNS, ["release_id"]),
        (column, RELEASE_COLUMN_COLUMNS, ["release_id", "position"]),
    ):
        lines = [
            f"{quote(name)} {types[kind]}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in columns
        ]
        lines.append("PRIMARY KEY (" + ", ".join(map(quote, key)) + ")")
        statements.append(
            f"CREATE TABLE IF NOT EXISTS {relation.quoted} (\n  " + ",\n  ".join(lines) + "\n)"
        )
    return statements


def release_row(
    report: Report, output: RelationName, relation: RelationName, histogram: Mapping[int, int]
) -> dict[str, Any]:
    """The ledger row of a report, column by column; JSON as text."""
    plain = report.to_dict()
    row: dict[str, Any] = {name: plain.get(name) for name, _, _ in RELEASE_COLUMNS}
    row |= {
        "output_schema": output.schema,
        "output_name": output.name,
        "relation_name": relation.name,
        "arguments": json.dumps(plain["arguments"], sort_keys=True),
        "histogram": json.dumps({str(size): count for size, count in sorted(histogram.items())}),
        "seconds": json.dumps({name: round(value, 6) for name, value in report.seconds.items()}),
    }
    return row


def column_rows(report: Report, sql_types: Mapping[str, str]) -> list[dict[str, Any]]:
    """The ledger rows of a report's columns, with those that were not copied."""
    losses = {loss.name: loss for loss in report.column_losses}
    named = (
        *((name, Role.QUASI_IDENTIFIER.value) for name in report.quasi_identifiers),
        *((name, Role.SENSITIVE.value) for name in report.sensitive),
        *((name, Role.INSENSITIVE.value) for name in report.kept),
        *((name, NOT_COPIED) for name in report.not_copied),
    )
    return [
        {
            "release_id": report.release_id,
            "position": position,
            "name": name,
            "role": role,
            "sql_type": sql_types.get(name, ""),
            "information_loss": losses[name].released if name in losses else None,
            "information_loss_before_rounding": (
                losses[name].before_rounding if name in losses else None
            ),
        }
        for position, (name, role) in enumerate(named)
    ]
