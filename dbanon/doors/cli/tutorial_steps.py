"""The steps of ``dbanon tutorial``: titles, explanations and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Command(NamedTuple):
    """The arguments of a ``dbanon`` command, and its expected exit code."""

    arguments: tuple[str, ...]
    exit_code: int = 0


class Query(NamedTuple):
    """An SQL statement to run in the database file."""

    sql: str


class TutorialStep(NamedTuple):
    """A step: its title and purpose, commands and queries to run, and what their results show."""

    title: str
    purpose: str
    actions: tuple[Command | Query, ...]
    conclusion: str


QUASI_IDENTIFIERS = "birth_date,height_cm,income"
_COMBINATIONS_SQL = """SELECT count(*) AS rows, count(*) FILTER (WHERE shared = 1) AS alone
FROM (SELECT count(*) OVER (PARTITION BY birth_date, height_cm, income) AS shared
      FROM app.person)"""
_RECOUNT_SQL = """SELECT min(rows) AS k, count(*) AS classes
FROM (SELECT count(*) AS rows FROM release.person GROUP BY birth_date, height_cm, income)"""


def build_steps(url: str, folder: str) -> Sequence[TutorialStep]:
    """Build all steps in order.

    Parameters
    ----------
    url : URL of the tutorial's database file.
    folder : directory of the tutorial's files.
    """
    table = ("--table", "app.person")
    release = (
        "anonymize",
        url,
        *table,
        "--quasi-identifiers",
        QUASI_IDENTIFIERS,
        "--sensitive",
        "diagnosis",
        "--k",
        "5",
        "--output",
        "release.person",
        "--no-progress",
    )
    return (
        *_release_steps(release),
        *_verification_steps(url, release),
        *_limit_steps(url, folder),
    )


def _release_steps(release: tuple[str, ...]) -> Sequence[TutorialStep]:
    """Build the steps that make a release; ``release`` is the command's arguments."""
    return (
        TutorialStep(
            title="The raw table",
            purpose=(
                "Names and IDs identify people directly. Even without them the table is not"
                " anonymous: someone who knows a birth date, a height and an income can find the"
                " row."
            ),
            actions=(
                Query(
                    "SELECT full_name, birth_date, height_cm, income, diagnosis\nFROM app.person"
                    " ORDER BY person_id LIMIT 5"
                ),
                Query(_COMBINATIONS_SQL),
            ),
            conclusion=(
                "Every row has a unique combination of the three columns. Columns that together"
                " could identify a person are called quasi-identifiers."
            ),
        ),
        TutorialStep(
            title="A plan",
            purpose=(
                "dbanon can show what it would do, and whether it would refuse, without changing"
                " anything."
            ),
            # The arguments of the release without the command and --no-progress.
            actions=(Command(("plan", *release[1:-1])),),
            conclusion=(
                "The plan names the columns that are not copied: everything that you don't name"
                " is left out of the release."
            ),
        ),
        TutorialStep(
            title="The release",
            purpose=(
                "Now for real: similar rows are grouped into classes of at least k = 5, and each"
                " class gets one value per quasi-identifier. The diagnosis is copied unchanged."
            ),
            actions=(Command(release),),
            conclusion=(
                'Look at "k requested / counted": dbanon counted the rows that it wrote, in the'
                ' database, before anyone could see them. "information loss" is what the grouping'
                " costs: 0 is none, 1 is everything."
            ),
        ),
        TutorialStep(
            title="The released rows",
            purpose="Five or more rows share each combination now.",
            actions=(
                Query("SELECT * FROM release.person ORDER BY birth_date, income LIMIT 10"),
                Query(_RECOUNT_SQL),
            ),
            conclusion=(
                "The second query counts exactly what k-anonymity claims. Anyone who has the"
                " release can run it."
            ),
        ),
    )


