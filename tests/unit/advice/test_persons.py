"""Person identifiers: recognized by names in several languages, and by constant values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.names import hint_from_name
from dbanon.advice.persons import (
    BIRTH,
    NAME_REASON,
    SEX,
    VALUES_REASON,
    ConstancyWithinPerson,
    candidate_identifiers,
    coarsest_identifier,
    find_constant_attributes,
    has_many_values,
    measure_constancy,
    person_identifier_reason,
)
from dbanon.advice.profile import ColumnProfile
from dbanon.data.schema import Attribute, Kind

PERSONS = [
    "patient_id",
    "PatientID",
    "patientid",
    "Patienten-Nr",
    "PatNr",
    "Patientennummer",
    "pat_id",
    "KVNR",
    "kv_nr",
    "fallnr",
    "Fall-Nr.",
    "Fallnummer",
    "mrn",
    "MRN_No",
    "customer",
    "customer_no",
    "Kundennummer",
    "KundenNr",
    "account",
    "accountid",
    "nhs_number",
    "NHSNumber",
    "case_id",
    "encounter_id",
    "member_no",
    "student_id",
    "policyholder",
    "subscriber_key",
    "Versichertennummer",
    "Versicherten-Nr",
    "mitgliedsnummer",
    "Personalnummer",
    "idpaciente",
    "id_cliente",
    "num_patient",
    "numero_assure",
    "codice_paziente",
    "codiceFiscale",
    "cpf",
    "bsn",
    "klantnummer",
    "patientnummer",
    "personnummer",
    "kundnr",
    "kundnummer",
    "pesel",
    "id_pacjenta",
    "numer_klienta",
    "person_hash",
    "user_pseudonym",
]
OTHERS = [
    "age",
    "alter",
    "zip",
    "plz",
    "postcode",
    "sex",
    "geschlecht",
    "birth_date",
    "geburtsdatum",
    "diagnosis",
    "icd",
    "ICD10",
    "region",
    "Station",
    "ward",
    "income",
    "cost",
    "Kosten",
    "amount",
    "total",
    "visits",
    "patient_age",
    "patient_sex",
    "patients",
    "account_balance",
    "customer_segment",
    "case_severity",
    "user_rating",
    "person_count",
    "personal",
    "height",
    "employment",
    "member_since",
    "paid",
    "valid",
    "covid_status",
    "fallzahl",
    "unfall",
    "Kundenart",
    "household_size",
    "city",
    "country",
    "occupation",
    "note",
    "UTILITYID",
    "national_income",
    "wohnort",
]
NUMBERED = [
    "id",
    "nr",
    "number",
    "invoice_no",
    "record_id",
    "key",
    "session_id",
    "ward_id",
    "code",
]


@pytest.mark.parametrize("name", PERSONS)
def test_names_that_say_it(name: str) -> None:
    assert hint_from_name(name) == "person"


@pytest.mark.parametrize("name", OTHERS)
def test_names_that_do_not(name: str) -> None:
    assert hint_from_name(name) == ""


@pytest.mark.parametrize("name", NUMBERED)
def test_names_of_any_number(name: str) -> None:
    assert hint_from_name(name) == "number"


def test_columns_that_do_not_vary_within_a_person() -> None:
    names = (
        "Geburtsdatum",
        "DOB",
        "year_of_birth",
        "Geschlecht",
        "gender",
        "age",
        "date_naissance",
    )
    columns = find_constant_attributes(Attribute(name, Kind.CATEGORY) for name in names)
    assert columns == {
        "Geburtsdatum": BIRTH,
        "DOB": BIRTH,
        "year_of_birth": BIRTH,
        "Geschlecht": SEX,
        "gender": SEX,
        "date_naissance": BIRTH,
    }


def table(**kinds: str) -> list[Attribute]:
    return [Attribute(name, Kind(kind)) for name, kind in kinds.items()]


def test_what_is_worth_looking_at() -> None:
    columns = table(
        patient_id="integer",
        ward_no="integer",
        code="category",
        zip="category",
        seen="date",
        cost="decimal",
        weight="float",
    )
    # Names alone; with a birth date numbers, too; with a sex, whatever has many values.
    assert candidate_identifiers(columns) == ("patient_id",)
    birth = [*columns, *table(born="date")]
    assert candidate_identifiers(birth) == ("patient_id", "ward_no", "code")
    assert candidate_identifiers([*birth, *table(sex="category")]) == (
        "patient_id",
        "ward_no",
        "code",
        "zip",
    )
    # Number types of frames and other databases; ordered texts do not count.
    assert candidate_identifiers([Attribute("mrn", Kind.FLOAT)]) == ("mrn",)
    assert candidate_identifiers([Attribute("mrn", Kind.DECIMAL, scale=2)]) == ()
    assert candidate_identifiers([Attribute("mrn", Kind.OTHER, sql_type="uuid")]) == ("mrn",)
    assert candidate_identifiers([Attribute("mrn", Kind.CATEGORY, order=("a", "b"))]) == ()


def column(name: str, present: int, distinct: int, **more: object) -> ColumnProfile:
    return ColumnProfile(Attribute(name, Kind.CATEGORY), present, distinct, **more)  # type: ignore[arg-type]


def test_as_many_values_as_persons() -> None:
    assert has_many_values(column("patient_id", 2_000, 21))
    assert has_many_values(column("patient_id", 30, 15))
    # 15 patients of 20 visits each; and of two thousand rows one patient's, in a larger table.
    assert has_many_values(column("patient_id", 300, 15))
    assert has_many_values(column("patient_id", 2_000, 1))
    assert has_many_values(column("customer", 200, 10))
    # A yes or no, a kind: as few as that are no persons, where the name may say either.
    assert not has_many_values(column("case", 30, 3))
    assert not has_many_values(column("member_no", 300, 9))
    assert not has_many_values(column("customer", 2_000, 20))
    assert not has_many_values(column("patient_id", 2_000, 2_000, is_unique_key=True))
    # Without such a name, at most twenty rows may share a value.
    assert has_many_values(column("zip", 2_000, 100))
    assert not has_many_values(column("zip", 2_000, 99))
    assert has_many_values(column("zip", 100, 5))
    assert not has_many_values(column("zip", 50, 4))
    assert not has_many_values(column("note", 2_000, 900, mean_length=60.0))
    assert not has_many_values(column("customer", 2_000, 900, multiword_share=0.7))


def within_person(
    name: str, constant: int, by_chance: float = 10.0, values: int = 100
) -> ConstancyWithinPerson:
    return ConstancyWithinPerson(name, values, constant, by_chance)


@pytest.mark.parametrize(
    ("name", "seen", "why"),
    [
        ("patient_id", [], NAME_REASON),
        ("patient_id", [within_person(BIRTH, 80)], NAME_REASON),
        # A household, a firm: their members differ.
        ("customer", [within_person(BIRTH, 40)], ""),
        ("record_no", [within_person(BIRTH, 95)], VALUES_REASON),
        ("record_no", [within_person(BIRTH, 94)], ""),
        ("record_no", [within_person(BIRTH, 100), within_person(SEX, 60)], ""),
        ("record_no", [], ""),
        ("zip", [within_person(BIRTH, 100)], ""),
        # First names tell the sex, ages the year of birth; both only a person does.
        ("x", [within_person(BIRTH, 30), within_person(SEX, 100)], ""),
        ("x", [within_person(BIRTH, 100), within_person(SEX, 97)], VALUES_REASON),
        # Near-constant columns carry no evidence, nor do four values, nor a few by chance.
        ("record_no", [within_person(SEX, 100, by_chance=80.0)], ""),
        ("record_no", [within_person(BIRTH, 4, 0.1, values=4)], ""),
        ("record_no", [within_person(BIRTH, 5, 0.1, values=5)], VALUES_REASON),
        ("record_no", [within_person(SEX, 9, 4.5, values=9)], ""),
        ("record_no", [within_person(SEX, 15, 7.5, values=15)], VALUES_REASON),
    ],
)
def test_what_is_taken_for_a_number_of_persons(
    name: str, seen: list[ConstancyWithinPerson], why: str
) -> None:
    assert person_identifier_reason(name, seen) == why


def test_what_is_constant_is_counted() -> None:
    counts = [(3, 1, 3, 2), (2, 1, 1, 1), (2, 2, 2, 1)]
    birth, sex = measure_constancy(counts, {"born": BIRTH, "sex": SEX}, {"born": 0.0, "sex": 0.5})
    assert birth == ConstancyWithinPerson(BIRTH, 3, 2, 0.0)
    assert sex == ConstancyWithinPerson(SEX, 2, 1, 0.5**2 + 0.5)


def test_of_persons_and_their_cases_it_is_the_persons() -> None:
    cases, persons = column("case_id", 100, 90), column("patient_id", 100, 40)
    assert coarsest_identifier([cases, persons]) == "patient_id"
    assert coarsest_identifier([column("case_id", 100, 100)]) is None
    assert coarsest_identifier([]) is None


@given(st.text(max_size=30))
def test_any_text_is_a_name(name: str) -> None:
    assert hint_from_name(name) in ("", "number", "person")
