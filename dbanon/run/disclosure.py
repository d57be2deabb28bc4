"""Check for disclosure that the guarantee does not rule out; warn or refuse before publication.

Names of errors and report keys call a column *telling* if it is released unchanged and its values
reveal too much about persons. Elsewhere such a column is called disclosive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import Counts
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind, as_identifier
from dbanon.data.types import JsonObject
from dbanon.data.words import also_under_former_key
from dbanon.errors import (
    ColumnLost,
    DaysAsNumbers,
    DbanonError,
    EntitySpellings,
    EntitySpellingsRefused,
    HomogeneousClasses,
    InvalidParameter,
    KeptColumnIdentifies,
    KeptColumnTells,
    KeptIdentifierRefused,
    PersonsBelowK,
    PrivacyWarning,
    PseudonymsLink,
    RecountFailed,
    TellingColumnRefused,
    TooFewPersons,
    warn_caller,
)
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.pseudonym import build_pseudonym_caution
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    FewPersons,
    OriginalsOfReleasedRows,
    PersonSpellings,
    RetainedIdentifier,
    ValueGroups,
    find_disclosures,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.recode import number_combinations
from dbanon.release.report import RecountResult, Report
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.stores.ports import PreparedRelease, Source, Target, W

# Recodings that release computed values or bounds, which may not occur in any record.
_COMPUTING_RECODINGS = ("mean", "median", "secure", "generalization")
# The range of yyyymmdd numbers that count as days.
_FIRST_DAY, _LAST_DAY = 17000101, 22001231
# Columns with fewer values than this are not examined for days: a few numbers may look like days
# by chance.
_MIN_DAYS = 10


def warn_of_identifiers(planned: Plan) -> tuple[RetainedIdentifier, ...]:
    """Find columns that look like identifiers and would be released unchanged.

    Warns with ``KeptColumnIdentifies``.

    Raises
    ------
    KeptIdentifierRefused : there is such a column, and the policy is strict.
    """
    findings = find_retained_identifiers(planned)
    build_refusal = partial(
        KeptIdentifierRefused,
        "A column that looks like an identifier would be released unchanged."
        " Nothing was published.",
        hint="Stop copying it, release it as a pseudonym, or leave out `strict`.",
    )
    _warn_or_refuse(findings, planned.policy, KeptColumnIdentifies, build_refusal)
    return findings


def warn_of_days(microdata: Microdata, policy: Policy) -> tuple[str, ...]:
    """Find columns that hold days as whole numbers, and warn with ``DaysAsNumbers``.

    This concerns only recodings that compute values, which may not be valid days. Columns with a
    hierarchy are skipped.
    """
    if policy.recoding not in _COMPUTING_RECODINGS:
        return ()
    day_columns = []
    for position, attribute in enumerate(microdata.numeric):
        if attribute.kind not in (Kind.INTEGER, Kind.FLOAT) or attribute.name in policy.hierarchies:
            continue
        values, valid = microdata.numbers[:, position], microdata.valid_column(attribute.name)
        if are_days(values if valid is None else values[valid]):
            day_columns.append(attribute.name)
    for name in day_columns:
        warn_caller(
            DaysAsNumbers(
                f'Column "{name}"'
                " holds days as numbers, yyyymmdd: results computed from them may not be valid"
                " days. Cast it to a date; for a CSV file, declare its type, %Y%m%d."
            )
        )
    return tuple(day_columns)


def are_days(values: NDArray[np.float64]) -> bool:
    """Return whether all numbers, float64 (n,), are days written as yyyymmdd.

    False if all numbers are equal, or if there are fewer than ``_MIN_DAYS``, too few to tell.
    """
    if len(values) < _MIN_DAYS or values.min() == values.max():
        return False
    if values.min() < _FIRST_DAY or values.max() > _LAST_DAY or (values % 1).any():
        return False
    month, day = values // 100 % 100, values % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


class SpellingCounter(Protocol):
    """A source that counts distinct person identifiers, before and after normalization."""

    def count_spellings(self, relation: Relation, person: Attribute) -> Mapping[str, int]:
        """Count distinct identifiers, by kind of normalization; the key "" means not normalized."""


def warn_of_spellings(
    planned: Plan, source: SpellingCounter, entity: str
) -> tuple[PersonSpellings, ...]:
    """Find person identifiers that differ only in white space or case.

    Warns with ``EntitySpellings``.

    Parameters
    ----------
    entity : the column that identifies persons.

    Raises
    ------
    EntitySpellingsRefused : there are such identifiers, and the policy is strict.
    InvalidParameter : the database considers values equal that differ after normalization.
    """
    attribute = planned.relation.attribute(entity)
    person_attribute = as_identifier(attribute, planned.job.entity_normalize)
    if attribute.kind is not Kind.CATEGORY:
        return ()
    counts = source.count_spellings(planned.relation, person_attribute)
    # The persons that the run counts, and those it would count if it also ignored case. Without
    # the option ``entity_normalize``, the first key is "".
    n_spellings, n_casefolded = counts[person_attribute.normalize], counts[CASEFOLD]
    # Normalization only merges identifiers, so more of them than before are a contradiction.
    if n_spellings > counts[""]:
        raise InvalidParameter(
            f'The database considers values of "{entity}" equal that entity_normalize='
            f"{person_attribute.normalize} tells apart.",
            hint="Leave out `entity_normalize`, and spell them alike in a view.",
        )
    if n_casefolded >= n_spellings:
        return ()
    finding = PersonSpellings.from_counts(entity, n_spellings, n_spellings - n_casefolded)
    build_refusal = partial(
        EntitySpellingsRefused,
        "Spellings of one person would count as several persons; nothing was published.",
        hint='Compare them without regard to spelling: `entity_normalize="casefold"`. Or leave'
        " out `strict`.",
    )
    _warn_or_refuse([finding], planned.policy, EntitySpellings, build_refusal)
    return (finding,)


def find_retained_identifiers(planned: Plan) -> tuple[RetainedIdentifier, ...]:
    """Return the columns that look like identifiers and are released unchanged. Does not warn."""
    return tuple(RetainedIdentifier(name, reason) for name, reason in planned.identifiers.items())


def find_disclosive_columns(
    job: Job,
    originals: OriginalsOfReleasedRows,
    group_rows: Callable[[str], ValueGroups],
    sample_findings: Mapping[str, DisclosiveColumn],
    only_unique: bool = False,
) -> tuple[DisclosiveColumn, ...]:
    """Find columns that are released unchanged and whose values disclose too much.

    Warns with ``KeptColumnTells``.

    Parameters
    ----------
    originals : the original values of the released rows, by quasi-identifier.
    group_rows : groups the released rows by their value in a column.
    sample_findings : by column, findings that a sample of the release has already proved; these
        columns are not counted again.
    only_unique : find only columns whose values are nearly unique, not those that determine a
        quasi-identifier. Chains set this, because none of their messages may depend on which
        person of a class has which value.

    Raises
    ------
    TellingColumnRefused : a column discloses too much, and the policy is strict.
    """
    k = int(job.policy.k)
    findings: list[DisclosiveColumn] = []
    for name in job.retained_columns:
        if name in sample_findings:
            findings.append(sample_findings[name])
            continue
        for finding in find_disclosures(name, group_rows(name), originals, k):
            # ``determines`` is the quasi-identifier that the column determines. It is None if the
            # column's values are nearly unique.
            if finding.determines is None or not only_unique:
                findings.append(finding)
    build_refusal = partial(
        TellingColumnRefused,
        "A column that would be released unchanged reveals too much. Nothing was published.",
        hint="Stop copying it, name it as a quasi-identifier, or leave out `strict`.",
    )
    _warn_or_refuse(findings, job.policy, KeptColumnTells, build_refusal)
    return tuple(findings)


def require_pseudonyms(
    draft: PreparedRelease, source: Source, target: Target[W], staged_release: W
) -> None:
    """Check that there are as many pseudonyms as values in each pseudonymized column.

    NULL has no pseudonym. ``staged_release`` is the written release, which is not visible yet.

    Warns with ``PseudonymsLink``.

    Raises
    ------
    RecountFailed : the number of pseudonyms differs from the number of values.
    """
    for name in draft.job.pseudonyms:
        # Both sides count rows with a value, and distinct texts: pseudonyms in the target, values
        # in the source.
        if target.count_distinct(staged_release, name) != source.count_distinct(draft, name):
            raise RecountFailed(
                f'The pseudonyms of "{name}" in the written table do not correspond'
                " to its values one to one; nothing was published.",
                hint=REPORT_IT,
            )
    caution = build_pseudonym_caution(draft.job.pseudonyms, draft.job.entity)
    warn_caller(PseudonymsLink(f"{caution.warning}: {caution.reason}."))


def merge_equal_classes(draft: PreparedRelease, counts: Counts) -> Partition:
    """Merge classes with the same released values, which readers cannot distinguish."""
    partition = draft.release.partition
    # ``counts.rows`` is the recount. It groups rows by their released values, so it counts classes
    # with the same released values as one class.
    if counts.rows.classes == partition.n_classes:
        return partition
    # By label of a class: the number of its combination of released values.
    class_of_label = number_combinations(draft.microdata, draft.release)
    # Withheld records have the label -1, which indexes the appended last element: they stay -1.
    return Partition(np.append(class_of_label, np.int32(-1))[partition.labels])


def find_few_persons(
    planned: Plan, count_classes: Callable[[str], tuple[int, int]]
) -> tuple[FewPersons, ...]:
    """Find columns that look like person identifiers and have fewer than k values in some class.

    Warns with ``PersonsBelowK``.

    Parameters
    ----------
    count_classes : given a column, counts the classes that readers can distinguish, and those with
        fewer than k values in this column.

    Raises
    ------
    TooFewPersons : there is such a column, and the policy is strict.
    """
    findings = []
    for name in planned.person_columns:
        n_classes, n_below_k = count_classes(name)
        if n_below_k:
            findings.append(FewPersons.from_counts(name, n_classes, n_below_k))
    build_refusal = partial(
        TooFewPersons,
        "Classes would hold fewer persons than k; nothing was published.",
        hint="Name the column that identifies persons as `entity`, so that k counts persons,"
        " or leave out `strict`.",
    )
    _warn_or_refuse(findings, planned.policy, PersonsBelowK, build_refusal)
    return tuple(findings)


def _warn_or_refuse(
    findings: Sequence[DisclosiveColumn | FewPersons | RetainedIdentifier],
    policy: Policy,
    warning_class: type[PrivacyWarning],
    build_refusal: Callable[..., DbanonError],
) -> None:
    """Warn of each finding; a strict policy raises one error for all of them instead."""
    descriptions = [finding.describe(int(policy.k)) for finding in findings]
    if policy.strict and descriptions:
        raise build_refusal(detail="Column " + "; column ".join(descriptions) + ".")
    for text in descriptions:
        warn_caller(warning_class(f"Column {text}."))


def warn_of_lost_columns(report: Report) -> None:
    """Warn with ``ColumnLost`` of each quasi-identifier that is released with one label."""
    for text in report.describe_lost_columns():
        warn_caller(ColumnLost(f"Column {text}."))


def measure_homogeneity(
    planned: Plan,
    released_names: Sequence[str],
    count_homogeneous: Callable[[Sequence[str], str], ClassHomogeneity],
) -> tuple[ClassHomogeneity, ...]:
    """Count, for each sensitive column, the classes whose rows all share one value.

    The result is empty for releases per attribute, which have no classes of rows.

    Parameters
    ----------
    released_names : the names of the released quasi-identifiers.
    count_homogeneous : counts such classes, given the columns of a class and a sensitive column.
    """
    requests = planned.count_requests(released_names)
    # Only releases per attribute have ``attribute_columns``.
    if requests.attribute_columns:
        return ()
    return tuple(count_homogeneous(requests.columns, name) for name in planned.job.sensitive)


def warn_of_homogeneity(report: Report) -> None:
    """Warn with ``HomogeneousClasses`` of sensitive values that whole classes share."""
    for text in report.homogeneous:
        warn_caller(HomogeneousClasses(f"Column {text}."))


def collect_findings(recount: RecountResult) -> JsonObject:
    """Return the findings of a recount by their keys in the report's arguments."""
    has_spellings = bool(recount.few_persons) and isinstance(
        recount.few_persons[0], PersonSpellings
    )
    # Findings about spellings and about few persons share the field ``few_persons`` of the recount,
    # because a release never has both. In the report they have different keys.
    findings_by_key = {
        **also_under_former_key("disclosive_columns", recount.disclosive_columns),
        "entity_spellings" if has_spellings else "few_persons": recount.few_persons,
        # Retained columns that single out rows within classes; see ``run.linkage``.
        "linking": recount.linking,
        # Retained columns that look like identifiers.
        "kept_identifiers": recount.identifiers,
        "homogeneity": recount.homogeneity,
    }
    return {
        key: [vars(finding) for finding in findings]
        for key, findings in findings_by_key.items()
        # Reports always have the entry about disclosive columns, under both of its keys.
        if findings or key in ("disclosive_columns", "telling")
    }


def describe_joint_rows(draft: PreparedRelease) -> dict[str, int]:
    """Count, for JSON, the persons at risk from an attacker who knows several of their rows.

    Such an attacker can join the classes of these rows, which may be different ones.
    """
    from dbanon.measures.joint_rows import joint_rows

    microdata, labels, policy = draft.microdata, draft.release.partition.labels, draft.job.policy
    assert microdata.entities is not None
    released_indices = np.flatnonzero(labels >= 0)
    # Readers cannot distinguish classes with the same released values, so those count as one.
    visible_labels = number_combinations(microdata, draft.release)[labels[released_indices]]
    return joint_rows(
        microdata.entities[released_indices], visible_labels, int(policy.k), policy.seed
    ).to_plain()
