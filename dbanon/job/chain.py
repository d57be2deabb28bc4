"""Chains: releases of the same persons that stay private together; what a job says, and the rules.

A chain is made once, under rules that stay; each of its releases names it, and where its key is.
Beyond its own rows a release guarantees that histories are shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, replace
from typing import Annotated, Any

from dbanon.data.counts import Counts, Histories
from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check, make, parameters
from dbanon.errors import (
    ChainExposed,
    ChainModelBroken,
    InvalidParameter,
    RecountFailed,
    TooFewRecords,
    TraceTooSmall,
    counted,
)
from dbanon.job.guarantee import REPORT_IT, Guarantee
from dbanon.job.verdict import Expected, Verdict
from dbanon.measures.models import CountedModel

SHOW, HOLD, FREEZE = "show", "hold", "freeze"
CHANGES = (SHOW, HOLD, FREEZE)
WITHDRAW = "withdraw"
DEPARTURES = (HOLD, WITHDRAW)
CONTINUE, MEASURE = "continue", "measure"
MODES = (CONTINUE, MEASURE)

_KEY = re.compile(r"(file:.+|env:[A-Za-z_][A-Za-z0-9_]*)", re.S)
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
            "Releases of the same persons that stay private together: the chain it belongs to.",
            flag="chain",
            form="NAME",
        ),
    ]
    key: Annotated[
        str,
        Option(
            "Where the key of the chain is, a file or a variable of the environment.",
            expected=_KEY_FORM,
            flag="chain_key",
            form="file:PATH|env:NAME",
        ),
    ]
    max_exposed: Annotated[
        float | None,
        Option(
            "Of a chain that measures, or follows another: the share of persons whose joint history"
            " may be shared by fewer than k; refused above it.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    accept_turnover: Annotated[
        bool,
        Option("Accept that many members left and as many newcomers came since the last release."),
    ] = False
    rules: Mapping[str, Any] = field(default_factory=dict)

    def placed(self, path: Callable[[str], str], text: Callable[[str], str]) -> Chain:
        """The chain with the file of its key where that is; ``text`` for the name of a variable."""
        kind, _, place = self.key.partition(":")
        return replace(self, key=f"{kind}:{path(place) if kind == 'file' else text(place)}")

    def __post_init__(self) -> None:
        check(self)
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
            "What becomes of values that change: show; hold, while few of a class differ; freeze.",
            choices=CHANGES,
            hint="There is no default: see docs/chains.md for what each tells.",
        ),
    ]
    class_size: Annotated[
        int | None,
        Option("Persons that share a class when they are admitted, k or more.", minimum=2),
    ] = None
    admit_every: Annotated[
        int, Option("Newcomers are admitted with every so many releases.", minimum=1)
    ] = 1
    min_newcomers: Annotated[
        int | None,
        Option("Fewer newcomers wait, until max_wait; 5 k where nothing is said.", minimum=0),
    ] = None
    max_wait: Annotated[
        int,
        Option("How many releases newcomers wait for a good class; 0: for none.", minimum=0),
    ] = 6
    departures: Annotated[
        str,
        Option(
            "What becomes of a class that some have left: hold, withdraw for good.",
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
            "Persons have several rows, and no more than so many of each are shown; one row each"
            " where nothing is said, and more are refused.",
            minimum=1,
        ),
    ] = None
    mode: Annotated[
        str,
        Option(
            "continue keeps every history shared by k persons; measure only counts.", choices=MODES
        ),
    ] = CONTINUE

    new_chain_from: Annotated[
        str | None,
        Option(
            "A closed chain over the same persons, whose key this one takes: how many persons both"
            " expose together is counted with the first release.",
            form="NAME",
        ),
    ] = None

    def __post_init__(self) -> None:
        check(self)
        if self.new_chain_from is not None:
            require_chain_name(self.new_chain_from)
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
        return {one.name: getattr(self, one.name) for one in fields(self)}

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
    if not _KEY.fullmatch(key):
        raise InvalidParameter(
            f"key of a chain must be {_KEY_FORM}: where the key is, never the key itself.",
            hint="dbanon chain create writes a key to a file.",
        )


@dataclass(frozen=True)
class OfChain(Guarantee):
    """Every combination of released values is shared by k persons, and so is every history.

    Parameters
    ----------
    entity : the column that says whose a row is; every person has one.
    chain : the name of the chain.
    only_measured : True where classes are found afresh, and histories are counted, not kept.
    max_exposed : the share of persons whose history fewer than k may share then; None for all.
    """

    entity: str = ""
    chain: str = ""
    only_measured: bool = False
    max_exposed: float | None = None

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The column that persons are told apart by, in the database: it is not read."""
        return (self.entity,)

    @property
    def what(self) -> str:
        """What k counts."""
        return f'persons (distinct values of "{self.entity}")'

    @property
    def unit(self) -> str:
        """What k counts, in one word or few."""
        return "persons"

    def _of_what(self) -> tuple[str, ...]:
        of_models: tuple[str, ...] = ()
        if self.models and not self.only_measured:
            of_models = (
                "Classes that were brought together for a privacy model may be told apart again by"
                f" what the model asked for: each of them has {self.k} persons, who share their"
                " history. That newcomers stay out for good tells that the model kept them out.",
            )
        return (
            f'k counts persons, by the values of "{self.entity}", which are not released.',
            "Who knows that a person's kept values changed, or that they did not, knows more than"
            " the chain takes into account; so does who sees releases outside of it.",
            *of_models,
        )

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        alone = super().sentence(columns)
        if self.only_measured:
            return f"{alone}; over releases nothing is guaranteed: chain {self.chain} measures"
        merged = " of one class before classes were merged for models" if self.models else ""
        return (
            f"{alone}; every history over the releases of chain {self.chain} is shared by at least"
            f" {self.k} persons{merged}"
        )

    def check(self, counts: Counts, expected: Expected) -> Verdict:
        """The verdict on rows and histories that were counted.

        Raises
        ------
        TooFewRecords : nobody would be in the release.
        TraceTooSmall : a history is shared by too few.
        ChainModelBroken : a class does not keep to a privacy model.
        RecountFailed : rows are not those that the state says.
        ChainExposed : too many persons have a history that too few share.
        """
        found = counts.histories
        assert found is not None
        if not counts.rows.rows:
            raise TooFewRecords(
                f"Nobody would be in this release of chain {self.chain}: {found.waiting} persons"
                " wait, fewer than a class needs.",
                hint="Run it again when more persons are there.",
            )
        rows = found.persons if found.rows is None else found.rows
        self._require_rows(counts.rows, replace(expected, rows=rows))
        self.require_histories(found)
        return self.verdict(counts, self._levels(counts, expected))

    def require_histories(self, found: Histories) -> None:
        """Check what was counted on the state of the chain.

        Raises
        ------
        TraceTooSmall, ChainModelBroken, RecountFailed, ChainExposed : as ``check``.
        """
        for wrong, what in (
            (found.misplaced, "classes have other rows than their persons"),
            (found.rewritten, "held classes have other rows than were shown"),
            (found.uneven, "combinations have other rows than their classes"),
        ):
            if wrong:
                raise RecountFailed(f"{wrong} {what}; nothing was published.", hint=REPORT_IT)
        if self.only_measured:
            self.require_few(found.exposed, found.known)
        elif min(found.smallest, self.k if found.fewest is None else found.fewest) < self.k:
            raise TraceTooSmall(
                f"A history over the releases of chain {self.chain} would be shared by"
                f" {counted(found.smallest, 'person')}, fewer than k = {self.k}; nothing was"
                " published.",
                hint=REPORT_IT,
            )
        if found.failing:
            raise ChainModelBroken(
                f"{found.failing} classes of chain {self.chain} would not keep to a privacy model;"
                " nothing was published.",
                hint=REPORT_IT,
            )

    def require_few(self, exposed: int, known: int) -> None:
        """Check that no more persons are exposed than are allowed.

        Raises
        ------
        ChainExposed : there are.
        """
        if self.max_exposed is None or exposed <= self.max_exposed * known:
            return
        raise ChainExposed(
            f"With this release {exposed} of {known} persons would have a joint"
            f" history that fewer than {self.k} share, more than the allowed share"
            f" {self.max_exposed:g}; nothing was published.",
            hint="Allow more, or keep histories: a chain of mode continue.",
        )

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on rows that were counted: each is a person's, or persons were counted."""
        found = counts.histories
        assert found is not None
        least = counts.rows.smallest if found.fewest is None else found.fewest
        return Verdict(
            least,
            least,
            levels,
            persons=found.persons,
            noted={"entity": self.entity, "persons": found.persons},
            counted=f' (persons: distinct values of "{self.entity}", {found.persons} in all)',
        )
