"""Job files that are refused for a form of YAML."""

from __future__ import annotations

from tests.doors.jobs.wrong_file import (
    JOB,
    SECRET,
    Wrong,
)

WRONG_YAML = [
    Wrong("open bracket", "{role: drop}", "{role: [drop}", "", "is not YAML"),
    Wrong("open quote", '"age > 1"', f'"{SECRET}', "", "is not YAML", 27),
    Wrong("tab", "  url:", "\turl:", "", "is not YAML"),
    Wrong("colon", "table: people", f"table: a: {SECRET}", "", "is not YAML"),
    Wrong("at sign", "table: people", f"table: @{SECRET}", "", "is not YAML"),
    Wrong("control character", "table: people", "table: a\x07b", "", "is not YAML"),
    Wrong("directive", "version: 1", f"%YAML 9.{SECRET}\n---\nversion: 1", "", "is not YAML"),
    Wrong(
        "second document",
        "keep_last: 2\n",
        f"keep_last: 2\n---\n{SECRET}: 1\n",
        "",
        "second document",
    ),
    Wrong("anchor", "table: people", "table: &a people", f"{JOB}.table", "anchor"),
    Wrong("anchor of a mapping", "{role: drop}", "&a {role: drop}", f"{JOB}.columns.id", "anchor"),
    Wrong("alias", "id: {role: drop}", f"id: *{SECRET[:4]}", f"{JOB}.columns.id", "alias"),
    Wrong("merge", "  schema: release", "  <<: {schema: release}", 'target."<<"', "merge"),
    Wrong("tag", "table: people", "table: !!str people", f"{JOB}.table", "tag"),
    Wrong("own tag", "table: people", "table: !python/name:os.system x", f"{JOB}.table", "tag"),
    Wrong("tag of a list", "jobs:\n", "jobs: !!seq\n", "jobs", "tag"),
    Wrong(
        "equal keys",
        "method: mdav",
        "method: mdav\n  k: 9",
        "defaults.k",
        "already appears on line 7",
        9,
    ),
    Wrong(
        "equal columns",
        "id: {role: drop}",
        "age: {role: drop}",
        f"{JOB}.columns.age",
        "already appears on line 15",
        17,
    ),
    Wrong(
        "equal keys in braces",
        "{role: drop}",
        "{role: drop, role: by}",
        f"{JOB}.columns.id.role",
        "already",
    ),
    Wrong(
        "key that is a list", "version: 1", f"[{SECRET}]: 1\nversion: 1", "", "a key must be text"
    ),
    Wrong(
        "key that is a number",
        "id: {role: drop}",
        "2020: {role: drop}",
        f"{JOB}.columns.2020",
        "put it in quotes",
    ),
    Wrong(
        "key that is null",
        "id: {role: drop}",
        "null: {role: drop}",
        f"{JOB}.columns.null",
        "put it in quotes",
    ),
    Wrong(
        "key that is true",
        "id: {role: drop}",
        "true: {role: drop}",
        f"{JOB}.columns.true",
        "put it in quotes",
    ),
    Wrong("octal", "k: 3", "k: 010", "defaults.k", "base 8"),
    Wrong("octal of 1.2", "k: 3", "k: 0o10", "defaults.k", "some programs"),
    Wrong("hexadecimal", "k: 3", "k: 0x10", "defaults.k", "some programs"),
    Wrong("base 60", "k: 3", "k: 1:30", "defaults.k", "base 60"),
    Wrong("underscore", "k: 3", "k: 1_000", "defaults.k", "as text by others"),
    Wrong(
        "no", "reason: a public list", "reason: no", f"{JOB}.columns.site.reason", "true or false"
    ),
    Wrong("On", "table: people", "table: On", f"{JOB}.table", "true or false"),
    Wrong("y", "schema: release", "schema: y", "target.schema", "true or false"),
    Wrong(
        "date",
        "reason: a public list",
        "reason: 2020-01-01",
        f"{JOB}.columns.site.reason",
        "a date",
    ),
    Wrong(
        "infinity", "weight: 2", "weight: .inf", f"{JOB}.columns.age.weight", "not a usable number"
    ),
]
