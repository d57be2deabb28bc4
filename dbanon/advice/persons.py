"""Detection of person identifiers: columns with one value per person, who may have several rows.

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

# Codes of ``roles.REASONS``: a column is a person identifier by its name, or by its values.
NAME_REASON, VALUES_REASON = "person_name", "person_values"
# Attributes that are constant for a person, by names of their word lists.
BIRTH, SEX = "birth", "sex"

# Candidates are selected by looking at this many rows, the first of the table.
HEAD_ROWS = 2_000
# For the test of a candidate, a sample of its values is taken from this many rows.
PROBED_ROWS = 500
# Further rows with the sampled values are then searched for in this many rows.
SEARCHED_ROWS = 200_000
# A column has many distinct values if their number is above this,
_MAX_FEW_VALUES = 20
# or at least this share of its rows.
_MIN_DISTINCT_SHARE = 0.5
# Fewest distinct values of a person identifier, unless its name is unambiguous.
_MIN_VALUES = 5
# Fewest distinct values of a person identifier whose name only suggests persons.
_MIN_VALUES_BY_NAME = 10
# Largest average number of rows per person, unless the name clearly is that of an identifier.
_MAX_ROWS_PER_PERSON = 20
# The constancy test uses values that occur in several rows; it needs at least this many of them.
_MIN_TESTED = 5
# Smallest share of values within which a constant attribute must not vary.
_MIN_CONSTANT_SHARE = 0.95
# The test is inconclusive if more than this share of values is expected to be constant by chance,
_MAX_CHANCE_SHARE = 0.75
# or if the probability that all of them are constant by chance is above this.
_MAX_CHANCE = 1e-3
# If an attribute is constant within fewer values than this share, it varies.
_MAX_CONSTANT_SHARE_IF_VARYING = 0.5
# Largest mean length of an identifier's texts, in characters.
_MAX_MEAN_LENGTH = 40
# Texts are no identifiers if at least this share of them has several words.
_MAX_MULTIWORD_SHARE = 0.5
# Kinds of columns that can be person identifiers.
_IDENTIFIER_KINDS = frozenset({Kind.INTEGER, Kind.CATEGORY, Kind.DECIMAL, Kind.FLOAT})


@dataclass(frozen=True)
class ConstancyWithinPerson:
    """How often an attribute is constant within the values of a candidate identifier.

    Parameters
    ----------
    attribute : ``BIRTH`` or ``SEX``.
    n_values : number of the candidate's values that have several rows in which the attribute is not
        NULL.
    n_constant : number of these values within which the attribute has only one value.
    n_by_chance : expected number of these values with a constant attribute, if rows were assigned
        to values at random.
    """

    attribute: str
    n_values: int
    n_constant: int
    n_by_chance: float

    @property
    def is_constant(self) -> bool | None:
        """True if the attribute is constant; None if the counts are inconclusive."""
        if self.n_values < _MIN_TESTED or self.n_by_chance > _MAX_CHANCE_SHARE * self.n_values:
            return None
        if (self.n_by_chance / self.n_values) ** self.n_values > _MAX_CHANCE:
            return None
        return self.n_constant >= _MIN_CONSTANT_SHARE * self.n_values

    @property
    def varies(self) -> bool:
        """True if the attribute varies within most values, more than data errors would explain."""
        return (
            self.is_constant is False
            and self.n_constant < _MAX_CONSTANT_SHARE_IF_VARYING * self.n_values
        )


def find_constant_attributes(attributes: Iterable[Attribute]) -> dict[str, str]:
    """Find columns whose names suggest a constant attribute of persons.

    Returns ``BIRTH`` or ``SEX`` by the name of the column.
    """
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

    A column of a suitable type whose name suggests a person is always a candidate. If the name
    suggests a number, the table must have a birth date or a sex column, by which the values are
    tested later. For any other name, it must have both.
    """
    constant_columns = find_constant_attributes(attributes)
    available_attributes = set(constant_columns.values())
    candidates = []
    for attribute in attributes:
        if not _has_identifier_type(attribute) or attribute.name in constant_columns:
            continue
        name_hint = hint_from_name(attribute.name)
        if (
            name_hint == "person"
            or (name_hint == "number" and available_attributes)
            or (not name_hint and available_attributes == {BIRTH, SEX})
        ):
            candidates.append(attribute.name)
    return tuple(candidates)


def _has_identifier_type(attribute: Attribute) -> bool:
    """True for types that identifiers may have.

    These are UUIDs, integers and unordered texts. If the name suggests a person, floats and
    decimals without fraction also count, since data frames convert integers with NULLs to floats.
    """
    if attribute.kind is Kind.OTHER:
        return attribute.sql_type.lower() == "uuid"
    if attribute.kind in (Kind.DECIMAL, Kind.FLOAT):
        return attribute.scale <= 0 and hint_from_name(attribute.name) == "person"
    return attribute.kind in _IDENTIFIER_KINDS and not attribute.order


def has_many_values(column: ColumnProfile) -> bool:
    """True if a column has enough distinct values in the first rows for a person identifier.

    Always False for a column that the database declares unique: if it identifies persons, each has
    one row, so counting rows already counts persons.

    Parameters
    ----------
    column : the profile of the first rows.
    """
    if (
        column.is_unique_key
        or not column.n_distinct
        or column.multiword_share >= _MAX_MULTIWORD_SHARE
    ):
        return False
    if column.mean_length > _MAX_MEAN_LENGTH:
        return False
    if names_person_identifier(column.name):
        # All examined rows may belong to one person.
        return True
    mostly_distinct = column.n_distinct >= _MIN_DISTINCT_SHARE * column.n_non_null
    few_rows_per_value = column.n_distinct * _MAX_ROWS_PER_PERSON >= column.n_non_null
    if hint_from_name(column.name) == "person":
        return (
            column.n_distinct > _MAX_FEW_VALUES
            or mostly_distinct
            or (few_rows_per_value and column.n_distinct >= _MIN_VALUES_BY_NAME)
        )
    return few_rows_per_value and column.n_distinct >= _MIN_VALUES


