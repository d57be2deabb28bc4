"""PostgreSQL finds the class of a row through its address or key, whatever form these have."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.sessions.names import array_text
from dbanon.stores.postgresql import arrays
from dbanon.stores.postgresql.settings import STATISTICS
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.postgresql

ROWS = 400
CREATE_PEOPLE = (
    "CREATE TABLE people (gone text, x double precision, y double precision, id integer,"
    " kept text, lost integer)",
    "INSERT INTO people SELECT 'g', (g * 7919 % 1009) / 8.0, (g * 104729 % 997) / 4.0, g,"
    f" 'row ' || g, 0 FROM generate_series(1, {ROWS}) AS g",
)

# Changes to the table before it is released.
HISTORIES = {
    "as it was made": [],
    "gaps": ["DELETE FROM people WHERE id % 3 = 0"],
    "whole blocks gone": ["DELETE FROM people WHERE id BETWEEN 40 AND 300"],
    "gaps filled again": [
        "DELETE FROM people WHERE id % 3 = 0",
        "VACUUM people",
        "INSERT INTO people (x, y, id, kept) SELECT g, g, -g, 'new ' || g"
        " FROM generate_series(1, 60) AS g",
    ],
    "updated in place": [
        "UPDATE people SET kept = kept || '!' WHERE id % 2 = 0",
        "UPDATE people SET kept = kept || '?' WHERE id % 5 = 0",
    ],
    "columns dropped and added": [
        "ALTER TABLE people DROP COLUMN gone, DROP COLUMN lost",
        "ALTER TABLE people ADD COLUMN late integer DEFAULT 7",
    ],
    "values stored apart": [
        "ALTER TABLE people ALTER kept SET STORAGE EXTERNAL",
        "UPDATE people SET kept = kept || repeat('long ', 2000) WHERE id % 7 = 0",
    ],
    "rows to withhold, many in a block": [
        "INSERT INTO people (id, kept) SELECT -g, 'no' FROM generate_series(1, 250) AS g"
    ],
    "a dense key": ["ALTER TABLE people ADD PRIMARY KEY (id)"],
    "a key with gaps": [
        "UPDATE people SET id = id * 3 - 500",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
    ],
    "keys at the ends": [
        "ALTER TABLE people ALTER id TYPE bigint",
        "UPDATE people SET id = 9223372036854775807 - 400 + id",
        "INSERT INTO people (id, kept) VALUES (-9223372036854775808, 'no')",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
    ],
    "a small key": [
        "ALTER TABLE people ALTER id TYPE smallint",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
    ],
    "a name of ours": ["ALTER TABLE people RENAME COLUMN kept TO place"],
    "rows with a policy for others": [
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY half ON people USING (id % 2 = 0)",
    ],
}
# Keys that lie too far from one another are staged.
STAGED = {
    "far keys": [
        "ALTER TABLE people ALTER id TYPE bigint",
        "UPDATE people SET id = id * 1000000000",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
    ],
    "a key of text": ["ALTER TABLE people ADD PRIMARY KEY (kept)"],
    "a table with parts": [
        "ALTER TABLE people RENAME TO first_part",
        "CREATE TABLE people (LIKE first_part) PARTITION BY LIST (lost)",
        "ALTER TABLE people ATTACH PARTITION first_part DEFAULT",
    ],
}


def classes_of(database: PostgresqlDatabase, names: tuple[str, ...], kept_column: str) -> int:
    """Check that released means are those of the rows they were released with; returns the number
    of classes.
    """
    columns = ", ".join(names)
    originals = {
        row[0]: row[1:] for row in database.rows(f"SELECT {kept_column}, {columns} FROM people")
    }
    classes: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in database.rows(f"SELECT {kept_column}, {columns} FROM release.people"):
        classes[tuple(row[1:])].append(originals[row[0]])
    for released, members in classes.items():
        assert len(members) >= 3
        np.testing.assert_allclose(np.mean(np.array(members, float), axis=0), released)
    return sum(map(len, classes.values()))


def released(database: PostgresqlDatabase, **options: Any) -> tuple[dbanon.Report, bool]:
    """The report, and whether it was written from arrays."""
    statements: list[str] = []
    report = database.anonymize(
        on_sql=statements.append, k=3, nulls="suppress", max_suppression=0.6, **options
    )
    return report, any(f'COPY "{arrays.RELEASE_ARRAYS}"' in text for text in statements)


@pytest.mark.parametrize("history", [*HISTORIES, *STAGED])
def test_values_belong_to_their_rows(postgresql: PostgresqlDatabase, history: str) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    for statement in (HISTORIES | STAGED)[history]:
        postgresql.execute(statement)
    kept_column = "place" if history == "a name of ours" else "kept"
    report, from_arrays = released(postgresql, quasi_identifiers=["x", "y"], keep=[kept_column])
    assert from_arrays == (history in HISTORIES)
    [(n_complete,)] = postgresql.rows("SELECT count(*) FROM people WHERE x IS NOT NULL")
    assert report.rows_out == classes_of(postgresql, ("x", "y"), kept_column) == n_complete


def test_some_rows_of_a_table(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    report, from_arrays = released(
        postgresql, quasi_identifiers=["x"], keep=["kept"], where="id % 4 <> 1 AND id < 200"
    )
    assert from_arrays
    assert report.rows_out == classes_of(postgresql, ("x",), "kept") == 149


def test_labels_ranks_and_moments(postgresql: PostgresqlDatabase) -> None:
    """Values of classes of every kind that is staged, NULL among them."""
    postgresql.execute(
        "CREATE TABLE people AS SELECT g AS id, CASE WHEN g > 7 THEN date '2000-01-01' + g END AS"
        " born, timestamptz '2020-02-02 02:02:02.123456+02' + g * interval '1 hour' AS seen,"
        " (g / 7.0)::numeric(12, 3) AS paid, g::numeric * 1e30 AS wide, g % 2 = 0 AS odd,"
        " ('Ä\"\\ ' || chr(97 + g % 3)) AS site FROM generate_series(1, 60) AS g"
    )
    statements: list[str] = []
    report = postgresql.anonymize(
        quasi_identifiers=["born", "seen", "paid", "odd", "site"],
        keep=["id"],
        k=4,
        method="mondrian",
        nulls="category",
        intervals="bounds",
        on_sql=statements.append,
    )
    assert any(f'COPY "{arrays.RELEASE_ARRAYS}"' in text for text in statements)
    assert report.rows_out == 60
    rows = postgresql.rows(
        "SELECT count(*) FROM release.people AS r JOIN people AS p USING (id)"
        " WHERE p.paid BETWEEN r.paid_low AND r.paid_high"
        " AND p.seen BETWEEN r.seen_low AND r.seen_high"
        " AND (p.born IS NULL AND r.born_low IS NULL OR p.born BETWEEN r.born_low AND r.born_high)"
        " AND r.site IN (p.site, '*')"
    )
    assert rows == [(60,)]


@pytest.mark.parametrize(
    ("blocks", "width"),
    [(1, 2), (3, 5), (256, 7), (257, 7), (2000, 90), (2**16, 9), (2**16 + 1, 9), (2**22, 2)],
)
def test_addresses_that_were_not_read_have_no_class(
    postgresql: PostgresqlDatabase, blocks: int, width: int
) -> None:
    """The number of an element is the address's own, or that of one which no record has."""
    slots = arrays.map_addresses("a", blocks, width)
    assert slots.n_elements == blocks * width
    for block in {0, 1, blocks - 1, blocks, blocks + 1, 2**24, 2**31, 2**32 - 1}:
        for row in {1, width - 1, width, width + 1, 2 * width, 300, 2**16 - 1}:
            number = slots.index.format(key=f"tidsend('({block},{row})')", key_range="")
            address = f"(SELECT '({block},{row})'::tid AS a) AS s"
            numbers = postgresql.rows(f"SELECT {number} FROM {address} WHERE {slots.condition}")
            if block < blocks and row < width:
                assert numbers == [(block * width + row,)]
            elif block < blocks:
                assert numbers == [(block * width + width,)]
            else:
                assert numbers == []


def test_the_server_reads_floats_of_arrays_as_they_were(postgresql: PostgresqlDatabase) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500)
    values[:2] = 0.0, -0.0
    text = array_text(values)
    assert "0x" in text
    [(floats,)] = postgresql.rows(f"SELECT '{text}'::double precision[]")
    assert np.array(floats).tobytes() == values.tobytes()


def test_a_release_has_statistics_of_few_ranges(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    postgresql.anonymize(quasi_identifiers=["x", "y"], keep=["kept"])
    [(bounds,)] = postgresql.rows(
        "SELECT array_length(histogram_bounds::text::text[], 1) FROM pg_stats"
        " WHERE tablename LIKE 'people%' AND schemaname = 'release' AND attname = 'kept'"
    )
    assert bounds == STATISTICS + 1
