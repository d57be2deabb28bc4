"""Builds the SQL to install from the files in ``sql/`` and the registry of methods.

``dbanon install`` runs it as a script. With ``--extension`` it becomes two extensions, one for the
ledger and one for the functions, so that dropping the functions keeps the ledger. The SQL can also
be run over an older version: it replaces existing objects and keeps grants.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dbanon.doors.plpython_options import advice_keys, describe_option, keys
from dbanon.hierarchy.spec import KINDS
from dbanon.job.job import Job
from dbanon.job.synthesis import PRIVATE_SUMMARIES
from dbanon.ledger.postgresql import CLOSE_INTERNAL, OWNER, UNTRUSTED
from dbanon.ledger.postgresql_persons import joint_histories_variable
from dbanon.ledger.postgresql_releases import (
    ATTACH,
    CANDIDATES,
    NUMBER_ENTRIES,
    SUMMARY_COLUMNS,
    release_of,
    release_of_table,
    released_tables,
    states,
)
from dbanon.ledger.postgresql_rules import may_act_as, rules_with_state, tie_rules
from dbanon.ledger.tables import HEAD, TABLES
from dbanon.methods import METHODS
from dbanon.methods.registry import Method
from dbanon.sessions.names import literal
from dbanon.stores.postgresql import digest
from dbanon.stores.postgresql.display import DISPLAY_KEYS
from dbanon.stores.postgresql.foreign import HINT, foreign_code
from dbanon.stores.postgresql.rules import STATE
from dbanon.stores.postgresql.settings import FUNCTION_SETTINGS, PINS, set_clauses
from dbanon.version import share_path, version

# The extension that holds the ledger, named as the role that owns it.
LEDGER_EXTENSION = OWNER

METHOD_TYPES = (
    "regclass, text, text[], integer, text, text[], text[], jsonb, double precision, text, text,"
    " jsonb"
)

# Argument types of the procedures of synthetic rows, after the source.
DP_TYPES = "text, text[], double precision, jsonb, text, text, jsonb, text, jsonb"

# Builders of SQL about rules, by mark. The marks have arguments, to query one table or all.
RULE_QUERIES: dict[str, Callable[..., str]] = {
    "JUDGED_RULES": rules_with_state,
    "TIE_RULES": tie_rules,
    "MAY_ACT_AS": may_act_as,
}

# Builders of SQL about releases, by mark.
RELEASE_QUERIES: dict[str, Callable[..., str]] = {
    "RELEASE_OF": release_of,
    "RELEASE_OF_TABLE": release_of_table,
}

# Templates of the function or procedure of each method.
_TEMPLATES = ("method.sql", "private.sql")

# Runs before each of dbanon's Python functions; the paths are literals in a superuser's function.
# Imports create little garbage, so garbage collection is paused meanwhile.
IMPORT = """import gc, sys
for path in {paths!a}:
    if path not in sys.path:
        sys.path.insert(0, path)
collects = gc.isenabled()
gc.disable()
try:
    from dbanon.doors import plpython
except Exception as error:
    outcome = (
        '{{"error": {{"sqlstate": "55000", "hint": "Ask a superuser to run: dbanon install",'
        ' "message": "The Python of this server cannot import dbanon ('
        + type(error).__name__ + ')."}}}}'
    )
    {fail}
