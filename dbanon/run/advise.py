"""Advise: look at a table, try releases of it, and say where to start. Nothing is written."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dbanon.advice.answer import Advice, ColumnAdvice
from dbanon.advice.nulls import NullChoice
from dbanon.advice.persons import coarsest, person_column
from dbanon.advice.profile import SMALL, Profile
from dbanon.advice.recommend import Point, Recommendation, recommend
from dbanon.advice.request import AdviceRequest, are_numbers, default_methods
from dbanon.advice.roles import (
    IDENTIFIER,
    QUASI_IDENTIFIER,
    SENSITIVE,
    UNDECIDED,
    RoleProposal,
    is_code,
    propose,
)
from dbanon.advice.singling import singling, sizes_of
from dbanon.data.microdata import Microdata
from dbanon.data.schema import NOMINAL
from dbanon.errors import NoQuasiIdentifiers, NoRows, NothingFits, PrivacyWarning
from dbanon.job.job import Job
from dbanon.job.nulls import ERROR
from dbanon.job.policy import Policy
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.strata import too_few_error_for_count
from dbanon.release.recode import Release, recode
from dbanon.run.history import create_command
from dbanon.run.nulls import choose_nulls, release_of, sample_records, share_withheld
from dbanon.run.plan import Plan, plan
from dbanon.run.sweep import OnTried, parted_loss, sweep
from dbanon.run.totals import totals_of
from dbanon.sessions.names import RelationName
from dbanon.stores.ports import Source
from dbanon.stores.sql_source import SqlSource

# Called with a part and the share of it that is done; what it raises ends the advice.
AdviceProgress = Callable[[str, float], None]

OUTPUT_SCHEMA = "release"


def advise(
    request: AdviceRequest,
    source: Source,
    progress: AdviceProgress | None = None,
    *,
    tried: OnTried = lambda point, policy: None,
) -> Advice:
    """Look at a table and advise on its release. Changes nothing and records no run.

    Columns are counted, not read; quasi-identifiers are read as a run reads them.

    Parameters
    ----------
    tried : called with each release of the sweep once it was tried.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : there is nothing to advise.
    DbanonError : what reading the table raises.
    """
    clock = _Clock(progress or (lambda part, share: None))
    with clock.part("profile") as tick:
        tick(0.0)
        profile, persons = _profile(request, source)
        roles = _roles(request, profile, persons)
        entity = _entity(request, profile, persons)
        chosen = tuple(
            column.name for column in profile.columns if roles[column.name].role == QUASI_IDENTIFIER
        )
        if not chosen:
            raise no_quasi_identifiers(request.table)
    with clock.part("read") as tick:
        tick(0.0)
        job = _job(request, chosen, profile, entity)
        planned = plan(job, source, pulse=lambda: tick(0.0))
        microdata = source.read(planned.relation, planned.roles, job, tick)
    small = max(SMALL, request.k[0])
    with clock.part("singling") as tick:
        counts = sizes_of(microdata)

        def sizes(names: Any) -> Mapping[int, int]:
            tick(0.0)
            return counts(names)

        singling_out = singling(chosen, sizes, small)
    choice = null_choice(request, planned, microdata)
    planned = replace(planned, policy=replace(planned.policy, nulls=choice.nulls))
    with clock.part("sweep") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        swept = sweep(request, planned, microdata, small, tick, tried)
    # A single release cannot be compared with anything.
    compared = len(swept.points) > 1
    best = recommend(swept.points, request.max_risk, request.max_loss) if compared else None
    if best is None and compared:
        raise NothingFits(
            "None of the trial releases is within the limits.",
            hint="Raise `max_risk` or `max_loss`, try other `k` or `methods`, or name fewer"
            " `quasi_identifiers`.",
        )
    return Advice(
        source=str(planned.relation.name),
        rows=profile.rows,
        columns=tuple(
            ColumnAdvice(column, roles[column.name], profile.rows, small)
            for column in profile.columns
        ),
        quasi_identifiers=chosen,
        proposed=not request.quasi_identifiers,
        entity=entity,
        chain=_chain(str(planned.relation.name), profile, roles, entity, source),
        singling=singling_out,
        sweep=swept,
        recommendation=best,
        start={} if best is None else _start(planned, request, roles, best.point, microdata),
        nulls=None if microdata.valid is None else choice,
        parted_loss=_parted_loss(request, planned, microdata, best, clock),
        kinds=planned.policy.kinds,
        seconds={part: round(seconds, 3) for part, seconds in clock.seconds.items()},
    )


def _parted_loss(
    request: AdviceRequest,
    planned: Plan,
    microdata: Microdata,
    best: Recommendation | None,
    clock: _Clock,
) -> float | None:
    if best is None or microdata.entities is None:
        return None
    with clock.part("persons") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return parted_loss(request, planned, microdata, best.point, tick)


class _Clock:
    """Measures CPU seconds per part and reports the progress of each."""

    def __init__(self, progress: AdviceProgress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[Callable[[float], None]]:
        """Time the block; yield a function that reports its progress."""
        started = time.process_time()
        yield lambda share: self._progress(name, share)
        self.seconds[name] = time.process_time() - started


@dataclass(frozen=True)
class ProposedRoles:
    """Roles and entity proposed before any release is tried.

    Parameters
    ----------
    roles : of each column, in the table's order.
    entity : the column that identifies the person a row belongs to; None where a row is a person.
    """

    profile: Profile
    roles: Mapping[str, RoleProposal]
    entity: str | None


def propose_roles(request: AdviceRequest, source: Source) -> ProposedRoles:
    """Propose roles for the columns of a table.

    Raises
    ------
    NoRows : there is nothing to count.
    DbanonError : what looking at the table raises.
    """
    profile, persons = _profile(request, source)
    roles = _roles(request, profile, persons)
    return ProposedRoles(profile, roles, _entity(request, profile, persons))


def propose_kinds(
    request: AdviceRequest, chosen: Sequence[str], profile: Profile
) -> dict[str, str]:
    """The kinds of quasi-identifiers: as asked for, and nominal where they look like codes.

    Those with a hierarchy need none.
    """
    nominal_kinds = {
        name: NOMINAL
        for name in chosen
        if name not in request.hierarchies and is_code(profile.column(name))
    }
    return nominal_kinds | dict(request.kinds)


def propose_nulls(
    request: AdviceRequest,
    profile: Profile,
    entity: str | None,
    source: Source,
    *,
    merges: bool = True,
) -> NullChoice | None:
    """Propose how to treat NULLs in the quasi-identifiers of the request, as ``advise`` does.

    Where no quasi-identifier has a NULL, nothing is read and the answer is None.

    Parameters
    ----------
    merges : as of ``null_choice``.

    Raises
    ------
    TooFewRecords : the smallest k of the request is not feasible.
    DbanonError : what reading the table raises.
    """
    chosen = request.quasi_identifiers
    job = _job(request, chosen, profile, entity)
    if job.policy.nulls == ERROR:
        count, unit = profile.rows, "records"
        if entity:
            count, unit = profile.column(entity).distinct, "persons"
        if count < request.k[0]:
            raise too_few_error_for_count(request.k[0], count, unit, 1)
        return None
    planned = plan(job, source, pulse=lambda: None)
    microdata = source.read(planned.relation, planned.roles, job, lambda share: None)
    return null_choice(request, planned, microdata, merges=merges)


def no_quasi_identifiers(table: str) -> NoQuasiIdentifiers:
    """The error for a table without a column that could be proposed as a quasi-identifier."""
    return NoQuasiIdentifiers(
        f"No column of {table} is proposed as a quasi-identifier.",
        hint="Name the columns whose values others may know about a person: `quasi_identifiers`.",
    )


def _profile(request: AdviceRequest, source: Source) -> tuple[Profile, Mapping[str, str]]:
    """The columns, counted, after all checks of rights and key, and those that identify persons."""
    named = (*request.quasi_identifiers, *request.sensitive)
    job = Job(
        table=request.table,
        output="",
        quasi_identifiers=tuple(dict.fromkeys(named)),
        key=request.key,
        policy=Policy(k=2, method="gaa_cp"),
    )
    relation = source.describe(job)
    columns = [attribute.name for attribute in relation.schema.attributes]
    profile = source.profile(source.locate(relation, job, columns))
    if not profile.rows:
        raise NoRows(f"{relation.name} has no rows, so there is no advice.")
    return profile, source.find_identifier_columns(relation)


def _entity(request: AdviceRequest, profile: Profile, persons: Mapping[str, str]) -> str | None:
    """The column without NULL that identifies persons, where persons have several rows.

    A run refuses an entity that is NULL somewhere.
    """
    named = {*request.quasi_identifiers, *request.sensitive}
    return coarsest(
        column
        for column in profile.columns
        if column.name in persons and column.name not in named and column.present == profile.rows
    )


def _chain(
    table: str,
    profile: Profile,
    roles: Mapping[str, RoleProposal],
    entity: str | None,
    source: Source,
) -> str | None:
    """The command that makes a chain of the releases of a table, where it can be made."""
    if not isinstance(source, SqlSource):
        return None
    file_url = source.session.file_url
    if file_url is None and "chains" in source.session.unsupported_features:
        return None
    identifiers = {name for name, role in roles.items() if role.role == IDENTIFIER}
    person = entity or person_column(profile.columns, identifiers, profile.rows)
    if person is None:
        return None
    several = " --max-rows-per-person N" if entity else ""
    return create_command(table, person, file_url=file_url) + several


def _roles(
    request: AdviceRequest, profile: Profile, persons: Mapping[str, str]
) -> dict[str, RoleProposal]:
    """The roles that are proposed; where quasi-identifiers are named, they and no others."""
    roles = propose(profile, persons)
    if request.quasi_identifiers:
        for name, role in roles.items():
            if role.role == QUASI_IDENTIFIER:
                roles[name] = RoleProposal("not_copied", "not_named")
    elif not any(role.role == QUASI_IDENTIFIER for role in roles.values()):
        for name, role in roles.items():
            if role.role == UNDECIDED and name not in request.sensitive:
                roles[name] = RoleProposal(QUASI_IDENTIFIER, "no_other")
    roles |= {name: RoleProposal(QUASI_IDENTIFIER, "given") for name in request.quasi_identifiers}
    return roles | {name: RoleProposal(SENSITIVE, "given") for name in request.sensitive}


def _job(
    request: AdviceRequest, chosen: tuple[str, ...], profile: Profile, entity: str | None = None
) -> Job:
    """The job that reads all rows, including those with a NULL."""
    holes = any(profile.column(name).present < profile.rows for name in chosen)
    return Job(
        table=request.table,
        output="",
        quasi_identifiers=chosen,
        entity=entity,
        key=request.key,
        hierarchies=request.hierarchies,
        memory_limit=request.memory_limit,
        # Of any kind of column; the methods that are tried have policies of their own.
        policy=Policy(
            k=request.k[0],
            method="gaa_cp",
            nulls="category" if holes else "error",
            kinds=propose_kinds(request, chosen, profile),
        ),
    )


# The k of what ``init`` proposes: what becomes of NULLs is decided at the k that is next to it.
USUAL_K = 5


def null_choice(
    request: AdviceRequest, planned: Plan, microdata: Microdata, *, merges: bool = True
) -> NullChoice:
    """What becomes of NULLs in quasi-identifiers, tried with the first of the usual methods.

    Parameters
    ----------
    microdata : all records, those with a NULL too.
    merges : as of ``choose_nulls``.

    Raises
    ------
    TooFewRecords, NullInQuasiIdentifier : no release can be made.
    """
    k = min(request.k, key=lambda k: (abs(k - USUAL_K), k))

    def release(records: Microdata, nulls: str) -> Release:
        records = sample_records(records, request.sample, request.seed, k)
        trees = planned.trees(records)
        method = default_methods(are_numbers(records.attributes, trees))[0]
        policy = Policy(k=k, method=method, nulls=nulls, max_suppression=None, hierarchies=trees)
        clustering = partition_for(records, policy, trees=planned.trees)
        return recode(records, clustering, policy, totals_of(records), planned.trees)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return choose_nulls(microdata, k, request.nulls, release, merges=merges)


def _start(
    planned: Plan,
    request: AdviceRequest,
    roles: Mapping[str, RoleProposal],
    point: Point,
    microdata: Microdata,
) -> dict[str, Any]:
    """Arguments of ``anonymize`` that make this release; hierarchies are those of the caller."""
    name, policy = planned.relation.name, planned.policy
    arguments: dict[str, Any] = {
        "table": str(name),
        "output": str(RelationName(OUTPUT_SCHEMA, name.name)),
        "quasi_identifiers": list(planned.job.quasi_identifiers),
        "sensitive": [column for column, role in roles.items() if role.role == SENSITIVE],
        "k": point.k,
        "method": point.method,
    }
    optional_arguments = {
        "entity": planned.job.entity,
        "refine": point.refine,
        "recoding": point.recoding,
        "kinds": dict(policy.kinds) or None,
        "nulls": None if policy.nulls == "error" else policy.nulls,
        "max_suppression": share_withheld(release_of(microdata, policy.nulls, point.k)) or None,
        "key": list(request.key) or None,
    }
    return arguments | {
        option: value for option, value in optional_arguments.items() if value is not None
    }
