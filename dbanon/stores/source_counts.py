"""Counts of a source in a database: column profiles, persons, and reasons to refuse a run.

They show which columns may be person identifiers, how many persons classes hold, and where NULLs
and strata of fewer than k are. Only counts leave the database, never values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.persons import (
    HEAD,
    LOOKED_UP,
    PROBED,
    candidate_identifiers,
    constant_within,
    find_person_identifiers,
)
from dbanon.advice.profile import ColumnProfile
from dbanon.advice.roles import identifying
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata, null_in_entity
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.nulls import merge_patterns
from dbanon.partitioning.strata import null_error, too_few_error_for_count
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.sql_forms import forms_of

# Classes counted first; if some of these have too few persons, the others are not counted.
SAMPLED = 5_000
# Rows compared to estimate the share of distinct rows.
COMPARED = 1_000_000


@dataclass(frozen=True)
class _LeadingRows(RelationName):
    """The first rows of a relation, as a subquery.

    Parameters
    ----------
    source : the FROM item to take rows from, if not the whole relation.
    """

    columns: tuple[str, ...]
    rows: int
    source: str = ""

    @property
    def quoted(self) -> str:
        """A query in parentheses."""
        source = f"{self.source or super().quoted} AS s"
        return f"(SELECT {quote_list(self.columns)} FROM {source} LIMIT {self.rows})"


def profile_columns(
    session: Session,
    relation: RelationName,
    attributes: Sequence[Attribute],
    keys: Collection[str] = (),
    different: Callable[[str], str] = "count(DISTINCT {})".format,
) -> tuple[int, tuple[ColumnProfile, ...]]:
    """Count the rows of a relation, and profile these columns, in one query.

    Parameters
    ----------
    different : builds SQL that counts the distinct values of an expression.
    """
    query = statements.profile(
        relation,
        [
            (
                quote(a.name),
                different(session.compared(a)),
                session.text_of(a) if a.kind is Kind.CATEGORY else "",
            )
            for a in attributes
        ],
    )
    rows, *counts = session.rows(query)[0]
    columns = (
        ColumnProfile(
            a, int(present), int(distinct), a.name in keys, float(length or 0), float(worded or 0)
        )
        for a, present, distinct, length, worded in zip(
            attributes, *(counts[at::4] for at in range(4)), strict=True
        )
    )
    return int(rows), tuple(columns)


def identifiers(session: Session, relation: Relation, names: Sequence[str]) -> dict[str, str]:
    """The columns that look like names, addresses or person identifiers, and why.

    Decided on the first rows that the run reads.
    """
    attributes = [relation.attribute(name) for name in names]
    counted = {a.name: ColumnProfile(a, 0, 0) for a in attributes}
    # Columns of unsupported types are judged without reading them.
    read = [a for a in attributes if a.kind is not Kind.OTHER]
    if read:
        name, columns = relation.name, tuple(a.name for a in read)
        head = _LeadingRows(name.schema, name.name, columns, HEAD, relation.relation.quoted)
        forms = forms_of(session, relation.relation, read)
        for column in profile_columns(session, head, read, (), session.different_of_few)[1]:
            counted[column.name] = replace(column, form=forms[column.name])
    return identifying(counted.values())


def spellings(session: Session, relation: Relation, person: Attribute) -> dict[str, int]:
    """Count the persons that an identifier distinguishes, by normalization; empty for none."""
    kinds = dict.fromkeys(("", person.normalize, CASEFOLD))
    values = (session.value_of(replace(person, normalize=kind)) for kind in kinds)
    counts = ", ".join(f"count(DISTINCT {value})" for value in values)
    [row] = session.rows(f"SELECT {counts} FROM {relation.relation.quoted} AS s{relation.where}")
    return dict(zip(kinds, map(int, row), strict=True))


def different_rows(session: Session, relation: Relation, names: Sequence[str]) -> float:
    """The share of distinct value combinations in these columns, among the first million rows.

    All NULLs count as equal. The share usually falls with more rows.
    """
    columns = ", ".join(session.compared(relation.attribute(name)) for name in names)
    source = f"(SELECT {quote_list(names)} FROM {relation.relation.quoted} LIMIT {COMPARED}) AS s"
    rows, groups = session.rows(
        "SELECT coalesce(sum(n), 0), count(*) FROM"
        f" (SELECT count(*) AS n FROM {source} GROUP BY {columns}) AS g"
    )[0]
    return int(groups) / int(rows) if int(rows) else 1.0


def find_identifier_columns(session: Session, relation: Relation) -> dict[str, str]:
    """The columns that look like person identifiers, and why, as in ``advice.persons``.

    Columns that this role may not read are skipped.
    """
    attributes = relation.schema.attributes
    suspected, determined = candidate_identifiers(attributes), constant_within(attributes)
    if not suspected:
        return {}
    readable = session.readable(relation, [*suspected, *determined])
    candidates = [a for a in attributes if a.name in readable and a.name in suspected]
    constant = [a for a in attributes if a.name in readable and a.name in determined]
    if not candidates:
        return {}
    name, columns = relation.name, tuple(a.name for a in (*candidates, *constant))
    head = _LeadingRows(name.schema, name.name, columns, HEAD, staged=name.staged)

    def shared(column: ColumnProfile) -> Iterator[list[int]]:
        for row in session.rows(_dependency_query(session, name, column.attribute, constant)):
            yield [int(count) for count in row]

    lone = session.unique_columns(relation)
    return find_person_identifiers(
        constant,
        profile_columns(session, head, candidates, lone, session.different_of_few)[1],
        lambda column_name: _agreement(session, head, relation.attribute(column_name)),
        shared,
    )


def _agreement(session: Session, head: RelationName, attribute: Attribute) -> float:
    """The share of row pairs with equal values in a column."""
    squares, rows = session.rows(
        "SELECT coalesce(sum(n * n), 0), coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM"
        f" {head.quoted} AS s WHERE s.{quote(attribute.name)} IS NOT NULL"
        f" GROUP BY {session.compared(attribute)}) AS g"
    )[0]
    return (int(squares) - int(rows)) / (int(rows) * (int(rows) - 1)) if int(rows) > 1 else 1.0


def _dependency_query(
    session: Session, relation: RelationName, number: Attribute, constant: Sequence[Attribute]
) -> str:
    """Build a query that counts, for some repeated values of a number, the values of other columns.

    Each row of the result counts non-NULL and distinct values of each of those columns.
    """
    value = session.compared(number)
    columns = (number.name, *(a.name for a in constant))
    rows = _LeadingRows(relation.schema, relation.name, columns, LOOKED_UP, staged=relation.staged)
    some = _LeadingRows(
        relation.schema, relation.name, (number.name,), PROBED, staged=relation.staged
    )
    counts = ", ".join(
        f"count(s.{quote(a.name)}), count(DISTINCT {session.compared(a)})" for a in constant
    )
    return (
        f"SELECT {counts} FROM {rows.quoted} AS s WHERE {value} IN (SELECT {value} FROM"
        f" {some.quoted} AS s WHERE s.{quote(number.name)} IS NOT NULL)"
        f" GROUP BY {value} HAVING count(*) > 1"
    )


def classes_below(
    session: Session,
    relation: Relation,
    microdata: Microdata,
    partition: Partition,
    name: str,
    k: int,
) -> tuple[int, int]:
    """Count the classes, and those with fewer than k distinct values of a column.

    Each NULL counts as a separate value. If there are many classes, a random sample is counted
    first (class numbers in staging are random), and the rest only if the sample has none below k.
    """
    session.stage_labels(microdata, partition, relation.required_locator.types)
    rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
    value = session.compared(relation.attribute(name))

    def counted(condition: str) -> tuple[int, int]:
        classes, below = session.rows(
            f"SELECT count(*), coalesce(sum(CASE WHEN persons < {k} THEN 1 ELSE 0 END), 0) FROM"
            f" (SELECT count(DISTINCT {value}) + count(*) - count({value}) AS persons FROM {rows}"
            f"{condition} GROUP BY l.class) AS c"
        )[0]
        return int(classes), int(below)

    if partition.n_classes > 2 * SAMPLED:
        some, below = counted(f" WHERE l.class < {SAMPLED}")
        if below:
            return some, below
    return counted("")


def require_feasible(
    session: Session,
    relation: Relation,
    roles: ColumnRoles,
    policy: Policy,
    rows: int,
    withheld: int,
) -> None:
    """Raise the errors that a run would raise about NULLs and strata, without reading rows.

    Parameters
    ----------
    rows, withheld : the number of all rows, and of those withheld because of a NULL.

    Raises
    ------
    NullInEntity, NullInQuasiIdentifier, SuppressionOverBudget, TooFewRecords : as the run would.
    """
    nulls = _count_nulls(session, relation, (*roles.quasi_identifiers, *roles.persons))
    for person in roles.persons:
        if nulls[person.name]:
            raise null_in_entity(person.name, nulls[person.name], rows - withheld)
    holes = {a.name: nulls[a.name] for a in roles.quasi_identifiers}
    if any(holes.values()) and policy.nulls not in RELEASED_NULLS:
        raise null_error(holes)
    require_budget(policy, withheld, rows)
    holed = [a for a in roles.quasi_identifiers if holes[a.name]]
    _require_strata(session, relation, roles, policy, holed, rows, withheld)


def _count_nulls(
    session: Session, relation: Relation, columns: tuple[Attribute, ...]
) -> dict[str, int]:
    """Count the NULLs by column, among the rows that a run reads."""
    counts = ", ".join(f"count(*) - count(s.{quote(a.name)})" for a in columns)
    query = f"SELECT {counts} FROM {relation.relation.quoted} AS s{relation.where}"
    [null_counts] = session.rows(query)
    return {a.name: int(count) for a, count in zip(columns, null_counts, strict=True)}


def _require_strata(
    session: Session,
    relation: Relation,
    roles: ColumnRoles,
    policy: Policy,
    holed: list[Attribute],
    rows: int,
    withheld: int,
) -> None:
    """Check that each stratum has k or may be withheld; raises the run's error for the first.

    A person with rows in several merged patterns counts once in each, so a run may still refuse.
    """
    k = int(policy.k)
    flags = [f"CASE WHEN s.{quote(a.name)} IS NULL THEN 0 ELSE 1 END" for a in holed]
    # In a run's order of strata: by code point, NULL first.
    keys = []
    for column in roles.by:
        keys += [
            f"CASE WHEN s.{quote(column.name)} IS NULL THEN 0 ELSE 1 END",
            session.text_of(column),
        ]
    keys += flags
    count, unit = "count(*)", "records"
    for person in roles.persons:
        count, unit = f"count(DISTINCT {session.value_of(person)})", "persons"
    aliased_keys = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    aliases = [f"g{i}" for i in range(len(keys))]
    source = f"FROM {relation.relation.quoted} AS s{relation.where}"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    counted = ", ".join([f"{count} AS n", "count(*) AS m", *aliased_keys])
    order = f" ORDER BY {', '.join(aliases)}" if keys else ""
    strata = [
        _Stratum(
            int(n),
            int(m),
            tuple(key[: len(keys) - len(flags)]),
            tuple(not int(flag) for flag in key[len(keys) - len(flags) :]),
        )
        for n, m, *key in session.rows(
            f"SELECT {', '.join(['n', 'm', *aliases])} FROM (SELECT {counted} {source}{grouped})"
            f" AS strata{order}"
        )
    ]
    if policy.nulls == MERGE and flags:
        strata = _merge_rare_patterns(strata, k)
    rare = [stratum for stratum in strata if stratum.size < k]
    if strata and not rare:
        return
    if len(rare) < len(strata) and policy.max_suppression != 0:
        require_budget(policy, withheld + sum(stratum.rows for stratum in rare), rows)
        return
    # An empty table has no groups.
    few = rare[0] if rare else _Stratum(0, 0, (), ())
    absent = [a.name for a, is_absent in zip(holed, few.absent, strict=False) if is_absent]
    raise too_few_error_for_count(
        k,
        few.size,
        unit,
        max(len(strata), 1),
        withheld=withheld,
        null_columns=absent if holed else None,
        has_columns=bool(roles.by),
        is_merged=policy.nulls == MERGE,
    )


@dataclass(frozen=True)
class _Stratum:
    """Rows with equal values in the stratum columns and NULL in the same quasi-identifiers.

    Parameters
    ----------
    size : the records or persons that k is compared with; ``rows`` counts the rows.
    key : the values of the stratum columns.
    absent : True where a quasi-identifier is NULL; only for columns that have NULLs.
    """

    size: int
    rows: int
    key: tuple[Any, ...]
    absent: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class _PatternCounts:
    """Sums the sizes, int64 (m,), of patterns of NULLs."""

    sizes: NDArray[np.int64]

    def __call__(self, patterns: Sequence[int]) -> int:
        return int(self.sizes[list(patterns)].sum())


def _merge_rare_patterns(strata: list[_Stratum], k: int) -> list[_Stratum]:
    """Merge rare patterns of NULLs within each stratum; withheld ones stay separate."""
    merged: dict[tuple[Any, ...], _Stratum] = {}
    for key in dict.fromkeys(stratum.key for stratum in strata):
        same_key = [stratum for stratum in strata if stratum.key == key]
        sizes = np.array([stratum.size for stratum in same_key], np.int64)
        absent = np.array([stratum.absent for stratum in same_key], np.bool_)
        released, _ = merge_patterns(absent, _PatternCounts(sizes), k)
        for stratum, row in zip(same_key, released.tolist(), strict=True):
            before = merged.get((key, *row), _Stratum(0, 0, key, tuple(row)))
            merged[key, *row] = replace(
                before, size=before.size + stratum.size, rows=before.rows + stratum.rows
            )
    return list(merged.values())
