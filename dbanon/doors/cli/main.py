"""The command line: one command a job, thin, and loaded when it is asked for."""

from __future__ import annotations

import click

from dbanon.doors.cli.groups import Described, LoadedCommands

# Of each the first paragraph of its help, as help on all commands shows it.
_COMMANDS = {
    "advise": Described(
        "advise:advise",
        "Say what columns may be, what singles rows out, and which release to start from.",
    ),
    "anonymize": Described(
        "anonymize:anonymize",
        "Anonymize a table into a table or view that was recounted before it is visible.",
    ),
    "bound": Described(
        "anonymize:bound",
        "Say what no release of a table in classes of k or more rows can lose less than.",
    ),
    "budget": Described(
        "chains:budget",
        "What differentially private releases of a table may spend together.",
    ),
    "chain": Described("chains:chain", "Releases of the same persons that stay private together."),
    "check": Described(
        "jobs:check",
        "Check a job file, without a database; all that is wrong is said at once.",
    ),
    "declare": Described(
        "rules:declare",
        "Declare what the columns of a table are: rules, kept beside it in its database.",
    ),
    "demo": Described(
        "demo:demo",
        "Invent a table of persons in a DuckDB file, anonymize it, and verify it.",
    ),
    "drop": Described(
        "releases:drop", "Drop a release of ours: its view, its table and its summary."
    ),
    "evaluate": Described("releases:evaluate", "Say what a release lost and what it still risks."),
    "explain": Described(
        "explain:explain",
        "Explain an error: what its code means, why it comes, and what to do.",
    ),
    "gc": Described(
        "administration:gc",
        "Drop released tables that their view no longer shows, and what killed runs left.",
    ),
    "hierarchy": Described(
        "hierarchy:hierarchy",
        "Check generalization trees, propose them, and store them by name.",
    ),
    "init": Described(
        "jobs:init",
        "Print a job file for a table, to be edited: its roles are proposals, never decisions.",
    ),
    "install": Described(
        "administration:install",
        "Install the SQL functions in a PostgreSQL database.",
    ),
    "methods": Described(
        "administration:methods",
        "List the methods: data they take, class sizes, guarantee, cost, reference, options.",
    ),
    "plan": Described(
        "jobs:plan_any",
        "Say what anonymize would do with these options, or refuse it as anonymize would.",
    ),
    "refresh": Described(
        "rules:refresh",
        "Make a release again by its entry in the ledger, of its source as it is now.",
    ),
    "releases": Described(
        "releases:releases",
        "List the releases in the ledger, newest first, and what became of each.",
    ),
    "report": Described(
        "releases:report",
        "Write the report of a release: what the ledger has of it, and its classes counted again.",
    ),
    "rules": Described(
        "rules:rules",
        "List the rules that are declared, and what became of their tables and columns.",
    ),
    "run": Described(
        "run:run",
        "Run the jobs of a file, in its order: each its own transaction, lock and ledger row.",
    ),
    "schema": Described(
        "jobs:schema",
        "Print the JSON Schema of job files, by which editors check them.",
    ),
    "show": Described(
        "releases:show_release",
        "Show all that the ledger has of a release: its entry, columns and run.",
    ),
    "undeclare": Described("rules:undeclare", "Forget rules of a table, of some columns or all."),
    "tutorial": Described(
        "tutorial:tutorial",
        "A guided tour in ten minutes: each step is explained, run for real, and waits for Enter.",
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
        "Open a page of this machine that leads from a table to a job file and its release.",
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
