"""Find retained columns by which readers could tell the members of a cell apart.

A *cell* is a class of a chain (see ``membership``); a *retained column* is released unchanged. If a
retained column is another coding of a quasi-identifier, such as the year of birth beside the age,
it undoes the cells. Releases outside of chains check this with original values. A chain may not: no
message, not even a refusal, may depend on which person of a cell has which value. So only the
displayed rows (those in the current release) are used here.

If a column is another coding of a quasi-identifier, rows with the same value in the column have
closer released values of the quasi-identifier than random rows. This is measured by the variance of
released numbers, and by the share of row pairs with equal released values. Both measures run from 0
(chance) to 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import sqrt

import numpy as np

from dbanon.data.schema import Kind
from dbanon.data.types import SqlRow
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.recount import SubqueryRelation
from dbanon.extensions.chains.rows_per_person import PERSON_NUMBER, TABLE_NUMBER
from dbanon.extensions.chains.state import ChainColumn
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.release.linkage import (
    MAX_GROUP_SIZE,
    MIN_COMPARABLE_SHARE,
    MIN_DEVIATIONS,
    MIN_SHARE_TO_WARN,
    LinkingColumn,
    is_coding,
    may_identify_groups,
    share_in_hundredths,
)
from dbanon.run.linkage import may_be_group_identifier
from dbanon.sessions import recount_statements
from dbanon.stores.ports import PreparedRelease

_NUMBER_KINDS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
# Kinds whose generalized values are intervals with ends.
_KINDS_WITH_INTERVALS = _NUMBER_KINDS | {Kind.DATE, Kind.TIMESTAMP}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# A column that explains at least this share of the variance counts as another coding. If two
# attributes only depend on each other, as illness on age, the share is usually smaller.
_MIN_EXPLAINED = 0.75


@dataclass(frozen=True)
class DisplayedColumns:
    """The retained columns of one table of a chain, with the cells of their rows.

    Parameters
    ----------
    state : the state of the chain after this release.
    draft : the prepared release of the table, not written yet; its relation has the types of the
        columns.
    columns : the columns of the release.
    table_number : the index of the table among those of the chain.
    cells_have_k_rows : True if each cell has at least k rows of this table. Otherwise columns are
        not searched for codings of quasi-identifiers.
    has_k_anonymous_rows : True if entire rows are k-anonymous. Otherwise there are no classes that
        a column could undo.
    """

    state: ChainState
    draft: PreparedRelease
    columns: Sequence[ChainColumn]
    table_number: int
    cells_have_k_rows: bool
    has_k_anonymous_rows: bool = True

    @property
    def job(self) -> Job:
        """The job of the release."""
        return self.draft.job

    @property
    def _shared_columns(self) -> list[ChainColumn]:
        """The columns whose values the persons of a cell share."""
        return [column for column in self.columns if column.is_shared]

    def _state_column(self, name: str) -> str:
        """Return the column of the chain's tables that stores the released column ``name``."""
        [column] = [column for column in self.columns if column.name == name]
        return column.state_column

    @property
    def _row_query(self) -> SubqueryRelation:
        """The displayed rows of the table, with their cells."""
        column_list = ", ".join(
            f"{'v' if column.is_shared else 'r'}.{column.state_column}" for column in self.columns
        )
        person_column = f", r.{PERSON_NUMBER}" if self.state.has_several_rows_per_person else ""
        where_clause = (
            f" WHERE r.{TABLE_NUMBER} = {int(self.table_number)}"
            if self.state.has_several_rows_per_person
            else ""
        )
        query = (
            f"SELECT r.cell{person_column}, {column_list} FROM {self.state.row_table} AS r"
            f" JOIN {self.state.value_table} AS v ON v.cell = r.cell{where_clause}"
        )
        # A relation needs a name, but SQL reads the query in its place.
        name = self.state.chain.table_name(self.state.session, "row")
        return SubqueryRelation(name.schema, name.name, query)

    def _key_expressions(self, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """Return, for each of some columns of the chain's tables, SQL that identifies its values.

        Each item is a tuple of expressions over rows with the alias s. All of its expressions are
        equal in two rows if readers see the same text for both values. The first one is NULL if the
        value is.
        """
        keys: list[tuple[str, ...]] = []
        for column in columns:
            table = "value" if column.startswith("v") else "row"
            relation = self.state.chain.table_name(self.state.session, table)
            keys += self.state.session.catalog.columns_as_displayed(relation, [column])
        return keys

    def measure_dependence(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Measure the dependence, 0 to 1, between retained columns and released quasi-identifiers.

        The result is a mapping by name of the retained column, then by quasi-identifier.

        Parameters
        ----------
        names : the names of the retained columns.
        """
        strengths: dict[str, dict[str, float]] = {}
        for name in names:
            strengths[name] = {}
            for column in self._shared_columns if self.cells_have_k_rows else ():
                # As outside of chains, only columns of ``keep`` are also measured in the other
                # direction: by how much the quasi-identifier determines them.
                strength = max(
                    self._measure_agreement(
                        name, column.state_column, both_directions=name in self.draft.job.keep
                    ),
                    self._measure_explained_variance(name, column),
                )
                # A quasi-identifier may be released as several columns, such as two bounds.
                source = column.source
                strengths[name][source] = max(strength, strengths[name].get(source, 0.0))
        return strengths

    def _measure_agreement(self, name: str, label_column: str, *, both_directions: bool) -> float:
        """Measure dependence by how often rows with the same value have the same label.

        Parameters
        ----------
        name : the name of the retained column.
        label_column : the column of the chain's tables with the labels (released values) of the
            quasi-identifier.
        both_directions : True to measure also how often rows with the same label have the same
            value; the larger result counts.
        """
        [value_key] = self._key_expressions([self._state_column(name)])
        [label_key] = self._key_expressions([label_column])
        # The columns g0, g1, … identify the value (the group of rows), and l0, l1, … the label.
        select_list = [f"{key_part} AS g{i}" for i, key_part in enumerate(value_key)]
        select_list += [f"{key_part} AS l{i}" for i, key_part in enumerate(label_key)]
        values = ", ".join(f"g{i}" for i in range(len(value_key)))
        labels = ", ".join(f"l{i}" for i in range(len(label_key)))
        [(n_rows, *totals)] = self.state.session.rows(
            "SELECT sum(n), sum(n * (rows_of_label - 1.0)), sum(n * (rows_of_value - 1.0)),"
            " sum(n * (n - 1.0) / nullif(rows_of_value - 1, 0)),"
            " sum(CASE WHEN rows_of_value > 1 THEN n ELSE 0 END),"
            " sum(n * 1.0 / nullif(rows_of_value - 1, 0)),"
            " sum(n * (n - 1.0) / nullif(rows_of_label - 1, 0)),"
            " sum(CASE WHEN rows_of_label > 1 THEN n ELSE 0 END),"
            " sum(n * 1.0 / nullif(rows_of_label - 1, 0))"
            f" FROM (SELECT n, sum(n) OVER (PARTITION BY {values}) AS rows_of_value,"
            f" sum(n) OVER (PARTITION BY {labels}) AS rows_of_label FROM"
            f" (SELECT {values}, {labels}, count(*) AS n FROM (SELECT {', '.join(select_list)}"
            f" FROM {self._row_query.quoted} AS s WHERE {value_key[0]} IS NOT NULL) AS shown"
            f" GROUP BY {values}, {labels}) AS combinations) AS sized"
        )
        n = int(n_rows or 0)
        if n < 2:
            return 0.0
        # The totals are the numbers of ordered pairs of rows with the same label, and with the same
        # value; then the last three arguments of ``_excess_agreement``, first for rows grouped by
        # value, then for rows grouped by label.
        same_label, same_value, *sums = (float(total or 0.0) for total in totals)
        n_pairs = n * (n - 1.0)
        strength = _excess_agreement(n, same_label / n_pairs, *sums[:3])
        return (
            max(strength, _excess_agreement(n, same_value / n_pairs, *sums[3:]))
            if both_directions
            else strength
        )

    def _measure_explained_variance(self, name: str, column: ChainColumn) -> float:
        """Measure dependence by the explained variance of released numbers, or interval midpoints.

        Parameters
        ----------
        name : the name of the retained column.
        column : the released quasi-identifier.
        """
        state_column = column.state_column
        session = self.state.session
        relation = session.catalog.find_source(self.state.chain.table_name(session, "value"))
        [value_key] = self._key_expressions([self._state_column(name)])
        rows = f"FROM {self._row_query.quoted} AS s"
        rows += f" WHERE {value_key[0]} IS NOT NULL AND s.{state_column} IS NOT NULL"
        if relation.attribute(state_column).kind not in _NUMBER_KINDS:
            if self.draft.relation.attribute(column.source).kind not in _KINDS_WITH_INTERVALS:
                return 0.0
            # The released values are labels of intervals. Read the values of the retained column as
            # numbers (codes), so that they stay in the database.
            label_counts = session.rows(
                "SELECT code, label, count(*) FROM (SELECT dense_rank() OVER (ORDER BY"
                f" {', '.join(value_key)}) AS code, CAST(s.{state_column} AS VARCHAR) AS label"
                f" {rows}) AS labelled GROUP BY code, label"
            )
            return _measure_code_strength(label_counts)
        select_list = ", ".join(f"{key_part} AS g{i}" for i, key_part in enumerate(value_key))
        values = ", ".join(f"g{i}" for i in range(len(value_key)))
        numbers = (
            f"(SELECT {select_list}, CAST(s.{state_column} AS DOUBLE PRECISION) AS x {rows})"
            " AS shown"
        )
        [(n_groups, n, between, total)] = session.rows(
            "SELECT count(*), sum(n), sum(n * mean * mean), sum(squares) FROM"
            " (SELECT count(*) AS n, avg(x - middle) AS mean,"
            f" sum((x - middle) * (x - middle)) AS squares FROM {numbers}"
            f" CROSS JOIN (SELECT avg(x) AS middle FROM {numbers}) AS overall GROUP BY {values})"
            " AS values_counted"
        )
        return _to_strength(int(n or 0), int(n_groups), float(between or 0.0), float(total or 0.0))

    def find_coding(self, name: str, strengths: Mapping[str, float]) -> LinkingColumn | None:
        """Return a finding if a column is another coding of a quasi-identifier; otherwise None.

        Parameters
        ----------
        name : the name of the retained column.
        strengths : by quasi-identifier, the strength of its dependence on the column, 0 to 1.
        """
        coded_quasi_identifier = max(
            strengths, key=lambda quasi_identifier: strengths[quasi_identifier], default=None
        )
        if coded_quasi_identifier is None or not is_coding(strengths[coded_quasi_identifier]):
            return None
        state_columns = [
            *(column.state_column for column in self._shared_columns),
            self._state_column(name),
        ]
        key_parts = [key_part for key in self._key_expressions(state_columns) for key_part in key]
        named_parts = ", ".join(f"{key_part} AS c{i}" for i, key_part in enumerate(key_parts))
        columns = ", ".join(f"c{i}" for i in range(len(key_parts)))
        # If persons have several rows, count each person once.
        person = f", s.cell, s.{PERSON_NUMBER}" if self.state.has_several_rows_per_person else ""
        combinations = f"SELECT {named_parts}, count(*) AS n FROM {self._row_query.quoted} AS s"
        combinations += f" GROUP BY {', '.join(key_parts)}{person}"
        persons = "count(*)" if self.state.has_several_rows_per_person else "sum(n)"
        query = (
            f"SELECT sum(n) AS n, {persons} AS persons FROM ({combinations}) AS p"
            f" GROUP BY {columns}"
        )
        k = int(self.state.k)
        [(n_rows, n_below)] = self.state.session.rows(
            f"SELECT sum(n), sum(CASE WHEN persons < {k} THEN n ELSE 0 END) FROM ({query}) AS c"
        )
        # A finding on fewer than k rows could single them out, so there is none.
        share = share_in_hundredths(int(n_below or 0), int(n_rows or 0))
        if int(n_below or 0) < k or share < MIN_SHARE_TO_WARN:
            return None
        return LinkingColumn(name, codes=coded_quasi_identifier, share=share)

    def find_group_identifier(self, name: str) -> LinkingColumn | None:
        """Return a finding if a column identifies groups, such as households; otherwise None."""
        if not may_be_group_identifier(self.job, self.draft.relation, name):
            return None
        [group] = self._key_expressions([self._state_column(name)])
        group_columns = ", ".join(group)
        size_counts = self.state.session.rows(
            "SELECT size, count(*) FROM (SELECT count(*) AS size"
            f" FROM {self._row_query.quoted} AS s WHERE {group[0]} IS NOT NULL"
            f" GROUP BY {group_columns}) AS values_counted GROUP BY size"
        )
        counts = np.array([[int(value) for value in row] for row in size_counts], np.int64)
        sizes, n_values = counts.reshape(-1, 2).T
        # The check uses only sizes and counts, so the other fields are placeholders.
        groups = ValueGroups(
            sizes, counts=n_values, rare=n_values, identical=np.zeros((len(sizes), 0), np.int64)
        )
        if not may_identify_groups(groups):
            return None
        # The profile of a row is its combination of shared values. A group whose profiles no other
        # group has is unique: readers who know its members find it among the cells.
        profile = self._key_expressions([column.state_column for column in self._shared_columns])
        query = recount_statements.unique_profiles(
            self._row_query, profile, group, max_rows=MAX_GROUP_SIZE
        )
        [(n_in_groups, n_unique)] = self.state.session.rows(query)
        share = share_in_hundredths(int(n_unique), int(n_in_groups))
        return LinkingColumn(name, codes=None, share=share) if share >= MIN_SHARE_TO_WARN else None


def _excess_agreement(
    n: int, chance: float, agreeing: float, n_grouped: float, pair_weight: float
) -> float:
    """Return the agreement within groups in excess of chance, 0 to 1; 0 if too few could disagree.

    Two rows agree if they have the same label, or in the other direction the same value.

    Parameters
    ----------
    n : the number of rows.
    chance : the probability that two random rows agree.
    agreeing : for each row, the share of the other rows in its group that agree with it, summed
        over all rows.
    n_grouped : the number of rows in groups of two or more.
    pair_weight : the sum of size / (size - 1) over these groups.
    """
    if n_grouped * (1.0 - chance) < MIN_COMPARABLE_SHARE * n:
        return 0.0
    excess = agreeing - chance * n_grouped
    # The root is about the standard deviation of the excess if values and labels are independent.
    if excess < MIN_DEVIATIONS * sqrt(2.0 * chance * (1.0 - chance) * pair_weight):
        return 0.0
    return excess / (n_grouped * (1.0 - chance))


def _measure_code_strength(label_counts: Sequence[SqlRow]) -> float:
    """Measure how well codes explain the midpoints of interval labels, as a strength from 0 to 1.

    Parameters
    ----------
    label_counts : for each pair of a code and a label: the code, the label, and the number of rows
        with both.
    """
    midpoints = np.array([_midpoint(str(label)) for _, label, _ in label_counts], np.float64)
    sizes = np.array([int(n) for *_, n in label_counts], np.float64)
    has_ends = np.isfinite(midpoints)
    # If fewer than half of the rows have labels with numbers or dates, their midpoints say little.
    if 2 * sizes[has_ends].sum() < sizes.sum() or not has_ends.any():
        return 0.0
    midpoints, sizes = midpoints[has_ends], sizes[has_ends]
    codes = np.array([int(code) for code, *_ in label_counts], np.int64)[has_ends]
    # Number the remaining codes from 0.
    codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    centered_midpoints = midpoints - np.average(midpoints, weights=sizes)
    code_sizes = np.bincount(codes, sizes)
    between = np.square(np.bincount(codes, sizes * centered_midpoints)) / code_sizes
    total = float(sizes @ np.square(centered_midpoints))
    return _to_strength(int(sizes.sum()), len(code_sizes), float(between.sum()), total)


def _to_strength(n: int, n_groups: int, between: float, total: float) -> float:
    """Convert the explained share of the variance to a strength of dependence from 0 to 1.

    The strength is 0 if the share could be due to chance, 0.5 if it is ``_MIN_EXPLAINED``, and 1 if
    all of the variance is explained.

    Parameters
    ----------
    n, n_groups : the number of values, and the number of groups into which they are divided.
    between : the sum over all values of the squared deviation of their group mean from the mean.
    total : the sum of squared deviations of the values from the mean.
    """
    if n_groups < 2 or n - n_groups < MIN_COMPARABLE_SHARE * n or total <= 0.0:
        return 0.0
    residual = max(1.0 - between / total, 0.0)
    # Adjust for the number of groups, so that 0 is expected if groups and values are independent.
    explained = 1.0 - residual * (n - 1) / (n - n_groups)
    # The standard deviation of ``explained`` if they are independent and values are normal.
    chance_deviation = sqrt(2.0 * (n_groups - 1) / ((n - n_groups) * (n + 1.0)))
    if explained < MIN_DEVIATIONS * chance_deviation:
        return 0.0
    return max(1.0 - (1.0 - explained) / (2.0 * (1.0 - _MIN_EXPLAINED)), 0.0)


def _midpoint(label: str) -> float:
    """Return the midpoint of the numbers or dates (in days) in a label; NaN if it has neither."""
    ends: list[float] = []
    try:
        ends = [float(date.fromisoformat(day).toordinal()) for day in _DATE.findall(label)]
    except ValueError:
        return float("nan")
    ends = ends or [float(end) for end in _NUMBER.findall(label)]
    return sum(ends) / len(ends) if ends else float("nan")
