"""Refuse what Spark does not support, and tables that do not fit; never change settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbanon.data.chunks import non_finite
from dbanon.data.microdata import Microdata, null_in_entity
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import NOMINAL, Kind, not_in_order
from dbanon.errors import (
    InvalidParameter,
    ModelInfeasible,
    UnsupportedType,
)
from dbanon.job.guarantee import WHOLE_PERSONS
from dbanon.job.job import Job
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.job.private import refused
from dbanon.job.requirements import CLIENT
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.methods import find_method
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.strata import null_error, too_few_error
from dbanon.recoding import RANGE, find_recoding
from dbanon.run.plan import Plan
from dbanon.spark.facts import Facts
from dbanon.spark.pieces import TableContext

_HINT = "Leave it out, or anonymize without Spark."


def check_method(options: Mapping[str, Any]) -> None:
    """Refuse methods that no cluster supports, before their options are checked.

    Raises
    ------
    InvalidParameter : such a method is requested.
    """
    if options.get("method") in PRIVATE_METHODS:
        raise refused("engine")


def check_job(job: Job) -> None:
    """Refuse what Spark does not support.

    Raises
    ------
    InvalidParameter : the job requests it.
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
        "refine with models and generalization": bool(policy.models and policy.refine)
        and find_method(policy.method).refine == "generalized",
        "evaluate": policy.evaluate,
        "certificate": policy.certificate is not None,
        "kinds=nominal": NOMINAL in policy.kinds.values(),
        "nulls=merge": policy.nulls == MERGE,
        "chain": job.chain is not None,
        "pseudonyms": bool(job.pseudonyms),
        "persons=rows": job.persons != WHOLE_PERSONS,
        "where": job.where is not None,
        "time_limit": job.time_limit is not None,
        "spill": job.spill is not None,
        "kept_columns=client": job.kept_columns == CLIENT,
        "exports": bool(job.exports),
        **{name: name != "foreign_files" for name in job.reading.changed},
    }
    for name, is_requested in unsupported.items():
        if is_requested:
            raise InvalidParameter(f"Spark does not have {name}.", hint=_HINT)
    for model in policy.models:
        if not model.is_union_closed(bool(job.guarantee.persons)):
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


def check_names(names: Sequence[str], columns: Sequence[str], exact: bool = False) -> None:
    """Refuse names that Spark would confuse because it ignores case by default.

    Parameters
    ----------
    names : of columns that are read or written.
    columns : all columns next to them.
    exact : whether Spark distinguishes case: ``spark.sql.caseSensitive``.

    Raises
    ------
    InvalidParameter : two names differ only in case.
    """
    if exact:
        return
    names_by_lowercase: dict[str, set[str]] = {}
    for name in (*columns, *names):
        names_by_lowercase.setdefault(name.lower(), set()).add(name)
    for name in names:
        if len(clash := sorted(names_by_lowercase[name.lower()])) > 1:
            raise InvalidParameter(
                f'The columns "{clash[0]}" and "{clash[1]}"'
                " differ in case only, and Spark confuses them.",
                hint="Rename one of them in the source, or in a view of it.",
            )


def check_facts(facts: Facts, planned: Plan, withheld: int) -> None:
    """Refuse tables because of facts about their rows.

    Raises
    ------
    NullInEntity, NonFiniteValue, ValueNotInOrder, NullInQuasiIdentifier, SuppressionOverBudget : as
        elsewhere.
    TooFewRecords : in total, or in a stratum.
    """
    policy = planned.policy
    attributes = planned.roles.quasi_identifiers
    if facts.no_entity:
        [name] = planned.job.guarantee.persons
        raise null_in_entity(name, facts.no_entity, facts.rows)
    for attribute in attributes:
        if unknown_values := facts.unknown.get(attribute.name):
            values = (len(unknown_values), len(unknown_values) + len(attribute.order))
            raise not_in_order(attribute, values, (sum(unknown_values.values()), facts.rows))
        if count := facts.not_finite[attribute.name]:
            raise non_finite(attribute, count, facts.rows)
    if policy.nulls != "category" and any(facts.nulls.values()):
        raise null_error({a.name: facts.nulls[a.name] for a in attributes})
    require_budget(policy, withheld, facts.rows + withheld)
    strata = facts.strata or {((), (True,) * len(attributes)): (0, 0)}
    for (_, pattern), (_, size) in sorted(strata.items(), key=lambda item: item[1][1]):
        if size < policy.k:
            counts_persons = bool(planned.job.guarantee.persons)
            stratum_records = _records(size, planned, pattern, withheld, counts_persons)
            raise too_few_error(stratum_records, policy, np.arange(size), len(strata))


def _records(
    size: int, planned: Plan, pattern: tuple[bool, ...], withheld: int, of_persons: bool
) -> Microdata:
    """Build placeholder records of a stratum, for its error."""
    attributes = planned.roles.quasi_identifiers
    return Microdata(
        attributes,
        np.arange(size, dtype=np.int64).reshape(-1, 1),
        np.zeros((size, sum(a.kind.is_numeric for a in attributes))),
        np.zeros((size, sum(not a.kind.is_numeric for a in attributes)), np.int32),
        valid=np.tile(np.array(pattern), (size, 1)) if planned.policy.nulls == "category" else None,
        strata=np.zeros(size, np.int32) if planned.job.by else None,
        entities=np.arange(size, dtype=np.int32) if of_persons else None,
        withheld=withheld,
    )


def infeasible_stratum(policy: Policy, rows: int, n_strata: int) -> ModelInfeasible:
    """Return the error for a stratum that violates the models even as one class."""
    models = "; ".join(model.describe() for model in policy.models)
    if n_strata == 1:
        return ModelInfeasible(
            f"Even the whole table as one class violates {models}.", hint="Ask for less."
        )
    return ModelInfeasible(
        f"The {rows} records of a stratum or pattern of NULLs, which is anonymized separately,"
        f" violate {models}.",
        hint='Ask for less, use `nulls="suppress"`, or leave out `by`.',
    )


def check_context(context: TableContext) -> None:
    """Refuse tables because of the values in their columns.

    Raises
    ------
    UnsupportedType : numbers exceed 2**53 and the recoding is not a mean.
    InvalidParameter : labels of instants, whose digits depend on all classes.
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
