"""Check rights and column types on PostgreSQL before reading anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from dbanon.data.types import SqlRow
from dbanon.errors import (
    InsufficientRights,
    LedgerNotTrusted,
    OutputExists,
    SourceChanged,
    UnsupportedType,
)
from dbanon.ledger import postgresql as ledger
from dbanon.sessions.base import Locator, Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote, quote_list, schema_not_found
from dbanon.stores.postgresql import catalog, foreign


def require_readable(
    connection: Connection, source: Relation, columns: Sequence[str], oid: int
) -> None:
    """Check that these columns of a source can be read without running another role's code.

    If the source has a locator, which is the key or address that identifies rows, then its columns
    must be readable too, and the role must be allowed to create staging tables.

    Parameters
    ----------
    oid : the oid of the source.

    Raises
    ------
    InsufficientRights : a right is missing; the hint names it.
    ForeignCode : a column's type belongs to another role.
    """
    # Without a locator no columns are needed to identify rows.
    locator = source.locator or Locator((), ())
    system_columns = [
        expression.removeprefix("s.")
        for expression in locator.expressions
        if expression in ("s.ctid", "s.tableoid")
    ]
    needed_columns = dict.fromkeys([*columns, *locator.key_map_columns, *locator.columns_to_check])
    for name in needed_columns:
        attribute = source.attribute(name)
        if attribute.type_of_other_role:
            raise foreign.foreign_type_error(source.name, name, attribute.type_of_other_role)
    unreadable = connection.rows(
        catalog.UNREADABLE_COLUMNS, ([*needed_columns, *system_columns], oid, oid)
    )
    if unreadable:
        names = ", ".join(f'"{name}"' for (name,) in unreadable)
        raise InsufficientRights(
            f"This role may not read {names} of {source.name}.",
            hint=f"Its owner runs: GRANT SELECT ON {source.name.quoted}"
            f" TO {_quoted_role(connection)};",
        )
    schema = source.name.schema
    if not connection.rows("SELECT has_schema_privilege(?, 'USAGE')", (schema,))[0][0]:
        raise InsufficientRights(
            f'This role may not use schema "{schema}".',
            hint=f"Its owner runs: GRANT USAGE ON SCHEMA {quote(str(schema))}"
            f" TO {_quoted_role(connection)};",
        )
    # DATABASE_RIGHTS returns two truth values; the second is the right to create temporary tables.
    if source.locator is not None and not connection.rows(catalog.DATABASE_RIGHTS)[0][1]:
        [(database,)] = connection.rows("SELECT current_database()::text")
        raise InsufficientRights(
            "This role may not create temporary tables, which are needed for staging.",
            hint=f"The owner of the database runs: GRANT TEMPORARY ON DATABASE {quote(database)}"
            f" TO {_quoted_role(connection)};",
        )


def require_comparable_types(
    connection: Connection, source: Relation, columns: Sequence[str]
) -> None:
    """Check that the types of columns have an equality operator.

    Raises
    ------
    UnsupportedType : a column's type has none.
    """
    for column in dict.fromkeys(columns):
        # Ask the server, which handles nested types such as json in an array; LIMIT 0 reads
        # nothing.
        query = f"SELECT DISTINCT {quote(column)} FROM {source.name.quoted} LIMIT 0"
        try:
            connection.rows(query)
        except UnsupportedType as error:
            attribute = source.attribute(column)
            raise UnsupportedType(
                f'Column "{column}"'
                f" of {source.name} is of type {attribute.sql_type}, whose values PostgreSQL"
                " cannot compare.",
                detail=error.detail,
                hint="Strata, entities and keys need a type with an equality operator. Cast the"
                " column in a view, for instance json to jsonb, and anonymize the view.",
            ) from None


def must_create_schema(connection: Connection, schema: str, strict: bool) -> bool:
    """Check this role's rights to create tables in a schema; return whether the schema is missing.

    Raises
    ------
    InsufficientRights : the role may not create tables or the schema.
    SchemaNotFound : the schema is missing, and ``strict`` forbids creating it.
    """
    # SCHEMA_RIGHTS returns no row if there is no such schema. The first value of DATABASE_RIGHTS is
    # the right to create schemas.
    privileges = connection.rows(catalog.SCHEMA_RIGHTS, (schema,))
    if not privileges and not connection.rows(catalog.DATABASE_RIGHTS)[0][0]:
        raise InsufficientRights(
            f'There is no schema "{schema}", and this role may not create it.',
            hint="The owner of the database runs: CREATE SCHEMA"
            f" {quote(schema)} AUTHORIZATION {_quoted_role(connection)};",
        )
    if privileges and not all(privileges[0]):
        raise InsufficientRights(
            f'This role may not create tables in schema "{schema}".',
            hint="The owner of the schema runs: GRANT USAGE, CREATE ON SCHEMA"
            f" {quote(schema)} TO {_quoted_role(connection)};",
        )
    if not privileges and strict:
        raise schema_not_found(schema, f"CREATE SCHEMA {quote(schema)}")
    return not privileges


def make_schema(connection: Connection, schema: str) -> bool:
    """Create a schema; returns False if it already exists.

    Raises
    ------
    SourceChanged : another session created it in the meantime.
    """
    if connection.rows(catalog.SCHEMA_RIGHTS, (schema,)):
        return False
    try:
        connection.run(f"CREATE SCHEMA {quote(schema)}")
    except OutputExists:
        raise SourceChanged(
            f'Another session created the schema "{schema}" in the meantime.', hint="Try again."
        ) from None
    return True


def require_ledger_rights(look_up: Callable[[str], list[SqlRow]]) -> None:
    """Check that this role may write releases into the ledger.

    Raises
    ------
    InsufficientRights : a right is missing; the hint says what to grant.
    """
    # Texts such as "CREATE on the database" and "USAGE on schema dbanon".
    missing_privileges = [name for (name,) in look_up(ledger.MISSING_RIGHTS)]
    if missing_privileges:
        [(user,)] = look_up(catalog.CURRENT_USER)
        raise InsufficientRights(
            "This role may not write into the ledger, schema dbanon.",
            detail="Missing: " + ", ".join(missing_privileges) + ".",
            hint="An administrator runs dbanon install, or dbanon install --sql-only, and then:"
            f" GRANT dbanon_runner TO {quote(user)};",
        )


def require_trusted_ledger(look_up: Callable[[str], list[SqlRow]]) -> None:
    """Check that using the ledger runs no code of other roles.

    Raises
    ------
    LedgerNotTrusted : it could run such code.
    """
    untrusted = look_up(ledger.UNTRUSTED_OBJECTS)
    if untrusted:
        subject, owner, _ = untrusted[0]
        raise LedgerNotTrusted(
            f"The ledger of this database is not trusted: {subject}, of role {owner}.",
            detail="; ".join(f"{subject}, of role {owner}" for subject, owner, _ in untrusted[:20]),
            hint=ledger.NOT_TRUSTED_HINT,
        )


def find_missing_read_grants(
    connection: Connection, schemas: Sequence[str], table: str, columns: Sequence[str]
) -> list[str]:
    """Return the statements that grant missing rights to read columns of a table.

    Parameters
    ----------
    schemas : the search path; the first schema with a table of this name counts.
    """
    rows = connection.rows(catalog.FIRST_RELATION_IN_SCHEMAS, (list(schemas), table))
    if not rows:
        return []
    [(oid, schema)] = rows
    grants = []
    role = _quoted_role(connection)
    if not connection.rows("SELECT has_schema_privilege(?, 'USAGE')", (schema,))[0][0]:
        grants.append(f"GRANT USAGE ON SCHEMA {quote(schema)} TO {role}")
    # Columns that the table lacks are an error of the job, which another check reports.
    table_columns = {name for (name,) in connection.rows(catalog.COLUMN_NAMES, (oid,))}
    existing_columns = [name for name in dict.fromkeys(columns) if name in table_columns]
    unreadable = connection.rows(catalog.UNREADABLE_COLUMNS, (existing_columns, oid, oid))
    if unreadable:
        names = quote_list(name for (name,) in unreadable)
        relation = RelationName(schema, table).quoted
        grants.append(f"GRANT SELECT ({names}) ON {relation} TO {role}")
    if not connection.rows(catalog.DATABASE_RIGHTS)[0][1]:
        grants.append(f"GRANT TEMPORARY ON DATABASE {_quoted_database(connection)} TO {role}")
    return grants


def find_missing_write_grants(connection: Connection, schema: str) -> list[str]:
    """Return the statements that grant missing rights to publish in a schema."""
    role = _quoted_role(connection)
    statements = []
    privileges = connection.rows(catalog.SCHEMA_RIGHTS, (schema,))
    if not privileges and not connection.rows(catalog.DATABASE_RIGHTS)[0][0]:
        statements.append(f"CREATE SCHEMA {quote(schema)} AUTHORIZATION {role}")
    if privileges and not all(privileges[0]):
        statements.append(f"GRANT USAGE, CREATE ON SCHEMA {quote(schema)} TO {role}")
    # Texts such as "CREATE on the database", if there is no ledger yet, and "USAGE on schema
    # dbanon".
    missing_privileges = [name for (name,) in connection.rows(ledger.MISSING_RIGHTS)]
    if any(name.endswith("the database") for name in missing_privileges):
        statements.append(f"GRANT CREATE ON DATABASE {_quoted_database(connection)} TO {role}")
    elif missing_privileges:
        statements.append(f"GRANT dbanon_runner TO {role}")
    return statements


def _quoted_role(connection: Connection) -> str:
    return quote(str(connection.rows(catalog.CURRENT_USER)[0][0]))


def _quoted_database(connection: Connection) -> str:
    return quote(str(connection.rows("SELECT current_database()::text")[0][0]))


# Parameters: schema and name of a relation. Returns the privileges that roles other than its owner
# have on it and its columns: privilege, column or NULL, whether it is grantable, quoted grantee.
_GRANTS = """
SELECT g.privilege_type::text, g.attname, g.is_grantable,
       CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT x.*, NULL::text AS attname FROM aclexplode(c.relacl) AS x
    UNION ALL
    SELECT x.*, a.attname::text FROM pg_attribute AS a CROSS JOIN aclexplode(a.attacl) AS x
    WHERE a.attrelid = c.oid AND NOT a.attisdropped
) AS g
WHERE n.nspname = ?::name AND c.relname = ?::name AND g.grantee <> c.relowner
  AND (g.grantee = 0 OR EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = g.grantee))
