"""Which of the 18 kinds of identifiers a column's name and type suggest."""

from __future__ import annotations

from typing import Any

import pytest

from dbanon.advice.safe_harbor import (
    AGES,
    BIRTH_YEARS,
    PHOTOS,
    find_identifier_kind,
    first_birth_year,
    is_coded_as_required,
)
from dbanon.data.schema import Attribute, Kind

LETTERS = {
    "A": "patient_name lastName employer_name company_name mothers_maiden_name initials",
    "B": "street city zip zip5 ZIP_CODE zip3 postal_code county birthplace lat gps_lon city_name"
    " zip3_category city_type",
    "C": "dob birth_date BirthMonth admission_date day_of_year discharged_at age patientAge"
    " age_group age_category age_at_death birth_year year_of_birth geburtsdatum admission_month"
    " date_of_death",
    "D": "home_phone cell_no tel mobile phone_number",
    "E": "fax fax_number",
    "F": "email e_mail email_address",
    "G": "ssn social_security_number",
    "H": "mrn medical_record_no chart_no record_number",
    "I": "member_id policy_number beneficiaryId medicare_no",
    "J": "account_no accountnumber card_number iban",
    "K": "license_no driver_license passport_number certificateId",
    "L": "vin license_plate vehicle_id",
    "M": "device_serial serial_number imei mac_address implant_id",
    "N": "url homepage",
    "O": "ip ip_address client_ip",
    "P": "fingerprint voiceprint",
    "Q": "photo profile_picture",
    "R": "id uuid patient_id user_id household_id encounter_id claim_no barcode nachname",
}
RELEASED = (
    "state region country sex race height weight diagnosis icd10 drug_name hospital_name"
    " phone_type account_balance plan_code insurer length_of_stay hours_per_week admission_year"
    " year dosage stage number_of_devices smoker income education age_unit city_count marital"
    " has_email is_member"
)


def attribute(name: str, kind: Kind = Kind.CATEGORY, sql_type: str = "text") -> Attribute:
    return Attribute(name, kind, sql_type=sql_type)


@pytest.mark.parametrize("letter", LETTERS)
def test_names_of_a_kind(letter: str) -> None:
    for name in LETTERS[letter].split():
        kind = find_identifier_kind(attribute(name))
        assert kind is not None, name
        assert kind.letter == letter, (name, kind)


def test_names_of_none() -> None:
    kinds = {name: find_identifier_kind(attribute(name)) for name in RELEASED.split()}
    assert not {name: kind for name, kind in kinds.items() if kind is not None}


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
def test_dates_of_any_name(kind: Kind) -> None:
    identifier_kind = find_identifier_kind(attribute("v17", kind, "date"))
    assert identifier_kind is not None
    assert identifier_kind.letter == "C"


@pytest.mark.parametrize(
    ("sql_type", "letter"),
    [("inet", "O"), ("macaddr", "M"), ("uuid", "R"), ("BLOB", "Q"), ("varbinary(16)", "Q"),
     ("point", "B")],
)  # fmt: skip
def test_types(sql_type: str, letter: str) -> None:
    identifier_kind = find_identifier_kind(attribute("v17", Kind.OTHER, sql_type))
    assert identifier_kind is not None
    assert identifier_kind.letter == letter


def test_persons_of_at_most_89_years() -> None:
    first = first_birth_year(2026)
    # Born on the first day of the year before, a person is 90 on the last day of 2026.
    assert 2026 - (first - 1) == 90
    assert 2026 - first == 89


def test_coding() -> None:
    coded: dict[str, Any] = {"top": {}, "bottom": {}, "recode": {}, "year": 2026}
    assert is_coded_as_required(AGES, "age", **(coded | {"top": {"age": 90}}))
    assert is_coded_as_required(AGES, "age", **(coded | {"recode": {"age": [18, 90]}}))
    assert not is_coded_as_required(AGES, "age", **coded)
    assert not is_coded_as_required(AGES, "age", **(coded | {"top": {"age": 91}}))
    assert not is_coded_as_required(AGES, "age", **(coded | {"top": {"other": 90}}))
    assert not is_coded_as_required(AGES, "age", **(coded | {"recode": {"age": [18, 91]}}))
    year = "birth_year"
    assert is_coded_as_required(BIRTH_YEARS, year, **(coded | {"bottom": {year: 1937}}))
    assert is_coded_as_required(BIRTH_YEARS, year, **(coded | {"recode": {year: [1940, 1950]}}))
    assert not is_coded_as_required(BIRTH_YEARS, year, **(coded | {"bottom": {year: 1936}}))
    assert not is_coded_as_required(BIRTH_YEARS, year, **(coded | {"recode": {year: [1930, 1950]}}))
    assert not is_coded_as_required(PHOTOS, "age", **(coded | {"top": {"age": 90}}))
