"""Refreshes a release by its ledger entry: from the current source, under the same name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dbanon.errors import (
    InsufficientRights,
    InvalidParameter,
    PseudonymKeyWrong,
    RefreshRefused,
    ReleaseNotFound,
)
from dbanon.hierarchy.spec import NAME, TABLE, HierarchySpec
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.pseudonym import Pseudonymized
from dbanon.job.request import job_of_request
from dbanon.job.requirements import INDEPENDENT
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import reading_entry
from dbanon.ledger.recorded_report import recorded_request
from dbanon.ledger.source_history import SourceHistory, earlier_releases
from dbanon.run.history import require_first
from dbanon.run.key import key_of_pseudonyms
from dbanon.run.rules import with_rules
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session
from dbanon.stores import hierarchies
from dbanon.version import version

# Differences from the earlier release that the caller may accept.
VERSION, RULES, SOURCE, HIERARCHIES = "version", "rules", "source", "hierarchies"
ACCEPTED = (VERSION, RULES, SOURCE, HIERARCHIES, INDEPENDENT)
_CONSENT = f'`accept=["{INDEPENDENT}"]`'


def job_again(
    session: Session,
    release: str,
    *,
    accept: Collection[str] = (),
    chain_key: str | None = None,
    pseudonym_key: str | None = None,
    door: str = "python",
    **more: Any,
) -> Job:
    """The job that refreshes a release, under its name and in its place.

    Parameters
    ----------
    release : the name of its output.
    accept : accepted differences from the earlier release; words of ``ACCEPTED``.
    chain_key : location of the chain's key, for a release of a chain.
    pseudonym_key : location of the pseudonyms' key, for a release with pseudonyms.
    more : options of the run that do not change the release.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    InsufficientRights : another role published it.
    RefreshRefused : the ledger's entry is incomplete, or the release would differ; lists each
        difference.
    SecondRelease : its persons were released before, without consent to independent releases.
    InvalidParameter : ``accept`` has an unknown word, or a key is missing.
    PseudonymKeyWrong : the key of the pseudonyms has changed.
    LedgerEntryBroken : the entry does not have the form that dbanon writes.
    """
    for word in accept:
        if word not in ACCEPTED:
            raise InvalidParameter(f"accept takes {', '.join(ACCEPTED)}.")
    name = session.resolve_output(parse_relation(release))
    with reading_entry(name):
        return _job(session, name, accept, chain_key, pseudonym_key, door, more)


def _job(
    session: Session,
    name: RelationName,
    accept: Collection[str],
    chain_key: str | None,
    pseudonym_key: str | None,
    door: str,
    more: dict[str, Any],
) -> Job:
    """The job of a ledger entry, whose content is not trusted."""
    request, then, arguments = _entry(session, name)
    hashes = arguments.get("hierarchies", {})
    with_chain: dict[str, Any] = {}
    if "chain" in request:
        if chain_key is None:
            raise InvalidParameter(
                f"{name} is a release of chain {request['chain']['name']}, which needs its key.",
                hint="Refresh it from a client, and name the chain key as file:PATH or env:NAME.",
            )
        with_chain = {"chain": Chain(key=chain_key, **request["chain"])}
    if "pseudonyms" in arguments:
        _require_key(name, arguments["pseudonyms"], pseudonym_key)
    if pseudonym_key is not None:
        more["pseudonym_key"] = pseudonym_key
    job = job_of_request(request, door=door, output=str(name), **with_chain, **more)
    relation = session.find_source(parse_relation(job.table))
    job = with_rules(session, job)
    if INDEPENDENT in accept and job.chain is None:
        job = replace(job, releases=INDEPENDENT)
    others: dict[str, list[str]] = {}
    for word, difference in _differences(session, job, relation, request, then, hashes):
        if word not in accept:
            others.setdefault(word, []).append(difference)
    if others:
        raise RefreshRefused(
            f"{name} would differ from the earlier release; nothing was published.",
            detail="; ".join(
                difference for differences in others.values() for difference in differences
            )
            + ".",
            hint=f"If these changes are intended: `accept={json.dumps(list(others))}`. Or release"
            " the table again.",
        )
    earlier = earlier_releases(session, str(relation.name), session.state_of(relation.name))
    history = SourceHistory(earlier, "chains" not in session.unsupported_features)
    require_first(job, relation.name, history, _CONSENT)
    return job


def _entry(session: Session, name: RelationName) -> tuple[dict[str, Any], str, Mapping[str, Any]]:
    """The recorded request, the version of dbanon that made it, and the arguments."""
    if not entries.has_trusted_ledger(session):
        raise ReleaseNotFound(f"The ledger of this database has no release {name}.")
    existing = session.find_existing(name)
    release_id = entries.release_id_of(session, name, existing)
    if release_id is None or existing is None:
        raise ReleaseNotFound(
            f"The ledger of this database has no release {name}.",
            hint="dbanon releases lists all releases with their current state.",
        )
    request, arguments, then, publisher, epsilon = recorded_request(session, release_id)
    user = session.current_user()
    if not _is_publisher(session, request, publisher):
        # Its conditions and files were chosen by that role, for that role's rights.
        raise InsufficientRights(
            f"{name} was published by role {publisher}, and this is {user}.",
            hint=(
                f"Refresh it as role {publisher}, or release the source again under another name."
            ),
        )
    if epsilon is not None:
        raise RefreshRefused(
            f"{name} is differentially private, so making it again would spend epsilon again.",
            hint="To spend epsilon again, release the source again: dbanon anonymize.",
        )
    if request is None:
        raise RefreshRefused(
            f"The ledger does not have all options of {name}.",
            detail="It was made by an earlier version, on a cluster, or of another database or a"
            " file.",
            hint="Release it again with all options. If the source is a table of this database,"
            " that release can be refreshed.",
        )
    request_options: dict[str, Any] = json.loads(request)
    if request_options.get("lacks"):
        raise RefreshRefused(
            f"The ledger does not have all options of {name}.",
            detail=f"It keeps no values of columns: {', '.join(request_options['lacks'])}.",
            hint="Declare orders and hierarchies as rules of the table (dbanon declare), or store"
            " hierarchies by name (dbanon hierarchy store), and release it again.",
        )
    return request_options, str(then), json.loads(arguments)


def _is_publisher(session: Session, request: str | None, name: str | None) -> bool:
    """Whether this role published a release. Compares role OIDs if recorded, else names.

    A renamed role keeps its OID, and another role may take its former name.
    """
    number = None if request is None else json.loads(request).get(entries.PUBLISHER_OID_KEY)
    if number is None:
        return name == session.current_user()
    return bool(number == session.role_number())


def _require_key(name: RelationName, then: Mapping[str, Any], where: str | None) -> None:
    """Check that the key of a release's pseudonyms is unchanged.

    Raises
    ------
    InvalidParameter : its location was not specified.
    PseudonymKeyWrong : it cannot be read, or has changed.
    """
    if where is None:
        raise InvalidParameter(
            f"{name} has pseudonyms, which need their key.",
            hint="Refresh it from a client, and name the file or variable that holds the key:"
            " `pseudonym_key`.",
        )
    Pseudonymized(pseudonym_key=where)
    if key_of_pseudonyms(where).check != then["key"]:
        raise PseudonymKeyWrong(
            f"This is not the key that the pseudonyms of {name} were made with.",
            hint="Name the key of the release. If pseudonyms need not match it any more, release"
            " the source again with the new key.",
        )


def _differences(
    session: Session,
    job: Job,
    relation: Relation,
    request: Mapping[str, Any],
    then: str,
    hashes: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str]]:
    """Differences from the earlier release: the word that accepts each, and a description."""
    if then != version():
        yield VERSION, f"version {then} made it, and this is {version()}"
    if request.get("declared") != job.declared:
        yield RULES, f"the rules of {relation.name} are others now"
    source = request["source"]
    existing = session.find_existing(relation.name)
    if existing is not None and source.get("oid") not in (None, existing.oid):
        yield SOURCE, f"{relation.name} is another table of this name now"
    types = {a.name: a.sql_type for a in relation.schema.attributes}
    for name in dict.fromkeys((*job.read, *(job.roles or ()))):
        if name not in types:
            yield SOURCE, f'column "{name}" of {relation.name} is gone'
        elif name in source["types"] and types[name] != source["types"][name]:
            difference = f'column "{name}" was {source["types"][name]}, and is {types[name]}'
            yield SOURCE, difference
    for column, spec in job.hierarchies.items():
        recorded = hashes.get(column, {}).get("sha256")
        if recorded is None or not isinstance(spec, HierarchySpec):
            continue
        if spec.kind in (TABLE, NAME) and hierarchies.resolve(session, spec).sha256 != recorded:
            yield HIERARCHIES, f'the hierarchy of "{column}" is another one now'
