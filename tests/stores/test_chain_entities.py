"""How chains identify persons: tags and keys, and that neither is ever revealed."""

from __future__ import annotations

import hashlib
import hmac
import json
import stat
from pathlib import Path

import pytest

import dbanon
from dbanon.errors import (
    ChainEntityRows,
    ChainExists,
    ChainKeyWrong,
    ChainNotFound,
    ChainTurnover,
    InvalidParameter,
    NullInEntity,
    OutputExists,
    UnsupportedType,
)
from dbanon.extensions.chains.key import read_key
from tests.prerequisites import skip_case
from tests.stores.chain_cases import Chained, Months, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def _checked_as_before(database: Database, key: bytes) -> None:
    """Have the chain's key checked as by an earlier build, which made tags in another way."""
    check = hmac.new(key, b"dbanon chain", hashlib.sha256).hexdigest()
    literal = {"sqlite": f"x'{check}'", "duckdb": f"unhex('{check}')"}.get(
        database.name, f"decode('{check}', 'hex')"
    )
    database.execute(f"UPDATE {database.ledger('chain')} SET key_check = {literal}")


@pytest.mark.parametrize("earlier", [False, True])
def test_tags(database: Database, tmp_path: Path, earlier: bool) -> None:
    who = {f"P{i}é": values for i, values in Months(n=6).now.items()}
    load(database, who, "text")
    chained = Chained.create(database, tmp_path)
    key = read_key(f"file:{chained.key}")
    if earlier:
        _checked_as_before(database, key)
    chained.release()
    [(identity,)] = database.rows(
        f"SELECT CAST(identity AS VARCHAR(36)) FROM {database.ledger('chain')}"
    )
    derived_key = hmac.new(key, f"dbanon tags 1\x1f{identity}".encode(), hashlib.sha256).digest()
    for entity in who:
        # RFC 2104, or one hash under a key of the chain's own.
        tag = hmac.new(key, f"{identity}\x1f{entity}".encode(), hashlib.sha256).digest()
        if not earlier:
            tag = hashlib.sha256(derived_key + entity.encode()).digest()
        assert tag[:16] in chained.cells()
    # A person known by a tag is no newcomer in the next release.
    assert chained.release().rows_out == len(chained.cells()) == len(who)


@pytest.mark.parametrize("who", ["bigint", "text", "uuid"])
def test_ids_have_one_text(database: Database, tmp_path: Path, who: str) -> None:
    if who == "uuid" and database.name == "sqlite":
        skip_case("SQLite has no UUIDs")
    texts = {"uuid": "00000000-0000-0000-0000-00000000000{}", "text": "x{}", "bigint": "{}"}
    persons = {texts[who].format(i): v for i, v in Months(n=9).now.items()}
    load(database, persons, who)
    chained = Chained.create(database, tmp_path)
    chained.release()
    assert set(chained.history(list(persons))) == set(persons)
    del persons[texts[who].format(3)]
    load(database, persons, who)
    assert chained.release().rows_out == 9


def test_keys(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database, Months(n=9).now)
    chained = Chained.create(database, tmp_path)
    assert stat.S_IMODE(chained.key.stat().st_mode) == 0o600
    with pytest.raises(OutputExists):
        Chained.create(database, tmp_path)
    with pytest.raises(ChainExists):
        dbanon.create_chain(
            database.url,
            "patients",
            table="people",
            entity="id",
            changes="show",
            key_out=tmp_path / "other.key",
        )
    assert not (tmp_path / "other.key").exists()
    chained.release()
    monkeypatch.setenv("CHAIN_KEY", chained.key.read_text().strip())
    chained.release(chain=dbanon.Chain("patients", key="env:CHAIN_KEY"))
    monkeypatch.setenv("CHAIN_KEY", "0" * 64)
    for key, error in (
        ("env:CHAIN_KEY", ChainKeyWrong),
        ("env:NO_SUCH_KEY", ChainKeyWrong),
        (f"file:{tmp_path}/lost", ChainKeyWrong),
    ):
        with pytest.raises(error):
            chained.release(chain=dbanon.Chain("patients", key=key))
    with pytest.raises(InvalidParameter) as refused:
        dbanon.Chain("patients", key="0123abc")
    assert "0123abc" not in str(refused.value)
    chained.key.chmod(0o644)
    with pytest.raises(ChainKeyWrong, match="Users other than its owner may read"):
        chained.release()
    with pytest.raises(ChainNotFound):
        chained.release(chain=dbanon.Chain("nobody", key="env:CHAIN_KEY"))


def test_persons_have_one_row(database: Database, tmp_path: Path) -> None:
    persons = Months(n=9).now
    load(database, persons)
    chained = Chained.create(database, tmp_path)
    chained.release()
    database.execute("INSERT INTO people SELECT * FROM people WHERE id = 3")
    with pytest.raises(ChainEntityRows, match="one row"):
        chained.release()
    load(database, persons)
    database.execute("UPDATE people SET id = NULL WHERE id = 3")
    with pytest.raises(NullInEntity):
        chained.release()
    assert chained.show().sequence == 1


def test_ids_of_another_form_are_seen(database: Database, tmp_path: Path) -> None:
    persons = Months(n=40).now
    load(database, persons)
    chained = Chained.create(database, tmp_path)
    chained.release()
    load(database, {person + 1000: values for person, values in persons.items()})
    with pytest.raises(ChainTurnover, match="40 of 40 members"):
        chained.release()
    assert chained.show().sequence == 1
    chained.release(chain=chained.chain(accept_turnover=True))
    assert chained.smallest() >= 3


def test_ids_that_are_equal_without_being_so(database: Database, tmp_path: Path) -> None:
    kind = {
        "duckdb": "VARCHAR COLLATE NOCASE",
        "sqlite": "TEXT COLLATE NOCASE",
        "postgresql": "char(9)",
    }[database.name]
    load(database, {f"p{i}": v for i, v in Months(n=9).now.items()}, kind)
    with pytest.raises((ChainEntityRows, UnsupportedType)):
        Chained.create(database, tmp_path)
    load(database, {i / 2: v for i, v in Months(n=9).now.items()}, "double")
    with pytest.raises(UnsupportedType):
        Chained.create(database, tmp_path)
    assert not (tmp_path / "chain.key").exists()


def test_nothing_about_a_person_is_revealed(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No entity, tag or key in SQL text, ledger, reports or displayed chains."""
    persons = {f"secret-{i}": v for i, v in Months(n=9).now.items()}
    load(database, persons, "text")
    chained = Chained.create(database, tmp_path)
    statements: list[str] = []
    report = chained.release(on_sql=statements.append)
    load(database, dict(list(persons.items())[1:]), "text")
    chained.release(on_sql=statements.append)
    key = chained.key.read_text().strip()
    tags = [tag.hex() for tag in chained.cells()]
    outputs = [*statements, str(report), json.dumps(report.to_dict()), str(chained.show())]
    outputs += [
        str(row)
        for table in ("release", "run", "release_column")
        for row in database.ledger_rows(table)
    ]
    for text in outputs:
        assert "secret-" not in text
        assert key not in text
        assert bytes.fromhex(key).hex() not in text
        assert not any(tag in text for tag in tags)
