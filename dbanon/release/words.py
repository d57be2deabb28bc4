"""Texts in reports, built from their JSON values.

The parameter ``arguments`` of these functions holds what the ledger records of a release, by key:
the options of the release, and results of the run such as ``suppressed_cells``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timezone
from typing import Any

from dbanon.data.files import LINKS
from dbanon.data.types import JsonMapping
from dbanon.data.words import read_key_or_former_key
from dbanon.job.pseudonym import build_pseudonym_caution
from dbanon.job.verdict import Caution, Verdict, build_intersection_caution
from dbanon.job.weight import COPIED, MEAN, ROUNDED, WEIGHT_RECORD
from dbanon.methods.registry import GLOBAL_RECODING
from dbanon.release.alignment import INPUT, INPUT_ORDER_CAUTION
from dbanon.release.joint import joint_caution
from dbanon.release.joint_rows import joint_rows_caution

# For each measure of loss in a report: its symbol, and the label of the loss before rounding. For
# iloss, that is the loss of the classes' exact ranges.
LOSS_LABELS = {
    "sse": ("SSE/SST", "before rounding to column types"),
    "iloss": ("iloss per cell", "on the classes' own ranges"),
    "gower": ("Gower's distance per cell", "before rounding to column types"),
}


def now() -> str:
    """Return the current time in UTC, in the format of reports and the ledger."""
    return time_text(datetime.now(timezone.utc))


def time_text(time: datetime) -> str:
    """Write a time in the format of reports and the ledger."""
    return time.isoformat(timespec="microseconds")


def describe_nearness(certificate: JsonMapping) -> str:
    """Describe how near a loss is to the smallest possible one, from a report's certificate."""
    if "failed" in certificate:
        return f"not known: {certificate['failed']}"
    # The distance of the loss from its lower bound, as a share of the bound; None if that is 0.
    if certificate["above"] is None:
        return "not known: the least possible loss may be 0"
    return (
        f"at most {100 * certificate['above']:.2f} % above the least possible loss"
        f" ({read_key_or_former_key(certificate, 'method')})"
    )


def list_leading_cautions(arguments: JsonMapping) -> list[Caution]:
    """List the cautions with which a report begins.

    They are about persons whose rows are in different classes, and about joint histories: what
    readers of several releases see of a person.
    """
    candidates = (joint_rows_caution(arguments), joint_caution(arguments))
    return [caution for caution in candidates if caution is not None]


