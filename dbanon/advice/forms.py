"""Formats of identifiers such as IBANs or phone numbers, which are recognized by their values.

A *form* is the format of an identifier: a regular expression and, if the identifier has check
digits, their checks. All interfaces use the table ``forms()``: for databases, SQL counts the values
that match a form; for data frames, Python does.

Check digits are verified by a weighted sum of the characters' values, modulo a number. Weights and
values are combined in one table: the weighted value of each character at each position. Sources:
ISO 7064 and ISO 13616 (IBAN), ISO/IEC 7812 (Luhn), GB 11643 (China), and the rules that national
registers publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# This many rows that are not NULL are read, and their distinct values examined. Spark examines this
# many distinct values instead.
MAX_EXAMINED_VALUES = 2_000
# Smallest share of values that must match a form.
_MIN_MATCHING_SHARE = 0.9
# Largest probability that all values match a form by chance.
_MAX_CHANCE = 2e-5
# Assumed probability that other values match the pattern of a form without check digits.
_PATTERN_CHANCE = 0.001

# Names of forms that do not identify persons: yes/no flags, and codes.
FLAG, CODE = "flag", "code"

_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGIT_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_ALPHANUMERIC_VALUES = _DIGIT_VALUES | {letter: 10 + index for index, letter in enumerate(_LETTERS)}
# The check letter of a Spanish identity number (DNI), by its remainder modulo 23.
_DNI_CHECK_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
# Values of A to Z at odd positions of an Italian tax code. The digits 0 to 9 have the values of A
# to J.
_ITALIAN_ODD_VALUES = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18),
    *(20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)

# The value of each character, by position in the text.
PositionValues = tuple[Mapping[str, int], ...]


@dataclass(frozen=True)
class Check:
    """A check of a text: the sum of its characters' values has an expected remainder.

    Parameters
    ----------
    position_values : the value of each character, by position.
    modulus : the divisor of the sum.
    remainders : the remainders of valid texts.
    """

    position_values: PositionValues
    modulus: int
    remainders: tuple[int, ...] = (0,)

    @classmethod
    def weighted(
        cls,
        weights: Iterable[int],
        modulus: int,
        remainders: tuple[int, ...] = (0,),
        *,
        last_values: Mapping[str, int] = _DIGIT_VALUES,
    ) -> Check:
        """Build a check that multiplies the value of each character by the weight of its position.

        Parameters
        ----------
        last_values : the value of each character at the last position. All other positions have
            digits.
        """
        weight_list = list(weights)
        character_values = [*[_DIGIT_VALUES] * (len(weight_list) - 1), last_values]
        position_values = (
            {character: value * weight % modulus for character, value in values.items()}
            for weight, values in zip(weight_list, character_values, strict=True)
        )
        return cls(tuple(position_values), modulus, remainders)

    @classmethod
    def luhn(cls, length: int) -> Check:
        """Build Luhn's check for numbers of this length.

        From the right, every second digit is doubled, and the digits of the results are added.
        """
        doubled = {
            digit: 2 * value - (9 if value > 4 else 0) for digit, value in _DIGIT_VALUES.items()
        }
        position_values = (
            doubled if (length - index) % 2 == 0 else _DIGIT_VALUES for index in range(length)
        )
        return cls(tuple(position_values), 10)

    def holds(self, text: str) -> bool:
        """True if a text of the right length passes the check."""
        total = sum(
            values.get(character, 0)
            for values, character in zip(self.position_values, text, strict=True)
        )
        return total % self.modulus in self.remainders


@dataclass(frozen=True)
class IdentifierForm:
    """The form of an identifier's values.

    Parameters
    ----------
    name : the name of the identifier, also shown to users.
    pattern : a regular expression that the full text must match, in the syntax common to all
        databases.
    checks : checks that must all pass.
    compact : True to match the compact text (see ``to_compact``): in upper case, no separators.
    moves_country_code : True if checks apply to a text whose first four characters are moved to
        the end, with letters as two digits, as for an IBAN.
    """

    name: str
    pattern: str
    checks: tuple[Check, ...] = ()
    compact: bool = False
    moves_country_code: bool = False

    @property
    def chance(self) -> float:
        """The probability that a value that is no such identifier has this form by chance.

        With checks, it is an upper bound: the probability that a text that matches the pattern
        passes them. Without checks, it is an assumed constant.
        """
        chance = 1.0 if self.checks else _PATTERN_CHANCE
        for check in self.checks:
            chance *= len(check.remainders) / check.modulus
        return chance

    def matches(self, text: str) -> bool:
        """True if a text has this form."""
        normalized = to_compact(text) if self.compact else text.strip()
        if not re.fullmatch(self.pattern, normalized):
            return False
        # Country code and check digits go to the end, and a letter becomes 10 to 35 (ISO 13616).
        if self.moves_country_code:
            rearranged = normalized[4:] + normalized[:4]
            normalized = "".join(str(_ALPHANUMERIC_VALUES[character]) for character in rearranged)
        return all(
            check.holds(normalized.rjust(self.n_checked_characters, "0")) for check in self.checks
        )

    @property
    def n_checked_characters(self) -> int:
        """The number of characters to check; shorter texts are padded with zeros at the front."""
        return len(self.checks[0].position_values) if self.checks else 0


# Separators that are removed before matching.
SEPARATORS = (" ", "-", ".", "/")


def to_compact(text: str) -> str:
    """Convert a text to upper case, and remove separators of groups of characters."""
    for separator in SEPARATORS:
        text = text.replace(separator, "")
    return text.upper()


def _compact_form(name: str, pattern: str, *checks: Check) -> IdentifierForm:
    return IdentifierForm(name, pattern, checks, compact=True)


def _national_number(pattern: str, *checks: Check) -> IdentifierForm:
    return _compact_form("national number", pattern, *checks)


# An IBAN has at most 34 characters, each of which stands for at most two digits.
_IBAN_DIGITS = 68
# The constants named WEIGHTS below are the weights of characters, by position. Those named VALUES
# are the values of characters, before they are multiplied by a weight.
_EAN_WEIGHTS = (1, 3) * 6 + (1,)
_CHINESE_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2, 1)
# Values of characters where X or K stands for 10.
_X_VALUES = _DIGIT_VALUES | {"X": 10}
_K_VALUES = _DIGIT_VALUES | {"K": 10}
_JAPANESE_WEIGHTS = (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)
# The first Turkish check digit is computed from odd and even positions, the second from the sum of
# all other digits.
_TURKISH_WEIGHTS = ((7, -1, 7, -1, 7, -1, 7, -1, 7, -1, 0), (1,) * 10 + (-1,))
# A check digit of 10 is written as 0, so a remainder of 1 is also valid.
_BRAZILIAN_WEIGHTS = ((10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1))
_SPANISH_WEIGHTS = tuple(10 ** (7 - index) % 23 for index in range(8))
# Values of the first character of a Spanish DNI or NIE (the identity number of a foreigner).
_SPANISH_FIRST_VALUES = _DIGIT_VALUES | {"X": 0, "Y": 1, "Z": 2}
# Values of characters at even positions of an Italian tax code.
_ITALIAN_EVEN_VALUES = {
    character: value if character in _DIGITS else value - 10
    for character, value in _ALPHANUMERIC_VALUES.items()
}
_ITALIAN_POSITION_VALUES = tuple(
    {character: _ITALIAN_ODD_VALUES[value] for character, value in _ITALIAN_EVEN_VALUES.items()}
    if index % 2 == 0
    else _ITALIAN_EVEN_VALUES
    for index in range(15)
)


# The digits as one number, modulo 97, must be 1: each weight is a power of 10.
_IBAN_CHECK = Check.weighted(
    (pow(10, 67 - index, 97) for index in range(_IBAN_DIGITS)),
    modulus=97,
    remainders=(1,),
)
# Values of yes/no columns, in several languages.
_FLAG_PATTERN = (
    "[01yntfjosYNTFJOS]|[Yy]es|[Nn]o|YES|NO|[Tt]rue|[Ff]alse|TRUE|FALSE|[Jj]a"
    "|[Nn]ein|[Oo]ui|[Nn]on|[Ss]i|[Ss]im|[Tt]ak|[Nn]ie|[Nn]ee|[Ee]vet|[Hh]ay.r|[01][.]0"
)


@cache
def forms() -> tuple[IdentifierForm, ...]:
    """The table of forms; if several match, the first is used.

    Patterns must not contain a backslash, quote, question mark or percent sign.
    """
    return (
        IdentifierForm("e-mail address", "[^@ ,;]{1,64}@[^@ ,;.]{1,63}([.][^@ ,;.]{1,63}){1,8}"),
        IdentifierForm(
            "UUID", "[{]{0,1}[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}[}]{0,1}"
        ),
        IdentifierForm(
            "hash", "([0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9A-F]{32}|[0-9A-F]{40})"
        ),
        IdentifierForm(
            "network address", "([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|([0-9]{1,3}[.]){3}[0-9]{1,3}"
        ),
        IdentifierForm("web address", "https{0,1}://[^ ]{3,200}"),
        IdentifierForm("social security number", "[0-9]{3}-[0-9]{2}-[0-9]{4}"),
        IdentifierForm(
            "phone number",
            "[+][0-9][0-9 ()./-]{7,18}"
            "|([+]{0,1}1[ .-]){0,1}[(]{0,1}[2-9][0-9]{2}[)]{0,1}[ .-][2-9][0-9]{2}[ .-][0-9]{4}"
            "|[(]{0,1}0[0-9]{1,5}[)]{0,1}[ /-][0-9]{2}[0-9 ]{3,10}"
            "|0[0-9]{2,4}-[0-9]{1,4}-[0-9]{4}|0[0-9]-[0-9]{4}-[0-9]{4}",
        ),
        # Numbers without check digits, in their national notation, by line: Denmark (CPR) and South
        # Korea (RRN), Finland (HETU) and India (Aadhaar), Mexico (CURP).
        IdentifierForm(
            "national number",
            "[0-3][0-9][01][0-9]{3}-[0-9]{4}|[0-9]{6}-[1-8][0-9]{6}"
            "|[0-3][0-9][01][0-9]{3}[-+A][0-9]{3}[0-9A-Y]|[2-9][0-9]{3} [0-9]{4} [0-9]{4}"
            "|[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[0-9A-Z][0-9]",
        ),
        IdentifierForm(
            "IBAN",
            "[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}",
            compact=True,
            moves_country_code=True,
            checks=(_IBAN_CHECK,),
        ),
        _compact_form("card number", "3[0-9]{14}|[2-6][0-9]{15}|[456][0-9]{18}", Check.luhn(19)),
        _compact_form("device number", "[0-9]{15}", Check.luhn(15)),
        # Numbers with check digits: the pattern, then the checks. Comments name the countries.
        _national_number("[0-9]{9}", Check.luhn(9)),  # Canada (SIN), France (SIREN)
        _national_number("[0-9]{10}", Check.luhn(10)),  # Sweden (personnummer)
        _national_number("[0-9]{14}", Check.luhn(14)),  # France (SIRET)
        # In this order: England (NHS number), the Netherlands (BSN), Poland (PESEL) and Turkey.
        _national_number("[0-9]{10}", Check.weighted((*range(10, 1, -1), 1), 11)),
        _national_number("[0-9]{9}", Check.weighted((*range(9, 1, -1), -1), 11)),
        _national_number("[0-9]{11}", Check.weighted((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10)),
        _national_number("[1-9][0-9]{10}", *(Check.weighted(w, 10) for w in _TURKISH_WEIGHTS)),
        _national_number(  # Brazil (CPF)
            "[0-9]{11}", *(Check.weighted(w, 11, remainders=(0, 1)) for w in _BRAZILIAN_WEIGHTS)
        ),
        _national_number(  # China (resident identity number)
            "[1-9][0-9]{16}[0-9X]",
            Check.weighted(_CHINESE_WEIGHTS, 11, remainders=(1,), last_values=_X_VALUES),
        ),
        # Japan (My Number).
        _national_number("[0-9]{12}", Check.weighted(_JAPANESE_WEIGHTS, 11, remainders=(0, 1))),
        _national_number(  # France (NIR)
            "[12][0-9]{14}",
            Check.weighted((*(pow(10, 12 - index, 97) for index in range(13)), 10, 1), 97),
        ),
        _national_number("756[0-9]{10}", Check.weighted(_EAN_WEIGHTS, 10)),  # Switzerland (AHV)
        _national_number(  # Chile (RUT)
            "[0-9]{7,8}[0-9K]",
            Check.weighted((3, 2, 7, 6, 5, 4, 3, 2, 1), 11, last_values=_K_VALUES),
        ),
        _national_number("[0-9XYZ][0-9]{7}[A-Z]", _spanish_check()),  # Spain (DNI, NIE)
        _national_number(  # Italy (codice fiscale)
            "[A-Z]{6}[0-9A-Z]{2}[A-Z][0-9A-Z]{2}[A-Z][0-9A-Z]{3}[A-Z]",
            Check(
                (
                    *_ITALIAN_POSITION_VALUES,
                    {letter: -index % 26 for index, letter in enumerate(_LETTERS)},
                ),
                26,
            ),
        ),
        IdentifierForm(CODE, "[A-Za-z]{1,8}[-_/ ]{0,1}[0-9]{4,14}|0[0-9]{4,14}"),
        IdentifierForm(FLAG, _FLAG_PATTERN),
    )


def _spanish_check() -> Check:
    """The check of the letter at the end of a Spanish DNI or NIE."""
    first = {
        character: value * _SPANISH_WEIGHTS[0] % 23
        for character, value in _SPANISH_FIRST_VALUES.items()
    }
    middle = (
        {digit: value * weight % 23 for digit, value in _DIGIT_VALUES.items()}
        for weight in _SPANISH_WEIGHTS[1:]
    )
    last = {letter: -index % 23 for index, letter in enumerate(_DNI_CHECK_LETTERS)}
    return Check((first, *middle, last), 23)


def find_common_form(n_values: int, n_matching: Mapping[int, int]) -> str:
    """Return the name of the first form that nearly all values have; empty if there is none.

    Parameters
    ----------
    n_values : number of distinct values examined.
    n_matching : number of these that match a form, by index of the form in ``forms()``.
    """
    if not n_values:
        return ""
    for index, form in enumerate(forms()):
        # A flag does not identify persons, so its values may also match by chance.
        chance = 0.0 if form.name == FLAG else form.chance**n_values
        is_common = n_matching.get(index, 0) >= _MIN_MATCHING_SHARE * n_values
        if is_common and chance <= _MAX_CHANCE:
            return form.name
    return ""


def can_hold_identifiers(attribute: Attribute) -> bool:
    """True for types that identifiers may have: integers, and texts without an order."""
    if attribute.kind is Kind.DECIMAL:
        return attribute.scale <= 0
    return attribute.kind in (Kind.CATEGORY, Kind.INTEGER) and not attribute.order


def is_identifying(form: str) -> bool:
    """True if a form, given by its name, identifies persons: it is neither a flag nor a code."""
    return bool(form) and form not in (FLAG, CODE)


def find_form_of_texts(texts: Iterable[str]) -> str:
    """Return the name of the form that nearly all of these texts have; empty if there is none."""
    distinct = list(set(texts))
    # A form of nine tenths of the values is that of one among any ninth.
    ninth = distinct[: len(distinct) // 9 + 1]
    n_matching = {
        index: sum(map(form.matches, distinct))
        for index, form in enumerate(forms())
        if any(map(form.matches, ninth))
    }
    return find_common_form(len(distinct), n_matching)
