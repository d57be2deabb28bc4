"""Plan a run: perform all checks that do not need the rows of the source."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import CopyCoding
from dbanon.data.counts import CountRequests
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata
from dbanon.data.schema import Attribute, Kind, apply_kinds, apply_orders, as_identifier
from dbanon.data.types import JsonMapping
from dbanon.data.weights import require_weight_type
from dbanon.data.words import json_text
from dbanon.errors import ColumnUnclassified, ColumnWithoutRule, TableChanged, UnsupportedType
from dbanon.hierarchy.edges import Pulse, ignore_pulses
from dbanon.hierarchy.spec import build_all
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import Guarantee
from dbanon.job.job import Job, SourceRequest
from dbanon.job.policy import Policy
from dbanon.job.pseudonym import PseudonymKey, require_pseudonym_type
from dbanon.job.requirements import (
    CLIENT,
    require_evaluation,
    require_kinds,
    require_passthrough_options,
)
from dbanon.job.sets import ColumnSet, require_comparable_values
from dbanon.job.verdict import Verdict
from dbanon.job.zip_codes import NO_ZIP_AREAS, ZipAreas
from dbanon.ledger.source_history import NO_HISTORY, SourceHistory
from dbanon.measures.recount import add_null_leaves, trees_of_models
from dbanon.methods import find_method
from dbanon.recoding import RANGE, find_recoding
from dbanon.release.recode import Release
from dbanon.release.report import Request
from dbanon.run.hierarchies import JobHierarchies, read_hierarchies
from dbanon.run.history import require_first_release
from dbanon.run.thresholds import take_thresholds
from dbanon.sessions.base import Output, Relation
from dbanon.stores.ports import PreparedRelease, Source, Target, W

if TYPE_CHECKING:
    from dbanon.job.private import PrivateJob


@dataclass(frozen=True, eq=False)
class Plan:
    """A job that has passed all checks that do not need the rows of the source.

    Parameters
    ----------
    job : the job as requested.
    policy : the job's policy, in which the privacy models have their hierarchies.
    relation : the source relation, with the key that identifies its rows.
    roles : the columns to read, by role.
    hierarchies : the job's hierarchies; some are built only after the records are read.
    release_id : id of the release that the run makes.
    output : where the release is written; None if nothing is written.
    person_columns : columns that look like person identifiers, if k counts rows; empty if nothing
        is written.
    source_state : the result of ``Source.describe_state`` before the rows are read; empty if no
        release is written.
    pseudonym_key : key of columns released as pseudonyms, if a release is written.
    copy_codings : how the numbers of copied columns are coded, by column.
    percentiles : the thresholds that were taken from the data, by option and column.
    identifiers : columns released unchanged that look like identifiers, with the reason; empty
        until a run fills it.
    history : the earlier releases of the source; none unless a release is written.
    source_counts : the numbers of rows and persons of the source, if the job expects counts.
    expectation_report : what ``source_counts`` were compared with, for the report.
    zip_areas : the columns of ZIP codes, and the areas whose digits are released.
    """

    job: Job
    policy: Policy
    relation: Relation
    roles: ColumnRoles
    hierarchies: JobHierarchies
    release_id: str
    output: Output | None
    person_columns: tuple[str, ...] = ()
    source_state: JsonMapping = field(default_factory=dict)
    pseudonym_key: PseudonymKey | None = None
    copy_codings: Mapping[str, CopyCoding] = field(default_factory=dict)
    percentiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    identifiers: Mapping[str, str] = field(default_factory=dict)
    history: SourceHistory = NO_HISTORY
    source_counts: Mapping[str, int] = field(default_factory=dict)
    expectation_report: JsonMapping = field(default_factory=dict)
    zip_areas: ZipAreas = NO_ZIP_AREAS

    def with_source_counts(self, source: Source, target: Target[W] | None) -> Plan:
        """Count the source and check the counts against the job's expectations.

        Raises
        ------
        UnexpectedCounts : the counts differ.
        """
        # Without a target, nothing is released, so expectations do not matter.
        if target is None or self.job.expect is None:
            return self
        from dbanon.run.expectations import require_expected_counts

        counts, expectation_report = require_expected_counts(
            self.job, self.job.expect, self.relation, source, target, self.written_output.name
        )
        return replace(self, source_counts=counts, expectation_report=expectation_report)

    def policy_for(self, microdata: Microdata, pulse: Pulse = ignore_pulses) -> Policy:
        """Return the policy with the hierarchies of these records."""
        if not self.hierarchies.trees:
            return self.policy
        return replace(self.policy, hierarchies=self.build_trees(microdata, pulse))

    def build_trees(
        self, microdata: Microdata, pulse: Pulse = ignore_pulses
    ) -> dict[str, Hierarchy]:
        """Return the hierarchies by quasi-identifier.

        Some of them are built from the values of these records.

        Parameters
        ----------
        pulse : called regularly; an exception that it raises ends the building.

        Raises
        ------
        InvalidParameter : a builder cannot use the values.
        """
        return {**self.policy.hierarchies, **build_all(self.hierarchies.trees, microdata, pulse)}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the release guarantees."""
        return self.job.guarantee_for_policy(self.policy)

    def build_request(
        self,
        policy: Policy,
        verdict: Verdict,
        released_names: Sequence[str],
        *,
        source: str,
        output: str,
        output_kind: str,
        further_arguments: JsonMapping,
    ) -> Request:
        """Build the request that the report of a release contains.

        Parameters
        ----------
        policy : the policy with the hierarchies that were used.
        verdict : the verdict of the recount.
        released_names : the names of the released quasi-identifiers.
        source, output, output_kind : names of source and output, kind of the output.
        further_arguments : arguments in addition to those of the policy.
        """
        job = self.job
        arguments = {
            **policy.arguments(),
            "by": list(job.by),
            "hierarchies": self.hierarchies.describe(policy.hierarchies),
            "models": [
                # What all models have in common, such as that they count persons, is recorded with
                # each of them.
                {"model": level.model, "counted": level.achieved}
                | dict(verdict.model_ledger_values)
                | model.to_plain()
                for level, model in zip(verdict.models, policy.models, strict=True)
            ],
            **verdict.ledger_values,
            **further_arguments,
        }
        if policy.also_k:
            arguments["also_k"] = [
                {"columns": list(column_set.columns), "k": column_set.k, "counted": counted}
                for column_set, counted in zip(
                    self.column_sets(released_names), verdict.rarest_in_sets, strict=True
                )
            ]
        else:
            del arguments["also_k"]
        return Request(
            source=source,
            output=output,
            output_kind=output_kind,
            method=policy.method,
            arguments=arguments,
            quasi_identifiers=job.quasi_identifiers,
            sensitive=job.sensitive,
            # The report lists pseudonyms with the kept columns: both are released row by row.
            kept=(*job.keep, *job.copied_weights, *job.pseudonyms),
            not_copied=self.not_copied,
            k=int(policy.k),
            entity=job.entity,
            guarantee=self.guarantee.describe(released_names),
        )

    def count_requests(self, released_names: Sequence[str]) -> CountRequests:
        """Return what to count in a release whose quasi-identifiers have these names."""
        sensitive = tuple(dict.fromkeys(model.attribute for model in self.policy.models))
        guarantee = replace(self.guarantee, column_sets=self.column_sets(released_names))
        return guarantee.count_requests(released_names, sensitive, self.roles.hierarchy_columns)

    def column_sets(self, released_names: Sequence[str]) -> tuple[ColumnSet, ...]:
        """Return the sets of columns of the guarantee, under their names in the release.

        A column that is released as a range has two names there, one for each bound.
        """
        quasi_identifiers = self.job.quasi_identifiers
        return tuple(
            column_set.with_released_names(quasi_identifiers, released_names)
            for column_set in self.guarantee.column_sets
        )

    def prepare_release(
        self,
        microdata: Microdata,
        release: Release,
        fingerprint: str | None = None,
        date_offsets: NDArray[np.int32] | None = None,
    ) -> PreparedRelease:
        """Combine a release of these records with the data needed to write it to the output."""
        return PreparedRelease(
            job=self.job,
            output=self.written_output,
            relation=self.relation,
            roles=self.roles,
            microdata=microdata,
            release=release,
            fingerprint=fingerprint,
            source_state=self.source_state,
            pseudonym_key=self.pseudonym_key,
            source_counts=self.source_counts,
            date_offsets=date_offsets,
            copy_codings=self.copy_codings,
        )

    @property
    def written_output(self) -> Output:
        """The output; only for a plan that writes a release."""
        assert self.output is not None
        return self.output

    @property
    def sensitive(self) -> dict[str, Attribute]:
        """The attributes that privacy models, or sets of ``also_k``, count in classes, by name."""
        return {a.name: self.relation.attribute(a.name) for a in self.roles.sensitive}

    @property
    def not_copied(self) -> tuple[str, ...]:
        """The columns that a release leaves out."""
        columns = self.relation.schema.attributes
        return tuple(a.name for a in columns if a.name not in self.job.named_columns)


