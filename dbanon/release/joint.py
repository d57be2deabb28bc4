"""Joint histories of persons over several releases, in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dbanon.data.counts import JointHistories
from dbanon.job.verdict import Caution

# The key of a report's arguments, and the label of its line.
JOINT, TITLE = "joint_histories", "JOINT HISTORIES"
# Keys that readers of a release may see.
_FOR_READERS = ("earlier", "releases", "k", "share", "not_measured")
# How many releases a message lists.
_NAMED = 5
_CHAIN = "a chain keeps the releases of the same persons private together: docs/chains.md"
_NO_RECORD = "made before dbanon kept a record of persons, or in another database"
_NO_LEDGER = (
    "a file keeps no ledger, so earlier releases of these persons are not known. Load the rows into"
    " a database, and release them from there"
)
_ELSEWHERE = (
    "the ledger and the source are in different databases, and records of persons never leave the"
    " database of the source. Load the rows into the database of the release, and release them from"
    " there"
)


def describe_missing_ledger() -> dict[str, Any]:
    """Explain why earlier releases are not known if the ledger ends with the run."""
    return {"not_measured": _NO_LEDGER}


def describe_joint_histories(
    earlier: int, counts: JointHistories | None, of_chains: Sequence[str]
) -> dict[str, Any]:
    """The counts as JSON values, or the reason why there are none.

    Parameters
    ----------
    earlier : the number of earlier releases of the same source and entity.
    counts : None if the ledger has no record of the source's persons.
    of_chains : the outputs of earlier releases that belong to chains.
    """
    if counts is None:
        return {"earlier": earlier, "not_measured": _ELSEWHERE}
    description: dict[str, Any] = {"earlier": earlier}
    if counts.releases:
        description |= {
            **asdict(counts),
            "share": counts.below / counts.persons if counts.persons else 0.0,
        }
        del description["missing"], description["older"]
    chained = list(dict.fromkeys(name for name in counts.missing if name in of_chains))
    others = list(dict.fromkeys(name for name in counts.missing if name not in of_chains))
    reasons = [
        f"{_list_names(names)} {why}"
        for names, why in (
            (others, _NO_RECORD),
            (chained, "of a chain, whose persons only its key identifies"),
        )
        if names
    ]
    if counts.older:
        reasons.append(f"{counts.older} older releases, which only dbanon chain measure counts")
    return description | ({"not_measured": "; ".join(reasons)} if reasons else {})


def arguments_for_readers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a report without exact counts of persons over several releases.

    These would tell readers how many persons came and left.
    """
    public = dict(arguments)
    if JOINT in public:
        public_counts = {
            name: public[JOINT][name] for name in _FOR_READERS if name in public[JOINT]
        }
        if "share" in public_counts:
            public_counts["share"] = round(public_counts["share"], 2)
        public[JOINT] = public_counts
    return public


def joint_caution(arguments: Mapping[str, Any]) -> Caution | None:
    """The caution about joint histories; None if the report has no counts."""
    entry = arguments.get(JOINT)
    # Only entries that a run has written are mappings.
    if not isinstance(entry, Mapping):
        return None
    title = "Earlier releases of the same persons are not known"
    if "earlier" in entry:
        title = (
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
    return Caution(title, TITLE, f"{'; '.join(parts)}; {_CHAIN}")


def _count_releases(earlier: Any) -> str:
    return "1 earlier release" if earlier == 1 else f"{earlier} earlier releases"


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more},"
