"""The command ``dbanon anonymize``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dbanon.data.memory import half_of_memory
from dbanon.data.option import REQUIRED, Parameter, all_parameters, parameters
from dbanon.doors.cli.cautions import warn_of, watched
from dbanon.doors.cli.log import current
from dbanon.doors.cli.option_groups import GroupedOptions
from dbanon.doors.cli.options import Decorator, click_option, values, with_files
from dbanon.doors.cli.releases import needs_evaluation, refused_into, write_report
from dbanon.doors.cli.support import (
    ROWS_HELP,
    common,
    errors,
    lasting,
    pair,
    short_names,
    show,
    signals,
    sql_printer,
)
from dbanon.doors.engines import ENGINES, Engine
from dbanon.errors import InvalidParameter, PrivacyWarning
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.private import own_options, refused
from dbanon.job.reading import Reading
from dbanon.job.synthesis import PRIVATE_METHODS

_OPTIONS = (
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
        help=(
            "Number of tasks that work on blocks. Default: at least the number of cores of the"
            " cluster."
        ),
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


def with_engine(command: Any) -> Any:
    """Give a command the options of an engine."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def engine_of(given: Mapping[str, Any]) -> Engine | None:
    """The engine that was asked for; None for this process.

    Raises
    ------
    UsageError : it has no master, or is not named and has one.
    InvalidParameter : the method is not Spark's.
    """
    name, master = given["engine"], given["master"]
    if name is None:
        if master is not None or given["tasks"] is not None or given["conf"]:
            raise click.UsageError("--master, --tasks and --conf need an engine: --engine spark.")
        return None
    if given["method"] in PRIVATE_METHODS:
        raise refused("engine", given["method"])
    if given["print_sql"]:
        raise click.UsageError("--print-sql is not for --engine: its statements are the workers'.")
    if master is None:
        raise click.UsageError("--engine spark needs its master: --master spark://host:7077.")
    return Engine(name, master, given["tasks"], dict(map(pair, given["conf"])))


# No command needs them: what a chain needs is asked once one is named.
_CHAIN_PARTS = tuple(replace(one, default=None if one.default is REQUIRED else one.default)
               for one in parameters(Chain)[1:])  # fmt: skip
# The options of a command have one name each: that of a chain's key is not that of rows' keys.
_CHAIN_PREFIX = "chain_"


def with_chain(command: Any) -> Any:
    """Give a command the options that stand beside ``--chain``."""
    for one in reversed(_CHAIN_PARTS):
        given: Decorator = click_option(one, _CHAIN_PARTS, named=_CHAIN_PREFIX + one.name)
        command = given(command)
    return command


def chain_of(given: Mapping[str, Any]) -> Chain | None:
    """The chain that the options name.

    Raises
    ------
    InvalidParameter : they are given without a chain, or the chain without its key.
    """
    parts = values(
        _CHAIN_PARTS, {one.name: given[_CHAIN_PREFIX + one.name] for one in _CHAIN_PARTS}
    )
    if given["chain"] is None:
        if any(parts.values()):
            raise InvalidParameter(
                "--chain-key, --max-exposed, --accept-turnover, --table-output and"
                " --table-keep need a chain.",
                hint="Name it: --chain NAME.",
            )
        return None
    if parts["key"] is None:
        raise InvalidParameter(
            "A chain needs its key.", hint="Say where it is: --chain-key file:PATH or env:NAME."
        )
    return Chain(given["chain"], **parts)


OPTIONS = all_parameters(Job)
# What dp_ranks and dp_marginals have beside them; it has no k.
PRIVATE = own_options()
_ALL = tuple(replace(one, default=None) if one.name == "k" else one for one in OPTIONS)

# What the command line can say in a way of its own, beside the option it stands for.
_OWN: dict[str, Decorator] = {
    "quasi_identifiers": short_names("-q", "single_q", "Quasi-identifiers"),
    "sensitive": short_names("-s", "single_s", "Sensitive columns"),
    "orders": click.option(
        "--order-file",
        "order_files",
        multiple=True,
        metavar="NAME=FILE",
        help="The same from a file, with one value per line. Repeatable.",
    ),
    "chain": with_chain,
    "output": click.option("--target", help="URL of another database to write to."),
}


def with_options(known: Sequence[Parameter]) -> Decorator:
    """Give a command these options, in their order."""

    def given(command: Any) -> Any:
        for one in reversed(known):
            command = _OWN[one.name](command) if one.name in _OWN else command
            command = click_option(one, known)(command)
        return command

    return given