def plan(
    job: Job, source: Source, target: Target[W] | None = None, pulse: Pulse = ignore_pulses
) -> Plan:
    """Perform all checks that do not need the rows of the source, and plan the run.

    Parameters
    ----------
    target : where the release is written; None if nothing is written.
    pulse : called regularly while hierarchies are read; an exception ends the planning.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    relation = source.describe(job)
    require_roles(job, relation)
    if target is not None:
        require_types(job, relation, target.last_types(job, relation.name))
    attributes = _build_quasi_identifiers(job, relation)
    guarantee = job.guarantee
    person_attributes = [
        as_identifier(relation.attribute(name), job.entity_normalize)
        for name in guarantee.entity_columns
    ]
    guarantee.check_method(find_method(job.policy.method))
    _require_supported_columns(job, target, attributes)
    names = _list_names(job, guarantee)
    # A row locator is SQL that identifies a row, such as its key columns.
    relation = source.with_row_locator(relation, job, names)
    percentiles, job = job.policy.coding.percentiles, take_thresholds(job, relation, source)
    release_id = str(uuid.uuid4())
    output = None if target is None else target.plan(job, release_id)
    person_columns: tuple[str, ...] = ()
    if target is not None and not guarantee.entity_columns and guarantee.has_k_anonymous_rows:
        # Classes of k rows may have fewer than k persons. Later checks count the values of these
        # columns, so the relation must include them.
        person_columns = tuple(source.find_identifier_columns(relation))
        relation = relation.with_columns(person_columns)
    pseudonym_key = None
    if target is not None and job.pseudonym_options.pseudonym_key is not None:
        pseudonym_key = _read_pseudonym_key(job, relation, source, target)
    relation = _complete_dates(job, relation, source)
    # Take the state (column types and write counters) before reading, so that later writes count as
    # newer than the release.
    source_state, history = _read_source_state(job, relation, source, target)
    # From here on, all reads see the same rows.
    relation = source.pin(relation, [*names, *person_columns])
    hierarchies = read_hierarchies(source, relation, job, pulse)
    # NULL counts as a sensitive value, so each hierarchy of a model needs a leaf for it.
    models = add_null_leaves(hierarchies.models)
    # The copied columns whose values are counted in classes: those of models, and those that sets
    # of ``also_k`` name. They need not have the role ``sensitive``.
    sensitive = tuple(dict.fromkeys([*(model.attribute for model in models), *job.columns_in_sets]))
    for name in job.columns_in_sets:
        require_comparable_values(relation.attribute(name))
    # The values of these columns must have a text that is the same in all databases.
    model_trees = trees_of_models(models)
    for name in model_trees:
        source.require_leaves(relation.attribute(name))
    relation, attributes = _inspect_columns(job, relation, attributes, sensitive, source, target)
    zip_areas = _apply_profile(job, relation, attributes, source)
    passthrough = None
    if target is not None and job.kept_columns == CLIENT:
        passthrough = _find_passthrough_columns(job, relation, source, target)
    roles = ColumnRoles(
        attributes,
        # Compare these by the text of their values, whatever their types.
        by=_as_text_attributes(relation, job.by),
        sensitive=_as_text_attributes(relation, sensitive),
        hierarchy_columns=frozenset(model_trees),
        entity_columns=tuple(person_attributes),
        passthrough=passthrough,
        weights=_find_design_weights(job, relation),
    )
    return Plan(
        job=job,
        policy=replace(job.policy, models=models),
        relation=relation,
        roles=roles,
        hierarchies=hierarchies,
        release_id=release_id,
        output=output,
        person_columns=person_columns,
        source_state=source_state,
        pseudonym_key=pseudonym_key,
        copy_codings=_code_copies(job, relation, source),
        percentiles=percentiles,
        history=history,
        zip_areas=zip_areas,
    ).with_source_counts(source, target)


def _list_names(job: Job, guarantee: Guarantee) -> list[str]:
    """List the columns that a run reads or counts, each once."""
    names = (
        *job.named_columns,
        *guarantee.counted_columns,
        *job.columns_with_expectations,
        *job.columns_for_risk,
    )
    return list(dict.fromkeys(names))


def _inspect_columns(
    job: Job,
    relation: Relation,
    quasi_identifiers: tuple[Attribute, ...],
    sensitive: Sequence[str],
    source: Source,
    target: Target[W] | None,
) -> tuple[Relation, tuple[Attribute, ...]]:
    """Complete the types of columns by looking at their values.

    Returns the relation and the quasi-identifiers with the complete types.

    Raises
    ------
    UnsupportedType : the target does not support the type of a column that is copied to it.
    """
    # If source and target are one database, or nothing is written, no value has to be copied into
    # a column of another database.
    if target is None or not target.copies_from(source):
        if inspected_names := (*sensitive, *job.design_weights):
            inspected_attributes = source.complete_attributes_from_values(
                relation, [relation.attribute(name) for name in inspected_names]
            )
            relation = relation.with_attributes(inspected_attributes)
        return relation, source.complete_attributes_from_values(relation, quasi_identifiers)
    # Retained values leave their database, so inspect their types as well.
    inspected_attributes = source.complete_attributes_from_values(
        relation, [relation.attribute(name) for name in job.named_columns]
    )
    relation = relation.with_attributes(inspected_attributes)
    for name in (*job.quasi_identifiers, *job.retained_columns):
        target.require_type(relation.attribute(name))
    return relation, _build_quasi_identifiers(job, relation)


def _find_design_weights(job: Job, relation: Relation) -> tuple[Attribute, ...]:
    """Return the column with the design weight as the only element; empty if there is none.

    Raises
    ------
    UnsupportedType : it does not hold numbers.
    """
    weights = tuple(relation.attribute(name) for name in job.design_weights)
    for attribute in weights:
        require_weight_type(attribute)
    return weights


def _find_passthrough_columns(
    job: Job, relation: Relation, source: Source, target: Target[W]
) -> tuple[Attribute, ...] | None:
    """Return the retained columns whose values pass through this client.

    None if the database copies them, without the client.
    """
    # A summary exists if all rows were copied into a database in this process. That database then
    # copies the columns itself.
    if source.copied_rows_summary:
        return None
    require_passthrough_options(
        has_entity=bool(job.guarantee.entity_columns),
        in_chain=job.chain is not None,
        spills=job.spill is not None,
        has_pseudonyms=bool(job.pseudonyms),
        shifts_dates=job.shift_dates is not None,
        coding_option=job.policy.coding.option_of((*job.sensitive, *job.keep)),
    )
    columns = tuple(
        relation.attribute(a.name)
        for a in relation.schema.attributes
        if a.name in job.retained_columns
    )
    target.require_passthrough(source, relation, columns)
    return columns


def _read_source_state(
    job: Job, relation: Relation, source: Source, target: Target[W] | None
) -> tuple[JsonMapping, SourceHistory]:
    """Read the state and the earlier releases of the source; empty if no release is written.

    Raises
    ------
    SecondRelease : persons of the source were released before.
    """
    if target is None:
        return {}, NO_HISTORY
    source_state = source.describe_state(relation)
    history = target.find_earlier_releases(source, relation, source_state)
    require_first_release(job, relation.name, history)
    return source_state, history


def _apply_profile(
    job: Job, relation: Relation, quasi_identifiers: Sequence[Attribute], source: Source
) -> ZipAreas:
    """Check the columns against the policy's profile; return the areas of ZIP codes, if any.

    Raises
    ------
    DbanonError : as ``find_zip_areas`` and ``require_profile``.
    """
    if job.policy.zip_population is None and job.policy.profile is None:
        return NO_ZIP_AREAS
    from dbanon.run.profiles import find_zip_areas, require_profile

    zip_areas = find_zip_areas(job, quasi_identifiers, source)
    require_profile(job, relation, quasi_identifiers, source)
    return zip_areas


def _read_pseudonym_key(
    job: Job, relation: Relation, source: Source, target: Target[W]
) -> PseudonymKey:
    """Check the columns whose values are hashed, and read the key of pseudonyms and offsets.

    Raises
    ------
    PseudonymKeyWrong : the key cannot be read.
    UnsupportedType, InvalidParameter : a column, or the target, does not support pseudonyms.
    """
    from dbanon.run.key import read_pseudonym_key

    # Offsets of dates are hashes of the entity.
    entity_columns = job.guarantee.entity_columns if job.shift_dates is not None else ()
    for name in (*job.pseudonyms, *entity_columns):
        require_pseudonym_type(relation.attribute(name))
    target.require_pseudonyms(source)
    return read_pseudonym_key(str(job.pseudonym_options.pseudonym_key))


def _complete_dates(job: Job, relation: Relation, source: Source) -> Relation:
    """Complete the types of the columns whose dates are shifted, and of other copied columns.

    Raises
    ------
    UnsupportedType : a column does not hold dates or timestamps.
    """
    if job.shift_dates is None:
        return relation
    named_attributes = [relation.attribute(name) for name in job.shift_dates.columns]
    attributes = source.complete_attributes_from_values(relation, named_attributes)
    for name, attribute in zip(job.shift_dates.columns, attributes, strict=True):
        if attribute.kind not in (Kind.DATE, Kind.TIMESTAMP):
            raise UnsupportedType(
                f'Column "{name}" of type {attribute.sql_type or attribute.kind.value} holds no'
                " dates or timestamps, which `shift_dates` needs.",
                hint="Leave it out of `shift_dates`, or cast it to a date in a view.",
            )
    relation = relation.with_attributes(attributes)
    for name in job.retained_columns:
        if relation.attribute(name).kind is Kind.OTHER:
            # A run may not need the type of this column, so it may be one that is not supported.
            with suppress(UnsupportedType):
                relation = relation.with_attributes(
                    source.complete_attributes_from_values(relation, [relation.attribute(name)])
                )
    return relation


def _code_copies(job: Job, relation: Relation, source: Source) -> dict[str, CopyCoding]:
    """Return how the numbers of copied columns are coded, by column.

    Raises
    ------
    InvalidParameter, UnsupportedType : a coded column does not fit its options.
    """
    coding = job.policy.coding
    attributes = [
        relation.attribute(name) for name in (*job.sensitive, *job.keep) if name in coding.columns
    ]
    if not attributes:
        return {}
    return coding.code_copies(source.complete_attributes_from_values(relation, attributes))


def _build_quasi_identifiers(job: Job, relation: Relation) -> tuple[Attribute, ...]:
    """Return the quasi-identifiers, with their kinds and orders."""
    named_attributes = [relation.attribute(name) for name in job.quasi_identifiers]
    attributes = job.policy.coding.read_groups_as_texts(named_attributes)
    return apply_orders(apply_kinds(attributes, job.policy.kinds), job.policy.orders)


def require_roles(job: SourceRequest, relation: Relation) -> None:
    """Check that every column has a role, if the job halts at new columns.

    Raises
    ------
    ColumnUnclassified, ColumnWithoutRule : a column has no role.
    """
    # Without ``roles``, any column may lack a role. It is not copied.
    if job.roles is None or job.on_new_column != "halt":
        return
    unclassified_columns = [
        f'"{a.name}"' for a in relation.schema.attributes if a.name not in job.roles
    ]
    # The roles come from declared rules.
    if unclassified_columns and job.declared is not None:
        raise ColumnWithoutRule(
            f"{relation.name} has columns without a rule; nothing was published.",
            detail=f"Without a rule: {', '.join(unclassified_columns)}.",
            hint="Declare a role for each, such as drop for a column that is not to be released:"
            " dbanon declare.",
        )
    if unclassified_columns:
        raise ColumnUnclassified(
            f"{relation.name} has columns without a role; nothing was published.",
            detail=f"Without a role: {', '.join(unclassified_columns)}.",
            hint="Give each a role in the job file, or set on_new_column: drop.",
        )


def require_types(job: Job | PrivateJob, relation: Relation, last_types: Mapping[str, str]) -> None:
    """Check that the columns that are read have the types of the job's last release.

    Widths may differ: ``smallint`` and ``bigint`` count as the same type. Columns that the job does
    not read are skipped, except with ``where``, which may refer to any column.

    Parameters
    ----------
    job : the job; nothing is checked if its ``roles``, all columns with a role, is None.
    last_types : SQL type by column name, as recorded by the last release.

    Raises
    ------
    TableChanged : a column has a type of another family.
    """
    if job.roles is None:
        return
    may_read_any_column = isinstance(job, Job) and job.where is not None
    compared_columns = {*(job.roles if may_read_any_column else job.columns_to_read)} - {
        *job.accept_types
    }
    from dbanon.sessions.types import type_family

    # A column without a recorded type counts as unchanged.
    changed_columns = [
        a
        for a in relation.schema.attributes
        if a.name in job.roles
        and a.name in compared_columns
        and type_family(last_types.get(a.name, a.sql_type)) != type_family(a.sql_type)
    ]
    if changed_columns:
        names = json_text([a.name for a in changed_columns])
        # Columns of SQLite may be declared without a type.
        raise TableChanged(
            f"Columns of {relation.name} have other types than at the job's last release; nothing"
            " was published.",
            detail="; ".join(
                f'"{a.name}" was {last_types[a.name] or "of no type"}, and is'
                f" {a.sql_type or 'of no type'}"
                for a in changed_columns
            )
            + ".",
            hint="Look at the column's values. If the type is as it should be, accept it with one"
            f" run of the job: `accept_types={names}`.",
        )


def _as_text_attributes(relation: Relation, names: Sequence[str]) -> tuple[Attribute, ...]:
    """Return the attributes with these names, as attributes of text values."""
    return tuple(replace(relation.attribute(name), kind=Kind.CATEGORY) for name in names)


def _require_supported_columns(
    job: Job, target: Target[W] | None, attributes: tuple[Attribute, ...]
) -> None:
    """Check that coding, the method and the target support the quasi-identifiers.

    Raises
    ------
    UnsupportedType, InvalidParameter : one of them does not.
    """
    described_columns = {*job.policy.hierarchies, *job.hierarchies, *job.policy.steps}
    coded_attributes = job.policy.coding.code_attributes(
        attributes, described_columns, (*job.sensitive, *job.keep)
    )
    require_kinds(job.policy, coded_attributes)
    require_evaluation(job.policy)
    if target is not None and job.policy.intervals == RANGE:
        _require_ranges(job, target, coded_attributes)


def _require_ranges(job: Job, target: Target[W], attributes: Sequence[Attribute]) -> None:
    """Check that the target has the range types that the recoding needs.

    Raises
    ------
    UnsupportedType : the target lacks one of them.
    """
    policy = job.policy
    # Only recodings whose loss is measured by iloss generalize values, and may release ranges.
    if find_recoding(str(policy.recoding)).measure != "iloss":
        return
    for attribute in attributes:
        has_tree = attribute.name in policy.hierarchies or attribute.name in job.hierarchies
        # Texts, and columns with a hierarchy, are released as labels.
        if not attribute.kind.is_coded and not has_tree:
            target.require_ranges(attribute)
