"""Chains beside their releases: made, listed, shown, measured, withdrawn from and closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from dbanon.advice.forecast import Forecast, describe_forecast, forecast
from dbanon.chain import pair as chain_pair
from dbanon.chain import recount
from dbanon.chain import state as chain_state
from dbanon.chain.key import new_key, read_key
from dbanon.chain.membership import CellState
from dbanon.chain.outside import releases_outside, same_persons, told_outside
from dbanon.chain.staging import require_one_table, stage_entity
from dbanon.chain.state import ChainKept
from dbanon.chain.tables import tables_of
from dbanon.errors import InvalidParameter, counted
from dbanon.job.chain import MEASURE, Rules, require_chain_name, require_key_form
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store

__all__ = ["ChainShown", "Measured", "Rules", "close", "create", "list_chains", "measured", "shown",
           "withdraw"]  # fmt: skip


@dataclass(frozen=True)
class ChainShown:
    """A chain as people see it; no tag, no key and no value of a column is in it.

    Parameters
    ----------
    state : ``new``, ``open`` or ``closed``.
    releases : what was counted of each, from the first; only where one chain is shown.
    forecast : what is to be expected; None before the second release, and of one that measures.
    beside : in words, what else is known to be published of its persons; nothing takes it into
        account. Only where a chain is made or shown.
    held_back : in words, what its rules would hold back of the source as it is. Only where a chain
        is made.
    """

    name: str
    source: str
    entity: str
    state: str
    rules: Mapping[str, Any]
    k: int | None
    sequence: int
    created_at: str
    created_by: str | None
    releases: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    forecast: Forecast | None = None
    beside: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The chain as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The chain as pairs of label and text, for people."""
        rules = ", ".join(f"{name} {value}" for name, value in self.rules.items() if value)
        found = [
            ("chain", f"{self.name}, {self.state}"),
            ("source", f'{self.source}, persons by "{self.entity}"'),
            ("rules", rules),
            ("k", "as the first release says" if self.k is None else str(self.k)),
            ("releases", str(self.sequence)),
            ("created", self.created_at + (f" by {self.created_by}" if self.created_by else "")),
        ]
        for one in self.releases:
            found.append((f"release {one['sequence']}", _describe_release(one)))
        if self.forecast is not None:
            found += describe_forecast(self.forecast)
        found += [("held back", text) for text in self.held_back]
        return [*found, *(("not covered", text) for text in self.beside)]


@dataclass(frozen=True)
class Measured:
    """How many persons share a joint history over the releases of a chain.

    Parameters
    ----------
    persons : who ever had a row in a release, or was kept out for good; those present only, too,
        where the chain measures.
    histories : how many there are that differ.
    smallest : the persons who share the rarest.
    exposed : the persons whose history fewer than k share; ``alone``: whose is theirs alone.
    """

    name: str
    mode: str
    releases: int
    k: int
    persons: int
    histories: int
    smallest: int
    exposed: int
    alone: int

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        share = self.exposed / self.persons if self.persons else 0.0
        return [
            ("chain", f"{self.name}, mode {self.mode}, {self.releases} releases"),
            ("persons", str(self.persons)),
            ("histories that differ", str(self.histories)),
            ("persons who share the rarest", str(self.smallest)),
            (f"persons whose history fewer than {self.k} share",
             f"{self.exposed} ({share:.1%})"),
            ("persons whose history is theirs alone", str(self.alone)),
        ]  # fmt: skip


def create(
    store: Store,
    name: str,
    table: str,
    entity: str,
    rules: Rules,
    key_out: Path | None,
    key_of: str | None = None,
    file: Store | None = None,
) -> ChainShown:
    """Make a chain and its key; the key's file goes when the chain cannot be made.

    Parameters
    ----------
    store : of the database that keeps the chain.
    key_of : where the key of the chain is that this one follows, which is this one's, too.
    file : the store of the files that its releases read; None where they read the database.

    Raises
    ------
    ChainSamePersons : there is another chain over the same persons, and this one follows none.
    """
    require_chain_name(name)
    if (rules.new_chain_from is None) is not (key_of is None) or (key_out is None) is (
        key_of is None
    ):
        raise InvalidParameter(
            "A chain has a new key (`key_out`), or that of the closed chain that it follows"
            " (`new_chain_from`, with the place of its key).",
            hint="Say where to write the key, or name both the chain and its key.",
        )
    if not store.lasting:
        raise InvalidParameter(
            "A chain keeps its state in a database, and a file is not a database.",
            hint="Name the database that its releases go to, and the file as `source`.",
        )
    with ExitStack() as stack:
        if key_of is not None:
            require_key_form(key_of)
            key = read_key(key_of)
        else:
            assert key_out is not None
            key = stack.enter_context(new_key(key_out))
        session = stack.enter_context(store.session(write=True, create=file is not None))
        session.require("chains")
        if file is None:
            relation = session.find_source(parse_relation(table))
            relation.attribute(entity)
        else:
            relation = stage_entity(session, file, table, entity)
            require_one_table(rules.tables)
        session.require_rights(relation, [entity])
        rules = replace(rules, tables=tables_of(session, relation, entity, rules.tables))
        chain_pair.require_alone(session, name, relation, rules, key)
        made = chain_state.create(session, name, relation, entity, rules, key)
        told = same_persons(session, name, relation, entity)
        return replace(
            shown_of(made),
            beside=(*_outside(session, made), *told),
            held_back=_held_back(session, made, relation),
        )


def list_chains(store: Store) -> list[ChainShown]:
    """All chains, by name."""
    with store.session(write=False) as session:
        return [shown_of(chain) for chain in chain_state.list_chains(session)]


