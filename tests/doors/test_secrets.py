"""Credentials in URLs and options never appear in the output of any interface."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import make_url

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.run.open import open_store
from dbanon.stores.files import read_url
from dbanon.stores.folders import parse_location
from dbanon.stores.origins_sql import SqlOrigin

SECRET = "hunter2"
OBJECTS = [
    "s3://bucket/f.csv?s3_secret_access_key=hunter2",
    "s3://bucket/f.csv?S3_ACCESS_KEY_ID=hunter2&s3_region=eu",
    "s3://bucket/f.csv?s3%5Fsession%5Ftoken=hunter2",
    "s3://bucket/folder/*.parquet?X-Amz-Signature=hunter2",
    "s3://bucket/f.csv;secret=hunter2",
    "s3://bucket/f.csv#token=hunter2",
    "s3://bucket/f.csv?endpoint=http://u:hunter2@h",
    "s3://key:hunter2@bucket/f.csv",
    "s3://bucket/key:hunter2@f.csv",
    "gs://bucket/f.csv?X-Goog-Signature=hunter2",
    "az://container/f.csv?sv=2022&sig=hunter2",
    "abfs://container@account/f.csv?account_key=hunter2",
]


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("url", OBJECTS)
def test_the_url_of_an_object_holds_no_credentials(url: str, tmp_path: Path) -> None:
    """In a source, a Delta table, an export and a job file's source."""
    with pytest.raises(InvalidParameter) as refused:
        parse_location(url)
    assert SECRET not in str(refused.value)
    words = ("--quasi-identifiers", "age", "--k", "2", "--output", "released")
    for form in ("text", "json"):
        for source in (url, f"delta:{url}"):
            more = ("--kept-columns", "client") if source != url else ()
            done = call("anonymize", source, "--table", "f", *words, *more, "--log-format", form)
            assert done.exit_code == 2
            assert SECRET not in done.output
    file = tmp_path / "job.yaml"
    file.write_text(
        f"version: 1\nsource: {{url: {json.dumps(url)}}}\njobs:\n"
        "  - {name: a, table: f, output: {table: r}, columns: {age: {role: quasi_identifier}}}\n"
    )
    done = call("check", file)
    assert done.exit_code != 0
    assert SECRET not in done.output


@pytest.mark.parametrize("url", ["s3://bucket/year=2025/part-?.parquet", "s3://bucket/?/f=1.csv"])
def test_a_question_mark_is_a_pattern(url: str) -> None:
    assert str(parse_location(url)) == url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@hunter2@h/db",
        "postgresql://u:p@hunter2/x@h/db",
        "postgresql://u:p@s?a=hunter2@h/db",
        "mysql+pymysql://u:p@hunter2@h/db",
        "mariadb://u:p@s/hunter2@h/db",
    ],
)
def test_a_password_with_an_at_sign_is_not_parsed_as_a_host(url: str) -> None:
    with pytest.raises(InvalidParameter, match="password") as refused:
        read_url(url)
    assert SECRET not in str(refused.value)
    done = call("releases", url, "--log-format", "json")
    assert done.exit_code == 2
    assert SECRET not in done.output


def test_an_at_sign_in_a_name_or_encoded_is_accepted() -> None:
    assert read_url("postgresql://me@home:a%40b@h/db").password == "a@b"
    assert read_url("postgresql://me@home:a@h/db").username == "me@home"
    assert read_url("postgresql://h/a@b").database == "a@b"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@h/db?passfile=hunter2&sslpassword=hunter2",
        "mysql+pymysql://u@h/db?passwd=hunter2",
        "sqlite:///file:none.db?uri=true&key=hunter2",
    ],
)
def test_no_store_shows_a_credential(url: str) -> None:
    visible_url = open_store(url).url
    assert SECRET not in visible_url
    assert "***" in visible_url


def test_no_origin_shows_a_credential() -> None:
    class Engine:
        url = make_url("snowflake://u:hunter2@h/db?token=hunter2&private_key=hunter2")

    assert SqlOrigin(Engine()).url == "snowflake://u:***@h/db"  # type: ignore[arg-type]


def test_a_path_with_a_credential_is_redacted() -> None:
    done = call("init", "file:/data/f.csv?s3_secret_access_key=hunter2", "--table", "f")
    assert done.exit_code == 2
    assert SECRET not in done.output


KEY = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "key_path",
    [
        f"file:{KEY}",
        f"file:{KEY.upper()}",
        f"file:/keys/{KEY}",
        f"file:0x{KEY}",
        f"env:a{KEY[1:]}",
        f"file:{'aB1/' * 10}aB1=",
        KEY,
    ],
)
def test_a_key_given_by_its_path_is_not_shown(key_path: str, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT range AS id, range % 3 AS age FROM range(30)"
        )
    url = f"duckdb:///{path}"
    words = ("--table", "people", "--quasi-identifiers", "age", "--k", "2", "--output", "r")
    for more in (
        ("--pseudonym", "id", "--pseudonym-key", key_path),
        ("--entity", "id", "--chain", "monthly", "--chain-key", key_path),
    ):
        done = call("anonymize", url, *words, *more)
        assert done.exit_code == 2, done.output
        assert key_path.partition(":")[2] not in done.output or key_path == KEY
        assert KEY.lower() not in done.output.lower()
    with pytest.raises(DbanonError) as refused:
        dbanon.anonymize(
            url,
            table="people",
            quasi_identifiers=["age"],
            k=2,
            output="r",
            pseudonyms=["id"],
            pseudonym_key=key_path,
        )
    assert KEY.lower() not in str(refused.value).lower()


EXTREMES = [(1.7e308, -1.7e308), (9e307, -9e307), (1.7e308, 1.6e308), (5e-324, 0.0)]


@pytest.mark.parametrize(("high", "low"), EXTREMES)
@pytest.mark.parametrize("method", ["gaa_cp", "mondrian", "kmember", "ebkc", "kaca", "full_domain"])
def test_values_without_borders_have_an_error_of_their_own(
    method: str, high: float, low: float
) -> None:
    frame = pd.DataFrame({"a": [high, low, low, high] * 5, "b": range(20)})
    with pytest.raises(DbanonError) as refused:
        dbanon.anonymize_frame(frame, quasi_identifiers=["a", "b"], k=2, method=method)
    assert refused.value.code == "range_unsuitable"
    assert '"a"' in refused.value.message
