"""Fingerprint of a job: a hash of the rows it reads and of the definition of its release.

The database hashes each row by all columns that the release depends on, and adds up the hashes.
That sum is never stored: two sums reveal what changed between them, and a single sum reveals the
last row to an attacker who knows all others. The ledger stores a slow hash of the sum, with a new
salt each time and a key where there is one. Two such hashes only show whether the sums are equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from dbanon.data.option import make
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.ledger.entry_checks import MALFORMED_ERRORS
from dbanon.ledger.recorded_report import recorded_request
from dbanon.run.plan import Plan
from dbanon.sessions.base import LARGEST_SALT, Relation, random_salt
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.stores.ports import Source
from dbanon.stores.sql_source import SqlSource
from dbanon.version import version

# Takes tens of milliseconds: negligible for a run, expensive for guessing values.
_ROUNDS = 200_000
# Fields that do not change a release: its destination, memory limits and the caller.
_OF_RUNS = {
    "accept_counts",
    "accept_types",
    "chunk_rows",
    "door",
    "expect",
    "fingerprint_key",
    "if_exists",
    "kept_columns",
    "memory_limit",
    "releases",
    "run_id",
    "swap_timeout",
    "time_limit",
}


def fingerprint(planned: Plan, source: Source, salt: int | None = None) -> str | None:
    """The fingerprint of a planned job; None without a key, or where the source has no digest.

    Parameters
    ----------
    salt : of the one that it is compared with; None for a salt of its own.
    """
    job = planned.job
    if job.fingerprint_key is None:
        return None
    salt = random_salt() if salt is None else salt
    names = sorted({*job.named, *job.guarantee.persons, *job.key})
    rows = source.digest(planned.relation, names, salt)
    if rows is None:
        return None
    import hashlib

    types = {name: planned.relation.attribute(name).sql_type for name in names}
    content = json.dumps([version(), definition(planned), types, rows], sort_keys=True)
    key = str(salt).encode() + b":" + job.fingerprint_key
    return f"{salt}:{hashlib.pbkdf2_hmac('sha256', content.encode(), key, _ROUNDS).hex()}"


def source_digest(
    source: Source, relation: Relation, names: Sequence[str], salt: int | None = None
) -> dict[str, Any]:
    """A slow hash of the rows that a release reads, for its entry; empty if there is no digest.

    Parameters
    ----------
    names : the columns that it reads.
    salt : of the one that it is compared with; None for a salt of its own.
    """
    salt = random_salt() if salt is None else salt
    names = sorted(names)
    rows = source.digest(relation, names, salt)
    if rows is None:
        return {}
    import hashlib

    algorithm, probe, *sums = rows
    text = json.dumps([names, sums]).encode()
    hashed = hashlib.pbkdf2_hmac("sha256", text, str(salt).encode(), _ROUNDS).hex()
    # Another algorithm or another version of the database gives another sum for the same rows.
    return {"columns": names, "way": f"{algorithm}:{probe}", "salt": salt, "hash": hashed}


def has_other_rows(session: Session, release_id: str) -> bool | None:
    """Whether the source of a release has changed since; None where that is unknown.

    Never runs a condition written by another role: it would run with the caller's rights.

    Raises
    ------
    DbanonError : the source cannot be read.
    """
    request, _, _, publisher, _ = recorded_request(session, release_id)
    is_publisher = publisher == session.current_user()
    try:
        job, read = _read_before(request)
    except MALFORMED_ERRORS:
        # Runners write entries, so a broken one must not break the listing of releases.
        return None
    if job.where is not None and not is_publisher:
        return None
    source, names = SqlSource(session), job.quasi_identifiers
    relation = session.find_source(parse_relation(job.table))
    if not set(names) <= {a.name for a in relation.schema.attributes}:
        return True
    relation = source.locate(relation, job, names)
    now = source_digest(source, relation, names, read["salt"])
    if now.get("way") != read["way"]:
        return None
    return bool(now["hash"] != read["hash"])


def _read_before(request: str | None) -> tuple[Job, Mapping[str, Any]]:
    """A job that reads the same as a recorded release, with the release's digest.

    Raises
    ------
    TypeError, ValueError, KeyError, AttributeError : the entry has none, or is broken.
    InvalidParameter : the entry describes no valid job.
    """
    recorded = json.loads(request or "{}")
    read, job_options = recorded["source"]["read"], recorded["asked"]
    algorithm, salt, hashed = read["way"], read["salt"], read["hash"]
    if not (isinstance(algorithm, str) and isinstance(hashed, str) and type(salt) is int):
        raise TypeError
    if not 0 < salt <= LARGEST_SALT:
        raise ValueError
    options = {name: job_options[name] for name in ("table", "where", "key") if name in job_options}
    names = read["columns"]
    job = make(Job, {**options, "output": "none", "quasi_identifiers": names, "k": 2})
    if not job.quasi_identifiers:
        raise ValueError
    return job, {"way": algorithm, "salt": salt, "hash": hashed}


def salt_of(recorded: str) -> int:
    """The salt of a recorded fingerprint."""
    return int(recorded.partition(":")[0])


def definition(planned: Plan) -> Any:
    """All that determines a release except the rows, as plain values; hierarchies by digest."""
    job = planned.job
    job_fields = {
        job_field.name: getattr(job, job_field.name)
        for job_field in fields(job)
        if job_field.name not in _OF_RUNS
    }
    read: dict[str, Any] = {
        "trees": planned.hierarchies.trees,
        "models": planned.hierarchies.models,
    }
    if planned.pseudonym_key is not None:
        read["pseudonym_key"] = planned.pseudonym_key.check
    return _plain({"relation": str(planned.relation.name), **job_fields, **read})


def _plain(value: Any) -> Any:
    if isinstance(value, Hierarchy):
        return value.sha256
    if is_dataclass(value):
        return {
            part_field.name: _plain(getattr(value, part_field.name)) for part_field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value
