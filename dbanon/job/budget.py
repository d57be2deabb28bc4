"""A privacy budget as it is asked for, checked before anything is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from dbanon.data.option import Option, check
from dbanon.errors import InvalidParameter

ROW, PERSON = UNITS = ("row", "person")
_SEE = "differential-privacy.md#budgets"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class NewBudget:
    """What the releases of a source may spend together.

    Raises
    ------
    InvalidParameter : an option is out of range, or a unit does not fit.
    """

    name: str
    source: Annotated[str, Option("What its releases read, as in app.people.", see=_SEE)]
    epsilon: Annotated[
        float,
        Option(
            "In all, for all releases of the source together.",
            minimum=0,
            above=True,
            maximum=1_000_000,
            expected="a number above 0, at most 1000000",
            see=_SEE,
        ),
    ]
    unit: Annotated[
        str, Option("What one of is protected: a row, or a person.", choices=UNITS, see=_SEE)
    ] = ROW
    entity: Annotated[
        str | None,
        Option("Of persons: the column that says whose a row is.", form="COLUMN", see=_SEE),
    ] = None
    raises: Annotated[
        str | None,
        Option(
            "The open budget whose place it takes with a larger total; what was spent of that one"
            " is spent of this one.",
            form="NAME",
            see=_SEE,
        ),
    ] = None

    def __post_init__(self) -> None:
        check(self)
        if not _NAME.fullmatch(str(self.name)):
            raise InvalidParameter(
                "The name of a budget must be 1 to 63 letters, digits, dots, hyphens and"
                " underscores, the first a letter or digit."
            )
        # Nothing smaller is counted.
        if self.epsilon < 1e-9:
            raise InvalidParameter("epsilon must be 1e-9 or more.")
        if (self.unit == PERSON) != bool(self.entity):
            raise InvalidParameter(
                "A budget of persons needs the column that says whose a row is, and no other has"
                " one.",
                hint="Give the unit person and its `entity` together, or neither.",
            )
