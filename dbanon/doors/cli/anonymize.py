"""The commands ``dbanon anonymize`` and ``dbanon plan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.data.option import REQUIRED, Parameter, all_parameters, parameters
from dbanon.data.types import KeywordArguments
from dbanon.doors.cli.log import Command, current_log
from dbanon.doors.cli.option_groups import GroupedOptions
from dbanon.doors.cli.options import click_option, parse_option_values, parse_table_options
from dbanon.doors.cli.progress import print_warnings, show_progress
from dbanon.doors.cli.report_files import save_refusal_on_error, write_report
from dbanon.doors.cli.support import (
    ROWS_HELP,
    Decorator,
    commit_guard,
    handle_signals,
    report_errors,
    short_names,
    show_pairs,
    split_pair,
    sql_printer,
    with_common_options,
)
from dbanon.doors.engines import ENGINES, Engine
from dbanon.doors.html import needs_evaluation
from dbanon.errors import InvalidParameter
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.private import build_option_refusal, private_method_options
from dbanon.job.synthesis import PRIVATE_METHODS

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report

_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        help=(
            "Run on a cluster. URL and --target are then PostgreSQL, or directories of Parquet"
            " files. See docs/scale-out.md."
        ),
    ),
    click.option("--master", metavar="URL", help="The cluster's master, as spark://host:7077."),
    click.option(
        "--tasks",
        type=click.IntRange(min=1),
        help=("Number of parallel tasks. Default: at least the number of cores of the cluster."),
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        help=(
            "A setting of Spark. Repeatable. Put secrets into Spark's own files, because others"
            " on this machine can see the command line."
        ),
    ),
)


def with_engine_options(command: Command) -> Command:
    """Add the options of an engine to a command."""
    for option in reversed(_ENGINE_OPTIONS):
        command = option(command)
    return command


def build_engine(arguments: KeywordArguments) -> Engine | None:
    """Build the engine from a command's options; None to run in this process.

    Raises
    ------
    UsageError : an engine has no master, or there are engine settings without an engine.
    InvalidParameter : Spark does not support the method.
    """
    name, master = arguments["engine"], arguments["master"]
    if name is None:
        if master is not None or arguments["tasks"] is not None or arguments["conf"]:
            raise click.UsageError("--master, --tasks and --conf need an engine: --engine spark.")
        return None
    if arguments["method"] in PRIVATE_METHODS:
        raise build_option_refusal("engine", arguments["method"])
    if arguments["print_sql"]:
        raise click.UsageError(
            "--print-sql does not work with --engine, because the workers run the statements."
        )
    if master is None:
        raise click.UsageError("--engine spark needs its master: --master spark://host:7077.")
    return Engine(name, master, arguments["tasks"], dict(map(split_pair, arguments["conf"])))


# The options of a chain except its name. For click they are all optional; ``build_chain`` checks
# that the required ones are set if there is a chain.
_CHAIN_OPTIONS = tuple(
    replace(parameter, default=None if parameter.default is REQUIRED else parameter.default)
    for parameter in parameters(Chain)[1:]
)
# Prefix of the parameters of chain options, since ``key`` is also an option about rows.
_CHAIN_PREFIX = "chain_"


def with_chain_options(command: Command) -> Command:
    """Add the options that accompany ``--chain`` to a command."""
    for parameter in reversed(_CHAIN_OPTIONS):
        decorator: Decorator = click_option(
            parameter, _CHAIN_OPTIONS, parameter_name=_CHAIN_PREFIX + parameter.name
        )
        command = decorator(command)
    return command


def build_chain(arguments: KeywordArguments) -> Chain | None:
    """Build the chain from a command's options; None without ``--chain``.

    Raises
    ------
    InvalidParameter : there are chain options without a chain, or the chain has no key.
    """
    chain_options = parse_option_values(
        _CHAIN_OPTIONS,
        {parameter.name: arguments[_CHAIN_PREFIX + parameter.name] for parameter in _CHAIN_OPTIONS},
    )
    if arguments["chain"] is None:
        if any(chain_options.values()):
            raise InvalidParameter(
                "--chain-key, --max-exposed, --accept-turnover, --table-output and"
                " --table-keep need a chain.",
                hint="Name it: --chain NAME.",
            )
        return None
    if chain_options["key"] is None:
        raise InvalidParameter(
            "A chain needs its key.", hint="Say where it is: --chain-key file:PATH or env:NAME."
        )
    return Chain(arguments["chain"], **chain_options)


# The options of a job, including those of its nested groups of options.
OPTIONS = all_parameters(Job)
# Additional options of dp_ranks and dp_marginals, which have no k.
PRIVATE_OPTIONS = private_method_options()
# Options of ``anonymize``. Click does not require ``k``: methods for synthetic rows have none.
_ANONYMIZE_OPTIONS = tuple(
    replace(option, default=None) if option.name == "k" else option for option in OPTIONS
)

# Options listed right after the option of this name: a short form, an alternative or related ones.
_FOLLOWING_OPTIONS: dict[str, Decorator] = {
    "quasi_identifiers": short_names("-q", "single_q", "Quasi-identifiers"),
    "sensitive": short_names("-s", "single_s", "Sensitive columns"),
    "orders": click.option(
        "--order-file",
        "order_files",
        multiple=True,
        metavar="NAME=FILE",
        help="The same from a file, with one value per line. Repeatable.",
    ),
    "chain": with_chain_options,
    "output": click.option("--target", help="URL of another database to write to."),
}


def with_options(
    options: Sequence[Parameter], special_options: Mapping[str, Decorator] | None = None
) -> Decorator:
    """Return a decorator that adds options to a command, in this order.

    Parameters
    ----------
    special_options : by name, the click options of parameters that the command reads in its own
        way.
    """
    special_options = special_options or {}

    def decorate(command: Command) -> Command:
        # Click lists options in the reverse of the order in which they are added.
        for option in reversed(options):
            if option.name in _FOLLOWING_OPTIONS:
                command = _FOLLOWING_OPTIONS[option.name](command)
            build = special_options.get(option.name) or click_option(option, options)
            command = build(command)
        return command

    return decorate


declared_option = click.option(
    "--declared",
    is_flag=True,
    help=(
        "Take the role of each column from the rules of the table. Every column must have a rule."
        " See dbanon declare."
    ),
)


def to_python_options(arguments: KeywordArguments) -> KeywordArguments:
    """Convert the arguments of a command into keyword arguments of ``anonymize`` in Python."""
    return parse_table_options(OPTIONS, arguments) | {
        "target": arguments["target"],
        "chain": build_chain(arguments),
        "declared": arguments["declared"],
    }


@click.command(cls=GroupedOptions, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options((*_ANONYMIZE_OPTIONS, *PRIVATE_OPTIONS))
@declared_option
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "Also write the report to a .json, .html or .txt file; .html turns --evaluate on. If"
        " nothing is released, NAME.refused.html says why."
    ),
)
@click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
@with_engine_options
@with_common_options
def anonymize(url: str, **arguments: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    Columns you don't name are left out.
    """
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors.job_arguments import job_of, run_arguments

        log = current_log()
        report_path: Path | None = arguments["report"]
        options = to_python_options(arguments) | parse_option_values(PRIVATE_OPTIONS, arguments)
        is_private = options["method"] in PRIVATE_METHODS
        if report_path is not None:
            from dbanon.doors.cli.render import require_report_file

            require_report_file(report_path)
        if options["k"] is None and not is_private:
            raise click.UsageError("Missing option '--k'.")
        # An HTML report shows an evaluation. Differentially private releases have none.
        options["evaluate"] |= needs_evaluation(report_path) and not is_private
        engine = build_engine(arguments)
        with (
            save_refusal_on_error(report_path, options, log.run_id),
            show_progress(not arguments["no_progress"]) as progress,
        ):
            run_options: KeywordArguments = {"door": "cli", "run_id": log.run_id}
            target = options.pop("target")
            if engine is None:
                on_sql = sql_printer(arguments["print_sql"])
                report: Report | PrivateReport = run_arguments(
                    url, options | run_options, target=target, progress=progress, on_sql=on_sql
                )
            else:
                report = engine.run(job_of(options | run_options), url, target or url)
            log.release_id = report.release_id
            # From here on, errors are only printed as warnings: see ``commit_guard``.
            mark_committed()
        print_warnings(report)
        if report_path is not None:
            write_report(report, report_path, arguments["target"] or url)
        show_pairs(output_format, report.to_dict(), "Report", report.pairs)
