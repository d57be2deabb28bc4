"""Groups of commands, and commands whose URL may be left out.

Errors of use are of use for machines, too. Help on all commands imports this and little else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import click

# Where a context of click keeps the words of the command line.
_GIVEN = "dbanon.given"


class OnDatabase(click.Command):
    """A command whose URL may be left out where DBANON_URL has it, also before other arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        url = os.environ.get("DBANON_URL")
        taken = [one.name for one in self.params if isinstance(one, click.Argument)]
        if url and len(taken) > 1 and taken[0] == "url":
            with suppress(click.UsageError):
                given, _, _ = self.make_parser(ctx).parse_args(list(args))
                told = [given[name] for name in taken if isinstance(given.get(name), str)]
                if len(told) < len(taken) and told and "://" not in told[0]:
                    args = [url, *args]
        return super().parse_args(ctx, args)


class Commands(click.Group):
    """Commands; options that cannot be read are told of in the form that was asked for, too."""

    command_class = OnDatabase

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_errors(ctx, ctx.meta[_GIVEN]):
            return super().invoke(ctx)


class Described(NamedTuple):
    """Where a command is, as ``module:name`` beside this one, and what is told of it."""

    place: str
    help: str


class _Loaded(Mapping[str, click.Command]):
    """Commands by name: each is loaded when it is asked for."""

    def __init__(self, known: Mapping[str, Described]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> click.Command:
        module, _, own = self._known[name].place.partition(":")
        command: click.Command = getattr(import_module(f"dbanon.doors.cli.{module}"), own)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class LoadedCommands(Commands):
    """Commands of which a run loads its own: all together take some tenths of a second."""

    def __init__(self, *, known: Mapping[str, Described], **more: Any) -> None:
        super().__init__(**more)
        self.commands = _Loaded(known)  # type: ignore[assignment]
        self._known = known

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what is told of them, and load none."""
        told = [click.Command(name, help=one.help) for name, one in self._known.items()]
        click.Group(commands=told).format_commands(ctx, formatter)


@contextmanager
def _usage_errors(ctx: click.Context, given: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        asked = "--log-format=json" in given or ("--log-format", "json") in pairwise(given)
        if not asked:
            raise
        # What only a command of words needs not.
        from dbanon.doors.cli.log import Log

        log = Log("json")
        log.start(ctx.invoked_subcommand)
        log.event("error", "error", code="usage", message=error.format_message())
        log.end(error.exit_code, "usage")
        ctx.exit(error.exit_code)
