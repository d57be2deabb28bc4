"""Commands on files: ``check``, ``schema``, ``init``, ``plan`` for job files, and ``verify``.

A ``FileJob`` is a job of a file with its databases; its field ``job`` is the job in the form that
all interfaces share.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.advice.request import AdviceRequest
from dbanon.data.option import build_options, parameters
from dbanon.data.types import JsonObject
from dbanon.doors.cli.anonymize import with_options
from dbanon.doors.cli.log import current_log, with_log_format
from dbanon.doors.cli.options import parse_option_values
from dbanon.doors.cli.plan import plan
from dbanon.doors.cli.releases import verify
from dbanon.doors.cli.support import (
    FORMAT_OPTION,
    ROWS_HELP,
    Names,
    handle_signals,
    report_errors,
    show,
    show_pairs,
    sql_printer,
    with_common_options,
    with_recount_options,
)
from dbanon.errors import DbanonError, InsufficientRights, PrivacyWarning
from dbanon.job.export import FORMATS
from dbanon.job.reading import Reading

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob


FILE_ARGUMENT = click.argument("file", type=click.Path(path_type=Path))
JOB_OPTION = click.option(
    "--job",
    "names",
    multiple=True,
    metavar="NAME",
    help="Run only this job of the file. Repeatable.",
)
PASSWORD_OPTION = click.option(
    "--allow-inline-password",
    "inline_password",
    is_flag=True,
    help="Allow passwords in the file's URLs.",
)


@click.command()
@FILE_ARGUMENT
@PASSWORD_OPTION
@FORMAT_OPTION
@with_log_format
def check(file: Path, inline_password: bool, output_format: str) -> None:
    """Check a job file without a database, and report all problems at once.

    Each problem is reported with its line and its path of keys, never with a value.
    """
    with report_errors(output_format):
        from dbanon.doors.cli.render import rows_table
        from dbanon.doors.jobfile.file import read_job_file

        entries = [
            {"job": file_job.name, "table": file_job.job.table, "output": file_job.job.output}
            for file_job in read_job_file(file, allow_inline_password=inline_password).jobs
        ]
        rows = [list(entry.values()) for entry in entries]
        show(output_format, {"jobs": entries}, lambda: rows_table("Jobs", list(entries[0]), rows))


@click.command()
@with_log_format
def schema() -> None:
    """Print the JSON Schema of job files, which editors use to check them."""
    with report_errors(output_format="table"):
        from dbanon.doors.jobfile.models import render_json_schema

        click.echo(render_json_schema(), nl=False)


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="The table or view to read, as in app.people.")
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True)
@click.option(
    "--key", type=Names(), default=(), help="Columns that are unique for each row, for views."
)
# ``advise`` has the same options.
@with_options(
    [parameter for parameter in parameters(AdviceRequest) if parameter.name in ("nulls", "profile")]
)
@with_options(parameters(Reading))
@with_log_format
def init(
    url: str,
    table: str,
    k: int,
    key: tuple[str, ...],
    nulls: str | None,
    profile: str | None,
    **reading: Any,
) -> None:
    """Print a job file for a table, for you to edit. Its roles are proposals, never decisions."""
    with report_errors(output_format="table"), handle_signals():
        from dbanon.doors.jobfile.init import render_job_file

        reading_options = build_options(Reading, parse_option_values(parameters(Reading), reading))
        click.echo(
            render_job_file(
                url, table, k=k, key=key, reading=reading_options, nulls=nulls, profile=profile
            ),
            nl=False,
        )


@click.command("plan")
@FILE_ARGUMENT
@JOB_OPTION
@click.option(
    "--cluster",
    is_flag=True,
    help="Also read the quasi-identifiers, find the classes and report their loss.",
)
@PASSWORD_OPTION
@with_common_options
def plan_file(
    file: Path,
    names: tuple[str, ...],
    cluster: bool,
    inline_password: bool,
    output_format: str,
    print_sql: bool,
) -> None:
    """Say what the jobs of a file would do, or refuse them as their runs would.

    The command counts rows and checks names, types and rights. It changes nothing.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors.jobfile.file import open_jobs
        from dbanon.doors.jobfile.run import (
            combine_errors,
            find_columns_without_role,
            plan_file_job,
        )

        jobs = open_jobs(file, allow_inline_password=inline_password).select_jobs(names)
        documents: list[JsonObject] = []
        failures: list[tuple[str, DbanonError]] = []
        for file_job in jobs:
            try:
                with warnings.catch_warnings():
                    # A plan publishes nothing: the run itself prints these warnings.
                    warnings.simplefilter("ignore", PrivacyWarning)
                    outlook = plan_file_job(
                        file_job, cluster=cluster, on_sql=sql_printer(print_sql)
                    )
            except DbanonError as error:
                current_log().error(error)
                failures.append((file_job.name, error))
                grants = _find_missing_grants(file_job, error, print_sql)
                documents.append({"job": file_job.name, "error": error.to_dict(), **grants})
                if grants:
                    missing = [("missing", grant) for grant in grants["grants"]]
                    _show_plan(output_format, [("job", file_job.name), *missing])
                continue
            # Of the columns that the release leaves out, those to which the file gives no role, not
            # even ``drop``. Their key in JSON is "unclassified".
            columns_without_role = list(find_columns_without_role(file_job, outlook.not_copied))
            document = {
                "job": file_job.name,
                "plan": outlook.to_dict(),
                "unclassified": columns_without_role,
            }
            pairs = [("job", file_job.name), *outlook.pairs()]
            if columns_without_role:
                pairs.append(("without a role, left out", ", ".join(columns_without_role)))
            if file_job.schedule:
                document["schedule"] = file_job.schedule
                pairs.append(("schedule, for your scheduler", file_job.schedule))
            documents.append(document)
            _show_plan(output_format, pairs)
        if output_format == "json":
            show(output_format, {"jobs": documents}, lambda: None)
        batch_error = combine_errors(failures, len(jobs))
        if batch_error is not None:
            # The error of a single job is already in the log.
            if len(jobs) > 1:
                current_log().error(batch_error)
            sys.exit(batch_error.exit_code)


