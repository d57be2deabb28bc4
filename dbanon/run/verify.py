"""Looking at a release again: what is published is recounted, and compared with the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from dbanon.data.counts import Counts, Questions, Recount
from dbanon.data.schema import require_lists
from dbanon.errors import (
    DbanonError,
    InsufficientRights,
    InvalidParameter,
    RecountFailed,
    counted,
)
from dbanon.hierarchy.spec import parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import PERSONS, Guarantee
from dbanon.ledger import entries
from dbanon.ledger.rows import require_classes
from dbanon.measures import HIERARCHICAL, Model
from dbanon.measures.counted import levels_reached, trees_of_models
from dbanon.partitioning.protect import with_null_leaves
from dbanon.run.comparison import Comparison, ModelCount
from dbanon.run.verify_private import PrivateVerification, verify_private
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.statements import recount_for_people
from dbanon.sessions.store import Store
from dbanon.stores import digest
from dbanon.stores.hierarchies import resolve
from dbanon.stores.sql_counts import cells_of, count_classes

_AGAIN = "Withdraw the relation, and release it again."
_NO_RELEASE = (
    "The ledger has no release of this name: these are the rows as they are. What is to be"
    " published is a release of them, made with this k."
)


@dataclass(frozen=True)
class Verification:
    """What a recount of a published relation found.

    ``k_requested`` is what was asked for, ``k_achieved`` the smallest class counted now, in rows.
    ``entity`` is the column whose values the release counted instead; it was not released, so that
    only rows can be counted now. ``k_rows`` is not None for a release whose attributes were grouped
    by themselves, and classes are counted so: the rows that share the rarest combination of values,
    of which nothing was guaranteed. ``release_id``, ``unchanged`` and ``digest`` are None for a
    relation that is not in the ledger. ``unchanged`` is True when names, order and types of
    columns, the digest of the rows, class sizes and levels of models are as recorded, and
    None when the rows could not be compared. ``digest`` says that: "unchanged", "not recorded"
    (releases of version 0.1.0, of which the columns' names, class sizes and models are compared) or
    "recorded by another version of the database". ``models`` are those of the ledger's entry.
    ``counted`` says in words what was counted.
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
    digest: str | None = None
    counted: str = "rows"

    @classmethod
    def of(
        cls,
        relation: str,
        names: Sequence[str],
        k: int,
        recount: Recount,
        query: str,
        **told: Any,
    ) -> Verification:
        """What the recount of a relation found; ``told`` is what else is said of it."""
        return cls(
            relation=relation,
            quasi_identifiers=tuple(names),
            rows=recount.rows,
            classes=recount.classes,
            smallest_class=recount.smallest,
            median_class=recount.median,
            largest_class=recount.largest,
            null_rows=recount.null_rows,
            k_requested=k,
            k_achieved=recount.smallest,
            k_rows=recount.k_rows,
            recount_sql=query,
            **told,
        )

    def to_dict(self) -> dict[str, Any]:
        """The verification as plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "counted"}


def verify(
    store: Store,
    relation: RelationName,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
) -> Verification | PrivateVerification:
    """Recount a published relation by GROUP BY, against its ledger entry or the given wishes.

    Parameters
    ----------
    quasi_identifiers, k : only for relations that the ledger of their database does not know; with
        a ledger entry, ``k`` may ask for more than was requested then.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows, or does not keep to a privacy model.
    ReleaseChanged : it is not as it was released; the message says in what.
    InsufficientRights : the role may not read the relation, or the ledger.
    ReleaseNotFound : neither a ledger entry nor quasi-identifiers and k were given.
    """
    require_lists(quasi_identifiers=quasi_identifiers)
    if k is not None and k < 2:
        raise InvalidParameter("k must be a whole number, 2 or more.")
    with store.session(write=False) as session:
        if quasi_identifiers:
            if k is None:
                raise InvalidParameter("k is needed with quasi-identifiers.", hint="Add `k`.")
            source = session.find_source(relation)
            for name in quasi_identifiers:
                source.attribute(name)
            entry, relation, names = None, source.name, tuple(quasi_identifiers)
        else:
            entry = entries.find_release(session, relation)
            if entry.epsilon is not None:
                if k is not None:
                    require_classes(entry)
                return verify_private(session, entry)
            # Looked at as a source is: its owner may have made a view of it.
            session.find_source(entry.name)
            relation, names = entry.name, entry.quasi_identifiers
            k = entry.k_requested if k is None else k
        comparison = Comparison(session, relation, entry)
        comparison.require_columns(names)
        guarantee = Guarantee(k) if entry is None else entry.guarantee
        with _read(relation):
            recount, query = _recount(session, relation, names, guarantee)
        if recount.smallest < k:
            raise RecountFailed(
                f"The smallest class of {relation} holds {counted(recount.smallest, 'row')}, fewer"
                f" than k = {k}.",
                hint=_AGAIN if entry else _NO_RELEASE,
            )
        models: tuple[ModelCount, ...] = ()
        if entry is not None:
            comparison.compare_class_sizes(recount)
            if not comparison.columns_differ:
                models = models_recounted(
                    session, relation, names, entry.models, entry.hierarchies, recount
                )
                comparison.compare_models(models)
        comparison.compare_rows()
    return Verification.of(
        str(relation),
        names,
        k,
        recount,
        query,
        release_id=entry.release_id if entry else None,
        unchanged=True if comparison.digest == digest.UNCHANGED else None,
        guarantee=entry.sentence if entry else None,
        entity=entry.entity if entry else None,
        models=models,
        digest=comparison.digest,
        counted=guarantee.told_of(recount),
    )


@contextmanager
def _read(relation: RelationName) -> Iterator[None]:
    """Say which right a reader lacks."""
    try:
        yield
    except InsufficientRights as error:
        if type(error) is not InsufficientRights:
            raise
        raise InsufficientRights(
            f"This role may not read {relation}.",
            detail=error.detail,
            hint=f"GRANT SELECT ON {relation.quoted} to it.",
        ) from None


def _recount(
    session: Session,
    relation: RelationName,
    names: Sequence[str],
    guarantee: Guarantee,
) -> tuple[Recount, str]:
    """The classes of a relation as its release counts them, and the query that anyone can run."""
    questions = guarantee.questions(names)
    return count_classes(session, relation, questions), recount_sql(relation, names, guarantee)


def recount_sql(relation: RelationName, names: Sequence[str], guarantee: Guarantee) -> str:
    """The query with which anyone can recount a release of these quasi-identifiers and strata."""
    questions = guarantee.questions(names)
    return "\n".join(recount_for_people(relation, columns) for columns in questions.classes)


def models_recounted(
    session: Session,
    relation: RelationName,
    names: Sequence[str],
    then: Sequence[Mapping[str, Any]],
    hierarchies: Mapping[str, Any],
    recount: Recount,
) -> tuple[ModelCount, ...]:
    """The privacy models of a release, counted again where enough was recorded of them.

    Parameters
    ----------
    names : its quasi-identifiers and strata.
    then, hierarchies : the models and hierarchies as its ledger or file has them.

    Raises
    ------
    RecountFailed : a class does not keep to one.
    """
    found: list[ModelCount] = []
    models: dict[int, Model] = {}
    for place, recorded in enumerate(then):
        model = _recorded_model(session, recorded, hierarchies)
        why_not = None
        if isinstance(model, Model):
            models[place] = model
        else:
            why_not = model
        found.append(ModelCount(recorded["model"], float(recorded["counted"]), None, why_not))
    if not models:
        return tuple(found)
    asked = with_null_leaves(list(models.values()))
    relation_read = session.find_source(relation)
    of_models = tuple(dict.fromkeys(model.attribute for model in asked))
    looked_at = session.inspect(
        relation_read, [relation_read.attribute(name) for name in of_models]
    )
    relation_read = relation_read.with_attributes(looked_at)
    attributes = {attribute.name: attribute for attribute in looked_at}
    questions = Questions(
        tuple(names),
        sensitive=of_models,
        leaves=frozenset(trees_of_models(asked)),
    )
    try:
        cells = cells_of(session, relation_read, relation, questions)
        levels = levels_reached(asked, attributes, Counts(recount, cells=cells))
    except RecountFailed as error:
        error.hint = _AGAIN
        raise
    for place, level in zip(models, levels, strict=True):
        found[place] = replace(found[place], counted=level.achieved)
    return tuple(found)


def _recorded_model(
    session: Session, recorded: Mapping[str, Any], hierarchies: Mapping[str, Any]
) -> Model | str:
    """The model of a ledger's entry, or why it cannot be known again."""
    if "kind" not in recorded:
        return "recorded by an earlier version, in words only"
    if recorded.get("counted_in") == PERSONS:
        return "it was counted in persons, whom the release does not tell apart"
    distance: Any = recorded.get("distance", "equal")
    if distance == HIERARCHICAL:
        origin = hierarchies.get(recorded["attribute"], {})
        if "sha256" not in origin:
            return "its hierarchy is not stored with it"
        try:
            distance = resolve(session, parse(origin["from"], files=False))
        except DbanonError:
            return "its hierarchy is not in this database any more, or may not be read"
        if not isinstance(distance, Hierarchy) or distance.sha256 != origin["sha256"]:
            return "its hierarchy changed since"
    kind, attribute = recorded["kind"], recorded["attribute"]
    return Model(kind, attribute, recorded["level"], recorded.get("l", 2), distance)
