"""Options that describe columns: the order and the kind of their values, and declared rules."""

from __future__ import annotations

from dbanon.data.option import Option
from dbanon.data.schema import NOMINAL, NUMERIC
from dbanon.errors import InvalidParameter

# The value of ``Job.declared`` until the rules that define the job's columns have been read. In a
# job file, the same word in place of the columns says that declared rules define them.
RULES_NOT_READ = "declared"
# Options of a job that describe columns. If a job uses declared rules, the rules set these options.
COLUMN_OPTIONS = (
    "quasi_identifiers",
    "sensitive",
    "keep",
    "by",
    "entity",
    "entity_normalize",
    "design_weight",
    "weight_as",
    "hierarchies",
    "models",
    "weights",
    "steps",
    "orders",
    "kinds",
    "pseudonyms",
)
VALUE_KINDS = (NOMINAL, NUMERIC)
# The option ``kinds``: how to treat columns of numbers.
KINDS = Option(
    "nominal: treat numbers as codes, whose order and distance mean nothing. numeric: treat them as"
    " amounts, without a warning where a code is expected.",
    choices=VALUE_KINDS,
    item=f"{NOMINAL} or {NUMERIC}",
    flag="kind",
    form="NAME=KIND",
    docs_page="methods.md#codes",
)
# The option ``orders``: the order of the values of text columns.
ORDERS = Option(
    "The values of a text column from the lowest to the highest. The column is then treated as"
    " ranks.",
    flag="order",
    form="NAME=A,B,C",
    is_secret=True,
    docs_page="methods.md#ordinal-attributes",
)


def require_no_columns(*objects: object) -> None:
    """Check that a job that uses declared rules has no options that describe columns.

    Parameters
    ----------
    objects : the job and its policy; each has some of the options as attributes.

    Raises
    ------
    InvalidParameter : such an option is set.
    """
    for name in COLUMN_OPTIONS:
        if any(getattr(options, name, None) for options in objects):
            raise InvalidParameter(
                f"{name} cannot be combined with rules, which already give each column its role.",
                hint=f"Leave out `{name}`, or name `quasi_identifiers` and all other roles in the"
                " call.",
            )
