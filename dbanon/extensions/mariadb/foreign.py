"""Refuse views that would run code of other accounts with the reader's rights.

A view or routine with ``SQL SECURITY INVOKER`` runs with the rights of the account that uses it;
with ``DEFINER`` it runs with the rights of the account that defined it. A view that the caller
defined runs with the caller's rights in both cases, and so does the INVOKER code that the view
uses, directly or through other code. Code that runs with another account's rights cannot harm the
caller, so the search does not follow it.

The server does not report dependencies, so names are searched for in the text of definitions.
Even words in literals and comments count: a false match only refuses a harmless view, but a missed
name would let another account's code run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dbanon.data.frozen import dataclass
from dbanon.data.types import SqlRow
from dbanon.errors import ForeignCode, sql_for_hint
from dbanon.extensions.mariadb.dialect import quote_account, quote_dotted
from dbanon.sessions.names import RelationName

# Names in either kind of quotes, and unquoted names.
_NAME_PATTERN = re.compile(r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+')

_PROGRAMS_QUERY = """
SELECT 'view', table_schema, table_name, definer, security_type, view_definition
FROM information_schema.views
UNION ALL
SELECT lower(routine_type), routine_schema, routine_name, definer, security_type, routine_definition
FROM information_schema.routines"""

RunQuery = Callable[[str], list[SqlRow]]


@dataclass(frozen=True)
class _Program:
    """A view or a routine.

    Parameters
    ----------
    kind : ``view``, ``function`` or ``procedure``.
    definer : the account that defined it.
    security : ``INVOKER`` or ``DEFINER``.
    definition : SQL; None if the server hides it from this account.
    """

    kind: str
    schema: str
    name: str
    definer: str
    security: str
    definition: str | None

    def mentions(self, other: _Program) -> bool:
        """Return True if the definition mentions the other's name, and its schema if it differs."""
        words = _words(self.definition or "")
        # A name without a schema is in the schema of the program.
        schemas = words | {self.schema.lower()}
        return other.name.lower() in words and other.schema.lower() in schemas


def require_no_foreign_code(run_query: RunQuery, view: RelationName, account: str | None) -> None:
    """Refuse a view that runs code of another account with the rights of this one.

    Parameters
    ----------
    run_query : runs a query and returns its rows.
    account : the caller's account, as the server writes definers.

    Raises
    ------
    ForeignCode : the view is such code, or uses such code directly or through other code.
    """
    programs = [_Program(*row) for row in run_query(_PROGRAMS_QUERY)]
    view_key = ("view", view.schema, view.name)
    unchecked_programs = [p for p in programs if (p.kind, p.schema, p.name) == view_key]
    visited_programs = set(unchecked_programs)
    while unchecked_programs:
        program = unchecked_programs.pop()
        if program.definer != account:
            if program.security == "INVOKER":
                raise _foreign_code_error(view, program)
            continue
        if program.definition is None:
            name = sql_for_hint(quote_dotted(RelationName(program.schema, program.name)))
            raise ForeignCode(
                f"The definition of the {program.kind} {program.schema}.{program.name} is not shown"
                " to this account, so dbanon cannot check what it runs.",
                hint=f"Run GRANT SHOW VIEW ON {name} TO {sql_for_hint(quote_account(account))}, or"
                " release from a table.",
            )
        used_programs = [p for p in programs if p not in visited_programs and program.mentions(p)]
        visited_programs.update(used_programs)
        unchecked_programs += used_programs


def _words(text: str) -> frozenset[str]:
    """Return all words in SQL text that may be names, in lower case and without quotes."""
    words: Sequence[str] = _NAME_PATTERN.findall(text)
    return frozenset(
        (word[1:-1].replace(word[0] * 2, word[0]) if word[0] in '`"' else word).lower()
        for word in words
    )


def _foreign_code_error(view: RelationName, program: _Program) -> ForeignCode:
    """Build the error for a view that is, or uses, another account's INVOKER code."""
    owner = program.definer or "an account that is not shown"
    subject = f"The view {view} belongs to {owner}, and runs"
    if (program.schema, program.name) != (view.schema, view.name):
        subject = (
            f"The view {view} uses the {program.kind} {program.schema}.{program.name} of {owner},"
            " which runs"
        )
    return ForeignCode(
        f"{subject} with the rights of whoever reads it.",
        hint="Let its owner create it again with SQL SECURITY DEFINER, or release from a table or a"
        " view that this account created without it.",
    )
