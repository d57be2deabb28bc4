"""dbanon.evaluate and dbanon.disclosure_risk: recorded, recounted and compared in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pytest

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, 40 + 20 * sin(g)::float8 AS age,"
    " exp(cos(g * 7))::float8 AS income, (g * 7919 % 101)::float8 AS weight,"
    " (ARRAY['Kiel', 'Ulm', 'Celle'])[1 + g % 3] AS town FROM generate_series(1, 120) AS g"
)
MAKE_RELEASE = (
    "SELECT dbanon.mdav('app.people', 'release.p', '{age,income,weight}', 5,"
    """ options => '{"evaluate": true}')"""
)
COLUMNS = ("moment_loss", "structure_loss", "covariance_loss", "correlation_loss", "sse_loss")
NAMES = ("age", "income", "weight")
NOW, BY_COMPARISON = "counted now", "from source and release alone"


def figures(rows: list[tuple[Any, ...]], note: str) -> dict[tuple[str, str | None], float]:
    return {(row[0], row[1]): row[2] for row in rows if str(row[3]).startswith(note)}


def exact_of(run_sql: Run, columns: tuple[str, ...], method: str, k: int) -> dict[str, Any]:
    """The exact evaluation of the same release of a data frame."""
    names = ", ".join(columns)
    frame = pd.DataFrame(
        run_sql(f"SELECT {names} FROM app.people ORDER BY id"), columns=list(columns)
    )
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(columns), k=k, method=method, evaluate=True
    )
    assert report.internal is not None
    assert report.internal.evaluation is not None
    return dict(report.internal.evaluation)


def test_recorded_counted_and_compared(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(MAKE_RELEASE)
    rows = run_sql("SELECT * FROM dbanon.evaluate('release.p', 'app.people')")
    recorded = figures(rows, "recorded")
    evaluation = dbanon.show(sql_url, "release.p")["evaluation"]
    for kind in ("losses", "risks"):
        for name, value in evaluation[kind].items():
            if value is not None and name not in evaluation["notes"]:
                assert recorded[name, None] == value, name
    assert recorded["sse_loss", "age"] == evaluation["columns"]["age"]["sse_loss"]
    # Undefined figures are NULL, with a reason.
    assert [row[2:] for row in rows if row[0] == "label_loss"] == [
        (None, evaluation["notes"]["label_loss"])
    ]
    counted = figures(rows, NOW)
    assert counted["class_risk", None] == recorded["class_risk", None]
    sizes = [n for (n,) in run_sql("SELECT count(*) FROM release.p GROUP BY age, income, weight")]
    assert counted["discernibility", None] == sum(n * n for n in sizes)
    assert counted["average_class_size", None] == 120 / len(sizes)
    assert counted["average_class_risk", None] == pytest.approx(len(sizes) / 120)
    # These follow from both relations: exact figures, computed without pairs.
    compared, exact = figures(rows, BY_COMPARISON), exact_of(run_sql, NAMES, "mdav", 5)
    for name in COLUMNS:
        assert compared[name, None] == pytest.approx(exact["losses"][name], rel=1e-9), name
        assert recorded[name, None] != exact["losses"][name]
    [(model_loss, before, by_column)] = run_sql(
        "SELECT information_loss, information_loss_before_rounding, column_losses"
        " FROM release.p_summary"
    )
    assert model_loss == before == recorded["sse_loss", None] != exact["losses"]["sse_loss"]
    assert by_column == {name: recorded["sse_loss", name] for name in NAMES}
    for column in NAMES:
        column_loss = exact["columns"][column]["sse_loss"]
        assert compared["sse_loss", column] == pytest.approx(column_loss, rel=1e-9)


def test_disclosure_risk_is_its_risks(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql(MAKE_RELEASE)
    rows = run_sql("SELECT * FROM dbanon.disclosure_risk('release.p')")
    assert sorted({row[0] for row in rows if row[1] is None}) == [
        "average_class_risk",
        "class_risk",
        "disclosure_risk",
        "interval_risk",
        "linkage_risk",
        "nearest_linkage_risk",
        "score",
        "security_ratio",
    ]
    assert {row[1] for row in rows if row[0] == "interval_risk"} == {None, *NAMES}


def test_of_a_release_that_was_not_evaluated(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("SELECT dbanon.mdav('app.people', 'release.p', '{age,weight}', 5)")
    rows = run_sql("SELECT * FROM dbanon.evaluate('release.p')")
    assert figures(rows, "recorded") == {}
    assert figures(rows, NOW)["class_risk", None] == 0.2
    assert [row[2] for row in rows if row[0] == "linkage_risk"] == [None]
    assert run_sql("SELECT evaluation FROM release.p_summary") == [(None,)]


def test_the_summary_has_it_without_small_counts(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET age = NULL WHERE id < 3")
    run_sql(
        "SELECT dbanon.mdav('app.people', 'release.p', '{age,weight}', 5, nulls => 'suppress',"
        """ max_suppression => 0.5, options => '{"evaluate": true}')"""
    )
    [(public,)] = run_sql("SELECT evaluation FROM release.p_summary")
    assert public["suppressed"] == "1-4"
    assert public["risks"]["linkage_risk"] <= 0.2
    [(internal,)] = run_sql("SELECT evaluation FROM dbanon.release")
    assert internal["suppressed"] == 2
    assert {**internal, "suppressed": 0} == {**public, "suppressed": 0}
    rows = run_sql("SELECT * FROM dbanon.evaluate('release.p', 'app.people')")
    [withheld] = [row for row in rows if row[0] == "covariance_loss" and row[2] is None]
    assert "withheld" in withheld[3]


def test_a_client_writes_into_an_installed_ledger(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    report = dbanon.anonymize(
        sql_url,
        table="app.people",
        output="release.p",
        quasi_identifiers=["age", "weight"],
        k=5,
        key=["id"],
        evaluate=True,
    )
    [(recorded,)] = run_sql("SELECT evaluation FROM dbanon.release")
    assert recorded == report.evaluation
    rows = run_sql("SELECT * FROM dbanon.evaluate('release.p')")
    assert figures(rows, "recorded")["linkage_risk", None] == recorded["risks"]["linkage_risk"]


def test_entropy_of_labels(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql(
        "SELECT dbanon.gaa_cp('app.people', 'release.p', '{age,town}', 30,"
        """ options => '{"evaluate": true}')"""
    )
    rows = run_sql("SELECT * FROM dbanon.evaluate('release.p', 'app.people')")
    compared, exact = figures(rows, "percent"), exact_of(run_sql, ("age", "town"), "gaa_cp", 30)
    assert compared["entropy_change", "town"] == pytest.approx(
        exact["columns"]["town"]["entropy_change"], rel=1e-9, abs=1e-9
    )
    # age is text now.
    assert ("sse_loss", None) not in figures(rows, BY_COMPARISON)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("DELETE FROM app.people WHERE id = 7", "119 rows, and had 120"),
        ("ALTER TABLE app.people RENAME town TO place", "no column town"),
    ],
)
def test_another_original_is_refused(run_sql: Run, change: str, match: str) -> None:
    run_sql(PEOPLE)
    run_sql(MAKE_RELEASE)
    run_sql(change)
    with pytest.raises(psycopg.Error, match=match) as refused:
        run_sql("SELECT dbanon.evaluate('release.p', 'app.people')")
    assert refused.value.sqlstate == "ZK008"
    rows = run_sql(
        "SELECT * FROM dbanon.evaluate('release.p', 'app.people', '{\"changed_source\": true}')"
    )
    assert figures(rows, BY_COMPARISON)["sse_loss", None] > 0


@pytest.mark.parametrize(
    "options",
    [
        "[]",
        '"a"',
        '{"x": 1}',
        '{"quasi_identifiers": "age"}',
        '{"quasi_identifiers": []}',
        '{"quasi_identifiers": [1]}',
        '{"changed_source": "yes"}',
    ],
)
def test_wrong_options(run_sql: Run, options: str) -> None:
    run_sql(PEOPLE)
    with pytest.raises(psycopg.Error) as refused:
        run_sql(f"SELECT dbanon.evaluate('app.people', NULL, '{options}')")
    assert refused.value.sqlstate == "22023"


def test_relations_of_anybody(run_sql: Run, connect: Connect, sql_role: Any) -> None:
    """Not in the ledger: another tool's output, with named columns."""
    run_sql(PEOPLE)
    run_sql("CREATE TABLE release.noise AS SELECT age + 5 * cos(id * 3) AS age FROM app.people")
    named = """'{"quasi_identifiers": ["age"]}'"""
    rows = run_sql(f"SELECT * FROM dbanon.evaluate('release.noise', 'app.people', {named})")
    assert figures(rows, NOW)["class_risk", None] == 1
    # Noise spreads values; nothing is clipped.
    assert figures(rows, BY_COMPARISON)["sse_loss", None] < 0
    with pytest.raises(psycopg.errors.UndefinedTable, match="no release"):
        run_sql("SELECT dbanon.evaluate('release.noise')")
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON release.noise TO anna")
    anna.execute(f"SELECT dbanon.evaluate('release.noise', NULL, {named})".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        anna.execute(f"SELECT dbanon.evaluate('release.noise', 'app.people', {named})".encode())


def test_values_are_never_in_an_error(run_sql: Run) -> None:
    run_sql(
        "CREATE TABLE app.huge AS SELECT 1e300::numeric * 1e300 * g AS n"
        " FROM generate_series(1, 9) AS g"
    )
    with pytest.raises(psycopg.Error) as refused:
        run_sql(
            "SELECT dbanon.evaluate('app.huge', 'app.huge', '{\"quasi_identifiers\": [\"n\"]}')"
        )
    diagnostics = refused.value.diag
    assert diagnostics.sqlstate == "22003"
    assert "000" not in f"{diagnostics.message_primary}{diagnostics.message_detail}"


def test_rows_that_policies_would_hide_are_an_error(
    run_sql: Run, connect: Connect, sql_role: Any
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("ALTER TABLE app.people ENABLE ROW LEVEL SECURITY")
    run_sql("CREATE POLICY few ON app.people USING (id < 9)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        anna.execute(
            b"SELECT dbanon.evaluate('app.people', 'app.people',"
            b' \'{"quasi_identifiers": ["age"]}\')'
        )


def test_a_release_made_inside_the_database_has_a_certificate(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(MAKE_RELEASE.replace('{"evaluate": true}', '{"certificate": 30}'))
    details = dbanon.show(sql_url, "release.p")
    certificate = details["arguments"]["certificate"]
    assert (certificate["limit"], certificate["records"], certificate["k"]) == (30, 120, 5)
    assert certificate["method"] in ("neighbours", "pairs", "classes", "fitting")
    numbers = run_sql("SELECT age, income, weight FROM app.people")
    bound = dbanon.lower_bound(np.array(numbers, float), 5)
    assert bound > 0
    assert certificate["lower_bound"] is None
    assert 0 <= certificate["above"] == round(certificate["above"], 2)
    with pytest.raises(psycopg.Error, match="certificate"):
        run_sql(
            MAKE_RELEASE.replace("release.p", "release.q").replace(
                '{"evaluate": true}', '{"certificate": 0}'
            )
        )


def test_merged_cells_are_suppressed_in_a_run_of_the_server(run_sql: Run) -> None:
    """As in the evaluation of the same rows in a data frame."""
    run_sql(PEOPLE)
    # Links of suppressed cells depend on the order of the records, here the frame's.
    run_sql("ALTER TABLE app.people ADD PRIMARY KEY (id)")
    run_sql("UPDATE app.people SET age = NULL WHERE id <= 2")
    run_sql("UPDATE app.people SET age = NULL, income = NULL WHERE id BETWEEN 3 AND 12")
    [(loss,)] = run_sql(
        "SELECT information_loss FROM"
        " dbanon.mdav('app.people', 'release.m', '{age,income,weight}', 5, nulls => 'merge',"
        """ options => '{"evaluate": true}')"""
    )
    assert loss > 0
    [(public, exact)] = run_sql(
        "SELECT r.evaluation, dbanon.internal_figures('release.m') FROM dbanon.release AS r"
        " WHERE r.output_name = 'm'"
    )
    assert public["suppressed_cells"] == exact["evaluation"]["suppressed_cells"] == 2
    frame = pd.DataFrame(
        run_sql("SELECT age, income, weight FROM app.people ORDER BY id"), columns=list(NAMES)
    )
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(NAMES), k=5, method="mdav", evaluate=True, nulls="merge"
    )
    assert report.internal is not None
    for kind in ("losses", "risks"):
        actual, expected = exact["evaluation"][kind], report.internal.evaluation[kind]
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name] == (None if value is None else pytest.approx(value)), name
