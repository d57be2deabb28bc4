"""Classes without writing: reads in the one snapshot of the statement that calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.microdata import Microdata, with_entities
from dbanon.data.partition import places_of
from dbanon.data.schema import Attribute, with_orders
from dbanon.hierarchy.spec import HierarchySpec, built
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import DEFAULT_CHUNK_ROWS, check_entity
from dbanon.job.policy import Policy, require_kinds
from dbanon.partitioning.classes import find_classes
from dbanon.partitioning.entities import as_identifier
from dbanon.stores import statements
from dbanon.stores.base import Source
from dbanon.stores.hierarchy_sources import Sources
from dbanon.stores.names import quote, quote_list
from dbanon.stores.postgresql import packed
from dbanon.stores.postgresql.backend import PlpySession
from dbanon.stores.postgresql.backend_errors import translated
from dbanon.stores.postgresql.text import literal


class PlpyReader:
    """Reads a source from a STABLE function, whose queries all see the caller's snapshot."""

    def __init__(self, plpy: Any, oid: int) -> None:
        self._plpy = plpy
        self._session = PlpySession(plpy, oid)

    def classes(
        self,
        quasi_identifiers: Sequence[str],
        policy: Policy,
        *,
        hierarchies: Mapping[str, Hierarchy | HierarchySpec],
        entity: str | None,
        key: Sequence[str],
        memory_limit: int | None,
        tick: Callable[[float], None],
    ) -> list[tuple[str, int | None]]:
        """The row key (JSON text) and the class of every row, None where withheld."""
        check_entity(entity, quasi_identifiers)
        session = self._session
        source = session.find_source(session.source_name())
        named = [source.attribute(name) for name in quasi_identifiers]
        attributes = with_orders(named, policy.orders)
        require_kinds(policy, attributes)
        source = session.locate(source, key)
        persons = [] if entity is None else [as_identifier(source.attribute(entity))]
        session.require_rights(source, [*quasi_identifiers, *(p.name for p in persons)])
        session.require_equality(source, key)
        locator = source.located
        if locator.mapped or locator.unchecked:
            session.check_keys(source)
        if policy.nulls == "suppress":
            source = replace(source, required=tuple(quasi_identifiers))
        read = (*session.inspect(source, attributes), *persons)
        given = Sources(session, source, lambda: tick(0.0)).read(hierarchies)

        def trees(microdata: Microdata) -> dict[str, Hierarchy]:
            return built(given, microdata, lambda: tick(0.0))

        order = ", ".join(
            [session.sort_key(source.attribute(name)) for name in locator.mapped]
            or locator.expressions
        )
        microdata = microdata_from_chunks(
            read,
            self._chunks(source, read, order),
            categories=[
                tuple(value for value, _ in session.rows(f"{query} ORDER BY code"))
                for _, _, query in self._dictionaries(source, read)
            ],
            memory_limit=memory_limit,
        )
        if persons:
            microdata = with_entities(microdata)
        microdata = replace(microdata, withheld=session.count_withheld(source))
        policy = replace(policy, hierarchies=trees(microdata))
        partition = find_classes(microdata, policy, tick, trees)
        # The keys of microdata are places among all rows, from 1.
        places = places_of(microdata.keys[:, 0] - 1, microdata.n_read)
        labels = partition.of(places).labels.tolist()
        return [
            (row_key, None if label < 0 else label)
            for row_key, label in zip(self._keys(source, order), labels, strict=True)
        ]

    def _chunks(
        self, source: Source, attributes: Sequence[Attribute], order: str
    ) -> Iterator[Chunk]:
        columns = quote_list([attribute.name for attribute in attributes], "s.")
        numbered = (
            f"(SELECT row_number() OVER (ORDER BY {order}) AS dbanon_ordinal, {columns}"
            f" FROM {source.name.quoted} AS s) AS s"
        )
        for position, text, query in self._dictionaries(source, attributes):
            # A STABLE function makes no tables: the dictionaries are numbered where they are used.
            alias = f"d{position}"
            numbered += f" LEFT JOIN ({query}) AS {alias} ON {text} = {alias}.value"
        record = packed.packed_record(["s.dbanon_ordinal"], ["bigint"], attributes)
        query = packed.in_one_pass(f"{numbered}{source.where}", record, DEFAULT_CHUNK_ROWS)
        with translated():
            cursor = self._plpy.cursor(query)
            while found := cursor.fetch(1):
                yield packed.unpack(found[0]["string_agg"], ["bigint"], attributes)

    def _dictionaries(
        self, source: Source, attributes: Sequence[Attribute]
    ) -> list[tuple[int, str, str]]:
        """Position, SQL of the text and query of the dictionary of each that is read by codes."""
        found = []
        for position, attribute in enumerate(attributes):
            if attribute.kind.is_coded:
                text = self._session.value_of(attribute)
                column = f"s.{quote(attribute.name)}"
                query = statements.numbered_values(
                    f"{source.name.quoted} AS s", text, column, source.and_where
                )
                found.append((position, text, query))
        return found

    def _keys(self, source: Source, order: str) -> list[str]:
        locator = source.located
        if locator.mapped or locator.types == ("bigint",):
            columns = [
                (name, self._session.value_of_key(source.attribute(name)))
                for name in locator.mapped or self._key_columns(source)
            ]
        else:
            columns = [(e.removeprefix("s."), f"{e}::text") for e in locator.expressions]
        pairs = ", ".join(f"{literal(name)}, {column}" for name, column in columns)
        query = (
            f"SELECT jsonb_build_object({pairs})::text AS row_key"
            f" FROM {source.name.quoted} AS s ORDER BY {order}"
        )
        keys: list[str] = []
        with translated():
            cursor = self._plpy.cursor(query)
            while found := cursor.fetch(DEFAULT_CHUNK_ROWS):
                keys += [row["row_key"] for row in found]
        return keys

    @staticmethod
    def _key_columns(source: Source) -> list[str]:
        wanted = source.located.expressions[0]
        return [a.name for a in source.schema.attributes if f"s.{quote(a.name)}" == wanted]
