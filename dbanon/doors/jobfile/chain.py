"""The chain that ``dbanon init`` proposes for the releases of a table."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from dbanon.data.frozen import dataclass
from dbanon.run.history import chain_name, create_command
from dbanon.sessions.names import parse_relation

_WHY = (
    "Each run makes another release of the same persons, and readers may keep every one. The"
    " releases of a chain stay private together (docs/chains.md)"
)
_REFUSED = "a second release of these persons is refused, unless the job says releases: independent"


@dataclass(frozen=True)
class ChainProposal:
    """What is known of a table that a chain depends on.

    Parameters
    ----------
    person : the column that identifies persons who have one row each; None if none is sure.
    entity : the column that says whose a row is, where persons have several rows.
    is_kept : whether the database of the table keeps chains.
    """

    person: str | None = None
    entity: str | None = None
    is_kept: bool = True

    @property
    def is_made(self) -> bool:
        """Whether the job of a proposal is a release of a chain."""
        return self.is_kept and bool(self.person) and not self.entity

    def lines(
        self,
        url: str,
        table: str,
        comment: Callable[[str], str],
        quoted: Callable[[str], str],
        *,
        commented: bool = False,
    ) -> str:
        """The keys of the job that make its releases a chain, with comments.

        Parameters
        ----------
        url : of the database, as a shell has it.
        comment, quoted : write text as a comment of a job, and as YAML.
        commented : the keys are comments: a run of the file must work before the chain is made.
        """
        whose = self.entity or self.person
        if whose is None:
            return comment(
                f"{_WHY}. A chain needs entity, a number that stays with its person. This table has"
                " none for sure: name it, or each run but the first warns"
            )
        name = chain_name(parse_relation(table).name)
        command = f"    #   {escape(create_command(table, whose, url))}"
        chain = f'chain: {{name: {name}, key: "file:{name}.key"}}\n'
        if not self.is_kept:
            own = f"{_WHY}, but files and MariaDB keep no chains"
            return comment(f"{own}: with entity, {_REFUSED}")
        if self.entity:
            return (
                comment(
                    f"{_WHY}. Where a person's rows agree in all quasi-identifiers, make a chain"
                    " that shows at most N rows of each person, and name it. Without it,"
                    f" {_REFUSED}"
                )
                + f"{command} --max-rows-per-person N\n    # {chain}"
            )
        if commented:
            return (
                comment(
                    f"{_WHY}. For a schedule, make the chain once, in the folder of this file, and"
                    " name it. A chain takes no report that is a page"
                )
                + f"{command}\n    # entity: {quoted(whose)}\n    # {chain}"
            )
        return (
            comment(f"{_WHY}. Make the chain once, in the folder of this file")
            + f"{command}\n    entity: {quoted(whose)}\n    {chain}"
        )


def shell_url(url: str, has_password: bool) -> str:
    """A URL as a command in a comment has it; a variable stands for one with a password."""
    named = has_password or os.environ.get("DBANON_URL") == url
    return '"$DBANON_URL"' if named else shlex.quote(url)


def escape(text: str) -> str:
    """Text without what ends a line in YAML (U+0085, U+2028 …) or may not stand in it."""
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)