def shown(store: Store, name: str) -> ChainShown:
    """A chain with its releases."""
    with store.session(write=False) as session:
        chain = chain_state.find(session, name)
        found = shown_of(chain, chain_state.history(session, chain))
        return replace(found, beside=_outside(session, chain))


def _outside(session: Session, chain: ChainKept) -> tuple[str, ...]:
    told = told_outside(releases_outside([session], chain.source), chain.source)
    return (told,) if told else ()


def _held_back(session: Session, chain: ChainKept, first: Relation) -> tuple[str, ...]:
    """In words, of each table whose rows a release would withhold, or would be refused for.

    Parameters
    ----------
    first : the table that the chain reads.
    """
    told, most = [], chain.rules.max_rows_per_person
    entity = f"s.{quote(chain.entity)}"
    others = [session.find_source(parse_relation(table)) for table in chain.rules.tables]
    for relation in (first, *others):
        table, source = relation.name, relation.name.quoted
        persons = (
            f"SELECT {entity} AS person, count(*) AS n FROM {source} AS s"
            f" WHERE {entity} IS NOT NULL GROUP BY {entity}"
        )
        [(many, rows)] = session.rows(
            f"SELECT count(*), coalesce(sum(p.n - {most or 1}), 0) FROM ({persons}) AS p"
            f" WHERE p.n > {most or 1}"
        )
        [(nobodys,)] = session.rows(f"SELECT count(*) - count({entity}) FROM {source} AS s")
        has = "has" if many == 1 else "have"
        if many and most is None:
            told.append(
                f"{table}: {counted(int(many), 'person')} {has} more than one row, so a release"
                " would be refused (chain_entity_rows)"
            )
        elif many:
            told.append(
                f"{table}: {counted(int(many), 'person')} {has} more than {most} rows; a release"
                f" would withhold {int(rows)} of their rows"
            )
        if nobodys:
            told.append(
                f'{table}: {counted(int(nobodys), "row")} without a value of "{chain.entity}", so a'
                " release would be refused (null_in_entity)"
            )
    return tuple(told)


def expected(chain: ChainKept, releases: Sequence[Mapping[str, Any]]) -> Forecast | None:
    """What is to be expected of a chain that keeps histories."""
    if chain.rules.mode == MEASURE or chain.k is None:
        return None
    made = {} if chain.definition is None else chain.definition["job"]
    return forecast(chain.rules, chain.k, releases, models=bool(made.get("models")))


def close(store: Store, name: str) -> ChainShown:
    """End a chain."""
    with store.session(write=True) as session:
        chain_state.close(session, chain_state.find(session, name))
        return shown_of(chain_state.find(session, name))


def measured(store: Store, name: str, key: str) -> Measured:
    """Count the histories of a chain."""
    require_key_form(key)
    secret = read_key(key)
    with store.session(write=False) as session:
        chain = chain_state.find(session, name)
        chain_state.require_key(chain, secret)
        k = chain.k or 0
        state = _state(session, chain)
        sizes = recount.sizes(state)
        return Measured(
            name=chain.name,
            mode=chain.rules.mode,
            releases=chain.sequence,
            k=k,
            persons=sum(size * many for size, many in sizes.items()),
            histories=sum(sizes.values()),
            smallest=min(sizes, default=0),
            exposed=recount.exposed(sizes, k),
            alone=sizes.get(1, 0),
        )


def withdraw(store: Store, name: str, entities: Iterable[str], key: str) -> int:
    """Take the cells of some persons out of later releases, for good; how many cells."""
    require_key_form(key)
    secret = read_key(key)
    given = [one for one in (text.strip() for text in entities) if one]
    if not given:
        raise InvalidParameter("Nobody was named.", hint="Write one person a line.")
    with (
        cast(ClientStore, store).job_lock(f"chain-{name}"),
        store.session(write=True) as session,
    ):
        chain = chain_state.find(session, name)
        chain_state.require_key(chain, secret)
        chain_state.require_open(chain)
        # With the next release: the last one had them, and others may have left with it.
        state = replace(_state(session, chain), sequence=chain.sequence + 1)
        return state.withdraw(chain.tags(secret, given))


def _describe_release(one: Mapping[str, Any]) -> str:
    """What is told of a release of a chain, in a line."""
    words = [f"{one['persons']} persons", f"{one['joined']} joined"]
    words += [
        f"{one[name]} {word}"
        for name, word in (
            ("absent", "shown who left"),
            ("waiting", "wait"),
            ("longest", "releases is the longest wait"),
            ("returned", "returned"),
            ("held", "classes held"),
            ("refused", "kept out by models"),
            ("back", "classes held for persons who are back"),
            ("unfit", "classes that models hold"),
            ("gone", "classes gone"),
            ("withdrawn", "classes withdrawn"),
            ("drifted", "classes of which few rows changed"),
            ("exposed", "exposed"),
            ("pair_exposed", "exposed together with the chain before"),
        )
        if one.get(name)
    ]
    return ", ".join(words) + ("" if one["confirmed"] else "; PENDING: it counts as published")


def _state(session: Session, chain: ChainKept) -> CellState:
    return CellState(session, chain, chain.sequence, chain.k or 0)


def shown_of(chain: ChainKept, releases: Sequence[Mapping[str, Any]] = ()) -> ChainShown:
    """A chain, and these of its releases, as people see it."""
    state = "closed" if chain.closed_at else "open" if chain.sequence else "new"
    return ChainShown(
        chain.name,
        chain.source,
        chain.entity,
        state,
        chain.rules.to_plain(),
        chain.k,
        chain.sequence,
        chain.created_at,
        chain.created_by,
        tuple(releases),
        expected(chain, releases),
    )
