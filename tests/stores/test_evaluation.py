"""Evaluation in the run that makes a release: its figures, where they go, how it fails."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.errors import Cancelled, OriginalChanged
from dbanon.release import evaluation
from dbanon.release.report import Report
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.sql_counts import compute_column_moments
from tests.stores.databases import Database, SqliteDatabase
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

NUMERIC = ["age", "height"]


def recorded(database: Database) -> Any:
    [(text,)] = database.rows(f"SELECT evaluation FROM {database.ledger()}")
    return json.loads(text) if isinstance(text, str) else text


def frame_evaluation(database: Database, **options: Any) -> Any:
    """The figures of the same release made from a data frame."""
    import pandas as pd

    rows = database.rows(f"SELECT id, age, height FROM {database.relation('people')} ORDER BY id")
    frame = pd.DataFrame(rows, columns=["id", "age", "height"])
    frame["height"] = frame["height"].astype(float)
    return dbanon.anonymize_frame(frame, quasi_identifiers=NUMERIC, **options)[1].evaluation


def test_the_report_and_the_ledger_have_the_figures(database: Database) -> None:
    load_people(database)
    report = database.anonymize(quasi_identifiers=NUMERIC, evaluate=True)
    evaluation = report.evaluation
    assert evaluation is not None
    assert report.evaluation_failed is None
    assert (
        recorded(database) == json.loads(json.dumps(evaluation)) == report.to_dict()["evaluation"]
    )
    # The loss of the written values.
    assert evaluation["losses"]["sse_loss"] == report.information_loss
    exact = report.internal.evaluation["losses"]["sse_loss"]
    assert exact == pytest.approx(report.internal.information_loss, rel=1e-9)
    assert evaluation["rows"] == report.rows_out
    assert evaluation["risks"]["class_risk"] == 1 / report.smallest_class
    assert 0 < evaluation["risks"]["linkage_risk"] <= 1 / 3
    assert report.arguments["evaluate"] is True
    assert "evaluate" in report.seconds
    assert f"linkage_risk {evaluation['risks']['linkage_risk']:.6g}" in " ".join(
        str(report).split()
    )
    [state] = dbanon.releases(database.url)
    assert dbanon.show(database.url, state.release_id)["evaluation"] == evaluation


def test_nobody_asked(database: Database) -> None:
    load_people(database)
    report = database.anonymize(quasi_identifiers=NUMERIC)
    assert report.evaluation is None
    assert report.evaluation_failed is None
    assert recorded(database) is None
    assert "evaluat" not in str(report)
    assert "evaluate" not in report.seconds


def test_databases_and_frames_say_the_same(database: Database) -> None:
    load_people(database)
    report = database.anonymize(quasi_identifiers=NUMERIC, evaluate=True)
    assert report.evaluation == frame_evaluation(database, k=3, evaluate=True)


def test_withheld_rows_are_counted_and_in_no_figure(database: Database) -> None:
    rows = load_people(database)
    nulls = len(rows) // 10
    database.execute(
        f"UPDATE {database.relation('people')} SET age = NULL WHERE id IN"
        f" (SELECT id FROM {database.relation('people')} ORDER BY id LIMIT {nulls})"
    )
    report = database.anonymize(
        quasi_identifiers=NUMERIC, evaluate=True, nulls="suppress", max_suppression=0.5
    )
    evaluation = report.evaluation
    assert evaluation is not None
    assert evaluation["suppressed"] == report.suppressed == nulls
    assert evaluation["rows"] == report.rows_out


def test_blocks_are_evaluated_as_one_table(database: Database) -> None:
    """A search inside of blocks alone would find too many at home; it sees all rows."""
    rows = load_people(database)
    report = database.anonymize(quasi_identifiers=NUMERIC, evaluate=True, block_size=12)
    evaluation = report.evaluation
    assert evaluation is not None
    assert evaluation["rows"] == len(rows) > 24
    released = database.rows(f"SELECT age, height FROM {database.relation('release.people')}")
    originals = database.rows(f"SELECT age, height FROM {database.relation('people')}")
    same = dbanon_linkage(originals, released)
    assert evaluation["risks"]["linkage_risk"] <= same + 1e-9


def dbanon_linkage(originals: list[Any], released: list[Any]) -> float:
    """The most that an attacker can identify: one row of the nearest class."""
    import numpy as np

    before = np.array([[float(x) for x in row] for row in originals])
    after, sizes = np.unique(
        np.array([[float(x) for x in row] for row in released]), axis=0, return_counts=True
    )
    centre, spread = before.mean(axis=0), before.std(axis=0, ddof=1)
    z, w = (before - centre) / spread, (after - centre) / spread
    distances = ((z[:, None, :] - w[None, :, :]) ** 2).sum(axis=2)
    return float((1 / sizes[distances.argmin(axis=1)]).mean())


@pytest.mark.parametrize(
    ("policy", "columns"),
    [
        ({"method": "gaa_cp"}, ["age", "name"]),
        ({"method": "individual_ranking", "guarantee": "per_attribute"}, NUMERIC),
        ({"method": "mdav", "recoding": "medoid"}, NUMERIC),
        ({"method": "mdav", "by": ["half"]}, NUMERIC),
    ],
    ids=["labels", "per attribute", "medoid", "strata"],
)
def test_every_kind_of_release(
    database: Database, policy: dict[str, Any], columns: list[str]
) -> None:
    load_people(database)
    if "by" in policy:
        people = database.relation("people")
        database.execute(
            f"ALTER TABLE {people} ADD COLUMN half {database.types['integer']}",
            f"UPDATE {people} SET half = id % 2",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = database.anonymize(quasi_identifiers=columns, evaluate=True, **policy)
    evaluation = report.evaluation
    assert evaluation is not None, report.evaluation_failed
    assert evaluation["rows"] == report.rows_out
    if policy["method"] == "gaa_cp":
        assert evaluation["losses"]["label_loss"] == report.information_loss
        exact = report.internal.evaluation["losses"]["label_loss"]
        assert exact == pytest.approx(report.internal.information_loss, rel=1e-6)
    if "guarantee" in policy:
        assert evaluation["risks"]["class_risk"] > 1 / 3


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*args: Any, **named: Any) -> Any:
        raise error

    monkeypatch.setattr(evaluation, "evaluation_of_figures", fail)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("12345.678"), "unexpectedly (ValueError)"),
        (MemoryError(), "too little memory"),
        (dbanon.errors.InvalidParameter("Column age holds 1 labels."), "Column age holds"),
    ],
    ids=["unexpected", "memory", "ours"],
)
def test_its_failure_fails_nothing_else(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    load_people(database)
    _fails(monkeypatch, error)
    report = database.anonymize(quasi_identifiers=NUMERIC, evaluate=True)
    assert report.evaluation is None
    assert words in str(report.evaluation_failed)
    assert words in str(report)
    assert "12345" not in json.dumps(report.to_dict())
    assert recorded(database) is None
    assert database.rows(f"SELECT count(*) FROM {database.relation('release.people')}") == [
        (report.rows_out,)
    ]


@pytest.mark.parametrize("error", [Cancelled(), KeyboardInterrupt(), RuntimeError("enough")])
def test_who_ends_the_run_ends_it(database: Database, error: BaseException) -> None:
    load_people(database)
    before = database.relations()

    def progress(phase: str, share: float) -> None:
        if phase == "evaluate" and share > 0:
            raise error

    with pytest.raises(type(error)):
        database.anonymize(quasi_identifiers=NUMERIC, evaluate=True, progress=progress)
    assert ("release", "people") not in database.relations() - before
    if database.name != "sqlite":
        assert [name for schema, name in database.relations() - before if schema == "release"] in (
            [],
            [""],
        )


def test_progress_goes_up(database: Database) -> None:
    load_people(database)
    shares: list[float] = []

    def progress(phase: str, share: float) -> None:
        if phase == "evaluate":
            shares.append(share)

    report: Report = database.anonymize(quasi_identifiers=NUMERIC, evaluate=True, progress=progress)
    assert report.evaluation is not None
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(set(shares)) > 10


# --- later ---------------------------------------------------------------------------------------


def figures(evaluation: Any, note: str) -> dict[tuple[str, str | None], float]:
    return {
        (f.measure, f.attribute): f.value for f in evaluation.figures if f.note.startswith(note)
    }


def test_later_the_ledger_is_read_and_both_relations_compared(database: Database) -> None:
    load_people(database)
    report = database.anonymize(quasi_identifiers=[*NUMERIC, "income"], evaluate=True)
    evaluation = dbanon.evaluate_release(database.url, "release.people", original="people")
    assert report.evaluation is not None
    assert (evaluation.release_id, evaluation.evaluation) == (report.release_id, report.evaluation)
    recorded_figures, counted = figures(evaluation, "recorded"), figures(evaluation, "counted now")
    from_tables = figures(evaluation, "from source and release alone")
    assert recorded_figures["linkage_risk", None] == report.evaluation["risks"]["linkage_risk"]
    assert counted["class_risk", None] == 1 / report.smallest_class
    assert counted["average_class_size", None] == pytest.approx(report.rows_out / report.classes)
    exact = report.internal.evaluation
    for name in ("moment_loss", "structure_loss", "covariance_loss", "correlation_loss"):
        assert from_tables[name, None] == pytest.approx(exact["losses"][name], rel=1e-9), name
    # For rounded values the figures only agree approximately.
    assert from_tables["sse_loss", None] == pytest.approx(exact["losses"]["sse_loss"], abs=1e-3)
    assert from_tables["sse_loss", "age"] == pytest.approx(
        exact["columns"]["age"]["sse_loss"], abs=1e-2
    )
    json.dumps(evaluation.to_dict())


def test_later_without_anything(database: Database) -> None:
    load_people(database)
    report = database.anonymize(quasi_identifiers=NUMERIC)
    evaluation = dbanon.evaluate_release(database.url, "release.people")
    assert evaluation.evaluation is None
    assert figures(evaluation, "recorded") == {}
    assert figures(evaluation, "needs the pairs") == {("linkage_risk", None): None}
    assert figures(evaluation, "counted now")["class_risk", None] == 1 / report.smallest_class
    with pytest.raises(dbanon.errors.ReleaseNotFound):
        dbanon.evaluate_release(database.url, "people")
    with pytest.raises(dbanon.errors.TableNotFound):
        dbanon.evaluate_release(database.url, "release.people", original="nothing")


def test_another_original_is_refused(database: Database) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=NUMERIC)
    people = database.relation("people")
    database.execute(f"DELETE FROM {people} WHERE id = 3")
    with pytest.raises(OriginalChanged, match="39 rows, and had 40") as refused:
        dbanon.evaluate_release(database.url, "release.people", original="people")
    assert (refused.value.exit_code, refused.value.sqlstate) == (6, "ZK008")
    evaluation = dbanon.evaluate_release(
        database.url, "release.people", original="people", changed_source=True
    )
    assert ("sse_loss", None) in figures(evaluation, "from source")
    database.execute(f"CREATE TABLE {database.relation('others')} AS SELECT id, age FROM {people}")
    with pytest.raises(OriginalChanged, match="no column"):
        dbanon.evaluate_release(database.url, "release.people", original="others")


def test_later_with_withheld_rows_ranks_labels_and_strata(database: Database) -> None:
    load_people(database)
    people = database.relation("people")
    database.execute(
        f"ALTER TABLE {people} ADD COLUMN half {database.types['integer']}",
        f"ALTER TABLE {people} ADD COLUMN town {database.types['text']}",
        f"UPDATE {people} SET half = id % 2, town = CASE id % 3 WHEN 0 THEN 'a' ELSE 'b' END",
    )
    report = database.anonymize(
        quasi_identifiers=["height", "town"], by=["half"], method="gaa_cp", evaluate=True, k=9
    )
    evaluation = dbanon.evaluate_release(database.url, "release.people", original="people")
    from_tables, exact = (
        figures(evaluation, "percent"),
        report.internal.evaluation["columns"]["town"],
    )
    assert from_tables["entropy_change", "town"] == pytest.approx(exact["entropy_change"])
    assert not figures(evaluation, "from source")  # height is text in the release
    assert report.evaluation is not None
    database.execute(f"UPDATE {people} SET age = NULL WHERE id < 4")
    database.anonymize(
        quasi_identifiers=NUMERIC, output="release.fewer", nulls="suppress", max_suppression=0.5
    )
    withheld = dbanon.evaluate_release(database.url, "release.fewer", original="people")
    assert figures(withheld, "rows were withheld")["sse_loss", None] is None


def test_a_column_that_stays_constant(database: Database) -> None:
    load_people(database)
    people = database.relation("people")
    database.execute(f"UPDATE {people} SET height = 170")
    report = database.anonymize(quasi_identifiers=[*NUMERIC, "income"], evaluate=True)
    evaluation = dbanon.evaluate_release(database.url, "release.people", original="people")
    from_tables, exact = figures(evaluation, "from source"), report.internal.evaluation["losses"]
    for name in ("moment_loss", "structure_loss", "covariance_loss", "correlation_loss"):
        assert from_tables[name, None] == pytest.approx(exact[name], rel=1e-9), name
    assert ("sse_loss", "height") not in from_tables


def test_the_command(database: Database) -> None:
    from click.testing import CliRunner

    from dbanon.doors.cli.main import main

    load_people(database)
    words_of_source = ["--table", "people", "--output", "release.people", "--k", "3", "-q", "age"]
    completed = CliRunner().invoke(
        main, ["anonymize", database.url, *words_of_source, "--evaluate"]
    )
    assert completed.exit_code == 0, completed.output
    assert "linkage_risk" in completed.stdout
    line = ["evaluate", database.url, "release.people", "--original", "people"]
    evaluated = CliRunner().invoke(main, line)
    assert evaluated.exit_code == 0, evaluated.output
    assert "recorded when it was released" in evaluated.stdout
    assert "from source and release alone" in evaluated.stdout
    named = CliRunner().invoke(main, [line[0], *line[2:]], env={"DBANON_URL": database.url})
    assert named.stdout == evaluated.stdout
    plain = json.loads(CliRunner().invoke(main, [*line, "--format", "json"]).stdout)
    assert plain["evaluation"] == recorded(database)
    database.execute(f"DELETE FROM {database.relation('people')} WHERE id = 1")
    refused = CliRunner().invoke(main, line)
    assert refused.exit_code == 6
    assert "--changed-source" in refused.stderr
    assert CliRunner().invoke(main, [*line, "--changed-source"]).exit_code == 0
    assert CliRunner().invoke(main, [*line[:3], "--changed-source"]).exit_code == 2


def test_covariances_of_two_rows_and_none_of_one(sqlite_file: SqliteDatabase) -> None:
    """Only rows with both values count: a column without values has no pairs."""
    sqlite_file.load(
        "t",
        {"a": "REAL", "b": "REAL", "one": "REAL", "none": "REAL"},
        [(1, 5, 7, None), (3, 1, None, None)],
    )
    with open_store(sqlite_file.url).session(write=False) as session:
        side = compute_column_moments(session, parse_relation("t"), ["a", "b", "one", "none"])
    np.testing.assert_array_equal(side.means, [2, 3, 7, np.nan])
    expected = np.full((4, 4), np.nan)
    expected[:2, :2] = [[2, -4], [-4, 8]]
    np.testing.assert_array_equal(side.covariances, expected)
    assert side.varies.tolist() == [True, True, False, False]
