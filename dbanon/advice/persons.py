"""Detection of person identifiers: columns with one value per person, in one row or several.

By default k counts rows. If persons have several rows, all k rows of a class may belong to one
person. A person identifier is recognized by its name, or because birth date or sex do not vary
within its values. Both are heuristics: they may miss such a column, or report one that identifies
something else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from dbanon.advice.names import (
    hint_from_name,
    load_word_lists,
    names_person_identifier,
    words_in_name,
)
from dbanon.advice.profile import ColumnProfile
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# Codes of ``roles.REASONS``: a person identifier by its name, or by its values.
NAME_REASON, VALUES_REASON = "person_name", "person_values"
# Attributes that are constant for a person, by names of their word lists.
BIRTH, SEX = "birth", "sex"

# The number of first rows to examine for candidates; of rows from which to take some of a
# candidate's values; and of rows in which to search for these values.
HEAD_ROWS, PROBED_ROWS, SEARCHED_ROWS = 2_000, 500, 200_000
# A column has many values if it has more than this number, or at least this share of its rows.
_MAX_FEW_VALUES, _MIN_DISTINCT_SHARE = 20, 0.5
# With fewer values than the first number, only an unambiguous name makes a person identifier; with
# fewer than the second, only constant birth date or sex.
_MIN_VALUES, _MIN_VALUES_BY_NAME = 5, 10
# Largest average number of rows per person, unless the name clearly is that of an identifier.
_MAX_ROWS_PER_PERSON = 20
# For values in several rows: the smallest number of values to decide by; the share that must be
# constant; the share that may be constant by chance; and the largest probability that all are
# constant by chance. Above the latter two the test is inconclusive.
_MIN_TESTED, _MIN_CONSTANT_SHARE, _MAX_CHANCE_SHARE, _MAX_CHANCE = 5, 0.95, 0.75, 1e-3
# Below this share of constant values, an attribute varies.
_MAX_VARYING_SHARE = 0.5
# Largest mean length of texts, and largest share of texts with several words, of an identifier.
_MAX_MEAN_LENGTH, _MAX_MULTIWORD_SHARE = 40, 0.5

_KINDS = frozenset({Kind.INTEGER, Kind.CATEGORY, Kind.DECIMAL, Kind.FLOAT})


@dataclass(frozen=True)
class ConstancyWithinPerson:
    """How often an attribute is constant within the values of a candidate identifier.

    Parameters
    ----------
    attribute : ``BIRTH`` or ``SEX``.
    values : number of the candidate's values with several rows in which the attribute is not NULL.
    constant : number of these within which the attribute has only one value.
    by_chance : number expected to be constant if rows were assigned to values at random.
    """

    attribute: str
    values: int
    constant: int
    by_chance: float

    @property
    def is_constant(self) -> bool | None:
        """True if the attribute is constant; None if the counts are inconclusive."""
        if self.values < _MIN_TESTED or self.by_chance > _MAX_CHANCE_SHARE * self.values:
            return None
        if (self.by_chance / self.values) ** self.values > _MAX_CHANCE:
            return None
        return self.constant >= _MIN_CONSTANT_SHARE * self.values

    @property
    def varies(self) -> bool:
        """True if the attribute varies within most values, more than data errors would explain."""
        return self.is_constant is False and self.constant < _MAX_VARYING_SHARE * self.values


def find_constant_attributes(attributes: Iterable[Attribute]) -> dict[str, str]:
    """Find columns whose names suggest a constant attribute of persons, ``BIRTH`` or ``SEX``."""
    word_lists = load_word_lists()
    columns = {}
    for attribute in attributes:
        words = words_in_name(attribute.name)
        for constant_attribute in (BIRTH, SEX):
            if words & word_lists[constant_attribute]:
                columns[attribute.name] = constant_attribute
                break
    return columns


def candidate_identifiers(attributes: Sequence[Attribute]) -> tuple[str, ...]:
    """Select candidates for person identifiers by type and name.

    A name that suggests a person suffices. One that suggests a number needs a column of birth dates
    or sexes to test its values with, and any other name needs both.
    """
    constant = find_constant_attributes(attributes)
    kinds = set(constant.values())
    candidates = []
    for attribute in attributes:
        if not _has_identifier_type(attribute) or attribute.name in constant:
            continue
        name_hint = hint_from_name(attribute.name)
        if (
            name_hint == "person"
            or (name_hint == "number" and kinds)
            or (not name_hint and len(kinds) == 2)
        ):
            candidates.append(attribute.name)
    return tuple(candidates)


def _has_identifier_type(attribute: Attribute) -> bool:
    """True for types that identifiers may have.

    These are UUIDs, integers and texts, and for person identifiers by name also numbers without
    decimals: frames convert integers to floats if one is missing.
    """
    if attribute.kind is Kind.OTHER:
        return attribute.sql_type.lower() == "uuid"
    if attribute.kind in (Kind.DECIMAL, Kind.FLOAT):
        return attribute.scale <= 0 and hint_from_name(attribute.name) == "person"
    return attribute.kind in _KINDS and not attribute.order


def has_many_values(column: ColumnProfile) -> bool:
    """True if the first rows have enough distinct values for a person identifier.

    False if the database declares the column unique: each person then has one row, so k counts
    persons anyway.

    Parameters
    ----------
    column : the profile of the first rows.
    """
    if column.key or not column.distinct or column.multiword_share >= _MAX_MULTIWORD_SHARE:
        return False
    if column.mean_length > _MAX_MEAN_LENGTH:
        return False
    if names_person_identifier(column.name):
        # All examined rows may belong to one person.
        return True
    mostly_distinct = column.distinct >= _MIN_DISTINCT_SHARE * column.present
    few_rows_per_value = column.distinct * _MAX_ROWS_PER_PERSON >= column.present
    if hint_from_name(column.name) == "person":
        return (
            column.distinct > _MAX_FEW_VALUES
            or mostly_distinct
            or (few_rows_per_value and column.distinct >= _MIN_VALUES_BY_NAME)
        )
    return few_rows_per_value and column.distinct >= _MIN_VALUES


def looks_like_person(name: str, findings: Sequence[ConstancyWithinPerson]) -> str:
    """The reason why a column of many values is a person identifier; empty if it is none.

    A name that suggests a person suffices, unless birth date or sex vary within values. Otherwise
    the values decide: birth date or sex must be constant if the name suggests a number, else both.
    """
    name_hint = hint_from_name(name)
    if name_hint == "person":
        # Identifiers of households or firms may have names like those of persons.
        return "" if any(finding.varies for finding in findings) else NAME_REASON
    if any(finding.is_constant is False for finding in findings):
        return ""
    constant_attributes = {finding.attribute for finding in findings if finding.is_constant}
    n_needed = 1 if name_hint == "number" else 2
    return VALUES_REASON if len(constant_attributes) >= n_needed else ""


def measure_constancy(
    counts: Iterable[Sequence[int]], constant: Mapping[str, str], agree: Mapping[str, float]
) -> list[ConstancyWithinPerson]:
    """Measure how often attributes are constant within the values of a candidate column.

    Parameters
    ----------
    counts : for each of the candidate's values with several rows: two numbers per column of
        ``constant``, in order: its rows that are not NULL, and its distinct values.
    constant : attributes by column, as from ``find_constant_attributes``.
    agree : for each such column, the share of pairs of rows with equal values.
    """
    rows = list(counts)
    results = []
    for index, (name, attribute) in enumerate(constant.items()):
        pairs = [(row[2 * index], row[2 * index + 1]) for row in rows]
        value_counts = [(n_rows, n_distinct) for n_rows, n_distinct in pairs if n_rows > 1]
        results.append(
            ConstancyWithinPerson(
                attribute,
                values=len(value_counts),
                constant=sum(n_distinct == 1 for _, n_distinct in value_counts),
                by_chance=sum(agree[name] ** (n_rows - 1) for n_rows, _ in value_counts),
            )
        )
    return results


def find_person_identifiers(
    attributes: Sequence[Attribute],
    candidates: Iterable[ColumnProfile],
    agree: Callable[[str], float],
    counts_within: Callable[[ColumnProfile], Iterable[Sequence[int]]],
) -> dict[str, str]:
    """Find columns that look like person identifiers, with reasons.

    Candidates are selected by the first rows, and then tested on more rows with some of their
    values.

    Parameters
    ----------
    attributes : columns that may be constant for a person.
    candidates : profiles of candidate columns on the first rows.
    agree : returns the share of pairs of first rows with equal values in a column.
    counts_within : returns the counts of a column for ``measure_constancy``.
    """
    likely = [column for column in candidates if has_many_values(column)]
    constant = find_constant_attributes(attributes) if likely else {}
    shares = {name: agree(name) for name in constant}
    reasons = {}
    for column in likely:
        findings = measure_constancy(counts_within(column), constant, shares) if constant else []
        if reason := looks_like_person(column.name, findings):
            reasons[column.name] = reason
    return reasons


def coarsest_identifier(columns: Iterable[ColumnProfile]) -> str | None:
    """The identifier with the fewest values, since one with more may identify cases of persons.

    None if all columns are constant or have unique values, in which case each row is a person.
    """
    with_repeated_values = [column for column in columns if 1 < column.distinct < column.present]
    if not with_repeated_values:
        return None
    return min(with_repeated_values, key=lambda column: column.distinct).name


def person_column(
    columns: Iterable[ColumnProfile], identifiers: Container[str], rows: int
) -> str | None:
    """The identifier by which a chain can follow persons with one row each; None if uncertain.

    It is a unique number or UUID, or a unique text whose name is that of a person identifier. Names
    and addresses are unsuitable: if they change, a person would appear to be a new one.

    Parameters
    ----------
    identifiers : columns that identify a person.
    rows : number of rows of the table.
    """
    unique_identifiers: list[str] = []
    for column in columns:
        if column.name not in identifiers or not column.distinct == column.present == rows > 1:
            continue
        attribute = column.attribute
        if names_person_identifier(column.name):
            return column.name
        if attribute.kind is Kind.INTEGER or attribute.sql_type.lower() == "uuid":
            unique_identifiers.append(column.name)
    return unique_identifiers[0] if unique_identifiers else None
