"""Advice as it is given: counts, shares, losses and risks. It holds no value of a column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbanon.advice.nulls import NullChoice
from dbanon.advice.profile import Column, Count
from dbanon.advice.recommend import Point, Recommendation
from dbanon.advice.roles import CONSTANT, NOT_COPIED, QUASI_IDENTIFIER, REASONS, UNDECIDED, Role
from dbanon.advice.singling import SetOfColumns, Singling
from dbanon.data.notebook import Plotted
from dbanon.data.words import WithCard, json_text
from dbanon.errors import counted
from dbanon.job.synthesis import DP_MARGINALS, DP_RANKS
from dbanon.methods.forecast import in_words

# A part, what it is about, what was found in words, and the same as plain values.
Row = tuple[str, str, str, dict[str, Any]]

_SETS_SHOWN = 10
# The share of withheld rows above which a release is not named without it.
_MUCH_WITHHELD = 0.05


@dataclass(frozen=True)
class LeftOut:
    """A method that was not tried, and the error that says why."""

    curve: str
    code: str
    message: str


@dataclass(frozen=True, repr=False)
class Sweep(Plotted, WithCard):
    """What was tried.

    Parameters
    ----------
    measure : of the loss: ``sse_loss`` or ``iloss``.
    rows : records that releases were tried on, of ``of`` there are.
    linked : records whose linkage was tried, where not all; None for all.
    untried : how many releases time did not suffice for.
    passed_over : how many were not tried, for others before them foretold no better.
    left_out : methods that do not take these columns, with the error that says so.
    """

    measure: str
    points: tuple[Point, ...]
    rows: int
    of: int
    linked: int | None
    untried: int
    passed_over: int
    left_out: tuple[LeftOut, ...]

    @property
    def sampled(self) -> bool:
        """True when releases were tried on some of the rows."""
        return self.rows < self.of

    def pairs(self) -> list[tuple[str, str]]:
        """The releases that were tried, as pairs of label and text, for people."""
        pairs = [(f"{point.curve}, k = {point.k}", _tried(point)) for point in self.points]
        return pairs + [("note", note) for note in self.notes()]

    def notes(self) -> list[str]:
        """What has to be known of it, in words."""
        found = []
        if self.sampled:
            found.append(
                f"tried on {self.rows} of {self.of} rows, drawn by the seed: the risk is about that"
                " of all rows, the loss at most this"
            )
        if self.linked is not None:
            found.append(f"linkage risk was measured on {self.linked} rows, drawn by the seed")
        if self.untried:
            found.append(
                f"releases that the time limit left untried, the costliest: {self.untried}"
            )
        if self.passed_over:
            found.append(
                f"refined releases not tried: {self.passed_over}; the earlier ones show that"
                f" none of these would be recommended. Name methods to try all of them"
            )
        found += [f"{one.curve} was left out: {one.message}" for one in self.left_out]
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "measure": self.measure,
            "rows": self.rows,
            "of": self.of,
            "sampled": self.sampled,
            "linked": self.linked,
            "untried": self.untried,
            "passed_over": self.passed_over,
            "points": [point.to_dict() for point in self.points],
            "left_out": [dict(vars(one)) for one in self.left_out],
        }


@dataclass(frozen=True)
class ColumnAdvice:
    """A column with what was counted of it, and the role that it may have."""

    column: Column
    role: Role
    rows: int
    small: int

    @property
    def nulls(self) -> Count:
        """Rows without a value."""
        return Count(self.rows - self.column.present, self.rows, self.small)

    @property
    def distinct(self) -> Count:
        """Different values, of all rows: of those with a value, they would tell a few NULLs."""
        return Count(self.column.distinct, self.rows, self.small)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "name": self.column.name,
            "type": self.column.attribute.sql_type,
            "nulls": self.nulls.to_dict(),
            "distinct": self.distinct.to_dict(),
            "role": self.role.role,
            "or": self.role.also or None,
            "reason": self.role.reason,
            "because": REASONS[self.role.reason],
        }


@dataclass(frozen=True, repr=False)
class Advice(Plotted, WithCard):
    """What a table's columns may be, what singles rows out, and where to start.

    Parameters
    ----------
    columns : with proposed roles: proposals, never decisions.
    quasi_identifiers : those that all else is about; ``proposed`` when nobody named them.
    recommendation : None where no more than one release was tried: it says nothing of others.
    start : arguments of ``dbanon.anonymize`` that make the recommended release; none without one.
    seconds : CPU seconds by part.
    entity : the column that says whose a row is, so that k counts persons; None where no two rows
        seem to be one person's.
    chain : the command that makes a chain of its releases; None if no column is sure to follow
        persons, or its source keeps no chains.
    nulls : what becomes of NULLs in quasi-identifiers; None where there are none.
    kinds : of quasi-identifiers, where their types do not say it: ``nominal`` for codes.
    parted_loss : what the recommended release would lose with ``persons="rows"``; None where
        persons have few rows.
    """

    source: str
    rows: int
    columns: tuple[ColumnAdvice, ...]
    quasi_identifiers: tuple[str, ...]
    proposed: bool
    singling: Singling
    sweep: Sweep
    recommendation: Recommendation | None
    start: Mapping[str, Any]
    seconds: Mapping[str, float]
    entity: str | None = None
    chain: str | None = None
    nulls: NullChoice | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    parted_loss: float | None = None

    @property
    def rules(self) -> dict[str, Any]:
        """The proposed roles as rules, for ``dbanon.declare``.

        Of two roles it is the first. A column that somebody has to decide of has none: a release by
        rules halts at it.
        """
        found: dict[str, Any] = {}
        for one in self.columns:
            role = one.role.role
            if one.column.name == self.entity:
                found[one.column.name] = "entity"
            elif role in (NOT_COPIED, CONSTANT):
                found[one.column.name] = {"role": "drop", "reason": REASONS[one.role.reason]}
            elif role == QUASI_IDENTIFIER and one.column.name in self.kinds:
                kind = self.kinds[one.column.name]
                found[one.column.name] = {"role": role, "kind": kind}
            elif role != UNDECIDED:
                found[one.column.name] = role
        return found

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain values, for JSON."""
        return {
            "source": self.source,
            "rows": self.rows,
            "columns": [column.to_dict() for column in self.columns],
            "quasi_identifiers": list(self.quasi_identifiers),
            "proposed": self.proposed,
            "entity": self.entity,
            "nulls": self.nulls and self.nulls.to_dict(),
            "rules": self.rules,
            "singling": self.singling.to_dict(),
            "sweep": self.sweep.to_dict(),
            "recommendation": self.recommendation and self.recommendation.to_dict(),
            "start": dict(self.start),
            "seconds": dict(self.seconds),
            **({} if self.parted_loss is None else {"parted_loss": self.parted_loss}),
        }

    def table_rows(self) -> Iterator[Row]:
        """The advice row by row: a part, what it is about, what was found, and as plain values."""
        yield "table", self.source, counted(self.rows, "row"), {"rows": self.rows}
        for column in self.columns:
            yield "role", column.column.name, str(column.role), column.to_dict()
        for found in (self.singling.chosen, *self.singling.sets[:_SETS_SHOWN]):
            yield "singles out", ", ".join(found.columns), describe_set(found), found.to_dict()
        for point in self.sweep.points:
            yield "tried", f"{point.curve}, k = {point.k}", _tried(point), point.to_dict()
        for note in self.sweep.notes():
            yield "tried", "note", note, {}
        for label, words in self.recommended():
            yield "recommended", label, words, {}

    def pairs(self) -> list[tuple[str, str]]:
        """What ``table_rows`` has, as pairs of label and text, for people."""
        return [(f"{part}: {about}", words) for part, about, words, _ in self.table_rows()]

    def recommended(self) -> list[tuple[str, str]]:
        """The recommendation as pairs of label and text."""
        found = self.recommendation
        pairs = [("entity", entity_told(self.entity))] if self.entity else []
        pairs += [("nulls", str(self.nulls))] if self.nulls is not None else []
        if found is None:
            [point] = self.sweep.points
            return [*pairs, ("release", f"none: one release alone was tried, {point.curve} with"
                             f" k = {point.k}, so there is no comparison. Allow a longer"
                             f" time_limit, or a smaller sample")]  # fmt: skip
        pairs += [("release", _with_withheld(found.point)), ("rule", found.rule)]
        if found.point.forecast is not None:
            words = in_words(found.point.forecast)
            pairs.append(("forecast", f"{words} to find the classes of all rows"))
        if found.runner_up is not None:
            pairs.append(("runner-up", _with_withheld(found.runner_up)))
        if found.note:
            pairs.append(("note", found.note))
        if self.parted_loss is not None:
            pairs.append(("persons", persons_told(found.point.loss, self.parted_loss)))
        if self.chain is not None:
            told = f"of the same persons stay private together in a chain: {self.chain}"
            pairs.append(("more releases", told))
        pairs.append(("synthetic rows", self._private_method()))
        return [*pairs, ("Liu and Li", _rule_of_liu_and_li(self.rows))]

    def _private_method(self) -> str:
        """Which method of synthetic rows suits the quasi-identifiers, by their types alone."""
        kinds = {one.column.name: one.column.attribute.kind for one in self.columns}
        many = len(self.quasi_identifiers)
        listed = sum(kinds[name].is_coded or name in self.kinds for name in self.quasi_identifiers)
        found = DP_MARGINALS if 2 * listed > many else DP_RANKS
        return (
            f"for differential privacy instead of k: {found}, because {listed} of {many}"
            " quasi-identifiers are categories (most: dp_marginals, counts of pairs; else dp_ranks,"
            " ranks of numbers)"
        )


