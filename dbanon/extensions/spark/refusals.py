"""Refuse jobs and tables that Spark does not support, instead of changing their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbanon.data.chunks import non_finite_error
from dbanon.data.microdata import Microdata, null_in_entity_error
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import NOMINAL, Kind, not_in_order_error
from dbanon.errors import (
    InvalidParameter,
    ModelInfeasible,
    UnsupportedType,
)
from dbanon.extensions.spark.facts import Facts
from dbanon.extensions.spark.pieces import TableContext
from dbanon.job.guarantee import WHOLE_PERSONS
from dbanon.job.job import Job
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.job.private import build_option_refusal
from dbanon.job.requirements import CLIENT
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.methods import find_method
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.strata import null_error, too_few_error
from dbanon.recoding import RANGE, find_recoding
from dbanon.run.plan import Plan

_LEAVE_OUT_HINT = "Leave it out, or anonymize without Spark."


def check_method(options: Mapping[str, object]) -> None:
    """Refuse differentially private methods, before their options are checked.

    Raises
    ------
    InvalidParameter : such a method is requested.
    """
    if options.get("method") in PRIVATE_METHODS:
        # The option of the command line and of job files that selects Spark.
        raise build_option_refusal("engine")


def check_job(job: Job) -> None:
    """Refuse options that Spark does not support.

    Raises
    ------
    InvalidParameter : the job has such an option.
    """
    policy = job.policy
    if policy.block_size is None:
        raise InvalidParameter(
            "On Spark a table must be anonymized in blocks.",
            hint="Say how large they are: `block_size=50000`.",
        )
    unsupported = {
        "standardize=mahalanobis": policy.standardize == MAHALANOBIS,
        "also_k": bool(policy.also_k),
        "withhold_failing": policy.withhold_failing,
        # ``Method.refine`` names the refinement that fits the method; "generalized" is that of
        # methods that generalize.
        "refine with models and generalization": bool(policy.models and policy.refine)
        and find_method(policy.method).refine == "generalized",
        "evaluate": policy.evaluate,
        "certificate": policy.certificate is not None,
        "kinds=nominal": NOMINAL in policy.kinds.values(),
        "top": bool(policy.top),
        "bottom": bool(policy.bottom),
        "recode": bool(policy.recode),
        "profile": policy.profile is not None,
        "design_weight": job.design_weight is not None,
        "nulls=merge": policy.nulls == MERGE,
        f"method {policy.method}": find_method(policy.method).suppresses_cells,
        "chain": job.chain is not None,
        "pseudonyms": bool(job.pseudonyms),
        "shift_dates": job.shift_dates is not None,
        "persons=rows": job.persons != WHOLE_PERSONS,
        "where": job.where is not None,
        "time_limit": job.time_limit is not None,
        "spill": job.spill is not None,
        "kept_columns=client": job.kept_columns == CLIENT,
        "exports": bool(job.exports),
        # Other options for reading concern CSV files and spreadsheets.
        **{name: name != "foreign_files" for name in job.reading.non_default_options},
    }
    for name, is_requested in unsupported.items():
        if is_requested:
            raise InvalidParameter(f"Spark does not have {name}.", hint=_LEAVE_OUT_HINT)
    for model in policy.models:
        if not model.is_union_closed(bool(job.guarantee.entity_columns)):
            raise InvalidParameter(
                f"Spark does not have {model.kind} here: two classes with the same released values"
                " may violate it together even if each satisfies it.",
                hint="Ask for another model, or anonymize without Spark.",
            )
    if policy.intervals == RANGE:
        raise InvalidParameter(
            "Spark has no range type.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )


def check_names(
    names: Sequence[str], columns: Sequence[str], is_case_sensitive: bool = False
) -> None:
    """Refuse names that Spark would confuse because it ignores case by default.

    Parameters
    ----------
    names : the names of the columns that are read or written.
    columns : the names of all columns of the same table.
    is_case_sensitive : whether Spark distinguishes case, by ``spark.sql.caseSensitive``.

    Raises
    ------
    InvalidParameter : two names differ only in case.
    """
    if is_case_sensitive:
        return
    names_by_lowercase: dict[str, set[str]] = {}
    for name in (*columns, *names):
        names_by_lowercase.setdefault(name.lower(), set()).add(name)
    for name in names:
        if len(similar_names := sorted(names_by_lowercase[name.lower()])) > 1:
            raise InvalidParameter(
                f'The columns "{similar_names[0]}" and "{similar_names[1]}"'
                " differ in case only, and Spark confuses them.",
                hint="Rename one of them in the source, or in a view of it.",
            )


def check_facts(facts: Facts, run_plan: Plan, n_withheld: int) -> None:
    """Refuse tables because of facts about their rows.

    Raises
    ------
    NullInEntity, NonFiniteValue, ValueNotInOrder, NullInQuasiIdentifier, SuppressionOverBudget : as
        on one machine.
    TooFewRecords : in total, or in a stratum.
    """
    policy = run_plan.policy
    attributes = run_plan.roles.quasi_identifiers
    if facts.n_without_entity:
        [name] = run_plan.job.guarantee.entity_columns
        raise null_in_entity_error(name, facts.n_without_entity, facts.n_rows)
    for attribute in attributes:
        if unknown_values := facts.unknown_values.get(attribute.name):
            n_values = len(unknown_values) + len(attribute.order)
            # Numbers of distinct values and of rows, each with the total.
            raise not_in_order_error(
                attribute,
                (len(unknown_values), n_values),
                (sum(unknown_values.values()), facts.n_rows),
            )
        if count := facts.non_finite_counts[attribute.name]:
            raise non_finite_error(attribute, count, facts.n_rows)
    if policy.nulls != "category" and any(facts.null_counts.values()):
        raise null_error({a.name: facts.null_counts[a.name] for a in attributes})
    # Raises SuppressionOverBudget: more rows are withheld than ``max_suppression`` allows.
    require_budget(policy, n_withheld, facts.n_rows + n_withheld)
    # An empty table counts as one empty stratum without NULLs.
    strata_sizes = facts.strata_sizes or {((), (True,) * len(attributes)): (0, 0)}
    units_of_strata = [
        (n_units, null_pattern) for (_, null_pattern), (_, n_units) in strata_sizes.items()
    ]
    # Report the smallest stratum.
    for n_units, null_pattern in sorted(units_of_strata, key=lambda stratum: stratum[0]):
        if n_units < policy.k:
            counts_persons = bool(run_plan.job.guarantee.entity_columns)
            stratum_records = _make_placeholder_records(
                n_units, run_plan, null_pattern, n_withheld, counts_persons
            )
            raise too_few_error(
                stratum_records, policy, records=np.arange(n_units), n_strata=len(strata_sizes)
            )


def _make_placeholder_records(
    n_units: int,
    run_plan: Plan,
    null_pattern: tuple[bool, ...],
    n_withheld: int,
    counts_persons: bool,
) -> Microdata:
    """Build records without values for a stratum; its error needs their number and NULLs."""
    attributes = run_plan.roles.quasi_identifiers
    return Microdata(
        attributes,
        np.arange(n_units, dtype=np.int64).reshape(-1, 1),
        np.zeros((n_units, sum(a.kind.is_numeric for a in attributes))),
        np.zeros((n_units, sum(not a.kind.is_numeric for a in attributes)), np.int32),
        valid=np.tile(np.array(null_pattern), (n_units, 1))
        if run_plan.policy.nulls == "category"
        else None,
        strata=np.zeros(n_units, np.int32) if run_plan.job.by else None,
        entities=np.arange(n_units, dtype=np.int32) if counts_persons else None,
        n_withheld=n_withheld,
    )


def infeasible_stratum(policy: Policy, n_rows: int, n_strata: int) -> ModelInfeasible:
    """Return the error for a stratum that violates the models even as one class."""
    models = "; ".join(model.describe() for model in policy.models)
    if n_strata == 1:
        return ModelInfeasible(
            f"Even the whole table as one class violates {models}.",
            hint="Lower the levels of the models.",
        )
    return ModelInfeasible(
        f"The {n_rows} records of a stratum or pattern of NULLs, which is anonymized separately,"
        f" violate {models}.",
        hint='Lower the levels of the models, use `nulls="suppress"`, or leave out `by`.',
    )


def check_context(context: TableContext) -> None:
    """Refuse tables because of the values in their columns.

    Raises
    ------
    UnsupportedType : numbers exceed 2**53 and the recoding is not a mean.
    InvalidParameter : intervals of timestamps would be released as text. The number of digits in
        such a text depends on all classes, which no single worker knows.
    """
    policy = context.policy
    if context.wide and policy.recoding not in ("mean", "representative"):
        raise UnsupportedType(
            f'Column "{min(context.wide)}"'
            " has numbers beyond 2**53, for which Spark can only release means.",
            hint='Use `recoding="mean"`, or give the column as a smaller type.',
        )
    uses_labels = find_recoding(str(policy.recoding)).name == "generalization"
    if uses_labels and policy.intervals == "text":
        for attribute in context.layout.quasi_identifiers:
            if attribute.kind is Kind.TIMESTAMP and attribute.name not in policy.hierarchies:
                raise InvalidParameter(
                    f'Intervals of "{attribute.name}",'
                    " which holds instants, cannot be written as text on Spark.",
                    hint='Use `intervals="bounds"`, or give the column as a date.',
                )
