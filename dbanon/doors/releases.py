"""Python's door to the releases that a database has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbanon.ledger import job_history
from dbanon.ledger import releases as kept
from dbanon.ledger.job_history import Attempt
from dbanon.ledger.releases import Listed
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation

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
