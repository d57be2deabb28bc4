"""What is read of a table: columns by role, and microdata that has each under its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Coded, Microdata, require_entities
from dbanon.data.schema import Attribute


@dataclass(frozen=True)
class ColumnRoles:
    """The columns that are read, by what they are read for; no column has two roles.

    Parameters
    ----------
    quasi_identifiers : the attributes of the microdata.
    by : told apart by their texts; each combination of values is a stratum.
    sensitive : columns that a privacy model asks for, as texts.
    leaves : those of them whose values are leaves of a hierarchy, so that their order is not asked.
    persons : columns that say whose a row is, as identifiers: one at most.
    carried : columns that are released as they are, where their values travel with the client and
        back, unread; None where they stay in their database.
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[Attribute, ...] = ()
    sensitive: tuple[Attribute, ...] = ()
    leaves: frozenset[str] = field(default_factory=frozenset)
    persons: tuple[Attribute, ...] = ()
    carried: tuple[Attribute, ...] | None = None

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """All columns, each once."""
        return (*self.quasi_identifiers, *self.by, *self.sensitive, *self.persons)

    def entities(
        self, codes: Callable[[Attribute], NDArray[np.integer]]
    ) -> NDArray[np.int32] | None:
        """The person of each record, int32 (n,); None where every record is one.

        Parameters
        ----------
        codes : of a column, (n,), equal where its values are, and -1 where NULL.

        Raises
        ------
        NullInEntity : the column is NULL somewhere.
        """
        for column in self.persons:
            return require_entities(codes(column).astype(np.int32), column.name)
        return None

    def by_role(self, microdata: Microdata) -> Microdata:
        """Microdata that was read as attributes alone, with each column where its role has it.

        NULL is a value like any other in a stratum's columns.

        Raises
        ------
        NullInEntity : the entity column is NULL somewhere.
        """
        names = {attribute.name for attribute in self.quasi_identifiers}
        coded = {
            attribute.name: Coded(microdata.codes[:, place].copy(), microdata.categories[place])
            for place, attribute in enumerate(microdata.categorical)
            if attribute.name not in names
        }
        rest = microdata.of_attributes(names)
        rest = replace(rest, entities=self.entities(lambda column: coded[column.name].codes))
        if self.by:
            codes = np.column_stack([coded[attribute.name].codes for attribute in self.by])
            _, strata = np.unique(codes, axis=0, return_inverse=True)
            rest = replace(rest, strata=strata.reshape(-1).astype(np.int32))
        return replace(rest, sensitive={a.name: coded[a.name] for a in self.sensitive})
