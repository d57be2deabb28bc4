"""Chains: releases of the same persons that stay private together; what a job says, and the rules.

A chain is made once, under rules that stay; each of its releases names it, and where its key is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check, make, parameters
from dbanon.errors import InvalidParameter
from dbanon.job.pseudonym import is_key_location

SHOW, HOLD, FREEZE = "show", "hold", "freeze"
CHANGES = (SHOW, HOLD, FREEZE)
WITHDRAW = "withdraw"
DEPARTURES = (HOLD, WITHDRAW)
CONTINUE, MEASURE = "continue", "measure"
MODES = (CONTINUE, MEASURE)

_KEY_FORM = "file:PATH or env:NAME"


@dataclass(frozen=True)
class Chain:
    """The chain that a release belongs to.

    ``rules`` are those that the job expects the chain to have, by name; another chain is refused.

    Raises
    ------
    InvalidParameter : a part has a value that is not allowed.
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
        Option("Accept that many members left and as many newcomers came since the last release."),
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
    rules: Mapping[str, Any] = field(default_factory=dict)

    def placed(self, path: Callable[[str], str], text: Callable[[str], str]) -> Chain:
        """The chain with the file of its key where that is; ``text`` for the name of a variable."""
        kind, _, place = self.key.partition(":")
        return replace(self, key=f"{kind}:{path(place) if kind == 'file' else text(place)}")

    def __post_init__(self) -> None:
        check(self)
        for name in ("outputs", "kept"):
            # Jobs go to other processes, where a frozen mapping cannot.
            object.__setattr__(self, name, dict(getattr(self, name)))
        require_chain_name(self.name)
        require_key_form(self.key)

    @classmethod
    def of_plain(cls, given: Mapping[str, Any]) -> Chain:
        """The chain of an object with its parts by name; those of rules are expected of it.

        Raises
        ------
        InvalidParameter : a part is missing, unknown or not allowed.
        """
        own = [one.name for one in parameters(cls)]
        of_rules = [one.name for one in parameters(Rules)]
        if not {"name", "key"} <= set(given) or not set(given) <= {*own, *of_rules}:
            raise InvalidParameter(
                "chain must be an object with name and key.",
                hint="Known keys: " + ", ".join([*own, *of_rules]) + ".",
            )
        expected = {
            one.name: one.check(given[one.name]) for one in parameters(Rules) if one.name in given
        }
        return cls(**{name: given[name] for name in own if name in given}, rules=expected)


@dataclass(frozen=True)
class Rules:
    """What a chain is made with, and keeps to.

    Raises
    ------
    InvalidParameter : a value is not allowed, or two do not fit each other.
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
        Option("Fewer newcomers wait, until max_wait; 5 k where nothing is said.", minimum=0),
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
            "Further tables that the persons have rows in: one set of classes holds in all of them."
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
        check(self)
        if self.new_chain_from is not None:
            require_chain_name(self.new_chain_from)
        if self.tables and self.max_rows_per_person is None:
            raise InvalidParameter(
                "A chain of several tables is one of persons with several rows.",
                hint="Say how many rows of each table are shown of a person: max_rows_per_person.",
            )
        if self.mode == MEASURE and self.max_rows_per_person is not None:
            raise InvalidParameter(
                "A chain that measures takes one row a person.",
                hint="Leave out max_rows_per_person, or the mode.",
            )

    @classmethod
    def of_plain(cls, given: Mapping[str, Any]) -> Rules:
        """The rules as they were told by ``to_plain``; those of version 0.2.0 let all in."""
        return make(cls, {"min_newcomers": 0, "max_wait": 0} | dict(given))

    def to_plain(self) -> dict[str, Any]:
        """The rules as plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {
            "tables": list(self.tables)
        }

    def expected_by(self, chain: Chain) -> list[str]:
        """The names of those that a job expects otherwise."""
        return [name for name, value in chain.rules.items() if getattr(self, name) != value]

    def fewest(self, k: int) -> int:
        """The newcomers that are let in together, unless they have waited for long."""
        return 5 * k if self.min_newcomers is None else self.min_newcomers

    def size(self, k: int) -> int:
        """The persons that a class is to have.

        Raises
        ------
        InvalidParameter : fewer than k were wished for.
        """
        if self.class_size is not None and self.class_size < k:
            raise InvalidParameter(
                f"class_size is {self.class_size}, and k = {k}.", hint="Make it k or more."
            )
        return self.class_size or k


def require_chain_name(name: str) -> None:
    """Check the name of a chain.

    Raises
    ------
    InvalidParameter : it is none.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", name):
        raise InvalidParameter(
            "The name of a chain must be 1 to 63 letters, digits, _, . and -.",
            hint="Choose a name such as patients.",
        )


def require_key_form(key: str) -> None:
    """Check that a key is named, and not given.

    Raises
    ------
    InvalidParameter : it is not; the text is not told, which may be a key.
    """
    if not is_key_location(key):
        raise InvalidParameter(
            f"key of a chain must be {_KEY_FORM}: where the key is, never the key itself.",
            hint="dbanon chain create writes a key to a file.",
        )
