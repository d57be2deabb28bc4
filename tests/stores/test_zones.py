"""Instants generalized to text name the time zone of the text, through every interface."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.errors import HierarchyBroken
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase

pytestmark = pytest.mark.own_backends

N = 12


@pytest.fixture(
    params=["frame", "duckdb", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def released(request: pytest.FixtureRequest) -> Any:
    """The released texts of instants every 20 days, at local midnight in Zurich."""

    def release(**options: Any) -> list[str]:
        options = {"method": "gaa_cp", "k": 3, "quasi_identifiers": ["seen"], **options}
        days = pd.date_range("2020-01-01", periods=N, freq="20D", tz="Europe/Zurich")
        if request.param == "frame":
            out, _ = dbanon.anonymize_frame(pd.DataFrame({"seen": days}), **options)
            return sorted(out["seen"].tolist())
        database: PostgresqlDatabase | DuckdbDatabase = request.getfixturevalue(
            "postgresql" if request.param == "postgresql" else "duckdb_file"
        )
        sql_type = "timestamptz" if request.param == "postgresql" else "TIMESTAMP WITH TIME ZONE"
        database.execute("DROP TABLE IF EXISTS people")
        database.load("people", {"seen": sql_type}, [(day.isoformat(),) for day in days])
        if request.param == "postgresql":
            name = database.rows("SELECT current_database()")[0][0]
            database.execute(f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Tokyo'")
        try:
            database.anonymize(**options, if_exists="replace")
        finally:
            if request.param == "postgresql":
                database.execute(f'ALTER DATABASE "{name}" RESET timezone')
        query = f"SELECT seen FROM {database.relation('release.people')}"
        return sorted(text for (text,) in database.rows(query))

    return release


def test_intervals(released: Any) -> None:
    labels = released()
    assert len(set(labels)) > 1
    for text in labels:
        assert text.startswith("[20")
        assert text.count("+00:00") == 2


def test_own_ranges(released: Any) -> None:
    # Midnight in Zurich, in winter and in summer.
    assert all(
        end[11:] in ("22:00:00+00:00", "23:00:00+00:00")
        for text in released(local_range=True)
        for end in text[1:-1].split(", ")
    )


@pytest.mark.parametrize(
    ("tree", "labelled"),
    [
        ({"dates": ["month", "quarter", "year"]}, " UTC"),
        ({"dates": ["5y", "decade"]}, " UTC"),
        ({"ordered": True}, "+00:00"),
    ],
    ids=["months", "years", "own order"],
)
def test_builders(released: Any, tree: dict[str, Any], labelled: str) -> None:
    labels = released(hierarchies={"seen": tree}, local_range="ordered" in tree)
    assert all(text.endswith(labelled) or text == "*" for text in labels)
    assert any(text.endswith(labelled) for text in labels)


def test_full_domain(released: Any) -> None:
    assert all("+00:00" in text for text in released(method="full_domain"))


@pytest.mark.parametrize("zone", ["", "+00:00"])
def test_a_tree_of_instants_may_leave_out_utc(released: Any, zone: str) -> None:
    days = pd.date_range("2019-12-31 23:00", periods=4 * N, freq="20D")
    days = days.append(days + pd.Timedelta(hours=-1))
    texts = [f"{day:%Y-%m-%d %H:%M:%S.%f}{zone}" for day in days]
    tree = dbanon.Hierarchy.from_levels([[text, "all"] for text in texts])
    assert released(hierarchies={"seen": tree}) == ["all"] * N
    other = dbanon.Hierarchy.from_levels([[text + "+01:00", "all"] for text in texts])
    with pytest.raises(HierarchyBroken):
        released(hierarchies={"seen": other})
