"""Twelve months of a table in which persons leave and join and values change.

Also the attack by an outsider, in SQL over nothing but the released relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Churn:
    """How a table changes in a month.

    Parameters
    ----------
    leave : share of persons who leave for good; the same number of new persons join.
    change : share of remaining persons with one quasi-identifier and the retained value replaced,
        each by another person's value.
    """

    leave: float
    change: float


def months(
    pool: pd.DataFrame, retained: str, churn: Churn, count: int, seed: int
) -> Iterator[pd.DataFrame]:
    """Yield the table of each month, with a column ``person`` and a constant number of rows.

    In the end nearly everyone of ``pool`` has been in it. ``retained`` names the retained column.
    """
    rng = np.random.default_rng(seed)
    size = int(len(pool) / (1 + (count - 1) * churn.leave))
    now = pool.iloc[rng.permutation(len(pool))].reset_index(drop=True)
    quasi_identifiers = [name for name in now.columns if name != retained]
    present, next_person = np.arange(size), size
    for month in range(count):
        if month:
            n_leaving = int(size * churn.leave)
            staying = np.sort(rng.permutation(present)[n_leaving:])
            present = np.concatenate([staying, np.arange(next_person, next_person + n_leaving)])
            next_person += n_leaving
            _change(
                now, rng.permutation(staying)[: round(size * churn.change)], quasi_identifiers, rng
            )
            _change(now, rng.permutation(staying)[: round(size * churn.change)], [retained], rng)
        month_table = now.iloc[present].copy()
        month_table.insert(0, "person", present)
        yield month_table


def _change(
    table: pd.DataFrame, who: np.ndarray, columns: Sequence[str], rng: np.random.Generator
) -> None:
    """Replace each person's value in one of the columns by that of a random person."""
    column_of_person = rng.integers(0, len(columns), len(who))
    for number, name in enumerate(columns):
        persons = who[column_of_person == number]
        column_index = table.columns.get_loc(name)
        others = table[name].to_numpy()[rng.integers(0, len(table), len(persons))]
        table.iloc[persons, column_index] = others


@dataclass(frozen=True)
class AttackResult:
    """What twelve releases reveal, by SQL over them.

    Parameters
    ----------
    below : by number of releases, the share of released persons whose joint history fewer than k
        share: their combination in each release, or their absence from it.
    unique : the share whose history is unique, after the last release.
    differences : the share of persons who joined or left a combination between two releases in a
        group of fewer than k.
    read_off : by number of releases, the share of persons with a constant value that the
        intersection of their combinations' values determines.
    """

    below: dict[int, float]
    unique: float
    differences: float
    read_off: dict[int, float]


class Attacker:
    """An attacker who can identify each row by a copy of the person identifier in the release.

    Parameters
    ----------
    path : a DuckDB database with the releases.
    quasi_identifiers, retained, number : names of the released columns.
    """

    def __init__(
        self, path: str, quasi_identifiers: Sequence[str], retained: str, number: str, k: int
    ) -> None:
        self.path, self.k = path, k
        self.combination = ", ".join(f'"{name}"' for name in quasi_identifiers)
        self.retained, self.number = retained, number

    def attack(self, relations: Sequence[str], after: Sequence[int]) -> AttackResult:
        """Attack the releases together, after each of these numbers of releases."""
        with duckdb.connect(self.path) as connection:
            union = " UNION ALL ".join(
                f"SELECT {number} AS release, {self.number} AS who, {self.retained} AS value,"
                f" CAST(row({self.combination}) AS VARCHAR) AS combination FROM {name}"
                for number, name in enumerate(relations, 1)
            )
            connection.execute(f"CREATE TEMP TABLE standing AS {union}")
            below, unique = {}, 0.0
            for count in after:
                below[count], unique = self._shared(connection, count)
            return AttackResult(
                below,
                unique,
                self._differences(connection, len(relations)),
                {count: self._read_off(connection, count) for count in (1, after[-1])},
            )

    def _shared(self, connection: duckdb.DuckDBPyConnection, count: int) -> tuple[float, float]:
        """The shares of persons whose history fewer than k share, and whose history is unique."""
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
        """The share of persons who once joined or left in a group of fewer than k."""
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
        """The share of unchanged persons whose value the intersection determines."""
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
