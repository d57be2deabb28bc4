"""What is counted of a source in a database: persons, and what a run would refuse.

Which columns may be numbers of persons, and whose values classes hold; NULLs, and strata of fewer
than k. Counts alone leave the database: no value is read.
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
    constant_within,
    numbers_found,
    suspects,
)
from dbanon.advice.profile import Column
from dbanon.advice.roles import identifying
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata, null_in_entity
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind
from dbanon.job.nulls import MERGE, RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.nulls import merge_patterns
from dbanon.partitioning.strata import null_error, too_few_counted
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.sql_forms import forms_of

# Classes that are counted first: where some of these hold few persons, no others are counted.
SAMPLED = 5_000
# Rows of which it is counted how many are different.
COMPARED = 1_000_000


@dataclass(frozen=True)
class _Head(RelationName):
    """Some rows of a relation, as FROM has them with an alias.

    Parameters
    ----------
    source : what they are rows of, where that is not the relation as a whole.
    """

    columns: tuple[str, ...]
    rows: int
    source: str = ""

    @property
    def quoted(self) -> str:
        """A query in parentheses."""
        source = f"{self.source or super().quoted} AS s"
        return f"(SELECT {quote_list(self.columns)} FROM {source} LIMIT {self.rows})"


def profiled(
    session: Session,
    relation: RelationName,
    attributes: Sequence[Attribute],
    keys: Collection[str] = (),
    different: Callable[[str], str] = "count(DISTINCT {})".format,
) -> tuple[int, tuple[Column, ...]]:
    """The rows of a relation, and what one query counts of these columns.

    Parameters
    ----------
    different : SQL that counts the values of an expression.
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
    rows, *found = session.rows(query)[0]
    columns = (
        Column(a, int(present), int(distinct), a.name in keys, float(long or 0), float(held or 0))
        for a, present, distinct, long, held in zip(
            attributes, *(found[at::4] for at in range(4)), strict=True
        )
    )
    return int(rows), tuple(columns)


def identifiers(session: Session, relation: Relation, names: Sequence[str]) -> dict[str, str]:
    """Why columns look like names, addresses or numbers of persons, by those that do.

    The first rows tell it, of those that are read.
    """
    attributes = [relation.attribute(name) for name in names]
    counted = {a.name: Column(a, 0, 0) for a in attributes}
    # Of types that no release reads, the type alone is looked at.
    read = [a for a in attributes if a.kind is not Kind.OTHER]
    if read:
        name, columns = relation.name, tuple(a.name for a in read)
        head = _Head(name.schema, name.name, columns, HEAD, relation.relation.quoted)
        forms = forms_of(session, relation.relation, read)
        for column in profiled(session, head, read, (), session.different_of_few)[1]:
            counted[column.name] = replace(column, form=forms[column.name])
    return identifying(counted.values())


def spellings(session: Session, relation: Relation, person: Attribute) -> dict[str, int]:
    """The persons that an identifier tells, by how it is normalized: not at all is empty."""
    kinds = dict.fromkeys(("", person.normalize, CASEFOLD))
    values = (session.value_of(replace(person, normalize=kind)) for kind in kinds)
    counts = ", ".join(f"count(DISTINCT {value})" for value in values)
    [row] = session.rows(f"SELECT {counts} FROM {relation.relation.quoted} AS s{relation.where}")
    return dict(zip(kinds, map(int, row), strict=True))


def different_rows(session: Session, relation: Relation, names: Sequence[str]) -> float:
    """The share of rows whose values in these columns no row before has, of a million at most.

    Of more rows it is less. NULLs are alike.
    """
    columns = ", ".join(session.compared(relation.attribute(name)) for name in names)
    source = f"(SELECT {quote_list(names)} FROM {relation.relation.quoted} LIMIT {COMPARED}) AS s"
    rows, groups = session.rows(
        "SELECT coalesce(sum(n), 0), count(*) FROM"
        f" (SELECT count(*) AS n FROM {source} GROUP BY {columns}) AS g"
    )[0]
    return int(groups) / int(rows) if int(rows) else 1.0


