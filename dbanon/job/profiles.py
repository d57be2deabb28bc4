"""The option ``profile``: a named set of rules that a release has to keep."""

from __future__ import annotations

from dbanon.data.option import Option

HIPAA = "hipaa"
PROFILES = (HIPAA,)
PROFILE = Option(
    "hipaa: refuse a release with a column of the 18 kinds of identifiers of HIPAA Safe Harbor, as"
    " far as names, types and values of columns show them.",
    choices=PROFILES,
    concerns_release=True,
    docs_page="guarantees.md#profiles",
)
# The same option of ``advise`` and ``init``.
PROPOSED_PROFILE = Option(
    "hipaa: propose a release that keeps the rules of HIPAA Safe Harbor, as far as dbanon checks"
    " them.",
    choices=PROFILES,
    docs_page="guarantees.md#profiles",
)
