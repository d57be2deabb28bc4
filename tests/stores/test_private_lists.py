"""Differentially private releases of text, enumerated types and truths of databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    BoundsRequired,
    HierarchyNotFound,
    InvalidParameter,
    RecountFailed,
    SourceChanged,
    TableNotFound,
    UnsupportedType,
)
from dbanon.extensions.synthesis import run as private
from tests.prerequisites import import_or_skip, skip_case
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

import_or_skip("opendp")

JOBS = ("nurse", "baker", "clerk", "retired")
# Whom none of them is.
STRANGE = ("Nürse", "nurse ", "", "NURSE", "*", "o'neill")
N = 1000
TREE = {"tree": {"*": {"at work": ["nurse", "baker", "clerk"], "at home": ["retired"]}}}


def load(
    database: Database, job: str = "", nulls: str = "NOT NULL", *, budget: bool = True
) -> None:
    """Jobs of which a tenth is in no list, and truths; a third of both NULL where they may be."""
    maybe = "" if nulls else None
    rows = []
    for g in range(N):
        standard_job = JOBS[0 if g % 2 else g // 2 % 4]
        name = STRANGE[g // 10 % len(STRANGE)] if g % 10 == 0 and not job else standard_job
        none = maybe is None and g % 3 == 0
        rows.append((None if none else name, None if none else g % 4 == 0, g % 100))
    truth = "BOOLEAN"
    kind = job or database.types["text"]
    database.load(
        "people",
        {"job": f"{kind} {nulls}", "ill": f"{truth} {nulls}", "n": "integer NOT NULL"},
        rows,
    )
    if budget:
        dbanon.create_budget(database.url, "people", source="people", epsilon=30)


def release(database: Database, **overrides: Any) -> Any:
    options: dict[str, Any] = {
        "table": "people",
        "quasi_identifiers": ["job", "ill"],
        "method": "dp_ranks",
        "epsilon": 10.0,
        "orders": {"job": JOBS},
        "null_as": {"job": "other"},
        "budget": "people",
        "output": "release.people",
    }
    return dbanon.anonymize(database.url, **(options | overrides))


def jobs(database: Database, of: str = "release.people") -> dict[str, int]:
    query = f"SELECT job, count(*) FROM {database.relation(of)} GROUP BY job"
    return {str(job): int(rows) for job, rows in database.rows(query)}


def spent(database: Database) -> float:
    return dbanon.show_budget(database.url, "people").spent


def test_text_of_a_public_list(database: Database) -> None:
    load(database)
    report = release(database)
    counts = jobs(database)
    assert set(counts) <= {*JOBS, "other"}
    assert sum(counts.values()) == N
    # 500 and a fourth of the others, except for the tenth that is in no list. The tolerance is six
    # standard deviations of the row sampling; the noise is much smaller.
    assert abs(counts["nurse"] - 600) < 95
    assert abs(counts["other"] - 100) < 60
    text = (
        str(report)
        + json.dumps(report.to_dict())
        + str(dbanon.show(database.url, "release.people"))
    )
    assert not any(name in text for name in ("Nürse", "NURSE", "o'neill"))
    shown_arguments = dbanon.show(database.url, "release.people")["arguments"]
    assert shown_arguments["listed"] == {"job": [*JOBS, "other"]}
    assert shown_arguments["between"] == {"job": [], "ill": []}
    assert dbanon.verify(database.url, "release.people").unchanged
    relation = database.relation("release.people")
    database.execute(f"UPDATE {relation} SET job = 'nurses' WHERE job = 'nurse'")
    with pytest.raises(RecountFailed, match=f"{counts['nurse']} of them have"):
        dbanon.verify(database.url, "release.people")


@pytest.mark.parametrize(
    ("damage", "rows", "wrong"),
    [
        ("UPDATE {} SET job = 'nurses' WHERE job = 'nurse'", str(N), "[1-9][0-9]*"),
        ("DELETE FROM {} WHERE job = 'other'", "[1-9][0-9]{2}", "0"),
        ("INSERT INTO {0} SELECT * FROM {0}", str(2 * N), "0"),
    ],
    ids=["outside", "fewer", "more"],
)
def test_rows_that_are_not_as_drawn_are_not_published_and_it_stays_spent(
    database: Database, monkeypatch: pytest.MonkeyPatch, damage: str, rows: str, wrong: str
) -> None:
    write = private.write_rows

    def damaged(session: Any, output: Any, *args: Any) -> None:
        write(session, output, *args)
        session.run(damage.format(output.staging_name.quoted))

    load(database)
    before = database.relations()
    monkeypatch.setattr(private, "write_rows", damaged)
    message = f"^The table has {rows} synthetic rows, where {N} were written, and {wrong} of them"
    with pytest.raises(RecountFailed, match=message):
        release(database)
    assert spent(database) == 10.0
    assert dbanon.releases(database.url) == []
    assert not {name for _, name in database.relations() - before if "people" in name}


def test_a_hierarchy_of_a_table_a_file_or_a_name(database: Database, tmp_path: Path) -> None:
    load(database)
    database.load(
        "tree",
        {"child": database.types["text"], "parent": database.types["text"]},
        [
            ("*", None),
            ("at work", "*"),
            ("at home", "*"),
            *((job, "at work") for job in JOBS[:3]),
            ("retired", "at home"),
        ],
    )
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(TREE["tree"]))
    dbanon.store_hierarchy(database.url, "jobs", dbanon.Hierarchy.from_json(TREE["tree"]))
    for hierarchy in ("table:tree", "name:jobs", file, TREE):
        report = release(
            database, orders={}, hierarchies={"job": hierarchy}, if_exists="replace", epsilon=3.0
        )
        assert set(jobs(database)) <= {*JOBS, "other"}
        recorded = report.arguments["hierarchies"]["job"]
        assert (recorded["leaves"], recorded["height"]) == (4, 2)
    assert spent(database) == 12.0


def test_what_public_figures_refuse_spends_nothing(database: Database) -> None:
    load(database, nulls="")
    none: dict[str, Any] = {"orders": {}}
    both = {"job": "other", "ill": False}
    for error, overrides in (
        (BoundsRequired, none),
        (InvalidParameter, {"null_as": {"job": "other"}}),
        (InvalidParameter, {"null_as": both | {"job": "smith"}}),
        (InvalidParameter, {"orders": {"job": [*JOBS, "a\0b"]}}),
        (InvalidParameter, {"orders": {"job": JOBS[:1] * 2}}),
        (InvalidParameter, {"hierarchies": {"job": TREE}}),
        (InvalidParameter, none | {"hierarchies": {"job": {"mask": True}}}),
        (InvalidParameter, none | {"hierarchies": {"job": {"ordered": True}}}),
        (InvalidParameter, none | {"hierarchies": {"job": {"enum": True}}}),
        (InvalidParameter, none | {"hierarchies": {"job": {"table": "people"}}}),
        (TableNotFound, none | {"hierarchies": {"job": {"table": "nowhere"}}}),
        (HierarchyNotFound, none | {"hierarchies": {"job": {"name": "nothing"}}}),
        (InvalidParameter, {"orders": {"job": JOBS, "n": ["1", "2"]}}),
        (InvalidParameter, {"bounds": {"ill": (0, 2)}}),
    ):
        with pytest.raises(error):
            release(database, **({"null_as": both} | overrides))
    assert spent(database) == 0.0


def test_no_value_ends_a_run(database: Database) -> None:
    """NULL, and on SQLite values that are not text, or text in no encoding."""
    load(database, nulls="")
    if database.name == "sqlite":
        database.execute(
            "UPDATE people SET job = x'ff00fe' WHERE n = 1",
            "UPDATE people SET job = CAST(x'fffe' AS TEXT) WHERE n = 2",
            "UPDATE people SET job = 'a' || char(0) || 'b', ill = 'x' WHERE n = 3",
        )
    release(database, null_as={"job": "retired", "ill": True})
    assert set(jobs(database)) <= {*JOBS, "other"}
    assert jobs(database)["retired"] > N / 4
    assert dbanon.verify(database.url, "release.people").unchanged


def test_persons_have_the_value_that_is_most_frequent(database: Database) -> None:
    load(database, budget=False)
    dbanon.create_budget(
        database.url, "persons", source="people", epsilon=50, unit="person", entity="n"
    )
    report = release(database, budget="persons", entity="n", epsilon=50.0)
    assert report.rows_out == 100
    # 50 numbers are nurses' alone, and 20 of the others as often nurses' as clerks': the first.
    assert abs(jobs(database)["nurse"] - 70) < 25


def made_enum(database: Database) -> str:
    labels = ", ".join(f"'{job}'" for job in JOBS)
    database.execute(f"CREATE TYPE job_kind AS ENUM ({labels})")
    return "job_kind"


def kind_of(database: Database) -> str:
    query = (
        "SELECT data_type, udt_name FROM information_schema.columns"
        " WHERE table_schema = 'release' AND table_name = 'people' AND column_name = 'job'"
    )
    if database.name == "duckdb":
        query = query.replace("udt_name", "data_type")
    [(first, other)] = database.rows(query)
    return f"{first} {other}"


def test_the_labels_of_a_type_are_the_list(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type is in the catalog, whatever rows there are; a list of the caller's goes before."""
    if database.name == "sqlite":
        skip_case("SQLite has no enumerated types")
    load(database, made_enum(database), nulls="")
    options: dict[str, Any] = {"orders": {}, "null_as": {"job": "clerk", "ill": False}}
    with pytest.raises(InvalidParameter, match="null_as"):
        release(database, orders={}, null_as={"job": "other", "ill": False})
    release(database, **options, epsilon=5.0)
    assert set(jobs(database)) <= set(JOBS)
    assert "job_kind" in kind_of(database) or "ENUM" in kind_of(database)
    assert dbanon.verify(database.url, "release.people").unchanged
    tree = {"tree": {"*": {"a": JOBS[:2], "b": JOBS[2:]}}}
    for hierarchy in (tree, {"enum": True}):
        release(
            database, **options, hierarchies={"job": hierarchy}, if_exists="replace", epsilon=5.0
        )
        assert "job_kind" in kind_of(database) or "ENUM" in kind_of(database)
    release(
        database,
        orders={"job": ["nurse", "smith"]},
        null_as={"job": "other", "ill": False},
        if_exists="replace",
        epsilon=5.0,
    )
    assert set(jobs(database)) <= {"nurse", "smith", "other"}
    assert "text" in kind_of(database) or "VARCHAR" in kind_of(database)
    assert dbanon.verify(database.url, "release.people").unchanged
    if database.name == "postgresql":
        # The type changes after the budget is spent, and the run fails.
        spending = private._spend_with_retries

        def then_altered(store: Any, initial_ledger: Any) -> Any:
            result = spending(store, initial_ledger)
            database.execute("ALTER TYPE job_kind ADD VALUE 'smith'")
            return result

        monkeypatch.setattr(private, "_spend_with_retries", then_altered)
        with pytest.raises(SourceChanged, match="stays spent"):
            release(database, **options, epsilon=5.0, if_exists="replace")
        assert spent(database) == 25.0


