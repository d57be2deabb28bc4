"""The Python API for chains, and for what releases of the same persons reveal together.

A chain is a series of releases of the same persons, made so that all of them together are private.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.errors import InvalidParameter
from dbanon.extensions.chains import manage
from dbanon.extensions.chains.manage import ChainShown, Measured
from dbanon.run.open import open_store
from dbanon.stores.schemes import is_row_file_url

if TYPE_CHECKING:
    from dbanon.extensions.chains.joint_measure import MeasuredReleases
    from dbanon.sessions.base import OnSql


def create_chain(
    database: object,
    name: str,
    *,
    table: str,
    entity: str,
    changes: str,
    key_out: str | Path | None = None,
    class_size: int | None = None,
    admit_every: int = 1,
    min_newcomers: int | None = None,
    max_wait: int = 6,
    departures: str = "hold",
    withdraw_above: float | None = None,
    max_rows_per_person: int | None = None,
    tables: Sequence[str] = (),
    mode: str = "continue",
    new_chain_from: str | None = None,
    key: str | None = None,
    source: str | None = None,
    on_sql: OnSql | None = None,
) -> ChainShown:
    """Create a chain in the database of its source, and its key in a file.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    source : the files that its releases read, such as ``file:people.csv``; ``database`` then
        stores the chain and the releases. None to read a table of the database.
    table, entity : the table, and the column that identifies the person of a row. Each person must
        have a single row, unless ``max_rows_per_person`` is set.
    changes : ``show``, ``hold`` or ``freeze``: how later releases treat changed values, see
        docs/chains.md. There is no default, because each choice reveals something different.
    key_out : file for the chain's key, which only the owner can read: 32 random bytes in
        hexadecimal digits. The chain records persons as hashes with this key. The database never
        stores the key, and losing it ends the chain. None with ``new_chain_from``.
    class_size : number of persons per class when newcomers are admitted; if None, k.
    admit_every : admit newcomers only in every n-th release.
    min_newcomers : minimum number of newcomers to admit; fewer have to wait, for up to ``max_wait``
        releases. If None, 5 k.
    departures : what happens to a class once some of its persons have left. ``hold``: its released
        rows stay as they are, including those of persons who left. ``withdraw``: no later release
        contains the class.
    withdraw_above : with ``hold``, withdraw a class once a larger share of its persons have left.
    max_rows_per_person : maximum number of released rows per person and table; additional rows are
        withheld. None: persons with several rows are refused.
    tables : additional tables with rows of the same persons, which the chain also releases.
    mode : a person's history is what readers see of a person over all releases. ``continue`` makes
        releases in which at least k persons share every history; ``measure`` only counts how many
        do.
    new_chain_from : a closed chain over the same persons that the new chain follows; without it, a
        second chain over them is refused. The first release counts the persons whom both chains
        together expose, i.e. whose history in both chains fewer than k persons share.
    key : with ``new_chain_from``, the location of the closed chain's key, which both chains share:
        ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    ChainSamePersons : there is another chain over the same persons.
    ChainNotFound, ChainKeyWrong : ``new_chain_from`` does not exist, or ``key`` is not its key.
    ChainExists, ChainEntityRows, UnsupportedType, TableNotFound, ColumnNotFound : the chain cannot
        be created.
    OutputExists : the file for the key exists.
    """
    rules = manage.ChainRules(
        changes=changes,
        class_size=class_size,
        admit_every=admit_every,
        min_newcomers=min_newcomers,
        max_wait=max_wait,
        departures=departures,
        withdraw_above=withdraw_above,
        max_rows_per_person=max_rows_per_person,
        tables=tuple(tables),
        mode=mode,
        new_chain_from=new_chain_from,
    )
    key_path = None if key_out is None else Path(key_out)
    if source is not None and not is_row_file_url(source):
        raise InvalidParameter(
            "The source of a chain must be a table of its database, or files.",
            hint="Write file:people.csv, or leave the source out and name the table.",
        )
    file_store = None if source is None else open_store(source, on_sql, table=table)
    return manage.create(
        open_store(database, on_sql),
        name,
        table,
        entity,
        rules,
        key_out=key_path,
        predecessor_key_location=key,
        file_store=file_store,
    )


def chains(database: object, *, on_sql: OnSql | None = None) -> list[ChainShown]:
    """List the chains of a database, in the order of their names."""
    return manage.list_chains(open_store(database, on_sql))


def show_chain(database: object, name: str, *, on_sql: OnSql | None = None) -> ChainShown:
    """Return a chain with its releases, and a forecast for twelve more.

    Raises
    ------
    ChainNotFound : there is no chain of this name.
    """
    return manage.show(open_store(database, on_sql), name)


def measure_chain(
    database: object, name: str, *, key: str, on_sql: OnSql | None = None
) -> Measured:
    """Count how many persons share each history, i.e. the same values over all releases of a chain.

    Parameters
    ----------
    key : the location of the chain's key, ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    ChainNotFound, ChainKeyWrong : there is no such chain, or the key belongs to another one.
    """
    return manage.measure(open_store(database, on_sql), name, key)


def measure_releases(
    database: object,
    releases: Sequence[str],
    *,
    entity: str | None = None,
    k: int | None = None,
    sensitive: Sequence[str] | None = None,
    on_sql: OnSql | None = None,
) -> MeasuredReleases:
    """Count what several releases of one source reveal together, in a chain or not.

    A person's joint history is what several releases together show about that person. After each
    release except the first, this counts the persons whose joint history is shared by fewer than k
    persons, those whose joint history is unique, and those for whom only one sensitive value
    remains possible. The counts are exact, and meant for holders of the original data.

    Parameters
    ----------
    releases : names of two or more releases in this database, in order. Without ``entity``, release
        ids are allowed, also of replaced releases, and a single release is measured together with
        all earlier ones of its source and entity.
    entity : None for releases that were made with an entity, whose persons the ledger has recorded.
        For other releases, a column that each of them has and that identifies the person of a row;
        only releases for internal use should have such a column.
    k : the required number of persons per joint history; if None, the smallest k of the releases.
    sensitive : sensitive columns of each release; if None, the columns released as
        sensitive.

    Raises
    ------
    InvalidParameter : there are fewer than two releases, their sources differ, ``entity`` is a
        quasi-identifier, or a release has no record of its persons.
    ReleaseNotFound : a release is not in the ledger.
    ColumnNotFound : a release lacks a named column.
    NullInEntity : the person of a row is NULL.
    """
    from dbanon.extensions.chains.joint_measure import measure_together

    return measure_together(open_store(database, on_sql), releases, entity, k, sensitive)


def withdraw(
    database: object, name: str, entities: Iterable[str], *, key: str, on_sql: OnSql | None = None
) -> int:
    """Withdraw the classes of some persons from all later releases, permanently.

    Returns the number of withdrawn classes.

    Parameters
    ----------
    entities : the persons' values of the entity column, as text.
    key : the location of the chain's key, ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    ChainNotFound, ChainKeyWrong, ChainClosed : there is no such chain, the key belongs to another
        one, or the chain is closed.
    """
    return manage.withdraw(open_store(database, on_sql), name, entities, key)


def close_chain(database: object, name: str, *, on_sql: OnSql | None = None) -> ChainShown:
    """Close a chain: no more releases can be made in it, and its state is kept.

    Raises
    ------
    ChainNotFound : there is no chain of this name.
    """
    return manage.close(open_store(database, on_sql), name)
