"""The commands on existing releases: ``releases``, ``show``, ``drop``, ``report`` …."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.doors.cli.groups import OnDatabase
from dbanon.doors.cli.log import current, say
from dbanon.doors.cli.support import (
    ROWS_HELP,
    URL_HELP,
    commit_guard,
    common,
    errors,
    show,
    signals,
    sql_printer,
    with_recount_options,
)
from dbanon.doors.spelling import on_command_line
from dbanon.errors import DbanonError, InvalidParameter

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.inspect_release import ReleaseInspection


def needs_evaluation(path: str | Path | None) -> bool:
    """True for a page: only the run that makes a release can evaluate it fully."""
    return path is not None and Path(path).suffix == ".html"


def write_report(report: Report | PrivateReport, path: Path, database: str) -> None:
    """Write the report of a new release, and remove an earlier refusal next to it.

    Parameters
    ----------
    database : URL of the release's database, read for an HTML page.
    """
    from dbanon.doors.cli.render import save_report
    from dbanon.doors.html.refusals import drop_refusal
    from dbanon.release.report import Report

    with_look = needs_evaluation(path) and isinstance(report, Report)
    try:
        save_report(report, path, _look_at(database, report) if with_look else None)
    except OSError as error:
        # The release is committed: a failed report must not make a scheduler repeat the run.
        say(
            f"Warning: the release was published, but its report {path} could not be written"
            f" ({error.strerror or type(error).__name__}). Once it can be, write it with dbanon"
            f" report URL {report.output} -o {path}."
        )
    else:
        drop_refusal(path)


@contextmanager
def refused_into(path: Path | None, options: Mapping[str, Any], run_id: str) -> Iterator[None]:
    """If the block raises an error and a report was requested, save the refusal next to it.

    Parameters
    ----------
    options : of the release, including ``table`` and ``output``.
    """
    try:
        yield
    except DbanonError as error:
        if path is not None:
            from dbanon.doors.cli.render import save_refusal

            names = {"output": str(options["output"]), "source": str(options["table"] or "")}
            save_refusal(error, path, **names, run_id=run_id, notation=on_command_line)
        raise


def _look_at(database: str, report: Report | PrivateReport) -> ReleaseInspection | None:
    """Read what an HTML page shows about a release; None if the database does not answer."""
    from dbanon.run.inspect_release import inspect_release
    from dbanon.run.open import open_store
    from dbanon.sessions.names import parse_relation

    try:
        return inspect_release(open_store(database), parse_relation(report.output))
    except DbanonError as error:
        say(
            f"Warning: the report lacks information about the release that is only in the"
            f" database: {error.message}"
        )
        return None


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation", metavar="RELEASE")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The .html, .json or .txt file to write.",
)
@click.option(
    "--for",
    "recipient",
    metavar="TEXT",
    help="Recipient of the release. The page then has a line for a signature.",
)
@click.option(
    "--purpose",
    metavar="TEXT",
    help="Purpose of the release. The page shows it above the signature.",
)
@common
def report(
    url: str,
    relation: str,
    path: Path,
    recipient: str | None,
    purpose: str | None,
    form: str,
    print_sql: bool,
) -> None:
    """Write the report of a release from its ledger entry, with its classes counted again.

    The command does not read the original. It fails if the release has changed, as dbanon verify
    does.
    """
    with errors(form), signals():
        from dbanon.doors.cli.render import pairs_table, require_report_file, save_report
        from dbanon.run.inspect_release import inspect_release, read_private_report
        from dbanon.run.open import open_store
        from dbanon.run.verify import verify
        from dbanon.sessions.names import parse_relation

        require_report_file(path)
        handed = None
        if recipient is not None or purpose is not None:
            handed = {"recipient": recipient or "", "purpose": purpose or ""}
            if path.suffix != ".html":
                raise InvalidParameter(
                    "--for and --purpose only apply to an HTML report.",
                    hint="Name a .html file.",
                )
        store, name = open_store(url, sql_printer(print_sql)), parse_relation(relation)
        private = read_private_report(store, name)
        release_look = inspect_release(store, name) if private is None else None
        release_report = private if release_look is None else release_look.recorded.report
        assert release_report is not None
        current().release_id = release_report.release_id
        recount = verify(store, name)
        save_report(release_report, path, release_look, recount=recount, handed=handed)
        plain = {
            "release_id": release_report.release_id,
            "report": str(path),
            "recounted": recount.recounted,
        }
        show(form, plain, lambda: pairs_table("Report", plain.items()))


_RELEASE = [
    "output",
    "state",
    "stale",
    "created_at",
    "method",
    "k_requested",
    "k_achieved",
    "rows_out",
    "information_loss",
    "epsilon",
    "published_by",
    "release_id",
]
_ATTEMPT = ["started_at", "finished_at", "state", "error_code", "output", "release_id", "run_by"]


@click.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--job", metavar="NAME", help="List the runs of this job instead.")
@click.option(
    "--exact",
    is_flag=True,
    help=(
        "Also check whether the rows of the source have changed, for releases made with"
        " --source-digest."
    ),
)
@common
def releases(url: str, job: str | None, exact: bool, form: str, print_sql: bool) -> None:
    """List the releases in the ledger, newest first, with the current state of each."""
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import EntryList

        on_sql = sql_printer(print_sql)
        if job is None:
            title, header = "Releases", _RELEASE
            entries = [asdict(release) for release in api.releases(url, exact=exact, on_sql=on_sql)]
        else:
            title, header = f"Runs of job {job}", _ATTEMPT
            entries = [asdict(attempt) for attempt in api.attempts(url, job, on_sql=on_sql)]

        def cell(value: object) -> object:
            if isinstance(value, float):
                return f"{value:.4g}"
            if isinstance(value, bool):
                return "yes" if value else "no"
            return "" if value is None else value

        rows = [[cell(entry[key]) for key in header] for entry in entries]
        show(form, entries, lambda: EntryList(title, header, rows))


@click.command("show", cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@click.option(
    "--internal",
    is_flag=True,
    help=(
        "Add the exact figures, if this role published the release. They contain the extremes of"
        " the originals: do not publish them."
    ),
)
@common
def show_release(url: str, release: str, internal: bool, form: str, print_sql: bool) -> None:
    """Show everything that the ledger has about a release: its entry, columns and run.

    RELEASE is its id, or the name of its output.
    """
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import pairs_table

        entry = api.show(url, release, internal=internal, on_sql=sql_printer(print_sql))
        current().release_id = entry["release_id"]

        def pairs() -> list[tuple[str, str]]:
            labels_and_texts: list[tuple[str, str]] = []
            for name, value in entry.items():
                text = value if isinstance(value, str) else json.dumps(value, default=str)
                if name == "columns":
                    labels_and_texts += [
                        (f"column {c['name']}", f"{c['role']}, {c['sql_type']}") for c in value
                    ]
                elif name == "internal":
                    labels_and_texts += _internal_pairs(value)
                elif value is not None:
                    labels_and_texts.append((name, text))
            return labels_and_texts

        show(form, entry, lambda: pairs_table("Release", pairs()))


def _internal_pairs(figures: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Render the exact figures of a release as pairs of label and text, after a heading."""
    from dbanon.release.outcome import INTERNAL

    if figures is None:
        return [("exact figures", "none: not recorded, or another role published it")]
    pairs = [(f"  {name}", json.dumps(figures[name])) for name in figures if name != "note"]
    return [("exact figures", INTERNAL), *pairs]


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@click.option(
    "--original",
    metavar="TABLE",
    help=(
        "The table that it was made from. Adds the losses that can be computed without pairing"
        " rows."
    ),
)
@click.option(
    "--changed-source",
    is_flag=True,
    help="Compare with the original even if its rows or columns have changed since.",
)
@common
def evaluate(
    url: str,
    release: str,
    original: str | None,
    changed_source: bool,
    form: str,
    print_sql: bool,
) -> None:
    """Evaluate a release: its loss and its remaining risk.

    RELEASE is the name of its output. The command prints the figures that were recorded with
    --evaluate when it was made, and counts its classes again.
    """
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import rows_table

        if changed_source and original is None:
            raise InvalidParameter(
                "--changed-source needs an original.", hint="Add --original TABLE."
            )
        evaluation = api.evaluate_release(
            url,
            release,
            original=original,
            changed_source=changed_source,
            on_sql=sql_printer(print_sql),
        )
        current().release_id = evaluation.release_id

        def rows() -> list[list[object]]:
            return [
                [
                    figure.measure,
                    figure.attribute or "",
                    "" if figure.value is None else f"{figure.value:.6g}",
                    figure.note,
                ]
                for figure in evaluation.figures
            ]

        header, title = (
            ["measure", "column", "value", "note"],
            f"Evaluation of {evaluation.relation}",
        )
        show(form, evaluation.to_dict(), lambda: rows_table(title, header, rows()))


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@common
def drop(url: str, release: str, form: str, print_sql: bool) -> None:
    """Drop a release that dbanon made: its view, its table and its summary.

    RELEASE is the name of its output. The ledger keeps its entry and marks it as dropped.
    """
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import rows_table

        dropped = api.drop(url, release, on_sql=sql_printer(print_sql))
        committed()
        title = f"{len(dropped)} relations dropped"
        show(
            form,
            {"dropped": dropped},
            lambda: rows_table(title, ["relation"], [[name] for name in dropped]),
        )


@click.command("verify", cls=OnDatabase, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation")
@with_recount_options(
    "The quasi-identifiers, for a table that is not in the ledger of this database.",
    "the ledger's k",
)
@common
def verify(
    url: str,
    relation: str,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    form: str,
    print_sql: bool,
) -> None:
    """Recount a release in the database, and compare it with the ledger.

    RELATION is the name of its output, the name of the table that stayed when another release took
    its place, or the id of a release.
    """
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import verification_table

        verification = api.verify(
            url,
            relation,
            quasi_identifiers=(*quasi_identifiers, *single_q),
            k=k,
            on_sql=sql_printer(print_sql),
        )
        current().release_id = verification.release_id
        show(form, verification.to_dict(), lambda: verification_table(verification))
