"""Manage chains: create, list, show, measure and close them, and withdraw persons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

from dbanon.advice.forecast import ChainForecast, describe_forecast, forecast
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter, pluralize
from dbanon.extensions.chains import pair as chain_pair
from dbanon.extensions.chains import recount
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.key import new_key, read_key
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.other_publications import (
    describe_releases_outside,
    describe_shared_persons,
    find_releases_outside,
)
from dbanon.extensions.chains.staging import require_one_table, stage_entity
from dbanon.extensions.chains.state import ChainRecord
from dbanon.extensions.chains.tables import resolve_tables
from dbanon.job.chain import MEASURE, ChainRules, require_chain_name, require_key_form
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store

__all__ = [
    "ChainRules",
    "ChainShown",
    "Measured",
    "close",
    "create",
    "list_chains",
    "measure",
    "show",
    "withdraw",
]


@dataclass(frozen=True)
class ChainShown:
    """A chain as it is displayed, without keys, column values or tags (keyed hashes of persons).

    Parameters
    ----------
    state : ``new``, ``open`` or ``closed``.
    rules : the rules of the chain, by name.
    k : the smallest class size; None before the first release.
    sequence : the number of the last release; 0 before the first.
    releases : the counts of each release, from the first; empty unless a single chain is shown.
    forecast : a forecast of later releases; None before the second release, and for chains that
        only measure.
    beside : messages about other publications with the same persons, which the counts do not
        include; empty unless the chain was created or is shown.
    held_back : messages about rows in the source that a release would withhold or refuse; empty
        unless the chain was created.
    """

    name: str
    source: str
    entity: str
    state: str
    rules: JsonMapping
    k: int | None
    sequence: int
    created_at: str
    created_by: str | None
    releases: Sequence[JsonMapping] = field(default_factory=tuple)
    forecast: ChainForecast | None = None
    beside: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()

    def to_dict(self) -> JsonObject:
        """The chain as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The chain as pairs of label and text, for people."""
        rules = ", ".join(f"{name} {value}" for name, value in self.rules.items() if value)
        lines = [
            ("chain", f"{self.name}, {self.state}"),
            ("source", f'{self.source}, persons by "{self.entity}"'),
            ("rules", rules),
            ("k", "set by the first release" if self.k is None else str(self.k)),
            ("releases", str(self.sequence)),
            ("created", self.created_at + (f" by {self.created_by}" if self.created_by else "")),
        ]
        for release in self.releases:
            lines.append((f"release {release['sequence']}", _describe_release(release)))
        if self.forecast is not None:
            lines += describe_forecast(self.forecast)
        lines += [("held back", text) for text in self.held_back]
        return [*lines, *(("not covered", text) for text in self.beside)]


@dataclass(frozen=True)
class Measured:
    """Counts of a chain's persons by their history: their classes in all of its releases.

    Parameters
    ----------
    releases : number of releases.
    persons : number of persons who ever had a row in a release or were excluded permanently; with
        mode measure also those who were only present in the source.
    histories : number of distinct histories.
    smallest : number of persons who share the rarest history.
    exposed : number of persons whose history is shared by fewer than k persons.
    alone : number of persons with a unique history.
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

    def to_dict(self) -> JsonObject:
        """The counts as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        share = self.exposed / self.persons if self.persons else 0.0
        return [
            ("chain", f"{self.name}, mode {self.mode}, {self.releases} releases"),
            ("persons", str(self.persons)),
            ("distinct histories", str(self.histories)),
            ("persons who share the rarest", str(self.smallest)),
            (f"persons whose history fewer than {self.k} share", f"{self.exposed} ({share:.1%})"),
            ("persons with a unique history", str(self.alone)),
        ]


def create(
    store: Store,
    name: str,
    table: str,
    entity: str,
    rules: ChainRules,
    key_out: Path | None,
    predecessor_key_location: str | None = None,
    file_store: Store | None = None,
) -> ChainShown:
    """Create a chain and its key; remove the key file if the chain cannot be created.

    Parameters
    ----------
    store : the database that stores the chain. It is created if releases read files, and it is a
        file that does not exist.
    table, entity : the source of the chain, and its column that identifies persons.
    key_out : the file to create for a new key; None to share the key of a closed chain.
    predecessor_key_location : ``file:PATH`` or ``env:NAME`` of the key of the closed chain that
        this one follows, and whose key it shares; None for a new key.
    file_store : the store of the files that its releases read; None if they read tables of
        ``store``.

    Raises
    ------
    ChainSamePersons : there is another chain over the same persons, which this one does not follow.
    """
    require_chain_name(name)
    shares_key = predecessor_key_location is not None
    # To share a key, name the closed chain, and no file for a new key; otherwise only such a file.
    if (rules.new_chain_from is not None) is not shares_key or (key_out is None) is not shares_key:
        raise InvalidParameter(
            "A chain needs a new key (`key_out`), or the key of the closed chain that it follows"
            " (`new_chain_from`, with the location of its key).",
            hint="Name a new file for the key (key_out). To follow a closed chain, name the chain"
            " (new_chain_from) and its key instead.",
        )
    if not store.is_persistent:
        raise InvalidParameter(
            "A chain keeps its state in a database, not in a file.",
            hint="Name the database that its releases go to, and the file as `source`.",
        )
    with ExitStack() as stack:
        if predecessor_key_location is not None:
            require_key_form(predecessor_key_location)
            key = read_key(predecessor_key_location)
        else:
            assert key_out is not None
            key = stack.enter_context(new_key(key_out))
        session = stack.enter_context(store.session(write=True, create=file_store is not None))
        session.require_capability("chains")
        if file_store is None:
            relation = session.catalog.find_source(parse_relation(table))
            # Raises ColumnNotFound if the table lacks the column.
            relation.attribute(entity)
        else:
            relation = stage_entity(session, file_store, table, entity)
            require_one_table(rules.tables)
        session.catalog.require_readable(relation, [entity])
        rules = replace(rules, tables=resolve_tables(session, relation, entity, rules.tables))
        chain_pair.require_no_other_chain(session, name, relation, rules, key)
        chain = chain_state.create(session, name, relation, entity, rules, key)
        overlaps = describe_shared_persons(session, name, relation, entity)
        return replace(
            summarize_chain(chain),
            beside=(*_describe_other_releases(session, chain), *overlaps),
            held_back=_describe_withheld(session, chain, relation),
        )


def list_chains(store: Store) -> list[ChainShown]:
    """List all chains, sorted by name."""
    with store.session(write=False) as session:
        return [summarize_chain(chain) for chain in chain_state.list_chains(session)]


def show(store: Store, name: str) -> ChainShown:
    """Summarize a chain and its releases."""
    with store.session(write=False) as session:
        chain = chain_state.find_chain(session, name)
        summary = summarize_chain(chain, chain_state.list_releases(session, chain))
        return replace(summary, beside=_describe_other_releases(session, chain))


def _describe_other_releases(session: Session, chain: ChainRecord) -> tuple[str, ...]:
    """Describe releases of the chain's source outside of any chain: one message or none."""
    text = describe_releases_outside(find_releases_outside([session], chain.source), chain.source)
    return (text,) if text else ()


