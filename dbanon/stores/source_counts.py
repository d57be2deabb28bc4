"""Counts in a source's database: column profiles, person identifiers, and reasons to refuse a run.

The counts show which columns may identify persons, which classes have too few values of a column,
and where there are NULLs or strata below k. Only counts leave the database, never values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.persons import (
    HEAD_ROWS,
    PROBED_ROWS,
    SEARCHED_ROWS,
    candidate_identifiers,
    find_constant_attributes,
    find_person_identifiers,
)
from dbanon.advice.profile import ColumnProfile
from dbanon.advice.roles import find_identifiers
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata, null_in_entity_error
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.strata import null_error, too_few_error_for_count
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.sql_forms import detect_forms

# This many classes are counted first. If one has too few distinct values, the rest is not counted.
FIRST_CLASSES = 5_000
# ``estimate_distinct_share`` reads this many rows.
COMPARED_ROWS = 1_000_000


@dataclass(frozen=True)
class _LeadingRows(RelationName):
    """The first rows of a relation, as a subquery that functions accept in place of a name.

    Parameters
    ----------
    columns : the columns to select.
    n_rows : the number of rows.
    source : the FROM item to take rows from; the relation itself if empty.

    If the relation is a file, its inherited field ``staging_table`` names the table with its rows.
    """

    columns: tuple[str, ...]
    n_rows: int
    source: str = ""

    @property
    def quoted(self) -> str:
        """The query, in parentheses."""
        source = f"{self.source or super().quoted} AS s"
        return f"(SELECT {quote_list(self.columns)} FROM {source} LIMIT {self.n_rows})"


def profile_columns(
    session: Session,
    relation: RelationName,
    attributes: Sequence[Attribute],
    unique_names: Collection[str] = (),
    count_distinct_sql: Callable[[str], str] = "count(DISTINCT {})".format,
) -> tuple[int, tuple[ColumnProfile, ...]]:
    """Count the rows of a relation, and profile these columns, in one query.

    Parameters
    ----------
    unique_names : the columns that the database declares unique.
    count_distinct_sql : builds SQL that counts the distinct values of an expression.
    """
    query = statements.profile(
        relation,
        [
            (
                quote(a.name),
                count_distinct_sql(session.dialect.grouping_sql(a)),
                # Only texts have a length and words.
                session.dialect.text_of(a) if a.kind is Kind.CATEGORY else "",
            )
            for a in attributes
        ],
    )
    n_rows, *counts = session.rows(query)[0]
    # The query returns four counts per column.
    columns = (
        ColumnProfile(
            a,
            n_non_null=int(n_non_null),
            n_distinct=int(n_distinct),
            is_unique_key=a.name in unique_names,
            mean_length=float(mean_length or 0),
            multiword_share=float(multiword_share or 0),
        )
        for a, n_non_null, n_distinct, mean_length, multiword_share in zip(
            attributes, *(counts[offset::4] for offset in range(4)), strict=True
        )
    )
    return int(n_rows), tuple(columns)


def find_direct_identifiers(
    session: Session, relation: Relation, names: Sequence[str]
) -> dict[str, str]:
    """Find columns that look like names, addresses or person identifiers, with reason codes.

    Only the first ``HEAD_ROWS`` of the rows that the run reads are examined.
    """
    attributes = [relation.attribute(name) for name in names]
    profiles = {a.name: ColumnProfile(a, n_non_null=0, n_distinct=0) for a in attributes}
    # Judge columns of unsupported types by their names only, with the counts 0.
    readable = [a for a in attributes if a.kind is not Kind.OTHER]
    if readable:
        name = relation.name
        # The rows come from ``source``; the relation's name is only needed for the base class.
        head = _LeadingRows(
            name.schema,
            name.name,
            tuple(a.name for a in readable),
            HEAD_ROWS,
            source=relation.relation_to_read.quoted,
        )
        # The form of each column's values, such as that of an IBAN; empty if there is none.
        forms = detect_forms(session, relation.relation_to_read, readable)
        _, head_profiles = profile_columns(
            session, head, readable, count_distinct_sql=session.dialect.count_distinct_sql
        )
        for profile in head_profiles:
            profiles[profile.name] = replace(profile, form=forms[profile.name])
    return find_identifiers(profiles.values())


def count_spellings(session: Session, relation: Relation, person: Attribute) -> dict[str, int]:
    """Count the distinct person identifiers; see ``ports.Source.count_spellings``."""
    # Without duplicates: ``person.normalize`` may be empty or CASEFOLD.
    normalizations = dict.fromkeys(("", person.normalize, CASEFOLD))
    values = (
        session.dialect.value_of(replace(person, normalize=normalization))
        for normalization in normalizations
    )
    counts = ", ".join(f"count(DISTINCT {value})" for value in values)
    [row] = session.rows(
        f"SELECT {counts} FROM {relation.relation_to_read.quoted} AS s{relation.where_clause}"
    )
    return dict(zip(normalizations, map(int, row), strict=True))


def estimate_distinct_share(session: Session, relation: Relation, names: Sequence[str]) -> float:
    """Estimate the share of distinct value combinations in these columns, from the first rows.

    NULLs count as equal values. The share among all rows is usually lower.
    """
    columns = ", ".join(session.dialect.grouping_sql(relation.attribute(name)) for name in names)
    source = (
        f"(SELECT {quote_list(names)} FROM {relation.relation_to_read.quoted} AS s"
        f" LIMIT {COMPARED_ROWS}) AS s"
    )
    n_rows, n_groups = session.rows(
        "SELECT coalesce(sum(n), 0), count(*) FROM"
        f" (SELECT count(*) AS n FROM {source} GROUP BY {columns}) AS g"
    )[0]
    return int(n_groups) / int(n_rows) if int(n_rows) else 1.0


def find_identifier_columns(session: Session, relation: Relation) -> dict[str, str]:
    """Find columns that look like person identifiers, with reasons to show users.

    Columns that the current database role may not read are skipped.
    """
    attributes = relation.schema.attributes
    candidate_names = candidate_identifiers(attributes)
    # Columns whose names suggest an attribute that is constant for a person: birth date or sex.
    constant_names = find_constant_attributes(attributes)
    if not candidate_names:
        return {}
    readable = session.catalog.find_readable_columns(relation, [*candidate_names, *constant_names])
    candidates = [a for a in attributes if a.name in readable and a.name in candidate_names]
    constant_attributes = [a for a in attributes if a.name in readable and a.name in constant_names]
    if not candidates:
        return {}
    name = relation.name
    columns = tuple(a.name for a in (*candidates, *constant_attributes))
    head = _LeadingRows(
        name.schema, name.name, columns, HEAD_ROWS, staging_table=name.staging_table
    )

    def count_within_values(column: ColumnProfile) -> Iterator[list[int]]:
        """Yield the counts of ``_dependency_query`` for each repeated value of a column."""
        query = _dependency_query(session, name, column.attribute, constant_attributes)
        for row in session.rows(query):
            yield [int(count) for count in row]

    _, profiles = profile_columns(
        session,
        head,
        candidates,
        unique_names=session.catalog.find_unique_columns(relation),
        count_distinct_sql=session.dialect.count_distinct_sql,
    )
    # All rows of a person should agree in these columns. The first function says how often rows
    # agree by chance, the second how often they agree if they share a value of the candidate.
    return find_person_identifiers(
        constant_attributes,
        profiles,
        lambda column_name: _equal_pair_share(session, head, relation.attribute(column_name)),
        count_within_values,
    )


def _equal_pair_share(session: Session, head: RelationName, attribute: Attribute) -> float:
    """Return the share of pairs of rows, among those of ``head``, with equal values in a column."""
    sum_of_squares, n_rows = session.rows(
        "SELECT coalesce(sum(n * n), 0), coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM"
        f" {head.quoted} AS s WHERE s.{quote(attribute.name)} IS NOT NULL"
        f" GROUP BY {session.dialect.grouping_sql(attribute)}) AS g"
    )[0]
    n = int(n_rows)
    return (int(sum_of_squares) - n) / (n * (n - 1)) if n > 1 else 1.0


def _dependency_query(
    session: Session,
    relation: RelationName,
    identifier: Attribute,
    constant_attributes: Sequence[Attribute],
) -> str:
    """Build a query that shows whether columns are constant for each value of an identifier.

    Each row of the result belongs to a value of the identifier that occurs repeatedly. It has two
    counts per column of ``constant_attributes``: of its non-NULL and of its distinct values. The
    identifier's values come from the first ``PROBED_ROWS`` rows; the rows with these values are
    searched for in the first ``SEARCHED_ROWS`` rows.
    """
    value = session.dialect.grouping_sql(identifier)
    columns = (identifier.name, *(a.name for a in constant_attributes))
    searched_rows = _LeadingRows(
        relation.schema, relation.name, columns, SEARCHED_ROWS, staging_table=relation.staging_table
    )
    probed_rows = _LeadingRows(
        relation.schema,
        relation.name,
        (identifier.name,),
        PROBED_ROWS,
        staging_table=relation.staging_table,
    )
    counts = ", ".join(
        f"count(s.{quote(a.name)}), count(DISTINCT {session.dialect.grouping_sql(a)})"
        for a in constant_attributes
    )
    return (
        f"SELECT {counts} FROM {searched_rows.quoted} AS s WHERE {value} IN (SELECT {value} FROM"
        f" {probed_rows.quoted} AS s WHERE s.{quote(identifier.name)} IS NOT NULL)"
        f" GROUP BY {value} HAVING count(*) > 1"
    )


def count_classes_below_k(
    session: Session,
    relation: Relation,
    microdata: Microdata,
    partition: Partition,
    name: str,
    k: int,
) -> tuple[int, int]:
    """Count the classes, and those with fewer than k distinct values of a column.

    Each NULL counts as a separate value. If there are many classes, those with the lowest staged
    numbers are counted first. These numbers are random, so this is a random sample. If one of its
    classes is below k, the counts are those of the sample.
    """
    # ``rows`` joins the source to the classes that are staged here.
    session.stage_labels(microdata, partition, relation.required_locator.types)
    rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
    value = session.dialect.grouping_sql(relation.attribute(name))

    def count_where(condition: str) -> tuple[int, int]:
        # In ``rows``, the alias l has the staged class numbers.
        n_classes, n_below = session.rows(
            f"SELECT count(*), coalesce(sum(CASE WHEN n_values < {k} THEN 1 ELSE 0 END), 0) FROM"
            f" (SELECT count(DISTINCT {value}) + count(*) - count({value}) AS n_values FROM {rows}"
            f"{condition} GROUP BY l.class) AS c"
        )[0]
        return int(n_classes), int(n_below)

    # With fewer classes, a sample would save little.
    if partition.n_classes > 2 * FIRST_CLASSES:
        n_classes, n_below = count_where(f" WHERE l.class < {FIRST_CLASSES}")
        if n_below:
            return n_classes, n_below
    return count_where("")


def require_feasible(
    session: Session,
    relation: Relation,
    roles: ColumnRoles,
    policy: Policy,
    n_rows: int,
    n_withheld: int,
) -> None:
    """Raise the errors that a run would raise about NULLs and strata, without reading rows.

    Parameters
    ----------
    n_rows : the number of all rows.
    n_withheld : how many of them are withheld because of a NULL.

    Raises
    ------
    NullInEntity : an entity column has NULLs.
    NullInQuasiIdentifier : a quasi-identifier has NULLs that the policy does not accept.
    SuppressionOverBudget : more rows would be suppressed or withheld than the policy allows.
    TooFewRecords : a stratum has fewer than k records or persons.
    """
    nulls = _count_nulls(session, relation, (*roles.quasi_identifiers, *roles.entity_columns))
    for person in roles.entity_columns:
        if nulls[person.name]:
            raise null_in_entity_error(person.name, nulls[person.name], n_rows - n_withheld)
    nulls_by_column = {a.name: nulls[a.name] for a in roles.quasi_identifiers}
    # Two policies release NULLs: one forms classes within each pattern of NULLs, the other, MERGE,
    # lets rare patterns join others first.
    if any(nulls_by_column.values()) and policy.nulls not in RELEASED_NULLS:
        raise null_error(nulls_by_column)
    # The budget is the share of rows that ``max_suppression`` allows to be withheld.
    require_budget(policy, n_withheld, n_rows)
    columns_with_nulls = [a for a in roles.quasi_identifiers if nulls_by_column[a.name]]
    if find_method(policy.method).suppresses_cells:
        # Classes may hold rows with different patterns of NULLs, which so need no k.
        columns_with_nulls = []
    _require_strata(session, relation, roles, policy, columns_with_nulls, n_rows, n_withheld)


def _count_nulls(
    session: Session, relation: Relation, columns: tuple[Attribute, ...]
) -> dict[str, int]:
    """Count the NULLs by column, among the rows that a run reads."""
    counts = ", ".join(f"count(*) - count(s.{quote(a.name)})" for a in columns)
    query = f"SELECT {counts} FROM {relation.relation_to_read.quoted} AS s{relation.where_clause}"
    [null_counts] = session.rows(query)
    return {a.name: int(count) for a, count in zip(columns, null_counts, strict=True)}


def _require_strata(
    session: Session,
    relation: Relation,
    roles: ColumnRoles,
    policy: Policy,
    columns_with_nulls: list[Attribute],
    n_rows: int,
    n_withheld: int,
) -> None:
    """Check that each stratum has k records or persons, or may be withheld.

    If rows with different patterns of NULLs are merged, a person with rows in several patterns
    counts once in each of them. So a run may refuse a source that this check accepts.

    Raises
    ------
    TooFewRecords, SuppressionOverBudget : see ``require_feasible``.
    """
    k = int(policy.k)
    # A flag is 0 for NULL and 1 for a value, so NULL sorts first.
    null_flags = [
        f"CASE WHEN s.{quote(a.name)} IS NULL THEN 0 ELSE 1 END" for a in columns_with_nulls
    ]
    # Order strata as a run does: by code point, NULL first.
    group_expressions = []
    for column in roles.by:
        group_expressions += [
            f"CASE WHEN s.{quote(column.name)} IS NULL THEN 0 ELSE 1 END",
            session.dialect.text_of(column),
        ]
    n_stratum_keys = len(group_expressions)
    group_expressions += null_flags
    # ``entity_columns`` has the entity column, or is empty.
    size_sql, unit = "count(*)", "records"
    for person in roles.entity_columns:
        size_sql, unit = f"count(DISTINCT {session.dialect.value_of(person)})", "persons"
    aliases = [f"g{i}" for i in range(len(group_expressions))]
    aliased_expressions = [
        f"{expression} AS {alias}"
        for expression, alias in zip(group_expressions, aliases, strict=True)
    ]
    from_clause = f"FROM {relation.relation_to_read.quoted} AS s{relation.where_clause}"
    group_by = f" GROUP BY {', '.join(group_expressions)}" if group_expressions else ""
    select_list = ", ".join([f"{size_sql} AS n", "count(*) AS m", *aliased_expressions])
    order_by = f" ORDER BY {', '.join(aliases)}" if group_expressions else ""
    strata = [
        _Stratum(
            size=int(size),
            n_rows=int(n_stratum_rows),
            key=tuple(values[:n_stratum_keys]),
            is_null=tuple(not int(flag) for flag in values[n_stratum_keys:]),
        )
        for size, n_stratum_rows, *values in session.rows(
            f"SELECT {', '.join(['n', 'm', *aliases])}"
            f" FROM (SELECT {select_list} {from_clause}{group_by}) AS strata{order_by}"
        )
    ]
    if policy.nulls == MERGE and null_flags:
        strata = _merge_rare_patterns(strata, k)
    rare_strata = [stratum for stratum in strata if stratum.size < k]
    if strata and not rare_strata:
        return
    # Withhold the rare strata, if any stratum is left then.
    if len(rare_strata) < len(strata) and policy.max_suppression != 0:
        n_rare_rows = sum(stratum.n_rows for stratum in rare_strata)
        require_budget(policy, n_withheld + n_rare_rows, n_rows)
        return
    # GROUP BY gives no stratum for an empty table; report one without rows.
    first_rare_stratum = (
        rare_strata[0] if rare_strata else _Stratum(size=0, n_rows=0, key=(), is_null=())
    )
    null_columns = [
        a.name
        for a, is_null in zip(columns_with_nulls, first_rare_stratum.is_null, strict=False)
        if is_null
    ]
    raise too_few_error_for_count(
        k,
        count=first_rare_stratum.size,
        unit=unit,
        n_strata=max(len(strata), 1),
        withheld=n_withheld,
        null_columns=null_columns if columns_with_nulls else None,
        has_columns=bool(roles.by),
        is_merged=policy.nulls == MERGE,
    )


@dataclass(frozen=True)
class _Stratum:
    """Rows with equal values in the stratum columns and NULL in the same quasi-identifiers.

    Parameters
    ----------
    size : the number of records or persons, which is compared with k.
    n_rows : the number of rows; greater than ``size`` if persons have several rows.
    key : the values of the stratum columns.
    is_null : for each quasi-identifier that has NULLs in the source: True if it is NULL here.
    """

    size: int
    n_rows: int
    key: tuple[object, ...]
    is_null: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class _PatternCounts:
    """Callable that adds up the sizes of some patterns of NULLs, given by their indexes.

    Parameters
    ----------
    sizes : the number of records or persons with each pattern, int64 (n_patterns,).
    """

    sizes: NDArray[np.int64]

    def __call__(self, patterns: Sequence[int]) -> int:
        return int(self.sizes[list(patterns)].sum())


def _merge_rare_patterns(strata: list[_Stratum], k: int) -> list[_Stratum]:
    """Merge strata with equal keys whose patterns of NULLs are rare, as a run does.

    Strata with a pattern that is to be withheld stay separate.
    """
    from dbanon.partitioning.nulls import merge_patterns

    merged_strata: dict[tuple[object, ...], _Stratum] = {}
    for key in dict.fromkeys(stratum.key for stratum in strata):
        strata_of_key = [stratum for stratum in strata if stratum.key == key]
        sizes = np.array([stratum.size for stratum in strata_of_key], np.int64)
        is_null = np.array([stratum.is_null for stratum in strata_of_key], np.bool_)
        # No two of these strata have the same pattern. Find the pattern with which each stratum is
        # released. A stratum that will be withheld keeps its pattern.
        merged_patterns, _ = merge_patterns(is_null, _PatternCounts(sizes), k)
        for stratum, pattern in zip(strata_of_key, merged_patterns.tolist(), strict=True):
            total = merged_strata.get(
                (key, *pattern), _Stratum(size=0, n_rows=0, key=key, is_null=tuple(pattern))
            )
            merged_strata[key, *pattern] = replace(
                total, size=total.size + stratum.size, n_rows=total.n_rows + stratum.n_rows
            )
    return list(merged_strata.values())