ORDER BY 1, 2, 4"""


def read_grants(
    connection: Connection, name: RelationName, columns: Collection[str]
) -> tuple[str, ...]:
    """Return statements that restore the grants on a relation after it is recreated.

    Parameters
    ----------
    columns : names of the columns of the new relation.
    """
    grants = []
    for privilege, column, is_grantable, grantee in connection.rows(
        _GRANTS, (name.schema, name.name)
    ):
        if column is None or column in columns:
            column_list = "" if column is None else f" ({quote(column)})"
            option = " WITH GRANT OPTION" if is_grantable else ""
            grants.append(f"GRANT {privilege}{column_list} ON {name.quoted} TO {grantee}{option}")
    return tuple(grants)


def restore_grants(connection: Connection, name: RelationName, grants: Sequence[str]) -> None:
    """Give a recreated relation exactly the grants of the former one.

    Default privileges apply whenever a relation is created. The owner may have revoked them from
    the former relation, so they are revoked first.

    Parameters
    ----------
    grants : the statements from ``read_grants``, called before the relation was dropped.
    """
    rows = connection.rows(_GRANTS, (name.schema, name.name))
    for grantee in dict.fromkeys(grantee for *_, grantee in rows):
        connection.run(f"REVOKE ALL ON {name.quoted} FROM {grantee}")
    for grant in grants:
        connection.run(grant)
