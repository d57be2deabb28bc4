"""The command line. Each command is imported only when it is used."""

from __future__ import annotations

import click

from dbanon.doors.cli.groups import CommandEntry, LazyCommandGroup

# The first paragraph of each command's help, for the list of all commands.
_COMMANDS = {
    "advise": CommandEntry(
        "advise:advise",
        "Propose column roles, show which columns make rows unique, and recommend a first release.",
    ),
    "anonymize": CommandEntry(
        "anonymize:anonymize",
        "Anonymize a table into a table or view that was recounted before it is visible.",
    ),
    "bound": CommandEntry(
        "anonymize:bound",
        "Compute the minimum loss of any release of a table in classes of k or more rows.",
    ),
    "budget": CommandEntry(
        "chains:budget",
        "Privacy budgets: how much the differentially private releases of a table may spend"
        " together.",
    ),
    "chain": CommandEntry(
        "chains:chain", "Releases of the same persons that stay private together."
    ),
    "check": CommandEntry(
        "jobs:check",
        "Check a job file without a database, and report all problems at once.",
    ),
    "declare": CommandEntry(
        "rules:declare",
        "Declare rules that say what the columns of a table are. They are stored in its database.",
    ),
    "demo": CommandEntry(
        "demo:demo",
        "Generate a table of persons in a DuckDB file, anonymize it, and verify it.",
    ),
    "drop": CommandEntry(
        "releases:drop", "Drop a release that dbanon made: its view, its table and its summary."
    ),
    "evaluate": CommandEntry(
        "releases:evaluate", "Evaluate a release: its loss and its remaining risk."
    ),
    "explain": CommandEntry(
        "explain:explain",
        "Explain an error: what its code means, why it occurs, and what to do.",
    ),
    "gc": CommandEntry(
        "administration:gc",
        "Drop released tables that their view no longer shows, and leftovers of killed runs.",
    ),
    "hierarchy": CommandEntry(
        "hierarchy:hierarchy",
        "Check generalization hierarchies, propose them, and store them by name.",
    ),
    "init": CommandEntry(
        "jobs:init",
        "Print a job file for a table, for you to edit. Its roles are proposals, never decisions.",
    ),
    "install": CommandEntry(
        "administration:install",
        "Install the SQL functions in a PostgreSQL database.",
    ),
    "methods": CommandEntry(
        "administration:methods",
        "List the methods with the data they take, class sizes, guarantee, cost, reference"
        " and options.",
    ),
    "plan": CommandEntry(
        "jobs:plan_table_or_file",
        "Show what anonymize would do with these options, or refuse as anonymize would.",
    ),
    "refresh": CommandEntry(
        "rules:refresh",
        "Make a release again from its entry in the ledger, with the current rows of its source.",
    ),
    "releases": CommandEntry(
        "releases:releases",
        "List the releases in the ledger, newest first, with the current state of each.",
    ),
    "repair": CommandEntry(
        "administration:repair",
        "Attach the releases of a PostgreSQL ledger to their tables again, and report what was"
        " done.",
    ),
    "report": CommandEntry(
        "releases:report",
        "Write the report of a release from its ledger entry, with its classes counted again.",
    ),
    "rules": CommandEntry(
        "rules:rules",
        "List the declared rules, and whether their tables and columns still exist.",
    ),
    "run": CommandEntry(
        "run:run",
        "Run the jobs of a file in its order, each with its own transaction, lock and ledger row.",
    ),
    "schema": CommandEntry(
        "jobs:schema",
        "Print the JSON Schema of job files, which editors use to check them.",
    ),
    "show": CommandEntry(
        "releases:show_release",
        "Show everything that the ledger has about a release: its entry, columns and run.",
    ),
    "undeclare": CommandEntry(
        "rules:undeclare", "Remove the rules of a table, for some columns or for all."
    ),
    "tutorial": CommandEntry(
        "tutorial:tutorial",
        "Take a guided tour in ten minutes. Each step is explained, run for real, and waits"
        " for Enter.",
    ),
    "uninstall": CommandEntry(
        "administration:uninstall", "Remove the SQL functions; the ledger stays."
    ),
    "upgrade": CommandEntry(
        "administration:upgrade",
        "Bring installed SQL functions to this version; ledger, hierarchies and grants stay.",
    ),
    "verify": CommandEntry(
        "jobs:verify_release_or_file",
        "Recount a release in the database, and compare it with the ledger.",
    ),
    "workbench": CommandEntry(
        "workbench:workbench",
        "Open a local web page that leads from a table to a job file and its release.",
    ),
}


@click.group(
    cls=LazyCommandGroup,
    entries=_COMMANDS,
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
