"""Twelve months of a table: persons who leave, persons who join, values that change.

And what somebody outside makes of the releases: SQL over released relations, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Churn:
    """How a table moves, a month.

    Parameters
    ----------
    leave : share of the persons who leave for good; as many join who never were in.
    change : share of those who stay of whom one quasi-identifier and the kept value are drawn
        anew, each from somebody else.
    """

    leave: float
    change: float


def months(
    pool: pd.DataFrame, kept: str, churn: Churn, count: int, seed: int
) -> Iterator[pd.DataFrame]:
    """The table at each month, with a column ``person``; as many rows every month.

    Nearly everybody of ``pool`` has been in at the end. ``kept`` is the column that is released as
    it is.
    """
    rng = np.random.default_rng(seed)
    size = int(len(pool) / (1 + (count - 1) * churn.leave))
    now = pool.iloc[rng.permutation(len(pool))].reset_index(drop=True)
    drawn = [name for name in now.columns if name != kept]
    inside, following = np.arange(size), size
    for month in range(count):
        if month:
            gone = int(size * churn.leave)
            stay = np.sort(rng.permutation(inside)[gone:])
            inside = np.concatenate([stay, np.arange(following, following + gone)])
            following += gone
            _change(now, rng.permutation(stay)[: round(size * churn.change)], drawn, rng)
            _change(now, rng.permutation(stay)[: round(size * churn.change)], [kept], rng)
        here = now.iloc[inside].copy()
        here.insert(0, "person", inside)
        yield here


def _change(
    table: pd.DataFrame, who: np.ndarray, columns: Sequence[str], rng: np.random.Generator
) -> None:
    """For each of them the value of one of the columns becomes somebody else's."""
    chosen = rng.integers(0, len(columns), len(who))
    for number, name in enumerate(columns):
        persons = who[chosen == number]
        place = table.columns.get_loc(name)
        others = table[name].to_numpy()[rng.integers(0, len(table), len(persons))]
        table.iloc[persons, place] = others


@dataclass(frozen=True)
class Seen:
    """What twelve releases tell, by SQL over them.

    Parameters
    ----------
    below : by number of releases, share of the persons ever released whose joint history fewer
        than k share: under which combination they stand in each release, or in none.
    alone : the same for those who share it with nobody, after the last.
    differences : share of the persons who came to a combination or went from it between two
        releases in a group of fewer than k.
    read_off : by number of releases, share of the persons whose value never changed of whom one
        value is left when the values of their combinations are intersected.
    """

    below: dict[int, float]
    alone: float
    differences: float
    read_off: dict[int, float]


class Attacker:
    """Knows who is who: each release holds a copy of the person's number, for nothing else.

    Parameters
    ----------
    path : a DuckDB database with the releases.
    quasi_identifiers, kept, number : names of the columns released.
    """

    def __init__(
        self, path: str, quasi_identifiers: Sequence[str], kept: str, number: str, k: int
    ) -> None:
        self.path, self.k = path, k
        self.combination = ", ".join(f'"{name}"' for name in quasi_identifiers)
        self.kept, self.number = kept, number

    def seen(self, relations: Sequence[str], after: Sequence[int]) -> Seen:
        """What the releases tell together; ``after`` so many of them, the last one included."""
        with duckdb.connect(self.path) as connection:
            union = " UNION ALL ".join(
                f"SELECT {number} AS release, {self.number} AS who, {self.kept} AS value,"
                f" CAST(row({self.combination}) AS VARCHAR) AS combination FROM {name}"
                for number, name in enumerate(relations, 1)
            )
            connection.execute(f"CREATE TEMP TABLE standing AS {union}")
            below, alone = {}, 0.0
            for count in after:
                below[count], alone = self._shared(connection, count)
            return Seen(
                below,
                alone,
                self._differences(connection, len(relations)),
                {count: self._read_off(connection, count) for count in (1, after[-1])},
            )

    def _shared(self, connection: duckdb.DuckDBPyConnection, count: int) -> tuple[float, float]:
        """The shares of persons whose history fewer than k have, and nobody else has."""
        return connection.execute(
            """
            WITH ever AS (SELECT DISTINCT who FROM standing WHERE release <= $count),
            history AS (
                SELECT who, list(coalesce(combination, '') ORDER BY release) AS h
                FROM ever CROSS JOIN (SELECT unnest(range(1, $count + 1)) AS release)
                LEFT JOIN standing USING (who, release) GROUP BY who
            ), shared AS (SELECT count(*) AS n FROM history GROUP BY h)
            SELECT coalesce(sum(n) FILTER (n < $k), 0) / sum(n),
                coalesce(sum(n) FILTER (n = 1), 0) / sum(n) FROM shared
            """,
            {"count": count, "k": self.k},
        ).fetchall()[0]

    def _differences(self, connection: duckdb.DuckDBPyConnection, count: int) -> float:
        """The share of persons who once came or went in a group of fewer than k."""
        return connection.execute(
            """
            WITH moved AS (
                SELECT later.release AS release, who, combination, 'came' AS how
                FROM standing AS later WHERE release > 1 AND NOT EXISTS (
                    FROM standing AS earlier WHERE earlier.who = later.who
                    AND earlier.release = later.release - 1
                    AND earlier.combination = later.combination)
                UNION ALL
                SELECT earlier.release + 1, who, combination, 'went'
                FROM standing AS earlier WHERE release < $count AND NOT EXISTS (
                    FROM standing AS later WHERE earlier.who = later.who
                    AND earlier.release = later.release - 1
                    AND earlier.combination = later.combination)
            ), few AS (
                SELECT who, count(*) OVER (PARTITION BY release, combination, how) AS n FROM moved
            )
            SELECT count(DISTINCT who) FILTER (n < $k)
                / (SELECT count(DISTINCT who) FROM standing) FROM few
            """,
            {"count": count, "k": self.k},
        ).fetchall()[0][0]

    def _read_off(self, connection: duckdb.DuckDBPyConnection, count: int) -> float:
        """The share of unchanged persons of whom the intersection leaves one value."""
        return connection.execute(
            """
            WITH mine AS (FROM standing WHERE release <= $count),
            steady AS (
                SELECT who, count(*) AS stands FROM mine GROUP BY who
                HAVING count(DISTINCT value) = 1
            ), held AS (SELECT DISTINCT release, combination, value FROM mine),
            possible AS (
                SELECT who, held.value FROM mine JOIN steady USING (who)
                JOIN held USING (release, combination)
                GROUP BY who, held.value HAVING count(*) = any_value(stands)
            ), left_over AS (SELECT who, count(*) AS n FROM possible GROUP BY who)
            SELECT count(*) FILTER (n = 1) / count(*) FROM left_over
            """,
            {"count": count},
        ).fetchall()[0][0]
