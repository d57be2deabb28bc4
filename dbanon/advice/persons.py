"""Detection of person identifiers: columns with one value per person, in one row or several.

k counts rows. If persons have several rows, all k rows of a class may belong to one person. A
person identifier is recognized by its name, or by columns that are constant within its values. Both
are heuristics: they may miss such a column, or report one that identifies something else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from dbanon.advice.names import name_says, numbers_persons, parts_of, words
from dbanon.advice.profile import ColumnProfile
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# Reasons to take a column for a person identifier, codes of ``roles.REASONS``.
BY_NAME, BY_VALUES = "person_name", "person_values"
# Attributes that are constant for a person, by word list.
BIRTH, SEX = "birth", "sex"

# Number of first rows to examine, of rows whose values are looked up, and of rows to search.
HEAD, PROBED, LOOKED_UP = 2_000, 500, 200_000
# A column has many values if it has more than this number, or one per two rows; codes have fewer.
_FEW, _NUMBERED = 20, 0.5
# With fewer values than the first number, only an unambiguous name makes a person identifier; with
# fewer than the second, only constant birth date or sex.
_SEVERAL, _NAMED = 5, 10
# Largest average number of rows per person, if the name does not name a person.
_ROWS_EACH = 20
# For values in several rows: the smallest number of values; the share that must be constant; the
# share expected by chance above which the test says nothing; and the largest probability that all
# of them are constant by chance.
_ENOUGH, _CONSTANT, _BY_CHANCE, _ALL_BY_CHANCE = 5, 0.95, 0.75, 1e-3
_VARIES = 0.5
# Largest mean length of texts, and largest share of texts with several words, of an identifier.
_LETTERS, _WORDED = 40, 0.5

_KINDS = frozenset({Kind.INTEGER, Kind.CATEGORY, Kind.DECIMAL, Kind.FLOAT})


@dataclass(frozen=True)
class ConstancyWithinPerson:
    """How often an attribute is constant within the values of a candidate identifier.

    Parameters
    ----------
    attribute : ``BIRTH`` or ``SEX``.
    values : number of candidate values in several rows with the attribute.
    constant : number of these within which the attribute has one value.
    by_chance : number expected to be constant for randomly drawn rows.
    """

    attribute: str
    values: int
    constant: int
    by_chance: float

    @property
    def holds(self) -> bool | None:
        """Whether the attribute is constant; None if the counts do not decide it."""
        if self.values < _ENOUGH or self.by_chance > _BY_CHANCE * self.values:
            return None
        if (self.by_chance / self.values) ** self.values > _ALL_BY_CHANCE:
            return None
        return self.constant >= _CONSTANT * self.values

    @property
    def varies(self) -> bool:
        """True if it varies within most values, more than data errors would explain."""
        return self.holds is False and self.constant < _VARIES * self.values


def constant_within(attributes: Iterable[Attribute]) -> dict[str, str]:
    """Columns whose names suggest a constant attribute of persons: ``BIRTH`` or ``SEX``."""
    listed = words()
    columns = {}
    for attribute in attributes:
        parts = parts_of(attribute.name)
        for constant_attribute in (BIRTH, SEX):
            if parts & listed[constant_attribute]:
                columns[attribute.name] = constant_attribute
                break
    return columns


def candidate_identifiers(attributes: Sequence[Attribute]) -> tuple[str, ...]:
    """Candidates for person identifiers, by type and name.

    If no column has birth dates or sexes, the name must name a person. If the name names no number,
    columns of both are needed.
    """
    constant = constant_within(attributes)
    kinds = set(constant.values())
    candidates = []
    for attribute in attributes:
        if not _numbers(attribute) or attribute.name in constant:
            continue
        name_hint = name_says(attribute.name)
        if (
            name_hint == "person"
            or (name_hint == "number" and kinds)
            or (not name_hint and len(kinds) == 2)
        ):
            candidates.append(attribute.name)
    return tuple(candidates)


def _numbers(attribute: Attribute) -> bool:
    """True for types of identifiers: integers, texts, and floats that frames use for NULL."""
    if attribute.kind is Kind.OTHER:
        return attribute.sql_type.lower() == "uuid"
    if attribute.kind in (Kind.DECIMAL, Kind.FLOAT):
        return attribute.scale <= 0 and name_says(attribute.name) == "person"
    return attribute.kind in _KINDS and not attribute.order


def many_values(column: ColumnProfile) -> bool:
    """True if the first rows have enough values for a person identifier; the first of two tests.

    A column that the database declares unique has one row per person, so k already counts persons.
    """
    if column.key or not column.distinct or column.worded >= _WORDED:
        return False
    if column.mean_length > _LETTERS:
        return False
    if numbers_persons(column.name):
        # All examined rows may belong to one person.
        return True
    numbered = column.distinct >= _NUMBERED * column.present
    several = column.distinct >= _SEVERAL and column.distinct * _ROWS_EACH >= column.present
    if name_says(column.name) == "person":
        return column.distinct > _FEW or numbered or (several and column.distinct >= _NAMED)
    return several


def looks_like_person(name: str, findings: Sequence[ConstancyWithinPerson]) -> str:
    """The reason to take a column of many values for a person identifier; empty if it is none.

    The name suffices, unless birth date or sex vary within a value. Otherwise the values decide: if
    the name suggests a number, one of both must be constant, else both.
    """
    name_hint = name_says(name)
    if name_hint == "person":
        # Identifiers of households or firms may have names like those of persons.
        return "" if any(finding.varies for finding in findings) else BY_NAME
    if any(finding.holds is False for finding in findings):
        return ""
    constant_attributes = {finding.attribute for finding in findings if finding.holds}
    n_needed = 1 if name_hint == "number" else 2
    return BY_VALUES if len(constant_attributes) >= n_needed else ""


def constancy_within(
    counts: Iterable[Sequence[int]], constant: Mapping[str, str], agree: Mapping[str, float]
) -> list[ConstancyWithinPerson]:
    """Evaluate counts of attributes within the values of a candidate column.

    Parameters
    ----------
    counts : per candidate value in several rows: for each column of ``constant``, in order, the
        number of rows with a value there, and the number of different values.
    agree : for each such column, the share of pairs of rows with equal values.
    """
    rows = list(counts)
    results = []
    for index, (name, attribute) in enumerate(constant.items()):
        value_counts = [(row[2 * index], row[2 * index + 1]) for row in rows if row[2 * index] > 1]
        results.append(
            ConstancyWithinPerson(
                attribute,
                len(value_counts),
                sum(different == 1 for _, different in value_counts),
                sum(agree[name] ** (size - 1) for size, _ in value_counts),
            )
        )
    return results


def find_person_identifiers(
    attributes: Sequence[Attribute],
    counted: Iterable[ColumnProfile],
    agree: Callable[[str], float],
    counts_within: Callable[[ColumnProfile], Iterable[Sequence[int]]],
) -> dict[str, str]:
    """Find columns that look like person identifiers, with reasons.

    Candidates are selected on the first rows, and then tested on all rows of some of their values.

    Parameters
    ----------
    attributes : columns that may be constant within a person.
    counted : profiles of candidate columns on the first rows.
    agree : returns the share of pairs of first rows with equal values in a column.
    counts_within : returns the counts of a column for ``constancy_within``.
    """
    likely = [column for column in counted if many_values(column)]
    constant = constant_within(attributes) if likely else {}
    shares = {name: agree(name) for name in constant}
    reasons = {}
    for column in likely:
        evidence = constancy_within(counts_within(column), constant, shares) if constant else []
        if why := looks_like_person(column.name, evidence):
            reasons[column.name] = why
    return reasons


def coarsest(columns: Iterable[ColumnProfile]) -> str | None:
    """The person identifier with the fewest values, since a person may have several cases.

    None if all values are unique: each row is then a person.
    """
    several = [column for column in columns if 1 < column.distinct < column.present]
    return min(several, key=lambda column: column.distinct).name if several else None


def person_column(
    columns: Iterable[ColumnProfile], identifiers: Container[str], rows: int
) -> str | None:
    """The identifier by which a chain can follow persons with one row each; None if uncertain.

    It is a unique number or UUID, or a unique text whose name names person identifiers. Names and
    addresses are unsuitable: they change, and the person would appear to be another one.

    Parameters
    ----------
    identifiers : columns that identify a person.
    rows : number of rows of the table.
    """
    sure: list[str] = []
    for column in columns:
        if column.name not in identifiers or not column.distinct == column.present == rows > 1:
            continue
        attribute = column.attribute
        if numbers_persons(column.name):
            return column.name
        if attribute.kind is Kind.INTEGER or attribute.sql_type.lower() == "uuid":
            sure.append(column.name)
    return sure[0] if sure else None
