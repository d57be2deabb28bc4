"""Proposals of column roles, with reasons. The user decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbanon.advice.forms import CODE, FLAG, is_identifying
from dbanon.advice.names import (
    MAX_CODES,
    has_only_number_words,
    hint_from_name,
    is_about_something_else,
    load_word_lists,
    name_suggests_codes,
    names_design_weight,
    names_household,
    names_identifier,
    names_person_identifier,
    words_in_name,
)
from dbanon.advice.profile import ColumnProfile, Profile
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Kind
from dbanon.data.weights import WEIGHT_KINDS

IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE = "identifier", "quasi_identifier", "sensitive"
# A column that should not be released, one with at most one value, and one for the user to decide.
NOT_COPIED, CONSTANT, UNDECIDED = "not_copied", "constant", "undecided"
ROLES = (QUASI_IDENTIFIER, SENSITIVE, IDENTIFIER, NOT_COPIED, UNDECIDED, CONSTANT)

# Reasons for proposals, by code.
REASONS = {
    "given": "named in the call",
    "profile": "the profile does not allow it in a release",
    "not_named": "others were named as quasi-identifiers",
    "constant": "the same value in all rows that have one",
    "key": "the table declares that no two rows share it",
    "type": "its type is for identifiers or binary data, or is not supported in releases",
    "name": "its name says so",
    "form": "its values are written as identifiers are: e-mail, phone, IBAN, check digits, UUID",
    "all_different": "no two rows share a text",
    "long_text": "long texts may hold anything",
    "worded_text": "many different texts of several words may hold anything",
    "moment": "timestamp of when something was recorded",
    "known": "others can see or know it, and it may also be sensitive. You decide",
    "all_different_number": "no two rows share a number: is it an identifier or an amount?",
    "no_other": "no two rows share a number: is it an identifier or an amount? It is protected as"
    " an amount, since no other column is a quasi-identifier",
    "different_number": "a number that no two rows share: it is protected as an amount",
    "code": "a code: others may know what it stands for about a person. Its numbers have no order"
    " (kind nominal)",
    "design_weight": "how many persons a row of a survey stands for: a design weight (role weight),"
    " not a property of a person",
    "household": "it identifies households, whose members could find each other",
    "values": "others may know it about a person",
    "person_name": "its name suggests a person identifier, not a quasi-identifier",
    "person_values": "birth date or sex never varies within a value: a person identifier",
}

# Types of PostgreSQL and DuckDB for identifiers or binary data.
_IDENTIFYING_TYPES = frozenset({"uuid", "bytea", "blob"})

# A column has long texts if their mean length in characters is above this.
_MAX_MEAN_LENGTH = 40
# It has many different texts if distinct values are at least this share of its rows.
_MIN_MANY_SHARE = 0.3
# It has texts of several words if at least this share of them contains a space.
_MIN_MULTIWORD_SHARE = 0.5
# It has few values if their number is at most this,
_MAX_FEW_VALUES = 20
# or at most this share of the rows.
_MAX_FEW_SHARE = 0.05
# Smallest share of distinct values in a column that numbers rows or persons.
_MIN_DISTINCT_SHARE = 0.5
# Largest mean number of rows per value in a column whose name is that of an identifier.
_MAX_ROWS_PER_VALUE = 100
# The same limit for a column whose name has only words for numbers, such as ``record_no``.
_MAX_ROWS_PER_NUMBER = 20


@dataclass(frozen=True)
class RoleProposal:
    """A proposed role of a column.

    Parameters
    ----------
    role : one of ``ROLES``.
    reason : a code of ``REASONS``.
    alternative : an alternative role, if the user has to decide.
    """

    role: str
    reason: str
    alternative: str = ""

    def __str__(self) -> str:
        """Describe the proposal."""
        alternative = f", or {self.alternative}" if self.alternative else ""
        return f"{self.role}{alternative}: {REASONS[self.reason]}"


def propose_column_roles(
    profile: Profile, person_reasons: Mapping[str, str] | None = None
) -> dict[str, RoleProposal]:
    """Propose a role for each column, by name.

    Parameters
    ----------
    profile : the counts of the table.
    person_reasons : for each column that is a person identifier, the reason: a code of ``REASONS``,
        as from ``find_person_identifiers``. None if there are none.
    """
    roles = {column.name: _propose_role(column, profile.rows) for column in profile.columns}
    for name, reason in (person_reasons or {}).items():
        # The reason about persons says more than the reason "name" and replaces it. It replaces no
        # other reason for an identifier.
        if roles[name].role not in (IDENTIFIER, CONSTANT) or roles[name].reason == "name":
            roles[name] = RoleProposal(IDENTIFIER, reason)
    return roles


def _propose_role(column: ColumnProfile, rows: int) -> RoleProposal:
    """Propose a role for a column of a table with this number of rows."""
    words, word_lists = words_in_name(column.name), load_word_lists()
    has_few_values = column.n_distinct <= max(_MAX_FEW_VALUES, _MAX_FEW_SHARE * rows)
    if column.n_distinct <= 1:
        return RoleProposal(CONSTANT, "constant")
    if column.is_unique_key:
        return RoleProposal(IDENTIFIER, "key")
    reason = looks_like_identifier(column)
    # Types that releases do not support are ``OTHER``, as are UUIDs, which have the reason "type".
    if column.attribute.kind is Kind.OTHER and reason != "type":
        return RoleProposal(NOT_COPIED, "type")
    if reason:
        return RoleProposal(IDENTIFIER, reason)
    is_integer_or_text = column.attribute.kind in (Kind.INTEGER, Kind.CATEGORY)
    if names_household(column.name) and is_integer_or_text and column.n_distinct > _MAX_FEW_VALUES:
        return RoleProposal(IDENTIFIER, "household")
    if looks_like_design_weight(column):
        return RoleProposal(NOT_COPIED, "design_weight")
    if text_role := _propose_text_role(column):
        return text_role
    # By convention, names such as ``created_at`` are those of technical timestamps.
    if column.attribute.kind in (Kind.TIMESTAMP, Kind.DATE) and column.name.lower().endswith("_at"):
        return RoleProposal(NOT_COPIED, "moment")
    if words & word_lists["known"] or (words & word_lists["sensitive"] and not has_few_values):
        return RoleProposal(QUASI_IDENTIFIER, "known", alternative=SENSITIVE)
    if words & word_lists["sensitive"]:
        return RoleProposal(SENSITIVE, "name")
    if column.has_distinct_values:
        # Unique numbers and dates are not necessarily identifiers: amounts may differ in each row.
        is_integer = column.attribute.kind is Kind.INTEGER
        return (
            RoleProposal(UNDECIDED, "all_different_number")
            if is_integer
            else RoleProposal(QUASI_IDENTIFIER, "different_number")
        )
    return RoleProposal(QUASI_IDENTIFIER, "code" if is_code(column) else "values")


def find_design_weight(roles: Mapping[str, RoleProposal], profile: Profile) -> str | None:
    """Return the first column that is proposed as design weight; None if there is none.

    A release has only one. Each row needs a weight, so the column has neither NULL nor 0.
    """
    for column in profile.columns:
        is_complete = column.n_non_null == profile.rows
        if roles[column.name].reason == "design_weight" and is_complete and column.can_weight:
            return column.name
    return None


def looks_like_design_weight(column: ColumnProfile) -> bool:
    """True if a column has the name of a design weight, and holds numbers."""
    return names_design_weight(column.name) and column.attribute.kind in WEIGHT_KINDS


def describe_copied_weight(column: ColumnProfile) -> str:
    """Describe what a copy of a design weight would reveal; empty if rows share their weights."""
    if column.n_distinct < _MIN_DISTINCT_SHARE * column.n_non_null:
        return ""
    return "most rows have a weight of their own, so a copy would identify them"


def is_code(column: ColumnProfile) -> bool:
    """True if integers represent categories: few distinct values, and a word for a category."""
    has_few_values = column.n_distinct <= MAX_CODES and 2 * column.n_distinct <= column.n_non_null
    return (
        column.attribute.kind is Kind.INTEGER
        and has_few_values
        and name_suggests_codes(column.name)
    )


def looks_like_identifier(column: ColumnProfile) -> str:
    """Return the code of the reason why a column looks like an identifier, a name or an address.

    Empty if it does not look like one. The reason is the column's name or type, or the format of
    its values. The module ``persons`` recognizes further identifiers, by attributes that are
    constant within each of their values.
    """
    if column.attribute.sql_type.lower() in _IDENTIFYING_TYPES:
        return "type"
    if column.n_distinct <= 1:
        return ""
    if is_identifying(column.form):
        return "form"
    return "name" if _has_identifier_name(column) else ""


def find_identifiers(columns: Iterable[ColumnProfile]) -> dict[str, str]:
    """Find columns that look like identifiers; return a code of ``REASONS`` by column name."""
    reasons = {column.name: looks_like_identifier(column) for column in columns}
    return {name: reason for name, reason in reasons.items() if reason}


def _has_identifier_name(column: ColumnProfile) -> bool:
    """True if the name is that of an identifier, and the values do not contradict it."""
    name, kind = column.name, column.attribute.kind
    word_lists, words = load_word_lists(), words_in_name(name)
    is_unambiguous = names_person_identifier(name)
    # Amounts may have names such as "tax number" or "total account", but with decimals.
    is_integer_or_text = kind in (Kind.INTEGER, Kind.CATEGORY)
    if not is_integer_or_text:
        # Data frames convert integers to floats if a value is missing.
        return is_unambiguous and kind in (Kind.FLOAT, Kind.DECIMAL) and column.attribute.scale <= 0
    mostly_distinct = column.n_distinct >= _MIN_DISTINCT_SHARE * column.n_non_null
    if mostly_distinct and (words & word_lists["number"] or hint_from_name(name) == "person"):
        return True
    if names_identifier(name) and (mostly_distinct or column.n_distinct > _MAX_FEW_VALUES):
        return True
    if column.form == FLAG or is_about_something_else(name):
        return False
    if is_unambiguous:
        return True
    if names_identifier(name):
        return column.n_distinct * _MAX_ROWS_PER_VALUE >= column.n_non_null
    has_few_rows_per_value = column.n_distinct * _MAX_ROWS_PER_NUMBER >= column.n_non_null
    return has_few_rows_per_value and has_only_number_words(name) and column.form == CODE


def _propose_text_role(column: ColumnProfile) -> RoleProposal | None:
    """Propose a role for a text column by its values.

    None if the column is not text, or if its values do not suggest a role.
    """
    if column.attribute.kind is not Kind.CATEGORY or column.attribute.order:
        return None
    has_words = column.multiword_share >= _MIN_MULTIWORD_SHARE
    if column.mean_length > _MAX_MEAN_LENGTH:
        return RoleProposal(NOT_COPIED, "long_text")
    if column.has_distinct_values and not has_words:
        return RoleProposal(IDENTIFIER, "all_different")
    if column.n_distinct >= _MIN_MANY_SHARE * column.n_non_null and has_words:
        return RoleProposal(NOT_COPIED, "worded_text")
    return RoleProposal(IDENTIFIER, "all_different") if column.has_distinct_values else None
