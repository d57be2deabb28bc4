"""Plans a run: performs all checks that need no row."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from dbanon.data.counts import CountRequests
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata
from dbanon.data.schema import Attribute, Kind, with_kinds, with_orders
from dbanon.errors import ColumnUnclassified, ColumnWithoutRule
from dbanon.hierarchy.edges import Pulse, ignore_pulses
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import Guarantee
from dbanon.job.job import Job, SourceRequest
from dbanon.job.policy import Policy
from dbanon.job.pseudonym import PseudonymKey, require_pseudonymous
from dbanon.job.requirements import (
    CLIENT,
    require_evaluation,
    require_kinds,
    require_passthrough_options,
)
from dbanon.job.sets import ColumnSet, require_equality
from dbanon.job.verdict import Verdict
from dbanon.ledger.source_history import NO_HISTORY, SourceHistory
from dbanon.measures.recount import trees_of_models
from dbanon.methods import find_method
from dbanon.partitioning.entities import as_identifier
from dbanon.partitioning.protect import add_null_leaves
from dbanon.recoding import RANGE, find_recoding
from dbanon.release.recode import Release
from dbanon.release.report import Request
from dbanon.run.expectations import require_expected
from dbanon.run.hierarchies import JobHierarchies, read_hierarchies
from dbanon.run.history import require_first
from dbanon.run.key import key_of_pseudonyms
from dbanon.run.source_types import require_types
from dbanon.sessions.base import Output, Relation
from dbanon.stores.ports import PreparedRelease, Source, Target


@dataclass(frozen=True, eq=False)
class Plan:
    """A job that has passed all checks that need no row.

    Parameters
    ----------
    job : the job as requested.
    policy : the job's policy, its models with their hierarchies.
    relation : the source relation, with the key that identifies its rows.
    roles : the columns to read, by role.
    hierarchies : the job's hierarchies; builders make theirs once the records are read.
    release_id : id of the release that the run makes.
    output : where the release is written; None if nothing is written.
    numbers : columns that look like person identifiers, if k counts rows; empty if nothing is
        written.
    state : state of the source before it was read, if a release is written.
    pseudonym_key : key of columns released as pseudonyms, if a release is written.
    identifiers : columns released unchanged that look like identifiers, with the reason; empty
        until a run fills it.
    history : the earlier releases of the source, where a release is written.
    source_counts, compared : rows and persons of the source, and what they were compared with,
        where the job expects some.
    """

    job: Job
    policy: Policy
    relation: Relation
    roles: ColumnRoles
    hierarchies: JobHierarchies
    release_id: str
    output: Output | None
    numbers: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    pseudonym_key: PseudonymKey | None = None
    identifiers: Mapping[str, str] = field(default_factory=dict)
    history: SourceHistory = NO_HISTORY
    source_counts: Mapping[str, int] = field(default_factory=dict)
    compared: Mapping[str, Any] = field(default_factory=dict)

    def expected(self, source: Source, target: Target[Any] | None) -> Plan:
        """The plan with the counts of the source, checked against the job's expectations.

        Raises
        ------
        UnexpectedCounts : the counts differ.
        """
        if target is None:
            return self
        counts, compared = require_expected(
            self.job, self.relation, source, target, self.written_output.name
        )
        return replace(self, source_counts=counts, compared=compared)

    def policy_for(self, microdata: Microdata, pulse: Pulse = ignore_pulses) -> Policy:
        """The policy with the hierarchies of these records."""
        return replace(self.policy, hierarchies=self.trees(microdata, pulse))

    def trees(self, microdata: Microdata, pulse: Pulse = ignore_pulses) -> dict[str, Hierarchy]:
        """The hierarchies by quasi-identifier, those of builders made from these records' values.

        Raises
        ------
        InvalidParameter : a builder does not take the values.
        """
        return {**self.policy.hierarchies, **self.hierarchies.of(microdata, pulse)}

    @property
    def guarantee(self) -> Guarantee:
        """What the release guarantees."""
        return self.job.guarantee_under(self.policy)

    def request(
        self,
        policy: Policy,
        holds: Verdict,
        released: Sequence[str],
        names_and_kind: tuple[str, str, str],
        more: Mapping[str, Any],
    ) -> Request:
        """The request as the report of a release shows it.

        Parameters
        ----------
        policy : with the hierarchies that were used.
        holds : the verdict of the recount.
        released : the names of the released quasi-identifiers.
        names_and_kind : names of source and output, kind of the output.
        more : arguments in addition to those of the policy.
        """
        job = self.job
        arguments = {
            **policy.arguments(),
            "by": list(job.by),
            "hierarchies": self.hierarchies.described(policy.hierarchies),
            "models": [
                {"model": level.model, "counted": level.achieved}
                | dict(holds.of_models)
                | model.plain()
                for level, model in zip(holds.models, policy.models, strict=True)
            ],
            "also_k": [
                {"columns": list(column_set.columns), "k": column_set.k, "counted": counted}
                for column_set, counted in zip(self.column_sets(released), holds.also, strict=True)
            ],
            **holds.ledger_values,
            **more,
        }
        if not self.guarantee.also:
            del arguments["also_k"]
        source, output, kind = names_and_kind
        return Request(
            source=source,
            output=output,
            output_kind=kind,
            method=policy.method,
            arguments=arguments,
            quasi_identifiers=job.quasi_identifiers,
            sensitive=job.sensitive,
            kept=(*job.keep, *job.pseudonyms),
            not_copied=self.not_copied,
            k=int(policy.k),
            entity=job.entity,
            guarantee=self.guarantee.sentence(released),
        )

    def questions(self, released: Sequence[str]) -> CountRequests:
        """The counts to take on a release with quasi-identifiers of these names."""
        sensitive = tuple(dict.fromkeys(model.attribute for model in self.policy.models))
        guarantee = replace(self.guarantee, also=self.column_sets(released))
        return guarantee.questions(released, sensitive, self.roles.leaves)

    def column_sets(self, released: Sequence[str]) -> tuple[ColumnSet, ...]:
        """The sets of columns by the names that a release with these quasi-identifiers has."""
        quasi_identifiers = self.job.quasi_identifiers
        return tuple(
            column_set.released(quasi_identifiers, released) for column_set in self.guarantee.also
        )

    def draft(
        self, microdata: Microdata, release: Release, fingerprint: str | None = None
    ) -> PreparedRelease:
        """The release of these records, to be written to the planned output."""
        return PreparedRelease(
            self.job,
            self.written_output,
            self.relation,
            self.roles,
            microdata,
            release,
            fingerprint,
            self.state,
            self.pseudonym_key,
            self.source_counts,
        )

    @property
    def written_output(self) -> Output:
        """The output of a plan that writes a release."""
        assert self.output is not None
        return self.output

    @property
    def sensitive(self) -> dict[str, Attribute]:
        """The attributes of the privacy models, by name."""
        return {a.name: self.relation.attribute(a.name) for a in self.roles.sensitive}

    @property
    def not_copied(self) -> tuple[str, ...]:
        """The columns that a release leaves out."""
        columns = self.relation.schema.attributes
        return tuple(a.name for a in columns if a.name not in self.job.named)


def plan(
    job: Job, source: Source, target: Target[Any] | None = None, pulse: Pulse = ignore_pulses
) -> Plan:
    """Perform all checks that need no row, and plan the run.

    Parameters
    ----------
    target : None if only classes are needed.
    pulse : called regularly while hierarchies are read; its exceptions end the planning.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    relation = source.describe(job)
    require_roles(job, relation)
    if target is not None:
        require_types(job, relation, target.last_types(job, relation.name))
    attributes = _quasi_identifiers(job, relation)
    normalize, person_names = job.entity_normalize, job.guarantee.persons
    persons = tuple(as_identifier(relation.attribute(name), normalize) for name in person_names)
    job.guarantee.require(find_method(job.policy.method))
    require_kinds(job.policy, attributes)
    require_evaluation(job.policy)
    if target is not None:
        _require_ranges(job, target, attributes)
    names = list(dict.fromkeys([*job.named, *job.guarantee.counted_columns, *job.expected_columns]))
    relation = source.locate(relation, job, names)
    release_id = str(uuid.uuid4())
    output = None if target is None else target.plan(job, release_id)
    numbers: tuple[str, ...] = ()
    if target is not None and not job.guarantee.persons and job.guarantee.bounds_rows:
        numbers = tuple(source.find_identifier_columns(relation))
        relation = relation.with_columns(numbers)
    key = None if target is None else _key_of(job, relation, source, target)
    # Take the state before reading, so that later writes count as newer than the release.
    state, history = _state_of(job, relation, source, target)
    relation = source.pin(relation, [*names, *numbers])
    hierarchies = read_hierarchies(source, relation, job, pulse)
    models = add_null_leaves(hierarchies.models)
    sensitive = tuple(dict.fromkeys([*(model.attribute for model in models), *job.columns_in_sets]))
    for name in job.columns_in_sets:
        require_equality(relation.attribute(name))
    for name in (trees := trees_of_models(models)):
        source.require_leaves(relation.attribute(name))
    if target is not None and target.copies_from(source):
        # Retained values leave their database, so inspect their types as well.
        inspected = source.inspect(relation, [relation.attribute(name) for name in job.named])
        relation = relation.with_attributes(inspected)
        for name in (*job.quasi_identifiers, *job.retained_columns):
            target.require_type(relation.attribute(name))
        attributes = _quasi_identifiers(job, relation)
    else:
        inspected = source.inspect(relation, [relation.attribute(name) for name in sensitive])
        attributes = source.inspect(relation, attributes)
        relation = relation.with_attributes(inspected)
    passthrough = None if target is None else _passthrough(job, relation, source, target)
    roles = ColumnRoles(
        attributes,
        # Compare these by the text of their values, whatever their types are.
        by=_as_texts(relation, job.by),
        sensitive=_as_texts(relation, sensitive),
        leaves=frozenset(trees),
        persons=persons,
        passthrough=passthrough,
    )
    policy = replace(job.policy, models=models)
    base = Plan(job, policy, relation, roles, hierarchies, release_id, output, numbers, state, key)
    return replace(base, history=history).expected(source, target)


