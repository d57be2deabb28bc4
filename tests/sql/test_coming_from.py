"""The SQL on the page for users of other tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming_from.md"
BLOCK = re.compile(r"<!-- runnable -->\n```sql\n(.*?)```", re.DOTALL)


@pytest.fixture
def statements() -> list[str]:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 2
    return [
        statement.strip()
        for block in blocks
        for statement in block.split(";\n")
        if statement.strip()
    ]


def test_the_calls_beside_those_of_other_tools_run(
    connect: Callable[..., Any], statements: list[str]
) -> None:
    connection = connect()
    answers = []
    try:
        for statement in statements:
            done = connection.execute(statement)
            answers.append(done.fetchall() if done.description else None)
        smallest = [rows[0][0] for rows in answers if rows and len(rows[0]) == 1]
    finally:
        connection.execute("DROP OWNED BY analyst")
        connection.execute("DROP ROLE analyst")
    # The k of the source, of the release, of two releases, and the rows of a repeated one.
    assert smallest[0] == 1
    assert min(smallest[1:]) >= 5
    assert len(smallest) == 5
