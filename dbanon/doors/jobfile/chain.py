"""Proposes a chain in the job files that ``dbanon init`` writes, and creates it on the first run.

A chain is a series of releases of the same persons, made so that all of them together are private.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from dbanon.chain.key import key_exists
from dbanon.chain.manage import create, list_chains
from dbanon.chain.staging import chain_store
from dbanon.data.frozen import dataclass
from dbanon.errors import DatabaseNotFound
from dbanon.job.chain import Chain, ChainRules
from dbanon.job.job import Job
from dbanon.run.history import build_create_chain_command, derive_chain_name
from dbanon.run.key import key_path
from dbanon.sessions.names import parse_relation
from dbanon.sessions.store import Store

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


@dataclass(frozen=True)
class ChainToCreate:
    """The chain that the first run of a job will create, as the job's plan describes it."""

    chain: Chain

    def pairs(self) -> list[tuple[str, str]]:
        """Return the plan's lines about the chain, each a label and a text."""
        return [
            ("chain", f"{self.chain.name}: the first run creates it and its key {self.chain.key}")
        ]


def find_chain_to_create(job: Job, source: Store, target: Store | None) -> ChainToCreate | None:
    """Return the chain that a job's run will create; None if the chain or its key file exists.

    If a key file exists without its chain, the key belongs to a chain in another database, or the
    database was restored to an earlier state. Then the run refuses the job.
    """
    assert job.chain is not None
    if key_exists(job.chain.key):
        return None
    database, file_store = chain_store(source, target)
    try:
        chain_names = {chain.name for chain in list_chains(database)}
    except DatabaseNotFound:
        if file_store is None:
            raise
        # The database for the releases of a file does not exist before the first release.
        chain_names = set()
    return None if job.chain.name in chain_names else ChainToCreate(job.chain)


def create_chain(job: Job, source: Store, target: Store | None) -> None:
    """Create the chain of a job and its key, if neither exists.

    Raises
    ------
    DbanonError : for the reasons given for ``dbanon.create_chain``; nothing was created.
    """
    if find_chain_to_create(job, source, target) is None:
        return
    database, file_store = chain_store(source, target)
    assert job.chain is not None
    assert job.entity is not None
    rules = ChainRules(**job.chain.rules)
    key = key_path(job.chain.key)
    create(database, job.chain.name, job.table, job.entity, rules, key, file_store=file_store)


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
