"""The content of the page as plain values: texts, rows of tables, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dbanon.data.words import json_text, printable
from dbanon.doors.html import figures, svg
from dbanon.doors.html.figures import Row, figure
from dbanon.job.guarantee import Guarantee
from dbanon.job.guarantee_names import recorded
from dbanon.release.distribution import MOST_BINS, Distribution, require_displayable
from dbanon.release.report import Report
from dbanon.release.words import describe_column_sets, describe_method_counts, now
from dbanon.run.inspect_release import ReleaseInspection
from dbanon.run.verify import Verification

_METHOD_LOSS = {
    "sse": ("SSE/SST", "before rounding to the columns' types"),
    "iloss": ("iloss per cell", "on the classes' own ranges"),
    "gower": ("Gower's distance per cell", "before rounding to the columns' types"),
}


def view(
    report: Report,
    distributions: Sequence[Distribution],
    tradeoff: Mapping[str, Any] | None,
    look: ReleaseInspection | None,
) -> dict[str, Any]:
    """The values of the template."""
    guarantee = recorded(report.k_requested, report.arguments)
    evaluation = report.evaluation
    pictures = Pictures()
    return {
        "report": report,
        "title": printable(report.output),
        "headline": headline(report, guarantee, evaluation),
        "bounds_rows": guarantee.bounds_rows,
        "k_counts": guarantee.unit,
        "cautions": [(caution.title, caution.why) for caution in report.cautions],
        "disclosive_columns": [finding.describe(report.k_requested) for finding in report.findings],
        "lost_columns": report.describe_lost_columns(),
        "homogeneous": report.homogeneous,
        "homogeneity": [(column.name, column.describe_counts()) for column in report.homogeneity],
        "says_not": guarantee.caveats(report.earlier_releases, bool(report.models)),
        "counting": look.counting if look else (),
        "counted_then": _counted_then(report, len(look.counting) if look else 1),
        "sets": describe_column_sets(report.arguments),
        "models": [(model.model, f"{model.achieved:.6g}") for model in report.models],
        "sizes": _sizes(report, pictures),
        "by_method": "; ".join(text for _, text in describe_method_counts(report.method_counts)),
        "loss": _loss(report),
        "losses": figures.losses(evaluation) if evaluation else None,
        "columns": figures.by_column(evaluation) if evaluation else {"names": [], "rows": []},
        "risks": figures.risks(evaluation, guarantee) if evaluation else None,
        "attacks": figures.attacks(evaluation) if evaluation else None,
        "class_risk": _class_risk(report, guarantee),
        "evaluated": evaluation is not None,
        "why_not": report.evaluation_failed or "",
        "tradeoff": map_of(tradeoff, pictures) if tradeoff else None,
        "distributions": [draw(column, pictures) for column in distributions],
        "roles": _roles(report, look),
        "facts": _facts(report, look),
        "options": _options(report),
        "files": _files(report),
        "seconds": [(phase, f"{spent:.2f}") for phase, spent in report.seconds.items()],
        "missing": look.recorded.missing if look and report is look.recorded.report else (),
    }


class Pictures:
    """Numbers the pictures of a page."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> int:
        """The number of the next picture."""
        self._count += 1
        return self._count


def few(count: int, k: int) -> str:
    """A count of rows; 1 to k - 1 are given as a range."""
    return f"1 to {k - 1}" if 0 < count < k else f"{count:,}"


def describe_recount(report: Report, recount: Verification | None) -> str:
    """When the counts on the page were made."""
    if recount is None:
        return (
            f"Counted on {_minute(report.created_at)} on the written rows, before anyone could see"
            " them. It was not recounted for this page."
        )
    same = (
        "Columns, types, rows and class sizes are as they were released."
        if recount.unchanged
        else f"Columns and class sizes are as they were released; rows: digest {recount.digest}."
    )
    return (
        f"Recounted for this page on {_minute(now())}: the smallest class has"
        f" {recount.smallest_class:,} ({recount.counted}). {same}"
    )


def _minute(time: str) -> str:
    """A time in UTC to the minute; any other text as it is."""
    return f"{time[:10]} {time[11:16]} UTC" if time[10:11] == "T" else time


def _counted_then(report: Report, queries: int) -> str:
    """The number of queries that recount the release, and their result when it was made."""
    counts = (
        f"smallest class {report.smallest_class:,}, {report.classes:,} classes,"
        f" {report.rows_out:,} rows"
    )
    if queries == 1:
        return f"can run this. When it was released it gave: {counts}."
    return (
        f"can run these. When it was released they gave, over all columns: {counts}; of whole rows"
        f" the smallest class {report.counts.verdict.rarest:,}."
    )