_DECLARED = click.option(
    "--declared",
    is_flag=True,
    help=(
        "Take the role of each column from the rules of the table. Every column must have a rule."
        " See dbanon declare."
    ),
)


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What ``with_options`` was given, as Python's door takes it."""
    found = values(OPTIONS, given)
    found["quasi_identifiers"] += given["single_q"]
    found["sensitive"] += given["single_s"]
    found["orders"] = with_files(found["orders"], given["order_files"])
    if found["memory_limit"] is None:
        found["memory_limit"] = half_of_memory()
    declared = given["declared"]
    return found | {"target": given["target"], "chain": chain_of(given), "declared": declared}


@click.command(cls=GroupedOptions, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options((*_ALL, *PRIVATE))
@_DECLARED
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "Also write the report to a .json, .html or .txt file; .html with --evaluate. If nothing is"
        " released, NAME.refused.html says why."
    ),
)
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@with_engine
@common
def anonymize(url: str, **given: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    A column named nowhere is not copied.
    """
    form = given["form"]
    with errors(form), signals(), lasting() as committed:
        from dbanon.doors import python as api
        from dbanon.doors.cli.render import report_table, require_report_file

        log = current()
        path: Path | None = given["report"]
        wanted = asked(given) | values(PRIVATE, given)
        private = wanted["method"] in PRIVATE_METHODS
        if path is not None:
            require_report_file(path)
        if wanted["k"] is None and not private:
            raise click.UsageError("Missing option '--k'.")
        wanted["evaluate"] |= needs_evaluation(path) and not private
        engine = engine_of(given)
        with refused_into(path, wanted, log.run_id), watched(not given["no_progress"]) as progress:
            own: dict[str, Any] = {"door": "cli", "run_id": log.run_id}
            if engine is None:
                on_sql = sql_printer(given["print_sql"])
                report = api.anonymize(url, **wanted, **own, progress=progress, on_sql=on_sql)
            else:
                target = wanted.pop("target") or url
                report = engine.run(api.job_of(wanted | own), url, target)
            log.release_id = report.release_id
            committed()
        warn_of(report)
        if path is not None:
            write_report(report, path, given["target"] or url)
        show(form, report.to_dict(), lambda: report_table(report))


@click.command(cls=GroupedOptions, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(OPTIONS)
@_DECLARED
@click.option(
    "--cluster",
    is_flag=True,
    help="Also read the quasi-identifiers, find the classes and report their loss.",
)
@common
def plan(url: str, **given: Any) -> None:
    """Show what anonymize would do with these options, or refuse as anonymize would.

    The command counts rows and checks names, types and rights. It changes nothing.
    """
    form = given["form"]
    with errors(form), signals():
        from dbanon.doors import python as api
        from dbanon.doors.cli.render import pairs_table

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            found = api.plan(
                url,
                **asked(given),
                cluster=given["cluster"],
                on_sql=sql_printer(given["print_sql"]),
            )
        show(form, found.to_dict(), lambda: pairs_table("Plan", found.pairs()))


_TAKEN = ("table", "quasi_identifiers", "k", "key", "orders", "memory_limit")
_BOUND_OPTIONS = tuple(one for one in OPTIONS if one.name in _TAKEN or one in parameters(Reading))


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(_BOUND_OPTIONS)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help=("Time limit for the search, in seconds. The best bound found by then is printed."),
)
@common
def bound(url: str, **given: Any) -> None:
    """Compute the least loss that any release of a table in classes of k or more rows must have.

    The command reads the quasi-identifiers and writes nothing. Up to 10,000 rows it computes the
    bound by linear programs, which need the extra bound. For more rows, or without the
    extra, it uses no solver.
    """
    form = given["form"]
    with errors(form), signals():
        from dbanon.doors import advise as api
        from dbanon.doors.cli.render import pairs_table

        wanted = values(_BOUND_OPTIONS, given)
        wanted["quasi_identifiers"] += given["single_q"]
        wanted["orders"] = with_files(wanted["orders"], given["order_files"])
        if wanted["memory_limit"] is None:
            wanted["memory_limit"] = half_of_memory()
        found = api.certificate(
            url, **wanted, seconds=given["seconds"], on_sql=sql_printer(given["print_sql"])
        )
        show(form, found.to_dict(), lambda: pairs_table("Lower bound", found.pairs()))
