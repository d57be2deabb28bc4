"""Commands and groups of them: the URL that may be left out, and errors of use for machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import click

from dbanon.doors.cli.log import Log

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


@contextmanager
def _usage_errors(ctx: click.Context, given: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        asked = "--log-format=json" in given or ("--log-format", "json") in pairwise(given)
        if not asked:
            raise
        log = Log("json")
        log.start(ctx.invoked_subcommand)
        log.event("error", "error", code="usage", message=error.format_message())
        log.end(error.exit_code, "usage")
        ctx.exit(error.exit_code)
