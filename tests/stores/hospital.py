"""A hospital of invented patients, as three of its systems hand them on month by month."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa
from pyarrow import parquet

PATIENTS, COME_AND_GO = 240, 8
FIRST_DAY = date(2026, 1, 1)
ADMISSION_COLUMNS = (
    "Patienten-Nr",
    "Name",
    "Versicherung",
    "Geburtsdatum",
    "Geschlecht",
    "PLZ",
    "Aufnahme",
    "Diagnose",
    "Kosten",
    "Beleg",
)
# Placeholders where the value was unknown; elsewhere the field is empty.
UNKNOWN = ("k.A.", "unbekannt")
# The costs of the first month stay below a thousand: their widths and marks say nothing of more.
FIRST_COSTS, LATER_COST = (60_000, 95_010), 195_010
_FIRST_NAMES = ("Jürgen", "Änne", "Günther", "Zoë", "François", "Käthe", "Börje", "Ömer", "Ilse")
_LAST_NAMES = (
    "Müller-Lüdenscheidt",
    "Größmann",
    "Özgür",
    "Weißhäupl",
    "Schröder-Jäger",
    "Köhlerová",
    "Böttcher",
    "d'Ærschot",
)
_DIAGNOSES = ("E11.9", "I10.0", "J45.1", "C50.9")
_POSTCODES = ("01067", "04103", "50667")
_WARDS = ("Innere 1", "Chirurgie Süd", "Gynäkologie")


@dataclass
class Patient:
    """A person whom all three systems know."""

    number: int
    name: str
    insurance: str
    born: date
    sex: str
    postcode: str | None

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Texts that no released byte may contain; a last name alone identifies no person."""
        return (str(self.number), self.name, self.insurance)


@dataclass
class Hospital:
    """Patients of this month, and the rows of each system.

    ``rows`` has the patient and the costs (or the value) of every row that was ever handed on, by
    its receipt, a random text. The tests count by it; a release for readers would not have it.
    """

    random: Random = field(default_factory=lambda: Random(17))
    month: int = 1
    present: list[Patient] = field(default_factory=list)
    ever: list[Patient] = field(default_factory=list)
    rows: dict[str, tuple[Patient, Decimal]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._admit(PATIENTS)

    def _admit(self, count: int) -> None:
        for _ in range(count):
            index = len(self.ever)
            name = f"{self.random.choice(_LAST_NAMES)}, {self.random.choice(_FIRST_NAMES)} {index}."
            patient = Patient(
                number=4_710_000_000 + 7919 * index,
                name=name,
                insurance=f"{self.random.choice('ABKX')}{self.random.randrange(10**8, 10**9)}",
                born=date(1930, 1, 1) + timedelta(days=self.random.randrange(365 * 75)),
                sex=self.random.choice("mw"),
                postcode=None if index % 12 == 5 else self.random.choice(_POSTCODES),
            )
            self.ever.append(patient)
            self.present.append(patient)

    def month_passes(self) -> None:
        """Some patients leave, and as many come."""
        self.month += 1
        for _ in range(COME_AND_GO):
            self.present.pop(self.random.randrange(len(self.present)))
        self._admit(COME_AND_GO)

    def _row(self, patient: Patient) -> tuple[Decimal, str]:
        """The costs and the receipt of a row."""
        cost, receipt = self._cost(), f"{self.random.getrandbits(64):016x}"
        self.rows[receipt] = (patient, cost)
        return cost, receipt

    def _day(self) -> date:
        return FIRST_DAY.replace(month=self.month) + timedelta(days=self.random.randrange(28))

    def _cost(self) -> Decimal:
        """Euros with cents; from the second month on, one in ten amounts has four digits."""
        if self.month > 1 and self.random.random() < 0.1:
            return Decimal(LATER_COST).scaleb(-2)
        return Decimal(self.random.randrange(*FIRST_COSTS)).scaleb(-2)

    def admissions(self) -> bytes:
        """This month's CSV: Latin-1, semicolons, blanks, German dates and numbers."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
        writer.writerow(ADMISSION_COLUMNS)
        for index, patient in enumerate(self.present):
            postcode = patient.postcode or (*UNKNOWN, "")[index % 3]
            cost, receipt = self._row(patient)
            writer.writerow(
                [
                    patient.number,
                    patient.name,
                    patient.insurance,
                    f" {patient.born:%d.%m.%Y} ",
                    patient.sex,
                    postcode,
                    f"{self._day():%d.%m.%Y}",
                    self.random.choice(_DIAGNOSES),
                    german(cost),
                    receipt,
                ]
            )
        return text.getvalue().encode("latin-1")

    def laboratory(self) -> list[tuple[object, ...]]:
        """This month's results: number, name, birth date, test, value, diagnosis and receipt."""
        return [
            (
                patient.number,
                patient.name,
                patient.born,
                self.random.choice(("CRP", "Hb", "TSH")),
                cost,
                self.random.choice(_DIAGNOSES),
                receipt,
            )
            for patient in self.present
            for cost, receipt in [self._row(patient)]
        ]

    def stays(self) -> bytes:
        """This month's Parquet file: one in four patients has two stays."""
        admitted = [*self.present, *self.present[::4]]
        rows = [self._row(patient) for patient in admitted]
        costs = [cost for cost, _ in rows]
        # Like writers that choose the narrowest type.
        widest = max(len(cost.as_tuple().digits) for cost in costs)
        table = pa.table(
            {
                "patient_no": [patient.number for patient in admitted],
                "full_name": [patient.name for patient in admitted],
                "birth_date": [patient.born for patient in admitted],
                "days": [self.random.randrange(1, 30) for _ in admitted],
                "cost": pa.array(costs, pa.decimal128(widest, 2)),
                "ward": [self.random.choice(_WARDS) for _ in admitted],
                "receipt": [receipt for _, receipt in rows],
            }
        )
        file = io.BytesIO()
        parquet.write_table(table, file)
        return file.getvalue()


def german(number: Decimal) -> str:
    """950.1 is 950,10, and 1950.1 is 1.950,10."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))
