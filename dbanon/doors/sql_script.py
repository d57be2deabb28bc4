"""Builds the SQL to install from the files in ``sql/`` and the registry of methods.

``dbanon install`` runs it as a script. With ``--extension`` it becomes two PostgreSQL extensions,
one for the ledger and one for the functions, so that dropping the functions keeps the ledger. The
SQL can also be run over an older version: it replaces existing objects and keeps grants.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.doors.plpython_options import (
    allowed_advice_keys,
    allowed_keys,
    allowed_risk_keys,
    describe_option,
)
from dbanon.hierarchy.spec import KINDS
from dbanon.job.job import Job
from dbanon.job.synthesis import PRIVATE_SUMMARIES
from dbanon.ledger.postgresql import (
    LEDGER_OWNER,
    LEDGER_TYPES,
    REVOKE_INTERNAL,
    UNTRUSTED_OBJECTS,
)
from dbanon.ledger.postgresql_persons import build_joint_histories_plpgsql
from dbanon.ledger.postgresql_releases import (
    ATTACH_RELEASE,
    RECORD_OIDS,
    REPAIR_CANDIDATES,
    SUMMARY_COLUMNS,
    entry_of_output,
    entry_of_table,
    entry_states,
    existing_tables,
)
from dbanon.ledger.postgresql_rules import build_rule_oids_update, may_act_as, rules_with_state
from dbanon.ledger.tables import (
    LEDGER_REVISION,
    LEDGER_SCHEMA,
    TABLES,
    VERSION_TABLE,
    create_version_table,
    ledger_ddl,
)
from dbanon.methods import METHODS
from dbanon.methods.registry import Method
from dbanon.sessions.names import RelationName, literal
from dbanon.stores.postgresql import digest
from dbanon.stores.postgresql.catalog import STATE
from dbanon.stores.postgresql.display import DISPLAY_TEMPLATES
from dbanon.stores.postgresql.foreign import FOREIGN_CODE_HINT, foreign_code_query
from dbanon.stores.postgresql.settings import FUNCTION_SETTINGS, PINNED_SETTINGS, set_clauses
from dbanon.version import share_path, version

if TYPE_CHECKING:
    from dbanon.data.frozen import DataclassInstance

# The extension that holds the ledger, named as the role that owns it.
LEDGER_EXTENSION = LEDGER_OWNER

# Argument types of the methods' SQL functions.
METHOD_ARGUMENT_TYPES = (
    "regclass, text, text[], integer, text, text[], text[], jsonb, double precision, text, text,"
    " jsonb"
)

# Argument types of the procedures for synthetic rows, after the source.
DP_ARGUMENT_TYPES = "text, text[], double precision, jsonb, text, text, jsonb, text, jsonb"

# Builders of SQL about the rules that owners of tables declare, by mark. A mark, such as
# ``@TIE_RULES(…)@``, is a placeholder in the files of ``sql/``; the text in parentheses is the
# builder's arguments.
RULE_QUERIES: dict[str, Callable[..., str]] = {
    # The rules, and whether they apply.
    "RULES_WITH_STATE": rules_with_state,
    # Updates the OIDs and names of tables in rules, after a dump was restored or a table renamed.
    "TIE_RULES": build_rule_oids_update,
    # The condition that one role has the rights of another, or may take them with SET ROLE.
    "MAY_ACT_AS": may_act_as,
}

# Builders of SQL about releases, by mark.
RELEASE_QUERIES: dict[str, Callable[..., str]] = {
    # The ledger entry of an output, found by the OID of the output.
    "RELEASE_OF": entry_of_output,
    # The ledger entry of a released table, found by its OID, even if a newer release replaced it.
    "RELEASE_OF_TABLE": entry_of_table,
}

# Templates that are filled in once for each method, to make its function or procedure.
_TEMPLATES = ("method.sql", "private.sql")

# Runs first in each of dbanon's PL/Python functions. The import paths are literals in its body, so
# that only a superuser can change them. Imports create little garbage, so the collector is paused.
# It would then look at all modules at once, which takes a twentieth of a connection's first call.
# Modules stay until the connection ends, so they are exempt from then on. Without the variable
# numpy starts a thread for each further core, in each connection: that takes time, and PostgreSQL
# expects its processes to have one thread.
IMPORT_CODE = """import gc, os, sys
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for path in {paths!a}:
    if path not in sys.path:
        sys.path.insert(0, path)
is_first_call = "dbanon.doors.plpython" not in sys.modules
was_enabled = gc.isenabled()
gc.disable()
try:
    from dbanon.doors import plpython
    if is_first_call:
        gc.freeze()
