"""Hints about columns from the words in their names.

``words.txt`` has the known words by list and language, and explains each list. A *number word* is a
word for identifying numbers, such as "id" or "no". The code uses these lists by name; some of them:

- ``number``: words for numbers that identify a row or a person;
- ``joined``: number words that, unlike those of ``number``, only count together with other words
  or with the values, such as "hash";
- ``coded``: number words that may also name categories, as in the code of a subject;
- ``numbered``: things of one person that numbers identify, such as a contract;
- ``about``: words that show that a name is about something other than a person;
- ``known``: what others can see or know about a person;
- ``person``: words for persons, and ``person_or_place``: those that may also name something else;
- ``person_number``: names of person identifiers that need no other word, such as "ssn";
- ``whole_name``: words that name an identifier only if the name has no other words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

WORDS_FILE = Path(__file__).with_name("words.txt")

# Transliterations of letters that Unicode does not decompose.
_TRANSLITERATIONS = str.maketrans(
    {"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
     "đ": "d", "Đ": "D", "ı": "i", "þ": "th", "Þ": "Th"}
)  # fmt: skip
# Character ranges of scripts without spaces between words: Hangul (decomposed), kana, Han.
_UNSPACED = "\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff"
_UNSPACED_WORD = f"[{_UNSPACED}]+"
_LOWER, _UPPER = "a-zа-яёα-ω", "A-ZА-ЯЁΑ-Ω"
_ASCII_BOUNDARY = "(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
# Compiling sets of tens of thousands of characters takes milliseconds, so these patterns are only
# compiled for names that are not ASCII.
_WORD_BOUNDARY = (
    f"(?<=[{_LOWER}0-9])(?=[{_UPPER}])|(?<=[{_UPPER}])(?=[{_UPPER}][{_LOWER}])"
    f"|(?<=[A-Za-z0-9])(?=[{_UNSPACED}])|(?<=[{_UNSPACED}])(?=[A-Za-z0-9])"
)
# Longest word to look for in names in scripts without spaces, in characters.
_MAX_WORD_LENGTH = 16

# Largest number of distinct values in a column of codes for categories.
MAX_CODES = 50


@cache
def load_word_lists() -> Mapping[str, frozenset[str]]:
    """Read ``words.txt``: for each list, by name, its words in lower case without accents."""
    lists: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in WORDS_FILE.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if heading := re.fullmatch(r"\[(\w+)\]", text):
            current = lists.setdefault(heading[1], set())
        elif text and not text.startswith("#"):
            current.update(_remove_accents(text.partition(":")[2]).split())
    return {name: frozenset(words) for name, words in lists.items()}


def _remove_accents(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_TRANSLITERATIONS))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def split_name(name: str) -> list[str]:
    """Split a column's name into words, in lower case without accents."""
    plain_name = _remove_accents(name)
    boundary = _ASCII_BOUNDARY if plain_name.isascii() else _WORD_BOUNDARY
    spaced = re.sub(boundary, " ", plain_name)
    return re.findall(r"[^\W_]+", spaced.lower())


def words_in_name(name: str) -> frozenset[str]:
    """Return the words in a column's name, in a form to compare with the known words.

    They are the words themselves, each pair of adjacent words joined, all words joined, and, in
    scripts without spaces, all substrings that may be words.
    """
    words = split_name(name)
    pairs = [first + second for first, second in pairwise(words)]
    return frozenset([*words, *pairs, "".join(words), *_possible_words(words)])


def _possible_words(texts: list[str]) -> list[str]:
    """Return all substrings that may be words, for texts in scripts without spaces."""
    return [
        text[start:end]
        for text in texts
        if not text.isascii() and re.fullmatch(_UNSPACED_WORD, text)
        for start in range(len(text))
        for end in range(start + 2, min(start + _MAX_WORD_LENGTH, len(text)) + 1)
    ]


def hint_from_name(name: str) -> str:
    """Guess from a column's name what the column identifies.

    Returns ``person`` for person identifiers, ``number`` for other identifying numbers, keys or
    codes, and an empty text for anything else.
    """
    lists = load_word_lists()
    words = _words_without_numerals(name)
    if "".join(words) in lists["person_number"]:
        return "person"
    categories = [_word_category(word) for word in words]
    # All words are known, and at least one is for persons.
    if categories and all(categories) and "person" in categories:
        return "person"
    return "number" if set(words) & (_number_words() - _person_words()) else ""


