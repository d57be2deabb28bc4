"""The entity column of a job: read as codes, and counted on what is released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, with_entities
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import RecountFailed
from dbanon.partitioning.entities import as_identifier
from dbanon.release.counts import EntityCount, Recount
from dbanon.stores import statements
from dbanon.stores.base import Source, random_order
from dbanon.stores.sql import Session


class Persons:
    """Whose the rows of one run are. All is empty and does nothing where no column says it.

    Persons are told apart by the database, as its ``=`` has it. Their identifiers are never read:
    rows travel with numbers, and where the release goes to another database, with random ones.

    Parameters
    ----------
    name : the entity column, or None.
    """

    count: EntityCount | None = None

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.names = () if name is None else (name,)
        self._code = ""
        self._numbers: NDArray[np.int32] = np.empty(0, np.int32)

    def columns(self, source: Source, before: int) -> list[Attribute]:
        """What is read, after ``before`` other columns.

        Raises
        ------
        UnsupportedType : values of the column cannot be told apart.
        """
        found = []
        for name in self.names:
            attribute = as_identifier(source.attribute(name))
            self._entity, self._place = attribute, before
            self._code = statements.code_column(before)
            found.append(attribute)
        return found

    def split(self, microdata: Microdata) -> Microdata:
        """What was read, the last column as its entities.

        Raises
        ------
        NullInEntity : the column holds NULL.
        """
        if self.name is None:
            return microdata
        microdata = with_entities(microdata)
        assert microdata.entities is not None
        numbers = random_order(int(microdata.entities.max(initial=-1)) + 1)
        self._numbers = numbers[microdata.entities].astype(np.int32)
        return microdata

    def copied(self) -> list[Attribute]:
        """The column that stands for the entity beside the rows copied to another database."""
        return [Attribute("person", Kind.INTEGER, bits=32) for _ in self.names]

    def add(
        self, records: NDArray[np.int64], rows: Sequence[tuple[Any, ...]]
    ) -> Sequence[tuple[Any, ...]]:
        """The rows of these records, each with its person's number."""
        if self.name is None:
            return rows
        numbers = self._numbers[records].tolist()
        return [(*row, number) for row, number in zip(rows, numbers, strict=True)]

    def recount(
        self,
        session: Session,
        source: Source | None,
        written: Sequence[tuple[str, str, str]],
        shared: Collection[str],
        n_kept: int,
        recount: Recount,
        k: int,
    ) -> None:
        """Count the persons in each class of what was written, in staging, and check k.

        Parameters
        ----------
        source : None where rows were copied from another database.
        written : name, SQL type and SQL expression of the columns of the release.
        shared : the columns of it that a class shares.
        n_kept : the number of columns copied beside the person.
        recount : of the written relation.

        Raises
        ------
        RecountFailed : a class has fewer persons, or its rows are not those of staging.
        """
        if self.name is None:
            return
        columns = [(sql_type, value) for name, sql_type, value in written if name in shared]
        if source is None:
            joins, person = "", f"r.{statements.kept_column(n_kept)}"
        else:
            joins = statements.join_values(self._place, session.value_of(self._entity))
            person = self._code
        self.count = session.recount_entities(columns, source, person, joins)
        if self.count.histogram != recount.histogram:
            raise RecountFailed(
                "The class sizes of the written relation are not those of the rows whose persons"
                " were counted; nothing was published.",
                hint="This is an error in dbanon: please report it.",
            )
        if self.count.smallest < k:
            raise RecountFailed(
                f"The class of fewest persons holds {self.count.smallest} distinct values of"
                f' "{self.name}", fewer than k = {k}; nothing was published.',
                hint="This is an error in dbanon: please report it.",
            )

    def arguments(self) -> dict[str, Any]:
        """The column and the number of persons, for the ledger."""
        if self.count is None:
            return {}
        return {"entity": self.name, "persons": self.count.persons}
