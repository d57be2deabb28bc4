"""Hints that no test tries literally yet; ``python -m tests.doors.hint_list`` writes the list anew.

The list may only become shorter. A new hint gets a case in ``hint_cases.py`` or
``hints_*.py``, or a line in ``IMPOSSIBLE`` with the reason why it cannot be tried here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.doors import (  # noqa: F401
    hints_chains,
    hints_populations,
    hints_runs,
    hints_synthesis,
)
from tests.doors.hint_cases import OF_TABLES
from tests.doors.hints_commands import COMMANDS, FILES
from tests.doors.hints_databases import OF_STORES, UNREACHABLE
from tests.doors.hints_dates import DATES
from tests.doors.hints_frames import FRAMES
from tests.doors.hints_jobs import FOLLOWED as OF_JOBS
from tests.doors.hints_jobs import IMPOSSIBLE as NEVER_OF_JOBS
from tests.doors.hints_server import TRIALS as OF_SERVERS
from tests.doors.hints_survey import SURVEYS
from tests.doors.run_steps import CASES as OF_RUNS
from tests.doors.test_hints import hints

FILE = Path(__file__).with_name("untried_hints.txt")

# The beginning of the name of a module, and why its hints cannot be tried as they are written.
IMPOSSIBLE = {
    "extensions/survey/attacker_risk": "doors check what this takes; tests/unit/survey has them",
    "extensions/survey/frequencies": "doors check what this takes; tests/unit/survey has them",
    "extensions/survey/household_risk": "doors check what this takes; tests/unit/survey has them",
    "extensions/survey/individual_risk": "doors check what this takes; tests/unit/survey has them",
    "extensions/survey/population_uniqueness": "doors check what this takes",
    "extensions/survey/suda": "doors check what this takes; tests/unit/survey has them",
    "extensions/spark/": "they need a cluster; tests/spark has those that a local one raises",
    "doors/install.py": "they need an administrator's rights on a server that others use",
    "extensions/lakes/iceberg_table": "they need a catalog that fails in the middle of a commit",
    "extensions/lakes/commits": "they need a catalog that fails in the middle of a commit",
}

# Texts that cannot be tried wherever they stand, and why.
IMPOSSIBLE_TEXTS = {
    "This is an error in dbanon: please report it.": "dbanon would have to count wrongly",
    "{}": "a variable has the text",
    "Choose main effects.": "doors check the model; tests/unit/survey has it",
    "Before you run the job again, check whether the table's newest snapshot names the file.": (
        "a catalog must fail in the middle of a commit"
    ),
    "Check it with: python -c 'import {}'. To do without it, uninstall its package.": (
        "another package must be broken"
    ),
    "In its package, make {} a dbanon.data.extension.Extension.": "another package must change",
}


@cache
def texts() -> frozenset[str]:
    """The texts of all hints in the sources."""
    return frozenset(" ".join(text.split()) for _, text in hints() if text.strip())


def text_of(beginning: str) -> str:
    """The text in the sources that begins so."""
    if beginning in texts():
        return beginning
    [text] = (text for text in texts() if text.startswith(beginning))
    return text


def followed() -> frozenset[str]:
    """The texts of hints whose ways out are taken; not of those that are raised alone."""
    steps = (
        step.hint
        for step in (*COMMANDS, *FILES, *FRAMES, *DATES, *OF_STORES, *SURVEYS)
        if step.right
    )
    of_runs = (case for case in OF_RUNS if not case.is_constant)
    cases = (case.hint for case in (*OF_TABLES, *OF_SERVERS, *of_runs))
    return frozenset(map(text_of, (*cases, *steps, *OF_JOBS)))


def untried(tried: frozenset[str]) -> list[str]:
    """Texts of hints that are neither tried nor impossible to try, sorted."""
    return sorted(
        {
            " ".join(text.split())
            for place, text in hints()
            if text.strip() and not place.startswith(tuple(IMPOSSIBLE))
        }
        - tried
        - IMPOSSIBLE_TEXTS.keys()
        - {*map(text_of, UNREACHABLE)}
        - NEVER_OF_JOBS.keys()
    )


def listed() -> list[str]:
    """The lines of the list."""
    return FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    from tests.doors.test_hints_work import TRIED

    every = untried(TRIED | followed())
    FILE.write_text("".join(f"{line}\n" for line in every), encoding="utf-8")
    print(f"{len(TRIED | followed())} hints are tried, {len(every)} are not.")
