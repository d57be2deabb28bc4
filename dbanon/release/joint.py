"""Joint histories of the persons of several releases, as a report has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dbanon.data.counts import JointHistories
from dbanon.job.verdict import Caution

# The key of a report's arguments, and the label of its line.
JOINT, TITLE = "joint_histories", "JOINT HISTORIES"
# What readers of a release may know of it.
_FOR_READERS = ("earlier", "releases", "k", "share", "not_measured")
# How many releases a line names.
_NAMED = 5
_CHAIN = "a chain keeps the releases of the same persons private together: docs/chains.md"
_NO_RECORD = "made before dbanon kept a record of persons, or in another database"
_NO_LEDGER = (
    "a file keeps no ledger, so earlier releases of these persons are not known. Load the rows into"
    " a database, and release them from there"
)
_ELSEWHERE = (
    "the ledger is in another database than the source, and no record of persons leaves that. Load"
    " the rows into the database of the release, and release them from there"
)


def describe_missing_ledger() -> dict[str, Any]:
    """Why nothing is known of earlier releases where the ledger goes with the run."""
    return {"not_measured": _NO_LEDGER}


def describe_joint_histories(
    earlier: int, counts: JointHistories | None, of_chains: Sequence[str]
) -> dict[str, Any]:
    """The counts as plain values, or why there are none.

    Parameters
    ----------
    earlier : how many releases of the same source and entity there were before.
    counts : None where the ledger keeps no record of the source's persons.
    of_chains : the outputs of those of them that belong to chains.
    """
    if counts is None:
        return {"earlier": earlier, "not_measured": _ELSEWHERE}
    said: dict[str, Any] = {"earlier": earlier}
    if counts.releases:
        said |= {
            **asdict(counts),
            "share": counts.below / counts.persons if counts.persons else 0.0,
        }
        del said["missing"], said["older"]
    chained = list(dict.fromkeys(name for name in counts.missing if name in of_chains))
    others = list(dict.fromkeys(name for name in counts.missing if name not in of_chains))
    reasons = [
        f"{_listed(names)} {why}"
        for names, why in (
            (others, _NO_RECORD),
            (chained, "of a chain, whose persons only its key tells"),
        )
        if names
    ]
    if counts.older:
        reasons.append(f"{counts.older} older releases, which only dbanon chain measure counts")
    return said | ({"not_measured": "; ".join(reasons)} if reasons else {})


def arguments_for_readers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a report without counts of persons over several releases.

    With the number of persons in one of two releases readers would know how many came and left.
    """
    shown = dict(arguments)
    if JOINT in shown:
        kept = {name: shown[JOINT][name] for name in _FOR_READERS if name in shown[JOINT]}
        if "share" in kept:
            kept["share"] = round(kept["share"], 2)
        shown[JOINT] = kept
    return shown


def joint_caution(arguments: Mapping[str, Any]) -> Caution | None:
    """What readers of a report have to know of joint histories; None where it counted none."""
    said = arguments.get(JOINT)
    # A runner writes entries.
    if not isinstance(said, Mapping):
        return None
    what = "Earlier releases of the same persons are not known"
    if "earlier" in said:
        what = f"{_number(said['earlier'])} of the same source and entity, outside a chain"
    parts = []
    if isinstance(said.get("share"), (int, float)):
        parts.append(
            f"{said.get('below')} of {said.get('persons')} persons ({said['share']:.1%}) have a"
            f" joint history over {said.get('releases')} releases that fewer than {said.get('k')}"
            f" persons share, and {said.get('alone')} have one of their own"
        )
    if said.get("not_measured"):
        parts.append(f"not measured: {said['not_measured']}")
    return Caution(what, TITLE, f"{'; '.join(parts)}; {_CHAIN}")


def _number(earlier: Any) -> str:
    return "1 earlier release" if earlier == 1 else f"{earlier} earlier releases"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more},"
