"""What counts of a source refuse: NULLs, and strata of fewer than k, before a row is read."""

from __future__ import annotations

from dbanon.data.microdata import ColumnRoles, null_in_entity
from dbanon.data.schema import Attribute
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.strata import null_refused, too_few_counted
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session


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
    if any(holes.values()) and policy.nulls != "category":
        raise null_refused(holes)
    require_budget(policy, withheld, rows)
    holed = [a for a in wanted.quasi_identifiers if holes[a.name]]
    _require_strata(session, relation, wanted, int(policy.k), holed, withheld)


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
    k: int,
    holed: list[Attribute],
    withheld: int,
) -> None:
    """Check that each stratum has k, and say of the first one that has not what a run says."""
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
    rows = f"FROM {relation.relation.quoted} AS s{relation.where}"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    strata = f"(SELECT {', '.join([f'{count} AS n', *named])} {rows}{grouped}) AS strata"
    present = places[len(keys) - len(flags) :]
    order = f" ORDER BY {', '.join(places)}" if keys else ""
    found = session.rows(
        f"SELECT {', '.join(['n', *present])} FROM {strata} WHERE n < {k}{order} LIMIT 1"
    )
    [(n_strata,)] = session.rows(f"SELECT count(*) FROM {strata}")
    if not found and n_strata:
        return
    # Of a table without rows there are no groups.
    size, *there = found[0] if found else (0,)
    absent = [a.name for a, flag in zip(holed, there, strict=False) if not int(flag)]
    raise too_few_counted(
        k,
        int(size),
        what,
        max(int(n_strata), 1),
        withheld=withheld,
        absent=absent if holed else None,
        by_values=bool(wanted.by),
    )