def _passthrough(
    job: Job, relation: Relation, source: Source, target: Target[Any]
) -> tuple[Attribute, ...] | None:
    """The retained columns that pass through this client, or None if none do."""
    if job.kept_columns != CLIENT or source.drawn:
        return None
    require_passthrough_options(
        persons=bool(job.guarantee.persons),
        chain=job.chain is not None,
        spill=job.spill is not None,
        pseudonyms=bool(job.pseudonyms),
    )
    columns = tuple(
        relation.attribute(a.name)
        for a in relation.schema.attributes
        if a.name in job.retained_columns
    )
    target.require_passthrough(source, relation, columns)
    return columns


def _state_of(
    job: Job, relation: Relation, source: Source, target: Target[Any] | None
) -> tuple[Mapping[str, Any], SourceHistory]:
    """State and earlier releases of the source; both empty if no release is written.

    Raises
    ------
    SecondRelease : its persons were released before.
    """
    if target is None:
        return {}, NO_HISTORY
    state = source.state(relation)
    history = target.earlier(source, relation, state)
    require_first(job, relation.name, history)
    return state, history


def _key_of(
    job: Job, relation: Relation, source: Source, target: Target[Any]
) -> PseudonymKey | None:
    """The key of the job's pseudonyms, after all checks of them; None without pseudonyms.

    Raises
    ------
    PseudonymKeyWrong : it cannot be read.
    UnsupportedType, InvalidParameter : a column cannot be released so, or not here.
    """
    if not job.pseudonyms:
        return None
    for name in job.pseudonyms:
        require_pseudonymous(relation.attribute(name))
    target.require_pseudonyms(source)
    return key_of_pseudonyms(str(job.pseudonymized.pseudonym_key))


