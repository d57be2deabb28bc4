"""Errors that used to be the server's own, or to show internals, now have clear texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from dbanon.errors import InsufficientRights
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.postgres_server import Server

pytestmark = pytest.mark.one_database

Connect = Callable[..., psycopg.Connection[Any]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, 20 + g % 7 AS age, 't ' || g % 4 AS t"
    " FROM generate_series(1, 40) AS g"
)
MDAV = "SELECT dbanon.mdav('app.people', 'release.people', {names}, {k})"
CALLS = {
    "mdav": "SELECT dbanon.mdav('app.people', 'release.people', {names}, 5)",
    "classes": "SELECT * FROM dbanon.classes('app.people', 'mdav', {names}, 5)",
    "k_anonymity": "SELECT dbanon.k_anonymity('app.people', {names})",
    "equivalence_classes": "SELECT * FROM dbanon.equivalence_classes('app.people', {names})",
    "verify": "SELECT dbanon.verify('app.people', {names}, 5)",
    "information_loss": "SELECT dbanon.information_loss('app.people', 'app.people', {names})",
}


def expect_refusal(
    connection: psycopg.Connection[Any], statement: str
) -> psycopg.errors.Diagnostic:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    return caught.value.diag


@pytest.mark.parametrize("call", CALLS)
def test_a_list_of_lists_is_no_list_of_names(call: str, connect: Connect) -> None:
    connection = connect()
    connection.execute(PEOPLE)
    diagnostics = expect_refusal(connection, CALLS[call].format(names="ARRAY[['age', 'id']]"))
    assert diagnostics.sqlstate == "22023"
    assert "quasi_identifiers must be" in str(diagnostics.message_primary)
    assert diagnostics.message_hint


def test_a_transaction_that_may_only_read(connect: Connect) -> None:
    connection = connect()
    connection.execute(PEOPLE)
    connection.execute("BEGIN READ ONLY")
    diagnostics = expect_refusal(connection, MDAV.format(names="ARRAY['age']", k=5))
    assert diagnostics.sqlstate == "25006"
    assert "may only read" in str(diagnostics.message_primary)
    connection.execute("ROLLBACK")
    connection.execute("BEGIN READ ONLY")
    rows = connection.execute("SELECT dbanon.k_anonymity('app.people', ARRAY['age'])").fetchall()
    assert rows == [(5,)]


@pytest.mark.parametrize(
    "statement",
    [
        MDAV.format(names="ARRAY['age']", k=1),
        MDAV.format(names="ARRAY['nothing']", k=5),
        "SELECT * FROM dbanon.classes('app.people', 'mdavv', ARRAY['age'], 5)",
        "SELECT dbanon.suggest_hierarchy('app.people', 'nothing')",
        """SELECT * FROM dbanon.store_hierarchy('x', '{"tree": 7}')""",
        """SELECT * FROM dbanon.check_hierarchy('{"trees": 7}')""",
        "SELECT dbanon.verify('app.people')",
        "SELECT dbanon.drop('app.people')",
        "SELECT dbanon.information_loss('app.people')",
    ],
)
def test_the_context_names_the_function_that_was_called_alone(
    statement: str, connect: Connect
) -> None:
    connection = connect()
    connection.execute(PEOPLE)
    diagnostics = expect_refusal(connection, statement)
    lines = str(diagnostics.context).splitlines()
    assert len(lines) == 1, lines
    assert "dbanon._" not in lines[0]


def test_a_reader_without_rights(
    connect: Connect, sql_server: Server, sql_url: str, sql_role: Callable[..., str]
) -> None:
    connection = connect()
    connection.execute(PEOPLE)
    connection.execute(MDAV.format(names="ARRAY['age']", k=5))
    url = sql_role("rita", runner=False)
    sql_server.execute("GRANT dbanon_reader TO rita", url=sql_url)
    reader = connect(url)
    diagnostics = expect_refusal(reader, "SELECT dbanon.verify('release.people')")
    assert diagnostics.sqlstate == "42501"
    assert "may not read the ledger" in str(diagnostics.message_primary)
    assert "quasi_identifiers and k" in str(diagnostics.message_hint)
    named = "SELECT dbanon.verify('release.people', ARRAY['age'], 5)"
    diagnostics = expect_refusal(reader, named)
    assert diagnostics.sqlstate == "42501"
    assert "may not read column age of release.people" in str(diagnostics.message_primary)
    assert diagnostics.message_hint == "Its owner runs: GRANT SELECT ON release.people TO rita;"
    sql_server.execute("GRANT SELECT ON release.people TO rita", url=sql_url)
    reader.execute(named)


def test_a_reader_without_rights_at_the_client(
    connect: Connect, sql_server: Server, sql_url: str, sql_role: Callable[..., str]
) -> None:
    connection = connect()
    connection.execute(PEOPLE)
    connection.execute(MDAV.format(names="ARRAY['age']", k=5))
    url = sql_role("rita", runner=False)

    def client_error() -> InsufficientRights:
        with pytest.raises(InsufficientRights) as caught:
            verify(open_store(url), parse_relation("release.people"))
        return caught.value

    assert "GRANT dbanon_runner" in str(client_error().hint)
    sql_server.execute("GRANT dbanon_runner TO rita", url=sql_url)
    assert client_error().hint == 'Its owner runs: GRANT SELECT ON "release"."people" TO …;'
    sql_server.execute("GRANT SELECT ON release.people TO rita", url=sql_url)
    assert verify(open_store(url), parse_relation("release.people")).k_achieved == 5
