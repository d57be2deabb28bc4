"""Column names: identifiers in many languages, and ordinary names that are none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.names import (
    WORDS_FILE,
    has_only_number_words,
    hint_from_name,
    is_about_something_else,
    load_word_lists,
    names_identifier,
    names_person_identifier,
    split_name,
    words_in_name,
)

ROLES = ("identifier", "number", "sensitive", "known", "numbered", "about")
PERSONS = ("person", "person_or_place", "person_number", "joined", "coded", "birth", "sex")

# From public data models (CDISC, DaTraV, Synthea, COMPAS, OMOP), and common column names.
IDENTIFIERS = [
    "USUBJID",
    "SUBJID",
    "VSID",
    "PSID",
    "SSN",
    "DRIVERS",
    "PASSPORT",
    "FIRST",
    "LAST",
    "MAIDEN",
    "first",
    "last",
    "fname",
    "lname",
    "FirstName",
    "LAST_NAME",
    "middle",
    "tel",
    "Tel.",
    "tel_no",
    "chart_no",
    "ChartNumber",
    "device_id",
    "DeviceID",
    "patient_id",
    "PatientNr",
    "mrn",
    "MRN_No",
    "e_mail",
    "EmailAddress",
    "iban",
    "IMEI",
    "ip_address",
    "nhs_number",
    "medicare_no",
    "policy_no",
    "badge_id",
    "license_number",
    "licence_no",
    "vehicle_id",
    "card_number",
    "contract_no",
    # German, French, Spanish, Portuguese, Italian, Dutch, Polish.
    "Vorname",
    "Nachname",
    "Geburtsname",
    "Straße",
    "Telefon-Nr",
    "Handynummer",
    "KVNR",
    "Versichertennummer",
    "Patientenakte-Nr",
    "Ausweisnummer",
    "Steuer-ID",
    "prénom",
    "nom",
    "numéro_sécu",
    "courriel",
    "adresse_postale",
    "NIR",
    "nombre",
    "apellidos",
    "apellido_paterno",
    "correo_electrónico",
    "teléfono",
    "DNI",
    "curp",
    "CURP",
    "rut",
    "cédula",
    "numero_poliza",
    "nome",
    "sobrenome",
    "telefone",
    "morada",
    "CPF",
    "cognome",
    "codice_fiscale",
    "indirizzo",
    "cellulare",
    "tessera_sanitaria",
    "achternaam",
    "voornaam",
    "BSN",
    "huisnummer",
    "emailadres",
    "imię",
    "nazwisko",
    "PESEL",
    "numer_telefonu",
    "adres",
    # Turkish, Nordic, Czech, Hungarian, Romanian, Greek.
    "adı",
    "soyadı",
    "TC_Kimlik_No",
    "telefon",
    "cep_telefonu",
    "fornavn",
    "etternavn",
    "efternamn",
    "fødselsnummer",
    "personnummer",
    "sukunimi",
    "henkilötunnus",
    "jméno",
    "příjmení",
    "rodné_číslo",
    "vezetéknév",
    "nume",
    "CNP",
    "AMKA",
    "eponymo",
    # Chinese, Japanese, Korean, Russian: in Latin letters, and in their own.
    "xingming",
    "shenfenzheng",
    "shouji_hao",
    "姓名",
    "患者姓名",
    "身份证号",
    "手机号码",
    "shimei",
    "denwa_bango",
    "mynumber",
    "氏名",
    "電話番号",
    "メールアドレス",
    "患者番号",
    "患者ID",
    "이름",
    "주민등록번호",
    "전화번호",
    "familiya",
    "фамилия",
    "Телефон",
    "СНИЛС",
    "aadhaar",
    "nric",
    "KTP",
    "alamat",
    "cccd",
]
ORDINARY = [
    "last_visit",
    "first_visit_date",
    "last_update",
    "first_seen",
    "is_first",
    "last_value",
    "hotel",
    "telework",
    "route",
    "ruta",
    "cost_per_unit",
    "per_capita",
    "personal_best",
    "persona2",
    "age",
    "alter",
    "edad",
    "idade",
    "sex",
    "geschlecht",
    "birth_date",
    "geburtsdatum",
    "zip",
    "zip_code",
    "postcode",
    "PLZ",
    "code_postal",
    "cap",
    "city",
    "ville",
    "ciudad",
    "country",
    "region",
    "ward",
    "diagnosis",
    "icd10",
    "icd_code",
    "income",
    "salary",
    "amount",
    "betrag",
    "price",
    "cost",
    "visits",
    "n_visits",
    "height",
    "weight",
    "bmi",
    "education",
    "occupation",
    "employer_size",
    "marital_status",
    "household_size",
    "device_type",
    "card_type",
    "policy_type",
    "chart_date",
    "driver_age",
    "drivers_count",
    "license_class",
    "contract_type",
    "vehicle_year",
    "patient_age",
    "patients",
    "subject_area",
    "member_since",
    "customer_segment",
    "case_severity",
    "account_balance",
    "fallzahl",
    "unfall",
    "Kundenart",
    "maidenhead",
    "middle_class",
    "lastday",
    "firstaid",
    "sincerity",
    "panorama",
    "tint",
    "telemetry",
    "hotline",
    "renamed_count",
    "rutland",
    "device_class",
    "score",
    "rank",
    "level",
    "year",
    "month",
    "timestamp",
    "created",
    "status",
    "category",
    "type",
    "kind",
    "grp",
    "value",
    "result",
    "dose",
    "unit",
    "temperature",
    "total",
    "product",
    "brand",
    "color",
    "species",
    "latitude",
    "longitude",
    "rating",
    "department",
]


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_identifiers_in_many_languages(name: str) -> None:
    assert names_identifier(name) or names_person_identifier(name)
    assert not is_about_something_else(name)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_no_identifiers(name: str) -> None:
    assert not names_identifier(name)
    assert not names_person_identifier(name)


@pytest.mark.parametrize(
    "name",
    [
        "hospital_name",
        "phone_type",
        "email_sent",
        "has_phone",
        "city_name",
        "drug_name",
        "address_type",
        "hospital_name_2",
        "Klinik_Name",
        "nom_ville",
    ],
)
def test_names_about_something_else(name: str) -> None:
    assert is_about_something_else(name)


@pytest.mark.parametrize("name", ["patient_id", "subject_no", "USUBJID", "Kunden-Nr", "pesel"])
def test_names_that_leave_no_doubt(name: str) -> None:
    assert names_person_identifier(name)


@pytest.mark.parametrize(
    # Alone a yes or no; a place in a household; a school's subject.
    "name",
    ["patient", "case", "member_no", "person_id", "subject_code", "account", "fall"],
)
def test_names_that_leave_doubt(name: str) -> None:
    assert hint_from_name(name) == "person"
    assert not names_person_identifier(name)


def test_numbers_alone() -> None:
    assert has_only_number_words("id")
    assert has_only_number_words("record_no")
    assert not has_only_number_words("ward_id")
    assert not has_only_number_words("code")
    assert not has_only_number_words("")


SURVEYS = ("code_name", "amount", "design_weight", "household", "household_number")


def test_the_word_list_is_well_formed() -> None:
    lines = WORDS_FILE.read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    form = re.compile(r"\[\w+\]|[a-z]{2}:( \w+)+")
    assert [line for line in entries if not form.fullmatch(line)] == []
    assert set(load_word_lists()) == {*ROLES, *PERSONS, *SURVEYS, "whole_name"}
    languages = {line[:2] for line in entries if not line.startswith("[")}
    assert {"en", "de", "fr", "es", "pt", "it", "nl", "pl", "tr", "zh", "ja"} <= languages


def test_no_word_says_two_things() -> None:
    seen: dict[str, str] = {}
    for name in (*ROLES, *PERSONS):
        for word in load_word_lists()[name]:
            assert seen.setdefault(word, name) == name, f"{word} is in two lists"


def test_every_word_is_found_in_a_name() -> None:
    for word in sorted(set().union(*load_word_lists().values())):
        spelled = [word.upper(), f"x_{word}", f"{word}-2", f"my {word}"]
        # Scripts without capitals have no such way of joining words.
        spelled += [f"x{word.title()}"] if word.title() != word else []
        for name in (word, *spelled):
            assert word in words_in_name(name)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("PatientName", {"patient", "name"}),
        ("patientID2", {"patient", "id2"}),
        ("HTTPAddress", {"http", "address"}),
        ("Einkünfte", {"einkunfte"}),
        ("Straße", {"strasse"}),
        ("płeć", {"plec"}),
        ("adı", {"adi"}),
        ("患者ID", {"患者", "id"}),
        ("", {""}),
    ],
)
def test_names_in_parts(name: str, parts: set[str]) -> None:
    assert parts <= words_in_name(name)


@given(st.text(max_size=30))
def test_any_text_is_a_name(name: str) -> None:
    assert hint_from_name(name) in ("", "number", "person")
    assert all(part == part.strip() for part in split_name(name))
    assert isinstance(names_identifier(name), bool)
    assert isinstance(names_person_identifier(name), bool)
