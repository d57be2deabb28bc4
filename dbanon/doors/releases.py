"""The Python API for the contents of a database: releases and named hierarchies.

A ``Listed`` is an entry of the list of releases, an ``Attempt`` a recorded run of a job, and a
``Stored`` an entry of the list of stored hierarchies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.types import JsonObject
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySource, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.ledger import job_history
from dbanon.ledger import releases as ledger_releases
from dbanon.ledger.job_history import Attempt
from dbanon.ledger.releases import Listed
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores import hierarchies
from dbanon.stores.hierarchies import Stored

if TYPE_CHECKING:
    from dbanon.run.evaluate_release import ReleaseEvaluation
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.run.verify_export import VerifiedExport
    from dbanon.sessions.base import OnSql


def releases(database: object, *, exact: bool = False, on_sql: OnSql | None = None) -> list[Listed]:
    """List the releases in a database's ledger with their current state, newest first.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    exact : also check whether the rows of sources have changed, for releases that were made with
        ``source_digest``; this reads all rows of these sources.

    Raises
    ------
    LedgerNotTrusted : the ledger belongs to another role.
    """
    store = open_store(database, on_sql)
    with store.session(write=False) as session:
        entries = ledger_releases.list_releases(session)
    if not exact:
        return entries
    # Imported late, because it imports exports and Arrow.
    from dbanon.run.changes import with_exact_staleness

    return with_exact_staleness(store, entries)


def attempts(database: object, job: str, *, on_sql: OnSql | None = None) -> list[Attempt]:
    """List the recorded runs of a job, newest first, from the ledger of the job's target.

    Parameters
    ----------
    database : the database with the job's releases: a URL, a SQLAlchemy engine or a DuckDB
        connection.
    job : name of the job in its job file.

    Raises
    ------
    LedgerNotTrusted : the ledger belongs to another role.
    """
    with open_store(database, on_sql).session(write=False) as session:
        return job_history.list_attempts(session, job)


def show(
    database: object, release: str, *, internal: bool = False, on_sql: OnSql | None = None
) -> JsonObject:
    """Return what the ledger records about a release as JSON values: entry, state, columns, run.

    Parameters
    ----------
    release : id of the release, or the name of its output; of several releases with that name, the
        newest.
    internal : add exact statistics, which include the extremes of the original values. Only the
        role that published the release can read them. For other roles, or if they are not recorded,
        they are None.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    """
    with open_store(database, on_sql).session(write=False) as session:
        return ledger_releases.describe_release(session, release, internal=internal)


def verify(
    database: object,
    relation: str,
    *,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
    on_sql: OnSql | None = None,
) -> Verification | PrivateVerification:
    """Recount a release in the database, and compare it with the ledger.

    Parameters
    ----------
    relation : the name of a release's output, or of an older table of that output that still
        exists; or the id of a release.
    quasi_identifiers, k : only for relations without an entry in this database's ledger. With an
        entry, a ``k`` above the requested one can be given to check a stronger guarantee.

    For a differentially private release this checks the number of rows, that there is no NULL, and
    that values are within the declared bounds and lists. Its privacy cannot be verified by
    counting.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows, or violates a privacy model.
    ReleaseChanged : the relation has changed since its release; the message says how.
    InsufficientRights : the role may not read the relation, or the ledger.
    ReleaseNotFound : neither a ledger entry nor quasi-identifiers and k were given.
    TableNotFound : the table of the release was dropped.
    """
    from dbanon.run import verify as recount

    store = open_store(database, on_sql)
    return recount.verify(store, relation, quasi_identifiers, k)


def verify_file(
    path: str | Path,
    *,
    ledger: object = None,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
    on_sql: OnSql | None = None,
) -> Verification | VerifiedExport:
    """Verify an exported file, using the ledger of its release or the file's metadata.

    Parameters
    ----------
    ledger : the database that the release was published in: a URL, a SQLAlchemy engine or a DuckDB
        connection. The file's SHA-256 is compared with that of each export. None: a Parquet file
        is recounted with the help of its metadata.
    quasi_identifiers, k : only without ``ledger``, for Parquet files that name no release. If a
        file names one, a ``k`` above the requested one can be given to check a stronger guarantee.

    Raises
    ------
    ReleaseChanged : no release exported these bytes, but one exported a file of this name.
    ReleaseNotFound : no release exported these bytes, or the file names no release.
    RecountFailed : a class of a Parquet file holds fewer than k rows.
    TableNotFound, InvalidParameter : there is no such file, or it is not a Parquet file.
    """
    if ledger is None:
        from dbanon.run import verify_file as recount

        return recount.verify_file(Path(path), quasi_identifiers, k)
    if quasi_identifiers or k is not None:
        raise InvalidParameter(
            "A file is either compared with the ledger by its bytes, or recounted by its columns.",
            hint="Leave out `quasi_identifiers` and `k`, or `ledger`.",
        )
    from dbanon.run.verify_export import verify_export

    return verify_export(open_store(ledger, on_sql), Path(path))


def evaluate_release(
    database: object,
    release: str,
    *,
    original: str | None = None,
    changed_source: bool = False,
    risk: Mapping[str, object] | None = None,
    on_sql: OnSql | None = None,
) -> ReleaseEvaluation:
    """Measure the loss and remaining risk of an existing release in a database.

    This recounts the classes. If the release was made with the option ``evaluate``, the result also
    has the recorded measures. With ``original``, it also has losses that can be measured without
    knowing which row became which.

    For frames and arrays whose rows correspond, use ``dbanon.evaluate``.

    Parameters
    ----------
    release : the name of the release's output.
    original : the relation that the release was made from, in the same database.
    changed_source : True to compare the original even if its rows or columns have changed.
    risk : also measure the disclosure risk of the original and of the release, with these options
        of ``disclosure_risk`` by name, such as ``{"weight": "w", "household": "hh"}``; ``{}`` for
        the defaults. Quasi-identifiers and design weight are those of the release unless they are
        named. The figures are for the controller of the data, not for publication.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    OriginalChanged : rows or columns of the original have changed since the release.
    InvalidParameter : an option of ``risk`` is not allowed, or the original is missing.
    """
    from dbanon.run.evaluate_release import evaluate_release
    from dbanon.run.evaluate_risk import check_risk

    return evaluate_release(
        open_store(database, on_sql),
        parse_relation(release),
        None if original is None else parse_relation(original),
        changed_source=changed_source,
        risk=None if risk is None else check_risk(risk),
    )


def drop(database: object, release: str, *, on_sql: OnSql | None = None) -> list[str]:
    """Drop a release by the name of its output; returns the names of the dropped relations.

    These are its view, its table, and its summary, a table of one row that describes the release.
    Drops only relations that the ledger lists and that carry the release's mark (a comment on the
    relation). The ledger entry stays, with the state ``dropped``.

    Raises
    ------
    ReleaseNotFound, TableNotFound : there is no such release, or its relation does not exist.
    InsufficientRights : another role owns a relation, or another object depends on it.
    """
    with open_store(database, on_sql).session(write=True) as session:
        _, dropped_names = ledger_releases.drop(session, parse_relation(release))
        return dropped_names


def store_hierarchy(
    database: object,
    name: str,
    hierarchy: HierarchySource,
    *,
    replace: bool = False,
    description: str | None = None,
    on_sql: OnSql | None = None,
) -> Hierarchy:
    """Store a hierarchy under a name in a database, next to the ledger; returns the hierarchy.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    hierarchy : a Hierarchy, the path of a file, a table of the same database
        (``{"table": "ref.tree"}``), or another form that needs no values of a column.
    replace : True to replace a hierarchy of this name.

    Raises
    ------
    InvalidParameter : the source is files, which keep no hierarchies.
    HierarchyExists : the name is taken, and ``replace`` is False.
    HierarchyBroken : the hierarchy is not a tree.
    """
    tree_source = parse(hierarchy, files=True)
    store = open_store(database, on_sql)
    if not store.is_persistent:
        raise InvalidParameter(
            "A hierarchy is stored in a database, and a file is not a database.",
            hint="Give the hierarchy itself in the call of the release.",
        )
    with store.session(write=True) as session:
        tree = hierarchies.resolve(session, tree_source)
        hierarchies.store(session, name, tree, replace=replace, description=description)
    return tree


def load_hierarchy(
    database: object, hierarchy: HierarchySource, *, on_sql: OnSql | None = None
) -> Hierarchy:
    """Read a hierarchy from a database: stored (``"name:education"``), or ``"table:ref.tree"``.

    Raises
    ------
    HierarchyNotFound, TableNotFound : there is no such hierarchy or table.
    HierarchyBroken : the hierarchy is not a tree.
    """
    tree_source = parse(hierarchy, files=True)
    with open_store(database, on_sql).session(write=False) as session:
        return hierarchies.resolve(session, tree_source)


def drop_hierarchy(database: object, name: str, *, on_sql: OnSql | None = None) -> None:
    """Remove a stored hierarchy; releases that used it stay as they are.

    Raises
    ------
    HierarchyNotFound : there is no hierarchy of this name.
    """
    with open_store(database, on_sql).session(write=True) as session:
        hierarchies.drop(session, name)


def list_hierarchies(database: object, *, on_sql: OnSql | None = None) -> list[Stored]:
    """List the hierarchies that are stored in a database, in the order of their names."""
    with open_store(database, on_sql).session(write=False) as session:
        return hierarchies.list_hierarchies(session)
