"""Texts of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timezone
from typing import Any

from dbanon.data.files import LINKS
from dbanon.data.words import read_renamed
from dbanon.job.pseudonym import pseudonym_caution
from dbanon.job.verdict import Caution, Verdict, releases_intersect
from dbanon.release.alignment import INPUT, ROWS_LINK
from dbanon.release.joint import joint_caution
from dbanon.release.joint_rows import joint_rows_caution


def now() -> str:
    """The current time in UTC, in the format of reports and the ledger."""
    return time_text(datetime.now(timezone.utc))


def time_text(moment: datetime) -> str:
    """A time in the format of reports and the ledger."""
    return moment.isoformat(timespec="microseconds")


def nearness(certificate: Mapping[str, Any]) -> str:
    """Describe how near a loss is to the minimum, from the certificate in a report."""
    if "failed" in certificate:
        return f"not known: {certificate['failed']}"
    if certificate["above"] is None:
        return "not known: the least possible loss may be 0"
    return (
        f"at most {100 * certificate['above']:.2f} % above the least possible loss"
        f" ({read_renamed(certificate, 'method')})"
    )


def first_cautions(arguments: Mapping[str, Any]) -> list[Caution]:
    """The cautions that lead a report."""
    candidates = (joint_rows_caution(arguments), joint_caution(arguments))
    return [caution for caution in candidates if caution is not None]


def first_pairs(verdict: Verdict, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The first lines of a report, which must not be overlooked, as pairs of label and text."""
    return [
        *((caution.title, caution.reason) for caution in first_cautions(arguments)),
        *(("ROWS", f"{k}, {label}") for k, label in verdict.row_anonymity_texts),
    ]


def describe_averaged_codes(arguments: Mapping[str, Any]) -> list[str]:
    """Describe each coded column that was averaged, and what would help."""
    return [
        f'"{name}" is a code, and was averaged: {rows} rows are released with a code that does not'
        " occur in the source. What helps: kind nominal, or numeric if its numbers are amounts"
        for name, rows in arguments.get("averaged_codes", {}).items()
    ]


def describe_column_sets(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of label and text with the counted k of each further set of columns."""
    return [
        (
            f"k of ({', '.join(column_set['columns'])}) requested / counted",
            f"{column_set['k']} / {column_set['counted']}",
        )
        for column_set in arguments.get("also_k", ())
    ]


def describe_counts(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of label and text on column sets, suppressed cells, and counts by the method."""
    cells = ", ".join(f"{n} {count}" for n, count in arguments.get("suppressed_cells", {}).items())
    return [
        *describe_column_sets(arguments),
        *([("cells released as NULL, of rare patterns", cells)] if cells else []),
        *describe_method_counts(read_renamed(arguments, "method_counts", {})),
    ]


def cautions_of(arguments: Mapping[str, Any], entity: str | None) -> tuple[Caution, ...]:
    """Cautions about rows that can be linked to originals, other releases or pseudonyms."""
    cautions = (ROWS_LINK,) if arguments.get("rows") == INPUT else ()
    if intersects := arguments.get("intersects"):
        cautions = (*cautions, releases_intersect(str(intersects)))
    if joint := joint_caution(arguments):
        cautions = (joint, *cautions)
    if parted := joint_rows_caution(arguments):
        cautions = (parted, *cautions)
    if pseudonyms := arguments.get("pseudonyms"):
        cautions = (*cautions, pseudonym_caution(pseudonyms["columns"], entity))
    return cautions


def describe_method_counts(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of label and text with a method's counts on its classes; at most one."""
    text = ", ".join(f"{label}: {count}" for label, count in counts.items())
    return [("counted by the method", text)] if text else []


def passthrough_note(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of label and text if copied columns left their database; at most one."""
    reading = arguments.get("drawn")
    if reading:
        text = f"{reading['rows']} left their database for this program: {reading['how']}"
        return [("original rows", text)]
    if arguments.get("kept_columns") != "client":
        return []
    return [("columns copied as they are", "passed through the client's memory")]


def files_note(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of label and text if files of other accounts were allowed; at most one."""
    policy = arguments.get("reading", {}).get("foreign_files")
    if policy is None:
        return []
    text = "files of other accounts were allowed"
    return [("files of the source", text + (", and links followed" if policy == LINKS else ""))]


def describe_new_schema(arguments: Mapping[str, Any]) -> str:
    """Text for an output whose schema was created; otherwise empty."""
    return ", in a schema that was missing" if "schema_created" in arguments else ""


def loss_pair(released: float, before: float, label: str = "") -> str:
    """Format a loss; reports of earlier versions also have the loss before rounding."""
    if released == before:
        return f"{released:.6g}"
    return f"{released:.6f} ({before:.6f}{label and ' '}{label})"


def format_figure(value: float, note: str) -> str:
    """Format a figure of an evaluation, or the note of one that does not apply to labels."""
    # Imported here so that a backend loads the measures only when needed.
    from dbanon.measures.figure import NOT_FOR_LABELS

    return note if note.startswith(NOT_FOR_LABELS) else f"{value:.6g}"


def plain(value: Any) -> Any:
    """Copy a value, with dataclasses converted to dicts."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(plain(part) for part in value)
    return value


def attack_text(figures: Mapping[str, Any]) -> str:
    """Describe an attack in one line, from its JSON values."""
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
    """Pairs of label and text for the attacks of an evaluation, if any."""
    attacks = figures.get("attacks")
    if attacks is None:
        return []
    if "failed" in attacks:
        return [("NOT ATTACKED", str(attacks["failed"]))]
    title = ("attacks", "for the controller, not for publication: see docs/evaluation.md")
    return [
        title,
        *(
            (f"  {name}", attack_text(attack))
            for name, attack in read_renamed(attacks, "results").items()
        ),
    ]


def export_pairs(exports: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of label and text for exported files and tables."""
    return [
        ("exported", f"{export['path']}, {export['bytes']} bytes{_describe_older_versions(export)}")
        for export in exports
    ]


def _describe_older_versions(exported: Mapping[str, Any]) -> str:
    """Text for a table whose older versions its readers can still read; otherwise empty."""
    count = exported.get("older_versions", 0)
    return f"; older versions readable until their files are deleted: {count}" if count else ""
