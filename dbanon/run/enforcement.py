"""Privacy models of a job: sensitive columns as codes, protected classes, and their recount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, without_last
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, MemoryLimit, RecountFailed
from dbanon.hierarchy.leaves import leaf_text
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures.models import ModelLevel
from dbanon.methods.registry import Tick
from dbanon.partitioning.protect import protect, require_models, width_of, with_null_leaves
from dbanon.stores import statements
from dbanon.stores.base import Source
from dbanon.stores.names import RelationName
from dbanon.stores.sql import Session

# Counts of classes before and after merging, and a copy of them while classes merge.
_COPIES_OF_COUNTS = 3


class Enforcement:
    """The models of one run. All is empty and does nothing where the policy has none.

    Values are told apart by their texts, and numbers by what they are; their order is that of the
    released values alone, so that it can be found again on what was written.

    Parameters
    ----------
    policy : with the models wanted.
    memory_limit : bytes that counts per class and value may use; None for no limit.
    """

    levels: tuple[ModelLevel, ...] = ()

    def __init__(self, policy: Policy, memory_limit: int | None) -> None:
        self.memory_limit = memory_limit
        self.names = tuple(dict.fromkeys(model.attribute for model in policy.models))
        models = with_null_leaves(policy.models)
        self.trees = {m.attribute: m.distance for m in models if isinstance(m.distance, Hierarchy)}
        self.policy = replace(policy, models=models)
        self._codes = np.empty((0, 0), np.int32)
        self._dictionaries: tuple[tuple[str, ...], ...] = ()

    def columns(self, source: Source) -> list[Attribute]:
        """What is read for the models, every column as a dictionary of texts.

        Raises
        ------
        InvalidParameter : a hierarchy is given to instants, which databases spell differently.
        """
        for name in self.trees:
            if source.attribute(name).kind is Kind.TIMESTAMP:
                raise InvalidParameter(
                    f'The privacy model of "{name}" has a hierarchy of timestamps.',
                    hint="Use distance ordered, or give the column as a date in a view.",
                )
        return [replace(source.attribute(name), kind=Kind.CATEGORY) for name in self.names]

    def split(self, microdata: Microdata) -> Microdata:
        """What was read without the sensitive columns, which are kept here."""
        microdata, self._codes, self._dictionaries = without_last(microdata, len(self.names))
        return microdata

    def measure_by(self, hierarchies: Mapping[str, Hierarchy]) -> None:
        """Let merging cost what these hierarchies of quasi-identifiers say."""
        self.policy = replace(self.policy, hierarchies=hierarchies)

    def protect(
        self,
        session: Session,
        source: Source,
        microdata: Microdata,
        partition: Partition,
        tick: Tick,
    ) -> Partition:
        """Classes that keep to the models; raises as ``protection.protect``."""
        if not self.names:
            return partition
        released = partition.labels >= 0
        codes = {}
        for column, name in enumerate(self.names):
            used, inverse = np.unique(self._codes[released, column], return_inverse=True)
            dictionary = self._dictionaries[column]
            texts = [None if code < 0 else dictionary[code] for code in used.tolist()]
            places = self._places(session, source.relation, source.attribute(name), texts)
            codes[name] = np.zeros(len(released), np.int32)
            codes[name][released] = places[inverse.reshape(-1)]
            self._require_memory(partition.n_classes, name, codes[name])
        return protect(microdata, partition, self.policy, codes, tick)

    def recount(
        self,
        session: Session,
        source: Source,
        relation: RelationName,
        quasi_identifiers: Sequence[str],
        rows: int,
    ) -> None:
        """Count classes and values on what was written, by GROUP BY, and check all models.

        Raises
        ------
        RecountFailed : a class does not keep to a model.
        """
        counts = {}
        for name in self.names:
            attribute = source.attribute(name)
            query = statements.recount_values(
                relation, quasi_identifiers, session.text_of(attribute)
            )
            cells = session.rows(query)
            texts = list(dict.fromkeys(value for _, value, _ in cells))
            places = self._places(session, relation, attribute, texts)
            place_of = dict(zip(texts, places.tolist(), strict=True))
            counts[name] = np.zeros(
                (
                    max((int(number) for number, _, _ in cells), default=0),
                    width_of(self.policy.models, name, places),
                ),
                np.int64,
            )
            for number, value, size in cells:
                counts[name][int(number) - 1, place_of[value]] += int(size)
            if int(counts[name].sum()) != rows:
                raise RecountFailed(
                    f'The values of "{name}" that were counted are not those of all rows.',
                    hint="This is an error in dbanon: please report it.",
                )
        self.levels = require_models(self.policy.models, counts)

    def arguments(self) -> dict[str, Any]:
        """The models with the levels counted, for the ledger."""
        return {
            "models": [
                {"model": found.model, "counted": found.achieved} | model.plain()
                for found, model in zip(self.levels, self.policy.models, strict=True)
            ]
        }

    def _places(
        self,
        session: Session,
        relation: RelationName,
        attribute: Attribute,
        texts: Sequence[str | None],
    ) -> NDArray[np.int32]:
        """The place of each text in the order of values, or its leaf; NULL comes last."""
        tree = self.trees.get(attribute.name)
        known = [text for text in texts if text is not None]
        if tree is not None:
            leaves = tree.encode([leaf_text(text, attribute) for text in known], attribute.name)
            place_of: dict[str | None, int] = dict(zip(known, leaves.tolist(), strict=True))
            place_of[None] = tree.n_leaves - 1
        elif attribute.kind.is_numeric:
            # Texts sort otherwise than numbers, and two texts can be one number.
            found = session.rows(
                statements.value_ranks(relation, attribute.name, session.text_of(attribute))
            )
            ranks = {text: int(rank) for text, rank in found}
            used = {rank: place for place, rank in enumerate(sorted({ranks[t] for t in known}))}
            place_of = {text: used[ranks[text]] for text in known}
            place_of[None] = len(used)
        else:
            place_of = {text: place for place, text in enumerate(sorted(known))}
            place_of[None] = len(known)
        return np.array([place_of[text] for text in texts], np.int32)

    def _require_memory(self, n_classes: int, name: str, codes: NDArray[np.int32]) -> None:
        width = width_of(self.policy.models, name, codes)
        needed = _COPIES_OF_COUNTS * 8 * n_classes * width
        if self.memory_limit is not None and needed > self.memory_limit:
            raise MemoryLimit(
                f'The counts of "{name}" need more than {self.memory_limit // 2**20} MiB of'
                " memory.",
                detail=f"There are {n_classes} classes and {width} values.",
                hint="Raise the memory limit, or bring values together in a view.",
            )
