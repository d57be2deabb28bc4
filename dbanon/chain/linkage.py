"""Find retained columns that undo the cells of a chain, using only the displayed rows.

Elsewhere the originals show whether a column is another coding of a quasi-identifier. A chain may
not use them: no message, not even a refusal, may depend on which person of a cell has which value.
So the released values are used instead. Rows that share a value of such a column have released
values of the quasi-identifier that lie closer together than those of random rows. This is measured
by their variance if they are numbers, and by the share of row pairs that agree, from 0 (chance) to
1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import sqrt
from typing import Any

import numpy as np

from dbanon.chain.membership import CellState
from dbanon.chain.recount import SubqueryRelation
from dbanon.chain.rows_per_person import PART, PERSON
from dbanon.data.schema import Kind
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.release.linkage import (
    DEVIATIONS,
    LEAST_COMPARABLE_SHARE,
    LEAST_WARNED_SHARE,
    MOST_MEMBERS,
    LinkingColumn,
    is_coding,
    may_number_groups,
    share_in_hundredths,
)
from dbanon.run.linkage import may_be_group_number
from dbanon.sessions import recount_statements
from dbanon.stores.ports import PreparedRelease

_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
# Kinds whose labels are intervals with ends.
_LABELLED = _NUMBERS | {Kind.DATE, Kind.TIMESTAMP}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_END = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# Another coding explains at least this share of the variance. A strong dependence that is worth
# studying, such as illness on age, explains less.
_EXPLAINED = 0.75


@dataclass(frozen=True)
class DisplayedColumns:
    """The retained columns of one table of a chain, with the cells of their rows.

    Parameters
    ----------
    draft : the prepared release of the table; its relation has the types of the columns.
    columns : the columns of the release, each as its name, its column in the chain's state and its
        source column. State columns ``v…`` hold the values of cells, others those of rows.
    part : the number of the table.
    bounds_cells : whether each cell has k rows of this table; codings are searched only then.
    bounds_rows : whether there are classes that a column could undo; else none is searched.
    """

    state: CellState
    draft: PreparedRelease
    columns: Sequence[tuple[str, str, str]]
    part: int
    bounds_cells: bool
    bounds_rows: bool = True

    @property
    def job(self) -> Job:
        """The job that the release is made by."""
        return self.draft.job

    @property
    def _released(self) -> list[tuple[str, str]]:
        """The released columns of cells: state column and source column."""
        return [(column, source) for _, column, source in self.columns if column.startswith("v")]

    def _state_column(self, name: str) -> str:
        [column] = [column for released_name, column, _ in self.columns if released_name == name]
        return column

    @property
    def _row_query(self) -> SubqueryRelation:
        """The rows on display."""
        columns = [column for _, column, _ in self.columns]
        listed = ", ".join(
            f"{'v' if column.startswith('v') else 'r'}.{column}" for column in columns
        )
        person_column = f", r.{PERSON}" if self.state.several else ""
        in_part = f" WHERE r.{PART} = {int(self.part)}" if self.state.several else ""
        query = (
            f"SELECT r.cell{person_column}, {listed} FROM {self.state.rows} AS r"
            f" JOIN {self.state.values} AS v ON v.cell = r.cell{in_part}"
        )
        name = self.state.chain.table(self.state.session, "row")
        return SubqueryRelation(name.schema, name.name, query)

    def _keys(self, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """SQL expressions, with the alias s, that distinguish values as readers see them."""
        keys: list[tuple[str, ...]] = []
        for column in columns:
            table = "value" if column.startswith("v") else "row"
            relation = self.state.chain.table(self.state.session, table)
            keys += self.state.session.display_keys(relation, [column])
        return keys

    def measure_dependence(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The strength of dependence between each column and each released quasi-identifier."""
        strengths: dict[str, dict[str, float]] = {}
        for name in names:
            strengths[name] = {}
            for column, source in self._released if self.bounds_cells else ():
                strength = max(
                    self._agreement(name, column, both=name in self.draft.job.keep),
                    self._variance(name, column, source),
                )
                strengths[name][source] = max(strength, strengths[name].get(source, 0.0))
        return strengths

    def _agreement(self, name: str, column: str, *, both: bool) -> float:
        """Dependence by how often rows with the same value have the same label.

        With ``both`` also by how often rows with the same label have the same value.
        """
        [value], [label] = self._keys([self._state_column(name)]), self._keys([column])
        parts = [f"{part} AS g{i}" for i, part in enumerate(value)]
        parts += [f"{part} AS l{i}" for i, part in enumerate(label)]
        values = ", ".join(f"g{i}" for i in range(len(value)))
        labels = ", ".join(f"l{i}" for i in range(len(label)))
        [(rows, *counted)] = self.state.session.rows(
            "SELECT sum(n), sum(n * (of_label - 1.0)), sum(n * (of_value - 1.0)),"
            " sum(n * (n - 1.0) / nullif(of_value - 1, 0)),"
            " sum(CASE WHEN of_value > 1 THEN n ELSE 0 END),"
            " sum(n * 1.0 / nullif(of_value - 1, 0)),"
            " sum(n * (n - 1.0) / nullif(of_label - 1, 0)),"
            " sum(CASE WHEN of_label > 1 THEN n ELSE 0 END),"
            " sum(n * 1.0 / nullif(of_label - 1, 0))"
            f" FROM (SELECT n, sum(n) OVER (PARTITION BY {values}) AS of_value,"
            f" sum(n) OVER (PARTITION BY {labels}) AS of_label FROM"
            f" (SELECT {values}, {labels}, count(*) AS n FROM (SELECT {', '.join(parts)}"
            f" FROM {self._row_query.quoted} AS s WHERE {value[0]} IS NOT NULL) AS shown"
            f" GROUP BY {values}, {labels}) AS cells) AS sized"
        )
        n = int(rows or 0)
        if n < 2:
            return 0.0
        same_label, same_value, *sums = (float(total or 0.0) for total in counted)
        pairs = n * (n - 1.0)
        strength = _excess(n, same_label / pairs, *sums[:3])
        return max(strength, _excess(n, same_value / pairs, *sums[3:])) if both else strength

    def _variance(self, name: str, column: str, source: str) -> float:
        """Dependence by explained variance of released numbers, or of midpoints of labels."""
        session = self.state.session
        relation = session.find_source(self.state.chain.table(session, "value"))
        [value] = self._keys([self._state_column(name)])
        rows = f"FROM {self._row_query.quoted} AS s"
        rows += f" WHERE {value[0]} IS NOT NULL AND s.{column} IS NOT NULL"
        if relation.attribute(column).kind not in _NUMBERS:
            if self.draft.relation.attribute(source).kind not in _LABELLED:
                return 0.0
            # Released values are labels; values of the column are numbered.
            counted = session.rows(
                "SELECT code, label, count(*) FROM (SELECT dense_rank() OVER (ORDER BY"
                f" {', '.join(value)}) AS code, CAST(s.{column} AS VARCHAR) AS label {rows})"
                " AS labelled GROUP BY code, label"
            )
            return _explained_by_codes(counted)
        parts = ", ".join(f"{part} AS g{i}" for i, part in enumerate(value))
        values = ", ".join(f"g{i}" for i in range(len(value)))
        numbers = f"(SELECT {parts}, CAST(s.{column} AS DOUBLE PRECISION) AS x {rows}) AS shown"
        [(groups, n, between, total)] = session.rows(
            "SELECT count(*), sum(n), sum(n * mean * mean), sum(squares) FROM"
            " (SELECT count(*) AS n, avg(x - middle) AS mean,"
            f" sum((x - middle) * (x - middle)) AS squares FROM {numbers}"
            f" CROSS JOIN (SELECT avg(x) AS middle FROM {numbers}) AS overall GROUP BY {values})"
            " AS of_values"
        )
        return _strength(int(n or 0), int(groups), float(between or 0.0), float(total or 0.0))

    def find_coding(self, name: str, strengths: Mapping[str, float]) -> LinkingColumn | None:
        """The finding on a column that is another coding of a quasi-identifier."""
        strongest = max(
            strengths, key=lambda quasi_identifier: strengths[quasi_identifier], default=None
        )
        if strongest is None or not is_coding(strengths[strongest]):
            return None
        state_columns = [*(column for column, _ in self._released), self._state_column(name)]
        parts = [part for key in self._keys(state_columns) for part in key]
        named = ", ".join(f"{part} AS c{i}" for i, part in enumerate(parts))
        columns = ", ".join(f"c{i}" for i in range(len(parts)))
        # Several rows of one person count once.
        person = f", s.cell, s.{PERSON}" if self.state.several else ""
        counted = f"SELECT {named}, count(*) AS n FROM {self._row_query.quoted} AS s"
        counted += f" GROUP BY {', '.join(parts)}{person}"
        persons = "count(*)" if self.state.several else "sum(n)"
        query = f"SELECT sum(n) AS n, {persons} AS persons FROM ({counted}) AS p GROUP BY {columns}"
        k = int(self.state.k)
        [(rows, below)] = self.state.session.rows(
            f"SELECT sum(n), sum(CASE WHEN persons < {k} THEN n ELSE 0 END) FROM ({query}) AS c"
        )
        share = share_in_hundredths(int(below or 0), int(rows or 0))
        if int(below or 0) < k or share < LEAST_WARNED_SHARE:
            return None
        return LinkingColumn(name, strongest, share)

    def find_group_number(self, name: str) -> LinkingColumn | None:
        """The finding on a column that numbers groups of rows, such as households."""
        if not may_be_group_number(self.job, self.draft.relation, name):
            return None
        [group] = self._keys([self._state_column(name)])
        keys = ", ".join(group)
        size_counts = self.state.session.rows(
            "SELECT size, count(*) FROM (SELECT count(*) AS size"
            f" FROM {self._row_query.quoted} AS s WHERE {group[0]} IS NOT NULL GROUP BY {keys})"
            " AS of_values GROUP BY size"
        )
        sizes = np.array([[int(value) for value in row] for row in size_counts], np.int64).reshape(
            -1, 2
        )
        no_matches = np.zeros((len(sizes), 0), np.int64)
        if not may_number_groups(ValueGroups(sizes[:, 0], sizes[:, 1], sizes[:, 1], no_matches)):
            return None
        profile = self._keys([column for column, _ in self._released])
        query = recount_statements.unique_profiles(self._row_query, profile, group, MOST_MEMBERS)
        [(n_in_groups, n_unique)] = self.state.session.rows(query)
        share = share_in_hundredths(int(n_unique), int(n_in_groups))
        return LinkingColumn(name, None, share) if share >= LEAST_WARNED_SHARE else None


