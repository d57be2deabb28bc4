"""Check that a release keeps the rules of its profile, before a row is read."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from dbanon.advice.profile import Profile
from dbanon.advice.roles import (
    CONSTANT,
    IDENTIFIER,
    NOT_COPIED,
    QUASI_IDENTIFIER,
    REASONS,
    RoleProposal,
)
from dbanon.advice.safe_harbor import (
    AGES,
    BIRTH_YEARS,
    OLDEST_GROUP,
    OTHER_IDENTIFIERS,
    IdentifierKind,
    find_identifier_kind,
    first_birth_year,
    is_coded_as_required,
)
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import ProfileBroken, UnsupportedType
from dbanon.job.coding import Coding
from dbanon.job.job import Job
from dbanon.sessions.base import Relation
from dbanon.stores.ports import Source


def require_profile(
    job: Job,
    relation: Relation,
    quasi_identifiers: Sequence[Attribute],
    source: Source,
) -> None:
    """Check all columns that the release would have, also those that are generalized.

    Parameters
    ----------
    quasi_identifiers : the quasi-identifiers, as they are read.
    source : examines the first values of the columns of which names and types show nothing.

    Raises
    ------
    ProfileBroken : a column breaks a rule.
    """
    if job.policy.profile is None:
        return
    year = _this_year()
    attributes = {attribute.name: attribute for attribute in quasi_identifiers}
    attributes |= {name: _describe(name, relation, source) for name in job.copied_columns}
    problems = {}
    unsuspected_columns = []
    for name, attribute in attributes.items():
        kind = find_identifier_kind(attribute)
        if name in job.pseudonyms:
            problems[name] = (
                "pseudonyms are derived from values, which (c) of the rule does not allow"
            )
        elif kind is not None:
            if not _is_coded(job, kind, name, year):
                problems[name] = _describe_problem(kind, year)
        elif attribute.kind is Kind.OTHER:
            problems[name] = "its type is one whose values are not examined"
        else:
            unsuspected_columns.append(name)
    if unsuspected_columns:
        findings = source.find_direct_identifiers(relation, unsuspected_columns)
        for name, reason in findings.items():
            problems[name] = f"{_label(OTHER_IDENTIFIERS)} ({REASONS[reason]})"
    if problems:
        texts = [f'"{name}": {problems[name]}' for name in attributes if name in problems]
        raise ProfileBroken(
            f"The release would break the profile {job.policy.profile}. Nothing was published.",
            detail="Column " + "; column ".join(texts) + ".",
            hint="Leave these columns out, or code those for which a coding is named. If a column"
            " is something else, rename it in a view.",
        )


def keep_profile(roles: Mapping[str, RoleProposal], profile: Profile) -> dict[str, RoleProposal]:
    """Return proposed roles of which a release breaks no rule of HIPAA Safe Harbor.

    Roles that the caller named stay: planning refuses them, with the reason.
    """
    new_roles = dict(roles)
    for column in profile.columns:
        role = roles[column.name]
        kind = find_identifier_kind(column.attribute)
        if kind is None or role.reason == "given" or role.role in (IDENTIFIER, CONSTANT):
            continue
        if _can_be_coded(column.attribute, kind):
            # Ages that all differ, say, are undecided otherwise.
            if role.role != QUASI_IDENTIFIER:
                new_roles[column.name] = RoleProposal(QUASI_IDENTIFIER, "values")
        else:
            new_roles[column.name] = RoleProposal(NOT_COPIED, "profile")
    return new_roles


def propose_coding(
    profile_name: str | None, quasi_identifiers: Sequence[str], profile: Profile
) -> Coding:
    """Propose the options ``top`` and ``bottom`` for ages and years of birth; empty if no profile.

    Parameters
    ----------
    profile_name : the value of the option ``profile``.
    profile : the counts of the table.
    """
    top: dict[str, float] = {}
    bottom: dict[str, float] = {}
    for name in quasi_identifiers if profile_name else ():
        attribute = profile.column(name).attribute
        kind = find_identifier_kind(attribute)
        if kind is AGES and _can_be_coded(attribute, kind):
            top[name] = OLDEST_GROUP
        elif kind is BIRTH_YEARS and _can_be_coded(attribute, kind):
            bottom[name] = first_birth_year(_this_year())
    return Coding(top, bottom, recode={})


def _can_be_coded(attribute: Attribute, kind: IdentifierKind | None) -> bool:
    """True if a column is of a kind that may be released coded, and holds whole numbers."""
    return kind in (AGES, BIRTH_YEARS) and attribute.kind is Kind.INTEGER


def _this_year() -> int:
    return datetime.datetime.now(datetime.UTC).year


def _describe(name: str, relation: Relation, source: Source) -> Attribute:
    """Describe a copied column, whose type a run may not need; ``OTHER`` if it is not supported."""
    attribute = relation.attribute(name)
    if attribute.kind is not Kind.OTHER:
        return attribute
    try:
        return source.complete_attributes_from_values(relation, [attribute])[0]
    except UnsupportedType:
        return attribute


def _is_coded(job: Job, kind: IdentifierKind, name: str, year: int) -> bool:
    """True if the column may be released for the way in which it is coded."""
    coding = job.policy.coding
    return name in job.quasi_identifiers and is_coded_as_required(
        kind,
        name,
        top=coding.numbers_of("top"),
        bottom=coding.numbers_of("bottom"),
        recode=coding.borders,
        year=year,
    )


def _describe_problem(kind: IdentifierKind, year: int) -> str:
    """Describe why a column of this kind may not be released as it is."""
    coding = "a quasi-identifier is released with the coding"
    if kind is AGES:
        return f"{_label(kind)}: {coding} top of {OLDEST_GROUP} or less"
    if kind is BIRTH_YEARS:
        return f"{_label(kind)}: {coding} bottom of {first_birth_year(year)} or more"
    return _label(kind)


def _label(kind: IdentifierKind) -> str:
    """Format a kind with its letter in 45 CFR 164.514(b)(2)(i)."""
    return f"({kind.letter}) {kind.title}"
