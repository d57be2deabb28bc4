"""Identifiers in small tables: found by name, by form and by what does not vary, at every door."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.advice.forms import find_form_of_texts, forms, is_identifying
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.init import render_job_file
from dbanon.errors import PersonsBelowK
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.sql_forms import detect_forms
from tests.stores.databases import ALL_NAMES, Database
from tests.unit.advice.test_forms import EXAMPLES, ORDINARY

DATABASES = ALL_NAMES

# 15 patients of 20 visits each.
PATIENTS, VISITS = 15, 20
KINDS = {
    "USUBJID": "text",
    "ssn": "text",
    "contact": "text",
    "last": "text",
    "chart_no": "integer",
    "age": "integer",
    "town": "text",
    "severity": "text",
    "last_visit": "date",
}
IDENTIFIERS = {
    "USUBJID": "person_name",
    "ssn": "form",
    "contact": "form",
    "last": "name",
    "chart_no": "name",
}
ORDINARY_COLUMNS = {"age", "town", "severity", "last_visit"}


def visits() -> list[tuple[Any, ...]]:
    """Visits of patients whose names have no more than twenty values."""
    rng = random.Random(3)
    rows = []
    for patient in range(PATIENTS):
        number = f"{100 + patient}-{10 + patient}-{1000 + patient}"
        for _ in range(VISITS):
            day = f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 28):02}"
            rows.append(
                (
                    f"S-{patient:04}",
                    number,
                    f"p{patient}@example.org",
                    f"Name{patient}",
                    70_000 + patient,
                    20 + 3 * patient,
                    f"town {patient % 4}",
                    f"grade {rng.randrange(3)}",
                    day,
                )
            )
    rng.shuffle(rows)
    return rows


def load(database: Database) -> None:
    database.load("visits", {n: database.types[kind] for n, kind in KINDS.items()}, visits())


def require_roles(roles: dict[str, str]) -> None:
    assert {name for name, role in roles.items() if role == "identifier"} == set(IDENTIFIERS)
    assert {roles[name] for name in ORDINARY_COLUMNS} == {"quasi_identifier"}


@pytest.mark.in_turn(of="file")
def test_advice_of_a_small_table(database: Database) -> None:
    load(database)
    advice = dbanon.advise(database.url, "visits", k=[3, 5], methods=["gaa_cp"])
    require_roles({column.column.name: column.role.role for column in advice.columns})
    reasons = {column.column.name: column.role.reason for column in advice.columns}
    assert {name: reasons[name] for name in IDENTIFIERS} == IDENTIFIERS
    assert advice.entity in ("USUBJID", "ssn")
    # A frame is advised on alike.
    frame = pd.DataFrame(visits(), columns=list(KINDS))
    of_frame = dbanon.advise(frame, k=[3, 5], methods=["gaa_cp"])
    for column, other in zip(advice.columns, of_frame.columns, strict=True):
        assert (column.role, column.column.form) == (other.role, other.column.form)
    assert of_frame.entity == advice.entity


def test_what_init_writes_releases_none_of_them(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_URL", database.url)
    load(database)
    file = tmp_path / "job.yaml"
    file.write_text(render_job_file(database.url, "visits", k=3))
    text = file.read_text()
    for name in IDENTIFIERS:
        assert re.search(rf"^      {name}: +{{role: identifier}}", text, re.M), name
    with warnings.catch_warnings():
        warnings.simplefilter("error", PersonsBelowK)
        report = dbanon.run_job(file)
    assert report is not None
    assert report.entity in ("USUBJID", "ssn")
    released = database.rows(f"SELECT * FROM {database.relation('release.visits')}")
    assert released
    assert not re.search(r"S-00|example\.org|Name1|7000|-1[0-9]-10", repr(released))


@pytest.mark.in_turn(of="file")
def test_persons_of_a_small_table_are_counted(database: Database) -> None:
    load(database)
    with pytest.warns(PersonsBelowK, match="USUBJID"):
        database.anonymize(table="visits", quasi_identifiers=["age", "town"], k=5, method="gaa_cp")
    frame = pd.DataFrame(visits(), columns=list(KINDS))
    with pytest.warns(PersonsBelowK, match="USUBJID"):
        dbanon.anonymize_frame(frame, quasi_identifiers=["age", "town"], k=5, method="gaa_cp")


@pytest.mark.in_turn(of="file")
def test_names_that_have_few_values_and_are_about_something_else(database: Database) -> None:
    kinds = {
        "age": "integer",
        "hospital_name": "text",
        "phone_type": "text",
        "email": "text",
        "postal_code": "text",
        "icd": "text",
        "team_member": "text",
    }
    rows = [
        (
            20 + i % 7,
            f"clinic {i % 9}",
            ("home", "work")[i % 2],
            ("yes", "no")[i % 2],
            f"{10115 + i % 4}",
            f"E1{i % 5}.9",
            ("a", "b", "c")[i % 3],
        )
        for i in range(200)
    ]
    database.load("visits", {n: database.types[kind] for n, kind in kinds.items()}, rows)
    advice = dbanon.advise(database.url, "visits", k=[3], methods=["gaa_cp"])
    roles = {column.column.name: column.role.role for column in advice.columns}
    assert "identifier" not in roles.values(), roles


def examples() -> Iterator[tuple[str, list[str]]]:
    """Columns of texts: with the form of an identifier, nearly so, and of none."""
    yield from EXAMPLES.items()
    yield from ORDINARY.items()
    rng = random.Random(11)
    for index, form in enumerate(forms()):
        if not form.checks:
            continue
        valid, invalid = [], []
        lengths = {"IBAN": [22], "card number": [15, 16, 19]}.get(form.name)
        while len(valid) < 12:
            text = drawn_text(rng, form.pattern, lengths)
            (valid if form.matches(text) else invalid).append(text)
        spaced = [f" {text[:4]} {text[4:].lower()}" for text in valid]
        yield f"{form.name} {index}", [*spaced, invalid[0]]
        yield f"no {form.name} {index}", [*valid[:6], *invalid[:6]]


def drawn_text(rng: random.Random, pattern: str, lengths: list[int] | None) -> str:
    """A text of a pattern that is a list of characters with their number of times."""
    alternative = rng.choice(pattern.split("|"))
    text = ""
    for listed, low, high in re.findall(r"(\[[^]]+\]|[0-9])(?:\{(\d+)(?:,(\d+))?\})?", alternative):
        size = rng.randrange(int(low or 1), int(high or low or 1) + 1)
        characters = [chr(c) for c in range(48, 91) if re.fullmatch(listed, chr(c))]
        text += "".join(rng.choice(characters) for _ in range(size))
    assert lengths is None or len(text) >= min(lengths) - 7
    return text


def test_forms_are_counted_in_sql_as_in_python(database: Database) -> None:
    """A column of each kind, in one table, which has NULLs where a column has fewer values."""
    columns = [(kind, [*texts, texts[0]]) for kind, texts in examples()]
    names = [f"c{number}" for number in range(len(columns))]
    rows = [*zip_longest(*(texts for _, texts in columns)), (None,) * len(columns)]
    database.load("examined", dict.fromkeys(names, database.types["text"]), rows)
    with open_store(database.url).planning(staging=True) as session:
        relation = session.catalog.find_source(parse_relation("examined"))
        counted = detect_forms(session, relation.name, relation.schema.attributes)
    assert list(counted) == names
    for name, (kind, texts) in zip(names, columns, strict=True):
        assert counted[name] == find_form_of_texts(texts[:-1]), kind
        assert is_identifying(counted[name]) == (kind not in ORDINARY and kind[:3] != "no ")


@pytest.mark.in_turn
def test_only_columns_with_possible_forms_are_examined_form_by_form(database: Database) -> None:
    texts = dict.fromkeys(("town", "ssn"), database.types["text"])
    database.load("examined", texts, [(f"town {i % 9}", f"123-45-{1000 + i}") for i in range(99)])
    statements: list[str] = []
    with open_store(database.url, statements.append).planning(staging=True) as session:
        relation = session.catalog.find_source(parse_relation("examined"))
        town, ssn = (relation.attribute(name) for name in texts)
        del statements[:]
        assert detect_forms(session, relation.name, [town]) == {"town": ""}
        assert len(statements) == 1
        forms_by_name = detect_forms(session, relation.name, [town, ssn])
    assert forms_by_name == {"town": "", "ssn": "social security number"}
    assert "town" not in statements[2]


@pytest.mark.in_turn
def test_nine_tenths_of_many_values_have_a_form_whichever_come_first(database: Database) -> None:
    """In both columns, other values come first: a tenth of them, and one more."""
    numbers = [f"123-45-{1000 + i}" for i in range(600)]
    rows = [
        (f"word {'x' * i}" if i < 60 else number, f"word {'x' * i}" if i < 61 else number)
        for i, number in enumerate(numbers)
    ]
    database.load("examined", dict.fromkeys(("a", "b"), database.types["text"]), rows)
    with open_store(database.url).planning(staging=True) as session:
        relation = session.catalog.find_source(parse_relation("examined"))
        counted = detect_forms(session, relation.name, relation.schema.attributes)
    assert counted == {"a": "social security number", "b": ""}


def test_numbers_with_check_digits_in_columns_of_numbers(database: Database) -> None:
    numbers = [
        4111111111111111,
        5500005555555559,
        6011111111111117,
        5105105105105100,
        4012888888881881,
        4222222222222220,
    ]
    rows = [(number, 20 + index) for index, number in enumerate(numbers)] * 20
    kinds = {"payment": database.types["bigint"], "age": database.types["integer"]}
    database.load("visits", kinds, rows)
    advice = dbanon.advise(database.url, "visits", k=[3], methods=["gaa_cp"])
    roles = {
        column.column.name: (column.role.role, column.role.reason) for column in advice.columns
    }
    assert roles["payment"] == ("identifier", "form")
    assert roles["age"][0] == "quasi_identifier"


@pytest.mark.filterwarnings("ignore::dbanon.errors.PersonsBelowK")
def test_json_of_the_command_has_no_value(database: Database) -> None:
    load(database)
    line = ["advise", database.url, "--table", "visits", "--k", "3", "--format", "json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    plain = json.loads(done.stdout)
    require_roles({column["name"]: column["role"] for column in plain["columns"]})
    assert not re.search(r"S-00|@example|Name1|-1[0-9]-10", done.output)
