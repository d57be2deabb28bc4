"""The command line: one command a job, thin."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from dbanon.errors import DbanonError, InvalidParameter
from dbanon.methods import METHODS
from dbanon.pipeline import NULL_POLICIES
from dbanon.recoding import RECODINGS
from dbanon.space import STANDARDIZATIONS

UNEXPECTED, INTERRUPTED, TERMINATED = 1, 130, 143


class _TerminatedError(BaseException):
    """SIGTERM arrived: everything is rolled back on the way out."""


class _Names(click.ParamType):
    """Names separated by commas."""

    name = "a,b"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in str(value).split(","))
        if not all(names):
            self.fail("an empty name", param, ctx)
        return names


class _Bytes(click.ParamType):
    """An amount of memory, such as 4GiB, 500MB or 1000000."""

    name = "size"
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9} | {
        "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
    }  # fmt: skip

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        digits = str(value).rstrip("KMGiIbB ")
        unit = str(value)[len(digits) :].strip().upper()
        try:
            return int(float(digits) * self.units[unit])
        except (ValueError, KeyError, OverflowError):
            self.fail("write a size such as 4GiB or 500MB", param, ctx)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidParameter("Write name=value.")
    return name, value


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dbanon")
def main() -> None:
    """Anonymize SQL tables: k-anonymous releases, recounted before they are visible.

    Exit codes: 0 done and verified, 1 unexpected, 2 usage, 3 privacy refusal (nothing published),
    4 database unreachable or busy (retry), 5 rights, 6 a release changed, 130/143 interrupted.
    """


_URL_HELP = (
    "URL is postgresql://user@host/name, duckdb:///file.duckdb or sqlite:///file.db. Passwords"
    " come from ~/.pgpass, a service file or PGPASSWORD rather than from the URL."
)


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--format", "form", type=click.Choice(["table", "json"]), default="table",
                     show_default=True, help="How the result is printed on stdout."),
        click.option("--print-sql", is_flag=True, help="Print each SQL statement on stderr."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="What is read, as in app.people.")
@click.option("--quasi-identifiers", type=_Names(), default=(), help="Columns, separated by commas.")
@click.option("-q", "single_q", multiple=True, metavar="NAME", help="One quasi-identifier, taken"
              " literally; repeatable.")
@click.option("--k", type=int, required=True, help="Smallest class, 2 or more.")
@click.option("--method", default="mdav", show_default=True, help="See: dbanon methods.",
              metavar="|".join(METHODS))
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the method; repeatable.")
@click.option("--output", required=True, help="What is made, as in release.people.")
@click.option("--output-kind", type=click.Choice(["table", "view"]), default="table",
              show_default=True, help="view: a stable name over a released table; grants survive.")
@click.option("--if-exists", type=click.Choice(["error", "replace"]), default="error",
              show_default=True, help="replace only replaces what dbanon made.")
@click.option("--sensitive", type=_Names(), default=(), help="Columns copied as they are.")
@click.option("-s", "single_s", multiple=True, metavar="NAME", help="One sensitive column,"
              " taken literally; repeatable.")
@click.option("--keep", type=_Names(), default=(), help="Other columns copied as they are.")
@click.option("--key", type=_Names(), default=(), help="Columns that tell every row from every"
              " other; needed for views and foreign tables.")
@click.option("--target", help="URL of another database to write to.")
@click.option("--standardize", type=click.Choice(STANDARDIZATIONS), default="zscore",
              show_default=True, help="How columns are made comparable.")
@click.option("--weight", "weights", multiple=True, metavar="NAME=NUMBER",
              help="Weight of a quasi-identifier in the distance; repeatable.")
@click.option("--recoding", type=click.Choice(list(RECODINGS)), help="What a class is released"
              " with; the method's own by default.")
@click.option("--nulls", type=click.Choice(NULL_POLICIES), default="error", show_default=True,
              help="suppress: withhold records with a NULL. category: classes within each pattern"
              " of NULLs.")
@click.option("--max-suppression", type=float, help="Largest share of records withheld, 0 to 1.")
@click.option("--seed", type=int, default=0, show_default=True, help="For methods that draw.")
@click.option("--chunk-rows", type=int, default=65_536, show_default=True,
              help="Rows read at a time; never changes the result.")
@click.option("--memory-limit", type=_Bytes(), help="Default: half of the machine's memory.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write the report to a .json, .html or .txt file.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="Form of the lines on stderr.")
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@_common
def anonymize(url: str, **given: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    A column named nowhere is not copied.
    """
    form = given["form"]
    with _errors(form), _signals():
        from dbanon import api
        from dbanon.progress import ProgressDisplay
        from dbanon.render import report_table, save_report

        weights = {name: _number(value) for name, value in map(_pair, given["weights"])}
        limit = given["memory_limit"]
        path: Path | None = given["report"]
        if path is not None and (
            path.suffix not in (".json", ".html", ".txt") or not path.parent.is_dir()
        ):
            raise InvalidParameter(
                "The report cannot be written there.",
                hint="Name a .json, .html or .txt file in a directory that exists.",
            )
        with ProgressDisplay(not given["no_progress"], given["log_format"]) as progress:
            report = api.anonymize(
                url,
                table=given["table"],
                quasi_identifiers=(*given["quasi_identifiers"], *given["single_q"]),
                k=given["k"],
                output=given["output"],
                method=given["method"],
                options=_method_options(given["method"], given["options"]),
                sensitive=(*given["sensitive"], *given["single_s"]),
                keep=given["keep"],
                key=given["key"],
                standardize=given["standardize"],
                weights=weights,
                nulls=given["nulls"],
                max_suppression=given["max_suppression"],
                recoding=given["recoding"],
                seed=given["seed"],
                output_kind=given["output_kind"],
                if_exists=given["if_exists"],
                target=given["target"],
                chunk_rows=given["chunk_rows"],
                memory_limit=_half_of_memory() if limit is None else limit,
                progress=progress,
                on_sql=_sql_printer(given["print_sql"]),
            )
        if path is not None:
            save_report(report, path)
        _show(form, report.to_dict(), lambda: report_table(report))


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation")
@click.option("--quasi-identifiers", type=_Names(), default=(), help="For relations that are not"
              " in the ledger of this database.")
