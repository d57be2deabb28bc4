"""Cards: what a notebook shows of a result, with the report's own pictures.

A card contains no more than the report, or than ``to_dict`` of the result. It has no script and
loads nothing. Text from data is escaped, and its control and direction characters are written out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, singledispatch
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from dbanon.advice.answer import Advice, Sweep
from dbanon.advice.recommend import Point
from dbanon.bounds.certificate import Certificate
from dbanon.data.partition import AttributePartition, Partition
from dbanon.data.words import escape_control_characters
from dbanon.doors.html import figures, svg
from dbanon.doors.html.figures import Row
from dbanon.doors.html.view import headline, size_bins
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.release.attacks import Attacks
from dbanon.release.evaluation import Evaluation
from dbanon.release.report import Report

# The text colour is the notebook's own; the other colours are legible on light and on dark.
_COLOURS = (
    "--ink: currentColor; --quiet: color-mix(in srgb, currentColor 68%, transparent);"
    " --line: rgba(128, 128, 128, .35); --track: rgba(128, 128, 128, .2); --mark: #3f81b5;"
    " --limit: #d0602f; --warnline: #d0812f; --link: #3f81b5; --curve0: #3f81b5;"
    " --curve1: #d0602f; --curve2: #3c9160; --curve3: #9a68b8;"
)
_RULE = re.compile(r"([^{}]+)(\{[^{}]*\})")
_CARD = ".dbanon-card"

# The losses of a sweep, as reports name them.
LOSSES = {"sse_loss": "SSE/SST", "iloss": "iloss per cell"}


@singledispatch
def card(result: Any) -> str:
    """A result as HTML."""
    raise TypeError(f"There is no card of {type(result).__name__}.")


@card.register
def _report(result: Report) -> str:
    evaluation = result.evaluation
    guarantee = guarantee_from_ledger(result.k_requested, result.arguments)
    bins = size_bins(result.counts.rows.histogram)
    return _card(
        "report",
        result.output,
        _figures(row[:3] for row in headline(result, guarantee, evaluation)),
        _paragraph("guarantee", result.guarantee),
        *(_paragraph("warning", text) for text in result.warning_texts),
        _sizes(bins, result.median_class),
        _details("The complete report", _pairs(result.pairs())),
    )


@card.register
def _partition(result: Partition) -> str:
    bins = size_bins(Counter(result.sizes.tolist()))
    return _card("partition", "", _counts(result), _sizes(bins, None))


@card.register
def _attributes(result: AttributePartition) -> str:
    parts = [
        _paragraph("title", f"attribute {position}")
        + _counts(part)
        + _sizes(size_bins(Counter(part.sizes.tolist())), None)
        for position, part in enumerate(result.partitions, 1)
    ]
    return _card("partition, each attribute separately", "", *parts)


def _counts(result: Partition) -> str:
    sizes = result.sizes
    size_range = f"{sizes.min():,} to {sizes.max():,} records" if len(sizes) else "none"
    return _figures(
        [
            ("classes", f"{result.n_classes:,}", size_range),
            ("records in classes", f"{len(result.labels) - result.n_suppressed:,}", ""),
            ("suppressed", f"{result.n_suppressed:,}", "in no class"),
        ]
    )


@card.register
def _evaluation(result: Evaluation) -> str:
    figures_of_result = result.to_dict()
    parts = [
        _figures([("rows", f"{result.rows:,}", f"{result.suppressed:,} suppressed")]),
        _measures("What was lost", figures.losses(figures_of_result)),
        _measures("What an attacker still gains", figures.risks(figures_of_result, None)),
    ]
    by_column = figures.by_column(figures_of_result)
    if by_column["rows"]:
        table = _table(["column", *by_column["names"]], by_column["rows"])
        parts.append(_details("By column", table))
    return _card("evaluation", "", *parts)


@card.register
def _attacks(result: Attacks) -> str:
    rows = [
        {"name": name, "summary": words, "figure": f"{risk:.3f}", "bar": svg.share_bar(risk)}
        for (name, words), risk in zip(result.pairs(), result.risks.values(), strict=True)
        if risk is not None
    ]
    without_risk = [
        (attack.note, [name]) for name, attack in result.results.items() if attack.risk is None
    ]
    counts = [
        ("originals", f"{result.originals:,}", "records"),
        ("controls", f"{result.controls:,}", "records"),
        ("released", f"{result.released:,}", "rows"),
    ]
    return _card(
        "attacks",
        "",
        _paragraph("warning", "For the controller, not for publication."),
        _figures(counts),
        _measures("What an attacker gains", {"rows": rows, "left": without_risk}),
        _details("In words", _pairs(result.pairs())),
    )


def _measures(title: str, table: Row) -> str:
    """A table of measures, then the names of those without a figure, with the reason."""
    rows = "".join(
        f'<tr><th scope="row" title="{_text(row["summary"])}">{_text(row["name"])}</th>'
        f'<td class="number">{_text(row["figure"])}</td><td class="bar">{row["bar"]}</td></tr>'
        for row in table["rows"]
    )
    left = "".join(
        _paragraph("quiet", f"Left out, {reason}: {', '.join(names)}")
        for reason, names in table["left"]
    )
    return f"{_paragraph('title', title)}<table><tbody>{rows}</tbody></table>{left}"


@card.register
def _certificate(result: Certificate) -> str:
    share = f"{100 * result.share:.2f} %"
    bound = ("information loss at least", share, "of any classes of k or more")
    return _card(
        "certificate",
        "",
        _figures([bound, ("k", f"{result.k:,}", f"{len(result.prices):,} records")]),
        f"<figure>{svg.share_bar(result.share)}<figcaption>From 0 to the maximum loss."
        "</figcaption></figure>",
        _pairs(result.pairs()),
    )


@card.register
def _advice(result: Advice) -> str:
    parts: dict[str, list[Sequence[str]]] = {}
    for part, about, words, _ in result.table_rows():
        parts.setdefault(part, []).append((about, words))
    return _card(
        "advice",
        result.source,
        _pairs(result.recommended()),
        _map(result),
        *(
            _details(part, _table([], rows))
            for part, rows in parts.items()
            if part not in ("recommended", "table")
        ),
    )


@card.register
def _sweep(result: Sweep) -> str:
    return _card("sweep", "", _map(result), *(_paragraph("quiet", note) for note in result.notes()))


def _map(result: Advice | Sweep) -> str:
    """Loss against risk of each release that was tried; the recommended one has a ring."""
    sweep, chosen = sweep_and_choice(result)
    if not sweep.points:
        return ""
    spots = [
        svg.MapPoint(f"k = {point.k}", point.risk, point.loss, point.curve, point == chosen)
        for point in sweep.points
    ]
    curves = dict.fromkeys(spot.curve for spot in spots)
    signs = "".join(
        f"<li>{svg.legend(index)} {_text(curve)}</li>" for index, curve in enumerate(curves)
    )
    picture = svg.tradeoff(spots, "linkage risk", LOSSES[sweep.measure], _number(spots))
    return f'<figure class="wide"><ul class="legend">{signs}</ul>{picture}</figure>'


def sweep_and_choice(result: Advice | Sweep) -> tuple[Sweep, Point | None]:
    """The releases that were tried, and the recommended one of them, if any."""
    if isinstance(result, Sweep):
        return result, None
    recommendation = result.recommendation
    return result.sweep, None if recommendation is None else recommendation.point


def _sizes(bins: Sequence[tuple[str, int]], median: float | None) -> str:
    if not bins:
        return ""
    median_text = "" if median is None else f", median {median:g}"
    return (
        f"<figure>{svg.sizes(bins, _number(bins))}<figcaption>classes by their number of rows"
        f"{median_text}</figcaption></figure>"
    )


def _number(content: object) -> str:
    """An identifier for a picture on the page; equal pictures have the same."""
    return sha256(repr(content).encode()).hexdigest()[:12]


def _card(kind: str, title: str, *parts: str) -> str:
    name = _paragraph("title", title) if title else ""
    body = f'<p class="kicker">dbanon · {_text(kind)}</p>{name}{"".join(parts)}'
    return f'<div class="dbanon-card"><style>{_style()}</style>{body}</div>'


def _text(value: object) -> str:
    return escape(escape_control_characters(str(value)))


def _paragraph(kind: str, text: str) -> str:
    return f'<p class="{kind}"><bdi>{_text(text)}</bdi></p>'


def _figures(rows: Iterable[tuple[str, str, str]]) -> str:
    items = "".join(
        f"<div><dt>{_text(label)}</dt><dd><strong>{_text(value)}</strong><span>{_text(of)}</span>"
        "</dd></div>"
        for label, value, of in rows
    )
    return f'<dl class="figures">{items}</dl>'


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _table([], pairs)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{_text(name)}</th>' for name in head)
    kind = ' class="number"' if head else ""
    body = "".join(
        f'<tr><th scope="row">{_text(first)}</th>'
        + "".join(f"<td{kind}>{_text(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _details(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


@cache
def _style() -> str:
    """Style rules of cards and their pictures, limited to cards."""
    rules = "".join(_file(name) for name in ("pictures.css", "card.css"))
    return f"{_CARD} {{ {_COLOURS} }}\n{''.join(_limit_to_cards(rules))}"


def _limit_to_cards(rules: str) -> Iterator[str]:
    for names, body in _RULE.findall(rules):
        selectors = (
            name.strip().replace("&", _CARD) if "&" in name else f"{_CARD} {name.strip()}"
            for name in names.split(",")
        )
        yield f"{', '.join(selectors)} {body}\n"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
