"""A job's types: of one kind from month to month, however large the values are."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbanon.run.source_types import type_family
from tests.stores.databases import Database
from tests.stores.job_lines import call, job, write


@pytest.mark.parametrize("kind", ["view", "table"])
def test_a_larger_value_is_no_other_type(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Widths grow within a kind, and of what is not read any type is taken."""
    monkeypatch.setenv("PEOPLE", database.url)
    decimal = database.types["decimal"].partition("(")[0]
    roles = dict.fromkeys(("age", "cost", "days"), "{role: quasi_identifier}")
    roles["note"] = "{role: drop}"
    more = ", keep_last: 1" if kind == "view" else ""

    def run(month: int, cost: str, days: str, note: str, **condition: str) -> tuple[int, str]:
        database.execute(*["DROP TABLE stays"] * (month > 0))
        database.execute(
            f"CREATE TABLE stays (age {database.types['integer']}, cost {decimal}({cost}),"
            f" days {database.types[days]}, note {note})",
            *(f"INSERT INTO stays VALUES ({20 + n % 7}, {n % 5}.5, {n}, NULL)" for n in range(20)),
        )
        named = job("stays", roles, f"{{{kind}: stays_out{more}}}", table="stays", **condition)
        done = call("run", write(tmp_path, named))
        return done.exit_code, done.stderr

    assert run(0, "5,2", "integer", "VARCHAR(9)")[0] == 0
    done = run(1, "6,2", "bigint", "INTEGER")
    if database.name == "postgresql" and kind == "view":
        # The source's own types were changed there, and PostgreSQL keeps those of a view.
        assert "[output_changed]" in done[1]
        database.execute("DROP VIEW release.stays_out")
        done = run(1, "6,2", "bigint", "INTEGER")
    assert done[0] == 0, done
    assert run(2, "6,2", "bigint", "VARCHAR(20)")[0] == 0
    # A condition may be about a column that is not read.
    exit_code, said = run(3, "6,2", "bigint", "INTEGER", where="note IS NULL")
    assert exit_code == 6
    assert "--accept-types note" in said
    exit_code, said = run(4, "6,2", "text", "VARCHAR(20)")
    assert exit_code == 6
    assert "--accept-types days" in said


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("DECIMAL(5,2)", "DECIMAL(6, 3)", True),
        ("numeric", "numeric(10,2)", True),
        ("INTEGER", "BIGINT", True),
        ("int(11)", "bigint(20) unsigned", True),
        ("character varying(10)", "text", True),
        ("VARCHAR(9)", "VARCHAR(20)", True),
        ("float4", "double precision", True),
        ("timestamp(3)", "TIMESTAMP", True),
        ("INTEGER", "DECIMAL(5,2)", False),
        ("DECIMAL(5,2)", "VARCHAR", False),
        ("BIGINT", "DOUBLE", False),
        ("DATE", "TIMESTAMP", False),
        ("character(3)", "text", False),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", False),
        ("enum('a','b')", "enum('a')", False),
    ],
)
def test_kinds_of_types(one: str, other: str, same: bool) -> None:
    assert (type_family(one) == type_family(other)) is same
