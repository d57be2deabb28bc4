"""Advise on a table: propose roles, make trial releases and recommend one. Writes nothing."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.answer import Advice, ColumnAdvice
from dbanon.advice.nulls import NullChoice
from dbanon.advice.persons import coarsest_identifier, person_column
from dbanon.advice.profile import SMALL_COUNT, ColumnProfile, Profile
from dbanon.advice.recommend import Point, Recommendation, recommend
from dbanon.advice.request import AdviceRequest, are_numbers, default_methods
from dbanon.advice.roles import (
    IDENTIFIER,
    QUASI_IDENTIFIER,
    SENSITIVE,
    UNDECIDED,
    RoleProposal,
    find_design_weight,
    is_code,
    looks_like_design_weight,
    propose_column_roles,
)
from dbanon.advice.singling import (
    SetUniqueness,
    find_unique_sets,
    group_size_counter,
    number_groups,
)
from dbanon.advice.source_risk import SourceRisk
from dbanon.advice.synthetic_rows import ForecastFunction, SyntheticForecast, encode_cells
from dbanon.data.extension import load_runner
from dbanon.data.microdata import Microdata
from dbanon.data.schema import NOMINAL
from dbanon.data.types import JsonObject
from dbanon.errors import (
    MixedTypes,
    NoQuasiIdentifiers,
    NoRows,
    NothingFits,
    PrivacyWarning,
)
from dbanon.job.job import Job
from dbanon.job.nulls import ERROR
from dbanon.job.policy import Policy
from dbanon.partitioning.coding import code_columns
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.strata import too_few_error_for_count
from dbanon.release.recode import Release, recode
from dbanon.run.history import build_create_chain_command
from dbanon.run.job_runner import RiskRunner
from dbanon.run.nulls import choose_nulls, records_to_release, sample_records, share_withheld
from dbanon.run.plan import Plan, plan
from dbanon.run.profiles import keep_profile, propose_coding, require_profile
from dbanon.run.sweep import OnTrial, measure_split_person_loss, sweep
from dbanon.run.totals import exact_totals_of
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.stores.ports import Source
from dbanon.stores.sql_source import SqlSource

# Called with the name of a phase and the share of it that is done, 0 to 1. An exception that it
# raises ends the advice.
AdviceProgress = Callable[[str, float], None]

# The schema of the output in the arguments that advice suggests.
OUTPUT_SCHEMA = "release"
# Larger numbers of persons are not exact as float64.
_MAX_POPULATION = 2**53


def advise(
    request: AdviceRequest,
    source: Source,
    progress: AdviceProgress | None = None,
    *,
    on_trial: OnTrial = lambda point, policy: None,
) -> Advice:
    """Inspect a table and advise on its release. Changes nothing and records no run.

    The database counts the values of all columns. Only the quasi-identifiers are read.

    Parameters
    ----------
    request : the table, and what the caller has decided about its release.
    source : access to the table.
    progress : called with a phase (``profile``, ``read``, ``singling``, ``sweep``, ``persons``,
        ``forecast``) and the share of it that is done.
    on_trial : called with each ``Point`` of the sweep, and with the policy of its k.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : no release can be recommended.
    DbanonError : the table cannot be read.
    """
    clock = _Clock(progress or (lambda phase, share: None))
    with clock.phase("profile") as tick:
        tick(0.0)
        profile, person_columns = _count_columns(request, source)
        roles = _propose_all_roles(request, profile, person_columns)
        entity = _propose_entity(request, profile, person_columns)
        quasi_identifiers = tuple(
            column.name for column in profile.columns if roles[column.name].role == QUASI_IDENTIFIER
        )
        if not quasi_identifiers:
            raise no_quasi_identifiers_error(request.table)
    with clock.phase("read") as tick:
        tick(0.0)
        job = _build_reading_job(request, quasi_identifiers, profile, entity)
        weight = None if entity else _find_weight(request, roles, profile)
        # Planning reports no share; by the call of ``tick``, ``progress`` can end it.
        planned = plan(replace(job, design_weight=weight), source, pulse=lambda: tick(0.0))
        # The job only reads quasi-identifiers; the release also has the sensitive columns.
        job_to_check = replace(job, sensitive=request.sensitive)
        require_profile(job_to_check, planned.relation, planned.roles.quasi_identifiers, source)
        uncoded, weights = _read_with_weights(planned, source, tick)
        # Weights only serve to estimate the risk: trial releases are made without them.
        planned = replace(planned, job=job, roles=replace(planned.roles, weights=()))
        microdata = code_columns(uncoded, planned.policy, planned.zip_areas)
    # A combination of values that occurs in fewer rows than this singles persons out. The values in
    # ``request.k`` ascend, so the first is the smallest.
    rare_below = max(SMALL_COUNT, request.k[0])
    with clock.phase("singling") as tick:
        count_sizes = group_size_counter(microdata)

        def count_with_tick(names: Sequence[str]) -> Mapping[int, int]:
            tick(0.0)
            return count_sizes(names)

        singling_out = find_unique_sets(quasi_identifiers, count_with_tick, rare_below)
        n_classes = sum(count_with_tick(quasi_identifiers).values())
        risk = _measure_risk(microdata, singling_out.chosen, n_classes, weight, weights)
    null_choice = choose_null_treatment(request, planned, microdata)
    # Until here, the policy only served to read all rows. The sweep releases with this choice.
    planned = replace(planned, policy=replace(planned.policy, nulls=null_choice.nulls))
    with clock.phase("sweep") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        sweep_result = sweep(request, planned, microdata, rare_below, tick, on_trial)
    recommendation = _recommend(request, sweep_result.points)
    if recommendation is not None:
        # The recommended k may be larger than the one for which tails were counted.
        code_columns(uncoded, replace(planned.policy, k=recommendation.point.k))
    return Advice(
        source=str(planned.relation.name),
        rows=profile.rows,
        columns=_describe_columns(profile, roles, rare_below),
        quasi_identifiers=quasi_identifiers,
        proposed=not request.quasi_identifiers,
        entity=entity,
        chain=_suggest_chain_command(
            request, str(planned.relation.name), profile, roles, entity, source
        ),
        singling=singling_out,
        sweep=sweep_result,
        recommendation=recommendation,
        # The arguments of ``anonymize`` that make the recommended release.
        start={}
        if recommendation is None
        else _build_anonymize_arguments(planned, profile, roles, recommendation.point, microdata),
        # ``valid`` is None if no quasi-identifier has a NULL.
        nulls=None if microdata.valid is None else null_choice,
        # The loss if classes may split the rows of a person.
        parted_loss=_measure_split_person_loss(request, planned, microdata, recommendation, clock),
        kinds=planned.policy.kinds,
        risk=risk,
        synthetic_rows=_forecast_synthetic_rows(microdata, profile, clock),
        seconds={phase: round(seconds, 3) for phase, seconds in clock.seconds.items()},
    )


def _describe_columns(
    profile: Profile, roles: Mapping[str, RoleProposal], rare_below: int
) -> tuple[ColumnAdvice, ...]:
    """Describe the columns; counts below ``rare_below`` are only shown as a range."""
    return tuple(
        ColumnAdvice(column=column, role=roles[column.name], rows=profile.rows, small=rare_below)
        for column in profile.columns
    )


def _find_weight(
    request: AdviceRequest, roles: Mapping[str, RoleProposal], profile: Profile
) -> str | None:
    """Return the column by which risks are estimated, which is no key; None if there is none."""
    weight = find_design_weight(roles, profile)
    return None if weight in request.key else weight


def _read_with_weights(
    planned: Plan, source: Source, tick: Callable[[float], None]
) -> tuple[Microdata, NDArray[np.float64] | None]:
    """Read the quasi-identifiers, and the design weights of the plan.

    Returns the records without weights, and the weights, float64 (n,); None if the plan has none.
    """
    records = source.read(planned.relation, planned.roles, planned.job, tick)
    return replace(records, weights=None), records.weights


def _measure_risk(
    microdata: Microdata,
    column_set: SetUniqueness,
    n_classes: int,
    weight: str | None,
    weights: NDArray[np.float64] | None,
) -> SourceRisk | None:
    """Measure the risk of a table in which each row is a person; None if persons have several.

    Parameters
    ----------
    column_set : the quasi-identifiers.
    n_classes : number of combinations of their values. It is also the sum of the risks 1/f of rows
        whose combination f rows share.
    weight : the column with the design weight; None without one.
    weights : float64 (n,), the design weight of each row; None without one.
    """
    if microdata.entities is not None:
        return None
    population = None if weights is None else float(weights.sum())
    if weights is None or population is None or population > _MAX_POPULATION:
        return SourceRisk(column_set, n_classes)
    codes = number_groups(microdata, column_set.columns)
    runner: RiskRunner = load_runner("sample_risk")
    expected = runner.sum_risks(
        np.bincount(codes).astype(np.int64), np.bincount(codes, weights=weights).astype(np.float64)
    )
    return SourceRisk(column_set, expected, weight, population)


def _recommend(request: AdviceRequest, points: Sequence[Point]) -> Recommendation | None:
    """Recommend one of the trial releases; None if there are fewer than two to compare.

    Raises
    ------
    NothingFits : no release is within the limits of the request.
    """
    if len(points) < 2:
        return None
    best = recommend(points, request.max_risk, request.max_loss)
    if best is None:
        raise NothingFits(
            "None of the trial releases is within the limits.",
            hint="Raise `max_risk` or `max_loss`, try other `k` or `methods`, or name fewer"
            " `quasi_identifiers`.",
        )
    return best


def _measure_split_person_loss(
    request: AdviceRequest,
    planned: Plan,
    microdata: Microdata,
    recommendation: Recommendation | None,
    clock: _Clock,
) -> float | None:
    """Return the loss of the recommended release if classes may split the rows of a person.

    The option ``persons="rows"`` allows that. None if each row is a person, or if no release is
    recommended.
    """
    if recommendation is None or microdata.entities is None:
        return None
    with clock.phase("persons") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return measure_split_person_loss(request, planned, microdata, recommendation.point, tick)


def _forecast_synthetic_rows(
    microdata: Microdata, profile: Profile, clock: _Clock
) -> SyntheticForecast:
    """Forecast the error of differentially private synthetic rows."""
    with clock.phase("forecast") as tick:
        tick(0.0)
        forecast: ForecastFunction = load_runner("private_forecast")
        return forecast(*encode_cells(microdata, profile))


class _Clock:
    """Measures CPU seconds per phase, unlike ``run.Clock``, and reports the progress of each."""

    def __init__(self, progress: AdviceProgress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[float], None]]:
        """Time the block; yield a function that reports its progress."""
        started = time.process_time()
        yield lambda share: self._progress(name, share)
        self.seconds[name] = time.process_time() - started


@dataclass(frozen=True)
class ProposedRoles:
    """Roles and entity proposed before any release is tried.

    Parameters
    ----------
    profile : the table's columns with their counts.
    roles : the proposed role by column name, in the table's order.
    entity : the column that identifies the person a row belongs to; None if each row is a person.
    """

    profile: Profile
    roles: Mapping[str, RoleProposal]
    entity: str | None


def propose_roles(request: AdviceRequest, source: Source) -> ProposedRoles:
    """Propose roles for the columns of a table.

    Raises
    ------
    NoRows : the table is empty.
    DbanonError : the table cannot be read.
    """
    profile, person_columns = _count_columns(request, source)
    roles = _propose_all_roles(request, profile, person_columns)
    return ProposedRoles(profile, roles, _propose_entity(request, profile, person_columns))


def propose_kinds(
    request: AdviceRequest, quasi_identifiers: Sequence[str], profile: Profile
) -> dict[str, str]:
    """Propose kinds of values, by quasi-identifier.

    These are the requested kinds, and ``nominal`` for columns of codes without a hierarchy.
    """
    nominal_kinds = {
        name: NOMINAL
        for name in quasi_identifiers
        if name not in request.hierarchies and is_code(profile.column(name))
    }
    return nominal_kinds | dict(request.kinds)


def propose_nulls(
    request: AdviceRequest,
    profile: Profile,
    entity: str | None,
    source: Source,
    *,
    can_merge: bool = True,
) -> NullChoice | None:
    """Propose how to treat NULLs in the quasi-identifiers of the request, as ``advise`` does.

    Reads nothing and returns None if no quasi-identifier has a NULL.

    Parameters
    ----------
    can_merge : False if the release cannot merge patterns of NULLs, as in a chain.

    Raises
    ------
    TooFewRecords : the smallest k of the request is not feasible.
    DbanonError : the table cannot be read.
    """
    quasi_identifiers = request.quasi_identifiers
    job = _build_reading_job(request, quasi_identifiers, profile, entity)
    if job.policy.nulls == ERROR:
        # The job has this value if no quasi-identifier has a NULL. Only check that k is feasible.
        count, unit = profile.rows, "records"
        if entity:
            count, unit = profile.column(entity).n_distinct, "persons"
        if count < request.k[0]:
            # Advice has no strata, so the whole table is the only one.
            raise too_few_error_for_count(request.k[0], count, unit, n_strata=1)
        return None
    planned = plan(job, source, pulse=lambda: None)
    microdata = source.read(planned.relation, planned.roles, job, lambda share: None)
    return choose_null_treatment(request, planned, microdata, can_merge=can_merge)


def no_quasi_identifiers_error(table: str) -> NoQuasiIdentifiers:
    """Return the error for a table with no column to propose as a quasi-identifier."""
    return NoQuasiIdentifiers(
        f"No column of {table} is proposed as a quasi-identifier.",
        hint="Name the columns whose values others may know about a person: `quasi_identifiers`.",
    )


def _count_columns(request: AdviceRequest, source: Source) -> tuple[Profile, Mapping[str, str]]:
    """Count the values of all columns, after checking rights and key.

    Returns the profile and, for each column that seems to identify persons, the reason by name.
    """
    named_columns = (*request.quasi_identifiers, *request.sensitive)
    # The job only describes the table: nothing is released with its policy.
    job = Job(
        table=request.table,
        output="",
        quasi_identifiers=tuple(dict.fromkeys(named_columns)),
        key=request.key,
        policy=Policy(k=2, method="gaa_cp"),
    )
    relation = source.describe(job)
    columns = [attribute.name for attribute in relation.schema.attributes]
    # Raises an error if a column may not be read, or if no key identifies the rows.
    profile = source.profile(source.with_row_locator(relation, job, columns))
    if not profile.rows:
        raise NoRows(f"{relation.name} has no rows, so there is no advice.")
    return _check_weights(profile, relation, source), source.find_identifier_columns(relation)


def _check_weights(profile: Profile, relation: Relation, source: Source) -> Profile:
    """Note which columns with the name of a design weight hold other numbers than weights."""

    def check(column: ColumnProfile) -> ColumnProfile:
        if column.n_non_null < profile.rows or not looks_like_design_weight(column):
            return column
        try:
            [attribute] = source.complete_attributes_from_values(relation, [column.attribute])
        except MixedTypes:
            return replace(column, can_weight=False)
        # The shares of the smallest and of the largest value.
        ends = [source.read_quantile(relation, attribute, share) for share in (0.0, 1.0)]
        can_weight = all(end is not None and 0 < end < math.inf for end in ends)
        return replace(column, can_weight=can_weight)

    return replace(profile, columns=tuple(map(check, profile.columns)))


def _propose_entity(
    request: AdviceRequest, profile: Profile, person_columns: Mapping[str, str]
) -> str | None:
    """Return the column that identifies persons, if persons have several rows; None if they do not.

    Columns that contain NULL are skipped, because a run does not accept them as the entity.
    ``person_columns`` maps columns that seem to identify persons to the reason.
    """
    named_columns = {*request.quasi_identifiers, *request.sensitive}
    return coarsest_identifier(
        column
        for column in profile.columns
        if column.name in person_columns
        and column.name not in named_columns
        and column.n_non_null == profile.rows
    )


def _suggest_chain_command(
    request: AdviceRequest,
    table: str,
    profile: Profile,
    roles: Mapping[str, RoleProposal],
    entity: str | None,
    source: Source,
) -> str | None:
    """Return the shell command that creates a chain; None if the table cannot have one."""
    # Releases of chains have no profile.
    if not isinstance(source, SqlSource) or request.profile is not None:
        return None
    file_url = source.session.file_url
    # A table has its chain in its own database; a file has it in the database of the releases.
    if file_url is None and "chains" in source.session.unsupported_features:
        return None
    # Without an entity each row is a person, and a unique column identifies persons.
    identifiers = {name for name, role in roles.items() if role.role == IDENTIFIER}
    person_identifier = entity or person_column(profile.columns, identifiers, profile.rows)
    if person_identifier is None:
        return None
    # Persons have several rows only if there is an entity. The user replaces N.
    row_limit_option = " --max-rows-per-person N" if entity else ""
    command = build_create_chain_command(table, person_identifier, file_url=file_url)
    return command + row_limit_option


def _propose_all_roles(
    request: AdviceRequest, profile: Profile, person_columns: Mapping[str, str]
) -> dict[str, RoleProposal]:
    """Propose roles; if the request names quasi-identifiers, propose no others.

    The reasons in the result are keys of a table of texts in ``advice.roles``: ``given`` if the
    request names the column, ``not_named`` if it names other quasi-identifiers instead, and
    ``no_other`` if no column would be a quasi-identifier otherwise.
    """
    roles = propose_column_roles(profile, person_columns)
    if request.quasi_identifiers:
        for name, role in roles.items():
            if role.role == QUASI_IDENTIFIER:
                roles[name] = RoleProposal(role="not_copied", reason="not_named")
    elif not any(role.role == QUASI_IDENTIFIER for role in roles.values()):
        # Protect the undecided columns rather than find nothing to anonymize.
        for name, role in roles.items():
            if role.role == UNDECIDED and name not in request.sensitive:
                roles[name] = RoleProposal(role=QUASI_IDENTIFIER, reason="no_other")
    roles |= {
        name: RoleProposal(role=QUASI_IDENTIFIER, reason="given")
        for name in request.quasi_identifiers
    }
    roles |= {name: RoleProposal(role=SENSITIVE, reason="given") for name in request.sensitive}
    return roles if request.profile is None else keep_profile(roles, profile)


def _build_reading_job(
    request: AdviceRequest,
    quasi_identifiers: tuple[str, ...],
    profile: Profile,
    entity: str | None = None,
) -> Job:
    """Build a job that reads all rows, including those with a NULL.

    Its policy treats NULL as a value (``category``) if a quasi-identifier has one.
    """
    has_nulls = any(profile.column(name).n_non_null < profile.rows for name in quasi_identifiers)
    coding = propose_coding(request.profile, quasi_identifiers, profile)
    return Job(
        table=request.table,
        output="",
        quasi_identifiers=quasi_identifiers,
        entity=entity,
        key=request.key,
        hierarchies=request.hierarchies,
        memory_limit=request.memory_limit,
        # This method accepts columns of any kind. Each trial release has its own policy.
        policy=Policy(
            k=request.k[0],
            method="gaa_cp",
            nulls="category" if has_nulls else "error",
            kinds=propose_kinds(request, quasi_identifiers, profile),
            top=coding.top,
            bottom=coding.bottom,
            profile=request.profile,
        ),
    )


# The k that ``dbanon init`` proposes. The treatment of NULLs is chosen for the requested k that is
# nearest to it.
USUAL_K = 5


def choose_null_treatment(
    request: AdviceRequest, planned: Plan, microdata: Microdata, *, can_merge: bool = True
) -> NullChoice:
    """Choose how to treat NULLs in quasi-identifiers, by trial releases with a default method.

    Parameters
    ----------
    microdata : all records, including those with a NULL.
    can_merge : False if the release cannot merge patterns of NULLs, as in a chain.

    Raises
    ------
    TooFewRecords, NullInQuasiIdentifier : no release can be made.
    """
    k = min(request.k, key=lambda k: (abs(k - USUAL_K), k))

    def try_release(records: Microdata, nulls: str) -> Release:
        records = sample_records(records, request.sample, request.seed, k)
        trees = planned.build_trees(records)
        method = default_methods(are_numbers(records.attributes, trees))[0]
        # The trials show how many records each treatment withholds, so do not limit them.
        policy = Policy(k=k, method=method, nulls=nulls, max_suppression=None, hierarchies=trees)
        # If records are withheld, ``build_trees`` builds the hierarchies of the others again.
        clustering = partition_for(records, policy, trees=planned.build_trees)
        return recode(records, clustering, policy, exact_totals_of(records), planned.build_trees)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return choose_nulls(microdata, k, request.nulls, try_release, can_merge=can_merge)


def _build_anonymize_arguments(
    planned: Plan,
    profile: Profile,
    roles: Mapping[str, RoleProposal],
    point: Point,
    microdata: Microdata,
) -> JsonObject:
    """Build the arguments of ``anonymize`` for a trial release, without hierarchies.

    The caller of ``advise`` has the hierarchies already.
    """
    source_name, policy = planned.relation.name, planned.policy
    arguments: JsonObject = {
        "table": str(source_name),
        "output": str(RelationName(OUTPUT_SCHEMA, source_name.name)),
        "quasi_identifiers": list(planned.job.quasi_identifiers),
        "sensitive": [column for column, role in roles.items() if role.role == SENSITIVE],
        "k": point.k,
        "method": point.method,
    }
    # The records that remain after the treatment of NULLs that ``policy`` prescribes. The microdata
    # also hold the number of records that are withheld.
    remaining_records = records_to_release(microdata, policy.nulls, point.k)
    optional_arguments = {
        "entity": planned.job.entity,
        "design_weight": find_design_weight(roles, profile),
        "refine": point.refine,
        "recoding": point.recoding,
        "kinds": dict(policy.kinds) or None,
        "top": dict(policy.top) or None,
        "bottom": dict(policy.bottom) or None,
        "profile": policy.profile,
        "nulls": None if policy.nulls == "error" else policy.nulls,
        "max_suppression": share_withheld(remaining_records) or None,
        "key": list(planned.job.key) or None,
    }
    return arguments | {
        option: value for option, value in optional_arguments.items() if value is not None
    }
