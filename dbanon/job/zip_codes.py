"""The option ``zip_population``: ZIP codes become their first three digits, or 000.

HIPAA Safe Harbor, 45 CFR 164.514(b)(2)(i)(B), allows the first three digits of a ZIP code if more
than 20,000 people live in all ZIP codes with these digits; for all others they are changed to 000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option

ZIP_POPULATION = Option(
    "With the profile hipaa: a table of the database with a column zip or zip3, and a column"
    " population. ZIP codes that are quasi-identifiers become their first three digits, or 000"
    " where 20,000 people or fewer live.",
    expected="the name of a table",
    form="TABLE",
    concerns_release=True,
    docs_page="guarantees.md#zip-codes",
)
# More people than this live in an area whose three digits may be released.
MAX_SMALL_POPULATION = 20_000
SMALL_AREA = "000"

_ZIP_CODE = re.compile(r"([0-9]{3})(?:[0-9]{2}(?:-?[0-9]{4})?)?")
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class ZipAreas:
    """The areas of ZIP codes that may be released, and the columns with ZIP codes.

    Parameters
    ----------
    columns : the quasi-identifiers that hold ZIP codes.
    areas : the first three digits of areas with more than 20,000 people.
    """

    columns: tuple[str, ...]
    areas: frozenset[str]

    def code(self, text: str) -> str:
        """Return the three digits of a ZIP code; 000 for small areas and for other texts."""
        match = _ZIP_CODE.fullmatch(text.strip())
        return match[1] if match is not None and match[1] in self.areas else SMALL_AREA

    def is_label(self, text: str) -> bool:
        """Whether a released text shows no smaller area: each number in it is one of an area.

        Fewer than three digits stand for a larger area.
        """
        numbers = _DIGITS.findall(text)
        return all(
            len(number) < 3 or number == SMALL_AREA or number in self.areas for number in numbers
        )


NO_ZIP_AREAS = ZipAreas((), frozenset())


def find_large_areas(populations: Mapping[str, float]) -> frozenset[str]:
    """Return the areas with more than 20,000 people.

    Parameters
    ----------
    populations : number of people by the first three digits of their ZIP codes.
    """
    return frozenset(area for area, people in populations.items() if people > MAX_SMALL_POPULATION)
