"""Hospital stays as a German hospital hands them on: a CSV file that is drawn by a seed."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from pathlib import Path
from random import Random

COLUMNS = (
    "Patienten-Nr",
    "Fallnr",
    "Geburtsdatum",
    "Geschlecht",
    "PLZ",
    "Aufnahme",
    "Entlassung",
    "ICD",
    "Station",
    "Kosten",
    "Freitext",
)
STAYS, PATIENTS = 31_271, 12_000
# What stands where somebody knew nothing; in other places nothing stands.
UNKNOWN = "k.A."
# The share of blanks in the columns that have some, and of these the share that says UNKNOWN.
BLANKS, SAID = 0.03, 0.5
LATIN_1, UTF_8_BOM = "latin-1", "utf-8-sig"

_BLANK = ("PLZ", "ICD", "Station", "Kosten")
_LETTERS = "ABCDEFGIJKLMNR"
_WARDS = (
    "Innere 1",
    "Innere 2",
    "Chirurgie Süd",
    "Gynäkologie",
    "Kinderklinik",
    "HNO",
    "Intensiv",
    "Neurologie",
)
_NOTES = (
    "",
    "",
    "",
    "unauffällig",
    "Übelkeit; Erbrechen",
    'Patient nennt es "Stechen"',
    "Sturz zu Hause\nWunde versorgt",
    "Verlegung aus Köln",
    "Größe und Gewicht fehlen",
)
_FIRST_BIRTH, _BIRTHS = date(1928, 1, 1), 365 * 94
_FIRST_STAY, _DAYS = date(2023, 1, 1), 720


def stays(seed: int = 0, rows: int = STAYS, patients: int = PATIENTS) -> list[tuple[str, ...]]:
    """The rows as texts, in the order of their admission.

    Each patient has one number, birth date, sex and postcode, and a stay at least.

    Parameters
    ----------
    patients : at most as many as ``rows``.
    """
    drawn = Random(seed)
    numbers = drawn.sample(range(1_000_000, 10_000_000), patients)
    persons = [
        (
            str(number),
            _written(_FIRST_BIRTH + timedelta(days=drawn.randrange(_BIRTHS))),
            drawn.choice("mw") if drawn.random() < 0.995 else "d",
            f"{drawn.choice((1, 4, 5, 10, 20, 50, 51, 80))}{drawn.randrange(1000):03d}".zfill(5),
        )
        for number in numbers
    ]
    codes = [f"{drawn.choice(_LETTERS)}{drawn.randrange(100):02d}" for _ in range(60)]
    whose = [*range(patients), *(drawn.randrange(patients) for _ in range(rows - patients))]
    moments = [(drawn.randrange(_DAYS), number, person) for number, person in enumerate(whose)]
    found = []
    for case, (day, _, person) in enumerate(sorted(moments)):
        number, born, sex, zip_code = persons[person]
        admitted = _FIRST_STAY + timedelta(days=day)
        length = min(int(drawn.expovariate(0.2)), 90)
        # The first codes are the frequent ones.
        code = codes[int(len(codes) * drawn.random() ** 2)]
        row = {
            "Patienten-Nr": number,
            "Fallnr": str(20_230_000 + case),
            "Geburtsdatum": born,
            "Geschlecht": sex,
            "PLZ": zip_code,
            "Aufnahme": _written(admitted),
            "Entlassung": _written(admitted + timedelta(days=length)),
            "ICD": f"{code}.{drawn.randrange(10)}",
            "Station": drawn.choice(_WARDS),
            "Kosten": f"{600 + 450 * length + drawn.gauss(0, 80):.2f}".replace(".", ","),
            "Freitext": drawn.choice(_NOTES),
        }
        for name in _BLANK:
            if drawn.random() < BLANKS:
                row[name] = UNKNOWN if drawn.random() < SAID else ""
        found.append(tuple(row.values()))
    return found


def write_stays(
    path: Path,
    seed: int = 0,
    rows: int = STAYS,
    patients: int = PATIENTS,
    *,
    encoding: str = UTF_8_BOM,
) -> Path:
    """Write the rows to a file with a header, between semicolons; the file.

    Parameters
    ----------
    encoding : ``utf-8-sig`` for UTF-8 with the mark that spreadsheets put before it, or
        ``latin-1``.
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(stays(seed, rows, patients))
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def _written(day: date) -> str:
    return f"{day:%d.%m.%Y}"