def list_leading_pairs(verdict: Verdict, arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return the first lines of a report, which must not be overlooked: labels and texts.

    If each attribute has its own classes, one line says how many rows share the rarest combination
    of values.
    """
    return [
        *((caution.title, caution.reason) for caution in list_leading_cautions(arguments)),
        *(("ROWS", f"{k_text}, {meaning}") for k_text, meaning in verdict.row_anonymity_texts),
    ]


def describe_averaged_codes(arguments: JsonMapping) -> list[str]:
    """Describe each column of codes that was averaged as if they were amounts; suggest a kind."""
    return [
        f'"{name}" is a code, and was averaged: {rows} rows are released with a code that does not'
        " occur in the source. Set its kind to nominal, or to numeric if its numbers are amounts"
        for name, rows in arguments.get("averaged_codes", {}).items()
    ]


def describe_column_sets(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text with requested and counted k, for each additional column set."""
    return [
        (
            f"k of ({', '.join(column_set['columns'])}) requested / counted",
            f"{column_set['k']} / {column_set['counted']}",
        )
        for column_set in arguments.get("also_k", ())
    ]


def describe_coding(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return labels and texts with the columns that were coded; empty if none were."""
    texts: dict[str, list[str]] = {}
    for option in ("bottom", "top", "recode"):
        for name, thresholds in arguments.get(option, {}).items():
            if isinstance(thresholds, Mapping):
                texts.setdefault(name, []).append(f"{option} {', '.join(thresholds)}")
                continue
            numbers = thresholds if isinstance(thresholds, list | tuple) else [thresholds]
            borders = ", ".join(f"{number:.15g}" for number in numbers)
            texts.setdefault(name, []).append(f"{option} {borders}")
    copies = arguments.get("coded_copies", ())
    coded_columns, coded_copies = (
        "; ".join(
            f"{name} ({' and '.join(options)})"
            for name, options in texts.items()
            if (name in copies) == is_copy
        )
        for is_copy in (False, True)
    )
    label_texts = []
    if coded_columns:
        text = f"{coded_columns}; losses are measured against the coded values"
        label_texts.append(("coded before classes are made", text))
    if coded_copies:
        label_texts.append(("coded when copied", coded_copies))
    data_thresholds = [
        f"{option} of {name} ({percentile})"
        for option, columns in arguments.get("thresholds_from_data", {}).items()
        for name, percentile in columns.items()
    ]
    if data_thresholds:
        text = f"{', '.join(data_thresholds)}; asked for by name, rounded to two digits"
        label_texts.append(("thresholds taken from the data", text))
    return label_texts


def describe_date_shift(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text with the columns whose dates are shifted; empty without any."""
    shift = arguments.get("shift_dates")
    if not shift:
        return []
    text = (
        f"{', '.join(shift['columns'])}: by up to {shift['days']} days, one secret offset for each"
        f" {shift['offset_per']}; intervals are as they were"
    )
    return [("dates shifted", text)]


def describe_weight(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text with the design weight and its form; empty without a weight."""
    record = arguments.get(WEIGHT_RECORD)
    if not record:
        return []
    forms = {
        MEAN: "mean of each class, with the sum of the originals",
        ROUNDED: "mean of each class as a whole number, with nearly the sum of the originals",
        COPIED: "COPIED as it is",
    }
    text = f"{record['column']}: {forms.get(record['as'], record['as'])}"
    has_weighted_means = arguments.get("recoding") in ("mean", "representative")
    return [("design weight", text + ("; means are weighted by it" if has_weighted_means else ""))]


def describe_profile(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text with the profile that was checked; empty if there is none."""
    profile = arguments.get("profile")
    if not profile:
        return []
    return [("profile", f"{profile}: names, types and first values of columns were checked")]


def describe_counts(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return pairs of label and text about column sets, suppressed cells and method counts."""
    counts = arguments.get("suppressed_cells", {})
    cells = ", ".join(f"{name} {count}" for name, count in counts.items())
    label = "rare cells released as NULL"
    if suppresses_cells(arguments):
        label, cells = "cells released as NULL", f"{sum(counts.values())}: {cells}"
    return [
        *describe_profile(arguments),
        *describe_coding(arguments),
        *describe_date_shift(arguments),
        *describe_weight(arguments),
        *describe_column_sets(arguments),
        *([(label, cells)] if counts else []),
        *describe_method_counts(read_key_or_former_key(arguments, "method_counts", {})),
    ]


# A column that loses at least this share of its values is of little use.
_MOSTLY = 0.5


def describe_mostly_suppressed_columns(arguments: JsonMapping, n_rows: int) -> list[str]:
    """Describe each column that lost most of its values to the suppression of cells.

    Parameters
    ----------
    n_rows : the number of released rows.
    """
    return [
        f'"{name}" is released as NULL in {count / n_rows:.0%} of the rows, because too few rows'
        " share its values. What helps: bands of numbers (recode), coarser values in a view, a"
        " method that generalizes, fewer quasi-identifiers, or a smaller k"
        for name, count in arguments.get("suppressed_cells", {}).items()
        if count >= _MOSTLY * n_rows
    ]


def suppresses_cells(arguments: JsonMapping) -> bool:
    """Whether the release's method suppresses single cells, by the arguments of its report."""
    return arguments.get("recoding") == "common" or arguments.get("method") == GLOBAL_RECODING


def list_cautions(arguments: JsonMapping, entity: str | None) -> tuple[Caution, ...]:
    """List cautions about links from rows to originals, other releases or pseudonyms."""
    # The argument ``rows`` is the order of a released data frame's rows.
    cautions = (INPUT_ORDER_CAUTION,) if arguments.get("rows") == INPUT else ()
    # A short text that names earlier releases of the same source.
    if intersects := arguments.get("intersects"):
        cautions = (*cautions, build_intersection_caution(str(intersects)))
    if joint := joint_caution(arguments):
        cautions = (joint, *cautions)
    if joint_rows := joint_rows_caution(arguments):
        cautions = (joint_rows, *cautions)
    if pseudonyms := arguments.get("pseudonyms"):
        cautions = (*cautions, build_pseudonym_caution(pseudonyms["columns"], entity))
    return cautions


def describe_method_counts(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return a label and a text with the counts that the method reports; empty without counts."""
    text = ", ".join(f"{label}: {count}" for label, count in counts.items())
    return [("counted by the method", text)] if text else []


def describe_passthrough(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text if original values left their database; otherwise empty."""
    # The ledger's key for rows that were copied from another system into this process.
    transfer = arguments.get("drawn")
    if transfer:
        text = f"{transfer['rows']} left their database for this program: {transfer['how']}"
        return [("original rows", text)]
    # Retained columns are usually copied inside the database.
    if arguments.get("kept_columns") != "client":
        return []
    return [("columns copied as they are", "passed through the client's memory")]


def describe_files_of_other_accounts(arguments: JsonMapping) -> list[tuple[str, str]]:
    """Return a label and a text if files of other accounts were allowed; otherwise empty."""
    foreign_files = arguments.get("reading", {}).get("foreign_files")
    if foreign_files is None:
        return []
    text = "files of other accounts were allowed"
    # The value ``links`` also allows symbolic links.
    links_text = ", and links followed" if foreign_files == LINKS else ""
    return [("files of the source", text + links_text)]


def describe_new_schema(arguments: JsonMapping) -> str:
    """Return a remark if the output's schema was created; otherwise empty."""
    return ", in a schema that was missing" if "schema_created" in arguments else ""


def format_losses(released: float, before_rounding: float, label: str = "") -> str:
    """Format a loss, with the loss before rounding if it differs, as in reports of old versions.

    Parameters
    ----------
    label : a few words that say what ``before_rounding`` is.
    """
    if released == before_rounding:
        return f"{released:.6g}"
    return f"{released:.6f} ({before_rounding:.6f}{label and ' '}{label})"


def format_figure(value: float, note: str) -> str:
    """Format a measure's value, or return its note if it does not apply to generalized values."""
    # Import lazily, so that SQL functions load the measures only when needed.
    from dbanon.measures.figure import NOT_FOR_LABELS

    return note if note.startswith(NOT_FOR_LABELS) else f"{value:.6g}"


def to_json_values(value: object) -> Any:
    """Copy a value with dataclasses converted to dicts, for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: to_json_values(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(to_json_values(item) for item in value)
    return value


def describe_attack(figures: JsonMapping) -> str:
    """Describe an attack in one line, from its JSON values.

    The risk is the success of the attack beyond that on control records, which are not released, or
    beyond random guesses.
    """
    if figures["risk"] is None:
        return f"none: {figures['note']}"
    low, high = figures["interval"]
    text = f"risk {figures['risk']:.3f} (95 %: {low:.3f} to {high:.3f}); "
    text += f"right {figures['attack']:.3f} of {figures['guesses']:,} guesses, "
    text += f"at random {figures['random']:.3f}"
    if figures["control"] is not None:
        text += f", for control records {figures['control']:.3f}"
    return text + (f"; {figures['note']}" if figures["note"] else "")


def describe_attacks(figures: JsonMapping) -> list[tuple[str, str]]:
    """Return pairs of label and text for the attacks of an evaluation, if any."""
    attacks = figures.get("attacks")
    if attacks is None:
        return []
    if "failed" in attacks:
        return [("NOT ATTACKED", str(attacks["failed"]))]
    title = ("attacks", "for the controller, not for publication: see docs/evaluation.md")
    return [
        title,
        *(
            (f"  {name}", describe_attack(attack))
            for name, attack in read_key_or_former_key(attacks, "results").items()
        ),
    ]


def describe_exports(exports: Iterable[JsonMapping]) -> list[tuple[str, str]]:
    """Return pairs of label and text for exported files and tables."""
    return [
        ("exported", f"{export['path']}, {export['bytes']} bytes{_describe_older_versions(export)}")
        for export in exports
    ]


def _describe_older_versions(export: JsonMapping) -> str:
    """Describe the older versions of an exported table that are still readable; else empty."""
    n_versions = export.get("older_versions", 0)
    if not n_versions:
        return ""
    return f"; older versions readable until their files are deleted: {n_versions}"
