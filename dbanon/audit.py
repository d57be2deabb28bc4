"""Looking at releases again: recounting what is published, and clearing what is no longer shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isclose
from typing import Any

from dbanon.enforcement import Enforcement
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    RecountFailed,
    ReleaseChanged,
)
from dbanon.hierarchy import Hierarchy
from dbanon.hierarchy_spec import parse
from dbanon.measures import HIERARCHICAL, Model
from dbanon.policy import PER_ATTRIBUTE, Policy
from dbanon.release import Recount
from dbanon.stores import ledger
from dbanon.stores.base import Store
from dbanon.stores.hierarchies import resolve
from dbanon.stores.names import RelationName
from dbanon.stores.session import Session
from dbanon.stores.statements import recount_for_people


@dataclass(frozen=True)
class ModelCount:
    """A privacy model of a release, recounted.

    Parameters
    ----------
    model : in words.
    recorded : the level counted when it was released.
    counted : the level counted now; None where it could not be.
    why_not : why it could not.
    """

    model: str
    recorded: float
    counted: float | None
    why_not: str | None = None


@dataclass(frozen=True)
class Verification:
    """What a recount of a published relation found.

    ``k_requested`` is what was asked for, ``k_achieved`` the smallest class counted now, in rows.
    ``entity`` is the column whose values the release counted instead; it was not released, so that
    only rows can be counted now. ``k_rows`` is not None for a release whose attributes were grouped
    by themselves, and classes are counted so: the rows that share the rarest combination of values,
    of which nothing was guaranteed. ``release_id`` and ``unchanged`` are None for a relation that
    is not in the ledger; ``unchanged`` compares the histogram of class sizes, and the levels of
    privacy models, with those recorded, not the values. ``models`` are those of the ledger's entry.
    """

    relation: str
    quasi_identifiers: tuple[str, ...]
    rows: int
    classes: int
    smallest_class: int
    median_class: float
    largest_class: int
    null_rows: int
    k_requested: int
    k_achieved: int
    release_id: str | None
    unchanged: bool | None
    guarantee: str | None
    recount_sql: str
    entity: str | None = None
    k_rows: int | None = None
    models: tuple[ModelCount, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The verification as plain values, for JSON."""
        return asdict(self)


def verify(
    store: Store,
    relation: RelationName,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
) -> Verification:
    """Recount a published relation by GROUP BY, against its ledger entry or the given wishes.

    Parameters
    ----------
    quasi_identifiers, k : only for relations that the ledger of their database does not know; with
        a ledger entry, ``k`` may ask for more than was requested then.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows, or does not keep to a privacy model.
    ReleaseChanged : class sizes or levels of models are not those that were recorded.
    ReleaseNotFound : neither a ledger entry nor quasi-identifiers and k were given.
    """
    if k is not None and k < 2:
        raise InvalidParameter("k must be a whole number, 2 or more.")
    with store.session(write=False) as session:
        if quasi_identifiers:
            if k is None:
                raise InvalidParameter("k is needed with quasi-identifiers.", hint="Add k.")
            source = session.find_source(relation)
            for name in quasi_identifiers:
                source.attribute(name)
            entry, relation, names = None, source.name, tuple(quasi_identifiers)
        else:
            entry = ledger.find_release(session, relation)
            relation, names = entry["name"], tuple(entry["quasi_identifiers"])
            k = int(entry["k_requested"]) if k is None else k
        if entry is not None and entry["guarantees"] == PER_ATTRIBUTE:
            by = entry["by"]
            alone = [name for name in names if name not in by]
            recount = session.recount_attributes(relation, alone, by)
            query = "\n".join(recount_for_people(relation, [name, *by]) for name in alone)
        else:
            recount = session.recount(relation, names)
            query = recount_for_people(relation, names)
        models: tuple[ModelCount, ...] = ()
        if entry is not None and recount.smallest >= k:
            models = _recount_models(session, relation, entry, recount.rows)
    unchanged = None
    if entry is not None:
        unchanged = _histogram(recount) == entry["histogram"] and all(
            found.counted is None or isclose(found.counted, found.recorded, rel_tol=1e-9)
            for found in models
        )
    found = Verification(
        relation=str(relation),
        quasi_identifiers=names,
        rows=recount.rows,
        classes=recount.classes,
        smallest_class=recount.smallest,
        median_class=recount.median,
        largest_class=recount.largest,
        null_rows=recount.null_rows,
        k_requested=k,
        k_achieved=recount.smallest,
        release_id=entry["release_id"] if entry else None,
        unchanged=unchanged,
        guarantee=entry["guarantee"] if entry else None,
        recount_sql=query,
        entity=entry["entity"] if entry else None,
        k_rows=recount.k_rows,
        models=models,
    )
    if recount.smallest < k:
        raise RecountFailed(
            f"The smallest class of {relation} holds {recount.smallest} rows, fewer than k = {k}.",
            hint="Withdraw the relation, and release it again.",
        )
    if unchanged is False:
        raise ReleaseChanged(
            f"The class sizes of {relation}, or the levels of its privacy models, are not those"
            " recorded when it was released.",
            hint="Find out who changed it, and release it again.",
        )
    return found


