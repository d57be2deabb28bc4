"""Python's door to the releases that a database has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbanon.run.open import open_store
from dbanon.stores import releases as kept
from dbanon.stores.names import parse_relation
from dbanon.stores.releases import Listed

if TYPE_CHECKING:
    from dbanon.stores.base import OnSql


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
        return kept.listed(session)


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
