"""The part of a session that counts persons, which are staged with the values that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dbanon.data.counts import EntityCount
from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import Relation
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName


class PersonsSession(SessionInterface):
    """The part of a session that counts persons."""

    @abstractmethod
    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        reads: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        """Fill a table from staging with one row per released row.

        Parameters
        ----------
        values : SQL expression by column.
        source, joins : where expressions take values from; None for rows copied from another
            database.
        reads : source columns that the expressions and joins use.
        """

    def recount_entities(
        self,
        columns: Sequence[tuple[str, str]],
        source: Relation | None,
        person: str,
        joins: str,
        further_columns: Sequence[tuple[str, str]] = (),
        reads: Sequence[str] = (),
        *,
        keys: Sequence[tuple[str, ...]],
    ) -> EntityCount:
        """Count the persons in each class of released values, after staging both.

        The values are staged under their types in the release, so that classes are those that
        readers see.

        Parameters
        ----------
        columns : SQL type and SQL expression of each column that defines a class.
        source, person, joins, reads : SQL of a row's person, and where it comes from, as in
            ``insert``.
        further_columns : columns to stage after them.
        keys : SQL, over the alias s, that distinguishes the values of each column of a class.
        """
        names = [statements.value_column(i) for i in range(len(columns) + len(further_columns))]
        types = [self.declared(sql_type) for sql_type, _ in (*columns, *further_columns)]
        self.run(
            statements.create_staging(
                statements.ENTITIES,
                [*zip(names, types, strict=True), ("person", "integer")],
                self.staging_suffix,
            )
        )
        values = dict(
            zip(names, (expression for _, expression in (*columns, *further_columns)), strict=True)
        )
        table = RelationName(None, statements.ENTITIES)
        self.insert(table, values | {"person": person}, source, reads, joins)
        entity_count = self.recount_staged_entities(keys)
        if not further_columns:
            return entity_count
        in_class = np.zeros(sum(entity_count.histogram.values()), np.int64)
        for number, persons in self.rows(recount_statements.persons_in_classes(keys)):
            in_class[int(number) - 1] = int(persons)
        return replace(entity_count, in_class=in_class)

    def stage_release_persons(
        self, keys: Sequence[tuple[str, ...]], values: str, hashed: str
    ) -> None:
        """Stage the members of each class from staged persons; see ``create_release_persons``."""
        self.run(
            recount_statements.create_release_persons(keys, values, hashed, self.staging_suffix)
        )

    def joint_histories(
        self, releases: Sequence[str], k: int, proof: tuple[str, RelationName, RelationName] | None
    ) -> tuple[int, int, int] | None:
        """Count joint histories over releases in the database if it can; else None.

        Parameters
        ----------
        proof : id, written table and source of the release whose persons are staged.
        """
        return None

    def have_persons_recorded(self, release_id: str) -> bool:
        """Have the database record the staged persons of a release; False if not supported."""
        return False

    def recount_staged_entities(self, keys: Sequence[tuple[str, ...]]) -> EntityCount:
        """Count the persons in each combination of values of some staged columns."""
        rows = self.rows(recount_statements.recount_entities(keys))
        return EntityCount(
            persons=int(self.rows(recount_statements.count_entities())[0][0]),
            smallest=min((int(persons) for _, _, persons in rows), default=0),
            histogram={int(size): int(count) for size, count, _ in rows},
        )

    def declared(self, sql_type: str) -> str:
        """A column's type as CREATE TABLE takes it."""
        return sql_type

    def spelled(self, attribute: Attribute, value: str) -> str:
        """SQL for an identifier's value, with different spellings of one person made equal."""
        if not attribute.normalize:
            return value
        for space in WHITE_SPACE[1:]:
            value = f"replace({value}, '{space}', ' ')"
        value = f"trim({value})"
        return self.folded(value) if attribute.normalize == CASEFOLD else value

    def folded(self, text: str) -> str:
        """SQL for a text in lowercase."""
        return f"lower({text})"
