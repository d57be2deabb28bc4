"""The commands on job files but ``run``: ``check``, ``schema``, ``init``, and plans of files."""

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
    recounted,
    show,
    signals,
    sql_printer,
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


def opened(file: Path, inline_password: bool) -> JobFile:
    """A job file, its variables expanded, its jobs within half of the memory.

    Those whose report is a page are evaluated.
    """
    from dbanon.doors.jobfile.file import limited

    found = _read(file, inline_password).with_variables()
    jobs = tuple(_evaluated(limited(job, half_of_memory())) for job in found.jobs)
    return replace(found, jobs=jobs)


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

        found = [
            {"job": one.name, "table": one.job.table, "output": one.job.output}
            for one in _read(file, inline_password).jobs
        ]
        rows = [list(one.values()) for one in found]
        show(form, {"jobs": found}, lambda: rows_table("Jobs", list(found[0]), rows))


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
@with_options([one for one in parameters(AdviceRequest) if one.name == "nulls"])
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
        from dbanon.doors.jobfile.run import failure, plan_file_job, unclassified

        jobs = opened(file, inline_password).chosen(names)
        told: list[dict[str, Any]] = []
        failed: list[tuple[str, DbanonError]] = []
        for job in jobs:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)
                    found = plan_file_job(job, cluster=cluster, on_sql=sql_printer(print_sql))
            except DbanonError as error:
                current().error(error)
                failed.append((job.name, error))
                lacked = _lacked(job, error, print_sql)
                told.append({"job": job.name, "error": error.to_dict(), **lacked})
                pairs = [("job", job.name), *(("missing", one) for one in lacked.get("grants", ()))]
                if form != "json" and lacked:
                    show(form, None, lambda pairs=pairs: pairs_table("Plan", pairs))  # type: ignore[misc]
                continue
            new = list(unclassified(job, found.not_copied))
            told.append({"job": job.name, "plan": found.to_dict(), "unclassified": new})
            told[-1] |= {"schedule": job.schedule} if job.schedule else {}
            if form != "json":
                pairs = [("job", job.name), *found.pairs()]
                pairs += [("without a role, dropped", ", ".join(new))] if new else []
                pairs += [("schedule, a hint", job.schedule)] if job.schedule else []
                show(form, None, lambda pairs=pairs: pairs_table("Plan", pairs))  # type: ignore[misc]
        if form == "json":
            show(form, {"jobs": told}, lambda: None)
        ended = failure(failed, len(jobs))
        if ended is not None:
            if len(jobs) > 1:
                current().error(ended)
            sys.exit(ended.exit_code)


def _lacked(job: FileJob, error: DbanonError, print_sql: bool) -> dict[str, Any]:
    """The rights that a plan was refused for, as statements; nothing where it was for others."""
    from dbanon.doors.jobfile.run import missing_rights

    if type(error) is not InsufficientRights:
        return {}
    try:
        found = missing_rights(job, sql_printer(print_sql))
    except DbanonError:
        # The error of the plan is what is told.
        return {}
    return {"grants": list(found)} if found else {}


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
@recounted("For files of no release.", "the file's own k")
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

        found = api.verify_file(
            file,
            ledger=ledger,
            quasi_identifiers=(*quasi_identifiers, *single_q),
            k=k,
            on_sql=sql_printer(print_sql),
        )
        current().release_id = found.release_id
        show(form, found.to_dict(), lambda: verification_table(found))


def of_file(
    command: click.Command, other: click.Command, endings: tuple[str, ...], option: str = ""
) -> click.Command:
    """The command, and the other one in its place where a word ends like a file of these.

    Parameters
    ----------
    option : the other command's own, which stands for it, too.
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


plan_any = of_file(plan, plan_file, (".yaml", ".yml"))
verify_any = of_file(verify, verify_file, (".parquet", ".csv"), "--ledger")
