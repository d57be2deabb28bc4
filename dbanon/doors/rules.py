"""The Python API for rules of tables, and for repeating releases from their ledger entries.

A rule declares the role of a column, and settings such as its hierarchy. A ``Declared`` is a rule
as the database stores it, or a column without a rule. Its state is ``current``; ``no rule`` for
such a column; or a problem of the rule, such as ``no table``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dbanon.data.types import JsonMapping
from dbanon.doors.dispatch import run_any_job
from dbanon.doors.progress import progress_callback
from dbanon.errors import InvalidParameter
from dbanon.ledger import rules as stored_rules
from dbanon.run.open import open_store
from dbanon.run.refresh import build_refresh_job
from dbanon.run.rules import (
    Declared,
    collect_rules,
    list_column_rules,
    list_table_rules,
    require_removable_rules,
    rules_to_declare,
)
from dbanon.sessions.names import parse_relation

if TYPE_CHECKING:
    from dbanon.doors.progress import ProgressOption
    from dbanon.release.report import Report
    from dbanon.sessions.base import OnSql
    from dbanon.sessions.store import ClientStore


def declare(
    database: object,
    table: str,
    rules: JsonMapping | Sequence[Declared] | None = None,
    *,
    from_comments: bool = False,
    on_sql: OnSql | None = None,
) -> list[Declared]:
    """Declare the roles of a table's columns in its database; returns all rules of the table.

    Columns that are not named keep their rules. Rules apply as long as the role that declared them
    owns the table, or is a member of the owning role.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    rules : by column a role, or an object with a role and its settings, as in
        ``{"age": {"role": "quasi_identifier", "hierarchy": "age_10"}, "name": "identifier"}``.
        They take precedence over rules in comments. Or the list that ``rules`` returned for one
        table: with it, the current owner takes over rules that another role declared.
    from_comments : also read rules from comments on columns, in a line
        ``dbanon: quasi_identifier``; a comment is never executed.

    Raises
    ------
    InvalidParameter, HierarchyBroken, ColumnNotFound : a rule is invalid, or the source is files,
        which keep no rules.
    InsufficientRights : another role owns the table.
    """
    store = _open_rule_store(database, on_sql)
    by_column = rules if isinstance(rules, Mapping) else rules_to_declare(rules or ())
    with store.session(write=True) as session:
        relation = session.catalog.find_source(parse_relation(table))
        table_rules = collect_rules(session, relation, by_column, from_comments=from_comments)
        stored_rules.write_rules(session, relation.name, table_rules)
        return list_column_rules(session, relation)


def _open_rule_store(database: object, on_sql: OnSql | None) -> ClientStore:
    """Open a database to change its rules.

    Raises
    ------
    InvalidParameter : the source is files, whose rows are in a database for one run only.
    """
    store = open_store(database, on_sql)
    if not store.is_persistent:
        raise InvalidParameter(
            "Rules are stored in the database of their table, and a file has no database.",
            hint="Name the columns in the call of the release.",
        )
    return store


def undeclare(
    database: object,
    table: str,
    columns: Sequence[str] | None = None,
    *,
    on_sql: OnSql | None = None,
) -> list[Declared]:
    """Remove the rules of a table, for some columns or for all; returns the remaining rules.

    Raises
    ------
    InvalidParameter : the source is files, which keep no rules.
    RulesNotFound : the table or a column has no rules.
    InsufficientRights : another role owns the table.
    """
    with _open_rule_store(database, on_sql).session(write=True) as session:
        name = session.catalog.find_source(parse_relation(table)).name
        require_removable_rules(session, name, columns)
        stored_rules.remove_rules(session, name, columns)
        return list_column_rules(session, session.catalog.find_source(name))


def rules(
    database: object, table: str | None = None, *, on_sql: OnSql | None = None
) -> list[Declared]:
    """List the rules of a table, with columns that have none, or the rules of all tables.

    Raises
    ------
    TableNotFound : there is no such table.
    """
    with open_store(database, on_sql).session(write=False) as session:
        if table is None:
            return list_table_rules(session)
        return list_column_rules(session, session.catalog.find_source(parse_relation(table)))


def refresh(
    database: object,
    release: str,
    *,
    accept: Collection[str] = (),
    chain_key: str | None = None,
    pseudonym_key: str | None = None,
    memory_limit: int | None = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    door: str = "python",
    run_id: str | None = None,
) -> Report:
    """Repeat a release from its ledger entry with the current rows of its source, and replace it.

    Method, columns, strata, conditions, chain and exports stay the same.

    Parameters
    ----------
    release : the name of the release's output.
    accept : differences that are allowed: ``version`` of dbanon, ``rules`` of the table, ``source``
        (another table, other types), ``hierarchies``. ``independent`` allows the release although
        its persons were released before, outside a chain.
    chain_key : location of the chain's key, for a release of a chain: ``file:PATH`` or
        ``env:NAME``.
    pseudonym_key : location of the pseudonyms' key, for a release with pseudonyms.
    memory_limit : bytes of memory to use.
    progress : called with the name of a phase and its completed share, 0 to 1; True for a progress
        bar in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    door, run_id : the interface and the UUID of the run, for the ledger.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    InsufficientRights : another role published the release, or a right was revoked.
    RefreshRefused : something that the release depends on has changed; the message says what.
    SecondRelease : the persons (column ``entity``) were released before, and ``accept`` lacks
        ``independent``.
    DbanonError : as ``anonymize``; the old release stays unchanged.
    """
    store = open_store(database, on_sql)
    run_id_option = {} if run_id is None else {"run_id": run_id}
    with store.session(write=False) as session:
        job = build_refresh_job(
            session,
            release,
            accept=accept,
            chain_key=chain_key,
            pseudonym_key=pseudonym_key,
            door=door,
            memory_limit=memory_limit,
            **run_id_option,
        )
    with progress_callback(progress) as callback:
        return run_any_job(job, store, progress=callback)
