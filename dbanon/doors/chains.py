"""Python's door to chains: releases of the same persons that stay private together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.chain import manage as run
from dbanon.chain.manage import ChainShown, Measured
from dbanon.run.open import open_store

if TYPE_CHECKING:
    from dbanon.sessions.base import OnSql


def create_chain(
    database: Any,
    name: str,
    *,
    table: str,
    entity: str,
    changes: str,
    key_out: str | Path | None = None,
    class_size: int | None = None,
    admit_every: int = 1,
    departures: str = "hold",
    withdraw_above: float | None = None,
    mode: str = "continue",
    new_chain_from: str | None = None,
    key: str | None = None,
    on_sql: OnSql | None = None,
) -> ChainShown:
    """Make a chain in the database that it reads, and its key in a file.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    table, entity : what it reads, and the column that says whose a row is: one row a person.
    changes : ``show``, ``hold`` or ``freeze``: what becomes of values that change. There is no
        default: each tells something else.
    key_out : where the key is written, 32 random bytes in hexadecimal digits, for its owner alone.
        The database never has it; who loses it has ended the chain. None with ``new_chain_from``.
    class_size : persons that share a class when they are admitted; k when None.
    admit_every : newcomers are admitted with every so many releases.
    departures : ``hold`` or ``withdraw``: what becomes of a class that some have left.
    withdraw_above : withdraw a held class once a larger share of its persons have left.
    mode : ``continue`` keeps every history shared by k persons, ``measure`` only counts.
    new_chain_from : a closed chain over the same persons, which a second one is refused over
        otherwise; ``key`` is where its key is, ``file:PATH`` or ``env:NAME``, which both have then.
        How many persons the two expose together, the first release counts.

    Raises
    ------
    ChainSamePersons, ChainNotFound, ChainKeyWrong : there is another chain over the same persons.
    ChainExists, ChainEntityRows, UnsupportedType, TableNotFound, ColumnNotFound : it cannot be.
    OutputExists : there is a file where the key is to be.
    """
    rules = run.Rules(
        changes=changes,
        class_size=class_size,
        admit_every=admit_every,
        departures=departures,
        withdraw_above=withdraw_above,
        mode=mode,
        new_chain_from=new_chain_from,
    )
    out = None if key_out is None else Path(key_out)
    return run.create(open_store(database, on_sql), name, table, entity, rules, out, key)


def chains(database: Any, *, on_sql: OnSql | None = None) -> list[ChainShown]:
    """The chains of a database, by name."""
    return run.list_chains(open_store(database, on_sql))


def show_chain(database: Any, name: str, *, on_sql: OnSql | None = None) -> ChainShown:
    """A chain with its releases, and what is to be expected of twelve more.

    Raises
    ------
    ChainNotFound : there is none of this name.
    """
    return run.shown(open_store(database, on_sql), name)


def measure_chain(database: Any, name: str, *, key: str, on_sql: OnSql | None = None) -> Measured:
    """Count how many persons share each joint history over the releases of a chain.

    Parameters
    ----------
    key : ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    ChainNotFound, ChainKeyWrong : there is none, or the key is another's.
    """
    return run.measured(open_store(database, on_sql), name, key)


def withdraw(
    database: Any, name: str, entities: Iterable[str], *, key: str, on_sql: OnSql | None = None
) -> int:
    """Take the classes of some persons out of all later releases, for good; how many classes.

    Parameters
    ----------
    entities : who they are, as the entity column has it, as text.
    key : ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    ChainNotFound, ChainKeyWrong, ChainClosed : as for a release.
    """
    return run.withdraw(open_store(database, on_sql), name, entities, key)


def close_chain(database: Any, name: str, *, on_sql: OnSql | None = None) -> ChainShown:
    """End a chain: there is no further release of it, and its state stays.

    Raises
    ------
    ChainNotFound : there is none of this name.
    """
    return run.close(open_store(database, on_sql), name)
