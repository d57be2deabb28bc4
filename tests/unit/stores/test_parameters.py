"""Question marks that are no parameters reach the server as they are."""

from __future__ import annotations

import pytest

from dbanon.stores.postgresql.dialect import to_psycopg


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("SELECT ? FROM t WHERE a = ?", "SELECT %s FROM t WHERE a = %s"),
        ('SELECT "a?b" FROM t WHERE n < ?', 'SELECT "a?b" FROM t WHERE n < %s'),
        ('SELECT "a""?" FROM t WHERE n < ?::int', 'SELECT "a""?" FROM t WHERE n < %s::int'),
        ("SELECT 'it''s ?' || ?", "SELECT 'it''s ?' || %s"),
        ("SELECT 1 -- it's ?\n WHERE a = ?", "SELECT 1 -- it's ?\n WHERE a = %s"),
        ("SELECT /* isn't ? */ ?", "SELECT /* isn't ? */ %s"),
        ('SELECT "100%" % ?', 'SELECT "100%%" %% %s'),
    ],
)
def test_only_parameters_are_replaced(sql: str, sent: str) -> None:
    assert to_psycopg(sql) == sent
