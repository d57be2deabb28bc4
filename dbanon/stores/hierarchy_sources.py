"""Hierarchies that a job names: read in the job's own transaction, with the caller's rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.edges import Pulse, no_pulse
from dbanon.hierarchy.leaves import leaf_text
from dbanon.hierarchy.spec import ENUM, NAME, TABLE, HierarchySpec, build, enum_tree
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.stores import hierarchies, statements
from dbanon.stores.base import Source
from dbanon.stores.sql import Session


class Sources:
    """Reads hierarchies for one source, and notes for the ledger where each came from."""

    def __init__(self, session: Session, source: Source, pulse: Pulse = no_pulse) -> None:
        self._session, self._source, self._pulse = session, source, pulse
        self._origins: dict[str, dict[str, Any]] = {}
        self._of_models: dict[str, Hierarchy] = {}

    def read(
        self, given: Mapping[str, Hierarchy | HierarchySpec]
    ) -> dict[str, Hierarchy | HierarchySpec]:
        """The hierarchies by column; builders stay, until the column's values are known.

        Raises
        ------
        TableNotFound, HierarchyNotFound : there is no such hierarchy.
        InsufficientRights : the role may not read it.
        HierarchyBroken : it is no tree.
        InvalidParameter : its columns have other names, or the column is of no enumerated type.
        """
        return {
            column: self._read(column, one) if isinstance(one, HierarchySpec) else one
            for column, one in given.items()
        }

    def read_models(self, models: Sequence[Model]) -> tuple[Model, ...]:
        """The models with their hierarchies, those of builders made from the column's values.

        Raises as ``read``, and InvalidParameter where a builder does not take the values.
        """
        found = []
        for model in models:
            if isinstance(model.distance, HierarchySpec):
                tree = self._read(model.attribute, model.distance)
                if isinstance(tree, HierarchySpec):
                    attribute = self._source.attribute(model.attribute)
                    tree = build(tree, self._values(attribute), model.attribute, self._pulse)
                model = replace(model, distance=tree)
                self._of_models[model.attribute] = tree
            found.append(model)
        return tuple(found)

    def described(self, trees: Mapping[str, Hierarchy]) -> dict[str, dict[str, Any]]:
        """The hierarchies by column as plain values, for the ledger; no label is among them."""
        return {
            column: {"leaves": tree.n_leaves, "height": tree.height} | self._origins.get(column, {})
            for column, tree in {**trees, **self._of_models}.items()
        }

    def _read(self, column: str, spec: HierarchySpec) -> Hierarchy | HierarchySpec:
        if spec.kind in (TABLE, NAME):
            tree = hierarchies.resolve(self._session, spec, self._pulse)
        elif spec.kind == ENUM:
            attribute = self._source.attribute(column)
            if not attribute.order:
                raise InvalidParameter(
                    f'Column "{column}" is of type {attribute.sql_type or "text"}, which enumerates'
                    " no values.",
                    hint='Give its values in order: {"ordered": ["low", "high"]}.',
                )
            self._origins[column] = {"from": spec.parameters}
            return enum_tree(spec, attribute.order)
        else:
            self._origins[column] = {"from": spec.parameters}
            return spec
        self._origins[column] = {"from": spec.parameters, "sha256": tree.sha256}
        return tree

    def _values(self, attribute: Attribute) -> list[str]:
        """The distinct values of a column but for NULL, in the column's order."""
        [looked_at] = self._session.inspect(self._source, [attribute])
        found = self._session.rows(
            statements.distinct_values(
                self._source.relation,
                attribute.name,
                self._session.text_of(looked_at),
                self._source.and_where,
            )
        )
        texts = {leaf_text(text, looked_at) for (text,) in found}
        if texts <= set(attribute.order):
            return [text for text in attribute.order if text in texts]
        if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
            return sorted(texts, key=_by_number)
        return sorted(texts)


def _by_number(text: str) -> tuple[bool, Decimal]:
    """NaN, which has no place among numbers, comes last."""
    number = Decimal(text)
    return number.is_nan(), Decimal(0) if number.is_nan() else number
