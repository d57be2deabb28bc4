"""The visible surface of the interfaces: commands with their output, and the SQL objects."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import click

from tests.golden.answers import OUTPUT, clear, load, written
from tests.golden.doors import COMMAND, Answer, command
from tests.golden.tables import EDUCATION, SIZES
from tests.postgres_server import conninfo
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase


def options(group: click.Group, path: str = "dbanon") -> Iterator[tuple[str, Answer]]:
    """Every command with the names, types and defaults of its parameters, and its help."""
    for name, subcommand in sorted(group.commands.items()):
        title = f"{path} {name}"
        # Independent of the Python version: 3.13 strips a docstring's indentation, earlier ones do
        # not.
        answer: Answer = {"help": inspect.cleandoc(subcommand.help or "")}
        for parameter in subcommand.params:
            plain = parameter.to_info_dict()
            names = (
                "opts",
                "required",
                "nargs",
                "multiple",
                "default",
                "is_flag",
                "help",
                "envvar",
            )
            attributes = {key: _plain(plain[key]) for key in names if key in plain}
            attributes["type"] = _plain(plain["type"])
            answer[str(parameter.name)] = attributes
        yield title, answer
        if isinstance(subcommand, click.Group):
            yield from options(subcommand, title)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


class Commands:
    """The command line: its options, and the output of some commands on a DuckDB file."""

    name: ClassVar[str] = "cli"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = DuckdbDatabase(folder / "commands.duckdb")
        load(self.database)
        (folder / "education.csv").write_text("".join(",".join(row) + "\n" for row in EDUCATION))
        (folder / "broken.csv").write_text("a,b,*\na,c,*\n")
        (folder / "sizes.txt").write_text("".join(size + "\n" for size in SIZES))

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Each command with its result."""
        yield from options(COMMAND)
        for name, line in self._lines().items():
            yield name, _output_fields(*line)
        for name, more in _ANONYMIZE.items():
            yield f"anonymize {name}", self._anonymize(more)
        self._anonymize(_ANONYMIZE["view"], keep=True)
        again = self._call([*_ANONYMIZE["view"], "--if-exists", "replace", "--seed", "4"])
        yield "anonymize the view again", _output_fields(*again)
        for name, line in self._later().items():
            yield name, _output_fields(*line)
        yield "ledger after all", written(self.database)

    def _lines(self) -> dict[str, list[str]]:
        url, tree = self.database.url, str(self.folder / "education.csv")
        as_json = ["--format", "json"]
        column = ["--table", "people", "--column", "education"]
        return {
            "methods": ["methods", *as_json],
            "check a tree": ["hierarchy", "check", tree, *as_json],
            "check a column": ["hierarchy", "check", tree, url, *column, *as_json],
            "check values": [
                *(
                    "hierarchy",
                    "check",
                    tree,
                    url,
                    "--table",
                    "people",
                    "--column",
                    "town",
                    *as_json,
                ),
            ],
            "check a broken tree": [
                *("hierarchy", "check", str(self.folder / "broken.csv"), *as_json),
            ],
            "store": ["hierarchy", "store", url, "tree", tree, *as_json],
            "list": ["hierarchy", "list", url, *as_json],
            "show": ["hierarchy", "show", url, "tree"],
            "suggest": ["hierarchy", "suggest", url, *column],
            "drop": ["hierarchy", "drop", url, "tree", *as_json],
            "drop what is not there": ["hierarchy", "drop", url, "tree", *as_json],
            "verify nothing": ["verify", url, "release.people", *as_json],
            "verify a table": [
                *("verify", url, "people", "--quasi-identifiers", "sex,town", "--k", "2", *as_json),
            ],
            "no store": ["verify", "oracle://host/name", "people", *as_json],
            "no command": ["anonymise"],
        }

    def _later(self) -> dict[str, list[str]]:
        url, as_json = self.database.url, ["--format", "json"]
        return {
            "verify": ["verify", url, OUTPUT, *as_json],
            "verify with k": ["verify", url, OUTPUT, "--k", "30", *as_json],
            "gc": ["gc", url, "--keep-last", "0", *as_json],
            "gc again": ["gc", url, *as_json],
        }

    def _call(self, more: list[str]) -> list[str]:
        url = self.database.url
        arguments = ["anonymize", url, "--table", "people", "--output", OUTPUT, "--format", "json"]
        return arguments + [part.replace("FOLDER", str(self.folder)) for part in more]

    def _anonymize(self, more: list[str], *, keep: bool = False) -> Answer:
        answer = _output_fields(*self._call(more))
        if answer["exit"] == 0:
            answer |= written(self.database)
        if not keep:
            clear(self.database)
        return answer