def _show_plan(output_format: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Print the plan of a job as a table; JSON is printed after all jobs."""
    if output_format != "json":
        show_pairs(output_format, None, "Plan", lambda: pairs)


def _find_missing_grants(file_job: FileJob, error: DbanonError, print_sql: bool) -> JsonObject:
    """Return the missing GRANT statements under the key ``grants``; empty for other errors."""
    from dbanon.doors.jobfile.run import find_missing_rights

    # Its subclasses have other causes than a missing right.
    if type(error) is not InsufficientRights:
        return {}
    try:
        statements = find_missing_rights(file_job, sql_printer(print_sql))
    except DbanonError:
        # Report the plan's error instead.
        return {}
    return {"grants": list(statements)} if statements else {}


@click.command("verify")
@FILE_ARGUMENT
@click.option(
    "--ledger",
    metavar="URL",
    help=(
        "The database in which the release was published. The file's SHA-256 is compared with the"
        " SHA-256 of each export, of any format, in its ledger."
    ),
)
@with_recount_options(
    quasi_identifiers_help="For files that name no release.", default_k="the file's own k"
)
@with_common_options
def verify_file(
    file: Path,
    ledger: str | None,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """Recount a Parquet file of a release, using the file's own metadata.

    With --ledger the command instead reports which release published a file of exactly these bytes.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import verification_table

        verification = api.verify_file(
            file,
            ledger=ledger,
            quasi_identifiers=(*quasi_identifiers, *single_q),  # of the long and the short option
            k=k,
            on_sql=sql_printer(print_sql),
        )
        current_log().release_id = verification.release_id
        show(output_format, verification.to_dict(), lambda: verification_table(verification))


def choose_by_ending(
    command: click.Command, file_command: click.Command, endings: tuple[str, ...], option: str = ""
) -> click.Command:
    """Make a command run ``file_command`` instead if its first argument is a file.

    Parameters
    ----------
    endings : endings of the names of these files, such as ``.yaml``.
    option : an option that only ``file_command`` has, which also selects it.
    """
    make_command_context = command.make_context

    def make_context(
        name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Make the context of the command that the arguments select."""
        word = _find_first_argument(args, (*command.params, *file_command.params))
        # A file of rows, such as file:people.csv, is the URL of a source.
        is_file = (
            word.lower().endswith(endings) and "://" not in word and not word.startswith("file:")
        )
        has_option = bool(option) and any(word.partition("=")[0] == option for word in args)
        make_selected_context = (
            file_command.make_context if is_file or has_option else make_command_context
        )
        return make_selected_context(name, args, parent, **extra)

    command.make_context = make_context  # type: ignore[assignment,method-assign]
    return command


def _find_first_argument(args: Sequence[str], parameters: Iterable[click.Parameter]) -> str:
    """Return the first word that is neither an option nor the value of one; empty if none is."""
    value_options = {
        name
        for parameter in parameters
        if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count
        for name in parameter.opts
    }
    words = iter(args)
    for word in words:
        if word == "--":
            return next(words, "")
        if not word.startswith("-"):
            return word
        if word in value_options:
            next(words, None)
    return ""


plan_table_or_file = choose_by_ending(plan, plan_file, (".yaml", ".yml"))
verify_release_or_file = choose_by_ending(
    verify, verify_file, tuple(f".{name}" for name in FORMATS), "--ledger"
)
