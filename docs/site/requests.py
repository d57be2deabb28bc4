"""What a browser would fetch from other machines when it opens built pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

# A link that is followed by a click is none.
_FETCHED = {"src", "srcset", "poster", "data", "action", "background"}
_IN_STYLES = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])([^'\")\s]+)")
_IN_SCRIPTS = re.compile(
    r"""(?:fetch|importScripts|import|WebSocket|EventSource|sendBeacon)\(\s*["'](\w+:)?//"""
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name in _FETCHED or (name == "href" and tag in ("link", "use", "image")):
                self.found += [part.split()[0] for part in value.split(",") if part.strip()]
            elif name == "style":
                self.found += _IN_STYLES.findall(value)


def requests_of(folder: Path) -> list[str]:
    """What pages, styles and scripts of a folder would fetch from elsewhere, each with its file."""
    asked = []
    for file in sorted(folder.rglob("*")):
        if file.suffix not in (".html", ".css", ".js", ".svg"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        found = []
        if file.suffix in (".html", ".svg"):
            page = _Page()
            page.feed(text)
            found = page.found
        if file.suffix == ".js":
            asked += [f"{file.relative_to(folder)}: {m[0]}" for m in _IN_SCRIPTS.finditer(text)]
        else:
            found += _IN_STYLES.findall(text) if file.suffix == ".css" else []
        asked += [f"{file.relative_to(folder)}: {one}" for one in found if _elsewhere(one)]
    return asked


def _elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme not in ("", "data") or bool(parts.netloc)
