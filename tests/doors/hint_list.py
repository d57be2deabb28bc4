"""Hints that no test tries literally yet; ``python -m tests.doors.hint_list`` writes the list anew.

The list may only become shorter. A new hint gets a case in ``test_hints_work.py``, or a line in
``IMPOSSIBLE`` with the reason why it cannot be tried here.
"""

from __future__ import annotations

from pathlib import Path

from tests.doors.test_hints import hints

FILE = Path(__file__).with_name("untried_hints.txt")

# The beginning of the name of a module, and why its hints cannot be tried as they are written.
IMPOSSIBLE = {
    "spark/": "they need a cluster; tests/spark has those that a local one raises",
    "doors/install.py": "they need an administrator's rights on a server that others use",
    "stores/exports/lake": "they need a catalog that fails in the middle of a commit",
}


def untried(tried: frozenset[str]) -> list[str]:
    """Texts of hints that are neither tried nor impossible to try, sorted."""
    return sorted(
        {
            " ".join(text.split())
            for place, text in hints()
            if text.strip() and not place.startswith(tuple(IMPOSSIBLE))
        }
        - tried
    )


def listed() -> list[str]:
    """The lines of the list."""
    return FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    from tests.doors.test_hints_work import TRIED

    FILE.write_text("".join(f"{line}\n" for line in untried(TRIED)), encoding="utf-8")
