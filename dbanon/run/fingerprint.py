"""Compute the fingerprint of a job: a hash of the rows it reads and of its definition.

The database hashes each row over all columns that the release depends on, and adds up the hashes.
The sum itself is never stored. The difference between two sums would reveal what changed, and a
single sum would reveal the last row to an attacker who knows all other rows. Instead, the ledger
stores a slow hash of the sum, with a new salt each time and, for jobs that have one, with a key.
Two such hashes only show whether the sums are equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from dbanon.data.option import build_options
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.ledger.entry_checks import MALFORMED_ERRORS
from dbanon.run.plan import Plan
from dbanon.sessions.base import MAX_SALT, Relation, random_salt
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.stores.ports import Source
from dbanon.stores.sql_source import SqlSource
from dbanon.version import version

# This many rounds take tens of milliseconds: negligible for a run, but expensive for an attacker
# who guesses values.
_HASH_ROUNDS = 200_000
# Fields of ``Job`` that do not affect the released rows. The fingerprint does not hash them, so a
# job that only differs in these is still recognized as unchanged.
_RUN_FIELDS = {
    "accept_counts",
    "accept_types",
    "chunk_rows",
    "door",  # the interface that requested the run, such as ``cli``
    "expect",
    "fingerprint_key",
    "if_exists",
    "kept_columns",  # whether retained values pass through the client
    "memory_limit",
    "releases",  # the consent to release a source again
    "run_id",
    "swap_timeout",
    "time_limit",
}


def compute_fingerprint(planned: Plan, source: Source, salt: int | None = None) -> str | None:
    """Compute the fingerprint of a planned job.

    None if the job has no fingerprint key, or if the source cannot compute a digest.

    Parameters
    ----------
    salt : the salt of a recorded fingerprint to compare with; None for a new random salt.
    """
    job = planned.job
    if job.fingerprint_key is None:
        return None
    salt = random_salt() if salt is None else salt
    names = sorted(
        {*job.named_columns, *job.guarantee.entity_columns, *job.key, *job.columns_for_risk}
    )
    rows_digest = source.digest(planned.relation, names, salt)
    if rows_digest is None:
        return None
    import hashlib

    types = {name: planned.relation.attribute(name).sql_type for name in names}
    content = json.dumps(
        [version(), describe_definition(planned), types, rows_digest], sort_keys=True
    )
    key = str(salt).encode() + b":" + job.fingerprint_key
    return f"{salt}:{hashlib.pbkdf2_hmac('sha256', content.encode(), key, _HASH_ROUNDS).hex()}"


def digest_source(
    source: Source, relation: Relation, names: Sequence[str], salt: int | None = None
) -> JsonObject:
    """Hash the rows that a release reads, for its ledger entry.

    The result is empty if the source cannot compute a digest.

    Parameters
    ----------
    names : the columns that the release reads.
    salt : the salt of a recorded hash to compare with; None for a new random salt.
    """
    salt = random_salt() if salt is None else salt
    names = sorted(names)
    rows_digest = source.digest(relation, names, salt)
    if rows_digest is None:
        return {}
    import hashlib

    # The probe is the hash that the database computes for a constant. Another version of the
    # database may compute another one.
    algorithm, probe, *sums = rows_digest
    text = json.dumps([names, sums]).encode()
    rows_hash = hashlib.pbkdf2_hmac("sha256", text, str(salt).encode(), _HASH_ROUNDS).hex()
    # ``way`` identifies the algorithm and the version of the database: hashes of the same rows can
    # only be compared if both are the same.
    return {"columns": names, "way": f"{algorithm}:{probe}", "salt": salt, "hash": rows_hash}


def has_changed_rows(session: Session, release_id: str) -> bool | None:
    """Return whether the source of a release has changed since; None if that is unknown.

    A ``where`` condition that another role wrote is never run, because it would run with the
    caller's rights.

    Raises
    ------
    DbanonError : the source cannot be read.
    """
    from dbanon.ledger.recorded_report import recorded_request

    request, _, _, publisher, _ = recorded_request(session, release_id)
    is_publisher = publisher == session.catalog.find_current_user()
    try:
        job, recorded_digest = _parse_recorded_read(request)
    except MALFORMED_ERRORS:
        # The roles that run jobs write these entries; a malformed one must not break the listing.
        return None
    if job.where is not None and not is_publisher:
        return None
    # The parsed job names all columns that were read, as its quasi-identifiers.
    source, names = SqlSource(session), job.quasi_identifiers
    relation = session.catalog.find_source(parse_relation(job.table))
    if not set(names) <= {a.name for a in relation.schema.attributes}:
        return True
    relation = source.with_row_locator(relation, job, names)
    current_digest = digest_source(source, relation, names, recorded_digest["salt"])
    # Hashes of two algorithms cannot be compared. Without a current digest, ``way`` is missing.
    if current_digest.get("way") != recorded_digest["way"]:
        return None
    return bool(current_digest["hash"] != recorded_digest["hash"])


def _parse_recorded_read(request: str | None) -> tuple[Job, JsonMapping]:
    """Parse a recorded request into a job that reads the same rows, and the digest of these rows.

    Raises
    ------
    TypeError, ValueError, KeyError, AttributeError : the request has no digest, or is malformed.
    InvalidParameter : the request is not a valid job.
    """
    recorded_fields = json.loads(request or "{}")
    # The result of ``digest_source``, and the options of the job as the user set them.
    recorded_read = recorded_fields["source"]["read"]
    job_options = recorded_fields["asked"]
    algorithm, salt, rows_hash = (
        recorded_read["way"],
        recorded_read["salt"],
        recorded_read["hash"],
    )
    if not (isinstance(algorithm, str) and isinstance(rows_hash, str) and type(salt) is int):
        raise TypeError
    if not 0 < salt <= MAX_SALT:
        raise ValueError
    options = {name: job_options[name] for name in ("table", "where", "key") if name in job_options}
    names = recorded_read["columns"]
    # The job only reads rows. A job also needs an output and k, which are not used.
    job = build_options(Job, {**options, "output": "none", "quasi_identifiers": names, "k": 2})
    if not job.quasi_identifiers:
        raise ValueError
    return job, {"way": algorithm, "salt": salt, "hash": rows_hash}


def parse_salt(fingerprint: str) -> int:
    """Return the salt at the start of a recorded fingerprint."""
    return int(fingerprint.partition(":")[0])


def describe_definition(planned: Plan) -> object:
    """Describe everything except the rows that determines a release, as JSON values.

    Hierarchies are described by their SHA-256.
    """
    job = planned.job
    job_fields = {
        job_field.name: getattr(job, job_field.name)
        for job_field in fields(job)
        if job_field.name not in _RUN_FIELDS
    }
    key_and_hierarchies: dict[str, object] = {
        "trees": planned.hierarchies.trees,
        "models": planned.hierarchies.models,
    }
    if planned.zip_areas.columns:
        key_and_hierarchies["zip_areas"] = sorted(planned.zip_areas.areas)
    if planned.pseudonym_key is not None:
        key_and_hierarchies["pseudonym_key"] = planned.pseudonym_key.fingerprint
    return _to_json_value(
        {"relation": str(planned.relation.name), **job_fields, **key_and_hierarchies}
    )


def _to_json_value(value: object) -> object:
    """Convert a value to JSON types, and a hierarchy to its SHA-256."""
    if isinstance(value, Hierarchy):
        return value.sha256
    if is_dataclass(value):
        return {
            value_field.name: _to_json_value(getattr(value, value_field.name))
            for value_field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(item) for item in value]
    return value
