"""Files of rows in other forms: tabs, packed files, spreadsheets, no header, lines before it."""

from __future__ import annotations

import gzip
import zipfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import ColumnsRenamed, DbanonError, FileMalformed, InvalidParameter, MemoryLimit
from dbanon.job.reading import Reading
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.prerequisites import import_or_skip

ROWS = [(1, 30, "x"), (2, 31, "y"), (3, 31, "z")]
TEXT = "id,age,name\n" + "".join(f"{row_id},{age},{name}\n" for row_id, age, name in ROWS)


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(content, asbytes=True)
    return packed


def loaded(
    path: Path, memory: int | None = None, **reading: Any
) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """Types by column, and the rows."""
    store = open_store(f"file:{path}", reading=Reading(**reading), table="t", memory=memory)
    with store.session(write=False) as session:
        types = dict(session.catalog.list_columns(parse_relation("t")))
        return types, session.rows('SELECT * FROM "t"')


def refused(path: Path, kind: type[DbanonError] = FileMalformed, **reading: Any) -> DbanonError:
    with pytest.raises(kind) as error:
        loaded(path, **reading)
    return error.value


def on_line(error: DbanonError) -> str:
    return str(error.format_hint(spell_cli_option))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", TEXT.replace(",", "\t").encode()),
        ("t.txt", TEXT.replace(",", ";").encode()),
        ("t.TXT", TEXT.encode()),
        ("t.csv.gz", gzip.compress(TEXT.encode())),
        ("t.tsv.gz", gzip.compress(TEXT.replace(",", "\t").encode())),
        ("t.csv.gz", gzip.compress(TEXT[:20].encode()) + gzip.compress(TEXT[20:].encode())),
        ("t.csv.zst", zstd(TEXT.encode())),
    ],
    ids=["tsv", "txt", "TXT", "csv.gz", "tsv.gz", "two packed parts", "csv.zst"],
)
def test_files_are_read_by_their_endings(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert loaded(path)[1] == ROWS
    # The table is called as the file, without its endings.
    with open_store(f"file:{path}").session(write=False) as session:
        assert session.catalog.find_source(parse_relation("t")).schema.attributes


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_file_that_is_cut_off_or_too_large_is_refused(tmp_path: Path, pack: Any) -> None:
    ending = "zst" if pack is zstd else "gz"
    path = tmp_path / f"t.csv.{ending}"
    path.write_bytes(pack(("id,age\n" + "1,2\n" * 100_000).encode())[:-20])
    assert "is not of the kind that its name says" in refused(path).message
    path.write_bytes(TEXT.encode())
    assert "is not of the kind that its name says" in refused(path).message
    path.write_bytes(pack(b"id,age\n" + b"1,2\n" * 20_000_000))
    store = open_store(f"file:{path}", memory=70_000_000)
    with pytest.raises(MemoryLimit), store.session(write=False):
        pass


def test_a_note_in_a_folder_is_no_file_of_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(TEXT)
    (tmp_path / "in" / "README.txt").write_text("read me")
    with (
        pytest.raises(FileMalformed, match=r"README\.txt is among"),
        open_store(f"file:{tmp_path / 'in'}/").session(write=False),
    ):
        pass
    (tmp_path / "in" / "README.txt").write_text(TEXT)
    with open_store(f"file:{tmp_path}/in/*.txt", table="t").session(write=False) as session:
        assert session.rows("SELECT * FROM t") == ROWS


def test_a_file_without_a_header_needs_the_option(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("4711,30\n4712,31\n4713,33\n")
    error = refused(path)
    assert "Line 1 of" in error.message
    assert "4711" not in str(error)
    assert "--no-header" in on_line(error)
    assert "--header" in on_line(error)
    types, rows = loaded(path, header=False)
    assert (types, len(rows)) == ({"column0": "BIGINT", "column1": "BIGINT"}, 3)
    types, rows = loaded(path, header=True)
    assert (types, len(rows)) == ({"4711": "BIGINT", "30": "BIGINT"}, 2)
    done = call(
        "plan",
        f"file:{path}",
        "--table",
        "t",
        "-q",
        "column1",
        "--k",
        "2",
        "--no-header",
        "--output",
        "r.t",
    )
    assert done.exit_code == 0, done.stderr
    # Errors in a file without a header name the line, too.
    path.write_text("7,30\n" + "1,2\n" * 40 + "x,2\n")
    store = open_store(f"file:{path}", reading=Reading(header=False), table="t")
    with store.session(write=False) as session:
        relation = session.catalog.find_source(parse_relation("t"))
        with pytest.raises(FileMalformed, match=r"Line 42 of .*, column 1 \(column0\)"):
            session.catalog.require_readable(relation, ["column0"])


@pytest.mark.parametrize(
    ("before", "skipped"),
    [("Stays of May\n", 1), ("Hospital X;\nStays of May\n\n", 3)],
)
def test_lines_before_the_header_are_skipped_when_told(
    tmp_path: Path, before: str, skipped: int
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(before + TEXT)
    assert f"skip_lines={skipped}" in str(refused(path).hint)
    assert loaded(path, skip_lines=skipped)[1] == ROWS
    path.write_text(before + TEXT + "4,S3CRET\n")
    error = refused(path, skip_lines=skipped)
    assert f"Line {skipped + 5} of" in error.message
    assert "S3CRET" not in str(error)
    path.write_text(f'"of\nMay"\n{TEXT}')
    assert "has quotes" in refused(path, skip_lines=2).message


def test_columns_with_equal_names_are_renamed_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,id,Age,age,age_2\n1,2,3,4,5\n")
    error = refused(path)
    assert "names two columns the same: columns 1 and 3" in error.message
    assert "--duplicate-columns rename" in on_line(error)
    with pytest.warns(ColumnsRenamed, match='renamed: "Age_3", "age_4"'):
        types, rows = loaded(path, duplicate_columns="rename")
    path.write_text("age,id,Age\n" + "1,2,3\n" * 5)
    done = call(
        "plan",
        f"file:{path}",
        "--table",
        "t",
        "-q",
        "Age_2",
        "--k",
        "2",
        "--output",
        "r.t",
        "--duplicate-columns",
        "rename",
    )
    assert done.exit_code == 0, done.stderr
    assert "Warning: Duplicate columns in" in done.stderr
    assert [*types] == ["age", "id", "Age_3", "age_4", "age_2"]
    assert rows == [(1, 2, 3, 4, 5)]


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    """A spreadsheet, made of what its format needs."""

    def cell(value: Any) -> str:
        if isinstance(value, date):
            days = (value - date(1899, 12, 30)).days
            return f'<c s="1"><v>{days}</v></c>'
        if isinstance(value, bool):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        return "<c/>" if value is None else f"<c><v>{value}</v></c>"

    main, office = "spreadsheetml/2006/main", "officeDocument/2006/relationships"
    of = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{of}/package/2006/content-types">'
        '<Default Extension="rels"'
        ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{of}/package/2006/relationships"><Relationship'
        f' Id="r0" Type="{of}/{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{of}/{main}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14"/></cellXfs></styleSheet>',
        "xl/workbook.xml": f'<workbook xmlns="{of}/{main}" xmlns:r="{of}/{office}"><sheets>'
        + "".join(
            f'<sheet name="{sheet}" sheetId="{n}" r:id="r{n}"/>'
            for n, sheet in enumerate(sheets, 1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{of}/package/2006/relationships">'
        f'<Relationship Id="s" Type="{of}/{office}/styles" Target="styles.xml"/>'
        + "".join(
            f'<Relationship Id="r{n}" Type="{of}/{office}/worksheet"'
            f' Target="worksheets/sheet{n}.xml"/>'
            for n, _ in enumerate(sheets, 1)
        )
        + "</Relationships>",
        **{
            f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{of}/{main}"><sheetData>'
            + "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            + "</sheetData></worksheet>"
            for n, rows in enumerate(sheets.values(), 1)
        },
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + content)
    return path


PEOPLE: list[list[Any]] = [
    ["id", "born", "cost", "plz", "note", "is_in"],
    [1, date(1999, 3, 4), 1.234, "01234", "a, b", True],
    [2, date(2001, 12, 31), 12.5, "80331", None, False],
    [3, None, 950, "10115", ' "x" ', True],
]


@pytest.fixture
def _calamine() -> None:
    import_or_skip("python_calamine")


@pytest.mark.usefixtures("_calamine")
def test_a_spreadsheet_is_read_in_its_types(tmp_path: Path) -> None:
    path = workbook(tmp_path / "t.xlsx", {"Tabelle1": PEOPLE, "empty": []})
    types, rows = loaded(path)
    assert types == {
        "id": "BIGINT",
        "born": "DATE",
        "cost": "DECIMAL(15,4)",
        "plz": "VARCHAR",
        "note": "VARCHAR",
        "is_in": "BOOLEAN",
    }
    assert rows[0] == (1, date(1999, 3, 4), Decimal("1.234"), "01234", "a, b", True)
    assert rows[2][1] is None
    # Typed numbers need no decimal mark, and the encoding option applies to other formats.
    assert loaded(path, encoding="latin-1")[1] == rows
    assert (
        dbanon.plan(f"file:{path}", table="t", quasi_identifiers=["cost"], k=2, output="r.t").rows
        == 3
    )


@pytest.mark.usefixtures("_calamine")
def test_of_several_sheets_one_is_named(tmp_path: Path) -> None:
    path = workbook(tmp_path / "t.xlsx", {"May": PEOPLE, "June": PEOPLE[:2]})
    error = refused(path, InvalidParameter)
    assert "--sheet May, or --sheet June" in on_line(error)
    assert len(loaded(path, sheet="June")[1]) == 1
    assert "--sheet May" in on_line(refused(path, InvalidParameter, sheet="july"))
    path.write_text("no workbook")
    assert "is not of the kind that its name says" in refused(path).message


def bomb(path: Path, *cells: str, texts: str = "", name: str = "May") -> Path:
    """A workbook of one sheet with these cells, as XML."""
    workbook(path, {name: []})
    with zipfile.ZipFile(path) as file:
        parts = {member: file.read(member) for member in file.namelist()}
    of = "http://schemas.openxmlformats.org"
    main = f'xmlns="{of}/spreadsheetml/2006/main"'
    parts["xl/worksheets/sheet1.xml"] = (
        f"<worksheet {main}><sheetData><row>{''.join(cells)}</row></sheetData></worksheet>"
    ).encode()
    if texts:
        parts["xl/sharedStrings.xml"] = f"<sst {main}>{texts}</sst>".encode()
        links = parts["xl/_rels/workbook.xml.rels"].decode()
        kind = f"{of}/officeDocument/2006/relationships/sharedStrings"
        link = f'<Relationship Id="t" Type="{kind}" Target="sharedStrings.xml"/>'
        end = "</Relationships>"
        parts["xl/_rels/workbook.xml.rels"] = links.replace(end, link + end).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in parts.items():
            file.writestr(member, content)
    return path


MEMORY = 256 * 2**20


@pytest.mark.usefixtures("_calamine")
@pytest.mark.parametrize(
    "cells",
    [
        # The grid between two cells has 17 thousand million.
        ('<c r="A1"><v>1</v></c>', '<c r="XFD1048576"><v>1</v></c>'),
        ('<c r="A1"><v>1</v></c>', """<c a="> r='B1'" r="XFD1048576"><v>1</v></c>"""),
        ('<c r="A1"><v>1</v></c>', """<c x:r="B1" r = 'XFD1048576'><v>1</v></c>"""),
        ('<c r="A1" t="inlineStr"><is><t>' + "a" * 300 * 2**20 + "</t></is></c>",),
    ],
    ids=["grid", "quoted", "other attribute", "unpacked"],
)
def test_a_small_workbook_that_becomes_large_is_refused(
    tmp_path: Path, cells: tuple[str, ...]
) -> None:
    path = bomb(tmp_path / "t.xlsx", *cells)
    assert path.stat().st_size < 2**20
    error = refused(path, MemoryLimit, memory=MEMORY)
    assert "t.xlsx" in error.message


@pytest.mark.usefixtures("_calamine")
def test_shared_texts_count_for_each_cell(tmp_path: Path) -> None:
    """A text of 200 KiB in 3,000 cells: 600 MB, of a file of 20 KiB."""
    cell = '<c t="s"><v>0</v></c>'
    path = bomb(tmp_path / "t.xlsx", cell * 3000, texts=f"<si><t>{'a' * 200 * 2**10}</t></si>")
    assert path.stat().st_size < 2**16
    assert "t.xlsx" in refused(path, MemoryLimit, memory=MEMORY).message


@pytest.mark.usefixtures("_calamine")
def test_a_part_that_is_larger_than_its_directory_says(tmp_path: Path) -> None:
    path = bomb(tmp_path / "t.xlsx", "<c><v>1</v></c>" * 1000)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        size = file.getinfo("xl/worksheets/sheet1.xml").file_size
    path.write_bytes(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert "is not of the kind that its name says" in refused(path).message


@pytest.mark.usefixtures("_calamine")
def test_a_missing_sheet_loads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "t.xlsx", {"May": PEOPLE, "June": PEOPLE})
    import python_calamine

    load = python_calamine.load_workbook

    class Book:
        def __init__(self, *args: Any) -> None:
            self.sheet_names = load(*args).sheet_names

    monkeypatch.setattr(python_calamine, "load_workbook", Book)
    assert "--sheet May, or --sheet June" in on_line(refused(path, InvalidParameter, sheet="july"))
