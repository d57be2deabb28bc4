"""What a session does where persons are counted: staged beside the values that they share."""

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
        """Fill a table from staging: one row for each that is released.

        Parameters
        ----------
        values : SQL expression by column.
        source, joins : where expressions take values from; None for the copies of another database.
        reads : the columns of the source that expressions and joins name.
        """

    def recount_entities(
        self,
        columns: Sequence[tuple[str, str]],
        source: Relation | None,
        person: str,
        joins: str,
        more: Sequence[tuple[str, str]] = (),
        reads: Sequence[str] = (),
        *,
        keys: Sequence[tuple[str, ...]],
    ) -> EntityCount:
        """Count the persons in each class of released values, which staging has beside them.

        The values are stored first, under the types that they have in the release: what readers see
        as one class is one here.

        Parameters
        ----------
        columns : SQL type and SQL expression of each column that a class shares.
        source, person, joins, reads : SQL of a row's person, and where it comes from, as in
            ``insert``.
        more : columns that are staged beside them, under the next places.
        keys : SQL, of the alias s, of what tells the values of each column of a class apart.
        """
        names = [statements.value_column(i) for i in range(len(columns) + len(more))]
        types = [self.declared(sql_type) for sql_type, _ in (*columns, *more)]
        self.run(
            statements.create_staging(
                statements.ENTITIES,
                [*zip(names, types, strict=True), ("person", "integer")],
                self.staging_suffix,
            )
        )
        values = dict(zip(names, (expression for _, expression in (*columns, *more)), strict=True))
        table = RelationName(None, statements.ENTITIES)
        self.insert(table, values | {"person": person}, source, reads, joins)
        counted = self.recount_staged_entities(keys)
        if not more:
            return counted
        in_class = np.zeros(sum(counted.histogram.values()), np.int64)
        for number, persons in self.rows(recount_statements.persons_in_classes(keys)):
            in_class[int(number) - 1] = int(persons)
        return replace(counted, in_class=in_class)

    def stage_release_persons(
        self, keys: Sequence[tuple[str, ...]], values: str, hashed: str
    ) -> None:
        """Stage who is in which class, once persons are staged; as ``create_release_persons``."""
        self.run(
            recount_statements.create_release_persons(keys, values, hashed, self.staging_suffix)
        )

    def joint_histories(
        self, releases: Sequence[str], k: int, proof: tuple[str, RelationName, RelationName] | None
    ) -> tuple[int, int, int] | None:
        """The joint histories over releases, where the database itself counts them; else None.

        Parameters
        ----------
        proof : of a release whose persons are staged: its id, the table that it was written to, its
            source.
        """
        return None

    def have_persons_recorded(self, release_id: str) -> bool:
        """Have the database record the staged persons of a release; False where it does not."""
        return False

    def recount_staged_entities(self, keys: Sequence[tuple[str, ...]]) -> EntityCount:
        """The persons in each combination of values of some staged columns."""
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
        """SQL of an identifier's value as it is compared: texts of one person as one."""
        if not attribute.normalize:
            return value
        for space in WHITE_SPACE[1:]:
            value = f"replace({value}, '{space}', ' ')"
        value = f"trim({value})"
        return self.folded(value) if attribute.normalize == CASEFOLD else value

    def folded(self, text: str) -> str:
        """SQL of a text in small letters."""
        return f"lower({text})"
