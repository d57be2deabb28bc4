"""The commands on job files except ``run``: ``check``, ``schema``, ``init``, ``plan FILE``."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.advice.request import AdviceRequest
from dbanon.data.memory import half_of_memory
from dbanon.data.option import make, parameters
from dbanon.doors.cli.anonymize import plan, with_options
from dbanon.doors.cli.log import current, log_format
from dbanon.doors.cli.options import values
from dbanon.doors.cli.releases import needs_evaluation, verify
from dbanon.doors.cli.support import (
    FORMAT,
    ROWS_HELP,
    Names,
    common,
    errors,
    show,
    signals,
    sql_printer,
    with_recount_options,
)
from dbanon.errors import DbanonError, InsufficientRights, PrivacyWarning
from dbanon.job.reading import Reading

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob, JobFile


FILE = click.argument("file", type=click.Path(path_type=Path))
JOBS = click.option(
    "--job",
    "names",
    multiple=True,
    metavar="NAME",
    help="Run only this job of the file. Repeatable.",
)
PASSWORD = click.option(
    "--allow-inline-password",
    "inline_password",
    is_flag=True,
    help="Allow passwords in the file's URLs.",
)


def _read(file: Path, inline_password: bool) -> JobFile:
    from dbanon.doors.jobfile.file import read_job_file

    return read_job_file(file, inline_password=inline_password)


def open_jobs(file: Path, inline_password: bool) -> JobFile:
    """Read a job file, expand its variables and limit its jobs to half of the memory.

    Jobs with an HTML report also evaluate their release.
    """
    from dbanon.doors.jobfile.file import with_memory_limit

    job_file = _read(file, inline_password).with_variables()
    jobs = tuple(_evaluated(with_memory_limit(job, half_of_memory())) for job in job_file.jobs)
    return replace(job_file, jobs=jobs)


def _evaluated(job: FileJob) -> FileJob:
    return replace(job, job=job.job.evaluated()) if needs_evaluation(job.report) else job


@click.command()
@FILE
@PASSWORD
@FORMAT
@log_format
def check(file: Path, inline_password: bool, form: str) -> None:
    """Check a job file without a database, and report all problems at once.

    Each problem is reported with its line and its path of keys, never with a value.
    """
    with errors(form):
        from dbanon.doors.cli.render import rows_table

        entries = [
            {"job": job.name, "table": job.job.table, "output": job.job.output}
            for job in _read(file, inline_password).jobs
        ]
        rows = [list(job.values()) for job in entries]
        show(form, {"jobs": entries}, lambda: rows_table("Jobs", list(entries[0]), rows))


@click.command()
@log_format
def schema() -> None:
    """Print the JSON Schema of job files, which editors use to check them."""
    with errors("table"):
        from dbanon.doors.jobfile.models import schema_text

        click.echo(schema_text(), nl=False)


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="The table or view to read, as in app.people.")
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True)
@click.option(
    "--key", type=Names(), default=(), help="Columns that are unique for each row, for views."
)
@with_options([parameter for parameter in parameters(AdviceRequest) if parameter.name == "nulls"])
@with_options(parameters(Reading))
@log_format
def init(
    url: str, table: str, k: int, key: tuple[str, ...], nulls: str | None, **reading: Any
) -> None:
    """Print a job file for a table, for you to edit. Its roles are proposals, never decisions."""
    with errors("table"), signals():
        from dbanon.doors.jobfile.init import job_file_for

        written = make(Reading, values(parameters(Reading), reading))
        click.echo(job_file_for(url, table, k=k, key=key, reading=written, nulls=nulls), nl=False)


@click.command("plan")
@FILE
@JOBS
@click.option(
    "--cluster",
    is_flag=True,
    help="Also read the quasi-identifiers, find the classes and report their loss.",
)
@PASSWORD
@common
def plan_file(
    file: Path,
    names: tuple[str, ...],
    cluster: bool,
    inline_password: bool,
    form: str,
    print_sql: bool,
) -> None:
    """Say what the jobs of a file would do, or refuse them as their runs would.

    The command counts rows and checks names, types and rights. It changes nothing.
    """
    with errors(form), signals():
        from dbanon.doors.cli.render import pairs_table
        from dbanon.doors.jobfile.run import (
            combine_errors,
            find_columns_without_role,
            plan_file_job,
        )

        jobs = open_jobs(file, inline_password).select_jobs(names)
        documents: list[dict[str, Any]] = []
        failed: list[tuple[str, DbanonError]] = []
        for job in jobs:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)
                    planned = plan_file_job(job, cluster=cluster, on_sql=sql_printer(print_sql))
            except DbanonError as error:
                current().error(error)
                failed.append((job.name, error))
                grants = _missing_grants(job, error, print_sql)
                documents.append({"job": job.name, "error": error.to_dict(), **grants})
                pairs = [
                    ("job", job.name),
                    *(("missing", grant) for grant in grants.get("grants", ())),
                ]
                if form != "json" and grants:
                    show(form, None, lambda pairs=pairs: pairs_table("Plan", pairs))  # type: ignore[misc]
                continue
            without_role = list(find_columns_without_role(job, planned.not_copied))
            documents.append(
                {"job": job.name, "plan": planned.to_dict(), "unclassified": without_role}
            )
            documents[-1] |= {"schedule": job.schedule} if job.schedule else {}
            if form != "json":
                pairs = [("job", job.name), *planned.pairs()]
                pairs += (
                    [("without a role, dropped", ", ".join(without_role))] if without_role else []
                )
                pairs += [("schedule, a hint", job.schedule)] if job.schedule else []
                show(form, None, lambda pairs=pairs: pairs_table("Plan", pairs))  # type: ignore[misc]
        if form == "json":
            show(form, {"jobs": documents}, lambda: None)
        batch_error = combine_errors(failed, len(jobs))
        if batch_error is not None:
            if len(jobs) > 1:
                current().error(batch_error)
            sys.exit(batch_error.exit_code)


def _missing_grants(job: FileJob, error: DbanonError, print_sql: bool) -> dict[str, Any]:
    """Return the GRANT statements that a plan lacks; empty for errors other than missing rights."""
    from dbanon.doors.jobfile.run import find_missing_rights

    if type(error) is not InsufficientRights:
        return {}
    try:
        statements = find_missing_rights(job, sql_printer(print_sql))
    except DbanonError:
        # Report the plan's error instead.
        return {}
    return {"grants": list(statements)} if statements else {}


@click.command("verify")
@FILE
@click.option(
    "--ledger",
    metavar="URL",
    help=(
        "The database that the release was published in. The file's SHA-256 is compared with those"
        " that its ledger recorded of exports, of any format."
    ),
)
@with_recount_options("For files of no release.", "the file's own k")
@common
def verify_file(
    file: Path,
    ledger: str | None,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    form: str,
    print_sql: bool,
) -> None:
    """Recount a Parquet file of a release, by its own metadata.

    With --ledger the command tells instead which release published a file of exactly these bytes.
    """
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import verification_table

        verification = api.verify_file(
            file,
            ledger=ledger,
            quasi_identifiers=(*quasi_identifiers, *single_q),
            k=k,
            on_sql=sql_printer(print_sql),
        )
        current().release_id = verification.release_id
        show(form, verification.to_dict(), lambda: verification_table(verification))


def choose_by_ending(
    command: click.Command, other: click.Command, endings: tuple[str, ...], option: str = ""
) -> click.Command:
    """Make a command hand over to another one if an argument has one of the file endings.

    Parameters
    ----------
    option : an option of the other command alone, which also selects it.
    """
    make = command.make_context

    def make_context(
        name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        named = [word for word in args if not word.startswith("-")]
        is_file = any(
            word.lower().endswith(endings) and "://" not in word and not word.startswith("file:")
            for word in named[:1]
        )
        has_option = bool(option) and any(word.partition("=")[0] == option for word in args)
        chosen = other.make_context if is_file or has_option else make
        return chosen(name, args, parent, **extra)

    command.make_context = make_context  # type: ignore[assignment,method-assign]
    return command


plan_any = choose_by_ending(plan, plan_file, (".yaml", ".yml"))
verify_any = choose_by_ending(verify, verify_file, (".parquet", ".csv"), "--ledger")
