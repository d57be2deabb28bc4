"""Chains: releases of the same persons that stay private together; their options and rules.

A chain is created once, with rules that never change. Each of its releases names the chain and the
location of its key. Persons whom the chain does not have yet are *newcomers*. They wait until the
chain *admits* them to classes, many at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from types import MappingProxyType
from typing import Annotated

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, build_options, check_options, parameters
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter
from dbanon.job.pseudonym import is_key_location

# Values of ``ChainRules.changes``: how to treat values that change. docs/chains.md says when each
# of them shows a change.
SHOW, HOLD, FREEZE = "show", "hold", "freeze"
CHANGES = (SHOW, HOLD, FREEZE)
# Values of ``ChainRules.departures``: how to treat a class that persons have left. It is still
# released, with rows for those who left (``HOLD``), or withdrawn for good.
WITHDRAW = "withdraw"
DEPARTURES = (HOLD, WITHDRAW)
# Values of ``ChainRules.mode``: classes continue through all releases, or each release has new
# classes, and the chain only measures how many persons share a history.
CONTINUE, MEASURE = "continue", "measure"
MODES = (CONTINUE, MEASURE)

_KEY_FORM = "file:PATH or env:NAME"


@dataclass(frozen=True)
class Chain:
    """The chain that a release belongs to, as a job names it.

    ``rules`` holds the rules that the job expects of the chain, by name: a release in a chain with
    other rules is refused.

    Raises
    ------
    InvalidParameter : a field has a value that is not allowed.
    """

    name: Annotated[
        str,
        Option(
            "The chain that the release belongs to. Releases of one chain stay private together.",
            flag="chain",
            form="NAME",
        ),
    ]
    key: Annotated[
        str,
        Option(
            "Where the key of the chain is: a file or an environment variable.",
            expected=_KEY_FORM,
            flag="chain_key",
            form="file:PATH|env:NAME",
        ),
    ]
    max_exposed: Annotated[
        float | None,
        Option(
            "Largest share of persons whose joint history fewer than k persons may share. A"
            " release above it is refused. For chains that only measure, or that follow"
            " another chain.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    accept_turnover: Annotated[
        bool,
        Option(
            "Accept that many members have left and many newcomers have joined since the last"
            " release."
        ),
    ] = False
    outputs: Annotated[
        Mapping[str, str],
        Option(
            "In a chain of several tables: the output for each of the other tables.",
            flag="table_output",
            form="TABLE=TABLE",
        ),
    ] = field(default_factory=dict)
    kept: Annotated[
        Mapping[str, Sequence[str]],
        Option(
            "In a chain of several tables: the columns to release from each of the other tables.",
            flag="table_keep",
            form="TABLE=A,B",
        ),
    ] = field(default_factory=dict)
    rules: JsonMapping = field(default_factory=dict)

    def with_paths(self, map_path: Callable[[str], str], map_text: Callable[[str], str]) -> Chain:
        """Copy the chain, and map the location of its key, as job files do to expand paths.

        Parameters
        ----------
        map_path : a function for the path, if the location is a file.
        map_text : a function for the variable's name, if it is an environment variable.
        """
        kind, _, location = self.key.partition(":")
        map_location = map_path if kind == "file" else map_text
        return replace(self, key=f"{kind}:{map_location(location)}")

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("outputs", "kept"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        require_chain_name(self.name)
        require_key_form(self.key)

    @classmethod
    def from_plain(cls, plain: JsonMapping) -> Chain:
        """Build the chain from the plain values of its fields, by name.

        Keys of ``ChainRules`` are accepted, too: they are the rules that the job expects the chain
        to have.

        Raises
        ------
        InvalidParameter : a key is missing or unknown, or a value is not allowed.
        """
        chain_keys = [param.name for param in parameters(cls)]
        rule_keys = [param.name for param in parameters(ChainRules)]
        if not {"name", "key"} <= set(plain) or not set(plain) <= {*chain_keys, *rule_keys}:
            raise InvalidParameter(
                "chain must be an object with name and key.",
                hint="Known keys: " + ", ".join([*chain_keys, *rule_keys]) + ".",
            )
        expected_rules = {
            param.name: param.check(plain[param.name])
            for param in parameters(ChainRules)
            if param.name in plain
        }
        return cls(
            **{name: plain[name] for name in chain_keys if name in plain}, rules=expected_rules
        )


@dataclass(frozen=True)
class ChainRules:
    """The rules of a chain, fixed when it is created.

    Raises
    ------
    InvalidParameter : a value is not allowed, or two values contradict each other.
    """

    changes: Annotated[
        str,
        Option(
            "How to treat values that change. show: show them. hold: hold them while few"
            " members of a class differ. freeze: keep the values from the day of admission.",
            choices=CHANGES,
            hint="There is no default. docs/chains.md says what each choice reveals.",
        ),
    ]
    class_size: Annotated[
        int | None,
        Option(
            "Number of persons that share a class when they are admitted: k or more.", minimum=2
        ),
    ] = None
    admit_every: Annotated[int, Option("Admit newcomers with every Nth release.", minimum=1)] = 1
    min_newcomers: Annotated[
        int | None,
        Option("If there are fewer newcomers, they wait, until max_wait. Default: 5 k.", minimum=0),
    ] = None
    max_wait: Annotated[
        int,
        Option(
            "Number of releases that newcomers may wait for a good class. 0: they do not wait.",
            minimum=0,
        ),
    ] = 6
    departures: Annotated[
        str,
        Option(
            "How to treat a class that some persons have left: hold it, or withdraw it for good.",
            choices=DEPARTURES,
        ),
    ] = HOLD
    withdraw_above: Annotated[
        float | None,
        Option(
            "Withdraw a held class once a larger share of its persons have left.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    max_rows_per_person: Annotated[
        int | None,
        Option(
            "Largest number of rows to show per person. Without this option each person has"
            " one row, and more are refused.",
            minimum=1,
        ),
    ] = None
    tables: Annotated[
        Sequence[str],
        Option(
            "Further tables with rows of the same persons. All tables share one set of classes."
        ),
    ] = ()
    mode: Annotated[
        str,
        Option(
            "continue: at least k persons share every history. measure: only count how many"
            " share each.",
            choices=MODES,
        ),
    ] = CONTINUE

    new_chain_from: Annotated[
        str | None,
        Option(
            "A closed chain over the same persons. The new chain takes over its key, and the"
            " first release counts how many persons both chains expose together.",
            form="NAME",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.new_chain_from is not None:
            require_chain_name(self.new_chain_from)
        if self.tables and self.max_rows_per_person is None:
            raise InvalidParameter(
                "A chain of several tables needs persons with several rows.",
                hint="Say how many rows per person a release shows at most: max_rows_per_person.",
            )
        if self.mode == MEASURE and self.max_rows_per_person is not None:
            raise InvalidParameter(
                "A chain that measures takes one row per person.",
                hint="Leave out max_rows_per_person, or the mode measure.",
            )

    @classmethod
    def from_plain(cls, plain: JsonMapping) -> ChainRules:
        """Rebuild rules from the values of ``to_plain``.

        Rules from version 0.2.0 lack ``min_newcomers`` and ``max_wait``, and admit all newcomers
        at once.
        """
        return build_options(cls, {"min_newcomers": 0, "max_wait": 0} | dict(plain))

    def to_plain(self) -> JsonObject:
        """The rules as plain values."""
        return {rule.name: getattr(self, rule.name) for rule in fields(self)} | {
            "tables": list(self.tables)
        }

    def find_differing_rules(self, chain: Chain) -> list[str]:
        """The names of rules for which the job expects another value."""
        # ``chain.rules`` has only the rules that the job names.
        return [name for name, value in chain.rules.items() if getattr(self, name) != value]

    def min_group_size(self, k: int) -> int:
        """The smallest group of newcomers to admit before ``max_wait`` has passed.

        This is the rule ``min_newcomers``, by default 5 k.
        """
        return 5 * k if self.min_newcomers is None else self.min_newcomers

    def target_class_size(self, k: int) -> int:
        """The target number of persons per class: ``class_size``, by default k.

        Raises
        ------
        InvalidParameter : ``class_size`` is below k.
        """
        if self.class_size is not None and self.class_size < k:
            raise InvalidParameter(
                f"class_size is {self.class_size}, and k = {k}.",
                hint=f"Use `k={self.class_size}` or less, or create a chain with a class_size of"
                f" {k} or more.",
            )
        return self.class_size or k


def require_chain_name(name: str) -> None:
    """Check the name of a chain.

    Raises
    ------
    InvalidParameter : it is not a valid name.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", name):
        raise InvalidParameter(
            "The name of a chain must be 1 to 63 letters, digits, _, . and -.",
            hint="Choose a name such as patients.",
        )


def require_key_form(key: str) -> None:
    """Check that ``key`` is the location of a key, not a key.

    Raises
    ------
    InvalidParameter : it is not a location. The message omits the text, which may be the key.
    """
    if not is_key_location(key):
        raise InvalidParameter(
            f"key of a chain must be {_KEY_FORM}: where the key is, never the key itself.",
            hint="dbanon chain create writes a key to a file.",
        )
