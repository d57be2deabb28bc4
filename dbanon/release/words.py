"""What a report says to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timezone
from typing import Any

from dbanon.data.files import LINKS
from dbanon.job.pseudonym import caution_of
from dbanon.job.verdict import Caution, Verdict, releases_intersect
from dbanon.release.alignment import INPUT, ROWS_LINK
from dbanon.release.joint import joint_caution
from dbanon.release.joint_rows import joint_rows_caution


def now() -> str:
    """The time in UTC, as reports and the ledger have it."""
    return time_text(datetime.now(timezone.utc))


def time_text(moment: datetime) -> str:
    """A time as reports and the ledger have it."""
    return moment.isoformat(timespec="microseconds")


def nearness(told: Mapping[str, Any]) -> str:
    """How near a loss is to the least possible one, by what a report has of its certificate."""
    if "failed" in told:
        return f"not known: {told['failed']}"
    if told["above"] is None:
        return "not known: the least possible loss may be 0"
    return f"at most {100 * told['above']:.2f} % above the least possible loss ({told['way']})"


def first_cautions(arguments: Mapping[str, Any]) -> list[Caution]:
    """The cautions that lead a report."""
    found = (joint_rows_caution(arguments), joint_caution(arguments))
    return [caution for caution in found if caution is not None]


def first_pairs(verdict: Verdict, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What leads a report, as pairs of label and text: what must not be overlooked."""
    return [
        *((caution.title, caution.why) for caution in first_cautions(arguments)),
        *(("ROWS", f"{k}, {worth}") for k, worth in verdict.of_rows),
    ]


def averaged_codes_told(arguments: Mapping[str, Any]) -> list[str]:
    """Of each coded column that was averaged: that it was, and what would help."""
    return [
        f'"{name}" is a code, and was averaged: {rows} rows are released with a code that'
        " nobody has. What helps: kind nominal, or numeric if its numbers are amounts"
        for name, rows in arguments.get("averaged_codes", {}).items()
    ]


def told_of_sets(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was counted of each set of columns, as pairs of label and text."""
    return [
        (
            f"k of ({', '.join(one['columns'])}) requested / counted",
            f"{one['k']} / {one['counted']}",
        )
        for one in arguments.get("also_k", ())
    ]


def told_of(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was counted of sets of columns, of suppressed cells and by the method of its classes."""
    cells = ", ".join(f"{n} {count}" for n, count in arguments.get("suppressed_cells", {}).items())
    return [
        *told_of_sets(arguments),
        *([("cells released as NULL, of rare patterns", cells)] if cells else []),
        *told_by_method(arguments.get("told", {})),
    ]


def cautions_of(arguments: Mapping[str, Any], entity: str | None) -> tuple[Caution, ...]:
    """What readers have to know of rows that link to others: originals, releases, pseudonyms."""
    own = (ROWS_LINK,) if arguments.get("rows") == INPUT else ()
    if intersects := arguments.get("intersects"):
        own = (*own, releases_intersect(str(intersects)))
    if joint := joint_caution(arguments):
        own = (joint, *own)
    if parted := joint_rows_caution(arguments):
        own = (parted, *own)
    if pseudonyms := arguments.get("pseudonyms"):
        own = (*own, caution_of(pseudonyms["columns"], entity))
    return own


def told_by_method(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """What a method says of its classes, as a pair of label and text, or none."""
    text = ", ".join(f"{what}: {count}" for what, count in counts.items())
    return [("found by the method", text)] if text else []


def passthrough_note(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """That columns which were copied left their database, as a pair of label and text, or none."""
    drawn = arguments.get("drawn")
    if drawn:
        told = f"{drawn['rows']} left their database for this program: {drawn['how']}"
        return [("original rows", told)]
    if arguments.get("kept_columns") != "client":
        return []
    return [("columns copied as they are", "left the database for the client's memory meanwhile")]


def files_note(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whose files were read beside the account's own, as a pair of label and text, or none."""
    policy = arguments.get("reading", {}).get("foreign_files")
    if policy is None:
        return []
    text = "files of other accounts were allowed"
    return [("files of the source", text + (", and links followed" if policy == LINKS else ""))]


def in_new_schema(arguments: Mapping[str, Any]) -> str:
    """Beside an output: that its schema was created, where it was."""
    return ", in a schema that was missing" if "schema_created" in arguments else ""


def loss_pair(released: float, before: float, what: str = "") -> str:
    """A loss; with that of earlier versions, which published it before rounding, too."""
    if released == before:
        return f"{released:.6g}"
    return f"{released:.6f} ({before:.6f}{what and ' '}{what})"


def told_figure(value: float, note: str) -> str:
    """A figure of an evaluation; of one that is 0 or 1 by definition, that it is."""
    # A backend imports the measures only where they are asked for.
    from dbanon.measures.figure import NOT_FOR_LABELS

    return note if note.startswith(NOT_FOR_LABELS) else f"{value:.6g}"


def plain(value: Any) -> Any:
    """A value without dataclasses, and with containers of its own."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(plain(part) for part in value)
    return value


def attack_text(figures: Mapping[str, Any]) -> str:
    """One line about one attack, from its plain values."""
    if figures["risk"] is None:
        return f"none: {figures['note']}"
    low, high = figures["interval"]
    text = f"risk {figures['risk']:.3f} (95 %: {low:.3f} to {high:.3f}); "
    text += f"right {figures['attack']:.3f} of {figures['guesses']:,} guesses, "
    text += f"at random {figures['random']:.3f}"
    if figures["control"] is not None:
        text += f", at control records {figures['control']:.3f}"
    return text + (f"; {figures['note']}" if figures["note"] else "")


def attack_pairs(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text for each attack of an evaluation; none where it has no attacks."""
    attacks = figures.get("attacks")
    if attacks is None:
        return []
    if "failed" in attacks:
        return [("NOT ATTACKED", str(attacks["failed"]))]
    title = ("attacks", "for the controller, not for publication: see docs/evaluation.md")
    return [title, *((f"  {name}", attack_text(one)) for name, one in attacks["found"].items())]


def export_pairs(exports: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Label and text for each exported file or table."""
    return [("exported", f"{one['path']}, {one['bytes']} bytes{_older(one)}") for one in exports]


def _older(exported: Mapping[str, Any]) -> str:
    """What is said of a table whose earlier versions its readers can read."""
    count = exported.get("older_versions", 0)
    return f"; older versions readable until their files are deleted: {count}" if count else ""