def numbers_of_persons(session: Session, relation: Relation) -> dict[str, str]:
    """The columns that look like numbers of persons, and why, as ``advice.persons`` says it.

    Columns that this role may not read are passed over.
    """
    attributes = relation.schema.attributes
    named, within = suspects(attributes), constant_within(attributes)
    if not named:
        return {}
    readable = session.readable(relation, [*named, *within])
    wanted = [a for a in attributes if a.name in readable and a.name in named]
    constant = [a for a in attributes if a.name in readable and a.name in within]
    if not wanted:
        return {}
    name, columns = relation.name, tuple(a.name for a in (*wanted, *constant))
    head = _Head(name.schema, name.name, columns, HEAD)

    def shared(column: Column) -> Iterator[list[int]]:
        for row in session.rows(_within(session, name, column.attribute, constant)):
            yield [int(count) for count in row]

    lone = session.lone_keys(relation)
    return numbers_found(
        constant,
        profiled(session, head, wanted, lone, session.different_of_few)[1],
        lambda one: _agree(session, head, relation.attribute(one)),
        shared,
    )


def _agree(session: Session, head: RelationName, attribute: Attribute) -> float:
    """The share of pairs of rows that have one value of a column."""
    squares, rows = session.rows(
        "SELECT coalesce(sum(n * n), 0), coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM"
        f" {head.quoted} AS s WHERE s.{quote(attribute.name)} IS NOT NULL"
        f" GROUP BY {session.compared(attribute)}) AS g"
    )[0]
    return (int(squares) - int(rows)) / (int(rows) * (int(rows) - 1)) if int(rows) > 1 else 1.0


def _within(
    session: Session, relation: RelationName, number: Attribute, constant: Sequence[Attribute]
) -> str:
    """Of each value that several rows share, out of some: rows with a value of each other column,
    and how many different ones they have."""
    value = session.compared(number)
    columns = (number.name, *(a.name for a in constant))
    rows = _Head(relation.schema, relation.name, columns, LOOKED_UP)
    some = _Head(relation.schema, relation.name, (number.name,), PROBED)
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
    """How many classes were counted, and how many of these hold fewer than k values of a column.

    Every NULL counts as a value of its own. Of many classes some are counted first, drawn by the
    random numbers that they have in staging; all are where none of these holds few.
    """
    session.stage_labels(microdata, partition, relation.located.types)
    rows = statements.released_rows(relation.from_clause, relation.located.expressions)
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
    wanted: ColumnRoles,
    policy: Policy,
    rows: int,
    withheld: int,
) -> None:
    """Refuse what a run would refuse of NULLs and strata, in its words; nothing is read.

    Parameters
    ----------
    rows, withheld : all rows, and those of them that are withheld for a NULL.

    Raises
    ------
    NullInEntity, NullInQuasiIdentifier, SuppressionOverBudget, TooFewRecords : as the run would.
    """
    nulls = _nulls(session, relation, (*wanted.quasi_identifiers, *wanted.persons))
    for person in wanted.persons:
        if nulls[person.name]:
            raise null_in_entity(person.name, nulls[person.name], rows - withheld)
    holes = {a.name: nulls[a.name] for a in wanted.quasi_identifiers}
    if any(holes.values()) and policy.nulls not in RELEASED_NULLS:
        raise null_error(holes)
    require_budget(policy, withheld, rows)
    holed = [a for a in wanted.quasi_identifiers if holes[a.name]]
    _require_strata(session, relation, wanted, policy, holed, rows, withheld)


def _nulls(session: Session, relation: Relation, columns: tuple[Attribute, ...]) -> dict[str, int]:
    """The rows that are read and have a NULL, by column."""
    counts = ", ".join(f"count(*) - count(s.{quote(a.name)})" for a in columns)
    query = f"SELECT {counts} FROM {relation.relation.quoted} AS s{relation.where}"
    [found] = session.rows(query)
    return {a.name: int(count) for a, count in zip(columns, found, strict=True)}