except Exception as error:
    outcome = (
        '{{"error": {{"sqlstate": "55000", "hint": "Ask a superuser to run: dbanon install",'
        ' "message": "The Python of this server cannot import dbanon ('
        + type(error).__name__ + ')."}}}}'
    )
    {return_error}
finally:
    if was_enabled:
        gc.enable()"""


def install_script(paths: Sequence[str] | None) -> str:
    """Build the SQL of ledger and functions.

    Parameters
    ----------
    paths : directories from which the server imports dbanon; None leaves out Python functions.
    """
    return ledger_script() + functions_script(paths)


def functions_script(paths: Sequence[str] | None, *, with_roles: bool = False) -> str:
    """Build the SQL of types and functions.

    Parameters
    ----------
    paths : directories from which the server imports dbanon; None leaves out Python functions.
    with_roles : also create dbanon's database roles and check who owns the schema, unless a ledger
        script has just done so.
    """
    sql = share_path("sql")
    scripts = [(sql / name).read_text() for name in ("roles.sql", "owner.sql") if with_roles]
    scripts.append(_create_types(sql / "types.sql"))
    scripts.append((sql / "views.sql").read_text())
    # Internal functions come first, because other functions call them: "_" sorts before letters.
    for file in sorted((sql / "functions").glob("*.sql")):
        scripts.append(file.read_text())
    if paths is not None:
        for file in sorted((sql / "python").glob("*.sql")):
            if file.name not in _TEMPLATES:
                scripts.append(file.read_text())
        template = (sql / "python" / "method.sql").read_text()
        scripts += [method_script(template, method) for method in METHODS.values()]
        template = (sql / "python" / "private.sql").read_text()
        scripts += [
            template.replace("@PROCEDURE@", name).replace("@SUMMARY@", summary)
            for name, summary in PRIVATE_SUMMARIES.items()
        ]
    scripts.append((sql / "grants.sql").read_text())
    scripts.append("SELECT dbanon._require_ledger();\n")
    text = "\n".join(scripts)
    text = text.replace("@ADVICE@", literal(advice_manual()))
    text = text.replace("@RISK@", literal(risk_manual()))
    # Code of other roles that reading a relation would run, such as functions in views. ``checked``
    # is the argument of the SQL function that has this mark, as ``_state_of.relation`` is below.
    text = text.replace("@FOREIGN_CODE@", foreign_code_query("checked::oid")).replace(
        "@FOREIGN_HINT@", FOREIGN_CODE_HINT.replace("'", "''")
    )
    text = text.replace("@TYPES@", METHOD_ARGUMENT_TYPES)
    # The server's counters of changes to a relation, by which a changed source is noticed.
    text = text.replace("@STATE@", STATE.format(oid="_state_of.relation"))
    text = text.replace("@RAISE@\n", (sql / "raise.sql").read_text())
    text = text.replace("@DP_TYPES@", DP_ARGUMENT_TYPES)
    # SET clauses of functions: those of most functions written in Python, and the fewer ones of all
    # other functions.
    text = text.replace("@SETTINGS@", set_clauses(FUNCTION_SETTINGS))
    text = text.replace("@PINS@", set_clauses(PINNED_SETTINGS))
    # Functions return the error as JSON text; those that return rows, as the only row.
    for mark, return_error in (
        ("@IMPORT@", "return outcome"),
        ("@IMPORT_ROWS@", "return [(None, None, outcome)]"),
    ):
        text = text.replace(
            mark, IMPORT_CODE.format(paths=list(paths or ()), return_error=return_error)
        )
    # In a procedure the import is in a nested function, so indent it. Its variable must not have
    # the name of an argument of the procedure.
    call = IMPORT_CODE.format(
        paths=list(paths or ()),
        return_error="import json; return json.dumps(json.loads(error_json)['error'])",
    )
    text = text.replace(
        "@IMPORT_CALL@", call.replace("outcome", "error_json").replace("\n", "\n    ")
    )
    return _fill_marks(text)


def _build_digest_marks() -> dict[str, str]:
    """Return the SQL of row digests by mark, with plpgsql variables in place of ``?``."""

    def fill(statement: str, *variables: str) -> str:
        """Replace each ``?`` by a variable."""
        fragments = statement.split("?")
        pairs = zip(fragments, [*variables, ""], strict=True)
        return "".join(fragment + variable for fragment, variable in pairs).strip()

    # Variables of ``dbanon._compare_rows``, which computes the digest of a relation again.
    name_variables = ("relation_schema", "relation_name")
    return {
        "@DIGEST_METHOD@": digest.DIGEST_METHOD,
        # Detects hash functions that differ from those of the recorded digest.
        "@DIGEST_PROBE@": fill(digest.PROBE),
        "@DIGEST_COLUMNS@": fill(digest.COLUMNS, *name_variables),
        "@DIGEST_STATEMENT@": fill(digest.DIGEST_STATEMENT_QUERY, "relation_salt", *name_variables),
        # SQL templates of the displayed values of columns.
        "@DISPLAY_TEMPLATES@": fill(
            DISPLAY_TEMPLATES, "_class_sizes.relation", "_class_sizes.quasi_identifiers"
        ),
        "@AGREEING_TEMPLATES@": fill(
            DISPLAY_TEMPLATES, "_fewest_agreeing.relation", "_fewest_agreeing.quasi_identifiers"
        ),
    }


def _build_attach_statement() -> str:
    """Build the statement that attaches a relation to an entry, with plpgsql variables."""
    beginning, *fragments = ATTACH_RELEASE.strip().split("?")
    fields = (
        "table_oid",
        "shown_oid",
        "owner_oid",
        "shown_schema",
        "shown_name",
        "table_name",
        "release_id",
    )
    pairs = zip(fields, fragments, strict=True)
    return beginning + "".join(f"candidate.{field}{fragment}" for field, fragment in pairs)


def method_script(template: str, method: Method) -> str:
    """Build the SQL function of a method."""
    return (
        template.replace("@METHOD@", method.name)
        .replace("@SUMMARY@", method.summary)
        .replace("@TYPES@", METHOD_ARGUMENT_TYPES)
        .replace("@MANUAL@", literal(method_manual(method)))
    )


def method_arguments() -> tuple[str, ...]:
    """Return the names of the arguments that each method's SQL function has."""
    template = (share_path("sql") / "python" / "method.sql").read_text()
    return tuple(re.findall(r"^ +'(\w+)', @METHOD@", template, re.M))