def person_identifier_reason(name: str, findings: Sequence[ConstancyWithinPerson]) -> str:
    """Return the reason why a column is a person identifier; empty if it is none.

    If the name suggests a person, it is sufficient that birth date and sex do not vary within most
    of the column's values. If the name suggests a number, one of the two must be constant; for any
    other name, both.

    Parameters
    ----------
    name : the name of a column for which ``has_many_values`` is True.
    findings : how often birth date and sex are constant within its values.
    """
    name_hint = hint_from_name(name)
    if name_hint == "person":
        # Identifiers of households or firms may have names like those of persons.
        return "" if any(finding.varies for finding in findings) else NAME_REASON
    if any(finding.is_constant is False for finding in findings):
        return ""
    # Birth date and sex; ``is_constant`` is None if the rows do not suffice to tell.
    constant_attributes = {finding.attribute for finding in findings if finding.is_constant}
    n_needed = 1 if name_hint == "number" else 2
    return VALUES_REASON if len(constant_attributes) >= n_needed else ""


def measure_constancy(
    counts: Iterable[Sequence[int]],
    constant_columns: Mapping[str, str],
    equal_shares: Mapping[str, float],
) -> list[ConstancyWithinPerson]:
    """Measure how often attributes are constant within the values of a candidate column.

    Parameters
    ----------
    counts : a sequence for each of the candidate's values that occurs in several rows. It has two
        numbers per column of ``constant_columns``, in order: among the rows with the candidate's
        value, how many are not NULL in the column, and how many distinct values they have.
    constant_columns : ``BIRTH`` or ``SEX`` by column, as from ``find_constant_attributes``.
    equal_shares : for each of these columns, the share of pairs of rows with equal values.
    """
    rows = list(counts)
    results = []
    for index, (name, attribute) in enumerate(constant_columns.items()):
        pairs = [(row[2 * index], row[2 * index + 1]) for row in rows]
        value_counts = [(n_rows, n_distinct) for n_rows, n_distinct in pairs if n_rows > 1]
        # By chance, each further row of a value equals its first with the probability that two
        # random rows are equal.
        results.append(
            ConstancyWithinPerson(
                attribute,
                n_values=len(value_counts),
                n_constant=sum(n_distinct == 1 for _, n_distinct in value_counts),
                n_by_chance=sum(equal_shares[name] ** (n_rows - 1) for n_rows, _ in value_counts),
            )
        )
    return results


def find_person_identifiers(
    attributes: Sequence[Attribute],
    candidates: Iterable[ColumnProfile],
    measure_equal_share: Callable[[str], float],
    count_within_values: Callable[[ColumnProfile], Iterable[Sequence[int]]],
) -> dict[str, str]:
    """Find columns that look like person identifiers; return the reason by column.

    Candidates are selected by their distinct values in the first rows, and then tested on all rows
    that hold a sample of these values.

    Parameters
    ----------
    attributes : the columns of the table, which are searched for birth date and sex.
    candidates : profiles of candidate columns on the first rows.
    measure_equal_share : a function that returns, for a column, the share of pairs of rows that
        have equal values in it, among the first rows.
    count_within_values : a function that returns the argument ``counts`` of ``measure_constancy``
        for a candidate.
    """
    likely_columns = [column for column in candidates if has_many_values(column)]
    constant_columns = find_constant_attributes(attributes) if likely_columns else {}
    equal_shares = {name: measure_equal_share(name) for name in constant_columns}
    reasons = {}
    for column in likely_columns:
        findings = []
        if constant_columns:
            counts = count_within_values(column)
            findings = measure_constancy(counts, constant_columns, equal_shares)
        if reason := person_identifier_reason(column.name, findings):
            reasons[column.name] = reason
    return reasons


def coarsest_identifier(columns: Iterable[ColumnProfile]) -> str | None:
    """Return the person identifier with the fewest distinct values.

    A column with more values may identify visits or orders instead of persons. None if all columns
    are constant or have unique values.

    Parameters
    ----------
    columns : the profiles of the person identifiers.
    """
    repeating_columns = [column for column in columns if 1 < column.n_distinct < column.n_non_null]
    if not repeating_columns:
        return None
    return min(repeating_columns, key=lambda column: column.n_distinct).name


def person_column(
    columns: Iterable[ColumnProfile], identifiers: Container[str], rows: int
) -> str | None:
    """Return the column that identifies persons across releases, if each person has one row.

    It is a unique integer or UUID, or any unique column whose name is clearly that of a person
    identifier. Names and addresses are unsuitable: if one changes, the person would seem to be a
    new one. None if there is no such column.

    Parameters
    ----------
    columns : the profiles of all columns of the table.
    identifiers : names of columns that identify a person.
    rows : number of rows of the table.
    """
    unique_identifiers: list[str] = []
    for column in columns:
        if column.name not in identifiers or not column.n_distinct == column.n_non_null == rows > 1:
            continue
        attribute = column.attribute
        if names_person_identifier(column.name):
            return column.name
        if attribute.kind is Kind.INTEGER or attribute.sql_type.lower() == "uuid":
            unique_identifiers.append(column.name)
    return unique_identifiers[0] if unique_identifiers else None