def _require_strata(
    session: Session,
    relation: Relation,
    wanted: ColumnRoles,
    policy: Policy,
    holed: list[Attribute],
    rows: int,
    withheld: int,
) -> None:
    """Check that each stratum has k or may be withheld, and say of the first what a run says.

    Of merged patterns persons with rows in several count once for each: a run may still refuse.
    """
    k = int(policy.k)
    flags = [f"CASE WHEN s.{quote(a.name)} IS NULL THEN 0 ELSE 1 END" for a in holed]
    # In the order of a run's strata: by the codes of their texts, NULL first.
    keys = []
    for column in wanted.by:
        keys += [f"CASE WHEN s.{quote(column.name)} IS NULL THEN 0 ELSE 1 END",
                 session.text_of(column)]  # fmt: skip
    keys += flags
    count, what = "count(*)", "records"
    for person in wanted.persons:
        count, what = f"count(DISTINCT {session.value_of(person)})", "persons"
    named = [f"{key} AS g{place}" for place, key in enumerate(keys)]
    places = [f"g{place}" for place in range(len(keys))]
    source = f"FROM {relation.relation.quoted} AS s{relation.where}"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    counted = ", ".join([f"{count} AS n", "count(*) AS m", *named])
    order = f" ORDER BY {', '.join(places)}" if keys else ""
    strata = [
        _Stratum(int(n), int(m), tuple(key[: len(keys) - len(flags)]),
                 tuple(not int(flag) for flag in key[len(keys) - len(flags) :]))
        for n, m, *key in session.rows(
            f"SELECT {', '.join(['n', 'm', *places])} FROM (SELECT {counted} {source}{grouped})"
            f" AS strata{order}"
        )
    ]  # fmt: skip
    if policy.nulls == MERGE and flags:
        strata = _merged(strata, k)
    rare = [one for one in strata if one.size < k]
    if strata and not rare:
        return
    if len(rare) < len(strata) and policy.max_suppression != 0:
        require_budget(policy, withheld + sum(one.rows for one in rare), rows)
        return
    # Of a table without rows there are no groups.
    few = rare[0] if rare else _Stratum(0, 0, (), ())
    absent = [a.name for a, gone in zip(holed, few.absent, strict=False) if gone]
    raise too_few_counted(
        k,
        few.size,
        what,
        max(len(strata), 1),
        withheld=withheld,
        absent=absent if holed else None,
        by_values=bool(wanted.by),
        merged=policy.nulls == MERGE,
    )


@dataclass(frozen=True)
class _Stratum:
    """Rows that agree in the columns of strata and in which quasi-identifiers are NULL.

    Parameters
    ----------
    size : what k is compared with, records or persons; ``rows`` are its rows.
    key : the values of its columns.
    absent : True for quasi-identifiers that are NULL, of those that are somewhere.
    """

    size: int
    rows: int
    key: tuple[Any, ...]
    absent: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class _Sums:
    """Counts patterns of NULLs by the sizes, int64 (m,), that each has."""

    sizes: NDArray[np.int64]

    def __call__(self, patterns: Sequence[int]) -> int:
        return int(self.sizes[list(patterns)].sum())


def _merged(strata: list[_Stratum], k: int) -> list[_Stratum]:
    """The strata once rare patterns of NULLs have joined others; withheld ones stay apart."""
    found: dict[tuple[Any, ...], _Stratum] = {}
    for key in dict.fromkeys(one.key for one in strata):
        own = [one for one in strata if one.key == key]
        sizes = np.array([one.size for one in own], np.int64)
        absent = np.array([one.absent for one in own], np.bool_)
        released, _ = merge_patterns(absent, _Sums(sizes), k)
        for one, row in zip(own, released.tolist(), strict=True):
            before = found.get((key, *row), _Stratum(0, 0, key, tuple(row)))
            found[key, *row] = replace(
                before, size=before.size + one.size, rows=before.rows + one.rows
            )
    return list(found.values())
