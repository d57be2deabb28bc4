"""Proposes a chain in the job files that ``dbanon init`` writes.

A chain is a series of releases of the same persons, made so that all of them together are private.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from dbanon.data.frozen import dataclass
from dbanon.run.history import build_create_chain_command, derive_chain_name
from dbanon.sessions.names import parse_relation

_CHAIN_REASON = (
    "Each run makes another release of the same persons, and readers may keep every one. The"
    " releases of a chain stay private even in combination (docs/chains.md)"
)
_SECOND_RELEASE_REFUSED = (
    "a second release of these persons is refused, unless the job says releases: independent"
)


@dataclass(frozen=True)
class ChainProposal:
    """The facts about a table that decide whether to propose a chain.

    Parameters
    ----------
    person_column : the column that identifies the person, if each person has a single row; None if
        no such column was recognized.
    entity : the column that identifies the person, if persons have several rows; else None.
    is_supported : whether the database of the table (for a file, of its releases) supports chains.
    """

    person_column: str | None = None
    entity: str | None = None
    is_supported: bool = True

    @property
    def is_part_of_job(self) -> bool:
        """Whether the proposed job releases into a chain."""
        return self.is_supported and bool(self.person_column) and not self.entity

    def render_lines(
        self,
        url: str,
        table: str,
        to_comment: Callable[[str], str],
        to_yaml: Callable[[str], str],
        *,
        is_commented_out: bool = False,
        file_url: str | None = None,
    ) -> str:
        """Render the job's keys for a chain, with comments.

        Parameters
        ----------
        url : the URL of the database that stores the chain, quoted for a shell.
        to_comment : renders a text as comment lines of a job.
        to_yaml : renders a text as a YAML scalar.
        is_commented_out : True to write the keys as a comment, so that the job runs without a
            chain.
        file_url : the URL of the source if it is a file; None for a table of the chain's database.
        """
        identifying_column = self.entity or self.person_column
        if identifying_column is None:
            return to_comment(
                f"{_CHAIN_REASON}. A chain needs an entity, a person identifier. None was"
                " recognized in this table: name it, or every run except the first will warn"
            )
        name = derive_chain_name(parse_relation(table).name)
        create_command = build_create_chain_command(table, identifying_column, url, file_url)
        command_comment = f"    #   {escape_unprintable(create_command)}"
        chain_keys = f'name: {name}, key: "file:{name}.key"'
        chain_line = f"chain: {{{chain_keys}}}\n"
        # ``changes`` says how the chain treats changed values. With ``freeze``, persons keep the
        # values with which they were admitted.
        new_chain_line = f"chain: {{{chain_keys}, changes: freeze, create: true}}\n"
        if not self.is_supported:
            reason = f"{_CHAIN_REASON}, but this kind of database cannot store chains"
            return to_comment(f"{reason}: with entity, {_SECOND_RELEASE_REFUSED}")
        if self.entity:
            return (
                to_comment(
                    f"{_CHAIN_REASON}. If all rows of a person have the same quasi-identifiers,"
                    " create a chain that releases at most N rows of each person, and name it here."
                    f" Without a chain, {_SECOND_RELEASE_REFUSED}"
                )
                + f"{command_comment} --max-rows-per-person N\n    # {chain_line}"
            )
        if is_commented_out:
            return (
                to_comment(
                    f"{_CHAIN_REASON}. If you run this job repeatedly, name a chain. The first run"
                    " creates it. HTML reports are not available for chains"
                )
                + f"    # entity: {to_yaml(identifying_column)}\n    # {new_chain_line}"
            )
        return (
            to_comment(
                f"{_CHAIN_REASON}. The first run creates the chain, and writes its key to the"
                " folder of this file. Keep the key: without it, the chain cannot be continued"
            )
            + f"    entity: {to_yaml(identifying_column)}\n    {new_chain_line}"
        )


def quote_url_for_shell(url: str, has_password: bool) -> str:
    """Quote a URL for a shell command.

    If it has a password or is the value of ``DBANON_URL``, return that variable instead.
    """
    needs_variable = has_password or os.environ.get("DBANON_URL") == url
    return '"$DBANON_URL"' if needs_variable else shlex.quote(url)


def escape_unprintable(text: str) -> str:
    """Escape YAML's line breaks (U+0085, U+2028 …) and unprintable characters in a text."""
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in text
    )