def method_manual(method: Method, job: type[DataclassInstance] = Job) -> str:
    """Build the manual of a method's SQL function."""
    allowed_options = allowed_keys(method.name, method_arguments(), writes=True, job=job)
    lines = [
        f"{method.summary}.",
        f"Data: {method.data}. Class sizes: {method.class_sizes}. Cost: {method.cost}.",
        f"Guarantee: {method.sentence}. Reference: {method.reference}.",
        'Columns named nowhere are not copied. output is "schema.table".',
        "Keys of options:",
        *(f"  {name}: {describe_option(option)}" for name, option in allowed_options.items()),
    ]
    # ``takes_points``: text can become points with several coordinates, which this method clusters.
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
        *(f"  {name}: {describe_option(option)}" for name, option in allowed_advice_keys().items()),
    ]
    return "\n".join(lines)


def risk_manual() -> str:
    """Build the manual of ``dbanon.disclosure_risk`` for samples."""
    lines = [
        "Measures how likely the records of a sample lead to their persons, before a release.",
        "The figures are for the controller of the data, not for publication. The function writes"
        " nothing and shows no value of the data.",
        "Keys of options:",
        *(f"  {name}: {describe_option(option)}" for name, option in allowed_risk_keys().items()),
    ]
    return "\n".join(lines)


def ledger_script(*, extension: bool = False) -> str:
    """Build the SQL of the ledger, its owner and its grants.

    It can also be run over any older ledger, to which it adds the new columns.

    Parameters
    ----------
    extension : True for the script of an extension. It adds the tables of an existing ledger, which
        a client may have created, to the extension.
    """
    sql = share_path("sql")
    name_table = partial(RelationName, LEDGER_SCHEMA)
    statements = [
        *ledger_ddl(LEDGER_TYPES, name_table, {}),
        create_version_table(name_table(VERSION_TABLE)),
    ]
    create = _adopt_table if extension else _create_if_missing
    scripts = [(sql / name).read_text() for name in ("roles.sql", "owner.sql")]
    scripts += [
        *map(create, (*TABLES, VERSION_TABLE), statements),
        (sql / "ledger.sql").read_text(),
        record_oids_script(),
        f"INSERT INTO dbanon.alembic_version SELECT '{LEDGER_REVISION}'"
        " WHERE NOT EXISTS (SELECT 1 FROM dbanon.alembic_version);",
        f"UPDATE dbanon.alembic_version SET version_num = '{LEDGER_REVISION}';",
        (sql / "ledger_grants.sql").read_text(),
    ]
    return _fill_marks("\n".join(scripts))


def record_oids_script() -> str:
    """Build the SQL that stores the OIDs of relations in rules, and in entries of old versions."""
    return f"{RECORD_OIDS};\n{build_rule_oids_update()};\n"