finally:
    if collects:
        gc.enable()"""


def script(paths: Sequence[str] | None) -> str:
    """Build the complete SQL; ``paths=None`` leaves out functions that need Python."""
    return ledger_script() + functions_script(paths)


def functions_script(paths: Sequence[str] | None, *, with_roles: bool = False) -> str:
    """Build types and functions, ``with_roles`` if no ledger script has created the roles."""
    sql = share_path("sql")
    parts = [(sql / name).read_text() for name in ("roles.sql", "owner.sql") if with_roles]
    parts.append(_types(sql / "types.sql"))
    parts.append((sql / "views.sql").read_text())
    # Functions that others call come first: underscore sorts before letters.
    for file in sorted((sql / "functions").glob("*.sql")):
        parts.append(file.read_text())
    if paths is not None:
        for file in sorted((sql / "python").glob("*.sql")):
            if file.name not in _TEMPLATES:
                parts.append(file.read_text())
        template = (sql / "python" / "method.sql").read_text()
        parts += [method_script(template, method) for method in METHODS.values()]
        template = (sql / "python" / "private.sql").read_text()
        parts += [
            template.replace("@PROCEDURE@", name).replace("@SUMMARY@", summary)
            for name, summary in PRIVATE_SUMMARIES.items()
        ]
    parts.append((sql / "grants.sql").read_text())
    parts.append("SELECT dbanon._require_ledger();\n")
    text = "\n".join(parts)
    text = text.replace("@ADVICE@", literal(advice_manual()))
    text = text.replace("@FOREIGN_CODE@", foreign_code("checked::oid")).replace(
        "@FOREIGN_HINT@", HINT.replace("'", "''")
    )
    text = text.replace("@TYPES@", METHOD_TYPES)
    text = text.replace("@STATE@", STATE.format(oid="_state_of.relation"))
    text = text.replace("@RAISE@\n", (sql / "raise.sql").read_text())
    text = text.replace("@DP_TYPES@", DP_TYPES)
    text = text.replace("@SETTINGS@", set_clauses(FUNCTION_SETTINGS))
    text = text.replace("@PINS@", set_clauses(PINS))
    for mark, fail in (
        ("@IMPORT@", "return outcome"),
        ("@IMPORT_ROWS@", "return [(None, None, outcome)]"),
    ):
        text = text.replace(mark, IMPORT.format(paths=list(paths or ()), fail=fail))
    # Imported in a nested function, to keep its names apart from the procedure's arguments.
    call = IMPORT.format(
        paths=list(paths or ()), fail="import json; return json.dumps(json.loads(told)['error'])"
    )
    text = text.replace("@IMPORT_CALL@", call.replace("outcome", "told").replace("\n", "\n    "))
    return _filled(text)


def _digest() -> dict[str, str]:
    """Return the SQL of row digests, by mark, with plpgsql variables as parameters."""

    def fill(statement: str, *variables: str) -> str:
        pieces = statement.split("?")
        ends = [*variables, ""]
        return "".join(piece + end for piece, end in zip(pieces, ends, strict=True)).strip()

    name = ("relation_schema", "relation_name")
    return {
        "@DIGEST_WAY@": digest.DIGEST_METHOD,
        "@DIGEST_PROBE@": fill(digest.PROBE),
        "@DIGEST_COLUMNS@": fill(digest.COLUMNS, *name),
        "@DIGEST_STATEMENT@": fill(digest.STATEMENT, "relation_salt", *name),
        "@DISPLAY_KEYS@": fill(
            DISPLAY_KEYS, "_class_sizes.relation", "_class_sizes.quasi_identifiers"
        ),
    }


def _attach() -> str:
    """Build the statement that attaches a relation to an entry, with plpgsql variables."""
    first, *pieces = ATTACH.strip().split("?")
    names = (
        "table_oid",
        "shown_oid",
        "owner_oid",
        "shown_schema",
        "shown_name",
        "table_name",
        "release_id",
    )
    pairs = zip(names, pieces, strict=True)
    return first + "".join(f"candidate.{name}{piece}" for name, piece in pairs)


def method_script(template: str, method: Method) -> str:
    """Build the SQL function of a method."""
    return (
        template.replace("@METHOD@", method.name)
        .replace("@SUMMARY@", method.summary)
        .replace("@TYPES@", METHOD_TYPES)
        .replace("@MANUAL@", literal(manual(method)))
    )


def arguments() -> tuple[str, ...]:
    """Return the argument names of the methods' SQL functions."""
    template = (share_path("sql") / "python" / "method.sql").read_text()
    return tuple(re.findall(r"^ +'(\w+)', @METHOD@", template, re.M))


def manual(method: Method, job: type[Any] = Job) -> str:
    """Build the manual of a method's SQL function."""
    allowed = keys(method.name, arguments(), writes=True, job=job)
    lines = [
        f"{method.summary}.",
        f"Data: {method.data}. Class sizes: {method.class_sizes}. Cost: {method.cost}.",
        f"Guarantee: {method.sentence}. Reference: {method.reference}.",
        'Columns named nowhere are not copied. output is "schema.table".',
        "Keys of options:",
        *(f"  {name}: {describe_option(kind)}" for name, kind in allowed.items()),
    ]
    if not method.takes_categories and method.takes_points:
        lines.append(
            'Text and hierarchies: with {"recoding": "representative"} or "generalization".'
        )
    if method.takes_points:
        lines.append('hierarchies, by column, as in {"education": {"table": "ref.tree"}}. Kinds:')
        lines += [f"  {name}: {kind.key.expected}" for name, kind in KINDS.items()]
    return "\n".join(lines)


def advice_manual() -> str:
    """Build the manual of ``dbanon.advise``."""
    lines = [
        "Proposes column roles, shows which columns single rows out, and recommends a first"
        " release.",
        "Roles are proposals, never decisions. The function writes nothing and shows no value"
        " of the data.",
        "Keys of options:",
        *(f"  {name}: {describe_option(option)}" for name, option in advice_keys().items()),
    ]
    return "\n".join(lines)


