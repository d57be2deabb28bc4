"""Forms of identifiers, recognized by values alone, whatever the name of the column.

A form is a pattern, with check digits if the identifier has them. One table serves all interfaces:
databases count matching values in SQL, and frames in Python.

A check digit is a weighted sum of the characters' values, modulo a number, so it is specified by a
value for each character at each position. Sources: ISO 7064 and ISO 13616 (IBAN), ISO/IEC 7812
(Luhn), GB 11643 (China), and the national registers' published rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# Number of distinct values to examine, from the first rows with a value.
LOOKED_AT = 2_000
# Smallest share of values that must match a form.
_SHARE = 0.9
# Largest probability that values match a form by chance.
_BY_CHANCE = 2e-5

# Forms of yes/no columns and of codes, which do not make an identifier.
FLAG, CODE = "flag", "code"

_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_VALUES = {character: value for value, character in enumerate(_DIGITS)}
_ALPHANUMERIC = _VALUES | {letter: 10 + index for index, letter in enumerate(_LETTERS)}
_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"
# Values in an Italian tax code at positions 1, 3, 5 …, for letters and their corresponding digits.
_ITALIAN = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18),
    *(20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)

# The value of each character, by position in the text.
PositionValues = tuple[Mapping[str, int], ...]


@dataclass(frozen=True)
class Check:
    """Check digits: the sum over all positions, modulo ``modulus``, is one of ``remainders``."""

    places: PositionValues
    modulus: int
    remainders: tuple[int, ...] = (0,)

    @classmethod
    def weighted(
        cls,
        weights: Iterable[int],
        modulus: int,
        remainders: tuple[int, ...] = (0,),
        *,
        last: Mapping[str, int] = _VALUES,
    ) -> Check:
        """Build a check with a weight per position; ``last`` has values for the last position."""
        factors = list(weights)
        values = [*[_VALUES] * (len(factors) - 1), last]
        places = (
            {character: value * weight % modulus for character, value in character_values.items()}
            for weight, character_values in zip(factors, values, strict=True)
        )
        return cls(tuple(places), modulus, remainders)

    @classmethod
    def luhn(cls, length: int) -> Check:
        """Luhn's check: from the right, double every second digit and add its digits."""
        doubled = {c: 2 * v - (9 if v > 4 else 0) for c, v in _VALUES.items()}
        places = (doubled if (length - at) % 2 == 0 else _VALUES for at in range(length))
        return cls(tuple(places), 10)

    def holds(self, text: str) -> bool:
        """True if a text of the right length passes the check."""
        total = sum(
            position_values.get(c, 0) for position_values, c in zip(self.places, text, strict=True)
        )
        return total % self.modulus in self.remainders


@dataclass(frozen=True)
class IdentifierForm:
    """The form of an identifier's values.

    Parameters
    ----------
    name : the name of the identifier, also shown to users.
    pattern : a regular expression for the full text, in the syntax common to all databases.
    checks : checks that must all pass.
    compact : True to match after converting to capitals and removing separators.
    moved : True if checks apply with the first four characters at the end and letters as two
        digits, as for an IBAN.
    """

    name: str
    pattern: str
    checks: tuple[Check, ...] = ()
    compact: bool = False
    moved: bool = False

    @property
    def by_chance(self) -> float:
        """An upper bound of the probability that a match of the pattern passes all checks."""
        share = 1.0 if self.checks else 0.001
        for check in self.checks:
            share *= len(check.remainders) / check.modulus
        return share

    def fits(self, text: str) -> bool:
        """True if a text has this form."""
        plain = compacted(text) if self.compact else text.strip()
        if not re.fullmatch(self.pattern, plain):
            return False
        if self.moved:
            plain = "".join(str(_ALPHANUMERIC[c]) for c in plain[4:] + plain[:4])
        return all(check.holds(plain.rjust(self.width, "0")) for check in self.checks)

    @property
    def width(self) -> int:
        """The number of characters to check; shorter texts are padded with zeros."""
        return len(self.checks[0].places) if self.checks else 0


# Separators that are removed before matching.
SEPARATORS = (" ", "-", ".", "/")


def compacted(text: str) -> str:
    """Convert to capitals and remove separators of digit groups."""
    for separator in SEPARATORS:
        text = text.replace(separator, "")
    return text.upper()


def _coded(name: str, pattern: str, *checks: Check) -> IdentifierForm:
    return IdentifierForm(name, pattern, checks, compact=True)


def _national(pattern: str, *checks: Check) -> IdentifierForm:
    return _coded("national number", pattern, *checks)


