"""Cards for notebooks of the disclosure risk of samples: pictures and figures, none of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dbanon.doors.html import card, svg


@dataclass(frozen=True)
class RiskView:
    """What cards and pages show of the risk of a sample, and of its release if there is one.

    Parameters
    ----------
    kind : the kind of result.
    title : the names of the tables.
    use : whom the figures are for.
    headline : label, figure and detail of the most important figures.
    edges : the ends of the intervals of individual risk, from the lowest to the highest.
    series : name, numbers of records by interval, and number of all records of each table.
    notes : what the figures mean and what limits them.
    figures : label, figure before, figure after; empty for a sample alone.
    pairs : the result as pairs of label and text.
    """

    kind: str
    title: str
    use: str
    headline: Sequence[tuple[str, str, str]]
    edges: Sequence[float]
    series: Sequence[tuple[str, Sequence[int], int]]
    notes: Sequence[str]
    figures: Sequence[tuple[str, str, str]]
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class RiskPicture:
    """A picture of individual risks.

    Parameters
    ----------
    caption : what it shows.
    svg : the picture.
    legend : symbol and name of each series; empty for a single one.
    header, rows : the numbers of the picture as a table.
    """

    caption: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def draw_pictures(view: RiskView) -> list[RiskPicture]:
    """Draw the distribution of individual risk, and the share of records above each threshold."""
    names = tuple(name for name, _, _ in view.series)
    edges = [f"{edge:g}" for edge in view.edges]
    inside = [(name, [n / total for n in counts]) for name, counts, total in view.series]
    above = [
        (name, [sum(counts[step:]) / total for step in range(len(edges))])
        for name, counts, total in view.series
    ]
    intervals = [f"above {low}, up to {high}" for low, high in pairwise(edges)]
    picture_id = card.derive_picture_id(view.series)
    distribution = RiskPicture(
        "Share of records by individual risk",
        svg.draw_share_bars(
            "Individual risk", edges, inside, "individual risk", f"{picture_id}-bars"
        ),
        _list_symbols(names, svg.draw_bar_symbol),
        ("individual risk", *names),
        tuple(_tabulate(intervals, inside)),
    )
    thresholds = RiskPicture(
        "Share of records whose individual risk is above a threshold",
        svg.draw_share_curves(
            "Risk against threshold", edges, above, "threshold", f"{picture_id}-curves"
        ),
        _list_symbols(names, svg.draw_legend_symbol),
        ("threshold", *names),
        tuple(_tabulate(edges, above)),
    )
    return [distribution, thresholds]


def render_risk_card(view: RiskView) -> str:
    """Render the card for notebooks."""
    figures = ""
    if view.figures:
        table = card.render_table(("measure", "before", "after"), view.figures)
        figures = card.render_details("All figures", table)
    return card.wrap_card(
        view.kind,
        card.render_paragraph("warning", view.use),
        card.render_figures(view.headline),
        *map(_render_picture, draw_pictures(view)),
        *(card.render_paragraph("quiet", card.to_sentence(note)) for note in view.notes),
        figures,
        card.render_details("In words", card.render_pairs(view.pairs)),
        title=view.title,
    )


def _tabulate(
    labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]]
) -> Iterator[tuple[str, ...]]:
    """Yield the shares of each series by label, as text."""
    columns = [shares for _, shares in series]
    for label, *shares in zip(labels, *columns, strict=True):
        yield (label, *(f"{100 * share:.3g} %" for share in shares))


def _list_symbols(names: Sequence[str], draw: Callable[[int], str]) -> tuple[tuple[str, str], ...]:
    """Return symbol and name of each series, if there are several."""
    if len(names) == 1:
        return ()
    return tuple((draw(index), name) for index, name in enumerate(names))


def _render_picture(picture: RiskPicture) -> str:
    items = "".join(f"<li>{symbol} {name}</li>" for symbol, name in picture.legend)
    legend = f'<ul class="legend">{items}</ul>' if items else ""
    table = card.render_details("Numbers", card.render_table(picture.header, picture.rows))
    return (
        f'<figure class="wide">{legend}{picture.svg}'
        f"<figcaption>{picture.caption}</figcaption></figure>{table}"
    )
