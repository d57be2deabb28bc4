"""What a role has to be allowed on PostgreSQL, asked before anything is read or made."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.errors import InsufficientRights, LedgerNotTrusted, OutputExists, SourceChanged
from dbanon.stores.base import Locator, Relation
from dbanon.stores.names import quote
from dbanon.stores.postgresql import catalog, foreign, ledger
from dbanon.stores.sql import Session


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


def require_schema(session: Session, schema: str) -> None:
    """Check that tables may be made in a schema, which may have to be made itself.

    Raises
    ------
    InsufficientRights : the role may not.
    """
    found = session.rows(catalog.SCHEMA_RIGHTS, (schema,))
    if not found and not session.rows(catalog.DATABASE_RIGHTS)[0][0]:
        raise InsufficientRights(
            f'There is no schema "{schema}", and this role may not create it.',
            hint=f"CREATE SCHEMA {quote(schema)} AUTHORIZATION this role.",
        )
    if found and not all(found[0]):
        raise InsufficientRights(
            f'This role may not create tables in schema "{schema}".',
            hint=f"GRANT USAGE, CREATE ON SCHEMA {quote(schema)} to it.",
        )


def make_schema(session: Session, schema: str) -> None:
    """Make a schema that is missing.

    Raises
    ------
    SourceChanged : another session made it meanwhile.
    """
    if session.rows(catalog.SCHEMA_RIGHTS, (schema,)):
        return
    try:
        session.run(f"CREATE SCHEMA {quote(schema)}")
    except OutputExists:
        raise SourceChanged(
            f'Another session made the schema "{schema}" meanwhile.', hint="Try again."
        ) from None


def require_ledger_rights(session: Session) -> None:
    """Check that a release can be written into the ledger.

    Raises
    ------
    InsufficientRights : the role may not; the hint says what to grant.
    """
    missing = [name for (name,) in session.rows(ledger.RIGHTS_MISSING)]
    if missing:
        raise InsufficientRights(
            "This role may not write into the ledger, schema dbanon.",
            detail="Missing: " + ", ".join(missing) + ".",
            hint="Ask an administrator to run dbanon install, or dbanon install --sql-only, and"
            " to GRANT dbanon_runner to it.",
        )


def require_trusted_ledger(session: Session) -> None:
    """Check that nobody else's code runs when the ledger is read or written.

    Raises
    ------
    LedgerNotTrusted : somebody's could.
    """
    wrong = session.rows(ledger.UNTRUSTED)
    if wrong:
        what, owner, _ = wrong[0]
        raise LedgerNotTrusted(
            f"The ledger of this database is not trusted: {what}, of role {owner}.",
            detail="; ".join(f"{what}, of role {owner}" for what, owner, _ in wrong[:20]),
            hint=ledger.NOT_TRUSTED_HINT,
        )