_NUMBERS = ["--quasi-identifiers", "age,income,weight", "--k", "4"]
_MIXED = ["--quasi-identifiers", "age,education", "--k", "4", "--method", "gaa_cp"]
_ILL = ["--sensitive", "illness"]

_ANONYMIZE: dict[str, list[str]] = {
    "numbers": _NUMBERS,
    "literal names": ["-q", "age", "-q", "income", "-s", "illness", "--k", "3"],
    "roles": [*_NUMBERS, *_ILL, "--keep", "zip,note", "--by", "sex", "--key", "id"],
    "persons": [*_NUMBERS, "--entity", "person"],
    "weights": [*_NUMBERS, "--weight", "age=2", "--standardize", "range", "--recoding", "median"],
    "refined": [*_NUMBERS, "--refine", "fast", "--refine-iterations", "9", "--seed", "2"],
    "blocks": [*_NUMBERS, "--block-size", "24", "--chunk-rows", "10"],
    "order": [
        "-q",
        "size",
        "-q",
        "age",
        "--k",
        "4",
        "--order",
        f"size={','.join(SIZES)}",
        "--recoding",
        "median",
    ],
    "order in a file": [
        "-q",
        "size",
        "-q",
        "age",
        "--k",
        "4",
        "--order-file",
        "size=FOLDER/sizes.txt",
        "--recoding",
        "medoid",
    ],
    "nulls": ["-q", "holes", "--k", "4", "--nulls", "suppress", "--max-suppression", "0.5"],
    "trees": [
        *_MIXED,
        "--hierarchy",
        "education=FOLDER/education.csv",
        "--step",
        "age=5",
        "--intervals",
        "bounds",
    ],
    "stored tree": [*_MIXED, "--hierarchy", "education=name:education_tree"],
    "json tree": [*_MIXED, "--hierarchy", 'age={"intervals": [5, 10]}', "--local-range"],
    "models": [
        *_NUMBERS,
        *_ILL,
        "--model",
        "illness=distinct_l:3",
        "--model",
        "illness=t_closeness:0.4:distance=ordered",
    ],
    "withheld": [
        *_NUMBERS,
        *_ILL,
        "--model",
        "illness=recursive_cl:2:l=2",
        "--withhold-failing",
        "--max-suppression",
        "0.3",
    ],
    "method option": [*_NUMBERS, "--method", "vmdav", "--option", "lambda_=0.5"],
    "each attribute": [*_NUMBERS, "--method", "individual_ranking", "--guarantee", "per_attribute"],
    "view": [*_NUMBERS, "--output-kind", "view"],
    "no k": ["-q", "age"],
    "k of 1": ["-q", "age", "--k", "1"],
    "unknown method": [*_NUMBERS, "--method", "mdva"],
    "unknown option": [*_NUMBERS, "--option", "x=1"],
    "unknown column": ["-q", "wieght", "--k", "4"],
    "unknown choice": [*_NUMBERS, "--recoding", "mode"],
    "no pair": [*_NUMBERS, "--weight", "age"],
    "no number": [*_NUMBERS, "--weight", "age=heavy"],
    "no model": [*_NUMBERS, *_ILL, "--model", "illness=distinct_l"],
    "little memory": [*_NUMBERS, "--memory-limit", "1KB"],
    "report nowhere": [*_NUMBERS, "--report", "FOLDER/missing/report.json"],
}


def _output_fields(*line: str) -> Answer:
    """A command's output, with JSON by its first keys."""
    result = command(*line)
    answer: Answer = {"exit": result["exit"], "stderr": result["stderr"]}
    try:
        printed = json.loads(result["stdout"])
    except ValueError:
        return answer | {"stdout": result["stdout"]}
    if not isinstance(printed, dict):
        return answer | {"json": printed}
    return answer | {f"json.{name}": value for name, value in printed.items()}


def _rights_sql(acl: str, kind: str, owner: str) -> str:
    """All rights on an object, including default ones, as rows of a JSON array.

    From PostgreSQL 17 on owners have MAINTAIN on their tables by default; others lack it.
    """
    return f"""(
        SELECT json_agg(json_build_array(
            coalesce(pg_get_userbyid(nullif(x.grantee, 0)), 'PUBLIC'), x.privilege_type,
            x.is_grantable, pg_get_userbyid(x.grantor)))
        FROM aclexplode(coalesce({acl}, acldefault({kind}, {owner}))) AS x
        WHERE x.privilege_type <> 'MAINTAIN' OR x.grantee <> {owner})"""


