"""Cards: what a notebook shows of a result, with the report's own pictures.

A card says no more than the report, or than ``to_dict`` of the result. It holds no script and loads
nothing. Text of others is escaped, and its control characters and marks of direction written out.
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
from dbanon.data.words import printable
from dbanon.doors.html import figures, svg
from dbanon.doors.html.figures import Row
from dbanon.doors.html.view import headline, size_bins
from dbanon.job.guarantee_names import recorded
from dbanon.release.attacks import Attacks
from dbanon.release.evaluation import Evaluation
from dbanon.release.report import Report

# Both themes of a notebook: the ink is its own, and the others can be read on light and dark.
_COLOURS = (
    "--ink: currentColor; --quiet: color-mix(in srgb, currentColor 68%, transparent);"
    " --line: rgba(128, 128, 128, .35); --track: rgba(128, 128, 128, .2); --mark: #3f81b5;"
    " --limit: #d0602f; --warnline: #d0812f; --link: #3f81b5; --curve0: #3f81b5;"
    " --curve1: #d0602f; --curve2: #3c9160; --curve3: #9a68b8;"
)
_RULE = re.compile(r"([^{}]+)(\{[^{}]*\})")
_CARD = ".dbanon-card"

# The losses of a sweep, as reports name them.
LOSSES = {"sse_loss": "SSE/SST", "iloss": "iloss a cell"}


@singledispatch
def card(shown: Any) -> str:
    """A result as HTML."""
    raise TypeError(f"There is no card of {type(shown).__name__}.")


@card.register
def _report(shown: Report) -> str:
    evaluation = shown.evaluation
    guarantee = recorded(shown.k_requested, shown.arguments)
    bins = size_bins(shown.counts.rows.histogram)
    return _card(
        "report",
        shown.output,
        _figures(one[:3] for one in headline(shown, guarantee, evaluation)),
        _paragraph("guarantee", shown.guarantee),
        *(_paragraph("warning", told) for told in shown.warned),
        _sizes(bins, shown.median_class),
        _details("All that the report says", _pairs(shown.pairs())),
    )


@card.register
def _partition(shown: Partition) -> str:
    bins = size_bins(Counter(shown.sizes.tolist()))
    return _card("partition", "", _counts(shown), _sizes(bins, None))


@card.register
def _attributes(shown: AttributePartition) -> str:
    parts = [
        _paragraph("title", f"attribute {place}")
        + _counts(part)
        + _sizes(size_bins(Counter(part.sizes.tolist())), None)
        for place, part in enumerate(shown.partitions, 1)
    ]
    return _card("partition, each attribute by itself", "", *parts)


def _counts(shown: Partition) -> str:
    sizes = shown.sizes
    between = f"{sizes.min():,} to {sizes.max():,} records" if len(sizes) else "none"
    return _figures(
        [
            ("classes", f"{shown.n_classes:,}", between),
            ("records in classes", f"{len(shown.labels) - shown.n_suppressed:,}", ""),
            ("suppressed", f"{shown.n_suppressed:,}", "in no class"),
        ]
    )


@card.register
def _evaluation(shown: Evaluation) -> str:
    told = shown.to_dict()
    parts = [
        _figures([("rows", f"{shown.rows:,}", f"{shown.suppressed:,} suppressed")]),
        _measures("What was lost", figures.losses(told)),
        _measures("What an attacker still gains", figures.risks(told, None)),
    ]
    own = figures.by_column(told)
    if own["rows"]:
        table = _table(["column", *own["names"]], own["rows"])
        parts.append(_details("By column", table))
    return _card("evaluation", "", *parts)


@card.register
def _attacks(shown: Attacks) -> str:
    rows = [
        {"name": name, "summary": words, "figure": f"{risk:.3f}", "bar": svg.share_bar(risk)}
        for (name, words), risk in zip(shown.pairs(), shown.risks.values(), strict=True)
        if risk is not None
    ]
    without = [(one.note, [name]) for name, one in shown.found.items() if one.risk is None]
    counts = [
        ("originals", f"{shown.originals:,}", "records"),
        ("controls", f"{shown.controls:,}", "records"),
        ("released", f"{shown.released:,}", "rows"),
    ]
    return _card(
        "attacks",
        "",
        _paragraph("warning", "For the controller, not for publication."),
        _figures(counts),
        _measures("What an attacker gains", {"rows": rows, "left": without}),
        _details("In words", _pairs(shown.pairs())),
    )


def _measures(title: str, found: Row) -> str:
    """A table of measures, and the names of those that say nothing here, with the reason."""
    rows = "".join(
        f'<tr><th scope="row" title="{_text(row["summary"])}">{_text(row["name"])}</th>'
        f'<td class="number">{_text(row["figure"])}</td><td class="bar">{row["bar"]}</td></tr>'
        for row in found["rows"]
    )
    left = "".join(
        _paragraph("quiet", f"Left out, {reason}: {', '.join(names)}")
        for reason, names in found["left"]
    )
    return f"{_paragraph('title', title)}<table><tbody>{rows}</tbody></table>{left}"


@card.register
def _certificate(shown: Certificate) -> str:
    share = f"{100 * shown.share:.2f} %"
    bound = ("information loss at least", share, "of any classes of k or more")
    return _card(
        "certificate",
        "",
        _figures([bound, ("k", f"{shown.k:,}", f"{len(shown.prices):,} records")]),
        f"<figure>{svg.share_bar(shown.share)}<figcaption>From 0 to all that can be lost."
        "</figcaption></figure>",
        _pairs(shown.pairs()),
    )


@card.register
def _advice(shown: Advice) -> str:
    parts: dict[str, list[Sequence[str]]] = {}
    for part, about, words, _ in shown.table_rows():
        parts.setdefault(part, []).append((about, words))
    return _card(
        "advice",
        shown.source,
        _pairs(shown.recommended()),
        _map(shown),
        *(
            _details(part, _table([], rows))
            for part, rows in parts.items()
            if part not in ("recommended", "table")
        ),
    )


@card.register
def _sweep(shown: Sweep) -> str:
    return _card("sweep", "", _map(shown), *(_paragraph("quiet", note) for note in shown.notes()))


def _map(shown: Advice | Sweep) -> str:
    """Loss against risk of what was tried; the one recommended has a ring."""
    sweep, chosen = tried(shown)
    if not sweep.points:
        return ""
    spots = [
        svg.Spot(f"k = {point.k}", point.risk, point.loss, point.curve, point == chosen)
        for point in sweep.points
    ]
    curves = dict.fromkeys(spot.curve for spot in spots)
    signs = "".join(
        f"<li>{svg.legend(place)} {_text(curve)}</li>" for place, curve in enumerate(curves)
    )
    picture = svg.tradeoff(spots, "linkage risk", LOSSES[sweep.measure], _number(spots))
    return f'<figure class="wide"><ul class="legend">{signs}</ul>{picture}</figure>'


def tried(shown: Advice | Sweep) -> tuple[Sweep, Point | None]:
    """What was tried, and the release of it that is recommended, if there is one."""
    if isinstance(shown, Sweep):
        return shown, None
    found = shown.recommendation
    return shown.sweep, None if found is None else found.point


def _sizes(bins: Sequence[tuple[str, int]], median: float | None) -> str:
    if not bins:
        return ""
    told = "" if median is None else f", median {median:g}"
    return (
        f"<figure>{svg.sizes(bins, _number(bins))}<figcaption>classes by their number of rows"
        f"{told}</figcaption></figure>"
    )


def _number(drawn: object) -> str:
    """What tells a picture from others on the page; pictures that are alike have one."""
    return sha256(repr(drawn).encode()).hexdigest()[:12]


def _card(kind: str, title: str, *parts: str) -> str:
    name = _paragraph("title", title) if title else ""
    body = f'<p class="kicker">dbanon · {_text(kind)}</p>{name}{"".join(parts)}'
    return f'<div class="dbanon-card"><style>{_style()}</style>{body}</div>'


def _text(told: object) -> str:
    return escape(printable(str(told)))


def _paragraph(kind: str, told: str) -> str:
    return f'<p class="{kind}"><bdi>{_text(told)}</bdi></p>'


def _figures(found: Iterable[tuple[str, str, str]]) -> str:
    drawn = "".join(
        f"<div><dt>{_text(label)}</dt><dd><strong>{_text(value)}</strong><span>{_text(of)}</span>"
        "</dd></div>"
        for label, value, of in found
    )
    return f'<dl class="figures">{drawn}</dl>'


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _table([], pairs)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{_text(name)}</th>' for name in head)
    kind = ' class="number"' if head else ""
    body = "".join(
        f'<tr><th scope="row">{_text(first)}</th>'
        + "".join(f"<td{kind}>{_text(one)}</td>" for one in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _details(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


@cache
def _style() -> str:
    """The card's rules and those of pictures, which hold inside cards alone."""
    rules = "".join(_file(name) for name in ("pictures.css", "card.css"))
    return f"{_CARD} {{ {_COLOURS} }}\n{''.join(_inside(rules))}"


def _inside(rules: str) -> Iterator[str]:
    for names, body in _RULE.findall(rules):
        inside = (
            name.strip().replace("&", _CARD) if "&" in name else f"{_CARD} {name.strip()}"
            for name in names.split(",")
        )
        yield f"{', '.join(inside)} {body}\n"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
