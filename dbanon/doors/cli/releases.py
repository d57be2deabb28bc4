"""The commands on existing releases: ``releases``, ``show``, ``drop``, ``report`` and others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.data.types import JsonMapping
from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.log import current_log
from dbanon.doors.cli.support import (
    ROWS_HELP,
    URL_HELP,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    show_pairs,
    split_pair,
    sql_printer,
    with_common_options,
    with_recount_options,
)
from dbanon.errors import InvalidParameter, OutputExists

if TYPE_CHECKING:
    from rich.table import Table

    from dbanon.release.analysis_comparison import AnalysisComparison
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.release.risk_figures import RiskFigures
    from dbanon.run.job_runner import RiskRunner


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
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
@click.option(
    "--risk",
    "risk_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json",
    help=(
        "Also show the disclosure risk before and after: the private file of a job, or what dbanon"
        " risk --released TABLE --format json prints. The page is then for you, not for readers."
    ),
)
@with_common_options
def report(
    url: str,
    relation: str,
    path: Path,
    recipient: str | None,
    purpose: str | None,
    risk_file: Path | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """Write the report of a release from its ledger entry, with its classes counted again.

    The command does not read the original. It fails if the release has changed, as dbanon verify
    does.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors.cli.render import require_report_file, save_report
        from dbanon.run.inspect_release import inspect_release, read_private_report
        from dbanon.run.open import open_store
        from dbanon.run.verify import verify
        from dbanon.sessions.names import parse_relation

        require_report_file(path)
        risk = None if risk_file is None else _read_risk(risk_file, path)
        # The texts for the page's fields for signatures; None for a page without these fields.
        handover = None
        if recipient is not None or purpose is not None:
            handover = {"recipient": recipient or "", "purpose": purpose or ""}
            if path.suffix != ".html":
                raise InvalidParameter(
                    "--for and --purpose only apply to an HTML report.",
                    hint="Name a .html file.",
                )
            if risk is not None:
                raise InvalidParameter(
                    "A page that is handed over cannot show the disclosure risk.",
                    hint="Write two pages: leave out --risk for the recipient's.",
                )
        store, name = open_store(url, sql_printer(print_sql)), parse_relation(relation)
        # Differentially private releases have a report of another class, and no classes to inspect.
        private_report = read_private_report(store, name)
        inspection = inspect_release(store, name) if private_report is None else None
        release_report = private_report if inspection is None else inspection.record.report
        assert release_report is not None
        current_log().release_id = release_report.release_id
        recount = verify(store, name)
        page_options = {} if risk is None else {"disclosure": _describe_risk(risk, release_report)}
        save_report(
            release_report, path, inspection, recount=recount, handover=handover, **page_options
        )
        document = {
            "release_id": release_report.release_id,
            "report": str(path),
            "recounted": recount.recounted,
        }
        show_pairs(output_format, document, "Report", document.items)


# Figures of the disclosure risk, and the id of their release; None if the file has none.
_Risk = tuple["RiskFigures", "str | None"]


def _read_risk(file: Path, page: Path) -> _Risk:
    """Read the disclosure risk for a page, which must be a new file.

    A page for readers could have the same name, and be replaced by one that is not for them.

    Raises
    ------
    InvalidParameter : the file has other contents, or the page is not an HTML page.
    OutputExists : the page exists.
    """
    from dbanon.data.extension import load_runner

    if page.suffix != ".html":
        raise InvalidParameter("--risk only applies to an HTML report.", hint="Name a .html file.")
    if page.is_symlink() or page.exists():
        raise OutputExists(
            f"The file {page} already exists.", hint="Name a new file: --output FILE.html"
        )
    runner: RiskRunner = load_runner("sample_risk")
    return runner.read(file)


def _describe_risk(risk: _Risk, report: Report | PrivateReport) -> JsonMapping:
    """Describe the disclosure risk of a release for its page.

    Raises
    ------
    InvalidParameter : the figures are those of another release, or its rows are synthetic.
    """
    from dbanon.data.extension import load_runner
    from dbanon.release.report import Report

    figures, release_id = risk
    if not isinstance(report, Report):
        raise InvalidParameter(
            "The release has synthetic rows, which are those of no person.",
            hint="Leave out --risk.",
        )
    if release_id not in (None, report.release_id) or figures.records_after != report.rows_out:
        raise InvalidParameter(
            "The figures of the disclosure risk are those of another release.",
            hint="Measure this one: dbanon risk URL --table TABLE --released RELEASE --format json",
        )
    runner: RiskRunner = load_runner("sample_risk")
    return runner.describe_for_page(figures)


