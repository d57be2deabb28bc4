"""Second releases of a source: refuse them, warn, or accept an explicit consent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from dbanon.errors import ReleasesIntersect, SecondRelease, counted, warn_caller
from dbanon.job.job import Job
from dbanon.job.requirements import INDEPENDENT
from dbanon.job.verdict import INTERSECT, Caution, releases_intersect
from dbanon.ledger.source_history import EarlierRelease, SourceHistory
from dbanon.release.joint import JOINT, describe_joint_histories, describe_missing_ledger
from dbanon.sessions.names import RelationName, parse_relation
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
    SecondRelease : they were, and the job does not ask for it.
    """
    if job.chain is not None or job.releases == INDEPENDENT:
        return
    for entity in job.guarantee.persons:
        earlier = history.releases_of_entity(entity)
        if earlier:
            raise SecondRelease(
                f'{source} was released by entity "{entity}" before; nothing was published.',
                detail=f"The ledger has {_describe_outputs(earlier)}. {INTERSECT}.",
                hint=_hint(str(source), entity, history, consent),
            )


def caution_of(job: Job, source: str, history: SourceHistory) -> Caution | None:
    """The caution about earlier releases for readers of this one; None if there is none."""
    earlier = history.releases_with_classes()
    if not earlier or job.chain is not None or job.releases == INDEPENDENT:
        return None
    return releases_intersect(f"{source} was released before: {_describe_outputs(earlier)}")


def joint_histories(
    job: Job, history: SourceHistory, target: Target[W], written: W
) -> dict[str, Any]:
    """The report's entry about joint histories; empty for a first release.

    Releases of a chain have their own report.
    """
    for entity in () if job.chain is not None else job.guarantee.persons:
        if not history.is_persistent:
            return {JOINT: describe_missing_ledger()}
        earlier = history.releases_of_entity(entity)
        if earlier:
            counts = target.joint_histories(written, earlier, int(job.policy.k))
            of_chains = [release.output for release in earlier if release.is_chained]
            return {JOINT: describe_joint_histories(len(earlier), counts, of_chains)}
    return {}


def unmeasured_histories(job: Job, history: SourceHistory) -> dict[str, Any]:
    """The same for a release whose persons are in no ledger."""
    for entity in job.guarantee.persons:
        earlier = history.releases_of_entity(entity)
        if earlier:
            return {JOINT: describe_joint_histories(len(earlier), None, ())}
    return {}


def warn_of_history(caution: Caution | None) -> None:
    """Warn with ``ReleasesIntersect``, if there is something to warn of."""
    if caution is not None:
        warn_caller(ReleasesIntersect(f"{caution.what}; {caution.why}."))


def _describe_outputs(earlier: Sequence[EarlierRelease]) -> str:
    names = list(dict.fromkeys(release.output for release in earlier))
    more = f" and {len(names) - _NAMED} more outputs" if len(names) > _NAMED else ""
    return f"{counted(len(earlier), 'earlier release')} ({', '.join(names[:_NAMED])}{more})"


def _hint(source: str, entity: str, history: SourceHistory, consent: str) -> str:
    """Suggest a chain where the source's database supports one, or else the option."""
    independent_hint = f"To release it all the same, with no protection against this: {consent}"
    if not history.supports_chains:
        which = "Its source is no database" if history.file_url is None else "No database here"
        return f"{which} that keeps chains. {independent_hint}"
    where = "" if history.file_url is None else " in the database that takes the releases"
    return (
        f"Make a chain{where}, and name it for each release (`chain`): its releases stay private"
        f" together.\n  {create_command(source, entity, file_url=history.file_url)}\n"
        f"{independent_hint}"
    )


def create_command(source: str, entity: str, url: str = "URL", file_url: str | None = None) -> str:
    """The command that makes a chain of a source.

    Parameters
    ----------
    url : of the database that keeps it, as a shell has it.
    file_url : of the files that it reads; None where it reads a table of that database.
    """
    name = chain_name(parse_relation(source).name)
    words = [name, "--table", source, "--entity", entity, "--changes", "freeze"]
    words += [] if file_url is None else ["--source", file_url]
    return f"dbanon chain create {url} {shlex.join([*words, '--key-out', f'{name}.key'])}"


def chain_name(name: str) -> str:
    """A name for a chain, made of the name of its table or job."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:48] or "chain"
