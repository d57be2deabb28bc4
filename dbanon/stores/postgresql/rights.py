"""What a role has to be allowed on PostgreSQL, and columns to be, asked before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from dbanon.errors import (
    InsufficientRights,
    LedgerNotTrusted,
    OutputExists,
    SourceChanged,
    UnsupportedType,
)
from dbanon.ledger import postgresql as ledger
from dbanon.sessions.base import Locator, Relation
from dbanon.sessions.names import RelationName, quote, quote_list, schema_not_found
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import catalog, foreign


def require_readable(session: Session, source: Relation, columns: Sequence[str], oid: int) -> None:
    """Check that these columns of a source may be read, and that no code of another role runs.

    Raises
    ------
    InsufficientRights : a right is missing; the hint says which to grant.
    ForeignCode : a column's type is another role's.
    """
    locator = source.locator or Locator((), ())
    system = [e.removeprefix("s.") for e in locator.expressions if e in ("s.ctid", "s.tableoid")]
    named = dict.fromkeys([*columns, *locator.mapped, *locator.unchecked])
    for name in named:
        attribute = source.attribute(name)
        if attribute.of_another:
            raise foreign.type_refusal(source.name, name, attribute.of_another)
    refused = session.rows(catalog.UNREADABLE, ([*named, *system], oid, oid))
    if refused:
        names = ", ".join(f'"{name}"' for (name,) in refused)
        raise InsufficientRights(
            f"This role may not read {names} of {source.name}.",
            hint=f"GRANT SELECT ON {source.name.quoted} to it.",
        )
    schema = source.name.schema
    if not session.rows("SELECT has_schema_privilege(?, 'USAGE')", (schema,))[0][0]:
        raise InsufficientRights(
            f'This role may not use schema "{schema}".',
            hint=f"GRANT USAGE ON SCHEMA {quote(str(schema))} to it.",
        )
    if source.locator is not None and not session.rows(catalog.DATABASE_RIGHTS)[0][1]:
        raise InsufficientRights(
            "This role may not create temporary tables, which staging needs.",
            hint="GRANT TEMPORARY ON DATABASE … to it.",
        )


def require_equality(session: Session, source: Relation, columns: Sequence[str]) -> None:
    """Check that values of columns can be told apart.

    Raises
    ------
    UnsupportedType : those of one cannot.
    """
    for column in dict.fromkeys(columns):
        # PostgreSQL knows best: of a json in an array in a row type, too. Nothing is read.
        query = f"SELECT DISTINCT {quote(column)} FROM {source.name.quoted} LIMIT 0"
        try:
            session.rows(query)
        except UnsupportedType as error:
            attribute = source.attribute(column)
            raise UnsupportedType(
                f'Column "{column}" of {source.name} is of type {attribute.sql_type}, whose'
                " values PostgreSQL cannot tell apart.",
                detail=error.detail,
                hint="Strata, entities and keys need a type with an equality: cast it in a"
                " view, as json to jsonb.",
            ) from None


def require_schema(session: Session, schema: str, strict: bool) -> bool:
    """Check that tables may be made in a schema; True if it has to be made itself.

    Raises
    ------
    InsufficientRights : the role may not.
    SchemaNotFound : it would have to be made, by a strict release.
    """
    found = session.rows(catalog.SCHEMA_RIGHTS, (schema,))
    if not found and not session.rows(catalog.DATABASE_RIGHTS)[0][0]:
        raise InsufficientRights(
            f'There is no schema "{schema}", and this role may not create it.',
            hint="Whoever owns the database may: CREATE SCHEMA"
            f" {quote(schema)} AUTHORIZATION {_role(session)};",
        )
    if found and not all(found[0]):
        raise InsufficientRights(
            f'This role may not create tables in schema "{schema}".',
            hint="Whoever owns the schema may: GRANT USAGE, CREATE ON SCHEMA"
            f" {quote(schema)} TO {_role(session)};",
        )
    if not found and strict:
        raise schema_not_found(schema, f"CREATE SCHEMA {quote(schema)}")
    return not found


def make_schema(session: Session, schema: str) -> bool:
    """Make a schema that is missing; False if it is there.

    Raises
    ------
    SourceChanged : another session made it meanwhile.
    """
    if session.rows(catalog.SCHEMA_RIGHTS, (schema,)):
        return False
    try:
        session.run(f"CREATE SCHEMA {quote(schema)}")
    except OutputExists:
        raise SourceChanged(
            f'Another session made the schema "{schema}" meanwhile.', hint="Try again."
        ) from None
    return True


def require_ledger_rights(look_up: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Check that a release can be written into the ledger.

    Raises
    ------
    InsufficientRights : the role may not; the hint says what to grant.
    """
    missing = [name for (name,) in look_up(ledger.RIGHTS_MISSING)]
    if missing:
        raise InsufficientRights(
            "This role may not write into the ledger, schema dbanon.",
            detail="Missing: " + ", ".join(missing) + ".",
            hint="Ask an administrator to run dbanon install, or dbanon install --sql-only, and"
            " to GRANT dbanon_runner to it.",
        )


