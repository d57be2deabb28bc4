"""Forms of values in CSV files: each is read right, or refused with the readings and the option
that decides; no form becomes another value or a text without a word."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import AmbiguousValues, DbanonError, FileMalformed, InvalidParameter
from dbanon.job.reading import Reading
from dbanon.run.open import open_store
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session

MARCH, APRIL = date(2019, 3, 4), date(2019, 4, 3)
NOON = datetime(2019, 3, 4, 12, 0, tzinfo=timezone.utc)
COMMA, POINT = ["1,137", "2,500"], ["1.234", "12.500"]
DAYS, SHORT = ["03/04/2019", "01/02/2019"], ["04/07/20", "01/02/03"]
NUMBERS = ["20190304", "20191231"]


def number(text: str) -> Decimal:
    return Decimal(text)


# Texts and options; then the name of the type, and the first value.
READ: list[tuple[list[str], dict[str, Any], str, Any]] = [
    (COMMA, {"decimal": ","}, "decimal", number("1.137")),
    (COMMA, {"decimal": "."}, "integer", 1137),
    (COMMA, {"thousands": ","}, "integer", 1137),
    (COMMA, {"types": {"a": "decimal"}, "thousands": ","}, "decimal", 1137),
    (COMMA, {"types": {"a": "text"}}, "text", "1,137"),
    (POINT, {"decimal": "."}, "decimal", number("1.234")),
    (POINT, {"thousands": "."}, "integer", 1234),
    (["1.234", "0.500"], {}, "decimal", number("1.234")),
    (["1.234", "1234.5"], {}, "decimal", number("1.234")),
    (["1,137,000", "2"], {}, "integer", 1137000),
    (["1,137.50", "2"], {}, "decimal", number("1137.5")),
    (["1.137,50", "2"], {}, "decimal", number("1137.5")),
    (["1'137.50", "2"], {}, "decimal", number("1137.5")),
    (["1 137,50", "2"], {}, "decimal", number("1137.5")),
    (["1\u00a0137", "2"], {}, "integer", 1137),
    (["1\u202f137", "2"], {"thousands": " "}, "integer", 1137),
    (["950,10", "2"], {}, "decimal", number("950.1")),
    (["-1,5", "2"], {}, "decimal", number("-1.5")),
    (["12%", "5 %"], {"types": {"a": "percent"}}, "percent", number("0.12")),
    (["12%", "5 %"], {"types": {"a": "decimal"}}, "decimal", 12),
    (["+5", "-3"], {}, "integer", 5),
    (["+5.5"], {}, "decimal", number("5.5")),
    # A telephone number.
    (["+49170123456"], {}, "text", "+49170123456"),
    (["+49 170 123"], {}, "text", "+49 170 123"),
    (["2019-03-04T12:00:00Z"], {}, "timestamptz", NOON),
    (["2019-03-04 12:00:00+00"], {}, "timestamptz", NOON),
    (["2019-03-04 14:00:00+02:00"], {}, "timestamptz", NOON),
    (["2019-03-04 14:00:00 +0200"], {}, "timestamptz", NOON),
    (["2019-03-04 12:00:00.000000Z"], {}, "timestamptz", NOON),
    (["2019/03/04"], {}, "date", MARCH),
    (["2019.03.04"], {}, "date", MARCH),
    (["2019-3-4"], {}, "date", MARCH),
    (DAYS, {"dates": "dmy"}, "date", APRIL),
    (DAYS, {"dates": "mdy"}, "date", MARCH),
    (DAYS, {"types": {"a": "%m/%d/%Y"}}, "%m/%d/%Y", MARCH),
    (["03/04/2019", "31/12/2019"], {}, "date", APRIL),
    (["03/04/2019", "12/31/2019"], {}, "date", MARCH),
    (["04/04/2019"], {}, "date", date(2019, 4, 4)),
    (["03.04.2019"], {}, "date", APRIL),
    (["04-Mar-2019", "4-MAR-2019"], {}, "date", MARCH),
    (["March 4, 2019"], {}, "date", MARCH),
    (["04-Mar-19"], {"dates": "%d-%b-%y"}, "date", MARCH),
    (SHORT, {"dates": "%m/%d/%y"}, "date", date(2020, 4, 7)),
    (["31/12/99", "01/02/68"], {"dates": "%d/%m/%y"}, "date", date(1999, 12, 31)),
    (["3/4/2019 12:00 PM", "3/31/2019 1:00 AM"], {}, "timestamp", datetime(2019, 3, 4, 12)),
    (["04.03.2019 12:00"], {}, "timestamp", datetime(2019, 3, 4, 12)),
    (["3/31/2019 9:05", "3/4/2019 13:42"], {}, "timestamp", datetime(2019, 3, 31, 9, 5)),
    (["2019-03-04 9:05", "2019-03-04 13:42:10"], {}, "timestamp", datetime(2019, 3, 4, 9, 5)),
    (NUMBERS, {"types": {"a": "integer"}}, "integer", 20190304),
    (NUMBERS, {"types": {"a": "%Y%m%d"}}, "%Y%m%d", MARCH),
    (NUMBERS, {"dates": "%Y%m%d"}, "date", MARCH),
    (["20190304", "20199931"], {}, "integer", 20190304),
    (["01", "7"], {}, "text", "01"),
    (["01", "7"], {"types": {"a": "integer"}}, "integer", 1),
    (["1", "2"], {"types": {"a": "decimal"}}, "decimal", 1),
    (["1.5"], {"types": {"a": "double"}}, "double", 1.5),
    (["1.5"], {"types": {"a": "decimal(18,3)"}}, "decimal", number("1.5")),
    (["TRUE", "false"], {}, "boolean", True),
]
# Texts and options; the options that the hint names, each of which must work.
REFUSED: list[tuple[list[str], dict[str, Any], list[dict[str, Any]]]] = [
    (COMMA, {}, [{"decimal": ","}, {"thousands": ","}]),
    (["1234", "1,137"], {}, [{"decimal": ","}, {"thousands": ","}]),
    (COMMA, {"types": {"a": "decimal"}}, [{"decimal": ","}, {"thousands": ","}]),
    (POINT, {}, [{"decimal": "."}, {"thousands": "."}]),
    (["+1,137", "-2,000"], {}, [{"decimal": ","}, {"thousands": ","}]),
    (["12%", "5 %"], {}, [{"types": {"a": "percent"}}, {"types": {"a": "decimal"}}]),
    (DAYS, {}, [{"dates": "dmy"}, {"dates": "mdy"}]),
    (["03-04-2019"], {}, [{"dates": "dmy"}, {"dates": "mdy"}]),
    (["03/04/2019 10:30"], {}, [{"dates": "dmy"}, {"dates": "mdy"}]),
    (DAYS, {"types": {"a": "date"}}, [{"dates": "dmy"}, {"dates": "mdy"}]),
    (SHORT, {}, [{"dates": "%d/%m/%y"}, {"dates": "%m/%d/%y"}, {"dates": "%y/%m/%d"}]),
    (["31/12/99"], {}, [{"dates": "%d/%m/%y"}]),
    (["04.07.20"], {}, [{"dates": "%d.%m.%y"}]),
    (["04-Mar-19"], {}, [{"dates": "%d-%b-%y"}]),
    (NUMBERS, {}, [{"types": {"a": "integer"}}, {"types": {"a": "%Y%m%d"}}]),
    # The stated option rules out the only form that all values have.
    (["12/31/2019"], {"dates": "dmy"}, [{"types": {"a": "%m/%d/%Y"}}]),
    (["1,13"], {"decimal": "."}, [{"decimal": ","}]),
]


# The columns of a file with the same texts: as they are, and in quotes.
FORMS = ("a", "q")


def write(tmp_path: Path, texts: list[str]) -> Path:
    path = tmp_path / "t.csv"
    lines = [f'{text};{n};"{text}"' for n, text in enumerate(texts)]
    path.write_text("\n".join(["a;b;q", *lines, ""]), encoding="utf-8")
    return path


def of_columns(reading: dict[str, Any], *names: str) -> dict[str, Any]:
    """The options of a column ``a``, for columns of these names."""
    if "types" not in reading:
        return reading
    return reading | {"types": dict.fromkeys(names, reading["types"]["a"])}


def used(session: Session, column: str) -> Relation:
    """The relation, after a check of a column that a run uses."""
    relation = session.catalog.find_source(parse_relation("t"))
    session.catalog.require_readable(relation, [column])
    return relation


@pytest.mark.parametrize(("texts", "reading", "kind", "value"), READ)
def test_a_form_with_one_reading_is_read(
    tmp_path: Path, texts: list[str], reading: dict[str, Any], kind: str, value: Any
) -> None:
    path = write(tmp_path, texts)
    store = open_store(f"file:{path}", reading=Reading(**of_columns(reading, *FORMS)), table="t")
    with store.session(write=False) as session:
        for column in FORMS:
            relation = used(session, column)
        plain, _, quoted = session.describe_file_columns(relation)
        rows = session.rows('SELECT "a", "q" FROM "t" ORDER BY "b"')
    assert (plain.kind, quoted.kind) == (kind, kind)
    assert rows[0] == (value, value)


@pytest.mark.parametrize(("texts", "reading", "options"), REFUSED)
def test_a_form_with_more_readings_is_refused_with_options_that_work(
    tmp_path: Path,
    texts: list[str],
    reading: dict[str, Any],
    options: list[dict[str, Any]],
) -> None:
    url = f"file:{write(tmp_path, texts)}"
    first = Reading(**of_columns(reading, *FORMS))
    with open_store(url, reading=first, table="t").session(write=False) as session:
        # A run reports nothing about columns it does not use.
        used(session, "b")
        refused = {}
        for column in FORMS:
            with pytest.raises(AmbiguousValues) as caught:
                used(session, column)
            refused[column] = caught.value
    for column, error in refused.items():
        assert not any(text in str(error) for text in texts)
        hints = [hint for option in options for hint in of_columns(option, column).items()]
        hint = str(error.format_hint(spell_cli_option))
        for name, argument in hints:
            assert spell_cli_option(name, argument) in hint
        assert len(re.findall("--", hint)) == len(hints) + 1
    values = []
    for option in [*options, {"types": {"a": "text"}}]:
        again = Reading(**of_columns(reading | option, *FORMS))
        with open_store(url, reading=again, table="t").session(write=False) as session:
            for column in FORMS:
                used(session, column)
            rows = session.rows('SELECT "a", "q" FROM "t" ORDER BY "b"')
        assert all(plain == quoted for plain, quoted in rows)
        values.append(tuple(rows))
    assert len({*values[:-1]}) == len(options)


SECRET = "S3CRET"


@pytest.mark.parametrize(
    ("texts", "reading", "line", "hint"),
    [
        (["7"] * 40 + [SECRET], {}, 42, "text"),
        ([SECRET] + ["1,5"] * 40, {}, 2, "text"),
        (["2019-03-04"] * 20 + [SECRET] + ["2019-03-04"] * 20, {}, 22, "text"),
        # Numbers and days in forms that differ.
        (["1,5", "0,5", "2.5"], {}, 4, "text"),
        (["12/31/2019", "12/30/2019", "31/12/2019"], {}, 4, "text"),
        (["2019-03-04 10:00", "2019-03-05 10:00", "2019-03-04T10:00:00Z"], {}, 4, "text"),
        (["7", SECRET], {"types": {"a": "integer"}}, 3, "text"),
        (["7", "7.5"], {"types": {"a": "integer"}}, 3, "decimal"),
        (["7", "1.500"], {"types": {"a": "integer"}}, 3, "decimal"),
        (["7.25", "7.125"], {"types": {"a": "decimal(18,2)"}}, 3, "text"),
        (["0.25", "5.12"], {"types": {"a": "decimal(2,2)"}}, 3, "text"),
        (["04/03/2019", "04.03.2019"], {"types": {"a": "%d/%m/%Y"}}, 3, "text"),
    ],
)
def test_one_bad_value_is_named_by_its_line_and_column(
    tmp_path: Path, texts: list[str], reading: dict[str, Any], line: int, hint: str
) -> None:
    path = write(tmp_path, texts)
    store = open_store(f"file:{path}", reading=Reading(**of_columns(reading, *FORMS)), table="t")
    with store.session(write=False) as session:
        used(session, "b")
        for name, position in (("a", 1), ("q", 3)):
            where = rf"Line {line} of .*, column {position} \({name}\)"
            with pytest.raises(FileMalformed, match=where) as refused:
                used(session, name)
            assert SECRET not in str(refused.value)
            assert f'types={{"{name}": "{hint}"}}' in str(refused.value.hint)


def test_a_code_is_no_bad_value(tmp_path: Path) -> None:
    path = write(tmp_path, ["12345"] * 40 + ["01234"])
    with open_store(f"file:{path}", table="t").session(write=False) as session:
        columns = session.describe_file_columns(used(session, "a"))
    assert [column.kind for column in columns] == ["text", "integer", "text"]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("id, age,name\n1, 30 ,x\n2,\t31, y y \n", [(1, 30, "x"), (2, 31, "y y")]),
        # Blanks in quotes stay, and a blank before them hides no comma.
        ('id, age,name\n1, 30 , " x, y "\n2,31,z\n', [(1, 30, " x, y "), (2, 31, "z")]),
        ('id,"age",name\n1, 30 ,"say ""x"""\n2,"31" ,\n', [(1, 30, 'say "x"'), (2, 31, None)]),
        ("id;age;name\n1; ;\n2;31; k.A.\n", [(1, None, None), (2, 31, None)]),
    ],
)
def test_blanks_around_fields_are_no_part_of_them(
    tmp_path: Path, content: str, rows: list[tuple[Any, ...]]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    reading = Reading(null_words=("k.A.",))
    with open_store(f"file:{path}", reading=reading).session(write=False) as session:
        assert session.rows('SELECT "id", "age", "name" FROM "t"') == rows
    if '"' not in content:
        reading = Reading(trim=False)
        with open_store(f"file:{path}", reading=reading).session(write=False) as session:
            assert {kind for _, kind in session.catalog.list_columns(parse_relation("t"))} >= {
                "VARCHAR"
            }


def test_a_column_with_a_declared_type_exists(tmp_path: Path) -> None:
    path = write(tmp_path, ["1"])
    with (
        pytest.raises(InvalidParameter, match='no column "aa"') as refused,
        open_store(f"file:{path}", reading=Reading(types={"aa": "text"})).session(write=False),
    ):
        pass
    assert 'Did you mean "a"' in str(refused.value.hint)


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.fixture
def ambiguous(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    lines = [f"{20 + n % 9},0{1 + n % 9}/0{1 + n % 7}/2019" for n in range(60)]
    path.write_text("\n".join(["age,seen", *lines, ""]))
    return path


def test_each_door_refuses_and_takes_the_option(tmp_path: Path, ambiguous: Path) -> None:
    url, words_of_source = f"file:{ambiguous}", ("--table", "t", "--k", "3")
    words_of_output = ("--output", "release.t", "--export", tmp_path / "out.parquet")
    roles = ("-q", "age", "-q", "seen")
    target = ("--target", f"duckdb:///{tmp_path / 'o.duckdb'}")
    commands: list[tuple[Any, ...]] = [
        ("plan", url, *words_of_source, *roles, *words_of_output[:2]),
        ("anonymize", url, *words_of_source, *roles, *words_of_output, *target),
        ("advise", url, *words_of_source[:2], "--k", "3", "--methods", "mdav"),
        ("bound", url, *words_of_source, *roles, "--seconds", "0.1"),
        ("init", url, *words_of_source),
    ]
    for words in commands:
        done = call(*words)
        assert done.exit_code == 2, (words, done.output)
        assert "[ambiguous_values]" in done.stderr
        assert "--dates dmy, or --dates mdy. As text: --type seen=text" in done.stderr
        for option in (("--dates", "dmy"), ("--type", "seen=%m/%d/%Y")):
            done = call(
                *words,
                *option,
                *(
                    ("--if-exists", "replace", "--releases", "independent")
                    if words[0] == "anonymize"
                    else ()
                ),
            )
            assert done.exit_code == 0, (words, done.stderr)
    # A column that is not used is no question.
    done = call("plan", url, *words_of_source, "-q", "age", *words_of_output[:2])
    assert done.exit_code == 0, done.stderr
    python: dict[str, Any] = {"table": "t", "quasi_identifiers": ["seen"], "k": 3}
    for door, more in ((dbanon.plan, {"output": "release.t"}), (dbanon.certificate, {})):
        with pytest.raises(AmbiguousValues, match="in two ways: dd/mm/yyyy"):
            door(url, **python, **more)  # type: ignore[operator]
    with pytest.raises(AmbiguousValues) as refused:
        dbanon.advise(url, table="t", k=[3], methods=["mdav"])
    assert 'dates="dmy", or dates="mdy". As text: types={"seen": "text"}' in str(refused.value)


def test_the_advised_command_reads_the_file_as_advice_did(ambiguous: Path) -> None:
    done = call(
        "advise",
        f"file:{ambiguous}",
        "--table",
        "t",
        "--k",
        "3",
        "--methods",
        "mdav",
        "--type",
        "seen=%m/%d/%Y",
        "--no-trim",
        "--header",
    )
    assert done.exit_code == 0, done.stderr
    assert "--type seen=%m/%d/%Y" in done.stdout
    assert "--no-trim" in done.stdout
    assert "--header" in done.stdout


def test_init_states_types_that_no_other_month_changes(tmp_path: Path) -> None:
    may = "id;cost;seen;code;note\n" + "".join(
        f"{n};{1 + n % 8}50,10;{1 + n % 28}/05/2019;{n % 4};\n" for n in range(1, 61)
    )
    june = may.replace("850,10", "1850,10").replace("/05/", "/06/")
    june = june.replace("28/06", "8/06").replace(";3;\n", ";C;\n")
    path, file = tmp_path / "t.csv", tmp_path / "job.yaml"
    path.write_text(may)
    done = call("init", f"file:{path}", "--table", "t", "--k", "3")
    assert done.exit_code == 0, done.stderr
    for line in ("dates: dmy", 'decimal: ","', "cost: decimal", "seen: date", "code: integer"):
        assert f" {line}\n" in done.stdout
    assert "note: text" not in done.stdout
    url = f"duckdb:///{tmp_path / 'o.duckdb'}"
    text = re.sub(r"duckdb:///[^\"]*", url, done.stdout)
    text = re.sub(r"(code: *)\{role: [^}]*\}", r"\1{role: drop}", text)
    file.write_text(re.sub(r"(seen: *|cost: *)\{role: \w+\}", r"\1{role: quasi_identifier}", text))
    for content in (may, june, may):
        path.write_text(content)
        done = call("run", file)
        assert done.exit_code == 0, done.stderr
    # If a column that is used contains a value of another type, the job stops without any option.
    path.write_text(may.replace("850,10", "damaged", 1))
    done = call("run", file)
    assert done.exit_code == 2
    assert "Line 8 of" in done.stderr
    assert "damaged" not in done.stderr


@pytest.mark.parametrize(
    "reading",
    [
        {"dates": "ddmm"},
        {"dates": "%d.%m"},
        {"dates": "%d.%m.%Q"},
        {"types": {"a": "number"}},
        {"types": {"a": "decimal(18)"}},
        {"types": {"a": "decimal(2,3)"}},
        {"types": {"a": "decimal(0,0)"}},
        {"types": {"a": "decimal(39,2)"}},
        {"thousands": "_"},
        {"decimal": ",", "thousands": ","},
        {"skip_lines": -1},
        {"duplicate_columns": "drop"},
    ],
)
def test_what_is_no_form_is_refused(reading: dict[str, Any]) -> None:
    with pytest.raises(DbanonError):
        Reading(**reading)


def test_a_pattern_of_dates_may_begin_as_a_decimal_does() -> None:
    assert Reading(types={"a": "decimal(%d.%m.%Y"}).types == {"a": "decimal(%d.%m.%Y"}