def _quasi_identifiers(job: Job, relation: Relation) -> tuple[Attribute, ...]:
    """The quasi-identifiers, with their kinds and orders."""
    named = [relation.attribute(name) for name in job.quasi_identifiers]
    return with_orders(with_kinds(named, job.policy.kinds), job.policy.orders)


def require_roles(job: SourceRequest, relation: Relation) -> None:
    """Check that every column has a role, if the job halts at new columns.

    Raises
    ------
    ColumnUnclassified, ColumnWithoutRule : a column has none.
    """
    if job.roles is None or job.on_new_column != "halt":
        return
    new = [f'"{a.name}"' for a in relation.schema.attributes if a.name not in job.roles]
    if new and job.declared is not None:
        raise ColumnWithoutRule(
            f"{relation.name} has columns without a rule; nothing was published.",
            detail=f"Without a rule: {', '.join(new)}.",
            hint="Declare a role for each, such as drop for a column that is not to be released:"
            " dbanon declare.",
        )
    if new:
        raise ColumnUnclassified(
            f"{relation.name} has columns without a role; nothing was published.",
            detail=f"Without a role: {', '.join(new)}.",
            hint="Give each a role in the job file, or set on_new_column: drop.",
        )


def _as_texts(relation: Relation, names: Sequence[str]) -> tuple[Attribute, ...]:
    return tuple(replace(relation.attribute(name), kind=Kind.CATEGORY) for name in names)


def _require_ranges(job: Job, target: Target[Any], attributes: Sequence[Attribute]) -> None:
    """Check that the target has the range types that the recoding needs.

    Raises
    ------
    UnsupportedType : it has none.
    """
    policy = job.policy
    if policy.intervals != RANGE or find_recoding(str(policy.recoding)).measure != "iloss":
        return
    for attribute in attributes:
        with_tree = attribute.name in policy.hierarchies or attribute.name in job.hierarchies
        if not attribute.kind.is_coded and not with_tree:
            target.require_ranges(attribute)
