"""Check and list rules of tables, and apply them to jobs that name no columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
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
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from dbanon.job.rules import TableRules, rules_from_comments, validate_rules
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

if TYPE_CHECKING:
    from dbanon.ledger.rules import StoredRule
    from dbanon.sessions.store import Store


@dataclass(frozen=True)
class Declared:
    """A rule of a column, or a column without one.

    Parameters
    ----------
    source : the present name of the table.
    column : the name of the column.
    role : the role that the rule gives to the column; None without a rule.
    rule : the rule as an object with the key ``role``; None without a rule.
    state : ``current``; ``not trusted``, if no current owner declared it; ``another table``, if it
        was declared for another table of this name, or was restored; ``no column``; ``no table``;
        ``no rule``, for a column without a rule.
    declared_at : when the rule was declared; None without a rule.
    declared_by : the database role that declared it; None without a rule, and on databases without
        roles.
    """

    source: str
    column: str
    role: str | None
    rule: JsonMapping | None
    state: str
    declared_at: str | None
    declared_by: str | None


def collect_rules(
    session: Session, relation: Relation, by_column: JsonMapping, *, from_comments: bool
) -> TableRules:
    """Collect the rules to declare for the columns of a table, and check them.

    Parameters
    ----------
    by_column : rules by column; they take precedence over those in comments.
    from_comments : also read rules from the comments on its columns.

    Raises
    ------
    InvalidParameter, HierarchyBroken : a rule is invalid.
    ColumnNotFound : the table has no such column.
    """
    requested_rules = (
        dict(rules_from_comments(session.catalog.read_column_comments(relation.name)))
        if from_comments
        else {}
    )
    requested_rules |= by_column
    if not requested_rules and from_comments:
        raise InvalidParameter(
            f"No comment on a column of {relation.name} states a rule.",
            hint="Write a line in the comment on a column: dbanon: quasi_identifier",
        )
    table_rules = validate_rules(requested_rules)
    columns = [attribute.name for attribute in relation.schema.attributes]
    for name in table_rules.by_column:
        if name not in columns:
            raise ColumnNotFound(
                f'{relation.name} has no column "{name}", which a rule names.',
                hint=nearest_names(name, columns),
            )
    return table_rules


def rules_to_declare(listing: Sequence[Declared]) -> JsonObject:
    """Return the rules of a listing by column, as ``declare`` accepts them.

    Rules of columns and tables that no longer exist are left out.

    Raises
    ------
    InvalidParameter : the rules belong to several tables.
    """
    from dbanon.ledger import rules as stored_rules

    if len({entry.source for entry in listing}) > 1:
        raise InvalidParameter(
            "The rules are for several tables.", hint="Declare the rules of one table at a time."
        )
    return {
        entry.column: entry.rule
        for entry in listing
        if entry.rule is not None
        and entry.state not in (stored_rules.NO_COLUMN, stored_rules.NO_TABLE)
    }


def require_removable_rules(
    session: Session, table: RelationName, columns: Sequence[str] | None
) -> None:
    """Check that the owner of a table may remove rules of these columns; None for any rule.

    Raises
    ------
    RulesNotFound : the table has no rules, or one of the columns has none.
    """
    from dbanon.ledger import rules as stored_rules

    # Rules that are not replaceable belong to another table of this name.
    declared_names = [
        rule.name for rule in stored_rules.list_rules(session, table) if rule.is_replaceable
    ]
    for column in columns or ():
        if column not in declared_names:
            raise RulesNotFound(
                f'{table} has no rule for column "{column}".',
                hint=nearest_names(column, declared_names),
            )
    if not declared_names:
        raise RulesNotFound(f"No rules are declared for {table}.")


def list_table_rules(session: Session) -> list[Declared]:
    """Return the rules of all tables."""
    from dbanon.ledger import rules as stored_rules

    return [_to_declared(rule) for rule in stored_rules.list_rules(session)]


def list_column_rules(session: Session, relation: Relation) -> list[Declared]:
    """Return the rules of a table and the columns without one, in the order of its columns."""
    from dbanon.ledger import rules as stored_rules

    rule_by_name = {rule.name: rule for rule in stored_rules.list_rules(session, relation.name)}
    column_rules = []
    for attribute in relation.schema.attributes:
        rule = rule_by_name.pop(attribute.name, None)
        column_rules.append(
            Declared(
                source=str(relation.name),
                column=attribute.name,
                role=None,
                rule=None,
                state=stored_rules.NO_RULE,
                declared_at=None,
                declared_by=None,
            )
            if rule is None
            else _to_declared(rule)
        )
    # Untrusted rules of missing columns need no decision, so leave them out.
    return column_rules + [_to_declared(rule) for rule in rule_by_name.values() if rule.is_trusted]


def apply_table_rules(job: Job, store: Store) -> Job:
    """Apply the rules of the job's table, if the job uses rules.

    A job that uses rules has ``RULES_NOT_READ`` in place of their digest until they are applied.
    """
    if job.declared != RULES_NOT_READ:
        return job
    with store.session(write=False) as session:
        return apply_rules_in_session(session, job)


def apply_rules_in_session(session: Session, job: Job) -> Job:
    """Apply the rules of the job's table, if the job uses rules.

    This does not check that each column has a rule and each rule has a column, which the run does
    in its own transaction. Warns with ``RulesOfAnotherTable``.

    Raises
    ------
    RulesNotFound : the table has no rules.
    RulesNotTrusted : some rules were declared by a role that may no longer do so.
    InsufficientRights : a rule names a hierarchy table that the table's owner may not read.
    """
    if job.declared != RULES_NOT_READ:
        return job
    relation = session.catalog.find_source(parse_relation(job.table))
    columns = [attribute.name for attribute in relation.schema.attributes]
    from dbanon.ledger import rules as stored_rules

    all_rules = stored_rules.list_rules(session, relation.name)
    _require_trusted(relation.name, [rule for rule in all_rules if rule.name in columns])
    trusted_rules = [rule for rule in all_rules if rule.is_trusted]
    if not trusted_rules:
        renamed_table = stored_rules.renamed_table(session, relation.name)
        raise RulesNotFound(
            f"No rules are declared for {relation.name}, and no quasi-identifiers are named.",
            hint=f"The rules went with the table that had this name before, now {renamed_table}."
            " Declare rules for the columns of this table, or name `quasi_identifiers`."
            if renamed_table is not None
            else "Declare rules for its columns, or name `quasi_identifiers`.",
        )
    if any(rule.state == stored_rules.ANOTHER_TABLE for rule in trusted_rules):
        warn_caller(
            RulesOfAnotherTable(
                f"Rules of {relation.name} were declared for another table of this name, or were"
                " restored. If they still apply, the owner declares them again; after restoring a"
                " dump, an administrator runs: dbanon upgrade"
            )
        )
    rule_by_column = {rule.name: rule.rule for rule in trusted_rules}
    # Use the table's order, so that the release does not depend on when each rule was declared.
    # Columns that no longer exist come first, by name; the run refuses them.
    column_order = sorted(
        rule_by_column, key=lambda name: (columns.index(name) if name in columns else -1, name)
    )
    ruled_job = apply_rules(job, TableRules({name: rule_by_column[name] for name in column_order}))
    for spec in (
        *ruled_job.hierarchies.values(),
        *(model.distance for model in ruled_job.policy.models),
    ):
        if isinstance(spec, HierarchySpec) and spec.kind == TABLE:
            # The owner chose this table, but it is read with the rights of the releasing role. So
            # require that the owner may read it, too.
            tree_table = session.catalog.find_source(parse_relation(spec.value)).name
            session.rules.require_owner_reads(relation.name, tree_table)
    return ruled_job


def _require_trusted(table: RelationName, column_rules: Sequence[StoredRule]) -> None:
    """Check that the rules of a table's columns were declared by roles that may still do so.

    Raises
    ------
    RulesNotTrusted : some rules were not; the error names their columns and who declared them.
    """
    untrusted_rules = [rule for rule in column_rules if not rule.is_trusted]
    if not untrusted_rules:
        return
    names = ", ".join(f'"{rule.name}"' for rule in untrusted_rules)
    authors = ", ".join(dict.fromkeys(f'"{rule.declared_by}"' for rule in untrusted_rules))
    # A backtick would end the markup of the hint.
    table_json = json_text(str(table)).replace("`", "\\u0060")
    raise RulesNotTrusted(
        f"Rules of {table} were not declared by its present owner; nothing was published.",
        detail=f"Not trusted: {names}, declared by {authors}. The table had another owner then, or"
        " that role is no longer a member of the owning role.",
        # Each door replaces ``declare_again()`` by its way to declare the rules of this table.
        hint="Check these rules. If they are right, the owner declares them again:"
        f" `declare_again()={table_json}`",
    )


def apply_rules(job: Job, rules: TableRules) -> Job:
    """Return a copy of the job with the options that result from the rules of its columns.

    The options belong to the job, to its policy or to its pseudonym options.

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
    # What remains in ``options`` are fields of the job itself.
    policy_options = {
        name: options.pop(name) for name in ("models", "weights", "steps", "orders", "kinds")
    }
    pseudonym_options = replace(job.pseudonym_options, pseudonyms=options.pop("pseudonyms"))
    return replace(
        job,
        **options,
        pseudonym_options=pseudonym_options,
        policy=replace(job.policy, **policy_options),
    )


def _to_declared(rule: StoredRule) -> Declared:
    """Convert a rule as stored in the ledger."""
    role = rule.rule.get("role")
    return Declared(
        source=rule.table,
        column=rule.name,
        role=role,
        rule=rule.rule,
        state=rule.state,
        declared_at=rule.declared_at,
        declared_by=rule.declared_by,
    )
