"""Hospital stays in the format that German hospitals export: a CSV file generated from a seed."""

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
# The marker for unknown values in some columns; others are blank.
UNKNOWN = "k.A."
# The share of missing values in columns that have some, and the share of these that say UNKNOWN.
BLANKS, UNKNOWN_SHARE = 0.03, 0.5
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
    rng = Random(seed)
    numbers = rng.sample(range(1_000_000, 10_000_000), patients)
    persons = [
        (
            str(number),
            _written(_FIRST_BIRTH + timedelta(days=rng.randrange(_BIRTHS))),
            rng.choice("mw") if rng.random() < 0.995 else "d",
            f"{rng.choice((1, 4, 5, 10, 20, 50, 51, 80))}{rng.randrange(1000):03d}".zfill(5),
        )
        for number in numbers
    ]
    codes = [f"{rng.choice(_LETTERS)}{rng.randrange(100):02d}" for _ in range(60)]
    owners = [*range(patients), *(rng.randrange(patients) for _ in range(rows - patients))]
    moments = [(rng.randrange(_DAYS), number, person) for number, person in enumerate(owners)]
    records = []
    for case, (day, _, person) in enumerate(sorted(moments)):
        number, born, sex, zip_code = persons[person]
        admitted = _FIRST_STAY + timedelta(days=day)
        length = min(int(rng.expovariate(0.2)), 90)
        # The first codes are the frequent ones.
        code = codes[int(len(codes) * rng.random() ** 2)]
        row = {
            "Patienten-Nr": number,
            "Fallnr": str(20_230_000 + case),
            "Geburtsdatum": born,
            "Geschlecht": sex,
            "PLZ": zip_code,
            "Aufnahme": _written(admitted),
            "Entlassung": _written(admitted + timedelta(days=length)),
            "ICD": f"{code}.{rng.randrange(10)}",
            "Station": rng.choice(_WARDS),
            "Kosten": f"{600 + 450 * length + rng.gauss(0, 80):.2f}".replace(".", ","),
            "Freitext": rng.choice(_NOTES),
        }
        for name in _BLANK:
            if rng.random() < BLANKS:
                row[name] = UNKNOWN if rng.random() < UNKNOWN_SHARE else ""
        records.append(tuple(row.values()))
    return records


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
