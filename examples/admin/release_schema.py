"""Release every table of a schema by one set of rules.

    python -m examples.admin.release_schema URL --schema app --rules examples/admin/rules.yaml

Each table becomes the view of its name in schema ``release``; each is a release of its own. A table
with a column that the rules do not know, or with none that they make a quasi-identifier, is passed
over and told. The exit code is that of the first table that was not released: 6 where the rules do
not fit it, else dbanon's.

The releases are not checked against each other: rows of one person in two tables can be put
together by what both show. Release tables of the same persons for readers who are not the same, or
join them first and release the join with ``entity``. Nor is a later run checked against an earlier
one, as its warning says: who releases each month makes a chain of each table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy
import yaml

import dbanon

RULED = ("quasi_identifiers", "sensitive", "keep", "left_out")
COLUMNS = """SELECT c.table_name, c.column_name FROM information_schema.columns AS c
    JOIN information_schema.tables AS t USING (table_schema, table_name)
    WHERE t.table_type = 'BASE TABLE' AND c.table_schema = {} ORDER BY 1, c.ordinal_position"""


def tables_of(url: str, schema: str) -> dict[str, list[str]]:
    """The columns of each table of a schema, in their order."""
    if url.startswith("duckdb:///"):
        path = url.removeprefix("duckdb:///")
        with duckdb.connect(path, read_only=True) as connection:
            rows = connection.execute(COLUMNS.format("?"), [schema]).fetchall()
    else:
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        with engine.connect() as server:
            query = sqlalchemy.text(COLUMNS.format(":schema"))
            rows = [tuple(row) for row in server.execute(query, {"schema": schema})]
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def quoted(*names: str) -> str:
    """A name as dbanon takes it, whatever letters it has."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def wanted(rules: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """What the rules make of a table's columns.

    Raises
    ------
    ValueError : they do not fit it; the message says why.
    """
    roles = {name: role for role in RULED for name in rules[role]}
    if unknown := [name for name in columns if name not in roles]:
        raise ValueError(f"no rule for {', '.join(unknown)}")
    found: dict[str, Any] = {
        role: [name for name in columns if roles[name] == role] for role in RULED[:-1]
    }
    if not found["quasi_identifiers"]:
        raise ValueError("no quasi-identifier among its columns")
    return found


def main(words: list[str] | None = None) -> int:
    """Release; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("--schema", required=True)
    parser.add_argument("--rules", type=Path, required=True)
    parser.add_argument("--into", default="release", help="the schema of the releases")
    given = parser.parse_args(words)
    rules = yaml.safe_load(given.rules.read_text(encoding="utf-8"))
    codes = [0]
    for table, columns in tables_of(given.url, given.schema).items():
        try:
            report = dbanon.anonymize(
                given.url,
                table=quoted(given.schema, table),
                output=quoted(given.into, table),
                k=rules["k"],
                method=rules["method"],
                output_kind="view",
                if_exists="replace",
                **wanted(rules, columns),
            )
        except ValueError as error:
            print(f"{table}: not released: {error}")
            codes.append(6)
        except dbanon.DbanonError as error:
            print(f"{table}: not released: [{error.code}] {error.message}")
            codes.append(error.exit_code)
        else:
            assert isinstance(report, dbanon.Report), "the rules name a method of classes"
            print(f"{table}: {report.rows_out} rows, k = {report.k_achieved}")
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
