"""The option ``profile``: a named set of rules that a release has to keep."""

from __future__ import annotations

from dbanon.data.option import Option
from dbanon.errors import InvalidParameter, ProfileBroken

HIPAA, EMA = "hipaa", "ema"
PROFILES = (HIPAA, EMA)
PROFILE = Option(
    "hipaa: refuse a release with a column of the 18 kinds of identifiers of HIPAA Safe Harbor, as"
    " far as names, types and values of columns show them. ema: refuse one with direct identifiers,"
    " with ages, dates or places that are no quasi-identifiers, or with a risk above 0.09, which is"
    " a k below 11.",
    choices=PROFILES,
    concerns_release=True,
    docs_page="guarantees.md#profiles",
)
# The same option of ``advise`` and ``init``.
PROPOSED_PROFILE = Option(
    "hipaa: propose a release that keeps the rules of HIPAA Safe Harbor, as far as dbanon checks"
    " them.",
    choices=(HIPAA,),
    docs_page="guarantees.md#profiles",
)

# The European Medicines Agency (external guidance on Policy 0070, EMA/90915/2016) and Health Canada
# (public release of clinical information) accept a risk of 0.09 for publication. 1/11 is 0.0909,
# and in practice groups of 11 are taken to meet it.
LEAST_K_OF_EMA = 11


def require_profile_options(
    profile: str | None, k: int, guarantee: str, zip_population: str | None
) -> None:
    """Check the options that a profile concerns.

    Parameters
    ----------
    guarantee : ``rows`` or ``per_attribute``.

    Raises
    ------
    ProfileBroken : k is too small, or rows are not k-anonymous.
    InvalidParameter : ``zip_population`` is set without the profile ``hipaa``.
    """
    if zip_population is not None and profile != HIPAA:
        raise InvalidParameter(
            "zip_population belongs to the profile hipaa.",
            hint='Use `profile="hipaa"`, or leave out `zip_population`.',
        )
    if profile != EMA:
        return
    if k < LEAST_K_OF_EMA:
        raise ProfileBroken(
            f"The profile {profile} allows a risk of 0.09, and with k = {k} it would be up to"
            f" {1 / k:.2g}.",
            hint=f"Use `k={LEAST_K_OF_EMA}` or more.",
        )
    if guarantee != "rows":
        raise ProfileBroken(
            f"The profile {profile} needs k-anonymous rows, which guarantee={guarantee} does not"
            " have.",
            hint="Leave out `profile`, or choose a method that groups rows.",
        )
