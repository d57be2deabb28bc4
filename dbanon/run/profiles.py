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
    DATES,
    OLDEST_GROUP,
    OTHER_IDENTIFIERS,
    PLACES,
    IdentifierKind,
    find_identifier_kind,
    first_birth_year,
    holds_zip_codes,
    is_coded_as_required,
)
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, ProfileBroken, UnsupportedType
from dbanon.job.coding import Coding
from dbanon.job.job import Job
from dbanon.job.profiles import HIPAA
from dbanon.job.zip_codes import NO_ZIP_AREAS, ZipAreas, find_large_areas
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
    profile = job.policy.profile
    if profile is None:
        return
    year = _this_year()
    attributes = {attribute.name: attribute for attribute in quasi_identifiers}
    attributes |= {name: _describe(name, relation, source) for name in job.copied_columns}
    problems = {}
    unsuspected_columns = []
    for name, attribute in attributes.items():
        kind = find_identifier_kind(attribute)
        problem = (
            _find_hipaa_problem(job, attribute, kind, year)
            if profile == HIPAA
            else _find_ema_problem(job, attribute, kind)
        )
        if problem:
            problems[name] = problem
        elif kind is None and name not in job.pseudonyms:
            unsuspected_columns.append(name)
    if unsuspected_columns:
        findings = source.find_direct_identifiers(relation, unsuspected_columns)
        for name, reason in findings.items():
            label = _label(OTHER_IDENTIFIERS) if profile == HIPAA else "a direct identifier"
            problems[name] = f"{label} ({REASONS[reason]})"
    if problems:
        texts = [f'"{name}": {problems[name]}' for name in attributes if name in problems]
        raise ProfileBroken(
            f"The release would break the profile {profile}. Nothing was published.",
            detail="Column " + "; column ".join(texts) + ".",
            hint="Leave these columns out, or code those for which a coding is named. If a column"
            " is something else, rename it in a view."
            if profile == HIPAA
            else "Leave out direct identifiers, and make the other columns quasi-identifiers. If a"
            " column is something else, rename it in a view.",
        )


def _find_hipaa_problem(
    job: Job, attribute: Attribute, kind: IdentifierKind | None, year: int
) -> str | None:
    """Return why a column breaks a rule of HIPAA Safe Harbor; None if it seems to break none.

    Parameters
    ----------
    kind : the kind of identifiers that the column seems to hold; None for none.
    year : the year of the release.
    """
    if attribute.name in job.pseudonyms:
        return "pseudonyms are derived from values, which (c) of the rule does not allow"
    if kind is not None:
        if _is_coded(job, kind, attribute, year):
            return None
        if holds_zip_codes(attribute):
            return (
                f"{_label(kind)}: ZIP codes are released as quasi-identifiers with zip_population"
            )
        return _describe_problem(kind, year)
    if attribute.kind is Kind.OTHER:
        return "its type is one whose values are not examined"
    return None


def _find_ema_problem(job: Job, attribute: Attribute, kind: IdentifierKind | None) -> str | None:
    """Return why a column breaks a rule of the profile ``ema``; None if it seems to break none.

    Ages, dates and places are quasi-identifiers: k bounds the risk only if they are named as such.

    Parameters
    ----------
    kind : as in ``_find_hipaa_problem``.
    """
    name = attribute.name
    if name in job.pseudonyms:
        return None
    if kind in (AGES, BIRTH_YEARS, DATES, PLACES):
        if name in (*job.quasi_identifiers, *job.by):
            return None
        return "others may know ages, dates and places, so it must be a quasi-identifier"
    if kind is not None:
        return f"a direct identifier ({kind.title})"
    if attribute.kind is Kind.OTHER:
        return "its type is one whose values are not examined"
    return None


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


def find_zip_areas(job: Job, quasi_identifiers: Sequence[Attribute], source: Source) -> ZipAreas:
    """Return the quasi-identifiers that become ZIP codes of three digits, and which digits remain.

    Raises
    ------
    InvalidParameter : no quasi-identifier holds ZIP codes, or one has a hierarchy or groups.
    DbanonError : the table of populations cannot be read, or is of another form.
    """
    if job.policy.zip_population is None:
        return NO_ZIP_AREAS
    names = tuple(a.name for a in quasi_identifiers if holds_zip_codes(a))
    if not names:
        raise InvalidParameter(
            "No quasi-identifier holds ZIP codes as text, by its name.",
            hint="Leave out `zip_population`, or name a column of texts such as zip.",
        )
    for name in names:
        if name in job.hierarchies or name in job.policy.hierarchies:
            raise InvalidParameter(
                f'Column "{name}" becomes three digits of a ZIP code, and also has a hierarchy.',
                hint="Leave out the hierarchy (`hierarchies`), or `zip_population`.",
            )
        if name in job.policy.coding.groups:
            raise InvalidParameter(
                f'Column "{name}" becomes three digits of a ZIP code, and also has groups.',
                hint="Leave out the groups (`recode`), or `zip_population`.",
            )
    return ZipAreas(
        names, find_large_areas(source.count_zip_populations(job.policy.zip_population))
    )


def _is_coded(job: Job, kind: IdentifierKind, attribute: Attribute, year: int) -> bool:
    """True if the column may be released for the way in which it is coded."""
    policy, coding, name = job.policy, job.policy.coding, attribute.name
    if policy.zip_population is not None and holds_zip_codes(attribute):
        return name in job.quasi_identifiers
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
