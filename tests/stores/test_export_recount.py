"""Files of releases are counted: before anyone sees them, and at any time after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from dbanon.doors.cli.main import main
from dbanon.errors import RecountFailed, RowsNotAnonymous
from dbanon.run import export as exporting
from dbanon.stores.exports import formats
from tests.stores.databases import Database
from tests.stores.people import load_people, rows_of_people

# No engine decides of these.
pytestmark = [pytest.mark.usefixtures("no_temporary_file"), pytest.mark.in_turn(of="file")]

AGES: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["site"]}


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def test_a_file_that_holds_something_else_is_never_shown(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recount reads the file itself, not the rows that were meant to be written into it."""
    load_people(database)
    before = database.state()
    write = formats.write

    def one_row_less(file: Any, export: Any, schema: Any, pieces: Any, **more: Any) -> None:
        write(file, export, schema, [batch.slice(1) for batch in pieces], **more)

    def another_age(file: Any, export: Any, schema: Any, pieces: Any, **more: Any) -> None:
        changed = []
        for batch in pieces:
            columns = batch.to_pydict()
            columns["age"][0] += 1000
            changed.append(pa.record_batch(columns, schema=schema))
        write(file, export, schema, changed, **more)

    for wrong in (one_row_less, another_age):
        monkeypatch.setattr(exporting.formats, "write", wrong)
        for kind in ("parquet", "csv"):
            with pytest.raises(RecountFailed, match="differs from the release"):
                database.anonymize(**AGES, exports=[tmp_path / f"people.{kind}"])
    assert database.state()[0] == before[0]
    assert not list(tmp_path.glob("people*.csv"))


def test_models_are_counted_again_in_the_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(*row[:7], "abcd"[i % 4]) for i, row in enumerate(rows_of_people())]
    load_people(database, rows)
    options: dict[str, Any] = {
        "quasi_identifiers": ["age"],
        "sensitive": ["site"],
        "entity": "name",
        "releases": "independent",
        "models": [
            {"kind": "distinct_l", "attribute": "site", "level": 2},
            {"kind": "t_closeness", "attribute": "site", "level": 0.6},
        ],
    }
    for kind in ("parquet", "csv"):
        database.anonymize(**options, output=f"release.{kind}", exports=[tmp_path / f"a.{kind}"])
    write = formats.write

    def one_value(file: Any, export: Any, schema: Any, pieces: Any, **more: Any) -> None:
        changed = [
            pa.record_batch({**batch.to_pydict(), "site": ["a"] * batch.num_rows}, schema=schema)
            for batch in pieces
        ]
        write(file, export, schema, changed, **more)

    monkeypatch.setattr(exporting.formats, "write", one_value)
    with pytest.raises(RecountFailed):
        database.anonymize(**options, exports=[tmp_path / "b.parquet"])
    assert not (tmp_path / "b.parquet").exists()


def test_a_file_is_verified_by_what_it_says(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"
    report = database.anonymize(**AGES, exports=[path])
    done = call("verify", path, "--format", "json")
    assert done.exit_code == 0, done.stderr
    verification = json.loads(done.stdout)
    assert (verification["release_id"], verification["rows"]) == (report.release_id, 40)
    assert verification["k_achieved"] == report.k_achieved
    assert "SHA-256" in call("verify", path).stdout
    assert call("verify", path, "--k", "30").exit_code == 3
    # Attack: classes of two rows pass as the release that the file names.
    done = call("verify", path, "--k", "2")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "[invalid_parameter]" in done.stderr
    assert "Leave --k out." in done.stderr
    assert call("verify", tmp_path / "no.parquet").exit_code == 2
    # Someone else's file, and one that was changed.
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata(None), tmp_path / "own.parquet")
    assert call("verify", tmp_path / "own.parquet").exit_code == 2
    assert call("verify", tmp_path / "own.parquet", "-q", "age", "--k", "3").exit_code == 0
    ages = pa.array(range(len(table)), table.schema.field("age").type)
    changed = table.set_column(table.schema.names.index("age"), "age", ages)
    metadata = {f"dbanon.{k}": v for k, v in formats.metadata_of(path).items()}
    parquet.write_table(changed.replace_schema_metadata(metadata), path)
    done = call("verify", path)
    assert done.exit_code == 3
    assert "[recount_failed]" in done.stderr


def test_a_release_of_each_attribute_by_itself_is_verified_as_such(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"
    with pytest.warns(RowsNotAnonymous):
        database.anonymize(
            quasi_identifiers=["age", "height"],
            method="individual_ranking",
            guarantee="per_attribute",
            exports=[path],
        )
    done = call("verify", path, "--format", "json")
    assert done.exit_code == 0, done.stderr
    verification = json.loads(done.stdout)
    assert verification["k_achieved"] >= 3
    # The displayed query counts each attribute, and runs unchanged.
    queries = [text for text in verification["recount_sql"].split(";") if text.strip()]
    assert len(queries) == 2
    assert min(duckdb.sql(text).fetchall()[0][0] for text in queries) == verification["k_achieved"]


@pytest.mark.parametrize(
    "metadata_changes",
    [
        {"quasi_identifiers": "age"},
        {"quasi_identifiers": "[]"},
        {"quasi_identifiers": "[1]"},
        {"quasi_identifiers": '{"age": 1}'},
        {"k_requested": "two"},
        {"arguments": "[]"},
        {"arguments": "{"},
        {"arguments": '{"by": 5}'},
        {"arguments": '{"by": ["site"]}'},
        {"arguments": '{"guarantee": "all"}'},
        {"arguments": '{"guarantee": ["rows"]}'},
        {"arguments": '{"models": [{"model": "m", "counted": "1"}]}'},
        {"arguments": '{"models": [7]}'},
        {"arguments": '{"models": {"model": 1}}'},
        {"arguments": '{"models": [{"model": "m", "counted": 1, "kind": "none"}]}'},
        {"arguments": '{"models": [{"model": "m", "counted": 1, "kind": "distinct_l"}]}'},
        # Python fails on such deep nesting with a plain RecursionError.
        {"arguments": "[" * 100_000},
        {"arguments": '{"also_k": ' + "[" * 100_000},
        {"quasi_identifiers": "[" * 100_000},
        {"arguments": '{"models": [{"model": "x", "counted": "y"}]}'},
        {"arguments": '{"hierarchies": {"age": 1}}'},
        {"arguments": "7"},
        {"k_requested": "9" * 5000},
    ],
)
def test_what_somebody_wrote_into_a_file_is_refused(
    metadata_changes: dict[str, str], tmp_path: Path
) -> None:
    table = pa.table({"age": [1, 1, 1], "site": ["a", "a", "b"]})
    metadata = {"quasi_identifiers": '["age"]', "k_requested": "3", **metadata_changes}
    table = table.replace_schema_metadata({f"dbanon.{key}": text for key, text in metadata.items()})
    path = tmp_path / "people.parquet"
    parquet.write_table(table, path)
    done = call("verify", path)
    assert done.exit_code == 2, done.stderr
    assert "is broken" in done.stderr
    path.unlink()
