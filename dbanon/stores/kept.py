"""Columns of a run that are released as they are: counted, warned of, and refused if that is asked.

The counting is done in SQL, in the transaction that publishes: nothing of these columns is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.errors import KeptColumnTells, RecountFailed, TellingColumnRefused
from dbanon.job.policy import Policy
from dbanon.release.recode import Release
from dbanon.release.report import TellingColumn
from dbanon.release.telling import Originals, ValueGroups, all_different, sample_size, telling
from dbanon.stores import statements
from dbanon.stores.base import Source
from dbanon.stores.names import RelationName, quote
from dbanon.stores.sql import Session


class KeptColumns:
    """What the columns of one run that are released as they are tell.

    Parameters
    ----------
    names : the columns.
    policy : with k, and whether the run is strict.
    entity : the column whose values k counts, or None.
    """

    found: tuple[TellingColumn, ...] = ()

    def __init__(self, names: Sequence[str], policy: Policy, entity: str | None) -> None:
        self._names, self._policy, self._entity = names, policy, entity

    def count(
        self,
        source_session: Session,
        source: Source,
        target_session: Session,
        written: RelationName,
        microdata: Microdata,
        release: Release,
    ) -> None:
        """Count what was written, beside the original values; warns with ``KeptColumnTells``.

        Parameters
        ----------
        written : the relation that is not visible yet.

        Raises
        ------
        TellingColumnRefused : a column tells too much, and the run is strict.
        RecountFailed : other rows were counted than those that are released.
        """
        found = []
        different = self._different(target_session, source, written, release)
        originals = Originals(microdata, release.partition, release.columns)
        for name in self._names:
            if name in different:
                found.append(different[name])
                continue
            groups = self._groups(source_session, source, microdata, release, name)
            found += telling(name, groups, originals, int(self._policy.k))
        self.found = tuple(found)
        say(self.found, self._policy)

    def _different(
        self, session: Session, source: Source, written: RelationName, release: Release
    ) -> dict[str, TellingColumn]:
        """Columns of many rows of which a sample proves enough, by name."""
        rows = int(release.partition.sizes.sum())
        wanted = sample_size(rows)
        if not wanted or not self._names:
            return {}
        values = [session.compared(source.attribute(name)) for name in self._names]
        sample = session.sample(written, wanted / rows)
        sampled, *counts = session.rows(statements.different_values(sample, values))[0]
        proved = (
            all_different(name, rows, int(sampled), int(n), int(different))
            for name, n, different in zip(self._names, counts[::2], counts[1::2], strict=True)
        )
        return {found.name: found for found in proved if found is not None}

    def _groups(
        self, session: Session, source: Source, microdata: Microdata, release: Release, name: str
    ) -> ValueGroups:
        few = f"count(*) < {int(self._policy.k)}"
        if self._entity is not None:
            few = f"count(DISTINCT s.{quote(self._entity)}) < {int(self._policy.k)}"
        query = statements.value_groups(
            session.released_rows(source, microdata, release.partition),
            session.compared(source.attribute(name)),
            [_original(session, attribute) for attribute in microdata.attributes],
            few,
        )
        cells = np.array([[int(value) for value in row] for row in session.rows(query)], np.int64)
        cells = cells.reshape(-1, 4 + len(microdata.attributes))
        if int(cells[:, 1] @ cells[:, 2]) != int(release.partition.sizes.sum()):
            raise RecountFailed(
                f'The values of "{name}" that were counted are not those of all released rows;'
                " nothing was published.",
                hint="This is an error in dbanon: please report it.",
            )
        cells = cells[cells[:, 0] == 0]
        return ValueGroups(cells[:, 1], cells[:, 2], cells[:, 3], cells[:, 4:])

    def arguments(self) -> dict[str, Any]:
        """What was found, for the ledger."""
        return {"telling": [vars(found) for found in self.found]}


def say(found: Sequence[TellingColumn], policy: Policy) -> None:
    """Warn of what was found with ``KeptColumnTells``, or refuse it.

    Raises
    ------
    TellingColumnRefused : the policy is strict, and something was found.
    """
    words = [column.describe(int(policy.k)) for column in found]
    if policy.strict and found:
        raise TellingColumnRefused(
            "A column that would be released as it is tells too much; nothing was published.",
            detail="Column " + "; column ".join(words) + ".",
            hint="Do not copy it, name it as a quasi-identifier, or leave strict out.",
        )
    for text in words:
        warnings.warn(KeptColumnTells(f"Column {text}."), stacklevel=2)


def _original(session: Session, attribute: Attribute) -> str:
    if attribute.kind.is_coded:
        return session.text_of(attribute)
    return f"s.{quote(attribute.name)}"