def test_types_that_are_no_list_are_refused(database: Database) -> None:
    kind, value = {
        "postgresql": ("jsonb", "'[]'"),
        "duckdb": ("INTEGER[]", "[1]"),
        "sqlite": ("BLOB", "x'00'"),
    }[database.name]
    database.load("people", {"job": f"{kind} NOT NULL"}, [])
    database.execute(f"INSERT INTO people VALUES ({value})")
    dbanon.create_budget(database.url, "people", source="people", epsilon=3)
    with pytest.raises(UnsupportedType, match="is not a number"):
        release(database, quasi_identifiers=["job"], epsilon=1.0)
    assert spent(database) == 0.0


def test_the_command_line_and_a_job_of_a_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    tree = tmp_path / "jobs.json"
    tree.write_text(json.dumps(TREE["tree"]))
    words = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "-q",
        "job",
        "-q",
        "ill",
        "--method",
        "dp_ranks",
        "--epsilon",
        "5",
        "--budget",
        "people",
        "--null-as",
        "job=other",
    ]
    for more in (["--order", "job=nurse,baker,clerk,retired"], ["--hierarchy", f"job={tree}"]):
        done = CliRunner().invoke(
            main, [*words, *more, "--output", "release.people", "--if-exists", "replace"]
        )
        assert done.exit_code == 0, done.output
        assert set(jobs(database)) <= {*JOBS, "other"}
    monkeypatch.setenv("DP_SOURCE", database.url)
    file = tmp_path / "jobs.yaml"
    for column in ("order: [nurse, baker, clerk, retired]", "hierarchy: {file: jobs.json}"):
        file.write_text(
            f"""version: 1
source: {{url: "${{DP_SOURCE}}"}}
jobs:
  - name: people
    table: people
    columns:
      job: {{role: quasi_identifier, {column}}}
      ill: {{role: quasi_identifier}}
      n: {{role: identifier}}
    output: {{table: release.people, if_exists: replace}}
    method: dp_ranks
    epsilon: 5
    null_as: {{job: other}}
    budget: people
"""
        )
        report = dbanon.run_job(file)
        assert report.epsilon == 5.0
        assert set(jobs(database)) <= {*JOBS, "other"}
    assert spent(database) == 20.0


