"""Roles that are proposed for the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass

from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, REASONS, SENSITIVE, Role
from dbanon.data.schema import Attribute

# What advice proposes, as job files have it; all else is not released until somebody says so.
_ROLES = (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE)
_DROP = "drop"


@dataclass(frozen=True)
class Proposal:
    """A role for a column.

    Parameters
    ----------
    role : as job files have it.
    comment : what there is to know before it is changed.
    """

    attribute: Attribute
    role: str
    comment: str


def proposal(attribute: Attribute, role: Role | None) -> Proposal:
    """The role of a column; None for one of a table without rows, of which nothing can be said."""
    kind = attribute.sql_type or attribute.kind.value
    if role is None:
        return Proposal(attribute, _DROP, kind)
    also = f" or {role.also}" if role.also else ""
    proposed = role.role if role.role in _ROLES else _DROP
    return Proposal(attribute, proposed, f"{kind}{also}: {REASONS[role.reason]}")