def _describe_withheld(
    session: Session, chain: ChainRecord, first_table: Relation
) -> tuple[str, ...]:
    """Describe rows that a release would withhold, or because of which it would be refused.

    Parameters
    ----------
    first_table : the first table of the chain; the rules name the others.
    """
    messages = []
    # None if a person with several rows is refused.
    max_rows = chain.rules.max_rows_per_person
    entity = f"s.{quote(chain.entity)}"
    further_tables = [
        session.catalog.find_source(parse_relation(table)) for table in chain.rules.tables
    ]
    for relation in (first_table, *further_tables):
        table, source = relation.name, relation.name.quoted
        rows_per_person = (
            f"SELECT {entity} AS person, count(*) AS n FROM {source} AS s"
            f" WHERE {entity} IS NOT NULL GROUP BY {entity}"
        )
        [(n_persons, n_withheld)] = session.rows(
            f"SELECT count(*), coalesce(sum(p.n - {max_rows or 1}), 0) FROM ({rows_per_person})"
            f" AS p WHERE p.n > {max_rows or 1}"
        )
        [(n_without_person,)] = session.rows(
            f"SELECT count(*) - count({entity}) FROM {source} AS s"
        )
        has = "has" if n_persons == 1 else "have"
        if n_persons and max_rows is None:
            messages.append(
                f"{table}: {pluralize(int(n_persons), 'person')} {has} more than one row,"
                " so a release would be refused (chain_entity_rows)"
            )
        elif n_persons:
            messages.append(
                f"{table}: {pluralize(int(n_persons), 'person')} {has} more than {max_rows} rows;"
                f" a release would withhold {int(n_withheld)} of their rows"
            )
        if n_without_person:
            messages.append(
                f"{table}: {pluralize(int(n_without_person), 'row')} without a value of"
                f' "{chain.entity}", so a release would be refused (null_in_entity)'
            )
    return tuple(messages)


