"""Pictures as SVG inside a page. The page's style sheet sets colours, fonts and sizes.

Each has a title and a description for screen readers, and uses shapes or dashes beside colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from dbanon.data.words import printable
from dbanon.release.distribution import Distribution, require_displayable

# Widths and heights of a histogram, in units that are pixels on a small screen.
_WIDE, _HIGH, _LEFT, _TOP, _FOOT = 320, 150, 8, 16, 22
# Left, top, right and bottom.
_Box = tuple[float, float, float, float]
# The mean width of a letter of the page's font in pictures.
_LETTER = 6.2


@dataclass(frozen=True)
class MapPoint:
    """A point of the map of risk and loss.

    Parameters
    ----------
    label : the text beside it.
    risk, loss : its coordinates.
    curve : the curve that it belongs to, such as its method.
    chosen : whether it is this release.
    """

    label: str
    risk: float
    loss: float
    curve: str
    chosen: bool = False


def share_bar(share: float, limit: float | None = None) -> str:
    """A bar from 0 to 1 with a mark at its limit; the figure beside it is for screen readers."""
    width = 100 * min(max(share, 0.0), 1.0)
    mark = ""
    if limit is not None and 0 <= limit <= 1:
        mark = f'<line class="limit" x1="{100 * limit:.2f}" x2="{100 * limit:.2f}" y1="0" y2="10"/>'
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="ground" x="0" y="3" width="100" height="4"/>'
        f'<rect class="mark" x="0" y="1.5" width="{width:.2f}" height="7"/>{mark}</svg>'
    )


def histogram(distribution: Distribution, number: int | str) -> str:
    """A histogram of bins; ``number`` is unique on the page.

    Raises
    ------
    AssertionError : it would show fewer rows than it may.
    """
    require_displayable(distribution)
    steps = len(distribution.edges) - 1
    heights = [bar.rows / bar.width for bar in distribution.bars]
    bars = [
        (bar.low, bar.width, height)
        for bar, height in zip(distribution.bars, heights, strict=True)
        if bar.rows
    ]
    title = f"Released values of {printable(distribution.name)}"
    desc = (
        f"{len(distribution.bars)} bins. The area of a bar shows its rows; the table has the"
        " numbers."
    )
    return _histogram(title, desc, bars, steps, list(distribution.edges), number)


def sizes(bins: Sequence[tuple[str, int]], number: int | str) -> str:
    """A histogram of class sizes: label and number of classes of each bin."""
    bars = [(index, 1, float(count)) for index, (_, count) in enumerate(bins) if count]
    labels = [label for label, _ in bins]
    desc = f"Number of classes by size, in {len(bins)} steps; the table has the numbers."
    return _histogram("Class sizes", desc, bars, len(bins), labels, number, between=True)


def _histogram(
    title: str,
    desc: str,
    bars: Sequence[tuple[int, int, float]],
    steps: int,
    labels: Sequence[str],
    number: int | str,
    *,
    between: bool = False,
) -> str:
    """Bars over an axis; ``labels`` stand at the edges of steps, or between them."""
    bottom, right = _HIGH - _FOOT, _WIDE - _LEFT
    step = (right - _LEFT) / max(steps, 1)
    # A single class size is a bar, not a wall.
    step = min(step, 64.0) if between else step
    start = _LEFT if not between else (_WIDE - step * steps) / 2
    tallest = max((height for _, _, height in bars), default=1.0) or 1.0
    shapes = []
    for low, width, height in bars:
        tall = max((bottom - _TOP) * height / tallest, 1.5)
        x, wide = start + low * step, width * step
        gap = min(1.0, wide / 8)
        shapes.append(
            f'<rect class="mark" x="{x + gap:.1f}" y="{bottom - tall:.1f}"'
            f' width="{wide - 2 * gap:.1f}" height="{tall:.1f}"/>'
        )
    ticks = [
        (start + (index + (0.5 if between else 0)) * step, text)
        for index, text in enumerate(labels)
    ]
    axis = f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    body = "".join(shapes) + axis + _ticks(ticks, bottom)
    return _picture(title, desc, body, (_WIDE, _HIGH), number, "histogram")


def _ticks(ticks: Sequence[tuple[float, str]], bottom: float) -> str:
    """Labels below an axis, as many as have room."""
    shapes, free = [], 0.0
    for x, text in ticks:
        half = _LETTER * len(text) / 2
        if not text or x - half < free or x + half > _WIDE:
            continue
        shapes.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
        )
        free = x + half + 10
    return "".join(shapes)


def tradeoff(spots: Sequence[MapPoint], risk_name: str, loss_name: str, number: int | str) -> str:
    """The map of risk against loss: a curve for each method, this release marked."""
    wide, high, left, bottom, top, right = 560, 380, 68, 332, 18, 540
    most_risk = _top(max(spot.risk for spot in spots))
    most_loss = _top(max(spot.loss for spot in spots))

    def at(spot: MapPoint) -> tuple[float, float]:
        return (
            left + (right - left) * spot.risk / most_risk,
            bottom - (bottom - top) * spot.loss / most_loss,
        )

    parts = [
        f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        f'<line class="axis" x1="{left}" x2="{left}" y1="{top}" y2="{bottom}"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = left + (right - left) * share, bottom - (bottom - top) * share
        if share:
            parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">'
            f"{most_risk * share:.3g}</text>"
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{most_loss * share:.3g}</text>'
        )
    parts.append(
        f'<text class="name" x="{(left + right) / 2}" y="{high - 8}" text-anchor="middle">'
        f"{escape(risk_name)}</text>"
        f'<text class="name" text-anchor="middle" transform="translate(14 {(top + bottom) / 2})'
        f' rotate(-90)">{escape(loss_name)}</text>'
    )
    curves = list(dict.fromkeys(spot.curve for spot in spots))
    for index, curve in enumerate(curves):
        spots_of_curve = [spot for spot in spots if spot.curve == curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, spots_of_curve))
        kind = index % 4
        parts.append(f'<polyline class="curve curve{kind}" points="{line}"/>')
        parts += [_shape(kind, *at(spot)) for spot in spots_of_curve]
    parts += [
        f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        for x, y in (at(spot) for spot in spots if spot.chosen)
    ]
    parts += _labels(spots, at, (left, top, right, bottom))
    desc = (
        f"{len(spots)} releases of {len(curves)} methods: {risk_name} from left to right,"
        f" {loss_name} upwards; this release has a ring. The table has the figures."
    )
    return _picture("Loss against risk", desc, "".join(parts), (wide, high), number, "map")


def _labels(
    spots: Sequence[MapPoint], at: Callable[[MapPoint], tuple[float, float]], room: _Box
) -> list[str]:
    """The labels of the points, each at the first free position near its point.

    This release and both ends of each curve come first, and nearly always get a label. Any other
    point has none if its label would cover something.
    """
    points = [at(spot) for spot in spots]
    dots = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    lines = [
        box
        for (before, a), (after, b) in pairwise(zip(spots, points, strict=True))
        if before.curve == after.curve
        for box in _along(a, b)
    ]
    curves = [spot.curve for spot in spots]
    last = {curve: index for index, curve in enumerate(curves)}
    ends = {*map(curves.index, curves), *last.values()}
    ranked = sorted(range(len(spots)), key=lambda i: (not spots[i].chosen, i not in ends))
    placed: list[_Box] = []
    labels = []
    for index in ranked:
        spot, (x, y) = spots[index], points[index]
        wide = _LETTER * len(spot.label) + 4
        offsets = [(12, 4), (8, -9), (-8 - wide, 19), (-12 - wide, 4), (8, 19), (-8 - wide, -9)]
        avoided = [[*placed, *dots, *lines]]
        if spot.chosen or index in ends:
            # Its label may be further away, then over lines, then over points.
            offsets += [(dx, dy) for dy in (33, -23, 47, -37) for dx in (8, -8 - wide)]
            avoided += [[*placed, *dots], placed]
        corners = [(x + dx, y + dy) for dx, dy in offsets]
        inside = [corner for corner in corners if _is_inside(_text_box(corner, wide), room)]
        free = (
            corner
            for obstacles in avoided
            for corner in inside
            if not any(_overlap(_text_box(corner, wide), obstacle) for obstacle in obstacles)
        )
        chosen = next(free, None)
        if chosen is None:
            continue
        placed.append(_text_box(chosen, wide))
        kind = ' class="strong"' if spot.chosen else ""
        labels.append(
            f'<text{kind} x="{chosen[0]:.1f}" y="{chosen[1]:.1f}">'
            f"{escape(printable(spot.label))}</text>"
        )
    return labels


def _text_box(corner: tuple[float, float], wide: float) -> _Box:
    """The box that a label covers; its text starts at this corner, on the base line."""
    x, y = corner
    return (x - 2, y - 12, x + wide + 2, y + 4)


def _is_inside(box: _Box, room: _Box) -> bool:
    """Whether a label lies between the axes and the right end; it may reach above the top."""
    left, top, right, bottom = room
    return left < box[0] and box[2] < right and top - 14 < box[1] and box[3] < bottom


def _along(start: tuple[float, float], end: tuple[float, float]) -> list[_Box]:
    """Small boxes along a line."""
    parts = [part / 24 for part in range(1, 24)]
    centres = [tuple(a + (b - a) * part for a, b in zip(start, end, strict=True)) for part in parts]
    return [(x - 2, y - 2, x + 2, y + 2) for x, y in centres]


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _shape(kind: int, x: float, y: float) -> str:
    """A point of a curve: a circle, square, triangle or diamond."""
    if kind == 0:
        return f'<circle class="point curve0" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    corners = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }[kind]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="point curve{kind}" points="{points}"/>'


def legend(index: int) -> str:
    """The sign of a curve of the map, for its legend."""
    kind = index % 4
    return (
        '<svg class="sign" viewBox="0 0 36 14" aria-hidden="true">'
        f'<polyline class="curve curve{kind}" points="1,7 35,7"/>{_shape(kind, 18, 7)}</svg>'
    )


def _top(value: float) -> float:
    """A round end of an axis."""
    for power in range(-12, 13):
        for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8):
            if step * 10.0**power >= value * 1.02:
                return step * 10.0**power
    return value


def _picture(
    title: str, desc: str, body: str, size: tuple[int, int], number: int | str, kind: str
) -> str:
    prefix = f"picture{number}"
    return (
        f'<svg class="picture {kind}" role="img" viewBox="0 0 {size[0]} {size[1]}"'
        f' aria-labelledby="{prefix}-title {prefix}-desc">'
        f'<title id="{prefix}-title">{escape(title)}</title>'
        f'<desc id="{prefix}-desc">{escape(desc)}</desc>{body}</svg>'
    )