def names_person_identifier(name: str) -> bool:
    """True if a name is clearly that of a person identifier, whatever the column's values are.

    A word for persons alone does not suffice, since it may be the name of a yes/no column.
    ``member_no`` is not clear either: it may number the members of a household.
    """
    lists, words = load_word_lists(), _words_without_numerals(name)
    if "".join(words) in lists["person_number"]:
        return True
    all_words = {*words, *(half for word in words for half in _split_compound(word))}
    has_number_word = bool(all_words & (lists["number"] | lists["joined"]))
    has_person_word = bool(all_words & lists["person"])
    return hint_from_name(name) == "person" and has_number_word and has_person_word


def names_identifier(name: str) -> bool:
    """True if a name has a word for a name, an address or an identifier of a person."""
    lists = load_word_lists()
    if words_in_name(name) & (lists["identifier"] | lists["person_number"]):
        return True
    words = _words_without_numerals(name)
    if "".join(words) in lists["whole_name"]:
        return True
    # The words for what the number identifies, such as a card or a contract.
    numbered_words = [word for word in words if word not in _number_words()]
    has_number_word = len(numbered_words) < len(words)
    return has_number_word and (
        "".join(numbered_words) in lists["numbered"] or _all_in_list(numbered_words, "numbered")
    )


def suggests_identifier(name: str) -> bool:
    """True if a name suggests an identifier, for columns whose values are unknown."""
    if is_about_something_else(name):
        return False
    return names_identifier(name) or names_person_identifier(name)


def is_about_something_else(name: str) -> bool:
    """True if a word shows that a name is not about a person's identity.

    Examples are ``hospital_name`` and ``phone_type``.
    """
    lists = load_word_lists()
    return bool(words_in_name(name) & (lists["about"] | lists["sensitive"] | lists["known"]))


def name_suggests_codes(name: str) -> bool:
    """True if a name has a word for a category, and none for an amount."""
    lists, words = load_word_lists(), words_in_name(name)
    return bool(words & lists["code_name"]) and not words & lists["amount"]


def names_design_weight(name: str) -> bool:
    """True if a name has a word for a survey weight: the number of persons a row stands for."""
    return bool(words_in_name(name) & load_word_lists()["design_weight"])


def names_household(name: str) -> bool:
    """True if a name is that of identifiers of households, families or dwellings."""
    lists, words = load_word_lists(), {*_words_without_numerals(name)}
    if words_in_name(name) & lists["household_number"]:
        return True
    other_words = words - _number_words()
    return bool(other_words) and other_words < words and other_words <= lists["household"]


def has_only_number_words(name: str) -> bool:
    """True if a name consists only of words for numbers, such as ``id`` or ``record_no``."""
    return _all_in_list(_words_without_numerals(name), "number")


def _all_in_list(words: list[str], list_name: str) -> bool:
    """True if all words, at least one, are in a list."""
    return bool(words) and set(words) <= load_word_lists()[list_name]


def _words_without_numerals(name: str) -> list[str]:
    """Split a column's name into words, and leave out those that consist of digits."""
    return [word for word in split_name(name) if not word.isdigit()]


def _person_words() -> frozenset[str]:
    """All words for persons and their identifiers."""
    lists = load_word_lists()
    return lists["person"] | lists["person_or_place"] | lists["person_number"]


def _number_words() -> frozenset[str]:
    """All words for identifying numbers."""
    lists = load_word_lists()
    return lists["number"] | lists["joined"] | lists["coded"]


def _split_compound(word: str) -> list[str]:
    """Return both halves of every split of a compound into two words for persons or numbers."""
    known_words = _person_words() | _number_words()
    splits = [(word[:end], word[end:]) for end in range(2, len(word) - 1)]
    return [half for halves in splits if set(halves) <= known_words for half in halves]


@cache
def _word_category(word: str) -> str:
    """``person`` or ``number`` for a known word, ``person`` for a compound of both, else empty."""
    persons, numbers = _person_words(), _number_words()
    splits = ({word[:end], word[end:]} for end in range(2, len(word) - 1))
    if word in persons or any(halves & persons and halves & numbers for halves in splits):
        return "person"
    return "number" if word in numbers else ""
