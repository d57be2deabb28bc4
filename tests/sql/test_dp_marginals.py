"""CALL dbanon.dp_marginals: how much rho it spends, and what it records."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import psycopg
import pytest

import dbanon
from dbanon.job.concentrated import rho_of
from tests.prerequisites import import_or_skip
from tests.sql.private_calls import CALL, Connect, Run, spent, state_of

import_or_skip("opendp")

RHO_CALL = CALL.replace("dp_ranks", "dp_marginals").replace(
    "budget => 'magic'",
    """budget => 'magic', options => '{{"accounting": "zcdp", "delta": 1e-9}}'""",
)


@pytest.fixture
def sql_url(private_url: str) -> str:
    """A database with OpenDP next to dbanon, and rows to release."""
    return private_url


def test_a_call_spends_rho_and_no_entry_records_less(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], sql_url: str
) -> None:
    """A runner records the charge, and nothing for a budget with another accounting."""
    dbanon.create_budget(sql_url, "magic", source="app.magic", epsilon=6, delta=1e-9)
    anna = connect(sql_role("anna"))
    anna.execute(RHO_CALL.format("first", 3))
    total, spendings = spent(run_sql)
    assert (total, spendings) == (pytest.approx(rho_of(3, 1e-9), abs=1e-9), 1)
    assert run_sql(
        "SELECT method, epsilon::float8, delta, rho::float8, rows_out FROM dbanon.release"
    ) == [("dp_marginals", 3.0, 1e-9, total, 1000)]
    assert dbanon.verify(sql_url, "release.first").unchanged
    anna.execute("BEGIN")
    with pytest.raises(psycopg.Error, match="transaction is open") as failure:
        anna.execute(RHO_CALL.format("second", 1))
    assert state_of(failure) == "25001"
    anna.execute("ROLLBACK")
    assert spent(run_sql) == (total, 1)

    # Attack: spend little rho and record more, or nothing; or promise an epsilon that costs much
    # more, with and without delta.
    for epsilon, options in (
        (0.001, ""),
        (0.001, ", 'rho', 1"),
        (0.001, ", 'rho', 'NaN'"),
        (0.001, ", 'rho', 0.01, 'delta', 1"),
        (0.001, ", 'rho', 0.01, 'delta', 0"),
        (10, ", 'rho', 0.01, 'delta', 1e-9"),
        (0.93, ", 'rho', 0.01, 'delta', 1e-9"),
        (5, ", 'rho', 0.01"),
        (0.15, ", 'rho', 0.01"),
        ("'NaN'", ", 'rho', 0.01"),
    ):
        id_ = str(uuid.uuid4())
        anna.execute("SELECT dbanon._spend('magic', 0.01, %s)", (id_,))
        anna.execute("BEGIN")
        anna.execute("CREATE TABLE release.x (a int)")
        anna.execute(f"COMMENT ON TABLE release.x IS 'dbanon release {id_}'")
        entry = (
            "jsonb_build_object('release_id', %s::text, 'relation_oid', 'release.x'::regclass::oid,"
            " 'output_oid', 'release.x'::regclass::oid, 'dbanon_version', '0', 'source',"
            " 'app.magic', 'method', 'dp_marginals', 'arguments', '{}'::jsonb, 'rows_in', 1,"
            " 'rows_out', 1, 'suppressed', 0, 'null_rows', 0, 'seconds', '{}'::jsonb,"
            " 'guarantee', '', 'seed_policy', '', 'earlier_releases', '', 'epsilon',"
            f" {epsilon}, 'neighbours', 'row', 'budget', 'magic'{options})"
        )
        with pytest.raises(psycopg.Error, match="Nothing was spent"):
            anna.execute(
                f"SELECT dbanon._record_release({entry}, '[]', '{{\"door\": \"sql\"}}')", (id_,)
            )
        anna.execute("ROLLBACK")
