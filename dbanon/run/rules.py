"""Rules of tables: declare them, list them, and apply them to jobs that name no columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.words import json_text
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    RulesNotFound,
    RulesNotTrusted,
    RulesOfAnotherTable,
    nearest_names,
    warn_caller,
)
from dbanon.hierarchy.spec import TABLE, HierarchySpec
from dbanon.job.job import Job
from dbanon.job.rules import BY_RULES, TableRules, checked, rules_as_comments
from dbanon.ledger import rules as kept
from dbanon.ledger.rules import StoredRule
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store


@dataclass(frozen=True)
class Declared:
    """A rule of a column, or a column without one.

    Parameters
    ----------
    state : ``current``; ``not trusted``, if no current owner declared it; ``another table``, if it
        was declared for another table of this name, or was restored; ``no column``; ``no table``;
        ``no rule``, for a column without a rule.
    declared_by : the role, where there are roles.
    """

    source: str
    column: str
    role: str | None
    rule: Mapping[str, Any] | None
    state: str
    declared_at: str | None
    declared_by: str | None


def declare(
    store: Store,
    table: str,
    by_column: Mapping[str, Any] | None = None,
    *,
    from_comments: bool = False,
) -> list[Declared]:
    """Declare rules of a table in its database, and return all of its rules.

    Parameters
    ----------
    by_column : rules by column; they take precedence over those in comments.
    from_comments : also read the rules in comments on its columns.

    Raises
    ------
    InvalidParameter, HierarchyBroken : a rule is invalid.
    ColumnNotFound : the table has no such column.
    InsufficientRights : the table is another role's.
    """
    with store.session(write=True) as session:
        relation = session.find_source(parse_relation(table))
        requested = (
            dict(rules_as_comments(session.comments_on(relation.name))) if from_comments else {}
        )
        requested |= by_column or {}
        if not requested and from_comments:
            raise InvalidParameter(
                f"No comment on a column of {relation.name} states a rule.",
                hint="Write a line in the comment on a column: dbanon: quasi_identifier",
            )
        rules = checked(requested)
        columns = [attribute.name for attribute in relation.schema.attributes]
        for name in rules.by_column:
            if name not in columns:
                raise ColumnNotFound(
                    f'{relation.name} has no column "{name}", which a rule names.',
                    hint=nearest_names(name, columns),
                )
        kept.declare(session, relation.name, rules)
        return _states(session, relation)


def rules_to_declare(listing: Sequence[Declared]) -> dict[str, Any]:
    """The rules of a table's listing, by column, without those of missing columns.

    Raises
    ------
    InvalidParameter : the rules belong to several tables.
    """
    if len({rule.source for rule in listing}) > 1:
        raise InvalidParameter(
            "The rules are for several tables.", hint="Declare the rules of one table at a time."
        )
    return {
        entry.column: entry.rule
        for entry in listing
        if entry.rule is not None and entry.state not in (kept.NO_COLUMN, kept.NO_TABLE)
    }


def undeclare(store: Store, table: str, columns: Sequence[str] | None = None) -> list[Declared]:
    """Delete rules of a table, for some columns or all, and return the remaining ones.

    Raises
    ------
    RulesNotFound : the table, or one of the columns, has no rule.
    InsufficientRights : the table is another role's.
    """
    with store.session(write=True) as session:
        name = session.find_source(parse_relation(table)).name
        declared_names = [
            rule.name for rule in kept.list_rules(session, name) if rule.is_replaceable
        ]
        for column in columns or ():
            if column not in declared_names:
                raise RulesNotFound(
                    f'{name} has no rule of column "{column}".',
                    hint=nearest_names(column, declared_names),
                )
        if not declared_names:
            raise RulesNotFound(f"No rules are declared of {name}.")
        kept.undeclare(session, name, columns)
        return _states(session, session.find_source(name))


def rules(store: Store, table: str | None = None) -> list[Declared]:
    """The rules of a table, including its columns without one, or of all tables.

    Raises
    ------
    TableNotFound : there is no such table.
    """
    with store.session(write=False) as session:
        if table is not None:
            return _states(session, session.find_source(parse_relation(table)))
        return [_declared(rule) for rule in kept.list_rules(session)]


def with_table_rules(job: Job, store: Store) -> Job:
    """The job with the rules of its table applied, if it uses rules."""
    if job.declared != BY_RULES:
        return job
    with store.session(write=False) as session:
        return with_rules(session, job)


def with_rules(session: Session, job: Job) -> Job:
    """The same in a session.

    The run checks in its own transaction that each column has a rule and each rule a column.
    Warns with ``RulesOfAnotherTable``.

    Raises
    ------
    RulesNotFound : the table has no rules.
    RulesNotTrusted : a role declared some of them that no longer may.
    InsufficientRights : they name a hierarchy table that the table's owner may not read.
    """
    if job.declared != BY_RULES:
        return job
    relation = session.find_source(parse_relation(job.table))
    columns = [attribute.name for attribute in relation.schema.attributes]
    declared = kept.list_rules(session, relation.name)
    _require_trusted(relation.name, [rule for rule in declared if rule.name in columns])
    declared = [rule for rule in declared if rule.is_trusted]
    if not declared:
        followed = kept.renamed_table(session, relation.name)
        raise RulesNotFound(
            f"No rules are declared of {relation.name}, and no quasi-identifiers are named.",
            hint=f"The rules went with the table that had this name, {followed} now. Declare rules"
            " for the columns of this table, or name `quasi_identifiers`."
            if followed is not None
            else "Declare rules for its columns, or name `quasi_identifiers`.",
        )
    if any(rule.state == kept.ANOTHER_TABLE for rule in declared):
        warn_caller(
            RulesOfAnotherTable(
                f"Rules of {relation.name} were declared for another table of this name, or were"
                " restored. If they still apply, the owner declares them again; after restoring a"
                " dump, an administrator runs: dbanon upgrade"
            )
        )
    named = {rule.name: rule.rule for rule in declared}
    # Use the table's order, so that the release does not depend on when each was declared.
    order = sorted(named, key=lambda name: (columns.index(name) if name in columns else -1, name))
    ruled_job = apply_rules(job, TableRules({name: named[name] for name in order}))
    for spec in (*ruled_job.hierarchies.values(), *(m.distance for m in ruled_job.policy.models)):
        if isinstance(spec, HierarchySpec) and spec.kind == TABLE:
            # The releasing role reads it with its own rights but did not name it.
            tree = session.find_source(parse_relation(spec.value)).name
            session.require_owner_reads(relation.name, tree)
    return ruled_job


def _require_trusted(table: RelationName, rules_of_columns: Sequence[StoredRule]) -> None:
    """Check that the rules of a table's columns were declared by roles that still may do so.

    Raises
    ------
    RulesNotTrusted : some were not; names the columns and the declaring roles.
    """
    refused = [rule for rule in rules_of_columns if not rule.is_trusted]
    if not refused:
        return
    names = ", ".join(f'"{rule.name}"' for rule in refused)
    authors = ", ".join(dict.fromkeys(f'"{rule.declared_by}"' for rule in refused))
    # A backtick would end the markup of the hint.
    table_json = json_text(str(table)).replace("`", "\\u0060")
    raise RulesNotTrusted(
        f"Rules of {table} were not declared by its present owner; nothing was published.",
        detail=f"Not trusted: {names}, declared by {authors}. The table had another owner then, or"
        " that role is no member of the owning role now.",
        hint="Check these rules. If they are right, the owner declares them again:"
        f" `declare_again()={table_json}`",
    )


def apply_rules(job: Job, rules: TableRules) -> Job:
    """The job with the options from the rules of its columns.

    Raises
    ------
    InvalidParameter : no column is a quasi-identifier, or the rules do not fit the job.
    """
    options = rules.options()
    if not options["quasi_identifiers"]:
        raise InvalidParameter(
            f"The rules of {job.table} name no quasi-identifier.",
            hint="Declare the columns that together could re-identify a person as"
            " quasi_identifier.",
        )
    of_policy = {
        name: options.pop(name) for name in ("models", "weights", "steps", "orders", "kinds")
    }
    pseudonymized = replace(job.pseudonymized, pseudonyms=options.pop("pseudonyms"))
    return replace(
        job, **options, pseudonymized=pseudonymized, policy=replace(job.policy, **of_policy)
    )


def _states(session: Session, relation: Relation) -> list[Declared]:
    """The rules of a table and the columns without one, in the order of its columns."""
    by_name = {rule.name: rule for rule in kept.list_rules(session, relation.name)}
    states = []
    for attribute in relation.schema.attributes:
        rule = by_name.pop(attribute.name, None)
        states.append(
            Declared(str(relation.name), attribute.name, None, None, kept.NO_RULE, None, None)
            if rule is None
            else _declared(rule)
        )
    # Untrusted rules of missing columns need no decision, so leave them out.
    return states + [_declared(rule) for rule in by_name.values() if rule.is_trusted]


def _declared(rule: StoredRule) -> Declared:
    role = rule.rule.get("role")
    return Declared(
        rule.table, rule.name, role, rule.rule, rule.state, rule.declared_at, rule.declared_by
    )