def _recount_models(
    session: Session, relation: RelationName, entry: Mapping[str, Any], rows: int
) -> tuple[ModelCount, ...]:
    """The privacy models of a release, counted again where the ledger says enough of them.

    Raises
    ------
    RecountFailed : a class does not keep to one.
    """
    found: list[ModelCount] = []
    models: dict[int, Model] = {}
    for place, recorded in enumerate(entry["models"]):
        model = _recorded_model(session, recorded, entry["hierarchies"])
        why_not = None
        if isinstance(model, Model):
            models[place] = model
        else:
            why_not = model
        found.append(ModelCount(recorded["model"], float(recorded["counted"]), None, why_not))
    if not models:
        return tuple(found)
    enforcement = Enforcement(Policy(k=2, models=tuple(models.values())), None)
    source = session.find_source(relation)
    modelled = [source.attribute(name) for name in enforcement.names]
    source = source.with_attributes(session.inspect(source, modelled))
    try:
        enforcement.recount(session, source, relation, entry["quasi_identifiers"], rows)
    except RecountFailed as error:
        error.hint = "Withdraw the relation, and release it again."
        raise
    for place, level in zip(models, enforcement.levels, strict=True):
        found[place] = replace(found[place], counted=level.achieved)
    return tuple(found)


def _recorded_model(
    session: Session, recorded: Mapping[str, Any], hierarchies: Mapping[str, Any]
) -> Model | str:
    """The model of a ledger's entry, or why it cannot be known again."""
    if "kind" not in recorded:
        return "recorded by an earlier version, in words only"
    distance: Any = recorded.get("distance", "equal")
    if distance == HIERARCHICAL:
        origin = hierarchies.get(recorded["attribute"], {})
        if "sha256" not in origin:
            return "its hierarchy is not stored in this database"
        try:
            distance = resolve(session, parse(origin["from"], files=False))
        except DbanonError:
            return "its hierarchy is not in this database any more, or may not be read"
        if not isinstance(distance, Hierarchy) or distance.sha256 != origin["sha256"]:
            return "its hierarchy changed since"
    kind, attribute = recorded["kind"], recorded["attribute"]
    return Model(kind, attribute, recorded["level"], recorded.get("l", 2), distance)


def collect_garbage(store: Store, keep_last: int = 1) -> list[str]:
    """Drop released tables that a view no longer shows, but for the newest ``keep_last``.

    Only tables are dropped that the ledger knows and that bear their release's mark.
    """
    if keep_last < 0:
        raise InvalidParameter("keep_last must be 0 or more.")
    with store.session(write=True) as session:
        tables = ledger.superseded_tables(session, keep_last)
        for table in tables:
            session.drop_table(table)
    return [str(table) for table in tables]


def _histogram(recount: Recount) -> dict[str, int]:
    return {str(size): count for size, count in sorted(recount.histogram.items())}
