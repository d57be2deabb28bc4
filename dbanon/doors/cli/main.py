"""The command line: one command a job, thin, and loaded when it is asked for."""

from __future__ import annotations

import click

from dbanon.doors.cli.groups import Described, LoadedCommands

# Of each the first paragraph of its help, as help on all commands shows it.
_COMMANDS = {
    "advise": Described(
        "advise:advise",
        "Propose column roles, show which columns single rows out, and recommend a first release.",
    ),
    "anonymize": Described(
        "anonymize:anonymize",
        "Anonymize a table into a table or view that was recounted before it is visible.",
    ),
    "bound": Described(
        "anonymize:bound",
        "Compute the least loss that any release of a table in classes of k or more rows must"
        " have.",
    ),
    "budget": Described(
        "chains:budget",
        "Privacy budgets: how much the differentially private releases of a table may spend"
        " together.",
    ),
    "chain": Described("chains:chain", "Releases of the same persons that stay private together."),
    "check": Described(
        "jobs:check",
        "Check a job file without a database, and report all problems at once.",
    ),
    "declare": Described(
        "rules:declare",
        "Declare rules that say what the columns of a table are. They are stored in its database.",
    ),
    "demo": Described(
        "demo:demo",
        "Invent a table of persons in a DuckDB file, anonymize it, and verify it.",
    ),
    "drop": Described(
        "releases:drop", "Drop a release that dbanon made: its view, its table and its summary."
    ),
    "evaluate": Described(
        "releases:evaluate", "Evaluate a release: its loss and its remaining risk."
    ),
    "explain": Described(
        "explain:explain",
        "Explain an error: what its code means, why it occurs, and what to do.",
    ),
    "gc": Described(
        "administration:gc",
        "Drop released tables that their view no longer shows, and leftovers of killed runs.",
    ),
    "hierarchy": Described(
        "hierarchy:hierarchy",
        "Check generalization trees, propose them, and store them by name.",
    ),
    "init": Described(
        "jobs:init",
        "Print a job file for a table, for you to edit. Its roles are proposals, never decisions.",
    ),
    "install": Described(
        "administration:install",
        "Install the SQL functions in a PostgreSQL database.",
    ),
    "methods": Described(
        "administration:methods",
        "List the methods with the data they take, class sizes, guarantee, cost, reference"
        " and options.",
    ),
    "plan": Described(
        "jobs:plan_any",
        "Show what anonymize would do with these options, or refuse as anonymize would.",
    ),
    "refresh": Described(
        "rules:refresh",
        "Make a release again from its entry in the ledger, with the current rows of its source.",
    ),
    "releases": Described(
        "releases:releases",
        "List the releases in the ledger, newest first, with the current state of each.",
    ),
    "repair": Described(
        "administration:repair",
        "Attach the releases of a PostgreSQL ledger to their relations again, and say what was"
        " done.",
    ),
    "report": Described(
        "releases:report",
        "Write the report of a release from its ledger entry, with its classes counted again.",
    ),
    "rules": Described(
        "rules:rules",
        "List the declared rules, and whether their tables and columns still exist.",
    ),
    "run": Described(
        "run:run",
        "Run the jobs of a file in its order, each with its own transaction, lock and ledger row.",
    ),
    "schema": Described(
        "jobs:schema",
        "Print the JSON Schema of job files, which editors use to check them.",
    ),
    "show": Described(
        "releases:show_release",
        "Show everything that the ledger has about a release: its entry, columns and run.",
    ),
    "undeclare": Described(
        "rules:undeclare", "Remove the rules of a table, for some columns or for all."
    ),
    "tutorial": Described(
        "tutorial:tutorial",
        "Take a guided tour in ten minutes. Each step is explained, run for real, and waits"
        " for Enter.",
    ),
    "uninstall": Described(
        "administration:uninstall", "Remove the SQL functions; the ledger stays."
    ),
    "upgrade": Described(
        "administration:upgrade",
        "Bring installed SQL functions to this version; ledger, hierarchies and grants stay.",
    ),
    "verify": Described(
        "jobs:verify_any",
        "Recount a release in the database, and compare it with the ledger.",
    ),
    "workbench": Described(
        "workbench:workbench",
        "Open a local web page that leads from a table to a job file and its release.",
    ),
}


@click.group(
    cls=LoadedCommands,
    known=_COMMANDS,
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
