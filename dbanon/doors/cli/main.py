"""The command line. Each command is imported only when it is used."""

from __future__ import annotations

import click

from dbanon.data.extension import Command
from dbanon.doors.cli.groups import CommandEntries, LazyCommandGroup

# The first paragraph of each command's help, for the list of all commands.
_COMMANDS = {
    "advise": Command(
        "dbanon.doors.cli.advise:advise",
        "Propose column roles, show which columns make rows unique, and recommend a first release.",
    ),
    "anonymize": Command(
        "dbanon.doors.cli.anonymize:anonymize",
        "Anonymize a table into a table or view that was recounted before it is visible.",
    ),
    "check": Command(
        "dbanon.doors.cli.jobs:check",
        "Check a job file without a database, and report all problems at once.",
    ),
    "declare": Command(
        "dbanon.doors.cli.rules:declare",
        "Declare rules that say what the columns of a table are. They are stored in its database.",
    ),
    "demo": Command(
        "dbanon.doors.cli.demo:demo",
        "Generate a table of persons in a DuckDB file, anonymize it, and verify it.",
    ),
    # The SQL functions also write a summary: a table with one row about the release.
    "drop": Command(
        "dbanon.doors.cli.releases:drop",
        "Drop a release that dbanon made: its view, its table and its summary.",
    ),
    "evaluate": Command(
        "dbanon.doors.cli.releases:evaluate", "Evaluate a release: its loss and its remaining risk."
    ),
    "explain": Command(
        "dbanon.doors.cli.explain:explain",
        "Explain an error: what its code means, why it occurs, and what to do.",
    ),
    "gc": Command(
        "dbanon.doors.cli.administration:gc",
        "Drop the tables of replaced releases, and remove what killed runs left behind.",
    ),
    "hierarchy": Command(
        "dbanon.doors.cli.hierarchy:hierarchy",
        "Check generalization hierarchies, propose them, and store them by name.",
    ),
    "init": Command(
        "dbanon.doors.cli.jobs:init",
        "Print a job file for a table, for you to edit. Its roles are proposals, never decisions.",
    ),
    "install": Command(
        "dbanon.doors.cli.administration:install",
        "Install the SQL functions in a PostgreSQL database.",
    ),
    "methods": Command(
        "dbanon.doors.cli.administration:methods",
        "List the methods with the data they take, class sizes, guarantee, cost, reference"
        " and options.",
    ),
    "plan": Command(
        "dbanon.doors.cli.jobs:plan_table_or_file",
        "Show what anonymize would do with these options, or refuse as anonymize would.",
    ),
    "refresh": Command(
        "dbanon.doors.cli.rules:refresh",
        "Make a release again from its entry in the ledger, with the current rows of its source.",
    ),
    "releases": Command(
        "dbanon.doors.cli.releases:releases",
        "List the releases in the ledger, newest first, with the current state of each.",
    ),
    # The ledger finds the tables of releases by their OIDs, which change when a dump is restored.
    "repair": Command(
        "dbanon.doors.cli.administration:repair",
        "Attach the releases of a PostgreSQL ledger to their tables again, and report what was"
        " done.",
    ),
    "report": Command(
        "dbanon.doors.cli.releases:report",
        "Write the report of a release from its ledger entry, with its classes counted again.",
    ),
    "rules": Command(
        "dbanon.doors.cli.rules:rules",
        "List the declared rules, and whether their tables and columns still exist.",
    ),
    "run": Command(
        "dbanon.doors.cli.run:run",
        "Run the jobs of a file in its order, each with its own transaction, lock and ledger row.",
    ),
    "schema": Command(
        "dbanon.doors.cli.jobs:schema",
        "Print the JSON Schema of job files, which editors use to check them.",
    ),
    "show": Command(
        "dbanon.doors.cli.releases:show_release",
        "Show everything that the ledger has about a release: its entry, columns and run.",
    ),
    "undeclare": Command(
        "dbanon.doors.cli.rules:undeclare",
        "Remove the rules of a table, for some columns or for all.",
    ),
    "tutorial": Command(
        "dbanon.doors.cli.tutorial:tutorial",
        "Take a guided tour in ten minutes. Each step is explained, run for real, and waits"
        " for Enter.",
    ),
    "uninstall": Command(
        "dbanon.doors.cli.administration:uninstall", "Remove the SQL functions; the ledger stays."
    ),
    "upgrade": Command(
        "dbanon.doors.cli.administration:upgrade",
        "Bring installed SQL functions to this version; ledger, hierarchies and grants stay.",
    ),
    "verify": Command(
        "dbanon.doors.cli.jobs:verify_release_or_file",
        "Recount a release in the database, and compare it with the ledger.",
    ),
}


@click.group(
    cls=LazyCommandGroup,
    entries=CommandEntries(_COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="dbanon")
def main() -> None:
    """Anonymize SQL tables: k-anonymous releases, recounted before they are visible.

    Exit codes: 0 done and verified, 1 unexpected, 2 usage, 3 privacy refusal (nothing published),
    4 database unreachable or busy (retry), 5 rights, 6 a release or a table changed, 7 the job is
    running already, 8 some jobs failed, 9 a limit was reached, 10 unknown whether it was published
    (look before a retry), 99 nothing to do, 130/143 interrupted.
    """
