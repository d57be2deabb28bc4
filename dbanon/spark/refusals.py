"""What is refused on Spark, and what a look at a table refuses: never other settings instead."""

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
from dbanon.job.guarantee import WHOLE
from dbanon.job.job import Job
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.job.private import refused
from dbanon.job.requirements import CLIENT
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.methods import find_method
from dbanon.partitioning.classes import require_budget
from dbanon.partitioning.strata import null_refused, too_few
from dbanon.recoding import RANGE, find_recoding
from dbanon.run.plan import Plan
from dbanon.spark.facts import Facts
from dbanon.spark.pieces import TableContext

_ELSEWHERE = "Leave it out, or anonymize without Spark."


def check_method(options: Mapping[str, Any]) -> None:
    """Refuse the method that no cluster has, before its options are asked about.

    Raises
    ------
    InvalidParameter : it is asked for.
    """
    if options.get("method") in PRIVATE_METHODS:
        raise refused("engine")


def check_job(job: Job) -> None:
    """Refuse what Spark does not do.

    Raises
    ------
    InvalidParameter : the job asks for it.
    """
    policy = job.policy
    if policy.block_size is None:
        raise InvalidParameter(
            "On Spark a table is anonymized in blocks.",
            hint="Say how large they are: `block_size=50000`.",
        )
    asked = {
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
        "persons=rows": job.persons != WHOLE,
        "where": job.where is not None,
        "time_limit": job.time_limit is not None,
        "spill": job.spill is not None,
        "kept_columns=client": job.kept_columns == CLIENT,
        "exports": bool(job.exports),
        **{name: name != "foreign_files" for name in job.reading.asked},
    }
    for name, wanted in asked.items():
        if wanted:
            raise InvalidParameter(f"Spark does not have {name}.", hint=_ELSEWHERE)
    for model in policy.models:
        if not model.holds_together(bool(job.guarantee.persons)):
            raise InvalidParameter(
                f"Spark does not have {model.kind} here: two classes that keep to it may not keep"
                " to it together, where they are released alike.",
                hint="Ask for another model, or anonymize without Spark.",
            )
    if policy.intervals == RANGE:
        raise InvalidParameter(
            "Spark has no range type.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )


def check_names(names: Sequence[str], columns: Sequence[str], exact: bool = False) -> None:
    """Refuse names that Spark would take for one another: it sees no case, unless it is told to.

    Parameters
    ----------
    names : of columns that are read or written.
    columns : all that stand beside them.
    exact : whether Spark tells them apart: ``spark.sql.caseSensitive``.

    Raises
    ------
    InvalidParameter : two differ in case only.
    """
    if exact:
        return
    known: dict[str, set[str]] = {}
    for name in (*columns, *names):
        known.setdefault(name.lower(), set()).add(name)
    for name in names:
        if len(alike := sorted(known[name.lower()])) > 1:
            raise InvalidParameter(
                f'The columns "{alike[0]}" and "{alike[1]}" differ in case only, and Spark takes'
                " one for the other.",
                hint="Rename one of them in the source, or in a view of it.",
            )


def check_facts(facts: Facts, planned: Plan, withheld: int) -> None:
    """Refuse what a look at all rows tells.

    Raises
    ------
    NullInEntity, NonFiniteValue, ValueNotInOrder, NullInQuasiIdentifier,
        SuppressionOverBudget : as elsewhere.
    TooFewRecords : in all, or in a stratum.
    """
    policy = planned.policy
    attributes = planned.wanted.quasi_identifiers
    if facts.no_entity:
        [name] = planned.job.guarantee.persons
        raise null_in_entity(name, facts.no_entity, facts.rows)
    for attribute in attributes:
        if lost := facts.unknown.get(attribute.name):
            values = (len(lost), len(lost) + len(attribute.order))
            raise not_in_order(attribute, values, (sum(lost.values()), facts.rows))
        if count := facts.not_finite[attribute.name]:
            raise non_finite(attribute, count, facts.rows)
    if policy.nulls != "category" and any(facts.nulls.values()):
        raise null_refused({a.name: facts.nulls[a.name] for a in attributes})
    require_budget(policy, withheld, facts.rows + withheld)
    strata = facts.strata or {((), (True,) * len(attributes)): (0, 0)}
    for (_, pattern), (_, size) in sorted(strata.items(), key=lambda one: one[1][1]):
        if size < policy.k:
            of_persons = bool(planned.job.guarantee.persons)
            few = _records(size, planned, pattern, withheld, of_persons)
            raise too_few(few, policy, np.arange(size), len(strata))


def _records(
    size: int, planned: Plan, pattern: tuple[bool, ...], withheld: int, of_persons: bool
) -> Microdata:
    """So many records of a stratum, of which nothing else is known."""
    attributes = planned.wanted.quasi_identifiers
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
    """The error of a stratum that does not keep to the models as one class."""
    models = "; ".join(model.describe() for model in policy.models)
    if n_strata == 1:
        return ModelInfeasible(
            f"Even the whole table as one class does not keep to {models}.", hint="Ask for less."
        )
    return ModelInfeasible(
        f"The {rows} records of a stratum or pattern of NULLs, which classes do not cross,"
        f" do not keep to {models}.",
        hint='Ask for less, use `nulls="suppress"`, or leave out `by`.',
    )


def check_known(known: TableContext) -> None:
    """Refuse what the values of a table do not allow.

    Raises
    ------
    UnsupportedType : numbers beyond 2**53, and the recoding is no mean.
    InvalidParameter : labels of instants, whose digits depend on all classes.
    """
    policy = known.policy
    if known.wide and policy.recoding not in ("mean", "representative"):
        raise UnsupportedType(
            f'Column "{min(known.wide)}" holds numbers beyond 2**53, of which Spark releases means'
            " alone.",
            hint='Use `recoding="mean"`, or give the column as a smaller type.',
        )
    labels = find_recoding(str(policy.recoding)).name == "generalization"
    if labels and policy.intervals == "text":
        for attribute in known.layout.quasi_identifiers:
            if attribute.kind is Kind.TIMESTAMP and attribute.name not in policy.hierarchies:
                raise InvalidParameter(
                    f'Intervals of "{attribute.name}", which holds instants, are not written as'
                    " text on Spark.",
                    hint='Use `intervals="bounds"`, or give the column as a date.',
                )
