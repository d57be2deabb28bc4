"""Chains of a million persons: seconds per release compared with independent ones, and state size.

Each month 1 % of the persons leave and join. Both modes take turns on the same table in the same
run. The PostgreSQL server is a temporary one with default settings.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg

import dbanon
from benchmarks.markdown import table
from dbanon.errors import ColumnLost
from tests.postgres_server import NoServerError, conninfo, throwaway_server

CHURN = 0.01
RELEASES = 12
QUASI_IDENTIFIERS = list("abcd")
COLUMNS = "person bigint, a double precision, b double precision, c double precision,"
COLUMNS += " d double precision, illness text"
# The state except the displayed rows, whose table is named by the chain's number.
STATE = ("chain_member", "chain_cell")

Execute = Callable[[str], None]
Rows = Callable[[str], list[tuple[Any, ...]]]


def run(quick: bool = False) -> str:
    """Measure both databases; return Markdown. ``quick`` uses 20,000 persons and 3 releases."""
    persons, releases = (20_000, 3) if quick else (1_000_000, RELEASES)
    parts = [
        f"# Chains: {persons:,} persons, {CHURN:.0%} leave and join a month, MDAV, k = 5,"
        " 4 float8 quasi-identifiers, 1 kept text column\n"
    ]
    try:
        with throwaway_server() as server, server.database() as url:

            def execute(sql: str) -> None:
                server.execute(sql, url=url)

            def rows(sql: str) -> list[tuple[Any, ...]]:
                with psycopg.connect(conninfo(url)) as connection:
                    return connection.execute(sql).fetchall()

            parts.append(f"PostgreSQL {server.version}\n")
            parts.append(course(url, execute, rows, "generate_series", persons, releases))
    except NoServerError as error:
        parts.append(f"PostgreSQL: {error}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.duckdb"

        def run_in_file(sql: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(path)) as connection:
                return connection.execute(sql).fetchall()

        parts.append("DuckDB\n")
        parts.append(
            course(
                f"duckdb:///{path}", run_in_file, run_in_file, "generate_series", persons, releases
            )
        )
    return "\n".join(parts)


def course(
    url: str, execute: Callable[[str], Any], rows: Rows, series: str, persons: int, releases: int
) -> str:
    """Measure the seconds of each release in both modes, and the size of the state.

    Parameters
    ----------
    execute, rows : run a statement in the database.
    series : the database's function for a series of integers.
    """
    moving = int(persons * CHURN)
    columns = "g, random(), random(), random(), random(), 'illness ' || g % 50"

    def insert(first: int, last: int) -> str:
        numbers = f"{series}({first}, {last}) AS s(g)"
        return f"INSERT INTO people SELECT {columns} FROM {numbers}"

    execute(f"CREATE TABLE people ({COLUMNS})")
    execute(insert(1, persons))
    seconds: dict[str, list[float]] = {"independent": [], "chain": []}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnLost)
        key = Path(folder) / "people.key"
        dbanon.create_chain(
            url, "people", table="people", entity="person", changes="show", key_out=str(key)
        )
        for release in range(releases):
            if release:
                # Delete as many persons as the churn says, chosen at random.
                execute(
                    f"DELETE FROM people WHERE person IN (SELECT person FROM people"
                    f" ORDER BY random() LIMIT {moving})"
                )
                execute(insert(persons + (release - 1) * moving + 1, persons + release * moving))
            modes: dict[str, dict[str, Any]] = {
                "independent": {},
                "chain": {
                    "entity": "person",
                    "chain": dbanon.Chain("people", key=f"file:{key}"),
                },
            }
            for mode, options in modes.items():
                start = time.perf_counter()
                dbanon.anonymize(
                    url,
                    table="people",
                    quasi_identifiers=QUASI_IDENTIFIERS,
                    keep=["illness"],
                    k=5,
                    output=f"{mode}.people",
                    if_exists="replace",
                    **options,
                )
                seconds[mode].append(time.perf_counter() - start)
    pairs = list(zip(seconds["independent"], seconds["chain"], strict=True))
    rows_of_releases: list[list[object]] = [
        [number, independent, chain, chain / independent]
        for number, (independent, chain) in enumerate(pairs, 1)
    ]
    later = [chain / independent for independent, chain in pairs[1:]]
    rows_of_releases.append(["median of 2 on", "", "", statistics.median(later)])
    return table(["release", "independent s", "chain s", "ratio"], rows_of_releases) + state(
        url, rows
    )


def state(url: str, rows: Rows) -> str:
    """Describe the size of the state; on DuckDB this drops its tables one by one."""
    counts = [f"{name} {rows(f'SELECT count(*) FROM dbanon.{name}')[0][0]:,}" for name in STATE]
    if url.startswith("postgresql"):
        sizes = rows(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'dbanon'::regnamespace AND relname LIKE 'chain%' ORDER BY relname"
        )
    else:
        sizes = _freed(rows)
    table_sizes = [f"{name} {size / 2**20:.0f} MiB" for name, size in sizes if size >= 2**20]
    total_mib = sum(size for _, size in sizes) / 2**20
    return (
        f"\nState with its indexes: {total_mib:.0f} MiB ({', '.join(table_sizes)})."
        f" Rows of it: {', '.join(counts)}.\n"
    )


def _freed(rows: Rows) -> list[tuple[Any, ...]]:
    """The bytes that the file frees when each table of the state is dropped."""

    def used_bytes() -> int:
        rows("CHECKPOINT")
        return int(rows("SELECT used_blocks * block_size FROM pragma_database_size()")[0][0])

    freed_bytes = []
    for (name,) in rows(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dbanon'"
        " AND table_name LIKE 'chain%' ORDER BY table_name"
    ):
        used_before = used_bytes()
        rows(f"DROP TABLE dbanon.{name}")
        freed_bytes.append((name, used_before - used_bytes()))
    return freed_bytes