def _excess(n: int, chance: float, together: float, rows: float, pairs: float) -> float:
    """Agreement in excess of chance, 0 to 1; 0 if too few rows could disagree.

    Parameters
    ----------
    n : all rows.
    chance : the probability that two of them agree.
    together : the sum over rows of the share of other rows in their group that agree.
    rows : the number of rows in groups of two or more.
    pairs : the sum of size / (size - 1) over these groups.
    """
    if rows * (1.0 - chance) < LEAST_COMPARABLE_SHARE * n:
        return 0.0
    excess = together - chance * rows
    if excess < DEVIATIONS * sqrt(2.0 * chance * (1.0 - chance) * pairs):
        return 0.0
    return excess / (rows * (1.0 - chance))


def _explained_by_codes(counted: Sequence[Sequence[Any]]) -> float:
    """The strength of codes that explain the midpoints of labels.

    Parameters
    ----------
    counted : codes, labels and how often they occur together.
    """
    middles = np.array([_middle(str(label)) for _, label, _ in counted], np.float64)
    sizes = np.array([int(n) for *_, n in counted], np.float64)
    has_ends = np.isfinite(middles)
    if 2 * sizes[has_ends].sum() < sizes.sum() or not has_ends.any():
        return 0.0
    middles, sizes = middles[has_ends], sizes[has_ends]
    codes = np.array([int(code) for code, *_ in counted], np.int64)[has_ends]
    codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    x = middles - np.average(middles, weights=sizes)
    of_code = np.bincount(codes, sizes)
    between = np.square(np.bincount(codes, sizes * x)) / of_code
    total = float(sizes @ np.square(x))
    return _strength(int(sizes.sum()), len(of_code), float(between.sum()), total)


def _strength(n: int, groups: int, between: float, total: float) -> float:
    """Explained variance as a strength: 0 at chance, 0.5 at ``_EXPLAINED``, 1 if complete.

    Parameters
    ----------
    between, total : sums of squares.
    """
    if groups < 2 or n - groups < LEAST_COMPARABLE_SHARE * n or total <= 0.0:
        return 0.0
    residual = max(1.0 - between / total, 0.0)
    explained = 1.0 - residual * (n - 1) / (n - groups)
    chance = sqrt(2.0 * (groups - 1) / ((n - groups) * (n + 1.0)))
    if explained < DEVIATIONS * chance:
        return 0.0
    return max(1.0 - (1.0 - explained) / (2.0 * (1.0 - _EXPLAINED)), 0.0)


def _middle(label: str) -> float:
    """The midpoint of a label's ends, dates as days; NaN if it has none."""
    ends: list[float] = []
    try:
        ends = [float(date.fromisoformat(day).toordinal()) for day in _DAY.findall(label)]
    except ValueError:
        return float("nan")
    ends = ends or [float(end) for end in _END.findall(label)]
    return sum(ends) / len(ends) if ends else float("nan")