def _fill_marks(text: str) -> str:
    """Replace the remaining marks, such as ``@TABLES@``, by SQL."""
    table_names = ", ".join(f"'{name}'" for name in (*TABLES, VERSION_TABLE))
    for mark, statement in _build_digest_marks().items():
        text = text.replace(mark, statement)
    # Objects of the ledger that are not trusted, because of their owner or of code that dbanon did
    # not write, such as triggers.
    text = text.replace("@UNTRUSTED@", UNTRUSTED_OBJECTS).replace("@TABLES@", table_names)
    # Revokes all rights to the table of exact figures from everyone but the ledger's owner.
    text = text.replace("@REVOKE_INTERNAL@", REVOKE_INTERNAL)
    # The state of each ledger entry, and the released tables that still exist.
    text = text.replace("@STATES@", entry_states()).replace("@RELEASED_TABLES@", existing_tables())
    # Counts the persons by their histories over several releases together.
    text = text.replace("@JOINT_HISTORIES@", build_joint_histories_plpgsql())
    # The relations that a repair examines, and the statement that attaches one to its entry.
    text = text.replace("@CANDIDATES@", REPAIR_CANDIDATES).replace(
        "@ATTACH@", _build_attach_statement()
    )
    # By these columns ``dbanon.drop`` recognizes the summary, a table that describes the release.
    text = text.replace("@SUMMARY_COLUMNS@", ", ".join(map(literal, SUMMARY_COLUMNS)))
    for mark, build_sql in (RULE_QUERIES | RELEASE_QUERIES).items():
        text = re.sub(rf"@{mark}\((.*)\)@", partial(_build_query, build_sql), text)
    return to_ascii(text.replace("@VERSION@", version()))


def to_ascii(text: str) -> str:
    """Remove accents from a text, and write an ellipsis as three dots.

    Databases of every encoding accept ASCII. Import paths with other characters are not affected,
    because they are already escaped.
    """
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _build_query(build_sql: Callable[..., str], mark: re.Match[str]) -> str:
    """Build the SQL of a mark with the arguments in its parentheses."""
    return build_sql(*mark[1].split(", "))


def _create_if_missing(table: str, create_table: str) -> str:
    """Turn the CREATE TABLE statement of a table into SQL that does nothing if it exists."""
    return f"{create_table.replace('CREATE TABLE', 'CREATE TABLE IF NOT EXISTS', 1)};"


def _adopt_table(table: str, create_table: str) -> str:
    """Build the SQL that creates a table in an extension, or adds an existing table to it.

    The table's rows are included in dumps, except the ledger's revision (``alembic_version``),
    which CREATE EXTENSION writes, also when a dump is restored.
    """
    dump_config = f"SELECT pg_catalog.pg_extension_config_dump('dbanon.{table}', '');"
    is_member = (
        "EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS e"
        " ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass"
        " WHERE d.deptype = 'e' AND e.extname = '{}' AND d.classid = 'pg_class'::regclass"
        f" AND d.objid = 'dbanon.{table}'::regclass)"
    )
    return (
        f"DO $adopt$ BEGIN IF to_regclass('dbanon.{table}') IS NULL THEN\n{create_table};\nELSE\n"
        # In version 0.1.0, dropping the extension dropped the ledger.
        f"IF {is_member.format('dbanon')} THEN ALTER EXTENSION dbanon DROP TABLE dbanon.{table};"
        " END IF;\n"
        f"IF NOT {is_member.format(LEDGER_EXTENSION)} THEN"
        f" ALTER EXTENSION {LEDGER_EXTENSION} ADD TABLE dbanon.{table}; END IF;\n"
        "END IF; END $adopt$;\n" + ("" if table == VERSION_TABLE else dump_config)
    )


def _create_types(file: Path) -> str:
    """Turn a file's CREATE TYPE statements into SQL that creates only types that are missing.

    Existing types of older versions get the new attributes.
    """

    def create_if_missing(match: re.Match[str]) -> str:
        name, create_type = match[1], match[0]
        add_attributes = "".join(
            f"IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attname = '{attribute}'"
            f" AND attrelid = 'dbanon.{name}'::regclass) THEN\n"
            f"ALTER TYPE dbanon.{name} ADD ATTRIBUTE {attribute} {sql_type};\nEND IF;\n"
            for attribute, sql_type in re.findall(r"^ +(\w+) +(.+?),?$", create_type, flags=re.M)
        )
        return (
            f"DO $type$ BEGIN IF to_regtype('dbanon.{name}') IS NULL THEN\n{create_type}\n"
            f"END IF;\n{add_attributes}END $type$;"
        )

    return re.sub(
        r"CREATE TYPE dbanon\.(\w+) AS \(.*?\n\);", create_if_missing, file.read_text(), flags=re.S
    )