@click.option("-q", "single_q", multiple=True, metavar="NAME", help="One quasi-identifier, taken"
              " literally; repeatable.")
@click.option("--k", type=int, help="What is expected; the ledger's k by default.")
@_common
def verify(
    url: str,
    relation: str,
    quasi_identifiers: tuple[str, ...],
    single_q: tuple[str, ...],
    k: int | None,
    form: str,
    print_sql: bool,
) -> None:
    """Recount a release in the database, and compare it with the ledger."""
    with _errors(form), _signals():
        from dbanon import audit
        from dbanon.render import verification_table
        from dbanon.stores import open_store
        from dbanon.stores.names import parse_relation

        store = open_store(url, _sql_printer(print_sql))
        names = (*quasi_identifiers, *single_q)
        found = audit.verify(store, parse_relation(relation), names, k)
        _show(form, found.to_dict(), lambda: verification_table(found))


@main.command(epilog=_URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--keep-last", type=int, default=1, show_default=True, help="Replaced releases of"
              " each view that stay.")
@_common
def gc(url: str, keep_last: int, form: str, print_sql: bool) -> None:
    """Drop released tables that their view no longer shows."""
    with _errors(form), _signals():
        from dbanon import audit
        from dbanon.render import rows_table
        from dbanon.stores import open_store

        dropped = audit.collect_garbage(open_store(url, _sql_printer(print_sql)), keep_last)
        _show(
            form,
            {"dropped": dropped},
            lambda: rows_table(f"{len(dropped)} tables dropped", ["table"], [[d] for d in dropped]),
        )


@main.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table",
              show_default=True, help="How the result is printed on stdout.")
def methods(form: str) -> None:
    """List the methods: data they take, class sizes, guarantee, cost, reference, options."""
    with _errors(form):
        from dbanon.render import rows_table

        entries = [
            {
                "method": method.name,
                "summary": method.summary,
                "data": method.data,
                "class sizes": method.class_sizes,
                "guarantee": method.guarantee,
                "cost": method.cost,
                "reference": method.reference,
                "options": ", ".join(f"{o.name}={o.default}" for o in method.options),
            }
            for method in METHODS.values()
        ]
        header = [name for name in entries[0] if name != "summary"]
        rows = [[entry[name] for name in header] for entry in entries]
        _show(form, entries, lambda: rows_table("Methods", header, rows))


@main.command()
@click.option("--rows", type=click.IntRange(min=100), default=100_000, show_default=True)
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True)
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"),
              show_default=True, help="Where the database file is made.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the invented persons.")
def demo(rows: int, k: int, directory: Path, seed: int) -> None:
    """Invent a table of persons in a DuckDB file, anonymize it, and verify it."""
    with _errors("table"), _signals():
        from dbanon.demo import run_demo

        run_demo(rows, k, directory, seed)


def _show(form: str, plain: Any, table: Callable[[], Any]) -> None:
    if form == "json":
        click.echo(json.dumps(plain, indent=2, default=str))
        return
    from dbanon.render import make_console

    make_console().print(table())


def _sql_printer(wanted: bool) -> Callable[[str], None] | None:
    return (lambda sql: click.echo(f"{sql};", err=True)) if wanted else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter("A weight must be a number, as in --weight age=2.") from None


def _method_options(method: str, given: Sequence[str]) -> dict[str, Any]:
    """Options in the types that the method declares; what it does not declare stays text."""
    known = {o.name: o for o in METHODS[method].options} if method in METHODS else {}
    values: dict[str, Any] = {}
    for name, text in map(_pair, given):
        option = known.get(name)
        if option is None or option.type is str:
            values[name] = text
        elif option.type is bool:
            values[name] = {"true": True, "false": False}.get(text.lower(), text)
        else:
            values[name] = text
    return values


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: rolled back, staging gone."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _errors(form: str) -> Iterator[None]:
    """Print errors in the wanted form and leave with their exit code."""
    try:
        yield
    except DbanonError as error:
        if form == "json":
            click.echo(json.dumps({"error": error.to_dict()}, indent=2))
        else:
            click.echo(f"Error [{error.code}]: {error.message}", err=True)
            for label, text in (("Detail", error.detail), ("Hint", error.hint)):
                if text:
                    click.echo(f"{label}: {text}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        click.echo("Interrupted: rolled back, nothing was published.", err=True)
        sys.exit(INTERRUPTED)
    except _TerminatedError:
        click.echo("Terminated: rolled back, nothing was published.", err=True)
        sys.exit(TERMINATED)
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        # The text of a foreign exception may quote a value: only where it happened is told.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        click.echo(
            f"Error [unexpected]: {type(error).__name__} at {place}; nothing was published.\n"
            "Hint: please report this, with the command and this line.",
            err=True,
        )
        sys.exit(UNEXPECTED)
