"""``dbanon verify`` counts privacy models again, from what the ledger recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.releases import store_hierarchy
from dbanon.errors import RecountFailed, ReleaseChanged
from dbanon.run.open import open_store
from dbanon.run.verify import Verification, verify
from dbanon.run.verify_file import verify_file
from dbanon.sessions.names import parse_relation
from dbanon.stores.exports.formats import metadata_of
from tests.stores.databases import Database
from tests.stores.test_models import MODELS, OPTIONS, TREE, load

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def again(database: Database) -> Verification:
    return verify(open_store(database.url), parse_relation("release.people"))


@pytest.mark.parametrize("by", [[], ["site"]])
def test_every_kind_is_counted_as_it_was(database: Database, by: list[str]) -> None:
    load(database)
    models = [*MODELS.values(), dbanon.Model("t_closeness", "cost", 0.5, distance="ordered")]
    report = database.anonymize(**OPTIONS, models=models, by=by)
    verification = again(database)
    assert verification.unchanged
    assert [model.model for model in verification.models] == [model.describe() for model in models]
    assert [model.counted for model in verification.models] == [
        pytest.approx(level.achieved) for level in report.models
    ]
    assert all(model.why_not is None for model in verification.models)


@pytest.mark.parametrize(
    ("model", "error", "message", "code"),
    [
        # With one value all classes are as the whole table: closer than before, but changed.
        ("equal", ReleaseChanged, "levels of privacy models", 6),
        ("alpha_k", RecountFailed, "violate alpha_k", 3),
    ],
)
def test_changed_values(
    database: Database, model: str, error: type[Exception], message: str, code: int
) -> None:
    load(database)
    database.anonymize(**OPTIONS, models=[MODELS[model]])
    [before] = again(database).models
    assert before.recorded > 0
    database.execute(f"UPDATE {database.relation('release.people')} SET ill = 'flu'")
    with pytest.raises(error, match=message) as caught:
        again(database)
    assert "report it" not in str(caught.value)
    done = CliRunner().invoke(main, ["verify", database.url, "release.people"])
    assert done.exit_code == code


def test_by_a_stored_hierarchy(database: Database, tmp_path: Path) -> None:
    load(database)
    store_hierarchy(database.url, "ills", TREE)
    model = dbanon.Model("t_closeness", "ill", 0.3, distance={"name": "ills"})
    database.anonymize(**OPTIONS, models=[model, MODELS["distinct_l"]])
    verification = again(database)
    assert verification.unchanged
    assert verification.models[0].counted == pytest.approx(verification.models[0].recorded)
    flat = dbanon.Hierarchy.from_levels([[leaf, "*"] for leaf in ("flu", "cough", "gastritis")])
    store_hierarchy(database.url, "ills", flat, replace=True)
    verification = again(database)
    assert verification.unchanged
    assert [model.counted is None for model in verification.models] == [True, False]
    assert verification.models[0].why_not == "its hierarchy has changed since"
    done = CliRunner().invoke(
        main, ["verify", database.url, "release.people"], env={"COLUMNS": "200"}
    )
    assert "NOT recounted: its hierarchy has changed since" in done.stdout


def test_a_hierarchy_that_was_not_stored(database: Database) -> None:
    load(database)
    model = dbanon.Model("t_closeness", "ill", 0.3, distance=TREE)
    database.anonymize(**OPTIONS, models=[model])
    [level] = again(database).models
    assert level.counted is None
    assert level.why_not == "its hierarchy is not stored with it"
    assert level.recorded <= 0.3


def test_entries_of_earlier_versions(database: Database) -> None:
    load(database)
    database.anonymize(**OPTIONS, models=[MODELS["distinct_l"]])
    old = '{"models": [{"model": "distinct_l 3 of \\"ill\\"", "counted": 3.0}]}'
    database.execute(f"UPDATE {database.ledger()} SET arguments = '{old}'")
    [level] = again(database).models
    assert (level.counted, level.recorded) == (None, 3.0)
    assert "earlier version" in str(level.why_not)


def test_in_another_database(database: Database, make_database: Any) -> None:
    """Types become those of the other database; the order of values stays."""
    load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    models = [
        dbanon.Model("t_closeness", "grade", 0.3, distance="ordered"),
        dbanon.Model("t_closeness", "cost", 0.5, distance="ordered"),
        dbanon.Model("entropy_l", "ill", 2),
    ]
    report = database.anonymize(**OPTIONS, models=models, target=other.url)
    verification = again(other)
    assert verification.unchanged
    assert [model.counted for model in verification.models] == [
        pytest.approx(level.achieved) for level in report.models
    ]


def test_in_a_file_they_are_counted_by_what_it_says(database: Database, tmp_path: Path) -> None:
    load(database)
    path = tmp_path / "people.parquet"
    of_a_tree = dbanon.Model("t_closeness", "ill", 0.9, distance=TREE)
    models = [*MODELS.values(), of_a_tree]
    report = database.anonymize(**OPTIONS, models=models, exports=[path])
    verification = verify_file(path)
    assert [model.model for model in verification.models] == [model.describe() for model in models]
    *counted, not_counted = verification.models
    assert [model.counted for model in counted] == [
        pytest.approx(level.achieved) for level in report.models[:-1]
    ]
    assert (not_counted.counted, not_counted.why_not) == (
        None,
        "its hierarchy is not stored with it",
    )
    table = parquet.read_table(path)
    for name in report.sensitive:
        index = table.schema.names.index(name)
        same = pa.repeat(table.column(name)[0], len(table))
        table = table.set_column(index, table.schema.field(name), same)
    metadata = {f"dbanon.{key}": text for key, text in metadata_of(path).items()}
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(RecountFailed, match="distinct_l"):
        verify_file(path)
