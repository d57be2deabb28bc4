"""A second release of a source: refused, warned of, or asked for by name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from dbanon.data.words import json_text
from dbanon.errors import ReleasesIntersect, SecondRelease, counted, warn_caller
from dbanon.job.job import Job
from dbanon.job.requirements import INDEPENDENT
from dbanon.job.verdict import INTERSECT, Caution, releases_intersect
from dbanon.ledger.source_history import EarlierRelease, SourceHistory
from dbanon.release.joint import JOINT, describe_joint_histories, describe_missing_ledger
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.stores.ports import Target, W

# How many outputs a message names.
_NAMED = 5
CONSENT = '`releases="independent"`'


def require_first(
    job: Job, source: RelationName, history: SourceHistory, consent: str = CONSENT
) -> None:
    """Check that the persons of a source were not released before, unless the job asks for it.

    A release of a chain is checked by the chain. Without an entity, ``caution_of`` warns.

    Parameters
    ----------
    consent : the option by which it is asked for, as hints have it.

    Raises
    ------
    SecondRelease : they were.
    """
    if job.chain is not None or job.releases == INDEPENDENT:
        return
    for entity in job.guarantee.persons:
        earlier = history.of_entity(entity)
        if earlier:
            raise SecondRelease(
                f'{source} was released by entity "{entity}" before; nothing was published.',
                detail=f"The ledger has {_named(earlier)}. {INTERSECT}.",
                hint=_hint(str(source), entity, history, consent),
            )


def caution_of(job: Job, source: str, history: SourceHistory) -> Caution | None:
    """What readers of the release have to be told of earlier ones; None if nothing."""
    earlier = history.with_classes()
    if not earlier or job.chain is not None or job.releases == INDEPENDENT:
        return None
    return releases_intersect(f"{source} was released before: {_named(earlier)}")


def joint_histories(
    job: Job, history: SourceHistory, target: Target[W], written: W
) -> dict[str, Any]:
    """What a report says of joint histories, under its name; nothing at a first release.

    A release of a chain has a report of its own.
    """
    for entity in () if job.chain is not None else job.guarantee.persons:
        if not history.is_lasting:
            return {JOINT: describe_missing_ledger()}
        earlier = history.of_entity(entity)
        if earlier:
            counts = target.joint_histories(written, earlier, int(job.policy.k))
            of_chains = [one.output for one in earlier if one.is_chained]
            return {JOINT: describe_joint_histories(len(earlier), counts, of_chains)}
    return {}


def unmeasured_histories(job: Job, history: SourceHistory) -> dict[str, Any]:
    """The same of a release whose persons no ledger has."""
    for entity in job.guarantee.persons:
        earlier = history.of_entity(entity)
        if earlier:
            return {JOINT: describe_joint_histories(len(earlier), None, ())}
    return {}


def warn_of_history(caution: Caution | None) -> None:
    """Warn with ``ReleasesIntersect``, if there is something to warn of."""
    if caution is not None:
        warn_caller(ReleasesIntersect(f"{caution.what}; {caution.why}."))


def _named(earlier: Sequence[EarlierRelease]) -> str:
    names = list(dict.fromkeys(one.output for one in earlier))
    more = f" and {len(names) - _NAMED} more outputs" if len(names) > _NAMED else ""
    return f"{counted(len(earlier), 'earlier release')} ({', '.join(names[:_NAMED])}{more})"


def _hint(source: str, entity: str, history: SourceHistory, consent: str) -> str:
    """What to do: a chain where the database of the source can keep one, or the option."""
    alone = f"To release it all the same, with no protection against this: {consent}"
    if history.files_sql is not None:
        load, database = load_command(source, history.files_sql)
        return (
            "Its source is a file, which keeps no chain. Load it into a DuckDB file before each"
            " release, and make a chain there once. Name the chain for each release of that file"
            f" (`chain`): its releases stay private together.\n  {load}\n"
            f"  {create_command(source, entity, f'duckdb:///{database}')}\n{alone}"
        )
    if not history.takes_chains:
        return f"Its source is no database that keeps chains. {alone}"
    return (
        "Make a chain, and name it for each release (`chain`): its releases stay private"
        f" together.\n  {create_command(source, entity)}\n{alone}"
    )


def load_command(source: str, files_sql: str) -> tuple[str, str]:
    """The command that loads files into a table of a DuckDB file, and the name of that file.

    Parameters
    ----------
    source : the name of the table, as reports have it. files_sql : what FROM has for the files.
    """
    name = parse_relation(source)
    database = f"{chain_name(name.name)}.duckdb"
    parts = [quote(part) for part in (name.schema, name.name) if part not in (None, "main")]
    made = f"CREATE SCHEMA IF NOT EXISTS {parts[0]}; " if len(parts) > 1 else ""
    statement = f"{made}CREATE OR REPLACE TABLE {'.'.join(parts)} AS FROM {files_sql}"
    # Apostrophes would end what the shell takes as one word.
    text = json_text(statement).replace("'", "\\x27")
    program = f'import duckdb; duckdb.connect("{database}").execute({text})'
    return f"python3 -c {shlex.quote(program)}", database


def create_command(source: str, entity: str, url: str = "URL") -> str:
    """The command that makes a chain of a source; ``url`` as a shell has it."""
    name = chain_name(parse_relation(source).name)
    words = [name, "--table", source, "--entity", entity, "--changes", "freeze"]
    return f"dbanon chain create {url} {shlex.join([*words, '--key-out', f'{name}.key'])}"


def chain_name(name: str) -> str:
    """A name for a chain, made of the name of its table or job."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:48] or "chain"
