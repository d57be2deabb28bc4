"""Renders cards: the HTML that notebooks display for results, with the pictures of reports.

A card contains no more than the report, or than ``to_dict`` of the result. It has no script and
loads nothing. Text from data is escaped, including control characters and characters that change
the text direction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, singledispatch
from hashlib import sha256
from html import escape
from pathlib import Path

from dbanon.advice.answer import Advice, Sweep
from dbanon.advice.recommend import Point
from dbanon.data.partition import AttributePartition, Partition
from dbanon.data.words import escape_control_characters
from dbanon.doors.html import figures, svg
from dbanon.doors.html.figures import PageValues
from dbanon.doors.html.view import bin_class_sizes, describe_headline
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.release.analysis_comparison import AnalysisComparison
from dbanon.release.evaluation import Evaluation
from dbanon.release.report import Report

# The text color is the notebook's; the other colors are legible on light and dark backgrounds.
_COLORS = (
    "--ink: currentColor; --quiet: color-mix(in srgb, currentColor 68%, transparent);"
    " --line: rgba(128, 128, 128, .35); --track: rgba(128, 128, 128, .2); --mark: #3f81b5;"
    " --limit: #d0602f; --warnline: #d0812f; --link: #3f81b5; --curve0: #3f81b5;"
    " --curve1: #d0602f; --curve2: #3c9160; --curve3: #9a68b8;"
)
# A CSS rule: the list of selectors, and the declarations in braces.
_RULE_PATTERN = re.compile(r"([^{}]+)(\{[^{}]*\})")
_CARD_SELECTOR = ".dbanon-card"

# Names of the measures of loss of trial releases, as in reports.
LOSS_NAMES = {"sse_loss": "SSE/SST", "iloss": "iloss per cell"}


@singledispatch
def render_card(result: object) -> str:
    """Render a result as HTML."""
    raise TypeError(f"There is no card of {type(result).__name__}.")


@render_card.register
def _render_report(result: Report) -> str:
    evaluation = result.evaluation
    # The arguments of a report are those that the ledger records.
    guarantee = guarantee_from_ledger(result.k_requested, result.arguments)
    # ``counts.rows`` is the recount of classes in rows.
    bins = bin_class_sizes(result.counts.rows.histogram)
    return wrap_card(
        "report",
        # Cards leave out the fourth text of each row, which explains the figure.
        render_figures(row[:3] for row in describe_headline(result, guarantee, evaluation)),
        render_paragraph("guarantee", result.guarantee),
        *(render_paragraph("warning", text) for text in result.warning_texts),
        _render_class_sizes(bins, result.median_class),
        render_details("The complete report", render_pairs(result.pairs())),
        title=result.output,
    )


@render_card.register
def _render_partition(result: Partition) -> str:
    bins = bin_class_sizes(Counter(result.sizes.tolist()))
    return wrap_card("partition", _render_counts(result), _render_class_sizes(bins))


@render_card.register
def _render_attribute_partition(result: AttributePartition) -> str:
    sections = [
        render_paragraph("title", f"attribute {number}")
        + _render_counts(partition)
        + _render_class_sizes(bin_class_sizes(Counter(partition.sizes.tolist())))
        for number, partition in enumerate(result.partitions, 1)
    ]
    return wrap_card("partition, each attribute separately", *sections)


def _render_counts(result: Partition) -> str:
    sizes = result.sizes
    size_range = f"{sizes.min():,} to {sizes.max():,} records" if len(sizes) else "none"
    return render_figures(
        [
            ("classes", f"{result.n_classes:,}", size_range),
            ("records in classes", f"{len(result.labels) - result.n_suppressed:,}", ""),
            ("suppressed", f"{result.n_suppressed:,}", "in no class"),
        ]
    )


@render_card.register
def _render_evaluation(result: Evaluation) -> str:
    evaluation_figures = result.to_dict()
    parts = [
        render_figures([("rows", f"{result.rows:,}", f"{result.suppressed:,} suppressed")]),
        render_measures("What was lost", figures.describe_losses(evaluation_figures)),
        render_measures(
            "What an attacker still gains",
            figures.describe_risks(evaluation_figures, guarantee=None),
        ),
    ]
    by_column = figures.describe_columns(evaluation_figures)
    if by_column["rows"]:
        table = render_table(["column", *by_column["names"]], by_column["rows"])
        parts.append(render_details("By column", table))
    return wrap_card("evaluation", *parts)


@render_card.register
def _render_analyses(result: AnalysisComparison) -> str:
    header = ["analysis", "estimate", "original", "released", "difference", "overlap"]
    rows = [
        ("original", f"{result.original_rows:,}", ""),
        ("released", f"{result.released_rows:,}", ""),
    ]
    return wrap_card(
        "analyses",
        render_paragraph("warning", to_sentence(result.note)),
        render_figures(rows),
        render_table(header, result.table_rows()),
    )


def render_measures(title: str, table: PageValues) -> str:
    """Render a table of measures, and the names of measures without a figure, by reason.

    Parameters
    ----------
    table : ``rows``, each with ``name``, ``summary``, ``figure`` and ``bar``; and ``omitted``,
        pairs of a reason and names.
    """
    rows = "".join(
        f'<tr><th scope="row" title="{_escape_text(row["summary"])}">'
        f"{_escape_text(row['name'])}</th>"
        f'<td class="number">{_escape_text(row["figure"])}</td>'
        f'<td class="bar">{row["bar"]}</td></tr>'
        for row in table["rows"]
    )
    omitted = "".join(
        render_paragraph("quiet", f"Left out, {reason}: {', '.join(names)}")
        for reason, names in table["omitted"]
    )
    return f"{render_paragraph('title', title)}<table><tbody>{rows}</tbody></table>{omitted}"


@render_card.register
def _render_advice(result: Advice) -> str:
    rows_by_section: dict[str, list[tuple[str, str]]] = {}
    # The last element of a row is the text's content as JSON values.
    for section, subject, text, _ in result.table_rows():
        rows_by_section.setdefault(section, []).append((subject, text))
    return wrap_card(
        "advice",
        render_pairs(result.recommended()),
        _render_map(result),
        *(
            render_details(section, render_pairs(rows))
            for section, rows in rows_by_section.items()
            # The recommendation is the card's first table, and the source is its title.
            if section not in ("recommended", "table")
        ),
        title=result.source,
    )


@render_card.register
def _render_sweep(result: Sweep) -> str:
    notes = (render_paragraph("quiet", note) for note in result.notes())
    return wrap_card("sweep", _render_map(result), *notes)


def _render_map(result: Advice | Sweep) -> str:
    """Plot the loss of trial releases against their risk, with a ring for the recommended one."""
    sweep, recommended_point = split_advice(result)
    if not sweep.points:
        return ""
    points = [
        svg.MapPoint(
            label=f"k = {point.k}",
            risk=point.risk,
            loss=point.loss,
            curve=point.curve,
            is_chosen=point == recommended_point,
        )
        for point in sweep.points
    ]
    curves = dict.fromkeys(point.curve for point in points)
    legend_items = "".join(
        f"<li>{svg.draw_legend_symbol(index)} {_escape_text(curve)}</li>"
        for index, curve in enumerate(curves)
    )
    picture = svg.draw_tradeoff(
        points, "linkage risk", LOSS_NAMES[sweep.measure], derive_picture_id(points)
    )
    return f'<figure class="wide"><ul class="legend">{legend_items}</ul>{picture}</figure>'


def split_advice(result: Advice | Sweep) -> tuple[Sweep, Point | None]:
    """Return the trial releases, and the recommended one of them; None if none is recommended."""
    if isinstance(result, Sweep):
        return result, None
    recommendation = result.recommendation
    return result.sweep, None if recommendation is None else recommendation.point


def _render_class_sizes(bins: Sequence[tuple[str, int]], median: float | None = None) -> str:
    """Draw a histogram of class sizes; ``bins`` has the label and number of classes of each bin."""
    if not bins:
        return ""
    median_text = "" if median is None else f", median {median:g}"
    picture = svg.draw_class_sizes(bins, derive_picture_id(bins))
    caption = f"classes by their number of rows{median_text}"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def derive_picture_id(content: object) -> str:
    """Derive the identifier of a picture from its content."""
    return sha256(repr(content).encode()).hexdigest()[:12]


def wrap_card(kind: str, *parts: str, title: str = "") -> str:
    """Wrap the HTML parts of a card, with its style, kind of result and title, if any."""
    heading = render_paragraph("title", title) if title else ""
    body = f'<p class="kicker">dbanon · {_escape_text(kind)}</p>{heading}{"".join(parts)}'
    return f'<div class="dbanon-card"><style>{_build_style()}</style>{body}</div>'


def _escape_text(value: object) -> str:
    return escape(escape_control_characters(str(value)))


def render_paragraph(css_class: str, text: str) -> str:
    return f'<p class="{css_class}"><bdi>{_escape_text(text)}</bdi></p>'


def render_figures(rows: Iterable[tuple[str, str, str]]) -> str:
    """Render label, value and detail of each figure."""
    items = "".join(
        f"<div><dt>{_escape_text(label)}</dt>"
        f"<dd><strong>{_escape_text(value)}</strong><span>{_escape_text(detail)}</span></dd></div>"
        for label, value, detail in rows
    )
    return f'<dl class="figures">{items}</dl>'


def to_sentence(note: str) -> str:
    """Capitalize a note, and end it with a full stop."""
    return f"{note[0].upper()}{note[1:]}."


def render_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return render_table(header=[], rows=pairs)


def render_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table whose rows start with their name; with a header, its cells are numbers."""
    header_cells = "".join(f'<th scope="col">{_escape_text(name)}</th>' for name in header)
    class_attribute = ' class="number"' if header else ""
    body = "".join(
        f'<tr><th scope="row">{_escape_text(row_name)}</th>'
        + "".join(f"<td{class_attribute}>{_escape_text(cell)}</td>" for cell in cells)
        + "</tr>"
        for row_name, *cells in rows
    )
    table_header = f"<thead><tr>{header_cells}</tr></thead>" if header else ""
    return f"<table>{table_header}<tbody>{body}</tbody></table>"


def render_details(title: str, body: str) -> str:
    return f"<details><summary>{_escape_text(title)}</summary>{body}</details>"


@cache
def _build_style() -> str:
    """Build the style rules of cards and their pictures, limited to cards."""
    rules = "".join(_read_file(name) for name in ("pictures.css", "card.css"))
    return f"{_CARD_SELECTOR} {{ {_COLORS} }}\n{''.join(_limit_to_cards(rules))}"


def _limit_to_cards(rules: str) -> Iterator[str]:
    """Limit CSS rules to cards; ``&`` in a selector stands for the card itself."""
    for selector_list, body in _RULE_PATTERN.findall(rules):
        selectors = (
            selector.strip().replace("&", _CARD_SELECTOR)
            if "&" in selector
            else f"{_CARD_SELECTOR} {selector.strip()}"
            for selector in selector_list.split(",")
        )
        yield f"{', '.join(selectors)} {body}\n"


def _read_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
