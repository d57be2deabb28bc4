"""Help on commands with many options: the most important ones, or all grouped by task."""

from __future__ import annotations

import re
from typing import Any

import click

from dbanon.doors.cli.groups import DatabaseCommand

# The options in each group of the help: names of click's parameters, or prefixes that end with an
# underscore. Options that are in no group are listed last. The short options ``-q`` and ``-s`` are
# the parameters ``single_q`` and ``single_s``.
_START_OPTIONS = (
    "table", "output", "target", "quasi_identifiers", "single_q", "sensitive", "keep", "k",
    "hierarchies", "nulls", "report",
)  # fmt: skip
_GROUPS: dict[str, tuple[str, ...]] = {
    "Start with": _START_OPTIONS,
    "Columns, rows and persons": (
        "single_s", "declared", "by", "key", "where", "orders", "order_files", "kinds", "entity",
        "entity_normalize", "persons", "pseudonyms", "pseudonym_key", "design_weight", "weight_as",
        "shift_dates",
    ),
    "Reading files": (
        "dates", "decimal", "thousands", "trim", "types", "header", "skip_lines", "sheet",
        "duplicate_columns", "encoding", "null_words", "value_labels", "foreign_files",
    ),
    "Method and released values": (
        "method", "options", "recoding", "standardize", "weights", "intervals", "local_range",
        "steps", "top", "bottom", "recode", "seed", "refine", "refine_", "block_",
    ),
    "Privacy models and limits": (
        "models", "also_k", "max_suppression", "withhold_failing", "guarantee", "profile",
        "zip_population", "strict",
    ),
    "Earlier releases and chains": (
        "releases", "chain", "chain_key", "chain_max_exposed", "chain_accept_turnover",
        "chain_outputs", "chain_kept",
    ),
    "Loss and risk": ("evaluate", "attacks", "certificate", "cluster"),
    "What is written": (
        "output_kind", "if_exists", "exports", "source_digest", "swap_timeout",
    ),
    "Time and memory": ("memory_limit", "spill", "time_limit", "chunk_rows", "kept_columns"),
    "Differentially private releases": (
        "epsilon", "bounds", "scale", "margins", "accounting", "delta", "null_as", "budget",
    ),
    "Clusters": ("engine", "master", "tasks", "conf"),
    "Messages": ("output_format", "log_format", "no_progress", "print_sql", "help_all", "help"),
}  # fmt: skip
OTHER_GROUP = "Other"
_SHOW_ALL_KEY = "dbanon.help_all"

# Patterns of option names that other tools use, with the equivalent option of dbanon.
_NAMES_IN_OTHER_TOOLS = (
    (r"(distinct-)?l(-?diversity)?|diversity", "--model COLUMN=distinct_l:3"),
    (r"entropy-l(-?diversity)?", "--model COLUMN=entropy_l:3"),
    (r"(recursive-)?c-?l(-?diversity)?", "--model COLUMN=recursive_cl:3:l=2"),
    (r"t(-?closeness)?|closeness", "--model COLUMN=t_closeness:0.2"),
    (r"privacy-models?|models", "--model COLUMN=distinct_l:3"),
    (r"qis?|qids?|quasi|quasi-identifier|key-vars?", "--quasi-identifiers A,B"),
    (r"k-anonymity|k-anon", "--k 5"),
    (r"suppression(-limit)?|max-sup", "--max-suppression 0.01"),
    (r"orders", "--order COLUMN=A,B,C"),
    (r"hierarchies|generalization|tree", "--hierarchy COLUMN=FILE"),
)


def group_of(param: click.Parameter) -> str:
    """Return the group of an option."""
    # Click chooses the name of its help parameter.
    name = "help" if "--help" in param.opts else str(param.name)
    for group, names in _GROUPS.items():
        prefixes = tuple(prefix for prefix in names if prefix.endswith("_"))
        if name in names or name.startswith(prefixes):
            return group
    return OTHER_GROUP


class GroupedOptions(DatabaseCommand):
    """A command whose help lists the most important options; with ``--help-all``, all of them."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show all options, by task.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("_", "-").casefold()
            for pattern, option in _NAMES_IN_OTHER_TOOLS:
                if re.fullmatch(pattern, name):
                    message = f"No such option: {error.option_name}. Write {option}."
                    raise click.NoSuchOption(error.option_name, message, ctx=ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List options by group: only the first group, unless all are requested."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            help_record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if help_record is not None:
                rows.setdefault(group_of(param), []).append(help_record)
        first_group, *other_groups = [group for group in (*_GROUPS, OTHER_GROUP) if group in rows]
        with formatter.section(first_group):
            formatter.write_dl(rows[first_group])
        if ctx.meta.get(_SHOW_ALL_KEY):
            for group in other_groups:
                with formatter.section(group):
                    formatter.write_dl(rows[group])
            return
        n_hidden = sum(len(rows[group]) for group in other_groups)
        with formatter.section(f"{n_hidden} more options, which --help-all shows"):
            formatter.write_text(", ".join(other_groups))


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the help with all options, and exit."""
    if value:
        ctx.meta[_SHOW_ALL_KEY] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
