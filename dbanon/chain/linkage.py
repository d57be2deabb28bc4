"""Columns that a chain releases as they are and that undo its cells, by what it shows alone.

Elsewhere the originals say whether a column is another coding of a quasi-identifier. Here they must
not: what an exchange of two persons of a cell changes is reported to nobody, not even by a refusal.
So the released values stand in for them. Rows with one value of such a column have released values
of the quasi-identifier that lie closer together than those of any rows: by their variance if they
are numbers, and by how many pairs of rows have the same one. From 0, as by chance, to 1.
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
from dbanon.chain.several import PART, WHOSE
from dbanon.data.schema import Kind
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.release.linkage import (
    COMPARABLE,
    DEVIATIONS,
    MEMBERS,
    WARNED,
    LinkingColumn,
    is_coding,
    may_number_groups,
    share_in_hundredths,
)
from dbanon.run.linkage import may_be_group_number
from dbanon.sessions import recount_statements
from dbanon.stores.ports import Draft

_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
# Of these, labels have ends.
_LABELLED = _NUMBERS | {Kind.DATE, Kind.TIMESTAMP}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_END = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# So much of a variance a column explains at least that is another coding: of what it does not, a
# strong dependence that is studied, as of illnesses on age, leaves more.
_EXPLAINED = 0.75


@dataclass(frozen=True)
class ShownColumns:
    """The columns of one table of a chain that are released as they are, beside its cells.

    Parameters
    ----------
    draft : of the table's release; its relation has the types of the columns.
    columns : of the release: name, place in the state, and what it stands for.
    part : the number of the table.
    bounds_cells : whether each cell has k rows of this table; codings are looked for then.
    """

    state: CellState
    draft: Draft
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
        """The columns that cells share: place, and what each stands for."""
        return [(place, of) for _, place, of in self.columns if place.startswith("v")]

    def _place(self, name: str) -> str:
        [place] = [place for own, place, _ in self.columns if own == name]
        return place

    @property
    def _shown(self) -> SubqueryRelation:
        """The rows on display."""
        places = [place for _, place, _ in self.columns]
        listed = ", ".join(f"{'v' if p.startswith('v') else 'r'}.{p}" for p in places)
        own = f", r.{WHOSE}" if self.state.several else ""
        of = f" WHERE r.{PART} = {int(self.part)}" if self.state.several else ""
        query = (
            f"SELECT r.cell{own}, {listed} FROM {self.state.rows} AS r"
            f" JOIN {self.state.values} AS v ON v.cell = r.cell{of}"
        )
        name = self.state.chain.table(self.state.session, "row")
        return SubqueryRelation(name.schema, name.name, query)

    def _keys(self, places: Sequence[str]) -> list[tuple[str, ...]]:
        """What tells values apart as readers see them, of the alias s."""
        keys: list[tuple[str, ...]] = []
        for place in places:
            table = "value" if place.startswith("v") else "row"
            relation = self.state.chain.table(self.state.session, table)
            keys += self.state.session.display_keys(relation, [place])
        return keys

    def strengths(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """How far each column and each quasi-identifier follow from one another, as released."""
        strengths: dict[str, dict[str, float]] = {}
        for name in names:
            strengths[name] = {}
            for place, of in self._released if self.bounds_cells else ():
                strength = max(
                    self._agreement(name, place, both=name in self.draft.job.keep),
                    self._variance(name, place, of),
                )
                strengths[name][of] = max(strength, strengths[name].get(of, 0.0))
        return strengths

    def _agreement(self, name: str, place: str, *, both: bool) -> float:
        """By pairs of rows: of one value of the column with ``both`` or of one released value."""
        [value], [label] = self._keys([self._place(name)]), self._keys([place])
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
            f" FROM {self._shown.quoted} AS s WHERE {value[0]} IS NOT NULL) AS shown"
            f" GROUP BY {values}, {labels}) AS cells) AS sized"
        )
        n = int(rows or 0)
        if n < 2:
            return 0.0
        same_label, same_value, *rest = (float(one or 0.0) for one in counted)
        pairs = n * (n - 1.0)
        strength = _excess(n, same_label / pairs, *rest[:3])
        return max(strength, _excess(n, same_value / pairs, *rest[3:])) if both else strength

    def _variance(self, name: str, place: str, of: str) -> float:
        """By the share of the variance of released numbers, or of middles of labels."""
        session = self.state.session
        relation = session.find_source(self.state.chain.table(session, "value"))
        [value] = self._keys([self._place(name)])
        rows = f"FROM {self._shown.quoted} AS s"
        rows += f" WHERE {value[0]} IS NOT NULL AND s.{place} IS NOT NULL"
        if relation.attribute(place).kind not in _NUMBERS:
            if self.draft.relation.attribute(of).kind not in _LABELLED:
                return 0.0
            # Labels are released. Of the column there are only numbers that tell its values apart.
            counted = session.rows(
                "SELECT code, label, count(*) FROM (SELECT dense_rank() OVER (ORDER BY"
                f" {', '.join(value)}) AS code, CAST(s.{place} AS VARCHAR) AS label {rows})"
                " AS labelled GROUP BY code, label"
            )
            return _explained_by_codes(counted)
        parts = ", ".join(f"{part} AS g{i}" for i, part in enumerate(value))
        values = ", ".join(f"g{i}" for i in range(len(value)))
        shown = f"(SELECT {parts}, CAST(s.{place} AS DOUBLE PRECISION) AS x {rows}) AS shown"
        [(groups, n, between, total)] = session.rows(
            "SELECT count(*), sum(n), sum(n * mean * mean), sum(squares) FROM"
            " (SELECT count(*) AS n, avg(x - middle) AS mean,"
            f" sum((x - middle) * (x - middle)) AS squares FROM {shown}"
            f" CROSS JOIN (SELECT avg(x) AS middle FROM {shown}) AS overall GROUP BY {values})"
            " AS of_values"
        )
        return _explained(int(n or 0), int(groups), float(between or 0.0), float(total or 0.0))

    def coding(self, name: str, strengths: Mapping[str, float]) -> LinkingColumn | None:
        """The finding on a column that is another coding of a quasi-identifier."""
        strongest = max(strengths, key=lambda one: strengths[one], default=None)
        if strongest is None or not is_coding(strengths[strongest]):
            return None
        places = [*(place for place, _ in self._released), self._place(name)]
        parts = [part for key in self._keys(places) for part in key]
        named = ", ".join(f"{part} AS c{i}" for i, part in enumerate(parts))
        columns = ", ".join(f"c{i}" for i in range(len(parts)))
        # Rows of one person are no company for one another.
        person = f", s.cell, s.{WHOSE}" if self.state.several else ""
        counted = f"SELECT {named}, count(*) AS n FROM {self._shown.quoted} AS s"
        counted += f" GROUP BY {', '.join(parts)}{person}"
        persons = "count(*)" if self.state.several else "sum(n)"
        query = f"SELECT sum(n) AS n, {persons} AS persons FROM ({counted}) AS p GROUP BY {columns}"
        k = int(self.state.k)
        [(rows, below)] = self.state.session.rows(
            f"SELECT sum(n), sum(CASE WHEN persons < {k} THEN n ELSE 0 END) FROM ({query}) AS c"
        )
        share = share_in_hundredths(int(below or 0), int(rows or 0))
        if int(below or 0) < k or share < WARNED:
            return None
        return LinkingColumn(name, strongest, share)

    def group_number(self, name: str) -> LinkingColumn | None:
        """The finding on a column that numbers groups of rows."""
        if not may_be_group_number(self.job, self.draft.relation, name):
            return None
        [group] = self._keys([self._place(name)])
        keys = ", ".join(group)
        found = self.state.session.rows(
            "SELECT size, count(*) FROM (SELECT count(*) AS size"
            f" FROM {self._shown.quoted} AS s WHERE {group[0]} IS NOT NULL GROUP BY {keys})"
            " AS of_values GROUP BY size"
        )
        sizes = np.array([[int(one) for one in row] for row in found], np.int64).reshape(-1, 2)
        none = np.zeros((len(sizes), 0), np.int64)
        if not may_number_groups(ValueGroups(sizes[:, 0], sizes[:, 1], sizes[:, 1], none)):
            return None
        profile = self._keys([place for place, _ in self._released])
        query = recount_statements.unique_profiles(self._shown, profile, group, MEMBERS)
        [(several, unique)] = self.state.session.rows(query)
        share = share_in_hundredths(int(unique), int(several))
        return LinkingColumn(name, None, share) if share >= WARNED else None


def _excess(n: int, chance: float, together: float, rows: float, pairs: float) -> float:
    """How far rows agree more than by chance; 0 where too few can disagree to say so.

    Parameters
    ----------
    n : all rows.
    chance : that two of them agree.
    together : the sum over rows of the share of the others of their group that agree with them.
    rows, pairs : rows in groups of several; the sum of n / (n - 1) over these groups of n.
    """
    if rows * (1.0 - chance) < COMPARABLE * n:
        return 0.0
    excess = together - chance * rows
    if excess < DEVIATIONS * sqrt(2.0 * chance * (1.0 - chance) * pairs):
        return 0.0
    return excess / (rows * (1.0 - chance))


def _explained_by_codes(counted: Sequence[Sequence[Any]]) -> float:
    """The same of labels: rows of a code, a label and how often both occur together."""
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
    return _explained(int(sizes.sum()), len(of_code), float(between.sum()), total)


def _explained(n: int, groups: int, between: float, total: float) -> float:
    """How far groups of n rows explain a variance: .5 from ``_EXPLAINED`` on, 0 as by chance.

    Parameters
    ----------
    between, total : sums of squares.
    """
    if groups < 2 or n - groups < COMPARABLE * n or total <= 0.0:
        return 0.0
    within = max(1.0 - between / total, 0.0)
    explained = 1.0 - within * (n - 1) / (n - groups)
    chance = sqrt(2.0 * (groups - 1) / ((n - groups) * (n + 1.0)))
    if explained < DEVIATIONS * chance:
        return 0.0
    return max(1.0 - (1.0 - explained) / (2.0 * (1.0 - _EXPLAINED)), 0.0)


def _middle(label: str) -> float:
    """The middle of the ends that a label shows, dates as days; NaN where it shows none."""
    ends: list[float] = []
    try:
        ends = [float(date.fromisoformat(day).toordinal()) for day in _DAY.findall(label)]
    except ValueError:
        return float("nan")
    ends = ends or [float(end) for end in _END.findall(label)]
    return sum(ends) / len(ends) if ends else float("nan")
