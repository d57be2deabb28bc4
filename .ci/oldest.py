"""The oldest versions that pyproject.toml takes, as pins for pip: one requirement a line.

python .ci/oldest.py [EXTRA ...]
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+(?:\[[\w,-]+\])?)>=(?P<oldest>[\w.]+)(?:,.*)?$")

_OWN = re.compile(r"dbanon\[(\w+)\]")


def pins(project: dict[str, object], extras: list[str]) -> list[str]:
    """``name==oldest`` of each requirement, those of extras behind them."""
    optional = project["optional-dependencies"]
    wanted, seen = [*project["dependencies"]], set()
    found = []
    for extra in extras:
        wanted.append(f"dbanon[{extra}]")
    for requirement in wanted:
        own = _OWN.fullmatch(requirement)
        if own is not None:
            # The list grows while it is gone through.
            wanted += [] if own[1] in seen else optional[own[1]]
            seen.add(own[1])
            continue
        parts = _REQUIREMENT.match(requirement)
        if parts is None:
            sys.exit(f"{requirement} does not say which version is the oldest.")
        found.append(f"{parts['name']}=={parts['oldest']}")
    return found


if __name__ == "__main__":
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    print(*pins(project, sys.argv[1:]), sep="\n")