_RELEASE_COLUMNS = [
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
_RUN_COLUMNS = [
    "started_at",
    "finished_at",
    "state",
    "error_code",
    "output",
    "release_id",
    "run_by",
]


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
@with_common_options
def releases(url: str, job: str | None, exact: bool, output_format: str, print_sql: bool) -> None:
    """List the releases in the ledger, newest first, with the current state of each."""
    with report_errors(output_format), handle_signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import EntryList

        on_sql = sql_printer(print_sql)
        if job is None:
            title, header = "Releases", _RELEASE_COLUMNS
            entries = [asdict(release) for release in api.releases(url, exact=exact, on_sql=on_sql)]
        else:
            title, header = f"Runs of job {job}", _RUN_COLUMNS
            entries = [asdict(attempt) for attempt in api.attempts(url, job, on_sql=on_sql)]

        def format_cell(value: object) -> object:
            if isinstance(value, float):
                return f"{value:.4g}"
            if isinstance(value, bool):
                return "yes" if value else "no"
            return "" if value is None else value

        rows = [[format_cell(entry[key]) for key in header] for entry in entries]
        show(output_format, entries, lambda: EntryList(title, header, rows))


@click.command("show", cls=DatabaseCommand, epilog=URL_HELP)
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
@with_common_options
def show_release(
    url: str, release: str, internal: bool, output_format: str, print_sql: bool
) -> None:
    """Show everything that the ledger has about a release: its entry, columns and run.

    RELEASE is its id, or the name of its output.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors import releases as api

        entry = api.show(url, release, internal=internal, on_sql=sql_printer(print_sql))
        current_log().release_id = entry["release_id"]

        def build_pairs() -> list[tuple[str, str]]:
            labels_and_texts: list[tuple[str, str]] = []
            for name, value in entry.items():
                text = value if isinstance(value, str) else json.dumps(value, default=str)
                if name == "columns":
                    labels_and_texts += [
                        (f"column {column['name']}", f"{column['role']}, {column['sql_type']}")
                        for column in value
                    ]
                elif name == "internal":
                    labels_and_texts += _format_internal_figures(value)
                elif value is not None:
                    labels_and_texts.append((name, text))
            return labels_and_texts

        show_pairs(output_format, entry, "Release", build_pairs)


def _format_internal_figures(figures: JsonMapping | None) -> list[tuple[str, str]]:
    """Format a release's exact figures as pairs of label and text.

    Parameters
    ----------
    figures : JSON values by name, as in the ledger; None if they are not recorded or if this role
        may not read them.
    """
    from dbanon.release.outcome import INTERNAL_NOTE

    if figures is None:
        return [("exact figures", "none: not recorded, or another role published it")]
    pairs = [(f"  {name}", json.dumps(figures[name])) for name in figures if name != "note"]
    return [("exact figures", INTERNAL_NOTE), *pairs]


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@click.option(
    "--original",
    metavar="TABLE",
    help=(
        "The table that the release was made from. Adds the losses that can be computed without"
        " pairing rows."
    ),
)
@click.option(
    "--changed-source",
    is_flag=True,
    help="Compare with the original even if its rows or columns have changed since.",
)
@click.option(
    "--analyses",
    metavar="FILE",
    help=(
        "A file of analyses, such as means and regressions: compare what readers compute from the"
        " release with the same from the original. Computed from the original, so it is for the"
        " owner of the data."
    ),
)
@click.option(
    "--hierarchy",
    "hierarchies",
    metavar="NAME=HIERARCHY",
    multiple=True,
    help="With --analyses, the hierarchy that a column's released labels come from. Repeatable.",
)
@click.option(
    "--risk",
    metavar="JSON",
    help=(
        "Also measure the disclosure risk before and after: options of dbanon risk by name, as in"
        """ '{"weight": "w", "household": "hh"}', or '{}' for the columns and the design weight"""
        " of the release. For the controller of the data, not for publication."
    ),
)
@with_common_options
def evaluate(
    url: str,
    release: str,
    original: str | None,
    changed_source: bool,
    analyses: str | None,
    hierarchies: tuple[str, ...],
    risk: str | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """Evaluate a release: its loss and its remaining risk.

    RELEASE is the name of its output. The command prints the figures that were recorded with
    --evaluate when it was made, and counts its classes again.
    """
    with report_errors(output_format), handle_signals():
        from rich.console import Group

        from dbanon.doors.cli.render import rows_table
        from dbanon.run.evaluate_release import evaluate_release
        from dbanon.run.evaluate_risk import check_risk
        from dbanon.run.open import open_store
        from dbanon.sessions.names import parse_relation

        if changed_source and original is None:
            raise InvalidParameter(
                "--changed-source needs an original.", hint="Add --original TABLE."
            )
        if analyses is not None and original is None:
            raise InvalidParameter("--analyses needs an original.", hint="Add --original TABLE.")
        if hierarchies and analyses is None:
            raise InvalidParameter("--hierarchy needs analyses.", hint="Add --analyses FILE.")
        if risk is not None and original is None:
            raise InvalidParameter("--risk needs an original.", hint="Add --original TABLE.")
        evaluation = evaluate_release(
            open_store(url, sql_printer(print_sql)),
            parse_relation(release),
            None if original is None else parse_relation(original),
            changed_source=changed_source,
            risk=None if risk is None else check_risk(_parse_risk(risk)),
            accepts_synthetic=analyses is not None,
        )
        current_log().release_id = evaluation.release_id
        comparison: AnalysisComparison | None = None
        if analyses is not None and original is not None:
            from dbanon.doors.analyses import compare_analyses

            comparison = compare_analyses(
                original,
                release,
                analyses,
                database=url,
                hierarchies=dict(map(split_pair, hierarchies)),
                on_sql=sql_printer(print_sql),
            )

        def build_rows() -> list[list[object]]:
            return [
                [
                    figure.measure,
                    figure.attribute or "",
                    "" if figure.value is None else f"{figure.value:.6g}",
                    figure.note,
                ]
                for figure in evaluation.figures
            ]

        def build_tables() -> object:
            header = ["measure", "column", "value", "note"]
            tables = [rows_table(f"Evaluation of {evaluation.relation}", header, build_rows())]
            if comparison is not None:
                tables.append(_build_analysis_table(comparison))
            if evaluation.risk is not None:
                tables += _build_risk_tables(evaluation.risk)
            return Group(*tables)

        document = evaluation.to_dict()
        if comparison is not None:
            document["analyses"] = comparison.to_dict()
        show(output_format, document, build_tables)


def _parse_risk(text: str) -> Any:
    """Parse the JSON of the options of ``--risk``.

    Raises
    ------
    InvalidParameter : it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter(
            "The options of --risk are not JSON.",
            hint="""Write --risk '{"weight": "w"}', or --risk '{}' for the defaults.""",
        ) from None


def _build_risk_tables(risk: RiskFigures) -> list[Table]:
    """Build the tables of the disclosure risk before and after."""
    from dbanon.doors.cli.render import pairs_table, rows_table

    title = "Disclosure risk, for the controller of the data, not for publication"
    return [
        rows_table(title, ("measure", "before", "after"), risk.table_rows()),
        pairs_table("What it means", risk.pairs()),
    ]


def _build_analysis_table(comparison: AnalysisComparison) -> Table:
    """Build the table of compared analyses."""
    from dbanon.doors.cli.render import rows_table

    header = ["analysis", "estimate", "original", "released", "difference", "overlap"]
    return rows_table(f"Analyses, {comparison.note}", header, comparison.table_rows())


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@with_common_options
def drop(url: str, release: str, output_format: str, print_sql: bool) -> None:
    """Drop a release that dbanon made: its view, its table and its summary.

    RELEASE is the name of its output. The ledger keeps its entry and marks it as dropped.
    """
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import rows_table

        dropped_relations = api.drop(url, release, on_sql=sql_printer(print_sql))
        # From here on, errors are only printed as warnings: see ``commit_guard``.
        mark_committed()
        title = f"{len(dropped_relations)} relations dropped"
        show(
            output_format,
            {"dropped": dropped_relations},
            lambda: rows_table(title, ["relation"], [[name] for name in dropped_relations]),
        )


@click.command("verify", cls=DatabaseCommand, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation")
@with_recount_options(
    quasi_identifiers_help=(
        "The quasi-identifiers, for a table that is not in the ledger of this database."
    ),
    default_k="the ledger's k",
)
@with_common_options
def verify(
    url: str,
    relation: str,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """Recount a release in the database, and compare it with the ledger.

    RELATION is the name of the release's output, the name of a table that was kept when its release
    was replaced, or the id of a release.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import verification_table

        verification = api.verify(
            url,
            relation,
            quasi_identifiers=(*quasi_identifiers, *single_q),  # of the long and the short option
            k=k,
            on_sql=sql_printer(print_sql),
        )
        current_log().release_id = verification.release_id
        show(output_format, verification.to_dict(), lambda: verification_table(verification))
