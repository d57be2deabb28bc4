"""No spelling of a URL or a connection string lets its credential through."""

from __future__ import annotations

import json

import pytest

from dbanon.doors.jobfile.field_types import has_written_password
from dbanon.errors import DatabaseFailure, has_credentials, redact

SECRET = "hunter2"
# The typed text, and its redacted form.
SPELLINGS = [
    ("postgresql://u:hunter2@h/db", "postgresql://u:***@h/db"),
    ("POSTGRESQL://u:hunter2@h/db", "POSTGRESQL://u:***@h/db"),
    ("postgresql+psycopg://u:hunter2@h:5432/db", "postgresql+psycopg://u:***@h:5432/db"),
    ("postgresql://u:p@hunter2@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:a/hunter2@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:a?b#hunter2@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:a hunter2@h/db", "postgresql://u:***@h/db"),
    ("postgresql://me@home:hunter2@h/db", "postgresql://me@home:***@h/db"),
    ("postgresql://u:%68unter2@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:5432/hunter2@[::1]:5432/db", "postgresql://u:***@[::1]:5432/db"),
    (
        "postgresql://[2001:db8::1]:5432/db?user=u&password=hunter2",
        "postgresql://[2001:db8::1]:5432/db?user=u&password=***",
    ),
    ("postgresql://u@h/db?PASSWORD=hunter2", "postgresql://u@h/db?PASSWORD=***"),
    (
        "postgresql://u@h/db?sslpassword=hunter2&sslmode=require",
        "postgresql://u@h/db?sslpassword=***&sslmode=require",
    ),
    (
        "postgresql://u@h/db?password=a&hunter2&sslmode=require",
        "postgresql://u@h/db?password=***&sslmode=require",
    ),
    ("postgresql://u@h/db?p%61ssword=hunter2", "postgresql://u@h/db?p%61ssword=***"),
    ("postgresql:u:hunter2@h/db", "postgresql:u:***@h/db"),
    ("mysql+pymysql://u@h/db?passwd=hunter2", "mysql+pymysql://u@h/db?passwd=***"),
    ("sqlite+pysqlcipher:///f.db?key=hunter2", "sqlite+pysqlcipher:///f.db?key=***"),
    ("duckdb:///md:x?motherduck_token=hunter2", "duckdb:///md:x?motherduck_token=***"),
    (
        "s3://b/f.csv?s3_secret_access_key=hunter2&s3_region=eu",
        "s3://b/f.csv?s3_secret_access_key=***&s3_region=eu",
    ),
    (
        "s3://b/f.csv?s3%5Fsecret%5Faccess%5Fkey=hunter2",
        "s3://b/f.csv?s3%5Fsecret%5Faccess%5Fkey=***",
    ),
    ("s3://b/f.csv?X-Amz-Security-Token=hunter2", "s3://b/f.csv?X-Amz-Security-Token=***"),
    ("s3://b/f.csv?X-AMZ-SIGNATURE=hunter2", "s3://b/f.csv?X-AMZ-SIGNATURE=***"),
    ("gs://b/f.csv?X-Goog-Signature=hunter2", "gs://b/f.csv?X-Goog-Signature=***"),
    (
        "https://a.blob.core.windows.net/c/f.csv?sv=2022&sig=hunter2&se=1",
        "https://a.blob.core.windows.net/c/f.csv?sv=2022&sig=***&se=1",
    ),
    (
        "AccountName=a;AccountKey=hunter2==;EndpointSuffix=core.windows.net",
        "AccountName=a;AccountKey=***;EndpointSuffix=core.windows.net",
    ),
    ("Server=h;UID=u;PWD={hunter2;x};Database=d", "Server=h;UID=u;PWD={***};Database=d"),
    (
        "jdbc:sqlserver://h:1433;user=u;password=hunter2;encrypt=true",
        "jdbc:sqlserver://h:1433;user=u;password=***;encrypt=true",
    ),
    ("jdbc:oracle:thin:u/hunter2@h:1521/x", "jdbc:oracle:***@h:1521/x"),
    (
        "mssql+pyodbc:///?odbc_connect=DRIVER%3D%7Bx%7D%3BPWD%3Dhunter2",
        "mssql+pyodbc:///?odbc_connect=***",
    ),
    ("x://h/?dsn=UID%253Du%253BPWD%253Dhunter2", "x://h/?dsn=***"),
    ("host=h user=u password=hunter2 dbname=d", "host=h user=u password=*** dbname=d"),
    ("host=h password = 'a \\' hunter2' dbname=d", "host=h password = '***' dbname=d"),
    (
        "CREATE SECRET (TYPE s3, KEY_ID 'hunter2', SECRET 'it''s hunter2')",
        "CREATE SECRET (TYPE s3, KEY_ID '***', SECRET '***')",
    ),
    ("{'host': 'h', 'password': 'hunter2'}", "{'host': 'h', 'password': '***'}"),
    (
        '(OperationalError) connection to "postgresql://u:hunter2@h/db" failed: timeout',
        '(OperationalError) connection to "postgresql://u:***@h/db" failed: timeout',
    ),
    (
        "tried postgresql://u:hunter2@h/db and mysql://v:hunter2@g/db",
        "tried postgresql://u:***@h/db and mysql://v:***@g/db",
    ),
]
HARMLESS = [
    "postgresql://u@h:5432/db?sslmode=require&connect_timeout=10",
    "postgresql://[::1]:5432/db",
    "http://localhost:8080/x: write to somebody@example.org",
    "Write duckdb:///file.duckdb: a file, and ask somebody@example.org.",
    "file:/data/a:b.csv",
    "s3://bucket/year=2025/part-?.parquet",
    'Name a unique key: key="id", kept_columns="client".',
    "SELECT count(*) FROM t WHERE \"a\" = 1 AND b = 'x'",
    'The server did not take the password of role "u", or got none.',
]


@pytest.mark.parametrize(("text", "redacted"), SPELLINGS)
def test_credentials_are_hidden_and_nothing_else(text: str, redacted: str) -> None:
    assert redact(text) == redacted
    assert "unter2" not in redact(f"The source {text}")
    # Redacting twice changes nothing more.
    assert redact(redacted) == redacted
    assert has_credentials(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_texts_stay(text: str) -> None:
    assert redact(text) == text
    assert not has_credentials(text)


@pytest.mark.parametrize("text", [text for text, _ in SPELLINGS])
def test_no_error_shows_a_credential(text: str) -> None:
    """A text of a library may get into a message, a detail or a hint, and from there anywhere."""
    error = DatabaseFailure(f"No {text}", detail=f"OSError: {text}", hint=f"Try {text}")
    error.hint = error.hint
    error_text = f"{error} {error!r} {error.args} {json.dumps(error.to_dict())}"
    assert "unter2" not in error_text


@pytest.mark.parametrize("text", [text for text, _ in SPELLINGS if "://" in text])
def test_a_job_file_knows_a_url_with_a_credential(text: str) -> None:
    assert has_written_password(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("postgresql://u:${A}@h/db", False),
        ("postgresql://u:${A?set A}@h/db?sslpassword=${B}", False),
        ("${URL}", False),
        ("postgresql://u:${A:-hunter2}@h/db", True),
        ("postgresql://u@h/db?sslpassword=${A:-hunter2}", True),
        ("postgresql://u:hunter$$2@h/db", True),
    ],
)
def test_a_variable_is_no_credential(text: str, written: bool) -> None:
    assert has_written_password(text) is written
