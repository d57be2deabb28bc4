"""Command groups, and commands whose URL may come from the environment.

Usage errors are also logged as JSON. ``dbanon --help`` imports little besides this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import click

from dbanon.data.extension import Command, all_extensions, installed_extensions, load

# Key under which a click context holds the words of the command line.
_WORDS_KEY = "dbanon.words"


class DatabaseCommand(click.Command):
    """A command whose URL may be omitted if DBANON_URL is set, even if other arguments follow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        url = os.environ.get("DBANON_URL")
        argument_names = [param.name for param in self.params if isinstance(param, click.Argument)]
        if url and len(argument_names) > 1 and argument_names[0] == "url":
            # If an argument is missing and the first one is no URL, then the URL was omitted. Usage
            # errors are raised by the second parsing, below.
            with suppress(click.UsageError):
                parsed_arguments, _, _ = self.make_parser(ctx).parse_args(list(args))
                positional_values = [
                    parsed_arguments[name]
                    for name in argument_names
                    if isinstance(parsed_arguments.get(name), str)
                ]
                if (
                    len(positional_values) < len(argument_names)
                    and positional_values
                    and "://" not in positional_values[0]
                ):
                    args = [url, *args]
        return super().parse_args(ctx, args)


class CommandGroup(click.Group):
    """A command group that reports invalid options in the requested log format."""

    command_class = DatabaseCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS_KEY] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _log_usage_errors(ctx, ctx.meta[_WORDS_KEY]):
            return super().invoke(ctx)


class CommandEntries(Mapping[str, Command]):
    """The commands of the core and of installed extensions, by name.

    Extensions are looked up only if needed, and cannot replace a command of the core.
    """

    def __init__(self, core: Mapping[str, Command]) -> None:
        self._core = core

    def __getitem__(self, name: str) -> Command:
        if name in self._core:
            return self._core[name]
        for extension_name, command in _extension_commands():
            if extension_name == name:
                return command
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._core, *(name for name, _ in _extension_commands())]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _extension_commands() -> Iterator[tuple[str, Command]]:
    """Yield the names and commands of extensions; warn of extensions that cannot be loaded."""
    for extension in all_extensions():
        yield from extension.commands.items()
    for error in installed_extensions().errors:
        click.echo(f"Warning [{error.code}]: {error.message}\nHint: {error.hint}", err=True)


class _LazyCommands(Mapping[str, click.Command]):
    """Commands by name, each imported on first access."""

    def __init__(self, entries: Mapping[str, Command]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = load(self._entries[name].location)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class LazyCommandGroup(CommandGroup):
    """A command group that imports only the command to run, because importing all is slow."""

    def __init__(self, *, entries: Mapping[str, Command], **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands(entries)  # type: ignore[assignment]
        self._entries = entries

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their help texts, without importing any."""
        commands = [click.Command(name, help=entry.help) for name, entry in self._entries.items()]
        click.Group(commands=commands).format_commands(ctx, formatter)


@contextmanager
def _log_usage_errors(ctx: click.Context, words: Sequence[str]) -> Iterator[None]:
    """Report the block's usage errors in a JSON log, if the command line asks for one."""
    try:
        yield
    except click.UsageError as error:
        wants_json = "--log-format=json" in words or ("--log-format", "json") in pairwise(words)
        if not wants_json:
            raise
        # Imported late, because most commands do not get here.
        from dbanon.doors.cli.log import Log

        log = Log("json")
        log.start(ctx.invoked_subcommand)
        log.event("error", "error", code="usage", message=error.format_message())
        log.end(error.exit_code, "usage")
        ctx.exit(error.exit_code)