def _verification_steps(url: str, release: tuple[str, ...]) -> Sequence[TutorialStep]:
    """Build the steps that verify, change and replace the release."""
    return (
        TutorialStep(
            title="Verification",
            purpose=(
                "The same count as a command, with a comparison of columns, types and rows"
                " against the ledger, which keeps a digest of what was released."
            ),
            actions=(Command(("verify", url, "release.person")),),
            conclusion=(
                '"as released: yes" means that the table is still the one that was released.'
            ),
        ),
        TutorialStep(
            title="Someone changes a row",
            purpose="One row of the released table is changed by hand, and verified again.",
            actions=(
                Query(
                    "UPDATE release.person SET diagnosis = 'none of your business'\nWHERE rowid ="
                    " (SELECT min(rowid) FROM release.person)"
                ),
                Command(("verify", url, "release.person"), exit_code=6),
                Command(("explain", "release_changed")),
            ),
            conclusion=(
                "The exit code is 6, so a script notices, too. Every error has a code, and"
                " `dbanon explain CODE` says what to do. The next step makes the release again."
            ),
        ),
        TutorialStep(
            title="A replacement",
            purpose=(
                "An existing output is only replaced if you ask for it, and only if dbanon made it."
            ),
            actions=(
                Command(release, exit_code=2),
                Command((*release, "--if-exists", "replace")),
                Command(("verify", url, "release.person")),
            ),
            conclusion="The first command was refused (exit code 2) and nothing was changed.",
        ),
    )


def _limit_steps(url: str, folder: str) -> Sequence[TutorialStep]:
    """Build the steps about privacy models, refusals and reports."""
    table = ("--table", "app.person")
    grouped_release = (
        "anonymize",
        url,
        *table,
        "--quasi-identifiers",
        "birth_date,sex,region",
        "--k",
        "5",
        "--method",
        "gaa_cp",
        "--sensitive",
        "diagnosis",
        "--output",
        "release.groups",
        "--no-progress",
    )
    return (
        TutorialStep(
            title="What k does not protect",
            purpose=(
                "If all five rows of a class have the same diagnosis, k hides no one's diagnosis."
                " A privacy model requires variety: here at least 3 diagnoses in each class. Text"
                " columns become groups of values."
            ),
            actions=(
                Command((*grouped_release, "--model", "diagnosis=distinct_l:3")),
                Query(
                    "SELECT birth_date, sex, region, count(*) AS rows,\n       count(DISTINCT"
                    " diagnosis) AS diagnoses\nFROM release.groups GROUP BY ALL ORDER BY ALL"
                    " LIMIT 5"
                ),
            ),
            conclusion='The column "diagnoses" is never below 3.',
        ),
        TutorialStep(
            title="A refusal",
            purpose="If a requirement cannot be met, the run is refused, and nothing is published.",
            actions=(
                Command(
                    (
                        *grouped_release,
                        "--model",
                        "diagnosis=distinct_l:500",
                        "--if-exists",
                        "replace",
                    ),
                    exit_code=3,
                ),
                Command(("verify", url, "release.groups")),
            ),
            conclusion="The exit code is 3, and the release of the last step is still there.",
        ),
        TutorialStep(
            title="A report for others",
            purpose=(
                "An HTML report for the recipient of the release, with a line to sign, and a list"
                " of all releases in this database."
            ),
            actions=(
                Command(
                    (
                        "report",
                        url,
                        "release.person",
                        "--output",
                        f"{folder}/report.html",
                        "--for",
                        "the research group",
                    )
                ),
                Command(("releases", url)),
            ),
            conclusion=f"Open {folder}/report.html in a browser, if you keep the folder.",
        ),
    )


NEXT_STEPS = """Where to go from here:

  dbanon advise URL --table T       examines your own table, and proposes where to start
  dbanon init URL --table T         proposes a job file, for releases that run each month
  dbanon COMMAND --help             all options of a command
  docs/what-k-means.md              what k means, and what a release does not say"""
