"""Code of other accounts that reading a view would run with the reader's rights.

A view or routine with ``SQL SECURITY INVOKER`` runs with the rights of whoever uses it; one with
``DEFINER`` runs with its definer's. So a view of the caller's own runs as the caller either way,
and so does whatever INVOKER code it names, at any depth. Code that runs with another definer's
rights can do the caller no harm, and the search ends there.

The server tells no dependencies, so names are looked for in the definitions' text. Every word
counts, also within literals and comments: a word too many refuses a view that is harmless, a word
too few would run somebody's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.errors import ForeignCode
from dbanon.sessions.names import RelationName

# Quoted names in either quotes, and whatever a name without quotes may hold.
_WORD = re.compile(r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+')

_PROGRAMS = """
SELECT 'view', table_schema, table_name, definer, security_type, view_definition
FROM information_schema.views
UNION ALL
SELECT lower(routine_type), routine_schema, routine_name, definer, security_type, routine_definition
FROM information_schema.routines"""

Rows = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class _Program:
    """A view or a routine.

    Parameters
    ----------
    security : ``INVOKER`` or ``DEFINER``.
    text : its definition; None where the server does not show it to this account.
    """

    kind: str
    schema: str
    name: str
    definer: str
    security: str
    text: str | None

    def names(self, other: _Program) -> bool:
        """Whether the text has the other's name, and its schema unless both share it."""
        words = _words(self.text or "")
        schemas = words | {self.schema.lower()}
        return other.name.lower() in words and other.schema.lower() in schemas


def require_own_code(rows: Rows, view: RelationName, account: str | None) -> None:
    """Refuse a view that runs code of another account with the rights of this one.

    Parameters
    ----------
    rows : runs a query and returns its rows.
    account : of the caller, as the server writes definers.

    Raises
    ------
    ForeignCode : the view, or a view or routine that it names at any depth, is such code.
    """
    programs = [_Program(*row) for row in rows(_PROGRAMS)]
    pending = [p for p in programs if (p.schema, p.name) == (view.schema, view.name)]
    pending = [p for p in pending if p.kind == "view"]
    reached = set(pending)
    while pending:
        program = pending.pop()
        if program.definer != account:
            if program.security == "INVOKER":
                raise _foreign_code(view, program)
            continue
        if program.text is None:
            raise ForeignCode(
                f"The definition of the {program.kind} {program.schema}.{program.name} is not shown"
                " to this account, so nobody can tell what it runs.",
                hint="Grant SHOW VIEW on it, or release from a table.",
            )
        named = [p for p in programs if p not in reached and program.names(p)]
        reached.update(named)
        pending += named


def _words(text: str) -> frozenset[str]:
    """All that may be a name in SQL text, in lower case and without quotes."""
    words: Sequence[str] = _WORD.findall(text)
    return frozenset(
        (word[1:-1].replace(word[0] * 2, word[0]) if word[0] in '`"' else word).lower()
        for word in words
    )


def _foreign_code(view: RelationName, program: _Program) -> ForeignCode:
    owner = program.definer or "an account that is not shown"
    what = f"The view {view} is of {owner}, and runs"
    if (program.schema, program.name) != (view.schema, view.name):
        what = (
            f"The view {view} uses the {program.kind} {program.schema}.{program.name} of {owner},"
            " which runs"
        )
    return ForeignCode(
        f"{what} with the rights of whoever reads it.",
        hint="Have it made anew with SQL SECURITY DEFINER, or make one of your own.",
    )
