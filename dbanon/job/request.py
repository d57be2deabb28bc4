"""Release requests: a job as plain values in the ledger, from which it can be run again.

Options whose values would disclose column values are left out; the request's key ``lacks`` lists
the names of these options. The other options are under the key ``asked``. A condition (``where``)
is stored as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from dbanon.data.groups import Groups
from dbanon.data.option import all_parameters, build_options, parameters
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.hierarchy.spec import HierarchySpec, parse_all
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.columns import COLUMN_OPTIONS, RULES_NOT_READ
from dbanon.job.date_shift import DateShift
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.reading import Reading
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model

# Left out of requests: options for how a single run works, and options for reading files,
# because releases of files cannot be repeated. ``kept_columns`` names no columns: it says whether
# retained columns are copied by the server or pass through the client.
_RUN_OPTIONS = {
    "chunk_rows",
    "if_exists",
    "kept_columns",
    "memory_limit",
    "spill",
    "time_limit",
    *(param.name for param in parameters(Reading)),
}


def build_request(job: Job, source: JsonMapping) -> JsonObject:
    """Build the request of a job as plain values.

    Parameters
    ----------
    source : plain values by name that identify the source, such as the types of its columns. A
        repeated release is compared with them.
    """
    options: JsonObject = {}
    unstored_options = []
    job_fields = {param.name for param in parameters(Job)}
    for param in all_parameters(Job):
        name = param.name
        if name in _RUN_OPTIONS or name == "chain" or (job.declared and name in COLUMN_OPTIONS):
            continue
        if name == "pseudonym_key":
            # Callers pass the location of the key again when they repeat the release.
            continue
        # ``all_parameters`` includes the options of the job's parts. Apart from ``pseudonyms``,
        # which the job has as a property, the remaining ones are fields of the policy.
        owner = job if name in job_fields or name == "pseudonyms" else job.policy
        value = getattr(owner, name)
        if value is None or value == param.default or value in ({}, ()):
            continue
        if param.option.is_secret:
            unstored_options.append(name)
            continue
        try:
            options[name] = _to_plain(value)
        except _UnstorableError:
            unstored_options.append(name)
    request: JsonObject = {"asked": options, "source": dict(source)}
    if job.declared:
        request["declared"] = job.declared
    if job.chain is not None:
        # Leave out the location of the chain's key, the turnover that was accepted for one run, and
        # the rules that the job expected: the chain has its own.
        omitted_fields = {"key", "accept_turnover", "rules"}
        chain = {
            name: _to_plain(value)
            for name, value in vars(job.chain).items()
            if name not in omitted_fields
        }
        request["chain"] = {name: value for name, value in chain.items() if value not in (None, {})}
    # ``job.roles`` are the names of all columns that have a role.
    if job.roles is not None and not job.declared:
        request |= {"roles": list(job.roles), "on_new_column": job.on_new_column}
    return request | ({"lacks": unstored_options} if unstored_options else {})


def job_from_request(request: JsonMapping, **overrides: object) -> Job:
    """Rebuild the job of a request.

    If declared rules define the job's columns, the caller must still read and apply them.

    Parameters
    ----------
    overrides : options that replace those of the request.

    Raises
    ------
    DbanonError : the request is not a valid job in this version.
    """
    # Others may have written the request, so with ``files=False`` never read a file that it names.
    options = dict(request["asked"])
    models = options.get("models", ())
    options |= {
        "hierarchies": parse_all(options.get("hierarchies"), files=False),
        "models": [Model.from_plain(model, files=False) for model in models],
        "exports": [Export.from_plain(export) for export in options.get("exports", ())],
    }
    if request.get("declared"):
        options |= {"declared": RULES_NOT_READ, "quasi_identifiers": ()}
    if "roles" in request:
        options |= {"roles": tuple(request["roles"]), "on_new_column": request["on_new_column"]}
    return build_options(Job, {**options, "if_exists": "replace", **overrides})


class _UnstorableError(Exception):
    """A value cannot be converted to JSON types."""


def _to_plain(value: object) -> object:
    """Convert the value of an option to JSON types; raises _UnstorableError."""
    if isinstance(value, HierarchySpec):
        return value.parameters
    if isinstance(value, Hierarchy | Groups):
        raise _UnstorableError
    if isinstance(value, Model):
        distance = value.distance
        distance_entry = {} if isinstance(distance, str) else {"distance": _to_plain(distance)}
        return value.to_plain() | distance_entry
    if isinstance(value, Export):
        return asdict(value)
    if isinstance(value, ColumnSet | DateShift):
        return value.to_plain()
    if isinstance(value, Mapping):
        return {name: _to_plain(element) for name, element in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_plain(element) for element in value]
    return value
