"""Roles that columns may have, proposed with reasons. A person decides."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

from dbanon.advice.profile import Column, Profile
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Kind

WORDS = Path(__file__).with_name("words.txt")

IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE = "identifier", "quasi_identifier", "sensitive"
NOT_COPIED, CONSTANT, UNDECIDED = "not_copied", "constant", "undecided"
ROLES = (QUASI_IDENTIFIER, SENSITIVE, IDENTIFIER, NOT_COPIED, UNDECIDED, CONSTANT)

# Why a role is proposed, by code.
REASONS = {
    "given": "named in the call",
    "not_named": "others were named as quasi-identifiers",
    "constant": "the same value in all rows that have one",
    "key": "the table declares that no two rows share it",
    "type": "of a type that numbers things, or that no release has",
    "name": "its name says so",
    "all_different": "no two rows share a text",
    "long_text": "long texts may hold anything",
    "worded_text": "many different texts of several words may hold anything",
    "moment": "a moment that something was noted at",
    "known": "others can see or know it, and it may also be sensitive. You decide",
    "all_different_number": "no two rows share a number: identifier, or a number?",
    "different_number": "a number that no two rows share: it is protected as one",
    "values": "several values: others may know it of a person",
    "person_name": "its name says that it numbers persons: whose a row is, and no quasi-identifier",
    "person_values": "birth date or sex do not vary within its values: it numbers persons",
}

# Types of PostgreSQL and DuckDB whose values number things or are files.
_IDENTIFYING_TYPES = frozenset({"uuid", "bytea", "blob"})

_LONG_TEXT = 40
_MANY_TEXTS = 0.3
# Up to so many values, or so large a share, are few: of a sensitive column, or of a name's.
_FEW, _FEW_SHARE = 20, 0.05
# Of what is numbered, at least this share has a number of its own.
_NUMBERED = 0.5


@dataclass(frozen=True)
class Role:
    """A role that a column may have.

    Parameters
    ----------
    role : one of ``ROLES``.
    reason : its code, of ``REASONS``.
    also : a second role, where somebody has to decide.
    """

    role: str
    reason: str
    also: str = ""

    def __str__(self) -> str:
        """The proposal in words."""
        both = f", or {self.also}" if self.also else ""
        return f"{self.role}{both}: {REASONS[self.reason]}"


def words() -> Mapping[str, frozenset[str]]:
    """The words that say something in a column's name, by list."""
    return words_in(WORDS)


@cache
def words_in(file: Path) -> Mapping[str, frozenset[str]]:
    """The words of a file, by list."""
    found: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if heading := re.fullmatch(r"\[(\w+)\]", text):
            current = found.setdefault(heading[1], set())
        elif text and not text.startswith("#"):
            current.update(text.partition(":")[2].split())
    return {name: frozenset(listed) for name, listed in found.items()}


def split_name(name: str) -> list[str]:
    """The words of a column's name in their order, in small letters without accents."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    return re.findall(r"[^\W_]+", spaced.lower())


def parts_of(name: str) -> frozenset[str]:
    """The words of a column's name, each alone, with its neighbour, and all in one."""
    parts = split_name(name)
    pairs = [one + other for one, other in pairwise(parts)]
    return frozenset([*parts, *pairs, "".join(parts)])


def propose(profile: Profile, persons: Mapping[str, str] | None = None) -> dict[str, Role]:
    """The role that each column may have, by name.

    Parameters
    ----------
    persons : columns that number persons, with the reason why they are taken for that.
    """
    found = {column.name: _role(column, profile.rows) for column in profile.columns}
    for name, reason in (persons or {}).items():
        if found[name].role not in (IDENTIFIER, CONSTANT):
            found[name] = Role(IDENTIFIER, reason)
    return found


def _role(column: Column, rows: int) -> Role:
    parts, listed = parts_of(column.name), words()
    few = column.distinct <= max(_FEW, _FEW_SHARE * rows)
    if column.distinct <= 1:
        return Role(CONSTANT, "constant")
    if column.key:
        return Role(IDENTIFIER, "key")
    if column.attribute.sql_type.lower() in _IDENTIFYING_TYPES:
        return Role(IDENTIFIER, "type")
    if column.attribute.kind is Kind.OTHER:
        return Role(NOT_COPIED, "type")
    if _names_someone(column, parts):
        return Role(IDENTIFIER, "name")
    if found := _text(column):
        return found
    if column.attribute.kind in (Kind.TIMESTAMP, Kind.DATE) and column.name.lower().endswith("_at"):
        return Role(NOT_COPIED, "moment")
    if parts & listed["known"] or (parts & listed["sensitive"] and not few):
        return Role(QUASI_IDENTIFIER, "known", also=SENSITIVE)
    if parts & listed["sensitive"]:
        return Role(SENSITIVE, "name")
    if column.all_different:
        # Numbers and dates are no identifiers by that alone: an amount may differ in each row.
        whole = column.attribute.kind is Kind.INTEGER
        return (
            Role(UNDECIDED, "all_different_number")
            if whole
            else Role(QUASI_IDENTIFIER, "different_number")
        )
    return Role(QUASI_IDENTIFIER, "values")


def _names_someone(column: Column, parts: frozenset[str]) -> bool:
    """True for names, addresses and numbers of persons, by a column's name and how many it has."""
    listed, numbered = words(), column.distinct >= _NUMBERED * column.present
    # An amount has a name like "tax number" or "total account", too, and digits after the point.
    whole = column.attribute.kind in (Kind.INTEGER, Kind.CATEGORY)
    many = column.distinct > _FEW or numbered
    return whole and bool((parts & listed["identifier"] and many)
                          or (parts & listed["number"] and numbered))  # fmt: skip


def _text(column: Column) -> Role | None:
    """What texts may be that no name of a column tells; None for what is none of it."""
    if column.attribute.kind is not Kind.CATEGORY or column.attribute.order:
        return None
    if column.mean_length > _LONG_TEXT:
        return Role(NOT_COPIED, "long_text")
    if column.all_different and column.worded < 0.5:
        return Role(IDENTIFIER, "all_different")
    if column.distinct >= _MANY_TEXTS * column.present and column.worded >= 0.5:
        return Role(NOT_COPIED, "worded_text")
    return Role(IDENTIFIER, "all_different") if column.all_different else None
