"""Draws ``docs/architecture.svg``, the rooms and their imports: ``make picture``.

Only the imports that no others imply are drawn: a room that imports ``stores`` can use what
``stores`` imports.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

import grimp

from dbanon.data.extension import BUILT_IN

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "architecture.svg"
# Rooms that the picture leaves out: the installed migrations, and what everything may import.
LEFT_OUT = ("share", "version")
# The columns of rooms, from the left, so that no line runs behind a box; the second for others.
COLUMNS = {
    "spark": 2, "sklearn": 2, "ledger": 2, "sessions": 3, "advice": 0, "release": 2, "methods": 2,
    "measures": 0, "spaces": 2, "kernels": 0,
}  # fmt: skip
COLUMN, ROW, BOX_WIDTH, BOX_HEIGHT, MARGIN = 140, 70, 112, 36, 16
TEXT_LEFT = 4 * COLUMN + MARGIN
WIDTH = TEXT_LEFT + 600


def layers() -> list[list[str]]:
    """The rooms from the top layer down, as the linter has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rows = [
        [room.strip(" ()") for room in layer.replace(":", "|").split("|")]
        for layer in contracts["contracts"][0]["layers"]
    ]
    visible_rows = [[room for room in row if room not in LEFT_OUT] for row in rows]
    return [row for row in visible_rows if row]


def imports() -> set[tuple[str, str]]:
    """Pairs of rooms of which the first imports the second."""
    graph = grimp.build_graph("dbanon", cache_dir=None)
    pairs = {
        (module.split(".")[1], imported.split(".")[1])
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if "." in module and "." in imported
    }
    return {
        (room, imported)
        for room, imported in pairs
        if room != imported and not {room, imported} & {*LEFT_OUT}
    }


def reduced(pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs that are not implied by a way over other rooms."""

    def reachable(room: str) -> set[str]:
        direct = {imported for importer, imported in pairs if importer == room}
        return direct.union(*map(reachable, direct))

    return sorted(
        (room, imported)
        for room, imported in pairs
        if not any(
            imported in reachable(other)
            for importer, other in pairs
            if importer == room and other != imported
        )
    )


def summary(room: str) -> str:
    """The first sentence of the room's docstring; for the extensions, their names."""
    if room == "extensions":
        return f"Parts that the core does without: {', '.join(BUILT_IN)}"
    tree = ast.parse((ROOT / "dbanon" / room / "__init__.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").split("\n")[0].rstrip(".").replace("``", "")


def draw() -> Iterator[str]:
    """The lines of the picture."""
    rows = layers()
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(rows) + MARGIN}"'
        ' font-family="sans-serif" role="img" aria-label="The rooms of dbanon and their imports">'
    )
    yield (
        "<style>rect{fill:#f4f6f8;stroke:#52606d}path{fill:none;stroke:#829ab1;stroke-width:1.5}"
        ".page{fill:#fff;stroke:none}text{fill:#1f2933;font-size:13px}"
        ".room{text-anchor:middle;font-weight:600}</style>"
        f'<rect class="page" width="{WIDTH}" height="{ROW * len(rows) + MARGIN}"/>'
    )
    corners = {
        room: (MARGIN + COLUMNS.get(room, 1) * COLUMN, MARGIN + index * ROW)
        for index, row in enumerate(rows)
        for room in row
    }
    for room, imported in reduced(imports()):
        (left, top), (other_left, other_top) = corners[room], corners[imported]
        if top == other_top:
            yield f'<path d="M{left} {top + BOX_HEIGHT // 2}H{other_left + BOX_WIDTH}"/>'
            continue
        middle, other_middle = left + BOX_WIDTH // 2, other_left + BOX_WIDTH // 2
        yield f'<path d="M{middle} {top + BOX_HEIGHT}V{other_top - 14}H{other_middle}v14"/>'
    for index, row in enumerate(rows):
        for position, room in enumerate(row):
            left, top = corners[room]
            yield (
                f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
                f'<text class="room" x="{left + BOX_WIDTH // 2}" y="{top + 23}">{room}</text>'
            )
            baseline = MARGIN + index * ROW + (23 if len(row) == 1 else 12 + 17 * position)
            yield f'<text x="{TEXT_LEFT}" y="{baseline}">{escape(summary(room))}</text>'
    yield "</svg>"


def main() -> None:
    """Write the picture; with ``--check``, only say whether it is current."""
    picture = "\n".join(draw()) + "\n"
    if "--check" not in sys.argv:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE.name} shows other imports: run python -m tests.docs.house_picture")


if __name__ == "__main__":
    main()
