"""Comparison of a published relation with its record in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from dbanon.data.counts import CountRequests, Counts, Recount
from dbanon.errors import DbanonError, RecountFailed, ReleaseChanged
from dbanon.hierarchy.spec import parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import PERSONS
from dbanon.job.of_chain import BESIDE_FIRST
from dbanon.ledger.recorded_report import recorded_digest, released_columns
from dbanon.ledger.tables import LedgerEntry
from dbanon.measures import HIERARCHICAL, Model
from dbanon.measures.recount import levels_reached, trees_of_models
from dbanon.partitioning.protect import add_null_leaves
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.hierarchies import resolve
from dbanon.stores.sql_counts import cells_of

# What can differ, in the words of messages.
COLUMNS, TYPES, ROWS = "columns", "types", "rows (digest)"
CLASS_SIZES, MODELS = "class sizes", "levels of privacy models"

AGAIN = "Drop it (dbanon drop), and release the table again."


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


class Comparison:
    """Collects the differences between a relation and its entry in the ledger.

    Parameters
    ----------
    entry : as ``ledger.find_release`` gives it; None for a relation without one: nothing differs.

    Attributes
    ----------
    digest : what that of the rows says, in the words of ``stores.digest``; None without entry.
    """

    def __init__(self, session: Session, relation: RelationName, entry: LedgerEntry | None) -> None:
        self._session, self._relation, self._entry = session, relation, entry
        self._differing: list[str] = []
        self._detail: str | None = None
        self._recorded: str | None = None
        self.digest: str | None = None
        self._now: list[str] = []
        if entry is not None:
            self._recorded = recorded_digest(session, entry.release_id)
            self._compare_columns(released_columns(session, entry.release_id))

    def _compare_columns(self, then: Sequence[tuple[str, str]]) -> None:
        now = self._session.columns_of(self._relation)
        self._now = [name for name, _ in now]
        names = [name for name, _ in then]
        # Releases of version 0.1.0 recorded neither the order nor the types of the catalog.
        in_order = list if self._recorded is not None else sorted
        if in_order(self._now) != in_order(names):
            self._differing.append(COLUMNS)
            new = [name for name in self._now if name not in names]
            missing = [name for name in names if name not in self._now]
            self._detail = f"Columns now {len(now)}, released {len(names)}." + "".join(
                f" {word}: {', '.join(quoted_names)}."
                for word, quoted_names in (
                    ("New", _quote_names(new)),
                    ("Missing", _quote_names(missing)),
                )
                if quoted_names
            )
        elif self._recorded is not None and now != list(then):
            self._differing.append(TYPES)
            changed = [name for (name, a), (_, b) in zip(now, then, strict=True) if a != b]
            self._detail = f"Of another type now: {', '.join(_quote_names(changed))}."

    @property
    def columns_differ(self) -> bool:
        """True when names, order or types do: then neither models nor rows can be compared."""
        return bool({COLUMNS, TYPES} & set(self._differing))

    @property
    def unchanged(self) -> bool | None:
        """True where the rows are as released; None where they could not be compared."""
        return True if self.digest == digest.UNCHANGED else None

    def require_columns(self, names: Sequence[str]) -> None:
        """Check that there is something to count.

        Raises
        ------
        ReleaseChanged : a quasi-identifier is gone.
        """
        if self._entry is not None and not set(names) <= set(self._now):
            raise self._changed()

    def compare_class_sizes(self, recount: Recount) -> None:
        """Compare the histogram."""
        assert self._entry is not None
        histogram = {str(size): count for size, count in sorted(recount.histogram.items())}
        if histogram != self._entry.histogram:
            self._differing.append(CLASS_SIZES)

    def compare_models(self, models: Sequence[ModelCount]) -> None:
        """Compare the levels of those that could be counted."""
        if any(
            model.counted is not None and not isclose(model.counted, model.recorded, rel_tol=1e-9)
            for model in models
        ):
            self._differing.append(MODELS)

    def compare_rows(self) -> None:
        """Compare the digest, the last of all.

        Raises
        ------
        ReleaseChanged : anything differs.
        """
        if self._entry is None:
            return
        if not self.columns_differ:
            self.digest = digest.compare(self._session, self._relation, self._recorded)
        if self.digest == digest.CHANGED:
            self._differing.append(ROWS)
        if self._differing:
            raise self._changed()

    def _changed(self) -> ReleaseChanged:
        return ReleaseChanged(
            f"{self._relation} has changed since it was released: {', '.join(self._differing)}"
            " differ.",
            detail=self._detail,
            hint="Find out who changed it, and release it again.",
        )


def _quote_names(names: Sequence[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def recount_models(
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
    model_counts: list[ModelCount] = []
    models: dict[int, Model] = {}
    for index, recorded in enumerate(then):
        model = _recorded_model(session, recorded, hierarchies)
        why_not = None
        if isinstance(model, Model):
            models[index] = model
        else:
            why_not = model
        model_counts.append(
            ModelCount(recorded["model"], float(recorded["counted"]), None, why_not)
        )
    if not models:
        return tuple(model_counts)
    counted_models = add_null_leaves(list(models.values()))
    relation_read = session.find_source(relation)
    of_models = tuple(dict.fromkeys(model.attribute for model in counted_models))
    model_attributes = session.inspect(
        relation_read, [relation_read.attribute(name) for name in of_models]
    )
    relation_read = relation_read.with_attributes(model_attributes)
    attributes = {attribute.name: attribute for attribute in model_attributes}
    questions = CountRequests(
        tuple(names),
        sensitive=of_models,
        leaves=frozenset(trees_of_models(counted_models)),
    )
    try:
        cells = cells_of(session, relation_read, relation, questions)
        levels = levels_reached(counted_models, attributes, Counts(recount, cells=cells))
    except RecountFailed as error:
        error.hint = AGAIN
        raise
    for index, level in zip(models, levels, strict=True):
        model_counts[index] = replace(model_counts[index], counted=level.achieved)
    return tuple(model_counts)


def _recorded_model(
    session: Session, recorded: Mapping[str, Any], hierarchies: Mapping[str, Any]
) -> Model | str:
    """The model of a ledger's entry, or the reason why it cannot be restored."""
    if "kind" not in recorded:
        return "recorded by an earlier version, in words only"
    if str(recorded["model"]).endswith(BESIDE_FIRST):
        return "it compares with the first release of its chain, which the state of the chain has"
    if recorded.get("counted_in") == PERSONS:
        return (
            "it was counted in persons, and the release does not show which rows belong to one"
            " person"
        )
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
