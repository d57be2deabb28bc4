"""The chain that ``dbanon init`` proposes for the releases of a table."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from dbanon.chain.key import has_file
from dbanon.chain.manage import create, list_chains
from dbanon.chain.staging import keeper
from dbanon.data.frozen import dataclass
from dbanon.errors import DatabaseNotFound
from dbanon.job.chain import Chain, Rules
from dbanon.job.job import Job
from dbanon.run.history import chain_name, create_command
from dbanon.run.key import key_path
from dbanon.sessions.names import parse_relation
from dbanon.sessions.store import Store

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
    is_kept : whether the database of the table keeps chains; of a file, where its releases go.
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
        file_url: str | None = None,
    ) -> str:
        """The keys of the job that make its releases a chain, with comments.

        Parameters
        ----------
        url : of the database that keeps the chain, as a shell has it.
        file_url : of the files that are read; None where they are a table of that database.
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
        command = f"    #   {escape(create_command(table, whose, url, file_url))}"
        place = f'name: {name}, key: "file:{name}.key"'
        chain = f"chain: {{{place}}}\n"
        created = f"chain: {{{place}, changes: freeze, create: true}}\n"
        if not self.is_kept:
            own = f"{_WHY}, but MariaDB keeps no chains"
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
                    f"{_WHY}. For a schedule, name a chain. The first run makes it. A chain takes"
                    " no report that is a page"
                )
                + f"    # entity: {quoted(whose)}\n    # {created}"
            )
        return (
            comment(
                f"{_WHY}. The first run makes the chain, and its key in the folder of this file."
                " Keep the key: without it the chain ends"
            )
            + f"    entity: {quoted(whose)}\n    {created}"
        )


@dataclass(frozen=True)
class ChainToCreate:
    """The chain that the first run of a job makes, as a plan says it."""

    chain: Chain

    def pairs(self) -> list[tuple[str, str]]:
        """Label and text, for people."""
        return [
            ("chain", f"{self.chain.name}: the first run makes it, and its key {self.chain.key}")
        ]


def chain_to_create(job: Job, source: Store, target: Store | None) -> ChainToCreate | None:
    """The chain of a job whose first run makes it, if neither the chain nor its key is there.

    A key without its chain is one of a database that was restored, or another one: the run refuses
    it.
    """
    assert job.chain is not None
    if has_file(job.chain.key):
        return None
    database, file = keeper(source, target)
    try:
        known = {one.name for one in list_chains(database)}
    except DatabaseNotFound:
        if file is None:
            raise
        # The first release makes the database that a file is released to.
        known = set()
    return None if job.chain.name in known else ChainToCreate(job.chain)


def create_chain(job: Job, source: Store, target: Store | None) -> None:
    """Make the chain of a job and its key, if neither is there.

    Raises
    ------
    DbanonError : as ``dbanon.create_chain``; nothing was made.
    """
    if chain_to_create(job, source, target) is None:
        return
    database, file = keeper(source, target)
    assert job.chain is not None
    assert job.entity is not None
    rules = Rules(**job.chain.rules)
    key = key_path(job.chain.key)
    create(database, job.chain.name, job.table, job.entity, rules, key, file=file)


def shell_url(url: str, has_password: bool) -> str:
    """A URL as a command in a comment has it; a variable stands for one with a password."""
    named = has_password or os.environ.get("DBANON_URL") == url
    return '"$DBANON_URL"' if named else shlex.quote(url)


def escape(text: str) -> str:
    """Text without what ends a line in YAML (U+0085, U+2028 …) or may not stand in it."""
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)
