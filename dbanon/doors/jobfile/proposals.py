"""Roles that are proposed for the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass

from dbanon.data.schema import Attribute


@dataclass(frozen=True)
class Proposal:
    """A role for a column.

    Parameters
    ----------
    role : as job files have it.
    comment : what there is to know before it is changed.
    """

    column: str
    role: str
    comment: str


def propose(attributes: tuple[Attribute, ...]) -> tuple[Proposal, ...]:
    """A role for each column: none is released before somebody says so."""
    return tuple(Proposal(a.name, "drop", a.sql_type or a.kind.value) for a in attributes)