# An IBAN has at most 34 characters, each at most two digits.
_IBAN_DIGITS = 68
_EAN = (1, 3) * 6 + (1,)
_CHINESE = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2, 1)
_X = _VALUES | {"X": 10}
_K = _VALUES | {"K": 10}
_JAPANESE = (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)
# Two check digits of the Turkish number: over odd and even positions, and over the sum.
_TURKISH = ((7, -1, 7, -1, 7, -1, 7, -1, 7, -1, 0), (1,) * 10 + (-1,))
# A check digit of ten is written as zero, so a remainder of one also passes.
_BRAZILIAN = ((10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1))
_SPANISH = tuple(10 ** (7 - at) % 23 for at in range(8))
_FIRST_OF_NIE = _VALUES | {"X": 0, "Y": 1, "Z": 2}
_TAX_CODE = tuple(
    {c: _ITALIAN[v % 10 if c in _DIGITS else v - 10] for c, v in _ALPHANUMERIC.items()}
    if at % 2 == 0
    else {c: v if c in _DIGITS else v - 10 for c, v in _ALPHANUMERIC.items()}
    for at in range(15)
)


@cache
def forms() -> tuple[IdentifierForm, ...]:
    """The table of forms, one per line.

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
        # Numbers without check digits, in their national notation.
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
            moved=True,
            checks=(
                Check.weighted((pow(10, 67 - at, 97) for at in range(_IBAN_DIGITS)), 97, (1,)),
            ),
        ),
        _coded("card number", "3[0-9]{14}|[2-6][0-9]{15}|[456][0-9]{18}", Check.luhn(19)),
        _coded("device number", "[0-9]{15}", Check.luhn(15)),
        _national("[0-9]{9}", Check.luhn(9)),
        _national("[0-9]{10}", Check.luhn(10)),
        _national("[0-9]{14}", Check.luhn(14)),
        _national("[0-9]{10}", Check.weighted((*range(10, 1, -1), 1), 11)),
        _national("[0-9]{9}", Check.weighted((*range(9, 1, -1), -1), 11)),
        _national("[0-9]{11}", Check.weighted((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10)),
        _national("[1-9][0-9]{10}", *(Check.weighted(w, 10) for w in _TURKISH)),
        _national("[0-9]{11}", *(Check.weighted(w, 11, (0, 1)) for w in _BRAZILIAN)),
        _national("[1-9][0-9]{16}[0-9X]", Check.weighted(_CHINESE, 11, (1,), last=_X)),
        _national("[0-9]{12}", Check.weighted(_JAPANESE, 11, (0, 1))),
        _national(
            "[12][0-9]{14}",
            Check.weighted((*(pow(10, 12 - at, 97) for at in range(13)), 10, 1), 97),
        ),
        _national("756[0-9]{10}", Check.weighted(_EAN, 10)),
        _national("[0-9]{7,8}[0-9K]", Check.weighted((3, 2, 7, 6, 5, 4, 3, 2, 1), 11, last=_K)),
        _national("[0-9XYZ][0-9]{7}[A-Z]", _spanish_check()),
        _national(
            "[A-Z]{6}[0-9A-Z]{2}[A-Z][0-9A-Z]{2}[A-Z][0-9A-Z]{3}[A-Z]",
            Check((*_TAX_CODE, {c: -index % 26 for index, c in enumerate(_LETTERS)}), 26),
        ),
        IdentifierForm(CODE, "[A-Za-z]{1,8}[-_/ ]{0,1}[0-9]{4,14}|0[0-9]{4,14}"),
        IdentifierForm(
            FLAG,
            "[01yntfjosYNTFJOS]|[Yy]es|[Nn]o|YES|NO|[Tt]rue|[Ff]alse|TRUE|FALSE|[Jj]a"
            "|[Nn]ein|[Oo]ui|[Nn]on|[Ss]i|[Ss]im|[Tt]ak|[Nn]ie|[Nn]ee|[Ee]vet|[Hh]ay.r|[01][.]0",
        ),
    )


def _spanish_check() -> Check:
    """The check letter of a Spanish DNI or NIE."""
    first = {c: value * _SPANISH[0] % 23 for c, value in _FIRST_OF_NIE.items()}
    others = ({c: v * weight % 23 for c, v in _VALUES.items()} for weight in _SPANISH[1:])
    return Check((first, *others, {c: -index % 23 for index, c in enumerate(_DNI)}), 23)


def form_of(values: int, fitting: Mapping[int, int]) -> str:
    """The form of some values; empty if they have none.

    Parameters
    ----------
    values : number of distinct values examined.
    fitting : number of matching values, by index of the form in ``forms()``.
    """
    for index, form in enumerate(forms()):
        chance = 0.0 if form.name == FLAG else form.by_chance**values
        if values and fitting.get(index, 0) >= _SHARE * values and chance <= _BY_CHANCE:
            return form.name
    return ""


def may_have(attribute: Attribute) -> bool:
    """True for types of identifiers: integers, and texts without an order."""
    if attribute.kind is Kind.DECIMAL:
        return attribute.scale <= 0
    return attribute.kind in (Kind.CATEGORY, Kind.INTEGER) and not attribute.order


def is_identifying(form: str) -> bool:
    """True for a form of identifiers only."""
    return bool(form) and form not in (FLAG, CODE)


def form_of_texts(texts: Iterable[str]) -> str:
    """The form of the distinct texts among these."""
    different = set(texts)
    fitting = {index: sum(map(form.fits, different)) for index, form in enumerate(forms())}
    return form_of(len(different), fitting)
