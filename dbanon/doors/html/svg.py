"""Draws SVG pictures for a page, whose style sheet sets colors, fonts and sizes.

Each picture has a title and a description for screen readers. Curves differ in shapes and dashes,
too, for readers who cannot tell their colors apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from dbanon.data.words import escape_control_characters
from dbanon.release.distribution import Distribution, require_displayable

# Size and margins of a histogram, in units of its view box.
_WIDTH, _HEIGHT = 320, 150
_MARGIN_SIDE, _MARGIN_TOP, _MARGIN_BOTTOM = 8, 16, 22
# Left, top, right and bottom of a rectangle.
_Box = tuple[float, float, float, float]
# Size of a picture of shares, and the area between its axes: left, top, right and bottom.
_SHARE_WIDTH, _SHARE_HEIGHT = 560, 240
_SHARE_AREA = (52, 14, 540, 190)
# The classes of the bars of the first series, and of others.
_BAR_CLASSES = ("mark", "curve curve1")
# The mean width of a letter of the page's font in pictures.
_LETTER_WIDTH = 6.2
# Number of styles of curves in ``pictures.css``; further curves repeat them.
_N_CURVE_STYLES = 4


@dataclass(frozen=True)
class MapPoint:
    """A point of the plot of loss against risk, which is called the map.

    Parameters
    ----------
    label : the text next to the point.
    risk, loss : the coordinates of the point.
    curve : the name of the curve, such as the method.
    is_chosen : whether the point is the release that the page describes.
    """

    label: str
    risk: float
    loss: float
    curve: str
    is_chosen: bool = False


def draw_share_bar(share: float, limit: float | None = None) -> str:
    """Draw a bar for a share of 0 to 1, with a line at the limit of the share, if there is one.

    Screen readers skip it: the page shows the figure next to it.
    """
    width = 100 * min(max(share, 0.0), 1.0)
    limit_line = ""
    if limit is not None and 0 <= limit <= 1:
        x = f"{100 * limit:.2f}"
        limit_line = f'<line class="limit" x1="{x}" x2="{x}" y1="0" y2="10"/>'
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="ground" x="0" y="3" width="100" height="4"/>'
        f'<rect class="mark" x="0" y="1.5" width="{width:.2f}" height="7"/>{limit_line}</svg>'
    )


def draw_histogram(distribution: Distribution, picture_id: int | str) -> str:
    """Draw a histogram of a distribution that has bins.

    Parameters
    ----------
    picture_id : part of HTML ids, so it must be unique on the page.

    Raises
    ------
    AssertionError : a bar would stand for fewer rows than allowed.
    """
    require_displayable(distribution)
    # Bins differ in width, so the area of a bar stands for its rows, not its height.
    heights = [bar.rows / bar.width for bar in distribution.bars]
    bars = [
        (bar.low, bar.width, height)
        for bar, height in zip(distribution.bars, heights, strict=True)
        if bar.rows
    ]
    title = f"Released values of {escape_control_characters(distribution.name)}"
    description = (
        f"{len(distribution.bars)} bins. The area of a bar shows its rows; the table has the"
        " numbers."
    )
    return _draw_bars(
        title,
        description,
        bars,
        n_steps=len(distribution.edges) - 1,
        labels=list(distribution.edges),
        picture_id=picture_id,
    )


def draw_class_sizes(bins: Sequence[tuple[str, int]], picture_id: int | str) -> str:
    """Draw a histogram of class sizes.

    Parameters
    ----------
    bins : label and number of classes of each bin.
    picture_id : part of HTML ids, so it must be unique on the page.
    """
    bars = [(index, 1, float(count)) for index, (_, count) in enumerate(bins) if count]
    labels = [label for label, _ in bins]
    description = f"Number of classes by size, in {len(bins)} steps; the table has the numbers."
    return _draw_bars(
        "Class sizes",
        description,
        bars,
        n_steps=len(bins),
        labels=labels,
        picture_id=picture_id,
        labels_below_steps=True,
    )


def _draw_bars(
    title: str,
    description: str,
    bars: Sequence[tuple[int, int, float]],
    *,
    n_steps: int,
    labels: Sequence[str],
    picture_id: int | str,
    labels_below_steps: bool = False,
) -> str:
    """Draw bars over an axis.

    Parameters
    ----------
    bars : first step, width in steps, and height (in any unit) of each bar.
    n_steps : number of equal steps of the axis.
    labels : texts for the edges of steps or, with ``labels_below_steps``, for the steps.
    picture_id : part of HTML ids, so it must be unique on the page.
    """
    bottom, right = _HEIGHT - _MARGIN_BOTTOM, _WIDTH - _MARGIN_SIDE
    step_width = (right - _MARGIN_SIDE) / max(n_steps, 1)
    axis_start: float = _MARGIN_SIDE
    if labels_below_steps:
        # If there are few bars, limit their width, and center them.
        step_width = min(step_width, 64.0)
        axis_start = (_WIDTH - step_width * n_steps) / 2
    # Every bar is visible: 1.5 units high or more.
    tallest = max((height for _, _, height in bars), default=1.0) or 1.0
    shapes = []
    for first_step, width_in_steps, height in bars:
        bar_height = max((bottom - _MARGIN_TOP) * height / tallest, 1.5)
        x, width = axis_start + first_step * step_width, width_in_steps * step_width
        gap = min(1.0, width / 8)
        shapes.append(
            f'<rect class="mark" x="{x + gap:.1f}" y="{bottom - bar_height:.1f}"'
            f' width="{width - 2 * gap:.1f}" height="{bar_height:.1f}"/>'
        )
    ticks = [
        (axis_start + (index + (0.5 if labels_below_steps else 0)) * step_width, text)
        for index, text in enumerate(labels)
    ]
    axis = f'<line class="axis" x1="{_MARGIN_SIDE}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    body = "".join(shapes) + axis + _draw_tick_labels(ticks, bottom)
    return _wrap_picture(
        title, description, body, (_WIDTH, _HEIGHT), picture_id, css_class="histogram"
    )


def _draw_tick_labels(
    ticks: Sequence[tuple[float, str]], bottom: float, width: float = _WIDTH
) -> str:
    """Draw labels below an axis, leaving out those that would overlap another or the margin.

    Parameters
    ----------
    ticks : x coordinate and text of each label.
    bottom : y coordinate of the axis.
    width : width of the view box.
    """
    shapes, next_free_x = [], 0.0
    for x, text in ticks:
        half_width = _LETTER_WIDTH * len(text) / 2
        if not text or x - half_width < next_free_x or x + half_width > width:
            continue
        shapes.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
        )
        next_free_x = x + half_width + 10
    return "".join(shapes)


def draw_tradeoff(
    points: Sequence[MapPoint], risk_name: str, loss_name: str, picture_id: int | str
) -> str:
    """Plot loss against risk: a curve for each method, and a ring around this release.

    Parameters
    ----------
    risk_name, loss_name : names of the axes.
    picture_id : part of HTML ids, so it must be unique on the page.
    """
    # The size of the picture, and the edges of the area between the axes, in units of the view box.
    width, height, left, bottom, top, right = 560, 380, 68, 332, 18, 540
    risk_axis_end = _round_axis_end(max(point.risk for point in points))
    loss_axis_end = _round_axis_end(max(point.loss for point in points))

    def to_position(point: MapPoint) -> tuple[float, float]:
        return (
            left + (right - left) * point.risk / risk_axis_end,
            bottom - (bottom - top) * point.loss / loss_axis_end,
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
            f"{risk_axis_end * share:.3g}</text>"
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{loss_axis_end * share:.3g}</text>"
        )
    parts.append(
        f'<text class="name" x="{(left + right) / 2}" y="{height - 8}" text-anchor="middle">'
        f"{escape(risk_name)}</text>"
        f'<text class="name" text-anchor="middle" transform="translate(14 {(top + bottom) / 2})'
        f' rotate(-90)">{escape(loss_name)}</text>'
    )
    curves = list(dict.fromkeys(point.curve for point in points))
    for index, curve in enumerate(curves):
        curve_points = [point for point in points if point.curve == curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(to_position, curve_points))
        style_index = index % _N_CURVE_STYLES
        parts.append(f'<polyline class="curve curve{style_index}" points="{line}"/>')
        parts += [_draw_point(style_index, *to_position(point)) for point in curve_points]
    parts += [
        f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        for x, y in (to_position(point) for point in points if point.is_chosen)
    ]
    parts += _place_labels(points, to_position, (left, top, right, bottom))
    description = (
        f"{len(points)} releases of {len(curves)} methods: {risk_name} from left to right,"
        f" {loss_name} upwards; this release has a ring. The table has the figures."
    )
    return _wrap_picture(
        "Loss against risk",
        description,
        "".join(parts),
        (width, height),
        picture_id,
        css_class="map",
    )


def draw_share_bars(
    title: str,
    edges: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    axis_name: str,
    picture_id: int | str,
) -> str:
    """Draw shares by interval, with the bars of each series side by side.

    Bars of the first series are filled, those of others have a dashed outline.

    Parameters
    ----------
    edges : the ends of the intervals, from the lowest to the highest, at equal distances.
    series : name and shares, 0 to 1, of each series; a share for each interval.
    axis_name : the name of the axis of the intervals.
    picture_id : part of HTML ids, so it must be unique on the page.
    """
    left, top, right, bottom = _SHARE_AREA
    step_width = (right - left) / (len(edges) - 1)
    bar_width = (step_width - 8) / len(series)
    shapes = []
    for index, (_, shares) in enumerate(series):
        for step, share in enumerate(shares):
            if not share:
                continue
            # Every bar is visible: 2 units high or more.
            height = max((bottom - top) * share, 2.0)
            shapes.append(
                f'<rect class="{_BAR_CLASSES[min(index, 1)]}"'
                f' x="{left + step * step_width + 4 + index * bar_width + 1:.1f}"'
                f' y="{bottom - height:.1f}" width="{bar_width - 2:.1f}" height="{height:.1f}"/>'
            )
    description = (
        f"{len(edges) - 1} intervals of {axis_name}, and the share of records in each:"
        f" {', '.join(name for name, _ in series)}. The table has the numbers."
    )
    return _draw_shares(title, description, shapes, edges, axis_name, picture_id)


def draw_share_curves(
    title: str,
    edges: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    axis_name: str,
    picture_id: int | str,
) -> str:
    """Draw shares at points of an axis as curves, with a point at each.

    Parameters
    ----------
    edges : the points of the axis, from the lowest to the highest, at equal distances.
    series : name and shares, 0 to 1, of each series; a share for each point of the axis.
    axis_name, picture_id : as in ``draw_share_bars``.
    """
    left, top, right, bottom = _SHARE_AREA
    step_width = (right - left) / (len(edges) - 1)
    shapes = []
    for index, (_, shares) in enumerate(series):
        style_index = index % _N_CURVE_STYLES
        points = [
            (left + step * step_width, bottom - (bottom - top) * share)
            for step, share in enumerate(shares)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shapes.append(f'<polyline class="curve curve{style_index}" points="{line}"/>')
        shapes += [_draw_point(style_index, x, y) for x, y in points]
    description = (
        f"The share of records above each {axis_name}: {', '.join(name for name, _ in series)}."
        " The table has the numbers."
    )
    return _draw_shares(title, description, shapes, edges, axis_name, picture_id)


def draw_bar_symbol(index: int) -> str:
    """Draw the bar of the series with this index, for the legend of ``draw_share_bars``."""
    return (
        '<svg class="sign" viewBox="0 0 36 14" aria-hidden="true">'
        f'<rect class="{_BAR_CLASSES[min(index, 1)]}" x="6" y="2" width="24" height="10"/></svg>'
    )


def _draw_shares(
    title: str,
    description: str,
    shapes: Sequence[str],
    edges: Sequence[str],
    axis_name: str,
    picture_id: int | str,
) -> str:
    """Draw the axes of a picture of shares, with its shapes over the grid."""
    left, top, right, bottom = _SHARE_AREA
    grid = []
    for share in (0.25, 0.5, 0.75, 1):
        y = bottom - (bottom - top) * share
        grid.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        )
    axis = f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    step_width = (right - left) / (len(edges) - 1)
    ticks = [(left + step * step_width, text) for step, text in enumerate(edges)]
    name = (
        f'<text class="name" x="{(left + right) / 2}" y="{_SHARE_HEIGHT - 6}"'
        f' text-anchor="middle">{escape(axis_name)}</text>'
    )
    body = "".join([*grid, *shapes, axis, _draw_tick_labels(ticks, bottom, _SHARE_WIDTH), name])
    size = (_SHARE_WIDTH, _SHARE_HEIGHT)
    return _wrap_picture(title, description, body, size, picture_id, css_class="map")


def _place_labels(
    points: Sequence[MapPoint],
    to_position: Callable[[MapPoint], tuple[float, float]],
    plot_area: _Box,
) -> list[str]:
    """Draw the labels of points, each at the first free position near its point.

    Labels of this release and of both ends of each curve are placed first, and are nearly always
    drawn. Labels of other points are left out if they would cover something.

    Parameters
    ----------
    to_position : converts a point to its coordinates in the picture.
    plot_area : the area between the axes, which labels must not leave.
    """
    positions = [to_position(point) for point in points]
    point_boxes = [(x - 6, y - 6, x + 6, y + 6) for x, y in positions]
    line_boxes = [
        box
        for (point, start), (next_point, end) in pairwise(zip(points, positions, strict=True))
        if point.curve == next_point.curve
        for box in _boxes_along_line(start, end)
    ]
    curves = [point.curve for point in points]
    last_indexes = {curve: index for index, curve in enumerate(curves)}
    end_indexes = {*map(curves.index, curves), *last_indexes.values()}
    ordered_indexes = sorted(
        range(len(points)), key=lambda i: (not points[i].is_chosen, i not in end_indexes)
    )
    label_boxes: list[_Box] = []
    labels = []
    for index in ordered_indexes:
        point, (x, y) = points[index], positions[index]
        width = _LETTER_WIDTH * len(point.label) + 4
        # Offsets of a label's start from its point, on the right or, with the width, on the left.
        offsets = [(12, 4), (8, -9), (-8 - width, 19), (-12 - width, 4), (8, 19), (-8 - width, -9)]
        obstacle_lists = [[*label_boxes, *point_boxes, *line_boxes]]
        if point.is_chosen or index in end_indexes:
            # If no position is free, place these labels farther away, then over lines, then over
            # points.
            offsets += [(dx, dy) for dy in (33, -23, 47, -37) for dx in (8, -8 - width)]
            obstacle_lists += [[*label_boxes, *point_boxes], label_boxes]
        corners = [(x + dx, y + dy) for dx, dy in offsets]
        inside_corners = [
            corner for corner in corners if _is_inside(_text_box(corner, width), plot_area)
        ]
        free_corners = (
            corner
            for obstacles in obstacle_lists
            for corner in inside_corners
            if not any(_overlaps(_text_box(corner, width), obstacle) for obstacle in obstacles)
        )
        chosen_corner = next(free_corners, None)
        if chosen_corner is None:
            continue
        label_boxes.append(_text_box(chosen_corner, width))
        class_attribute = ' class="strong"' if point.is_chosen else ""
        labels.append(
            f'<text{class_attribute} x="{chosen_corner[0]:.1f}" y="{chosen_corner[1]:.1f}">'
            f"{escape(escape_control_characters(point.label))}</text>"
        )
    return labels


def _text_box(corner: tuple[float, float], width: float) -> _Box:
    """Return the box that a label covers; its text starts at this corner, on the baseline."""
    x, y = corner
    return (x - 2, y - 12, x + width + 2, y + 4)


def _is_inside(box: _Box, plot_area: _Box) -> bool:
    """Whether a label lies inside the plot area; it may extend a little above the top."""
    left, top, right, bottom = plot_area
    box_left, box_top, box_right, box_bottom = box
    return left < box_left and box_right < right and top - 14 < box_top and box_bottom < bottom


def _boxes_along_line(start: tuple[float, float], end: tuple[float, float]) -> list[_Box]:
    """Return small boxes along a line, to test whether labels cover it."""
    (start_x, start_y), (end_x, end_y) = start, end
    fractions = [step / 24 for step in range(1, 24)]
    centers = [
        (start_x + (end_x - start_x) * fraction, start_y + (end_y - start_y) * fraction)
        for fraction in fractions
    ]
    return [(x - 2, y - 2, x + 2, y + 2) for x, y in centers]


def _overlaps(box: _Box, other_box: _Box) -> bool:
    left, top, right, bottom = box
    other_left, other_top, other_right, other_bottom = other_box
    return left < other_right and other_left < right and top < other_bottom and other_top < bottom


def _draw_point(style_index: int, x: float, y: float) -> str:
    """Draw a point of a curve: a circle, square, triangle or diamond."""
    if style_index == 0:
        return f'<circle class="point curve0" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    corners = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }[style_index]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="point curve{style_index}" points="{points}"/>'


def draw_legend_symbol(index: int) -> str:
    """Draw the line and marker of the curve with this index, for the legend of the map."""
    style_index = index % _N_CURVE_STYLES
    return (
        '<svg class="sign" viewBox="0 0 36 14" aria-hidden="true">'
        f'<polyline class="curve curve{style_index}" points="1,7 35,7"/>'
        f"{_draw_point(style_index, 18, 7)}</svg>"
    )


def _round_axis_end(value: float) -> float:
    """Return a round number for the end of an axis, at least 2 % above the largest value."""
    for power in range(-12, 13):
        for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8):
            if step * 10.0**power >= value * 1.02:
                return step * 10.0**power
    return value


def _wrap_picture(
    title: str,
    description: str,
    body: str,
    size: tuple[int, int],
    picture_id: int | str,
    css_class: str,
) -> str:
    """Wrap the shapes of a picture, with its title and description for screen readers.

    Parameters
    ----------
    size : width and height of the view box.
    """
    prefix, (width, height) = f"picture{picture_id}", size
    return (
        f'<svg class="picture {css_class}" role="img" viewBox="0 0 {width} {height}"'
        f' aria-labelledby="{prefix}-title {prefix}-desc">'
        f'<title id="{prefix}-title">{escape(title)}</title>'
        f'<desc id="{prefix}-desc">{escape(description)}</desc>{body}</svg>'
    )
