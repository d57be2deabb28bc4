"""The chain that ``dbanon init`` proposes for the releases of a table."""

from __future__ import annotations

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

    def lines(
        self,
        url: str,
        table: str,
        comment: Callable[[str], str],
        quoted: Callable[[str], str],
        refusal: str | None,
    ) -> str:
        """The keys of the job that make its releases a chain, with comments.

        Parameters
        ----------
        url : of the database, as a shell has it.
        comment, quoted : write text as a comment of a job, and as YAML.
        refusal : why a chain cannot be used with what else was decided; None if it can.
        """
        whose = self.entity or self.person
        if whose is None:
            return comment(
                f"{_WHY}. A chain needs entity, a number that stays with its person. This table has"
                " none for sure: name it, or each run but the first warns"
            )
        name = chain_name(parse_relation(table).name)
        command = f"    #   {create_command(table, whose, url)}"
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
        if refusal is not None:
            return comment(f"{_WHY}. Not here: {refusal}. With entity, {_REFUSED}")
        return (
            comment(f"{_WHY}. Make the chain once, in the folder of this file")
            + f"{command}\n    entity: {quoted(whose)}\n    {chain}"
        )


def shell_url(url: str, has_password: bool) -> str:
    """A URL as a command in a comment has it; a variable stands for one with a password."""
    return '"$DBANON_URL"' if has_password else shlex.quote(url)