def headline(
    report: Report, guarantee: Guarantee, evaluation: Mapping[str, Any] | None
) -> list[tuple[str, str, str, str]]:
    """The figures at the top: label, figure, of what, and what it means."""
    verdict, symbol = report.counts.verdict, _METHOD_LOSS[report.loss_measure][0]
    withheld = few(report.suppressed, report.k_requested)
    rows = [
        *(
            ("Rows", k_rows, explanation, "Smallest number of rows that share all released values.")
            for k_rows, explanation in verdict.of_rows
        ),
        (
            "k of each column" if verdict.of_rows else "k counted",
            f"{report.k_achieved:,}",
            f"{report.k_requested:,} requested",
            f"{guarantee.unit.capitalize()} in the smallest class.",
        ),
        (
            "rows released",
            f"{report.rows_out:,}",
            f"{withheld} withheld",
            "Figures of loss and risk do not include suppressed rows.",
        ),
        (
            verdict.classes,
            f"{report.classes:,}",
            f"of {report.smallest_class:,} to {report.largest_class:,} rows",
            "Groups of rows with the same released values"
            + ("." if guarantee.bounds_rows else ", by column."),
        ),
        (
            "information lost",
            f"{100 * report.information_loss:.2f} %",
            symbol,
            "0 % is the original; 100 % no longer distinguishes any rows.",
        ),
    ]
    if report.homogeneity:
        worst = max(report.homogeneity, key=lambda column: column.classes)
        rows.append(
            (
                "homogeneous classes",
                f"{worst.classes:,}",
                f'of {worst.of_classes:,}, by "{printable(worst.name)}"',
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


def _sizes(report: Report, pictures: Pictures) -> Row:
    """Class sizes as a picture and a table, in at most ``MOST_BINS`` steps."""
    bins = size_bins(report.counts.rows.histogram)
    picture = svg.sizes(bins, pictures.next()) if bins else ""
    rows = [(label, f"{count:,}") for label, count in bins if count]
    return {"picture": picture, "rows": rows, "median": f"{report.median_class:,g}"}


def size_bins(histogram: Mapping[int, int]) -> list[tuple[str, int]]:
    """Class sizes and the number of classes of each, in at most ``MOST_BINS`` steps."""
    low, high = min(histogram, default=0), max(histogram, default=-1)
    width = -(-(high - low + 1) // MOST_BINS)
    bins = []
    for start in range(low, high + 1, max(width, 1)):
        end = min(start + width - 1, high)
        count = sum(n for size, n in histogram.items() if start <= size <= end)
        bins.append((f"{start:,}" if start == end else f"{start:,}–{end:,}", count))
    return bins


def _loss(report: Report) -> Row:
    """The loss that the run measured, over all columns and by column."""
    symbol, before = _METHOD_LOSS[report.loss_measure]
    levels = report.levels or {}
    return {
        "symbol": symbol,
        "before": before,
        "all": figure(report.information_loss, 6),
        "nearness": report.nearness or "",
        "all_before": figure(report.information_loss_before_rounding, 6),
        "has_levels": bool(levels),
        "rows": [
            {
                "name": column.name,
                "figure": figure(column.released, 6),
                "before": figure(column.before_rounding, 6),
                "bar": svg.share_bar(column.released),
                "level": str(levels.get(column.name, "")),
            }
            for column in report.loss.columns.values()
        ],
    }


def _class_risk(report: Report, guarantee: Guarantee) -> Row:
    """The risk that follows from class sizes alone."""
    rarest = max(report.counts.verdict.rarest, 1)
    # The number of persons in each class is not known here.
    average = None if guarantee.persons else report.classes / max(report.rows_out, 1)
    return {
        "highest": figure(1 / rarest),
        "rarest": f"{rarest:,}",
        "average": figure(average),
        "bar": svg.share_bar(1 / rarest, 1 / report.k_requested),
        "limit": f"1/{report.k_requested} = {figure(1 / report.k_requested)}",
    }


def map_of(sweep: Mapping[str, Any], pictures: Pictures) -> Row:
    """The map of a sweep and its table."""
    spots = [
        svg.MapPoint(
            label=str(point["label"]),
            risk=float(point["risk"]),
            loss=float(point["loss"]),
            curve=str(point["curve"]),
            chosen=bool(point.get("chosen", False)),
        )
        for point in sweep["points"]
    ]
    curves = list(dict.fromkeys(spot.curve for spot in spots))
    return {
        "picture": svg.tradeoff(spots, sweep["risk"], sweep["loss"], pictures.next())
        if spots
        else "",
        "curves": [(svg.legend(index), curve) for index, curve in enumerate(curves)],
        "risk": sweep["risk"],
        "loss": sweep["loss"],
        "note": sweep.get("note", ""),
        "rows": [
            {
                "curve": spot.curve,
                "label": spot.label,
                "risk": figure(spot.risk),
                "loss": figure(spot.loss),
                "chosen": spot.chosen,
            }
            for spot in spots
        ],
    }


def draw(column: Distribution, pictures: Pictures) -> Row:
    """A distribution as a picture and a table."""
    require_displayable(column)
    bins, labels = column.unit in ("number", "date"), column.unit == "label"
    most = max((bar.rows for bar in column.bars), default=0) or 1
    return {
        "name": column.name,
        "role": column.role.replace("_", "-"),
        "bound": column.bound,
        "picture": svg.histogram(column, pictures.next()) if bins else "",
        "labels": [
            (bar.label, svg.share_bar(bar.rows / most), f"{bar.rows:,}") for bar in column.bars
        ]
        if labels
        else [],
        "rows": [(bar.label, f"{bar.rows:,}") for bar in column.bars],
        "others": column.others,
        "note": column.note,
    }


def _roles(report: Report, look: ReleaseInspection | None) -> list[tuple[str, str, str]]:
    """The role of each column: name, type if known, and words."""
    words = {
        "quasi_identifier": "quasi-identifier: one released value for each class",
        "sensitive": "sensitive: copied as it is",
        "insensitive": "kept: copied as it is",
        "not_copied": "not copied",
    }
    if look is not None:
        strata = report.arguments.get("by", ())
        return [
            (
                column.name,
                column.sql_type,
                "stratum: copied as it is; strata are anonymized separately"
                if column.name in strata
                else words[column.role],
            )
            for column in look.recorded.columns
        ]
    groups = (
        ("quasi_identifier", report.quasi_identifiers),
        ("sensitive", report.sensitive),
        ("insensitive", report.kept),
        ("not_copied", report.not_copied),
    )
    return [(name, "", words[role]) for role, names in groups for name in names]


def _facts(report: Report, look: ReleaseInspection | None) -> list[tuple[str, str, bool]]:
    """The release in the ledger: label, text, and whether the text contains a name."""
    withheld = few(report.suppressed, report.k_requested)
    read = (
        f"{report.rows_out:,} and the withheld"
        if 0 < report.suppressed < report.k_requested
        else f"{report.rows_in:,}"
    )
    remarks = report.counts.verdict.ledger_values
    facts = [
        ("release", report.release_id, False),
        ("recorded", report.created_at, False),
        ("source", report.source, True),
        ("output", f"{report.output} ({report.output_kind})", True),
        *([("released table", report.relation, True)] if report.relation != report.output else []),
        ("method", f"{report.method}, dbanon {report.dbanon_version}", False),
        ("rows read", read, False),
        ("rows withheld", withheld, False),
        ("rows with NULL in a quasi-identifier", _nulls(report), False),
        *((name.replace("_", " "), str(text), True) for name, text in remarks.items()),
        ("seed policy", report.seed_policy, False),
        ("earlier releases", report.earlier_releases, False),
        ("digest of the rows", report.digest or "none", False),
    ]
    if look is not None:
        recorded = look.recorded
        facts.append(("published by", recorded.published_by or "not known", True))
        is_current = recorded.superseded_at is None
        facts.append(
            ("current", "yes" if is_current else f"no: superseded {recorded.superseded_at}", False)
        )
    return facts


def _nulls(report: Report) -> str:
    """What became of rows with a NULL in a quasi-identifier."""
    count = few(report.null_rows, report.k_requested)
    policy = report.arguments.get("nulls", "error")
    if policy == "suppress":
        in_strata = f"; {count} with NULL in a stratum are released" if report.null_rows else ""
        withheld = "withheld, among the rows withheld above" if report.suppressed else "none"
        return withheld + in_strata
    if policy in ("category", "merge"):
        cells = sum(report.suppressed_cells.values())
        merged = f"; {few(cells, report.k_requested)} values of rare patterns" if cells else ""
        return f"{count}, each NULL released as a value{merged}"
    return f"{count}, in strata" if report.null_rows else "none: such rows would have been refused"


def _files(report: Report) -> list[tuple[str, str]]:
    """The files of the release, without the server's directories."""
    return [
        (
            "exported",
            f"{PurePath(str(file.get('path', ''))).name}, {file.get('bytes', 0):,} bytes, SHA-256"
            f" {file.get('sha256', 'not recorded')}",
        )
        for file in report.arguments.get("exports", ())
    ]


def _options(report: Report) -> list[tuple[str, str]]:
    """The options of the policy that are set, as the ledger has them."""
    results = {
        *("also_k", "disclosive_columns", "entity_spellings", "exports", "few_persons"),
        *("hierarchies", "homogeneity", "intersects", "k", "kept_identifiers", "levels", "linking"),
        *("method", "method_counts", "models", "orders", "suppressed_cells", "telling", "told"),
    }
    return [
        (name, value if isinstance(value, str) else json_text(value))
        for name, value in report.arguments.items()
        if name not in results and value not in (None, [], {}, False, "")
    ]