def test_what_stands_for_null_may_look_like_a_number(
    database: Database,
) -> None:
    database.load("people", {"zip": "text", "ill": "boolean"}, [("01", True), (None, None)] * 500)
    dbanon.create_budget(database.url, "people", source="people", epsilon=9)
    words = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "-q",
        "zip",
        "-q",
        "ill",
        "--method",
        "dp_ranks",
        "--epsilon",
        "9",
        "--budget",
        "people",
        "--order",
        "zip=01,02",
        "--null-as",
        "zip=02",
        "--null-as",
        "ill=false",
        "--output",
        "release.people",
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    zip_codes = {
        zip_code
        for (zip_code,) in database.rows("SELECT zip FROM " + database.relation("release.people"))
    }
    assert {"01", "02"} <= zip_codes <= {"01", "02", "other"}


def test_names_and_values_with_question_marks(database: Database) -> None:
    """Some drivers take them for parameters."""
    database.load(
        "people",
        {"a?b": f"{database.types['text']} NOT NULL", "n?": "integer NOT NULL"},
        [(("x?", "%s")[g % 2], g % 100) for g in range(N)],
    )
    dbanon.create_budget(database.url, "people", source="people", epsilon=30)
    dbanon.anonymize(
        database.url,
        table="people",
        output="drawn",
        quasi_identifiers=["a?b", "n?"],
        method="dp_ranks",
        epsilon=9,
        budget="people",
        bounds={"n?": (0, 100)},
        hierarchies={"a?b": {"tree": {"*": ["x?", "%s"]}}},
    )
    assert dbanon.verify(database.url, "drawn").rows == N


