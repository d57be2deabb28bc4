"""The Python API for rules of tables, and for repeating releases from their entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.doors.dispatch import run_classes
from dbanon.doors.progress import progress_callback
from dbanon.run import rules as run_rules
from dbanon.run.open import open_store
from dbanon.run.refresh import build_refresh_job
from dbanon.run.rules import Declared

if TYPE_CHECKING:
    from dbanon.doors.progress import ProgressOption
    from dbanon.release.report import Report
    from dbanon.sessions.base import OnSql


def declare(
    database: Any,
    table: str,
    rules: Mapping[str, Any] | Sequence[Declared] | None = None,
    *,
    from_comments: bool = False,
    on_sql: OnSql | None = None,
) -> list[Declared]:
    """Declare the roles of a table's columns, in its database; returns all its rules.

    Columns that are not named keep theirs. Rules count as long as whoever declared them owns the
    table, or is a member of the owning role.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    rules : by column a role, or an object with a role and what belongs to it, as in
        ``{"age": {"role": "quasi_identifier", "hierarchy": "age_10"}, "name": "identifier"}``.
        They go before those of comments. Or what ``rules`` returned of one table: so its owner of
        today takes over rules that another role declared.
    from_comments : also read the rules that comments on columns state, in a line
        ``dbanon: quasi_identifier``; a comment is never run.

    Raises
    ------
    InvalidParameter, HierarchyBroken, ColumnNotFound : a rule is not valid.
    InsufficientRights : the table is another role's.
    """
    store = open_store(database, on_sql)
    if rules is not None and not isinstance(rules, Mapping):
        rules = run_rules.rules_to_declare(rules)
    return run_rules.declare(store, table, rules, from_comments=from_comments)


def undeclare(
    database: Any, table: str, columns: Sequence[str] | None = None, *, on_sql: OnSql | None = None
) -> list[Declared]:
    """Remove rules of a table, of these columns or of all; returns the rules that are left.

    Raises
    ------
    RulesNotFound : there are none, or none of such a column.
    InsufficientRights : the table is another role's.
    """
    return run_rules.undeclare(open_store(database, on_sql), table, columns)


def rules(
    database: Any, table: str | None = None, *, on_sql: OnSql | None = None
) -> list[Declared]:
    """The rules of a table, with its columns that have none, or of all tables of a database.

    Raises
    ------
    TableNotFound : there is no such table.
    """
    return run_rules.rules(open_store(database, on_sql), table)


def refresh(
    database: Any,
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
    """Make a release again, in its place, from its ledger entry and its source as it is now.

    Method, columns, strata, conditions, chain and exports are as they were.

    Parameters
    ----------
    release : the name of its output.
    accept : what may differ from the release: ``version`` of dbanon, ``rules`` of the
        table, ``source`` (another table, other types), ``hierarchies``. ``independent`` makes it
        although its persons were released before, outside a chain.
    chain_key : where the key of its chain is, of a release of a chain: ``file:PATH`` or
        ``env:NAME``.
    pseudonym_key : where the key of its pseudonyms is, of a release that has some.
    memory_limit, progress, on_sql, door, run_id : as of ``anonymize``.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    InsufficientRights : another role published it, or a right was lost since.
    RefreshRefused : what the release depends on has changed; the message says what.
    SecondRelease : the entity of the release was released before, and ``independent`` is missing.
    DbanonError : as ``anonymize``; the release is as it was then.
    """
    store = open_store(database, on_sql)
    run_option = {} if run_id is None else {"run_id": run_id}
    with store.session(write=False) as session:
        job = build_refresh_job(
            session,
            release,
            accept=accept,
            chain_key=chain_key,
            pseudonym_key=pseudonym_key,
            door=door,
            memory_limit=memory_limit,
            **run_option,
        )
    with progress_callback(progress) as callback:
        return run_classes(job, store, None, callback)