def ledger_script(*, extension: bool = False) -> str:
    """Build the ledger, its owner and its grants; an extension adopts existing tables.

    The SQL can be run over any older ledger, which then gets the new columns.
    """
    sql = share_path("sql")
    tables = (sql / "ledger.sql").read_text()
    if extension:
        tables = re.sub(
            r"CREATE TABLE IF NOT EXISTS dbanon\.(\w+) \(.*?\n\);", _adopted, tables, flags=re.S
        )
    parts = [(sql / name).read_text() for name in ("roles.sql", "owner.sql")]
    parts += [
        tables,
        tie_script(),
        f"INSERT INTO dbanon.alembic_version SELECT '{HEAD}'"
        " WHERE NOT EXISTS (SELECT 1 FROM dbanon.alembic_version);",
        f"UPDATE dbanon.alembic_version SET version_num = '{HEAD}';",
        (sql / "ledger_grants.sql").read_text(),
    ]
    return _filled("\n".join(parts))


def tie_script() -> str:
    """Build the SQL that ties rules, and entries of earlier versions, to their relations."""
    return f"{NUMBER_ENTRIES};\n{tie_rules()};\n"


def _filled(text: str) -> str:
    names = ", ".join(f"'{name}'" for name in (*TABLES, "alembic_version"))
    for mark, statement in _digest().items():
        text = text.replace(mark, statement)
    text = text.replace("@UNTRUSTED@", UNTRUSTED).replace("@TABLES@", names)
    text = text.replace("@CLOSE_INTERNAL@", CLOSE_INTERNAL)
    text = text.replace("@STATES@", states()).replace("@RELEASED_TABLES@", released_tables())
    text = text.replace("@JOINT_HISTORIES@", joint_histories_variable())
    text = text.replace("@CANDIDATES@", CANDIDATES).replace("@ATTACH@", _attach())
    text = text.replace("@SUMMARY_COLUMNS@", ", ".join(map(literal, SUMMARY_COLUMNS)))
    for mark, build in (RULE_QUERIES | RELEASE_QUERIES).items():
        text = re.sub(rf"@{mark}\((.*)\)@", partial(_build_query, build), text)
    return in_ascii(text.replace("@VERSION@", version()))


def in_ascii(text: str) -> str:
    """Remove accents from a text, and write an ellipsis as three dots.

    Databases of every encoding accept ASCII. Directories are escaped earlier.
    """
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _build_query(build: Callable[..., str], mark: re.Match[str]) -> str:
    """Build the SQL of a mark with its bracketed arguments."""
    return build(*mark[1].split(", "))


def _adopted(match: re.Match[str]) -> str:
    """Create a table, or add a client's table to the extension, and include its rows in dumps.

    The revision is not dumped: CREATE EXTENSION writes it, also when a dump is restored.
    """
    table, create = match[1], match[0].replace("IF NOT EXISTS ", "")
    dumped = f"SELECT pg_catalog.pg_extension_config_dump('dbanon.{table}', '');"
    member = (
        "EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS e"
        " ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass"
        " WHERE d.deptype = 'e' AND e.extname = '{}' AND d.classid = 'pg_class'::regclass"
        f" AND d.objid = 'dbanon.{table}'::regclass)"
    )
    return (
        f"DO $adopt$ BEGIN IF to_regclass('dbanon.{table}') IS NULL THEN\n{create}\nELSE\n"
        # In version 0.1.0, dropping the extension dropped the ledger.
        f"IF {member.format('dbanon')} THEN ALTER EXTENSION dbanon DROP TABLE dbanon.{table};"
        " END IF;\n"
        f"IF NOT {member.format(LEDGER_EXTENSION)} THEN"
        f" ALTER EXTENSION {LEDGER_EXTENSION} ADD TABLE dbanon.{table}; END IF;\n"
        "END IF; END $adopt$;\n" + ("" if table == "alembic_version" else dumped)
    )


def _types(file: Path) -> str:
    """Create types only if missing, so that the script can be repeated.

    Types of older versions get their new attributes.
    """

    def create_if_missing(match: re.Match[str]) -> str:
        name, create = match[1], match[0]
        added = "".join(
            f"IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attname = '{attribute}'"
            f" AND attrelid = 'dbanon.{name}'::regclass) THEN\n"
            f"ALTER TYPE dbanon.{name} ADD ATTRIBUTE {attribute} {sql_type};\nEND IF;\n"
            for attribute, sql_type in re.findall(r"^ +(\w+) +(.+?),?$", create, flags=re.M)
        )
        return (
            f"DO $type$ BEGIN IF to_regtype('dbanon.{name}') IS NULL THEN\n{create}\n"
            f"END IF;\n{added}END $type$;"
        )

    return re.sub(
        r"CREATE TYPE dbanon\.(\w+) AS \(.*?\n\);", create_if_missing, file.read_text(), flags=re.S
    )
