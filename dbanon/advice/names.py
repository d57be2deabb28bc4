"""What a column's name says, by the words of one list.

``words.txt`` has the words, by list and language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

WORDS = Path(__file__).with_name("words.txt")

# Letters that have no mark to take off, as they are written without them.
_PLAIN = str.maketrans(
    {"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
     "đ": "d", "Đ": "D", "ı": "i", "þ": "th", "Þ": "Th"}
)  # fmt: skip
# Scripts that join words without a space: Hangul (decomposed), kana, Han.
_JOINING = "\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff"
_JOINED_WORD = re.compile(f"[{_JOINING}]+")
_SMALL, _CAPITAL = "a-zа-яёα-ω", "A-ZА-ЯЁΑ-Ω"
_BOUNDARY = re.compile(
    f"(?<=[{_SMALL}0-9])(?=[{_CAPITAL}])|(?<=[{_CAPITAL}])(?=[{_CAPITAL}][{_SMALL}])"
    f"|(?<=[A-Za-z0-9])(?=[{_JOINING}])|(?<=[{_JOINING}])(?=[A-Za-z0-9])"
)
# Characters of the longest word within a name of such a script.
_LONGEST = 16


# A column of codes has no more different values.
MOST_CODES = 50


@cache
def words() -> Mapping[str, frozenset[str]]:
    """The words that say something in a column's name, by list."""
    lists: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if heading := re.fullmatch(r"\[(\w+)\]", text):
            current = lists.setdefault(heading[1], set())
        elif text and not text.startswith("#"):
            current.update(map(_without_marks, text.partition(":")[2].split()))
    return {name: frozenset(listed) for name, listed in lists.items()}


def _without_marks(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def split_name(name: str) -> list[str]:
    """The words of a column's name in their order, in small letters without accents."""
    spaced = _BOUNDARY.sub(" ", _without_marks(name))
    return re.findall(r"[^\W_]+", spaced.lower())


def parts_of(name: str) -> frozenset[str]:
    """The words of a column's name, each alone, with its neighbour, and all in one."""
    parts = split_name(name)
    pairs = [first + second for first, second in pairwise(parts)]
    return frozenset([*parts, *pairs, "".join(parts), *_within(parts)])


def _within(parts: list[str]) -> list[str]:
    """The words that scripts without spaces may have within a word."""
    return [
        part[start:end]
        for part in parts
        if _JOINED_WORD.fullmatch(part)
        for start in range(len(part))
        for end in range(start + 2, min(start + _LONGEST, len(part)) + 1)
    ]


def name_says(name: str) -> str:
    """``person`` for a name of a number of persons, ``number`` for one of any number, or empty."""
    lists = words()
    parts = _without_digits(name)
    if "".join(parts) in lists["person_number"]:
        return "person"
    origins = [_origin(part) for part in parts]
    if origins and all(origins) and "person" in origins:
        return "person"
    return "number" if set(parts) & (_numbers() - _persons()) else ""


def numbers_persons(name: str) -> bool:
    """True where a name leaves no doubt that each value is a person's, however few there are.

    A word for persons alone may head a yes or no, and ``member_no`` numbers within a household.
    """
    parts = _without_digits(name)
    if "".join(parts) in words()["person_number"]:
        return True
    within = {*parts, *(half for part in parts for half in _halves(part))}
    numbered = bool(within & (words()["number"] | words()["joined"]))
    return name_says(name) == "person" and numbered and bool(within & words()["person"])


def names_identifier(name: str) -> bool:
    """True where a name has a word for a name, an address or a number of a person."""
    lists, parts = words(), parts_of(name)
    if parts & (lists["identifier"] | lists["person_number"]):
        return True
    split = _without_digits(name)
    if "".join(split) in lists["whole_name"]:
        return True
    things = [part for part in split if part not in _numbers()]
    numbered = len(things) < len(split)
    return numbered and ("".join(things) in lists["numbered"] or _are(things, "numbered"))


def says_identifier(name: str) -> bool:
    """True where a name alone says it, and nobody knows the values."""
    if is_about_something_else(name):
        return False
    return names_identifier(name) or numbers_persons(name)


def is_about_something_else(name: str) -> bool:
    """True where words beside an identifier's turn the name: ``hospital_name``, ``phone_type``."""
    lists = words()
    return bool(parts_of(name) & (lists["about"] | lists["sensitive"] | lists["known"]))


def names_code(name: str) -> bool:
    """True where a name has a word for a category, and none for an amount of something."""
    lists, parts = words(), parts_of(name)
    return bool(parts & lists["code_name"]) and not parts & lists["amount"]


def names_design_weight(name: str) -> bool:
    """True where a name has a word for the number of persons that a row of a survey stands for."""
    return bool(parts_of(name) & words()["design_weight"])


def names_household(name: str) -> bool:
    """True where a name is that of a number of households, families or dwellings."""
    lists, parts = words(), _without_digits(name)
    if parts_of(name) & lists["household_number"]:
        return True
    things = {*parts} - _numbers()
    return bool(things) and things < {*parts} and things <= lists["household"]


def is_number_alone(name: str) -> bool:
    """True where a name is made of nothing but words for numbers: ``id``, ``record_no``."""
    return _are(_without_digits(name), "number")


def _are(parts: list[str], name: str) -> bool:
    return bool(parts) and set(parts) <= words()[name]


def _without_digits(name: str) -> list[str]:
    return [part for part in split_name(name) if not part.isdigit()]


def _persons() -> frozenset[str]:
    lists = words()
    return lists["person"] | lists["person_or_place"] | lists["person_number"]


def _numbers() -> frozenset[str]:
    return words()["number"] | words()["joined"] | words()["coded"]


def _halves(part: str) -> list[str]:
    """The two words that may be written as one, at all places, where both are of the list."""
    listed = _persons() | _numbers()
    splits = [(part[:at], part[at:]) for at in range(2, len(part) - 1)]
    return [half for pair in splits if set(pair) <= listed for half in pair]


@cache
def _origin(part: str) -> str:
    """What a word of a name is of: ``person``, ``number`` or nothing; two may be written as one."""
    persons, numbers = _persons(), _numbers()
    halves = ({part[:at], part[at:]} for at in range(2, len(part) - 1))
    if part in persons or any(both & persons and both & numbers for both in halves):
        return "person"
    return "number" if part in numbers else ""
