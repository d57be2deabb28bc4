"""Builds the content of a report's page for its template: texts, rows of tables, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from dbanon.data.types import JsonMapping
from dbanon.data.words import escape_control_characters, json_text
from dbanon.doors.html import figures, svg
from dbanon.doors.html.figures import PageValues, format_figure
from dbanon.job.guarantee import Guarantee
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.release.distribution import MOST_BINS, Distribution, require_displayable
from dbanon.release.report import Report
from dbanon.release.words import (
    LOSS_LABELS,
    describe_coding,
    describe_column_sets,
    describe_method_counts,
    describe_weight,
    now,
    suppresses_cells,
)
from dbanon.run.inspect_release import ReleaseInspection
from dbanon.run.verify import Verification


def describe_report(
    report: Report,
    distributions: Sequence[Distribution],
    tradeoff: JsonMapping | None,
    inspection: ReleaseInspection | None,
) -> PageValues:
    """Build the values for the template of a report's page.

    Parameters
    ----------
    distributions : distributions of released columns.
    tradeoff : trial releases, in the form that ``render_page`` describes; None for no plot.
    inspection : what the ledger and the database hold about the release; None if unknown.
    """
    guarantee = guarantee_from_ledger(report.k_requested, report.arguments)
    evaluation = report.evaluation
    picture_numbers = PictureNumbers()
    return {
        "report": report,
        "title": escape_control_characters(report.output),
        "headline": describe_headline(report, guarantee, evaluation),
        "has_k_anonymous_rows": guarantee.has_k_anonymous_rows,
        "k_unit": guarantee.unit,
        "cautions": [(caution.title, caution.reason) for caution in report.cautions],
        "disclosive_columns": [finding.describe(report.k_requested) for finding in report.findings],
        # Texts on released columns that have one label in all rows, so that all detail is lost.
        "lost_columns": report.describe_lost_columns(),
        # Warnings: sensitive columns with homogeneous classes that no privacy model protects. A
        # class is homogeneous if all its rows have the same sensitive value.
        "homogeneous": report.homogeneous,
        # A table: the counts of homogeneous classes and their rows, by sensitive column.
        "homogeneity": [(column.name, column.describe_counts()) for column in report.homogeneity],
        "caveats": guarantee.caveats(report.earlier_releases, has_models=bool(report.models)),
        "count_queries": inspection.recount_queries if inspection else (),
        "counts_text": _describe_counts(
            report,
            # Without an inspection, assume a single query, which most releases have.
            len(inspection.recount_queries) if inspection else 1,
        ),
        # The column sets of the option ``also_k``, which are k-anonymous by themselves.
        "sets": describe_column_sets(report.arguments),
        "models": [(model.model, f"{model.achieved:.6g}") for model in report.models],
        "class_sizes": _describe_class_sizes(report, picture_numbers),
        # What the clustering method counted of its own work, such as its swaps.
        "method_counts": "; ".join(
            text for _, text in describe_method_counts(report.method_counts)
        ),
        "loss": _describe_loss(report),
        "losses": figures.describe_losses(evaluation) if evaluation else None,
        "columns": figures.describe_columns(evaluation)
        if evaluation
        else {"names": [], "rows": []},
        "risks": figures.describe_risks(evaluation, guarantee) if evaluation else None,
        "attacks": figures.describe_attacks(evaluation) if evaluation else None,
        "class_risk": _describe_class_risk(report, guarantee),
        "is_evaluated": evaluation is not None,
        "evaluation_error": report.evaluation_failed or "",
        "tradeoff": describe_map(tradeoff, picture_numbers) if tradeoff else None,
        "distributions": [
            describe_distribution(column, picture_numbers) for column in distributions
        ],
        "roles": _describe_roles(report, inspection),
        "facts": _list_facts(report, inspection),
        "options": _list_options(report),
        "files": _list_files(report),
        "seconds": [(phase, f"{seconds:.2f}") for phase, seconds in report.seconds.items()],
        # What the ledger does not record, for a report that was rebuilt from the ledger. The report
        # that a run returns has everything.
        "missing": inspection.record.missing
        if inspection and report is inspection.record.report
        else (),
    }


class PictureNumbers:
    """Numbers the pictures of a page, from 1."""

    def __init__(self) -> None:
        self._count = 0

    def next_number(self) -> int:
        """Return the number of the next picture."""
        self._count += 1
        return self._count


def mask_small_count(count: int, k: int) -> str:
    """Render a count of rows; counts of 1 to k - 1 are replaced by that range."""
    return f"1 to {k - 1}" if 0 < count < k else f"{count:,}"


def describe_recount(report: Report, recount: Verification | None) -> str:
    """Describe when the rows were counted, and whether the release has changed since."""
    if recount is None:
        return (
            f"Counted on {_format_minute(report.created_at)} on the written rows, before anyone"
            " could see them. It was not recounted for this page."
        )
    # ``counted``, below, is a text about the counts, and about what cannot be counted.
    comparison = (
        "Columns, types, rows and class sizes are as they were released."
        if recount.unchanged
        else f"Columns and class sizes are as they were released; rows: digest {recount.digest}."
    )
    return (
        f"Recounted for this page on {_format_minute(now())}: the smallest class has"
        f" {recount.smallest_class:,} ({recount.counted}). {comparison}"
    )


def _format_minute(time: str) -> str:
    """Render an ISO time in UTC to the minute; return any other text unchanged."""
    return f"{time[:10]} {time[11:16]} UTC" if time[10:11] == "T" else time


def _describe_counts(report: Report, n_queries: int) -> str:
    """Describe what the queries for counting again returned at the time of the release.

    The template puts "Anyone who may read the release" before this text.
    """
    agreeing_rows = report.counts.rows.agreeing_rows
    smallest = (
        f"smallest class {report.smallest_class:,}"
        if agreeing_rows is None
        else f"fewest agreeing rows {agreeing_rows:,}"
    )
    counts = f"{smallest}, {report.classes:,} classes, {report.rows_out:,} rows"
    # If each attribute has its own classes, there is a query for each, and one for whole rows.
    if n_queries == 1:
        return f"can run this query. At the time of the release it returned: {counts}."
    return (
        f"can run these queries. At the time of the release they returned, over all columns:"
        f" {counts}; for whole rows, smallest class"
        f" {report.counts.verdict.rarest_combination_size:,}."
    )


def describe_headline(
    report: Report, guarantee: Guarantee, evaluation: JsonMapping | None
) -> list[tuple[str, str, str, str]]:
    """Describe the figures at the top: label, value, detail and meaning of each."""
    verdict, symbol = report.counts.verdict, LOSS_LABELS[report.loss_measure][0]
    withheld = mask_small_count(report.suppressed, report.k_requested)
    rows = [
        # Only if each attribute has its own classes: how many rows share all released values.
        *(
            ("Rows", k_rows, explanation, "Smallest number of rows that share all released values.")
            for k_rows, explanation in verdict.row_anonymity_texts
        ),
        (
            "k of each column" if verdict.row_anonymity_texts else "k counted",
            f"{report.k_achieved:,}",
            f"{report.k_requested:,} requested",
            guarantee.k_meaning,
        ),
        (
            "rows released",
            f"{report.rows_out:,}",
            f"{withheld} withheld",
            "Figures of loss and risk do not include suppressed rows.",
        ),
        (
            verdict.classes_text,
            f"{report.classes:,}",
            f"of {report.smallest_class:,} to {report.largest_class:,} rows",
            "A class is a group of rows with the same released values"
            + ("." if guarantee.has_k_anonymous_rows or report.null_agrees else ", by column."),
        ),
        (
            "information lost",
            f"{100 * report.information_loss:.2f} %",
            symbol,
            "0 % is the original; at 100 %, no two rows can be distinguished.",
        ),
    ]
    if report.homogeneity:
        worst_column = max(report.homogeneity, key=lambda column: column.classes)
        column_name = escape_control_characters(worst_column.name)
        rows.append(
            (
                "homogeneous classes",
                f"{worst_column.classes:,}",
                f'of {worst_column.of_classes:,}, by "{column_name}"',
                "All rows of such a class have the same sensitive value: k does not hide it.",
            )
        )
    if evaluation and evaluation["risks"].get("linkage_risk") is not None:
        rows.append(
            (
                "linkage risk",
                f"{100 * evaluation['risks']['linkage_risk']:.1f} %",
                "of an attacker with the originals",
                "The share of records that someone with all originals can re-identify.",
            )
        )
    return rows


def _describe_class_sizes(report: Report, picture_numbers: PictureNumbers) -> PageValues:
    """Describe class sizes by a picture and a table, in at most ``MOST_BINS`` bins."""
    # ``counts.rows`` is the recount of classes in rows.
    bins = bin_class_sizes(report.counts.rows.histogram)
    picture = svg.draw_class_sizes(bins, picture_numbers.next_number()) if bins else ""
    rows = [(label, f"{count:,}") for label, count in bins if count]
    return {"picture": picture, "rows": rows, "median": f"{report.median_class:,g}"}


def bin_class_sizes(histogram: Mapping[int, int]) -> list[tuple[str, int]]:
    """Group class sizes into at most ``MOST_BINS`` bins: label and number of classes of each.

    Parameters
    ----------
    histogram : the number of classes by class size.
    """
    smallest_size, largest_size = min(histogram, default=0), max(histogram, default=-1)
    # The number of sizes in a bin, rounded up.
    width = -(-(largest_size - smallest_size + 1) // MOST_BINS)
    bins = []
    for start in range(smallest_size, largest_size + 1, max(width, 1)):
        end = min(start + width - 1, largest_size)
        n_classes = sum(n for size, n in histogram.items() if start <= size <= end)
        bins.append((f"{start:,}" if start == end else f"{start:,}–{end:,}", n_classes))
    return bins


def _describe_loss(report: Report) -> PageValues:
    """Describe the loss that the run measured, over all columns and by column."""
    symbol, before_rounding_label = LOSS_LABELS[report.loss_measure]
    # Only full-domain generalization has levels: one for each quasi-identifier.
    levels = report.levels or {}
    return {
        "symbol": symbol,
        "before_rounding_label": before_rounding_label,
        "total": format_figure(report.information_loss, digits=6),
        # How near the loss is to the least possible one; empty without a certificate.
        "nearness": report.nearness or "",
        "total_before_rounding": format_figure(report.information_loss_before_rounding, digits=6),
        "has_levels": bool(levels),
        # Labels and texts with the columns that were coded; empty without coding.
        "coding": describe_coding(report.arguments),
        # A sentence on the design weight; empty without one.
        "weight": "; ".join(text for _, text in describe_weight(report.arguments)),
        "rows": [
            {
                "name": column.name,
                "figure": format_figure(column.released, digits=6),
                "before_rounding": format_figure(column.before_rounding, digits=6),
                "bar": svg.draw_share_bar(column.released),
                "level": str(levels.get(column.name, "")),
            }
            for column in report.loss.columns.values()
        ],
    }


def _describe_class_risk(report: Report, guarantee: Guarantee) -> PageValues:
    """Describe the risk that follows from class sizes alone."""
    # Rows or, if k counts persons, persons that share the rarest combination of released values.
    rarest = max(report.counts.verdict.rarest_combination_size, 1)
    # The report does not contain the number of persons in each class, nor the number of rows that
    # agree with each row.
    counts_classes = not guarantee.entity_columns and not report.null_agrees
    average = report.classes / max(report.rows_out, 1) if counts_classes else None
    return {
        "highest": format_figure(1 / rarest),
        "rarest": f"{rarest:,}",
        "average": format_figure(average),
        "bar": svg.draw_share_bar(1 / rarest, 1 / report.k_requested),
        "limit": f"1/{report.k_requested} = {format_figure(1 / report.k_requested)}",
    }


def describe_map(tradeoff: JsonMapping, picture_numbers: PictureNumbers) -> PageValues:
    """Describe the plot of risk against loss of trial releases, and its table.

    Parameters
    ----------
    tradeoff : names of the axes, and points, in the form that ``render_page`` describes.
    """
    points = [
        svg.MapPoint(
            label=str(point["label"]),
            risk=float(point["risk"]),
            loss=float(point["loss"]),
            curve=str(point["curve"]),
            is_chosen=bool(point.get("chosen", False)),
        )
        for point in tradeoff["points"]
    ]
    curves = list(dict.fromkeys(point.curve for point in points))
    return {
        "picture": svg.draw_tradeoff(
            points, tradeoff["risk"], tradeoff["loss"], picture_numbers.next_number()
        )
        if points
        else "",
        "curves": [(svg.draw_legend_symbol(index), curve) for index, curve in enumerate(curves)],
        "risk": tradeoff["risk"],
        "loss": tradeoff["loss"],
        "note": tradeoff.get("note", ""),
        "rows": [
            {
                "curve": point.curve,
                "label": point.label,
                "risk": format_figure(point.risk),
                "loss": format_figure(point.loss),
                "is_chosen": point.is_chosen,
            }
            for point in points
        ],
    }


def describe_distribution(column: Distribution, picture_numbers: PictureNumbers) -> PageValues:
    """Describe the distribution of a released column by a picture and a table."""
    require_displayable(column)
    has_bins, has_labels = column.axis_kind in ("number", "date"), column.axis_kind == "label"
    largest_rows = max((bar.rows for bar in column.bars), default=0) or 1
    return {
        "name": column.name,
        "role": column.role.replace("_", "-"),
        # The smallest number of rows that a bar may stand for.
        "bound": column.bound,
        "picture": svg.draw_histogram(column, picture_numbers.next_number()) if has_bins else "",
        "labels": [
            (bar.label, svg.draw_share_bar(bar.rows / largest_rows), f"{bar.rows:,}")
            for bar in column.bars
        ]
        if has_labels
        else [],
        "rows": [(bar.label, f"{bar.rows:,}") for bar in column.bars],
        "others_note": column.others,
        "note": column.note,
    }


def _describe_roles(
    report: Report, inspection: ReleaseInspection | None
) -> list[tuple[str, str, str]]:
    """Describe the role of each column: name, type (empty if unknown), and text."""
    role_texts = {
        "quasi_identifier": "quasi-identifier: one released value for each class",
        "sensitive": "sensitive: copied unchanged",
        "insensitive": "kept: copied unchanged",
        "weight": "design weight: one for each class",
        "not_copied": "not copied",
    }
    if inspection is not None:
        strata = report.arguments.get("by", ())
        return [
            (
                column.name,
                column.sql_type,
                "stratum: copied unchanged; strata are anonymized separately"
                if column.name in strata
                else role_texts[column.role],
            )
            for column in inspection.record.columns
        ]
    groups = (
        ("quasi_identifier", report.quasi_identifiers),
        ("sensitive", report.sensitive),
        ("insensitive", report.kept),
        ("weight", report.averaged_weights),
        ("not_copied", report.not_copied),
    )
    return [(name, "", role_texts[role]) for role, names in groups for name in names]


def _list_facts(
    report: Report, inspection: ReleaseInspection | None
) -> list[tuple[str, str, bool]]:
    """List what the ledger records: label, text, and whether the text contains a name.

    The page sets off names, since they may contain any character.
    """
    # If fewer than k rows are withheld, this list does not say how many, not even as the difference
    # between the rows that were read and the released rows.
    withheld = mask_small_count(report.suppressed, report.k_requested)
    rows_read = (
        f"{report.rows_out:,} and the withheld rows"
        if 0 < report.suppressed < report.k_requested
        else f"{report.rows_in:,}"
    )
    # What the guarantee adds to the ledger, such as counts of persons.
    guarantee_facts = report.counts.verdict.ledger_values
    facts = [
        ("release", report.release_id, False),
        ("recorded", report.created_at, False),
        ("source", report.source, True),
        ("output", f"{report.output} ({report.output_kind})", True),
        *([("released table", report.relation, True)] if report.relation != report.output else []),
        ("method", f"{report.method}, dbanon {report.dbanon_version}", False),
        ("rows read", rows_read, False),
        ("rows withheld", withheld, False),
        ("rows with NULL in a quasi-identifier", _describe_nulls(report), False),
        *((name.replace("_", " "), str(text), True) for name, text in guarantee_facts.items()),
        ("seed policy", report.seed_policy, False),
        ("earlier releases", report.earlier_releases, False),
        ("digest of the rows", report.digest or "none", False),
    ]
    if inspection is not None:
        recorded = inspection.record
        facts.append(("published by", recorded.published_by or "not known", True))
        is_current = recorded.superseded_at is None
        facts.append(
            ("current", "yes" if is_current else f"no: superseded {recorded.superseded_at}", False)
        )
    return facts


def _describe_nulls(report: Report) -> str:
    """Describe how many rows have a NULL in a quasi-identifier, and how they were treated."""
    count = mask_small_count(report.null_rows, report.k_requested)
    null_treatment = report.arguments.get("nulls", "error")
    if suppresses_cells(report.arguments):
        # The loss on this page is the share of cells that became NULL, which tells their number.
        n_cells = sum(report.suppressed_cells.values())
        return f"{count}; values released as NULL: {n_cells:,}"
    if null_treatment == "suppress":
        # Rows with NULL in a quasi-identifier are withheld. ``null_rows`` counts released rows, so
        # their NULLs are in strata.
        withheld_note = "withheld, among the rows withheld above" if report.suppressed else "none"
        strata_note = f"; {count} with NULL in a stratum are released" if report.null_rows else ""
        return withheld_note + strata_note
    if null_treatment in ("category", "merge"):
        # Values that the run replaced by NULL, because few rows have NULL in the same columns.
        n_values = sum(report.suppressed_cells.values())
        rare_patterns_note = (
            f"; {mask_small_count(n_values, report.k_requested)} values of rare patterns"
            if n_values
            else ""
        )
        return f"{count}, each NULL released as a value{rare_patterns_note}"
    return f"{count}, in strata" if report.null_rows else "none: such rows would have been refused"


def _list_files(report: Report) -> list[tuple[str, str]]:
    """List the exported files, without the server's directories."""
    return [
        (
            "exported",
            f"{PurePath(str(file.get('path', ''))).name}, {file.get('bytes', 0):,} bytes, SHA-256"
            f" {file.get('sha256', 'not recorded')}",
        )
        for file in report.arguments.get("exports", ())
    ]


def _list_options(report: Report) -> list[tuple[str, str]]:
    """List the options that are set, as the ledger records them."""
    # Other sections of the page show these. The list includes former names, which older versions
    # recorded.
    shown_elsewhere = {
        *("also_k", "disclosive_columns", "entity_spellings", "exports", "few_persons"),
        *("hierarchies", "homogeneity", "intersects", "k", "kept_identifiers", "levels", "linking"),
        *("method", "method_counts", "models", "orders", "suppressed_cells", "telling", "told"),
    }
    return [
        (name, value if isinstance(value, str) else json_text(value))
        for name, value in report.arguments.items()
        if name not in shown_elsewhere and value not in (None, [], {}, False, "")
    ]