def test_synthetic_rows_are_compared_by_what_readers_compute(
    database: Database, tmp_path: Path
) -> None:
    """They have no classes, and noise gives them ``other``, which a hierarchy names."""
    load(database)
    release(database, quasi_identifiers=["job", "n"], bounds={"n": (0, 100)}, epsilon=20)
    (tmp_path / "job.csv").write_text("".join(f"{job};*\n" for job in (*JOBS, "other")))
    (tmp_path / "analyses.yaml").write_text("[{quantiles: 'n'}, {table: job}, {rare: job}]")
    line = ["evaluate", database.url, "release.people", "--original", "people"]
    refused = CliRunner().invoke(main, line)
    assert refused.exit_code == 2
    assert "given the original and a file of analyses" in refused.stderr
    line += ["--analyses", f"{tmp_path}/analyses.yaml", "--hierarchy", f"job={tmp_path}/job.csv"]
    done = CliRunner().invoke(main, [*line, "--format", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    [figure] = document["figures"]
    assert figure["value"] is None
    assert figure["note"] == "synthetic rows belong to no person and have no classes"
    quantiles, jobs, _ = document["analyses"]["analyses"]
    assert abs(quantiles["estimates"][2]["difference"]) < 15
    # A tenth of the originals are strange, and `other` in the release.
    assert 0.1 <= jobs["estimates"][0]["distance"] < 0.2