def _tried(point: Point) -> str:
    return f"loss {point.loss:.4g}, linkage risk {point.risk:.4g}"


def _with_withheld(point: Point) -> str:
    """A release in words; where it withholds many rows, that first."""
    if (point.suppressed.share or 0.0) <= _MUCH_WITHHELD:
        return str(point)
    return f"withholds {point.suppressed.percent()} of the rows; of the others {point}"


def entity_told(name: str) -> str:
    """Why a number of persons is proposed as what k counts, and never as a quasi-identifier."""
    return (
        f"{json_text(name)} says whose a row is: k counts its values, and it"
        " is not released. As a quasi-identifier it would make classes of one person each"
    )


def persons_told(whole: float, parted: float) -> str:
    """What it would change if classes parted the rows of persons."""
    return (
        f"have many rows each. The release keeps all rows of a person in one class: loss"
        f" {whole:.4g}. With persons=rows, never the default, it would be {parted:.4g}, and"
        " someone who knows several rows of a person could join their classes"
    )


def _rule_of_liu_and_li(rows: int) -> str:
    """What the source of dcm and dcmdp says of k, and what that is worth."""
    return (
        f"k >= sqrt(n), here {math.isqrt(max(rows - 1, 0)) + 1}, so that noise of dcmdp is no more"
        " than plain Laplace noise; it makes nothing private, and no release here needs it"
    )


def describe_set(found: SetOfColumns) -> str:
    """What columns tell together, in words."""
    return f"{found.alone.percent()} alone, {found.few.percent()} in groups of fewer than" + (
        f" {found.few.small}"
    )
