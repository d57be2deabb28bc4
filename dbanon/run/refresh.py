"""Build the job that refreshes a release: it repeats the recorded request on the current rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dbanon.data.types import JsonMapping, JsonObject
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
from dbanon.job.pseudonym import PseudonymOptions
from dbanon.job.request import job_from_request
from dbanon.job.requirements import INDEPENDENT
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import reading_entry
from dbanon.ledger.recorded_report import recorded_request
from dbanon.ledger.source_history import SourceHistory, earlier_releases
from dbanon.run.history import require_first_release
from dbanon.run.key import read_pseudonym_key
from dbanon.run.rules import apply_rules_in_session
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session
from dbanon.stores import hierarchies
from dbanon.version import version

# Differences from the earlier release that the caller may accept: another version of dbanon, other
# rules of the table, another source table or column types, other hierarchies.
VERSION, RULES, SOURCE, HIERARCHIES = "version", "rules", "source", "hierarchies"
# With ``INDEPENDENT``, the caller accepts a second release of the same persons.
ACCEPTABLE_DIFFERENCES = (VERSION, RULES, SOURCE, HIERARCHIES, INDEPENDENT)
_CONSENT = f'`accept=["{INDEPENDENT}"]`'


def build_refresh_job(
    session: Session,
    release: str,
    *,
    accept: Collection[str] = (),
    chain_key: str | None = None,
    pseudonym_key: str | None = None,
    door: str = "python",
    **run_options: object,
) -> Job:
    """Build the job that repeats a release and replaces it under the same name.

    Parameters
    ----------
    release : the name of the release's output, ``schema.table``.
    accept : the differences from the earlier release to accept, from ``ACCEPTABLE_DIFFERENCES``.
    chain_key : location of the chain's key (``file:PATH`` or ``env:NAME``), for a chained release.
    pseudonym_key : location of the pseudonym key, for a release with pseudonyms.
    door : the interface through which the refresh was requested.
    run_options : fields of ``Job`` that do not change the release.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    InsufficientRights : another role published it.
    RefreshRefused : the ledger's entry is incomplete, or the release would differ; the error lists
        each difference.
    SecondRelease : these persons were released before, and ``accept`` lacks ``INDEPENDENT``.
    InvalidParameter : ``accept`` has an unknown word, or a key is missing.
    PseudonymKeyWrong : the key of the pseudonyms has changed.
    LedgerEntryBroken : the ledger entry is malformed.
    """
    for word in accept:
        if word not in ACCEPTABLE_DIFFERENCES:
            raise InvalidParameter(f"accept takes {', '.join(ACCEPTABLE_DIFFERENCES)}.")
    name = session.catalog.resolve_output(parse_relation(release))
    # Errors in a malformed entry become LedgerEntryBroken.
    with reading_entry(name):
        return _build_job(session, name, accept, chain_key, pseudonym_key, door, run_options)


def _build_job(
    session: Session,
    name: RelationName,
    accept: Collection[str],
    chain_key: str | None,
    pseudonym_key: str | None,
    door: str,
    run_options: dict[str, object],
) -> Job:
    """Build the job from a ledger entry, without trusting the content of the entry."""
    request, recorded_version, arguments = _read_entry(session, name)
    recorded_hierarchies = arguments.get("hierarchies", {})
    chain_option: dict[str, Chain] = {}
    if "chain" in request:
        if chain_key is None:
            raise InvalidParameter(
                f"{name} is a release of chain {request['chain']['name']}, which needs its key.",
                hint="Refresh it from a client, and name the chain key as file:PATH or env:NAME.",
            )
        chain_option = {"chain": Chain(key=chain_key, **request["chain"])}
    if "pseudonyms" in arguments:
        _require_key(name, arguments["pseudonyms"], pseudonym_key)
    if "key" in arguments.get("shift_dates", {}):
        _require_key(name, arguments["shift_dates"], pseudonym_key, "shifted dates")
    if pseudonym_key is not None:
        run_options["pseudonym_key"] = pseudonym_key
    job = job_from_request(request, door=door, output=str(name), **chain_option, **run_options)
    relation = session.catalog.find_source(parse_relation(job.table))
    job = apply_rules_in_session(session, job)
    if INDEPENDENT in accept and job.chain is None:
        job = replace(job, releases=INDEPENDENT)
    refused_differences: dict[str, list[str]] = {}
    for word, difference in _find_differences(
        session, job, relation, request, recorded_version, recorded_hierarchies
    ):
        if word not in accept:
            refused_differences.setdefault(word, []).append(difference)
    if refused_differences:
        raise RefreshRefused(
            f"{name} would differ from the earlier release; nothing was published.",
            detail="; ".join(
                difference
                for differences in refused_differences.values()
                for difference in differences
            )
            + ".",
            hint="If these changes are intended:"
            f" `accept={json.dumps(list(refused_differences))}`. Or release"
            " the table again.",
        )
    source_releases = earlier_releases(
        session, str(relation.name), session.catalog.summarize_table_state(relation.name)
    )
    history = SourceHistory(
        source_releases, supports_chains="chains" not in session.unsupported_features
    )
    require_first_release(job, relation.name, history, _CONSENT)
    return job


def _read_entry(session: Session, name: RelationName) -> tuple[JsonObject, str, JsonMapping]:
    """Read what the ledger has about a release.

    Returns the request, the version of dbanon that made it, and the arguments of its report.
    """
    if not entries.has_trusted_ledger(session):
        raise ReleaseNotFound(f"The ledger of this database has no release {name}.")
    existing_relation = session.catalog.find_existing(name)
    release_id = entries.release_id_of(session, name, existing_relation)
    if release_id is None or existing_relation is None:
        raise ReleaseNotFound(
            f"The ledger of this database has no release {name}.",
            hint="dbanon releases lists all releases with their current state.",
        )
    request, arguments, recorded_version, publisher, epsilon = recorded_request(session, release_id)
    user = session.catalog.find_current_user()
    if not _is_publisher(session, request, publisher):
        # The publisher chose the conditions and files, which would be read with the caller's
        # rights.
        raise InsufficientRights(
            f"{name} was published by role {publisher}, and this is {user}.",
            hint=(
                f"Refresh it as role {publisher}, or release the source again under another name."
            ),
        )
    if epsilon is not None:
        raise RefreshRefused(
            f"{name} is differentially private, so refreshing it would spend epsilon again.",
            hint="To spend epsilon again, release the source again: dbanon anonymize.",
        )
    if request is None:
        raise RefreshRefused(
            f"The ledger does not have all options of {name}.",
            detail="It was made by an earlier version, on a cluster, or from another database or a"
            " file.",
            hint="Release it again with all options. If the source is a table of this database,"
            " that release can be refreshed.",
        )
    request_options: JsonObject = json.loads(request)
    # The values of some options would disclose column values. The ledger only has their names.
    if request_options.get("lacks"):
        hint = (
            "Declare orders and hierarchies as rules of the table (dbanon declare), or store"
            " hierarchies by name (dbanon hierarchy store), and release it again."
        )
        if "recode" in request_options["lacks"]:
            hint = "Release it again with all options, among them the groups of `recode`."
        raise RefreshRefused(
            f"The ledger does not have all options of {name}.",
            detail=f"It keeps no values of columns: {', '.join(request_options['lacks'])}.",
            hint=hint,
        )
    return request_options, str(recorded_version), json.loads(arguments)


def _is_publisher(session: Session, request: str | None, publisher: str | None) -> bool:
    """Return whether the current role published a release.

    If the ledger has the OID of the publishing role, OIDs are compared, otherwise names. A renamed
    role keeps its OID, and another role may take its former name.
    """
    publisher_oid = None if request is None else json.loads(request).get(entries.PUBLISHER_OID_KEY)
    if publisher_oid is None:
        return publisher == session.catalog.find_current_user()
    return bool(publisher_oid == session.catalog.find_role_id())


def _require_key(
    name: RelationName,
    recorded_feature: JsonMapping,
    key_location: str | None,
    feature: str = "pseudonyms",
) -> None:
    """Check that the key of a release's pseudonyms, or of its date offsets, is unchanged.

    Raises
    ------
    InvalidParameter : the location of the key is missing.
    PseudonymKeyWrong : the key cannot be read, or has changed.
    """
    if key_location is None:
        raise InvalidParameter(
            f"{name} has {feature}, which need their key.",
            hint="Refresh it from a client, and name the file or variable that holds the key:"
            " `pseudonym_key`.",
        )
    # Raises InvalidParameter if this is not the location of a key.
    PseudonymOptions(pseudonym_key=key_location)
    if read_pseudonym_key(key_location).fingerprint != recorded_feature["key"]:
        raise PseudonymKeyWrong(
            f"This is not the key that the {feature} of {name} were made with.",
            hint="Name the key of the release. If pseudonyms need not match it any more, release"
            " the source again with the new key.",
        )


def _find_differences(
    session: Session,
    job: Job,
    relation: Relation,
    request: JsonMapping,
    recorded_version: str,
    recorded_hierarchies: Mapping[str, JsonMapping],
) -> Iterator[tuple[str, str]]:
    """Yield each difference from the earlier release: its word and a description.

    The words are those of ``ACCEPTABLE_DIFFERENCES``.
    """
    if recorded_version != version():
        yield VERSION, f"version {recorded_version} made it, and this is {version()}"
    # Both are digests of the table's rules, or None for a job that names its columns.
    if request.get("declared") != job.declared:
        yield RULES, f"the rules of {relation.name} have changed"
    recorded_source = request["source"]
    existing_relation = session.catalog.find_existing(relation.name)
    # Only PostgreSQL has OIDs; elsewhere the recorded one is None.
    if existing_relation is not None and recorded_source.get("oid") not in (
        None,
        existing_relation.oid,
    ):
        yield SOURCE, f"{relation.name} is now another table of this name"
    types = {a.name: a.sql_type for a in relation.schema.attributes}
    # Also columns that have a role but are not read, such as those with the role drop.
    for name in dict.fromkeys((*job.columns_to_read, *(job.roles or ()))):
        if name not in types:
            yield SOURCE, f'column "{name}" of {relation.name} no longer exists'
        elif name in recorded_source["types"] and types[name] != recorded_source["types"][name]:
            recorded_type = recorded_source["types"][name]
            yield SOURCE, f'column "{name}" was {recorded_type}, and is {types[name]}'
    for column, spec in job.hierarchies.items():
        recorded_sha256 = recorded_hierarchies.get(column, {}).get("sha256")
        if recorded_sha256 is None or not isinstance(spec, HierarchySpec):
            continue
        # Only these kinds are read from the database again, and compared with the recorded hash.
        if spec.kind not in (TABLE, NAME):
            continue
        if hierarchies.resolve(session, spec).sha256 != recorded_sha256:
            yield HIERARCHIES, f'the hierarchy of "{column}" has changed'