def require_trusted_ledger(look_up: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Check that nobody else's code runs when the ledger is read or written.

    Raises
    ------
    LedgerNotTrusted : somebody's could.
    """
    wrong = look_up(ledger.UNTRUSTED)
    if wrong:
        what, owner, _ = wrong[0]
        raise LedgerNotTrusted(
            f"The ledger of this database is not trusted: {what}, of role {owner}.",
            detail="; ".join(f"{what}, of role {owner}" for what, owner, _ in wrong[:20]),
            hint=ledger.NOT_TRUSTED_HINT,
        )


def missing_to_read(
    session: Session, schemas: Sequence[str], table: str, columns: Sequence[str]
) -> list[str]:
    """What the role lacks to read columns of the first such table, as statements."""
    found = session.rows(catalog.FIRST_OF_SCHEMAS, (list(schemas), table))
    if not found:
        return []
    [(oid, schema)] = found
    missing = []
    role = _role(session)
    if not session.rows("SELECT has_schema_privilege(?, 'USAGE')", (schema,))[0][0]:
        missing.append(f"GRANT USAGE ON SCHEMA {quote(schema)} TO {role}")
    # A column that is not there is another error.
    there = {name for (name,) in session.rows(catalog.NAMES, (oid,))}
    wanted = [name for name in dict.fromkeys(columns) if name in there]
    unread = session.rows(catalog.UNREADABLE, (wanted, oid, oid))
    if unread:
        names = quote_list(name for (name,) in unread)
        place = RelationName(schema, table).quoted
        missing.append(f"GRANT SELECT ({names}) ON {place} TO {role}")
    if not session.rows(catalog.DATABASE_RIGHTS)[0][1]:
        missing.append(f"GRANT TEMPORARY ON DATABASE {_database(session)} TO {role}")
    return missing


def missing_to_write(session: Session, schema: str) -> list[str]:
    """What the role lacks to make relations in a schema and to note them, as statements."""
    role = _role(session)
    missing = []
    found = session.rows(catalog.SCHEMA_RIGHTS, (schema,))
    if not found and not session.rows(catalog.DATABASE_RIGHTS)[0][0]:
        missing.append(f"CREATE SCHEMA {quote(schema)} AUTHORIZATION {role}")
    if found and not all(found[0]):
        missing.append(f"GRANT USAGE, CREATE ON SCHEMA {quote(schema)} TO {role}")
    lacked = [name for (name,) in session.rows(ledger.RIGHTS_MISSING)]
    if any(name.endswith("the database") for name in lacked):
        missing.append(f"GRANT CREATE ON DATABASE {_database(session)} TO {role}")
    elif lacked:
        missing.append(f"GRANT dbanon_runner TO {role}")
    return missing


def _role(session: Session) -> str:
    return quote(str(session.current_user()))


def _database(session: Session) -> str:
    return quote(str(session.rows("SELECT current_database()::text")[0][0]))


# What others than the owner may do with a relation, or with a column of it.
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


def grants_of(session: Session, name: RelationName, columns: Collection[str]) -> tuple[str, ...]:
    """The statements that grant what is granted on a relation once more, after it was dropped.

    Parameters
    ----------
    columns : those that it will have.
    """
    grants = []
    for privilege, column, is_grantable, grantee in session.rows(_GRANTS, (name.schema, name.name)):
        if column is None or column in columns:
            of_column = "" if column is None else f" ({quote(column)})"
            option = " WITH GRANT OPTION" if is_grantable else ""
            grants.append(f"GRANT {privilege}{of_column} ON {name.quoted} TO {grantee}{option}")
    return tuple(grants)


def restore_grants(session: Session, name: RelationName, grants: Sequence[str]) -> None:
    """Give a relation that was created anew the grants of the one before, and no others.

    Default privileges apply whenever a relation is created. The owner may have revoked them from
    the relation before, so what they granted is revoked first.

    Parameters
    ----------
    grants : of ``grants_of``, read before the relation was dropped.
    """
    rows = session.rows(_GRANTS, (name.schema, name.name))
    for grantee in dict.fromkeys(grantee for *_, grantee in rows):
        session.run(f"REVOKE ALL ON {name.quoted} FROM {grantee}")
    for grant in grants:
        session.run(grant)
