"""The command ``dbanon anonymize``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from dbanon.data.counts import rarest_row
from dbanon.data.scales import STANDARDIZATIONS
from dbanon.doors.cli.support import (
    URL_HELP,
    Bytes,
    Names,
    common,
    errors,
    half_of_memory,
    lasting,
    method_options,
    model,
    numbers,
    orders,
    pair,
    say,
    show,
    signals,
    sql_printer,
)
from dbanon.errors import InvalidParameter, PrivacyWarning
from dbanon.job.policy import GUARANTEES, NULL_POLICIES, REFINEMENTS
from dbanon.methods import METHODS
from dbanon.recoding import INTERVALS, RECODINGS


@click.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="What is read, as in app.people.")
@click.option("--quasi-identifiers", type=Names(), default=(), help="Columns, separated by commas.")
@click.option(
    "-q",
    "single_q",
    multiple=True,
    metavar="NAME",
    help="One quasi-identifier, taken literally; repeatable.",
)
@click.option("--k", type=int, required=True, help="Smallest class, 2 or more.")
@click.option(
    "--method",
    default="mdav",
    show_default=True,
    help="See: dbanon methods.",
    metavar="|".join(METHODS),
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the method; repeatable.",
)
@click.option("--output", required=True, help="What is made, as in release.people.")
@click.option(
    "--output-kind",
    type=click.Choice(["table", "view"]),
    default="table",
    show_default=True,
    help="view: a stable name over a released table; grants survive.",
)
@click.option(
    "--if-exists",
    type=click.Choice(["error", "replace"]),
    default="error",
    show_default=True,
    help="replace only replaces what dbanon made.",
)
@click.option("--sensitive", type=Names(), default=(), help="Columns copied as they are.")
@click.option(
    "-s",
    "single_s",
    multiple=True,
    metavar="NAME",
    help="One sensitive column, taken literally; repeatable.",
)
@click.option("--keep", type=Names(), default=(), help="Other columns copied as they are.")
@click.option(
    "--by",
    type=Names(),
    default=(),
    help="Columns whose values make strata: released as they are, no class crosses them.",
)
@click.option(
    "--entity",
    metavar="NAME",
    help="The column that says whose a row is: k counts its distinct values. It is not released.",
)
@click.option(
    "--key",
    type=Names(),
    default=(),
    help="Columns that tell every row from every other; needed for views and foreign tables.",
)
@click.option("--target", help="URL of another database to write to.")
@click.option(
    "--standardize",
    type=click.Choice(STANDARDIZATIONS),
    default="zscore",
    show_default=True,
    help="How columns are made comparable.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Weight of a quasi-identifier in the distance; repeatable.",
)
@click.option(
    "--order",
    "orders_stated",
    multiple=True,
    metavar="NAME=A,B,C",
    help="The values of a text column from the lowest to the highest, which are then taken as"
    " ranks; one with a comma in it stands in double quotes; repeatable.",
)
@click.option(
    "--order-file",
    "order_files",
    multiple=True,
    metavar="NAME=FILE",
    help="The same from a file, one value a line; repeatable.",
)
@click.option(
    "--recoding",
    type=click.Choice(list(RECODINGS)),
    help="What a class is released with; the method's own by default.",
)
@click.option(
    "--nulls",
    type=click.Choice(NULL_POLICIES),
    default="error",
    show_default=True,
    help="suppress: withhold records with a NULL. category: classes within each pattern of NULLs.",
)
@click.option(
    "--max-suppression",
    type=float,
    default=0.0,
    show_default=True,
    help="Largest share of records that may be withheld, 0 to 1.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For what draws.")
@click.option(
    "--refine",
    type=click.Choice(REFINEMENTS),
    help="Search for classes of less loss after the method.",
)
@click.option("--refine-iterations", type=int, help="Pools built anew; default: as --refine says.")
@click.option(
    "--refine-seconds",
    type=float,
    help="A limit; the result then depends on the machine's speed.",
)
@click.option(
    "--block-size",
    type=int,
    help="Cut more records than this into blocks: faster, on all cores, a little more loss.",
)
@click.option(
    "--hierarchy",
    "hierarchies",
    multiple=True,
    metavar="NAME=HIERARCHY",
    help="Generalization tree of a quasi-identifier: a CSV or JSON file, table:ref.tree,"
    ' name:STORED, or JSON such as {"intervals": [5, 10]}; repeatable.',
)
@click.option(
    "--intervals",
    type=click.Choice(INTERVALS),
    default="text",
    show_default=True,
    help="How generalization writes ranges of numbers.",
)
@click.option(
    "--local-range",
    is_flag=True,
    help="Release classes' own ranges, whose borders are values of members.",
)
@click.option(
    "--step",
    "steps",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Width of the grid of ranges; repeatable.",
)
@click.option(
    "--guarantee",
    type=click.Choice(GUARANTEES),
    default="rows",
    show_default=True,
    help="per_attribute: release what individual_ranking gives, whose rows are not k-anonymous.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse columns copied as they are that are nearly unique or determine a"
    " quasi-identifier, which are warned of otherwise.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=KIND:LEVEL",
    help="Privacy model of a sensitive column, as in illness=distinct_l:3,"
    " illness=recursive_cl:3:l=2 or illness=t_closeness:0.2:distance=ordered; repeatable.",
)
@click.option(
    "--withhold-failing",
    is_flag=True,
    help="Withhold classes that fail a model, within --max-suppression, where merging loses more.",
)
@click.option(
    "--chunk-rows",
    type=int,
    default=65_536,
    show_default=True,
    help="Rows read at a time; never changes the result.",
)
@click.option("--memory-limit", type=Bytes(), help="Default: half of the machine's memory.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the report to a .json, .html or .txt file.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the lines on stderr.",
)
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@common
def anonymize(url: str, **given: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    A column named nowhere is not copied.
    """
    form = given["form"]
    with errors(form), signals(), lasting() as committed:
        from dbanon.doors import python as api
        from dbanon.doors.cli.progress import ProgressDisplay
        from dbanon.doors.cli.render import report_table, save_report

        limit = given["memory_limit"]
        path: Path | None = given["report"]
        if path is not None and (
            path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir()
        ):
            raise InvalidParameter(
                "The report cannot be written there.",
                hint="Name a .json, .html or .txt file in a directory that exists.",
            )
        with (
            warnings.catch_warnings(),
            ProgressDisplay(not given["no_progress"], given["log_format"]) as progress,
        ):
            warnings.simplefilter("ignore", PrivacyWarning)
            report = api.anonymize(
                url,
                table=given["table"],
                quasi_identifiers=(*given["quasi_identifiers"], *given["single_q"]),
                k=given["k"],
                output=given["output"],
                method=given["method"],
                options=method_options(given["method"], given["options"]),
                sensitive=(*given["sensitive"], *given["single_s"]),
                keep=given["keep"],
                by=given["by"],
                entity=given["entity"],
                key=given["key"],
                standardize=given["standardize"],
                weights=numbers("--weight", given["weights"]),
                orders=orders(given["orders_stated"], given["order_files"]),
                nulls=given["nulls"],
                max_suppression=given["max_suppression"],
                recoding=given["recoding"],
                seed=given["seed"],
                refine=given["refine"],
                refine_iterations=given["refine_iterations"],
                refine_seconds=given["refine_seconds"],
                block_size=given["block_size"],
                hierarchies=dict(map(pair, given["hierarchies"])),
                intervals=given["intervals"],
                local_range=given["local_range"],
                steps=numbers("--step", given["steps"]),
                guarantee=given["guarantee"],
                strict=given["strict"],
                models=[model(text) for text in given["models"]],
                withhold_failing=given["withhold_failing"],
                output_kind=given["output_kind"],
                if_exists=given["if_exists"],
                target=given["target"],
                chunk_rows=given["chunk_rows"],
                memory_limit=half_of_memory() if limit is None else limit,
                progress=progress,
                on_sql=sql_printer(given["print_sql"]),
                door="cli",
            )
            committed()
        if report.k_rows is not None:
            say(f"Warning: rows are NOT k-anonymous; {rarest_row(report.k_rows)}.")
        for found in report.telling:
            say(f"Warning: column {found.describe(report.k_requested)}.")
        if path is not None:
            save_report(report, path)
        show(form, report.to_dict(), lambda: report_table(report))
