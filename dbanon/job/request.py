"""What a release was asked for, as plain values in the ledger, by which it can be made again.

Lists of values do not stand in it: of a job that was given some it says what is lacking. A
condition stands in it as it was written, as it does in the entry's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dbanon.data.option import all_parameters, make, parameters
from dbanon.hierarchy.spec import HierarchySpec, parse_all
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.reading import Reading
from dbanon.job.rules import BY_RULES, OF_COLUMNS
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model

# They change no release, or are of the run; what a file is read by is of no database.
_OF_RUNS = {
    "chunk_rows", "if_exists", "kept_columns", "memory_limit", "spill", "time_limit",
    *(one.name for one in parameters(Reading)),
}  # fmt: skip


def request_of(job: Job, source: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for.

    Parameters
    ----------
    source : what is known of the source, by which it is known again.
    """
    asked: dict[str, Any] = {}
    lacks = []
    own = {one.name for one in parameters(Job)}
    for one in all_parameters(Job):
        name = one.name
        if name in _OF_RUNS or name == "chain" or (job.declared and name in OF_COLUMNS):
            continue
        if name == "pseudonym_key":
            # Where a key is, whoever asks for the release again says.
            continue
        holder = job if name in own or name == "pseudonyms" else job.policy
        value = getattr(holder, name)
        if value is None or value == one.default or value in ({}, ()):
            continue
        if one.option.secret:
            lacks.append(name)
            continue
        try:
            asked[name] = _plain(value)
        except _LackingError:
            lacks.append(name)
    found: dict[str, Any] = {"asked": asked, "source": dict(source)}
    if job.declared:
        found["declared"] = job.declared
    if job.chain is not None:
        # But for its key, and for what is accepted once.
        left = {"key", "accept_turnover", "rules"}
        chain = {n: _plain(value) for n, value in vars(job.chain).items() if n not in left}
        found["chain"] = {name: value for name, value in chain.items() if value not in (None, {})}
    if job.roles is not None and not job.declared:
        found |= {"roles": list(job.roles), "on_new_column": job.on_new_column}
    return found | ({"lacks": lacks} if lacks else {})


def job_of_request(found: Mapping[str, Any], **more: Any) -> Job:
    """The job of what was asked for; that of rules has still to read them.

    Raises
    ------
    DbanonError : it is no job of this version.
    """
    asked = dict(found["asked"])
    models = asked.get("models", ())
    asked |= {
        "hierarchies": parse_all(asked.get("hierarchies"), files=False),
        "models": [Model.of_plain(model, files=False) for model in models],
        "exports": [Export.of_plain(one) for one in asked.get("exports", ())],
    }
    if found.get("declared"):
        asked |= {"declared": BY_RULES, "quasi_identifiers": ()}
    if "roles" in found:
        asked |= {"roles": tuple(found["roles"]), "on_new_column": found["on_new_column"]}
    return make(Job, {**asked, "if_exists": "replace", **more})


class _LackingError(Exception):
    """A value has no form that the ledger keeps."""


def _plain(value: Any) -> Any:
    if isinstance(value, HierarchySpec):
        return value.parameters
    if isinstance(value, Hierarchy):
        raise _LackingError
    if isinstance(value, Model):
        distance = value.distance
        more = {} if isinstance(distance, str) else {"distance": _plain(distance)}
        return value.plain() | more
    if isinstance(value, Export):
        return asdict(value)
    if isinstance(value, ColumnSet):
        return value.plain()
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return value
