"""Columns that undo the cells of a chain: counted at each release, by what it shows alone."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.errors import KeptColumnLinks, LinkingColumnRefused
from dbanon.release.linkage import LinkingColumn
from tests.stores.databases import Database
from tests.stores.linking import CODINGS, COLUMNS, ORDINARY, K, N
from tests.stores.test_linking_columns import below_k, share_alone

OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "height"],
    "k": K,
    "method": "mdav",
    "entity": "id",
    "if_exists": "replace",
}
# Ages that nearly every class hides.
SPREAD = np.random.default_rng(3).permutation(np.arange(N) % 60 + 20)


def load(database: Database, more: dict[str, tuple[str, list[Any]]] | None = None) -> None:
    columns = {"id": ("integer", list(range(N))), **COLUMNS, **(more or {})}
    kinds = {name: database.types[kind] for name, (kind, _) in columns.items()}
    rows = list(zip(*(values for _, values in columns.values()), strict=True))
    database.load("people", kinds, rows)


class Chain:
    """A chain over people, with the options of its jobs."""

    def __init__(self, database: Database, folder: Path, name: str = "c", **rules: Any) -> None:
        self.database, self.name = database, name
        self.key = f"file:{folder / name}.key"
        options = {"table": "people", "entity": "id", "changes": "show", **rules}
        dbanon.create_chain(database.url, name, key_out=folder / f"{name}.key", **options)

    def release(self, **options: Any) -> dbanon.Report:
        chain = {"name": self.name, "key": self.key}
        arguments = {"output": f"release.{self.name}", "chain": chain, **OPTIONS, **options}
        return self.database.anonymize(**arguments)

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        output = self.database.relation(f"release.{self.name}")
        return self.database.rows(f"SELECT age, height, {', '.join(names)} FROM {output}")


def followed(chain: Chain, **options: Any) -> tuple[dbanon.Report, list[str]]:
    """The report of a release, and its warnings about columns that link."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = chain.release(**options)
    return report, [
        str(warning.message) for warning in caught if warning.category is KeptColumnLinks
    ]


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("name", CODINGS)
def test_codings_are_counted_by_what_they_do_to_k(
    database: Database, tmp_path: Path, name: str
) -> None:
    load(database)
    chain = Chain(database, tmp_path)
    report, messages = followed(chain, keep=[name, *ORDINARY])
    [finding] = report.linking
    assert finding == LinkingColumn(name, "age", below_k(chain.rows(name)))
    assert finding.share > 0.05
    assert messages == [f"Column {finding.describe(K)}."]


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("method", ["mdav", "mondrian"])
def test_codings_of_ages_that_most_classes_hide(
    database: Database, tmp_path: Path, method: str
) -> None:
    """Released means, or intervals, of one age lie near one another, and are hardly ever equal."""
    ages = [int(age) for age in SPREAD]
    more = {"code": ("text", [f"c{age * 7 % 101:03}" for age in ages])}
    load(database, more | {"age": ("integer", ages)})
    chain = Chain(database, tmp_path)
    report, _ = followed(chain, keep=["code", *ORDINARY], method=method)
    assert report.linking == (LinkingColumn("code", "age", below_k(chain.rows("code"))),)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("method", ["mdav", "mondrian"])
def test_ordinary_columns_link_nothing(database: Database, tmp_path: Path, method: str) -> None:
    load(database)
    chain = Chain(database, tmp_path)
    database.make_schema("release")
    report, messages = followed(
        chain, keep=["visits"], sensitive=["illness", "sex"], strict=True, method=method
    )
    assert (report.linking, messages) == ((), [])
    assert "linking" not in report.arguments


@pytest.mark.in_turn(of="file")
def test_strict_refuses_before_anything_is_kept(database: Database, tmp_path: Path) -> None:
    load(database)
    database.make_schema("release")
    chain = Chain(database, tmp_path)
    for name in ("age_code", "household"):
        with pytest.raises(LinkingColumnRefused, match="distinguishes rows") as refused:
            chain.release(keep=[name], strict=True)
        assert f'"{name}"' in str(refused.value.detail)
        assert dbanon.show_chain(database.url, "c").releases == ()
    assert chain.release(keep=["visits"], strict=True).linking == ()


@pytest.mark.in_turn(of="file")
def test_household_numbers_are_counted_at_each_release(database: Database, tmp_path: Path) -> None:
    load(database)
    chain = Chain(database, tmp_path)
    for month in range(2):
        report, messages = followed(chain, keep=["household"])
        share = share_alone(chain.rows("household"))
        assert report.linking == (LinkingColumn("household", None, share),)
        assert share > 0.5
        assert len(messages) == 1
        database.execute(f"DELETE FROM {database.relation('people')} WHERE id = {month}")
    assert report.arguments["linking"] == [vars(report.linking[0])]


@pytest.mark.in_turn(of="file")
def test_persons_with_several_rows(database: Database, tmp_path: Path) -> None:
    """Rows of one person are no company for one another."""
    columns = {"id": ("integer", list(range(N))), **COLUMNS}
    kinds = {name: database.types[kind] for name, (kind, _) in columns.items()}
    rows = list(zip(*(values for _, values in columns.values()), strict=True))
    database.load("people", kinds, [row for row in rows for _ in range(2)])
    chain = Chain(database, tmp_path, max_rows_per_person=3)
    report, _ = followed(chain, keep=["age_code", "visits"])
    [finding] = report.linking
    counts = Counter(chain.rows("age_code"))
    below = sum(size for size in counts.values() if size < 2 * K) * 100 // (2 * N) / 100
    assert finding == LinkingColumn("age_code", "age", below)


@pytest.mark.in_turn(of="file")
def test_a_chain_that_measures_counts_as_any_release(database: Database, tmp_path: Path) -> None:
    load(database)
    database.make_schema("release")
    chain = Chain(database, tmp_path, mode="measure")
    with pytest.raises(LinkingColumnRefused):
        chain.release(keep=["age_code"], strict=True)
    report, _ = followed(chain, keep=["age_code"])
    assert report.linking == (LinkingColumn("age_code", "age", below_k(chain.rows("age_code"))),)