def rights(entries: list[list[Any]]) -> Answer:
    """A field for each grantee: the privileges and their grantors."""
    by_grantor: dict[tuple[str, str], list[str]] = {}
    for grantee, privilege, may_grant, grantor in entries:
        option = " WITH GRANT OPTION" if may_grant else ""
        by_grantor.setdefault((grantee, grantor), []).append(privilege + option)
    answer: Answer = {}
    for (grantee, grantor), privileges in sorted(by_grantor.items()):
        granted = f"{', '.join(sorted(privileges))} by {grantor}"
        answer.setdefault(f"rights.{grantee}", []).append(granted)
    return answer


_SURFACE = {
    "function": """
        SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' AS name,
               pg_get_function_arguments(p.oid) AS arguments,
               pg_get_function_result(p.oid) AS gives,
               l.lanname AS language, p.provolatile::text AS volatility,
               p.proparallel::text AS parallel, p.prosecdef AS definer, p.proconfig AS settings,
               pg_get_userbyid(p.proowner) AS owner, {function_rights} AS rights,
               p.prokind::text AS kind,
               CASE WHEN l.lanname = 'plpython3u' THEN NULL ELSE p.prosrc END AS body,
               obj_description(p.oid, 'pg_proc') AS comment
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'dbanon'::regnamespace""",
    "relation": """
        SELECT c.relname AS name, c.relkind::text AS kind, pg_get_userbyid(c.relowner) AS owner,
               {relation_rights} AS rights,
               obj_description(c.oid, 'pg_class') AS comment,
               (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                                  || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END, ', '
                                  ORDER BY a.attnum)
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
                AND NOT a.attisdropped) AS columns,
               (SELECT string_agg(pg_get_constraintdef(o.oid), ', ' ORDER BY o.conname)
                -- From PostgreSQL 18 on NOT NULL is one, too; columns have it already.
                FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype <> 'n') AS constraints
        FROM pg_class c WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind <> 'i'""",
    "schema": """
        SELECT nspname AS name, pg_get_userbyid(nspowner) AS owner, {schema_rights} AS rights,
               obj_description(oid, 'pg_namespace') AS comment
        FROM pg_namespace WHERE nspname = 'dbanon'""",
    "column": """
        SELECT c.relname || '.' || a.attname AS name, {column_rights} AS rights
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'dbanon'::regnamespace AND a.attacl IS NOT NULL""",
    "type": """
        SELECT t.typname AS name, pg_get_userbyid(t.typowner) AS owner, {type_rights} AS rights
        FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = 'dbanon'::regnamespace AND t.typcategory <> 'A'
        AND (c.relkind IS NULL OR c.relkind = 'c')""",
    "role": """
        SELECT rolname AS name, rolcanlogin AS logs_in, rolsuper AS super, rolinherit AS inherits,
               rolcreaterole AS makes_roles, rolcreatedb AS makes_databases,
               rolbypassrls AS sees_all_rows, rolreplication AS replicates, rolconfig AS settings,
               (SELECT json_agg(pg_get_userbyid(m.member) ORDER BY pg_get_userbyid(m.member))
                FROM pg_auth_members m WHERE m.roleid = r.oid) AS members
        FROM pg_roles r WHERE rolname LIKE 'dbanon%'""",
}


_RIGHTS = {
    "function_rights": _rights_sql("p.proacl", "'f'", "p.proowner"),
    "relation_rights": _rights_sql(
        "c.relacl", "CASE WHEN c.relkind = 'S' THEN 's' ELSE 'r' END::\"char\"", "c.relowner"
    ),
    "schema_rights": _rights_sql("nspacl", "'n'", "nspowner"),
    "column_rights": _rights_sql("a.attacl", "'c'", "c.relowner"),
    "type_rights": _rights_sql("t.typacl", "'T'", "t.typowner"),
}


class Surface:
    """Signatures, rights and comments of everything installed in PostgreSQL."""

    name: ClassVar[str] = "surface"

    def __init__(self, url: str) -> None:
        self.database = PostgresqlDatabase(url)

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Each object with its visible properties."""
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(conninfo(self.database.url), row_factory=dict_row) as connection:
            for kind, query in _SURFACE.items():
                statement = query.format(**_RIGHTS)
                rows = connection.execute(statement).fetchall()  # type: ignore[call-overload]
                for row in sorted(rows, key=lambda row: str(row["name"])):
                    entries = row.pop("rights", None) or []
                    yield f"{kind} {row.pop('name')}", {**row, **rights(entries)}
