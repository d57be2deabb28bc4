"""Hints from the names of columns, by lists of words.

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

# Transliterations of letters that Unicode does not decompose.
_PLAIN = str.maketrans(
    {"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
     "đ": "d", "Đ": "D", "ı": "i", "þ": "th", "Þ": "Th"}
)  # fmt: skip
# Scripts without spaces between words: Hangul (decomposed), kana, Han.
_JOINING = "\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff"
_JOINED_WORD = re.compile(f"[{_JOINING}]+")
_SMALL, _CAPITAL = "a-zа-яёα-ω", "A-ZА-ЯЁΑ-Ω"
_BOUNDARY = re.compile(
    f"(?<=[{_SMALL}0-9])(?=[{_CAPITAL}])|(?<=[{_CAPITAL}])(?=[{_CAPITAL}][{_SMALL}])"
    f"|(?<=[A-Za-z0-9])(?=[{_JOINING}])|(?<=[{_JOINING}])(?=[A-Za-z0-9])"
)
# Longest word to search for in names of such a script, in characters.
_LONGEST = 16


# Largest number of distinct values in a column of codes.
MOST_CODES = 50


@cache
def words() -> Mapping[str, frozenset[str]]:
    """The words with a meaning in names of columns, by list."""
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
    """The words of a column's name in order, in lower case without accents."""
    spaced = _BOUNDARY.sub(" ", _without_marks(name))
    return re.findall(r"[^\W_]+", spaced.lower())


def parts_of(name: str) -> frozenset[str]:
    """The words of a column's name: single words, joined neighbours, and all words joined."""
    parts = split_name(name)
    pairs = [first + second for first, second in pairwise(parts)]
    return frozenset([*parts, *pairs, "".join(parts), *_subwords(parts)])


def _subwords(parts: list[str]) -> list[str]:
    """Possible words within names in scripts without spaces."""
    return [
        part[start:end]
        for part in parts
        if _JOINED_WORD.fullmatch(part)
        for start in range(len(part))
        for end in range(start + 2, min(start + _LONGEST, len(part)) + 1)
    ]


def name_says(name: str) -> str:
    """``person`` if a name is of person identifiers, ``number`` for other numbers, else empty."""
    lists = words()
    parts = _without_digits(name)
    if "".join(parts) in lists["person_number"]:
        return "person"
    origins = [_origin(part) for part in parts]
    if origins and all(origins) and "person" in origins:
        return "person"
    return "number" if set(parts) & (_numbers() - _persons()) else ""


def numbers_persons(name: str) -> bool:
    """True if a name clearly is that of person identifiers, however few values there are.

    A word for persons may also name a yes/no column, and ``member_no`` may count members
    of a household.
    """
    parts = _without_digits(name)
    if "".join(parts) in words()["person_number"]:
        return True
    parts_and_halves = {*parts, *(half for part in parts for half in _halves(part))}
    numbered = bool(parts_and_halves & (words()["number"] | words()["joined"]))
    return name_says(name) == "person" and numbered and bool(parts_and_halves & words()["person"])


def names_identifier(name: str) -> bool:
    """True if a name has a word for a name, an address or an identifier of a person."""
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
    """True if a name indicates an identifier and the values are unknown."""
    if is_about_something_else(name):
        return False
    return names_identifier(name) or numbers_persons(name)


def is_about_something_else(name: str) -> bool:
    """True if other words change an identifier's meaning: ``hospital_name``, ``phone_type``."""
    lists = words()
    return bool(parts_of(name) & (lists["about"] | lists["sensitive"] | lists["known"]))


def names_code(name: str) -> bool:
    """True if a name has a word for a category, and none for an amount."""
    lists, parts = words(), parts_of(name)
    return bool(parts & lists["code_name"]) and not parts & lists["amount"]


def names_design_weight(name: str) -> bool:
    """True if a name has a word for a survey weight, the number of persons per row."""
    return bool(parts_of(name) & words()["design_weight"])


def names_household(name: str) -> bool:
    """True if a name is that of identifiers of households, families or dwellings."""
    lists, parts = words(), _without_digits(name)
    if parts_of(name) & lists["household_number"]:
        return True
    things = {*parts} - _numbers()
    return bool(things) and things < {*parts} and things <= lists["household"]


def is_number_alone(name: str) -> bool:
    """True if a name consists of words for numbers only: ``id``, ``record_no``."""
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
    """Splits of a compound into two words that are both in the lists."""
    listed = _persons() | _numbers()
    splits = [(part[:at], part[at:]) for at in range(2, len(part) - 1)]
    return [half for pair in splits if set(pair) <= listed for half in pair]


@cache
def _origin(part: str) -> str:
    """The list of a word in a name: ``person``, ``number`` or empty; compounds are split."""
    persons, numbers = _persons(), _numbers()
    halves = ({part[:at], part[at:]} for at in range(2, len(part) - 1))
    if part in persons or any(both & persons and both & numbers for both in halves):
        return "person"
    return "number" if part in numbers else ""
