"""The interfaces of dbanon (Python, command line, SQL), with outcomes in a common form."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

import dbanon
from tests.faults.backends import Backend, PostgresqlBackend

ROOT = Path(__file__).resolve().parents[2]
SQL_ARGUMENTS = ("entity", "keep", "sensitive", "hierarchies", "max_suppression", "nulls")
UNEXPECTED = "unexpected"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call; ``messages`` is everything it printed, raised or sent as a notice."""

    ok: bool
    code: str | None = None
    exit_code: int | None = None
    sqlstate: str | None = None
    messages: str = ""
    report: dict[str, Any] = field(default_factory=dict)


class NotExpressibleError(Exception):
    """A name cannot be written on the command line."""


def build_models(arguments: Mapping[str, Any]) -> list[Any]:
    return [dbanon.Model(**model) for model in arguments.get("models", ())]


def by_python(backend: Backend, table: str, arguments: Mapping[str, Any], **more: Any) -> Outcome:
    """Call ``dbanon.anonymize``; any exception but a DbanonError is unexpected."""
    call_arguments = {**arguments, "models": build_models(arguments), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = dbanon.anonymize(backend.url, table=table, **call_arguments)
        except dbanon.DbanonError as error:
            return Outcome(False, error.code, error.exit_code, error.sqlstate, str(error))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            messages = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            return Outcome(False, UNEXPECTED, 1, None, messages)
    plain = json.loads(json.dumps(report.to_dict(), default=str))
    return Outcome(True, exit_code=0, messages=json.dumps(plain), report=plain)


def command_line(url: str, table: str, arguments: Mapping[str, Any]) -> list[str]:
    """The arguments of ``dbanon anonymize``.

    Raises
    ------
    NotExpressibleError : a name cannot be written there.
    """
    words = ["anonymize", url, "--table", table, "--no-progress", "--format", "json"]
    for key, value in arguments.items():
        option = "--" + key.replace("_", "-")
        if key == "quasi_identifiers":
            words += [word for name in value for word in ("-q", join_names([name]))]
        elif key == "sensitive":
            words += [word for name in value for word in ("-s", join_names([name]))]
        elif key in ("keep", "by", "key"):
            words += [option, join_names(value)] if value else []
        elif key in ("options", "weights", "steps"):
            single = {"options": "--option", "weights": "--weight", "steps": "--step"}[key]
            for name, number in value.items():
                format_number = str(number).lower() if isinstance(number, bool) else str(number)
                words += [single, f"{_quote_left(name)}={format_number}"]
        elif key == "orders":
            for name, order in value.items():
                words += ["--order", f"{_quote_left(name)}={join_names(order)}"]
        elif key == "hierarchies":
            for name, tree in value.items():
                words += ["--hierarchy", f"{_quote_left(name)}={json.dumps(tree)}"]
        elif key == "models":
            for model in value:
                text = f"{_quote_left(model['attribute'])}={model['kind']}:{model['level']}"
                more = [f"{name}={model[name]}" for name in ("l", "distance") if name in model]
                words += ["--model", ":".join([text, *more])]
        elif isinstance(value, bool):
            words += [option] if value else []
        elif value is not None:
            words += [option, str(value)]
    return words


def join_names(names: Sequence[str]) -> str:
    """Names for an option: separated by commas, quoted where necessary."""
    is_plain = all(name.isalnum() for name in names)
    text = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if is_plain else csv.QUOTE_ALL
    csv.writer(text, lineterminator="", quoting=quoting).writerow(names)
    return text.getvalue()


def _quote_left(name: str) -> str:
    if "=" in name:
        raise NotExpressibleError
    return name


def run_command(words: list[str], timeout: float = 120) -> Outcome:
    """Run ``dbanon`` with these arguments in a separate process."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "dbanon"), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=timeout,
        check=False,
    )
    return outcome_of_command(done.returncode, done.stdout, done.stderr)


def outcome_of_command(exit_code: int, stdout: str, stderr: str) -> Outcome:
    messages = f"{stdout}\n{stderr}"
    plain: Any = {}
    if stdout.strip():
        try:
            plain = json.loads(stdout)
        except ValueError:
            plain = {}
    error = plain.get("error", {}) if isinstance(plain, dict) else {}
    code = error.get("code")
    if code is None and (match := re.search(r"^Error \[(\w+)\]", stderr, re.M)):
        code = match[1]
    if code is None and exit_code == 2 and "Usage:" in stderr:
        code = "usage"
    report = plain if isinstance(plain, dict) and not error else {}
    return Outcome(exit_code == 0, code, exit_code, error.get("sqlstate"), messages, report)


def sql_call(table: tuple[str, str], arguments: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The statement of a SQL call and its parameters."""
    remaining = dict(arguments)
    method, output = remaining.pop("method"), remaining.pop("output")
    names = {name: remaining.pop(name) for name in SQL_ARGUMENTS if name in remaining}
    source = ".".join('"' + part.replace('"', '""') + '"' for part in table)
    parameters: list[Any] = [source, output, remaining.pop("quasi_identifiers"), remaining.pop("k")]
    text = f"SELECT * FROM dbanon.{method}(%s::regclass, %s, %s::text[], %s"
    for name, value in {**names, "if_exists": remaining.pop("if_exists", "error")}.items():
        array = "::text[]" if name in ("keep", "sensitive") else ""
        text += f", {name} => %s{array}"
        parameters.append(Jsonb(value) if name == "hierarchies" else value)
    options = {**remaining.pop("options", {}), **remaining}
    text += ", options => %s)"
    return text, [*parameters, Jsonb(options)]


def by_sql(
    backend: PostgresqlBackend, table: tuple[str, str], arguments: Mapping[str, Any]
) -> Outcome:
    """Call the SQL function in its own transaction."""
    text, parameters = sql_call(table, arguments)
    noticed: list[str] = []
    try:
        with backend.connect() as connection:
            connection.add_notice_handler(
                lambda notice: noticed.append(f"{notice.message_primary} {notice.message_hint}")
            )
            cursor = connection.execute(text, parameters)  # type: ignore[call-overload]
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            report = dict(zip(names, cursor.fetchone() or (), strict=True))
    except psycopg.Error as error:
        return outcome_of_sql(error, noticed)
    messages = "\n".join(noticed) + json.dumps(report, default=str)
    return Outcome(True, sqlstate="00000", messages=messages, report=report)


def outcome_of_sql(error: psycopg.Error, noticed: list[str]) -> Outcome:
    diagnostics = error.diag
    messages = "\n".join(
        text
        for text in (
            str(error),
            diagnostics.message_detail,
            diagnostics.message_hint,
            diagnostics.context,
        )
        if text
    )
    return Outcome(False, None, None, error.sqlstate, "\n".join([messages, *noticed]))


def verify(backend: Backend, door: str, output: str) -> Outcome:
    """Verify a release through this interface."""
    if door == "sql":
        assert isinstance(backend, PostgresqlBackend)
        try:
            with backend.connect() as connection:
                connection.execute(
                    "SELECT * FROM dbanon.verify(%s::regclass)", [split_quoted(output)]
                )
        except psycopg.Error as error:
            return outcome_of_sql(error, [])
        return Outcome(True)
    from dbanon.run.open import open_store
    from dbanon.run.verify import verify
    from dbanon.sessions.names import parse_relation

    try:
        verdict = verify(open_store(backend.url), parse_relation(output))
    except dbanon.DbanonError as error:
        return Outcome(False, error.code, error.exit_code, error.sqlstate, str(error))
    except Exception as error:
        return Outcome(False, UNEXPECTED, 1, None, type(error).__name__)
    return Outcome(True, report=verdict.to_dict())


def collect_garbage(backend: Backend, keep_last: int = 0) -> list[str]:
    from dbanon.run.gc import collect_garbage
    from dbanon.run.open import open_store

    return [str(name) for name in collect_garbage(open_store(backend.url), keep_last=keep_last)]


def split(output: str) -> tuple[str, str]:
    """Split an output name into schema and name; parts with dots or quotes are quoted."""
    parts = re.fullmatch(r'("(?:[^"]|"")*"|[^.]*)\.("(?:[^"]|"")*"|.*)', output, re.DOTALL)
    assert parts is not None
    schema, name = (
        part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts.groups()
    )
    return schema, name


def split_quoted(output: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in split(output))