def forecast_chain(chain: ChainRecord, releases: Sequence[JsonMapping]) -> ChainForecast | None:
    """Forecast a chain from its releases; None if it has too few, or only measures."""
    if chain.rules.mode == MEASURE or chain.k is None:
        return None
    job = {} if chain.definition is None else chain.definition["job"]
    # Groups of persons can leave a class only in a chain without privacy models: once their values
    # are gone, models could not be checked.
    return forecast(chain.rules, chain.k, releases, has_models=bool(job.get("models")))


def close(store: Store, name: str) -> ChainShown:
    """Close a chain: it can have no further releases."""
    with store.session(write=True) as session:
        chain_state.close(session, chain_state.find_chain(session, name))
        return summarize_chain(chain_state.find_chain(session, name))


def measure(store: Store, name: str, key: str) -> Measured:
    """Count how many persons of a chain share their history with fewer than k, or with no one.

    Parameters
    ----------
    key : the location of the chain's key.
    """
    require_key_form(key)
    key_bytes = read_key(key)
    with store.session(write=False) as session:
        chain = chain_state.find_chain(session, name)
        chain_state.require_key(chain, key_bytes)
        # Before the first release, the chain has no k, and no one has a history.
        k = chain.k or 0
        # By the number of persons who share a history: the number of such histories.
        history_counts = recount.count_histories(_state_after_last_release(session, chain))
        return Measured(
            name=chain.name,
            mode=chain.rules.mode,
            releases=chain.n_releases,
            k=k,
            persons=recount.count_persons(history_counts),
            histories=sum(history_counts.values()),
            smallest=min(history_counts, default=0),
            exposed=recount.count_exposed(history_counts, k),
            alone=history_counts.get(1, 0),
        )


def withdraw(store: Store, name: str, entities: Iterable[str], key: str) -> int:
    """Withdraw the cells of persons from all later releases; return the number of cells.

    A cell is a class of the chain, so everyone who shares a class with these persons leaves, too.

    Parameters
    ----------
    entities : the identifiers of the persons, as text.
    key : the location of the chain's key.
    """
    require_key_form(key)
    key_bytes = read_key(key)
    identifiers = [text.strip() for text in entities if text.strip()]
    if not identifiers:
        raise InvalidParameter(
            "No persons were named.",
            hint="Name the persons by their identifiers, on the command line one per line of"
            " stdin.",
        )
    with (
        # The lock that runs of the chain take, too.
        cast(ClientStore, store).job_lock(f"chain-{name}"),
        store.session(write=True) as session,
    ):
        chain = chain_state.find_chain(session, name)
        chain_state.require_key(chain, key_bytes)
        chain_state.require_open(chain)
        # Withdraw with the next release: the last one still displayed these persons. Their history
        # must differ from that of persons who left with the last release.
        state = replace(
            _state_after_last_release(session, chain), release_number=chain.n_releases + 1
        )
        return state.withdraw(chain.tags(key_bytes, identifiers))


def _describe_release(release: JsonMapping) -> str:
    """Describe a release of a chain in one line."""
    phrases = [f"{release['persons']} persons", f"{release['joined']} joined"]
    phrases += [
        f"{release[name]} {description}"
        for name, description in (
            ("absent", "displayed persons who left"),
            ("waiting", "waiting"),
            ("longest", "releases as the longest wait"),
            ("returned", "returned"),
            ("held", "classes held"),
            ("refused", "excluded by models"),
            ("back", "classes frozen for returned persons"),
            ("unfit", "classes frozen by models"),
            ("gone", "classes gone"),
            ("withdrawn", "classes withdrawn"),
            ("drifted", "classes with few changed rows"),
            ("exposed", "exposed"),
            ("pair_exposed", "exposed together with the previous chain"),
        )
        if release.get(name)
    ]
    # A release is confirmed once its output has been written.
    return ", ".join(phrases) + (
        "" if release["confirmed"] else "; PENDING: it counts as published"
    )


def _state_after_last_release(session: Session, chain: ChainRecord) -> ChainState:
    """The state of a chain after its last release."""
    # Before the first release, the chain has no k, and no members to which it would apply.
    return ChainState(session, chain, chain.n_releases, chain.k or 0)


def summarize_chain(chain: ChainRecord, releases: Sequence[JsonMapping] = ()) -> ChainShown:
    """Summarize a chain and some of its releases for display."""
    state = "closed" if chain.closed_at else "open" if chain.n_releases else "new"
    return ChainShown(
        name=chain.name,
        source=chain.source,
        entity=chain.entity,
        state=state,
        rules=chain.rules.to_plain(),
        k=chain.k,
        sequence=chain.n_releases,
        created_at=chain.created_at,
        created_by=chain.created_by,
        releases=tuple(releases),
        forecast=forecast_chain(chain, releases),
    )
