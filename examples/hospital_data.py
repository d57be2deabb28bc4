"""An invented hospital: patients with several stays, and the tree of its diagnoses, in DuckDB.

Codes are three-character categories of ICD-10 in their blocks and chapters. Persons, zip codes and
costs are drawn; the same ones every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

import duckdb

PATIENTS = 1500
FIRST_DAY, DAYS = date(2023, 1, 1), 730

# code, what is above it, its title; ICD is above the chapters.
CODES = (
    ("A00-B99", "ICD", "Infectious diseases"),
    ("A00-A09", "A00-B99", "Intestinal infections"),
    ("A04", "A00-A09", "Bacterial intestinal infection"),
    ("A09", "A00-A09", "Gastroenteritis"),
    ("B15-B19", "A00-B99", "Viral hepatitis"),
    ("B16", "B15-B19", "Acute hepatitis B"),
    ("B18", "B15-B19", "Chronic viral hepatitis"),
    ("C00-D49", "ICD", "Neoplasms"),
    ("C15-C26", "C00-D49", "Digestive organs"),
    ("C18", "C15-C26", "Colon"),
    ("C25", "C15-C26", "Pancreas"),
    ("C50-C63", "C00-D49", "Breast and genital organs"),
    ("C50", "C50-C63", "Breast"),
    ("C61", "C50-C63", "Prostate"),
    ("F00-F99", "ICD", "Mental disorders"),
    ("F10-F19", "F00-F99", "Use of substances"),
    ("F10", "F10-F19", "Alcohol"),
    ("F30-F39", "F00-F99", "Mood disorders"),
    ("F32", "F30-F39", "Depressive episode"),
    ("F33", "F30-F39", "Recurrent depression"),
    ("I00-I99", "ICD", "Circulatory system"),
    ("I10-I15", "I00-I99", "Hypertension"),
    ("I10", "I10-I15", "Essential hypertension"),
    ("I20-I25", "I00-I99", "Ischaemic heart disease"),
    ("I20", "I20-I25", "Angina pectoris"),
    ("I21", "I20-I25", "Acute myocardial infarction"),
    ("I60-I69", "I00-I99", "Cerebrovascular diseases"),
    ("I63", "I60-I69", "Cerebral infarction"),
    ("J00-J99", "ICD", "Respiratory system"),
    ("J09-J18", "J00-J99", "Influenza and pneumonia"),
    ("J18", "J09-J18", "Pneumonia"),
    ("J40-J47", "J00-J99", "Chronic lower respiratory diseases"),
    ("J44", "J40-J47", "Chronic obstructive pulmonary disease"),
    ("J45", "J40-J47", "Asthma"),
)
# diagnosis: ward, share of all stays, youngest and oldest patient, mean cost, sex if only one.
STAYS: dict[str, tuple[str, float, int, int, int, str | None]] = {
    "A04": ("internal", 3, 0, 95, 2400, None),
    "A09": ("internal", 8, 0, 95, 1900, None),
    "B16": ("internal", 1, 18, 80, 4100, None),
    "B18": ("internal", 2, 30, 85, 3600, None),
    "C18": ("surgery", 4, 45, 90, 12800, None),
    "C25": ("surgery", 2, 50, 90, 15400, None),
    "C50": ("surgery", 5, 35, 90, 9700, "female"),
    "C61": ("surgery", 4, 50, 90, 8900, "male"),
    "F10": ("psychiatry", 5, 18, 75, 3900, None),
    "F32": ("psychiatry", 7, 16, 85, 5200, None),
    "F33": ("psychiatry", 4, 20, 85, 5600, None),
    "I10": ("cardiology", 8, 40, 95, 2100, None),
    "I20": ("cardiology", 8, 45, 95, 4300, None),
    "I21": ("cardiology", 7, 40, 95, 8700, None),
    "I63": ("neurology", 8, 45, 95, 9100, None),
    "J18": ("internal", 10, 0, 95, 4700, None),
    "J44": ("internal", 8, 45, 95, 4000, None),
    "J45": ("internal", 6, 4, 70, 2300, None),
}
# The first digits of the zip codes near the hospital, most patients coming from the first.
PLACES = ("231", "230", "232", "240", "249")
FIRST_NAMES = {
    "female": ("Anna", "Clara", "Emma", "Hanna", "Ida", "Lena", "Mia", "Nora"),
    "male": ("Anton", "Ben", "Emil", "Finn", "Jonas", "Karl", "Leo", "Paul"),
}
LAST_NAMES = ("Albers", "Claussen", "Harms", "Jensen", "Kruse", "Lorenzen", "Petersen", "Voss")


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the schema ``app``: icd, patient, stay, and the view of stays for research."""
    # random() alone is promised to give the same numbers in every version of Python.
    random = Random(2026).random

    def choose(values: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        weights = weights or [1.0] * len(values)
        at = random() * sum(weights)
        for value, weight in zip(values, weights, strict=True):
            at -= weight
            if at < 0:
                return value
        return values[-1]

    patients: list[tuple[Any, ...]] = []
    stays: list[tuple[Any, ...]] = []
    for number in range(1, PATIENTS + 1):
        sex = choose(("female", "male"))
        name = f"{choose(FIRST_NAMES[sex])} {choose(LAST_NAMES)}"
        codes = [code for code, stay in STAYS.items() if stay[5] in (None, sex)]
        diagnosis = choose(codes, [STAYS[code][1] for code in codes])
        _, _, youngest, oldest, _, _ = STAYS[diagnosis]
        age = youngest + (oldest - youngest) * (random() + random()) / 2
        born = FIRST_DAY - timedelta(days=int(age * 365.25))
        zip_code = f"{choose(PLACES, (8, 4, 3, 2, 1))}{int(random() ** 2 * 30):02d}"
        patients.append((number, name, born, sex, zip_code))
        for _ in range(choose((1, 2, 3, 4), (60, 25, 10, 5))):
            ward, _, _, _, cost, _ = STAYS[diagnosis]
            admitted = FIRST_DAY + timedelta(days=int(random() * DAYS))
            paid = round(cost * (0.6 + 0.8 * random()), 2)
            stays.append((len(stays) + 1, number, admitted, diagnosis, ward, paid))
            if random() < 0.3:  # comes back with something else
                diagnosis = choose(codes, [STAYS[code][1] for code in codes])
    connection.execute("""
        CREATE SCHEMA app;
        CREATE TABLE app.icd (code text PRIMARY KEY, parent text, title text);
        INSERT INTO app.icd VALUES ('ICD', NULL, 'All diagnoses');
        CREATE TABLE app.patient
            (patient_id integer PRIMARY KEY, name text, born date, sex text, zip text);
        CREATE TABLE app.stay
            (stay_id integer PRIMARY KEY, patient_id integer, admitted date, diagnosis text,
             ward text, cost decimal(9, 2));
        CREATE VIEW app.research AS
            SELECT stay_id, patient_id, name, datesub('year', born, admitted)::integer AS age, sex,
                   zip, admitted, diagnosis, ward, cost
            FROM app.stay JOIN app.patient USING (patient_id)
    """)
    for table, rows in (("icd", CODES), ("patient", patients), ("stay", stays)):
        marks = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
        values = [value for row in rows for value in row]
        connection.execute(f"INSERT INTO app.{table} VALUES {marks}", values)
