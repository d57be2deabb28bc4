"""Numbers of persons: columns whose values each stand for one person, in one row or several.

k counts rows. Where a person has several, a class of k rows may be one person's. A number of
persons is told by its name, or by what does not vary within its values. Both are guesses: not every
such column is found, and one that is found may number something else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from dbanon.advice.names import name_says, numbers_persons, parts_of, words
from dbanon.advice.profile import Column
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# Why a column is taken for a number of persons, of ``roles.REASONS``.
BY_NAME, BY_VALUES = "person_name", "person_values"
# What does not vary within a person, by list of words.
BIRTH, SEX = "birth", "sex"

# Rows that are looked at first, those of them whose values are looked up, and rows to look in.
HEAD, PROBED, LOOKED_UP = 2_000, 500, 200_000
# More values than these, or one in two rows, are many: a code has fewer.
_FEW, _NUMBERED = 20, 0.5
# Fewer values than these are persons only where the name leaves no doubt; fewer than the second
# number, only where birth date or sex show it.
_SEVERAL, _NAMED = 5, 10
# Rows that a person has on average, at most, where no name says that it is one.
_ROWS_EACH = 20
# Of values in several rows: how many are needed, and which share has to be constant within. A share
# above the third number is expected of rows drawn by chance: it tells nothing. Nor do few values
# that are all constant by chance more often than the last number says.
_ENOUGH, _CONSTANT, _BY_CHANCE, _ALL_BY_CHANCE = 5, 0.95, 0.75, 1e-3
_VARIES = 0.5
# Letters of a text, and the share of texts of several words, up to which it may be a number.
_LETTERS, _WORDED = 40, 0.5

_KINDS = frozenset({Kind.INTEGER, Kind.CATEGORY, Kind.DECIMAL, Kind.FLOAT})


@dataclass(frozen=True)
class Within:
    """What of another column is constant within the values of one that several rows share.

    Parameters
    ----------
    what : ``BIRTH`` or ``SEX``.
    values : values that several rows share which have a value of the other column.
    constant : those within which the other column has one value.
    by_chance : how many would be constant, were rows drawn at random.
    """

    what: str
    values: int
    constant: int
    by_chance: float

    @property
    def holds(self) -> bool | None:
        """Whether it is constant within; None where that cannot be said."""
        if self.values < _ENOUGH or self.by_chance > _BY_CHANCE * self.values:
            return None
        if (self.by_chance / self.values) ** self.values > _ALL_BY_CHANCE:
            return None
        return self.constant >= _CONSTANT * self.values

    @property
    def varies(self) -> bool:
        """True when it is not constant within most of them, wrong entries or not."""
        return self.holds is False and self.constant < _VARIES * self.values


def constant_within(attributes: Iterable[Attribute]) -> dict[str, str]:
    """The columns that do not vary within a person, by their names: ``BIRTH`` or ``SEX``."""
    listed = words()
    found = {}
    for attribute in attributes:
        parts = parts_of(attribute.name)
        for what in (BIRTH, SEX):
            if parts & listed[what]:
                found[attribute.name] = what
                break
    return found


def suspects(attributes: Sequence[Attribute]) -> tuple[str, ...]:
    """The columns that are worth looking at: by type and name they may number persons.

    Where no column holds a birth date or a sex, a name has to say it; and without a name that says
    that it is a number, both have to be there.
    """
    constant = constant_within(attributes)
    kinds = set(constant.values())
    found = []
    for attribute in attributes:
        if not _numbers(attribute) or attribute.name in constant:
            continue
        said = name_says(attribute.name)
        if said == "person" or (said == "number" and kinds) or (not said and len(kinds) == 2):
            found.append(attribute.name)
    return tuple(found)


def _numbers(attribute: Attribute) -> bool:
    """True of a type that numbers may have: whole numbers, texts, what frames hold for NULL."""
    if attribute.kind is Kind.OTHER:
        return attribute.sql_type.lower() == "uuid"
    if attribute.kind in (Kind.DECIMAL, Kind.FLOAT):
        return attribute.scale <= 0 and name_says(attribute.name) == "person"
    return attribute.kind in _KINDS and not attribute.order


def many_values(column: Column) -> bool:
    """True of as many values as persons are: the first of two looks, at some of the rows.

    A column that the database says is different in all rows has a person a row, as k has it.
    """
    if column.key or not column.distinct or column.worded >= _WORDED:
        return False
    if column.mean_length > _LETTERS:
        return False
    if numbers_persons(column.name):
        # All rows that are looked at may be one person's.
        return True
    numbered = column.distinct >= _NUMBERED * column.present
    several = column.distinct >= _SEVERAL and column.distinct * _ROWS_EACH >= column.present
    if name_says(column.name) == "person":
        return column.distinct > _FEW or numbered or (several and column.distinct >= _NAMED)
    return several


def looks_like_person(name: str, within: Sequence[Within]) -> str:
    """Why a column of many values is taken for a number of persons; empty where it is not.

    By its name alone, unless birth date or sex vary within its values. By its values where its name
    says that it is some number, and one of both does not vary; or where its name says nothing, and
    both do not vary.
    """
    said = name_says(name)
    if said == "person":
        # A number of households or firms has a name like a person's, too.
        return "" if any(one.varies for one in within) else BY_NAME
    if any(one.holds is False for one in within):
        return ""
    held = {one.what for one in within if one.holds}
    wanted = 1 if said == "number" else 2
    return BY_VALUES if len(held) >= wanted else ""


def found_within(
    counts: Iterable[Sequence[int]], constant: Mapping[str, str], agree: Mapping[str, float]
) -> list[Within]:
    """What is constant within the values of a column, of their counts.

    Parameters
    ----------
    counts : of each value that several rows share: for each column of ``constant``, in its order,
        the rows with a value there, and how many different ones they have.
    agree : of each such column, the share of pairs of rows that have the same value.
    """
    rows = list(counts)
    found = []
    for place, (name, what) in enumerate(constant.items()):
        own = [(row[2 * place], row[2 * place + 1]) for row in rows if row[2 * place] > 1]
        found.append(
            Within(
                what,
                len(own),
                sum(different == 1 for _, different in own),
                sum(agree[name] ** (size - 1) for size, _ in own),
            )
        )
    return found


def numbers_found(
    attributes: Sequence[Attribute],
    counted: Iterable[Column],
    agree: Callable[[str], float],
    within: Callable[[Column], Iterable[Sequence[int]]],
) -> dict[str, str]:
    """The columns that look like numbers of persons, and why.

    The first rows are looked at, and of a column that may be one all rows of some of its values.

    Parameters
    ----------
    attributes : those that may be looked at within the values of others.
    counted : what counts tell of the first rows of the columns that are worth looking at.
    agree : the share of pairs of the first rows that have one value of a column.
    within : the counts of a column, as ``found_within`` takes them.
    """
    likely = [column for column in counted if many_values(column)]
    constant = constant_within(attributes) if likely else {}
    shares = {name: agree(name) for name in constant}
    found = {}
    for column in likely:
        probed = found_within(within(column), constant, shares) if constant else []
        if why := looks_like_person(column.name, probed):
            found[column.name] = why
    return found


def coarsest(found: Iterable[Column]) -> str | None:
    """Of several numbers of persons the one with the fewest values: a person has several cases.

    None where no two rows share a value of any: a row is a person then.
    """
    several = [column for column in found if 1 < column.distinct < column.present]
    return min(several, key=lambda column: column.distinct).name if several else None


def person_column(columns: Iterable[Column], identifiers: Container[str], rows: int) -> str | None:
    """The identifier by which a chain follows persons who have one row each; None if none is sure.

    A number or UUID that is different in all rows, or a text whose name says that it numbers
    persons. Names and addresses change, and would make another person.

    Parameters
    ----------
    identifiers : the columns that identify a person.
    rows : of the table.
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
