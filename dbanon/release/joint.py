"""Describe joint histories in reports.

A person's joint history is the person's class, or absence, in each of several releases. If few
persons share a joint history, someone who sees all of these releases can single them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbanon.data.counts import JointHistories
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.job.verdict import Caution

# The key of joint histories in a report's arguments, and the label of their line in the report.
JOINT_HISTORIES, TITLE = "joint_histories", "JOINT HISTORIES"
# Keys of the description of joint histories whose values readers of a release may see: the number
# of earlier releases, the number of compared releases, k, the share of persons with a rare joint
# history, and why releases were not compared.
_FOR_READERS = ("earlier", "releases", "k", "share", "not_measured")
# Maximum number of releases that a message lists.
_MAX_LISTED = 5
_CHAIN = "a chain keeps the releases of the same persons private together: docs/chains.md"
_NO_PERSON_RECORD = "made before dbanon kept a record of persons, or in another database"
_NO_LEDGER = (
    "a file keeps no ledger, so earlier releases of these persons are not known. Load the rows into"
    " a database, and release them from there"
)
_LEDGER_ELSEWHERE = (
    "the ledger and the source are in different databases, and records of persons never leave the"
    " database of the source. Load the rows into the database of the release, and release them from"
    " there"
)


def describe_missing_ledger() -> JsonObject:
    """Explain that earlier releases are not known, because a file keeps no ledger."""
    return {"not_measured": _NO_LEDGER}


def describe_joint_histories(
    n_earlier: int, counts: JointHistories | None, chain_outputs: Sequence[str]
) -> JsonObject:
    """Return the counts as JSON values, or the reason why there are none.

    Parameters
    ----------
    n_earlier : number of earlier releases of the same source and entity.
    counts : the counts of joint histories; None if the ledger does not record the persons of this
        release, because it is in another database than the source.
    chain_outputs : the outputs of earlier releases that belong to chains.
    """
    if counts is None:
        return {"earlier": n_earlier, "not_measured": _LEDGER_ELSEWHERE}
    description: JsonObject = {"earlier": n_earlier}
    # Without releases to compare, there are only reasons.
    if counts.releases:
        description |= {
            "releases": counts.releases,
            "k": counts.k,
            "persons": counts.persons,
            "below": counts.n_below_k,
            "alone": counts.n_unique,
            "share": counts.n_below_k / counts.persons if counts.persons else 0.0,
        }
    # The outputs of releases without a record of persons, each once.
    missing_outputs = list(dict.fromkeys(counts.missing))
    missing_of_chains = [name for name in missing_outputs if name in chain_outputs]
    missing_of_others = [name for name in missing_outputs if name not in chain_outputs]
    reasons = [
        f"{_list_names(names)} {reason}"
        for names, reason in (
            (missing_of_others, _NO_PERSON_RECORD),
            (missing_of_chains, "of a chain, whose persons only its key identifies"),
        )
        if names
    ]
    # A run compares a limited number of releases. These are older ones.
    if counts.older:
        reasons.append(f"{counts.older} older releases, which only dbanon chain measure counts")
    return description | ({"not_measured": "; ".join(reasons)} if reasons else {})


def arguments_for_readers(arguments: JsonMapping) -> JsonObject:
    """Return a report's arguments without exact counts of persons over several releases.

    Such counts would reveal to readers how many persons joined and left.
    """
    public = dict(arguments)
    if JOINT_HISTORIES in public:
        public_counts = {
            name: public[JOINT_HISTORIES][name]
            for name in _FOR_READERS
            if name in public[JOINT_HISTORIES]
        }
        if "share" in public_counts:
            public_counts["share"] = round(public_counts["share"], 2)
        public[JOINT_HISTORIES] = public_counts
    return public


def joint_caution(arguments: JsonMapping) -> Caution | None:
    """Return the caution about joint histories; None if the report says nothing about them."""
    entry = arguments.get(JOINT_HISTORIES)
    # dbanon only writes mappings; ignore anything else.
    if not isinstance(entry, Mapping):
        return None
    warning = "Earlier releases of the same persons are not known"
    if "earlier" in entry:
        warning = (
            f"{_count_releases(entry['earlier'])} of the same source and entity, outside a chain"
        )
    parts = []
    if isinstance(entry.get("share"), (int, float)):
        parts.append(
            f"{entry.get('below')} of {entry.get('persons')} persons ({entry['share']:.1%})"
            f" have a joint history over {entry.get('releases')} releases that"
            f" fewer than {entry.get('k')} persons share, and"
            f" {entry.get('alone')} have a unique one"
        )
    if entry.get("not_measured"):
        parts.append(f"not measured: {entry['not_measured']}")
    return Caution(warning=warning, title=TITLE, reason=f"{'; '.join(parts)}; {_CHAIN}")


def _count_releases(n_earlier: object) -> str:
    """Write a number of earlier releases in words."""
    return "1 earlier release" if n_earlier == 1 else f"{n_earlier} earlier releases"


def _list_names(names: Sequence[str]) -> str:
    """List names for a message, at most ``_MAX_LISTED``."""
    n_omitted = len(names) - _MAX_LISTED
    # The comma after the names precedes the reason.
    omitted = f" and {n_omitted} more" if n_omitted > 0 else ""
    return f"{', '.join(names[:_MAX_LISTED])}{omitted},"
