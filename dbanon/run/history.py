"""Refuse repeated releases of a source, or warn of them, unless the job allows them.

An attacker may intersect the classes that a person has in several releases. A person's
*joint history* is the combination of the classes that the person has in all of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dbanon.data.types import JsonObject
from dbanon.errors import ReleasesIntersect, SecondRelease, pluralize, warn_caller
from dbanon.job.job import Job
from dbanon.job.requirements import INDEPENDENT
from dbanon.job.verdict import INTERSECTION_RISK, Caution, build_intersection_caution
from dbanon.ledger.source_history import EarlierRelease, SourceHistory
from dbanon.release.joint import JOINT_HISTORIES, describe_joint_histories, describe_missing_ledger
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.ports import Target, W

_MAX_NAMED_OUTPUTS = 5
# The option by which the user allows another release outside a chain, for hints.
CONSENT = '`releases="independent"`'


def require_first_release(
    job: Job, source: RelationName, history: SourceHistory, consent: str = CONSENT
) -> None:
    """Refuse to release persons of a source again, unless the job allows independent releases.

    Chains check their own releases. For jobs without an entity, see ``caution_about_history``.

    Parameters
    ----------
    source : the source relation.
    history : the earlier releases of the source.
    consent : the option that allows independent releases, as the hint shows it.

    Raises
    ------
    SecondRelease : persons were released before, and the job does not allow independent releases.
    """
    if job.chain is not None or job.releases == INDEPENDENT:
        return
    # There is at most one entity column.
    for entity in job.guarantee.entity_columns:
        earlier_releases = history.releases_of_entity(entity)
        if earlier_releases:
            raise SecondRelease(
                f'{source} was already released with "{entity}" as the entity; nothing was'
                " published.",
                detail=f"The ledger has {describe_outputs(earlier_releases)}. {INTERSECTION_RISK}.",
                hint=_build_hint(str(source), entity, history, consent),
            )


def caution_about_history(job: Job, source: str, history: SourceHistory) -> Caution | None:
    """Return a caution if the classes of this release may be intersected with earlier ones.

    None without such earlier releases, for chains, and if the job allows independent releases.
    """
    earlier_releases = history.releases_with_classes()
    if not earlier_releases or job.chain is not None or job.releases == INDEPENDENT:
        return None
    return build_intersection_caution(
        f"{source} was released before: {describe_outputs(earlier_releases)}"
    )


def measure_joint_histories(
    job: Job, history: SourceHistory, target: Target[W], staged_release: W
) -> JsonObject:
    """Count joint histories over this and earlier releases, for the report.

    The result is empty for a first release, and for chains, which report on their releases
    themselves.
    """
    for entity in () if job.chain is not None else job.guarantee.entity_columns:
        # A temporary ledger does not know earlier releases.
        if not history.is_persistent:
            return {JOINT_HISTORIES: describe_missing_ledger()}
        earlier_releases = history.releases_of_entity(entity)
        if earlier_releases:
            counts = target.joint_histories(staged_release, earlier_releases, int(job.policy.k))
            chained_outputs = [release.output for release in earlier_releases if release.is_chained]
            return {
                JOINT_HISTORIES: describe_joint_histories(
                    len(earlier_releases), counts, chained_outputs
                )
            }
    return {}


def describe_unmeasured_histories(job: Job, history: SourceHistory) -> JsonObject:
    """Return the report's entry about joint histories that cannot be counted.

    The ledger has no record of the persons in the earlier releases, so there are no counts.
    """
    for entity in job.guarantee.entity_columns:
        earlier_releases = history.releases_of_entity(entity)
        if earlier_releases:
            return {
                JOINT_HISTORIES: describe_joint_histories(
                    len(earlier_releases), counts=None, chain_outputs=()
                )
            }
    return {}


def warn_of_history(caution: Caution) -> None:
    """Issue the caution as a ``ReleasesIntersect`` warning."""
    warn_caller(ReleasesIntersect(f"{caution.warning}; {caution.reason}."))


def describe_outputs(earlier_releases: Sequence[EarlierRelease]) -> str:
    """Describe the number of earlier releases, and name some of their outputs."""
    names = list(dict.fromkeys(release.output for release in earlier_releases))
    suffix = (
        f" and {len(names) - _MAX_NAMED_OUTPUTS} more outputs"
        if len(names) > _MAX_NAMED_OUTPUTS
        else ""
    )
    listed_outputs = ", ".join(names[:_MAX_NAMED_OUTPUTS])
    return f"{pluralize(len(earlier_releases), 'earlier release')} ({listed_outputs}{suffix})"


def _build_hint(source: str, entity: str, history: SourceHistory, consent: str) -> str:
    """Suggest a chain if the source's database supports chains; otherwise only the consent."""
    independent_hint = f"To release it all the same, with no protection against this: {consent}"
    # ``file_url`` is None if the source is a table, whose chain is in its own database. A chain
    # over files is in the database that takes the releases.
    if not history.supports_chains:
        reason = (
            "Its source is not a database that supports chains."
            if history.file_url is None
            else "There is no database here that supports chains."
        )
        return f"{reason} {independent_hint}"
    database = "" if history.file_url is None else " in the database that takes the releases"
    command = build_create_chain_command(source, entity, file_url=history.file_url)
    return (
        f"Make a chain{database}, and name it for each release (`chain`): k then also holds for"
        f" its releases combined.\n  {command}\n"
        f"{independent_hint}"
    )


def build_create_chain_command(
    source: str, entity: str, url: str = "URL", file_url: str | None = None
) -> str:
    """Return the shell command that creates a chain for releases of a source.

    Parameters
    ----------
    url : the URL of the database that stores the chain, quoted for a shell if necessary.
    file_url : the URL of the source's files; None for a table of that database.
    """
    name = derive_chain_name(parse_relation(source).name)
    arguments = [name, "--table", source, "--entity", entity, "--changes", "freeze"]
    arguments += [] if file_url is None else ["--source", file_url]
    return f"dbanon chain create {url} {shlex.join([*arguments, '--key-out', f'{name}.key'])}"


def derive_chain_name(name: str) -> str:
    """Derive a chain's name from the name of its table or job."""
    # ``require_chain_name`` allows these characters, and at most 63 of them.
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:48] or "chain"
