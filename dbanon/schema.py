"""Which column is what: roles, kinds and the schema of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """What a column is to a release.

    ``IDENTIFIER`` and columns without a role are never copied. ``INSENSITIVE`` columns are those
    that a caller asks to keep.
    """

    IDENTIFIER = "identifier"
    QUASI_IDENTIFIER = "quasi_identifier"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


class Kind(str, Enum):
    """The family of a column's type, as far as methods and recodings need to know it."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    CATEGORY = "category"
    OTHER = "other"

    @property
    def is_numeric(self) -> bool:
        """True when a value has a position on a line, so that means and distances exist."""
        return self in _NUMERIC


_NUMERIC = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its role and its type.

    Parameters
    ----------
    name : the column's name, as the database has it.
    kind : the family of its type.
    role : what it is to the release.
    sql_type : the type's name in its database; empty for a data frame.
    bits : width of an INTEGER (16, 32, 64) or FLOAT (32, 64).
    precision : digits in all, for DECIMAL; 0 when the type sets no limit.
    scale : digits after the point, for DECIMAL. For TIMESTAMP: digits of a second.
    zoned : True for a TIMESTAMP that is an instant, with time zone.
    nullable : False when the database guarantees that no value is NULL.
    """

    name: str
    kind: Kind
    role: Role = Role.INSENSITIVE
    sql_type: str = ""
    bits: int = 64
    precision: int = 0
    scale: int = 0
    zoned: bool = False
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """The attributes of a relation, in the relation's own order."""

    attributes: tuple[Attribute, ...]

    def with_role(self, role: Role) -> tuple[Attribute, ...]:
        """The attributes that have this role."""
        return tuple(attribute for attribute in self.attributes if attribute.role is role)

    @property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """The attributes that could re-identify a person together."""
        return self.with_role(Role.QUASI_IDENTIFIER)
