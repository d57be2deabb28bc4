"""Python's door to what a database has: releases, and hierarchies by name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dbanon.hierarchy.spec import Given, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.ledger import job_history
from dbanon.ledger import releases as kept
from dbanon.ledger.job_history import Attempt
from dbanon.ledger.releases import Listed
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.stores import hierarchies
from dbanon.stores.hierarchies import Stored

if TYPE_CHECKING:
    from dbanon.run.evaluate_release import ReleaseEvaluation
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.sessions.base import OnSql


def releases(database: Any, *, on_sql: OnSql | None = None) -> list[Listed]:
    """What the ledger of a database has, newest first, and what became of each.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.

    Raises
    ------
    LedgerNotTrusted : the ledger is somebody else's.
    """
    with open_store(database, on_sql).session(write=False) as session:
        return kept.list_releases(session)


def attempts(database: Any, job: str, *, on_sql: OnSql | None = None) -> list[Attempt]:
    """Each run of a job of a file that the ledger of its target has, newest first.

    Parameters
    ----------
    database : as for ``releases``: where the job's releases are.
    job : its name in the file.

    Raises
    ------
    LedgerNotTrusted : the ledger is somebody else's.
    """
    with open_store(database, on_sql).session(write=False) as session:
        return job_history.attempts(session, job)


def show(database: Any, release: str, *, on_sql: OnSql | None = None) -> dict[str, Any]:
    """All that the ledger has of a release: its entry, state, columns and run, as plain values.

    Parameters
    ----------
    release : its id, or the name of its output; of several releases of a name the newest.

    Raises
    ------
    ReleaseNotFound : the ledger has none.
    """
    with open_store(database, on_sql).session(write=False) as session:
        return kept.shown(session, release)


def verify(
    database: Any,
    relation: str,
    *,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
    on_sql: OnSql | None = None,
) -> Verification | PrivateVerification:
    """Recount a release in the database, and compare it with the ledger.

    Parameters
    ----------
    quasi_identifiers, k : only for relations that the ledger of this database does not know; with
        a ledger entry, ``k`` may ask for more than was requested then.

    Of a differentially private release rows, NULLs, bounds and lists are counted; its privacy
    cannot be.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows, or does not keep to a privacy model.
    ReleaseChanged : it is not as it was released; the message says in what.
    InsufficientRights : the role may not read the relation, or the ledger.
    ReleaseNotFound : neither a ledger entry nor quasi-identifiers and k were given.
    """
    from dbanon.run import verify as recount

    store = open_store(database, on_sql)
    return recount.verify(store, parse_relation(relation), quasi_identifiers, k)


def evaluate_release(
    database: Any,
    release: str,
    *,
    original: str | None = None,
    changed_source: bool = False,
    on_sql: OnSql | None = None,
) -> ReleaseEvaluation:
    """What a release in a database lost and still risks, as far as that can be told later.

    What was recorded when it was made with ``evaluate``, and its classes counted now; with the
    original, losses that follow from both relations without pairs of rows. Frames and arrays, row
    beside row, are for ``dbanon.evaluate``.

    Parameters
    ----------
    release : the name of its output.
    original : the relation that it was made of, in the same database.
    changed_source : True to compare it though its rows or columns are others than then.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    OriginalChanged : the original has other rows or columns than the release was made of.
    """
    from dbanon.run.evaluate_release import evaluated

    return evaluated(
        open_store(database, on_sql),
        parse_relation(release),
        None if original is None else parse_relation(original),
        changed_source=changed_source,
    )


def drop(database: Any, release: str, *, on_sql: OnSql | None = None) -> list[str]:
    """Drop the release that has this name: its view, its table and its summary; their names.

    Only what the ledger knows and what bears the release's mark. The entry stays, as ``dropped``.

    Raises
    ------
    ReleaseNotFound, TableNotFound : there is no such release, or its relation is not there.
    InsufficientRights : a relation is another role's, or something else depends on it.
    """
    with open_store(database, on_sql).session(write=True) as session:
        return kept.drop(session, parse_relation(release))[1]


if TYPE_CHECKING:
    from dbanon.sessions.base import OnSql


def store_hierarchy(
    database: Any,
    name: str,
    hierarchy: Given,
    *,
    replace: bool = False,
    description: str | None = None,
    on_sql: OnSql | None = None,
) -> Hierarchy:
    """Store a hierarchy by name in a database, beside the ledger; what was stored.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    hierarchy : a Hierarchy, the path of a file, a table of the same database
        (``{"table": "ref.tree"}``), or another form that needs no values of a column.
    replace : True to take the place of the one of this name.

    Raises
    ------
    HierarchyExists : there is one of this name, and ``replace`` is False.
    HierarchyBroken : it is no tree.
    """
    given = parse(hierarchy, files=True)
    with open_store(database, on_sql).session(write=True) as session:
        tree = hierarchies.resolve(session, given)
        hierarchies.store(session, name, tree, replace=replace, description=description)
    return tree


def load_hierarchy(database: Any, hierarchy: Given, *, on_sql: OnSql | None = None) -> Hierarchy:
    """Read a hierarchy from a database: stored (``"name:education"``), or ``"table:ref.tree"``.

    Raises
    ------
    HierarchyNotFound, TableNotFound : there is none.
    HierarchyBroken : it is no tree.
    """
    given = parse(hierarchy, files=True)
    with _reading(database, on_sql) as session:
        return hierarchies.resolve(session, given)


def drop_hierarchy(database: Any, name: str, *, on_sql: OnSql | None = None) -> None:
    """Remove a stored hierarchy; releases that used it stay as they are.

    Raises
    ------
    HierarchyNotFound : there is none.
    """
    with open_store(database, on_sql).session(write=True) as session:
        hierarchies.drop(session, name)


def list_hierarchies(database: Any, *, on_sql: OnSql | None = None) -> list[Stored]:
    """What a database has stored, by name."""
    with _reading(database, on_sql) as session:
        return hierarchies.list_hierarchies(session)


def _reading(database: Any, on_sql: OnSql | None) -> AbstractContextManager[Session]:
    return open_store(database, on_sql).session(write=False)
