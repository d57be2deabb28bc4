"""The results of advice: counts, shares, losses and risks, never values of columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dbanon.advice.nulls import NullChoice
from dbanon.advice.profile import ColumnProfile, Count, Profile
from dbanon.advice.recommend import Point, Recommendation
from dbanon.advice.roles import (
    CONSTANT,
    NOT_COPIED,
    QUASI_IDENTIFIER,
    REASONS,
    UNDECIDED,
    RoleProposal,
    describe_copied_weight,
    find_design_weight,
)
from dbanon.advice.singling import SetUniqueness, UniqueColumnSets
from dbanon.advice.source_risk import SourceRisk, describe_missing_risk
from dbanon.advice.synthetic_rows import SYNTHETIC_LABEL, SyntheticForecast
from dbanon.data.notebook import NotebookPlot
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import LabelledTextWithHtml, json_text
from dbanon.errors import pluralize
from dbanon.methods.forecast import describe_seconds

# A row of the advice: its section (such as "role"), its subject (such as a column), the finding as
# text, and the finding as a dict of plain values.
AdviceRow = tuple[str, str, str, JsonObject]

# Number of sets of columns to display.
_N_SETS_SHOWN = 10
# The label of the risk of the table as it is.
_RISK_LABEL = "risk of the table"
# The text mentions the share of rows that a release withholds if it is above this.
_MAX_UNMENTIONED_SHARE = 0.05


@dataclass(frozen=True)
class SkippedMethod:
    """A method that the sweep left out, and the error that explains it.

    Parameters
    ----------
    curve : the method, with its refinement if it has one, as ``method+refinement``.
    code, message : the code and the message of the error.
    """

    curve: str
    code: str
    message: str


# The base classes give a result a plot, and display its ``pairs`` as text, or as a card in
# notebooks.
@dataclass(frozen=True, repr=False)
class Sweep(NotebookPlot, LabelledTextWithHtml):
    """Trial releases with their losses and risks.

    Parameters
    ----------
    measure : the measure of loss: ``sse_loss`` or ``iloss``.
    points : the trial releases.
    rows : number of records in the trials, all of the table or a sample.
    of : number of all records of the table.
    linked : number of records for which linkage risk was measured; None for all.
    untried : number of releases not tried because of the time limit.
    passed_over : number of releases skipped because earlier trials predict no improvement.
    left_out : the methods that were not tried, each with the error that explains it.
    """

    measure: str
    points: tuple[Point, ...]
    rows: int
    of: int
    linked: int | None
    untried: int
    passed_over: int
    left_out: tuple[SkippedMethod, ...]

    @property
    def sampled(self) -> bool:
        """True if the trials used a sample of the rows."""
        return self.rows < self.of

    def pairs(self) -> list[tuple[str, str]]:
        """The trial releases as pairs of label and text."""
        pairs = [(f"{point.curve}, k = {point.k}", _describe_trial(point)) for point in self.points]
        return pairs + [("note", note) for note in self.notes()]

    def notes(self) -> list[str]:
        """Describe the limits of the sweep: samples, and releases that were not tried."""
        texts = []
        if self.sampled:
            texts.append(
                f"tried on a random sample of {self.rows} of {self.of} rows: the risk of all rows"
                " is about the same, and their loss is not larger"
            )
        if self.linked is not None:
            texts.append(f"linkage risk was measured on a random sample of {self.linked} rows")
        if self.untried:
            texts.append(
                "releases not tried because of the time limit, the most expensive ones:"
                f" {self.untried}"
            )
        if self.passed_over:
            texts.append(
                f"refined releases not tried: {self.passed_over}; the earlier ones show that"
                f" none of these would be recommended. Name methods to try all of them"
            )
        texts += [f"{method.curve} was left out: {method.message}" for method in self.left_out]
        return texts

    def to_dict(self) -> JsonObject:
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
            "left_out": [dict(vars(method)) for method in self.left_out],
        }


@dataclass(frozen=True)
class ColumnAdvice:
    """A column with its counts and its proposed role.

    Parameters
    ----------
    column : the counts of the column.
    role : the proposed role.
    rows : number of rows of the table.
    small : the smallest count that is disclosed exactly; smaller ones above 0 only as a range.
    """

    column: ColumnProfile
    role: RoleProposal
    rows: int
    small: int

    @property
    def nulls(self) -> Count:
        """The number of rows with NULL."""
        return Count(self.rows - self.column.n_non_null, self.rows, self.small)

    @property
    def distinct(self) -> Count:
        """The number of distinct values, relative to all rows.

        Relative to the rows that are not NULL, the share could disclose a small number of NULLs.
        """
        return Count(self.column.n_distinct, self.rows, self.small)

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "name": self.column.name,
            "type": self.column.attribute.sql_type,
            "nulls": self.nulls.to_dict(),
            "distinct": self.distinct.to_dict(),
            "role": self.role.role,
            "or": self.role.alternative or None,
            "reason": self.role.reason,
            "because": REASONS[self.role.reason],
        }


@dataclass(frozen=True, repr=False)
class Advice(NotebookPlot, LabelledTextWithHtml):
    """Proposed roles of a table's columns, sets that make rows unique, and a recommendation.

    Parameters
    ----------
    source : the name of the table.
    rows : number of rows of the table.
    columns : all columns, with proposed roles. The user decides.
    quasi_identifiers : the columns treated as quasi-identifiers in the trial releases.
    proposed : True if the quasi-identifiers were proposed because the user named none.
    singling : the sets of quasi-identifiers that make rows unique.
    risk : the disclosure risk of the table as it is, for the controller of the data; None if
        persons have several rows.
    sweep : the trial releases, which were tried with these quasi-identifiers.
    recommendation : the recommended release; None if only one release was tried, so that there is
        no comparison.
    start : arguments with which ``dbanon.anonymize`` makes the recommended release, as a start;
        empty if there is none.
    seconds : CPU seconds by step of the analysis.
    entity : the column that identifies the person of a row, so that k counts persons; None if no
        two rows seem to belong to one person.
    chain : the command that creates a chain of releases; None if no column reliably identifies
        persons, or the source does not support chains.
    nulls : the treatment of NULLs in quasi-identifiers; None if there are no NULLs.
    kinds : by quasi-identifier whose numbers are codes for categories: ``nominal``.
    parted_loss : the loss that the recommended release would have if the rows of a person were
        parted: allowed to be in different classes (``persons="rows"``). None if persons have few
        rows.
    synthetic_rows : the forecast error of synthetic rows; None if there is none.
    """

    source: str
    rows: int
    columns: tuple[ColumnAdvice, ...]
    quasi_identifiers: tuple[str, ...]
    proposed: bool
    singling: UniqueColumnSets
    sweep: Sweep
    recommendation: Recommendation | None
    start: JsonMapping
    seconds: Mapping[str, float]
    entity: str | None = None
    chain: str | None = None
    nulls: NullChoice | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    parted_loss: float | None = None
    risk: SourceRisk | None = None
    synthetic_rows: SyntheticForecast | None = None

    @property
    def design_weight(self) -> str | None:
        """The column that is proposed as design weight; None if there is none."""
        roles = {advice.column.name: advice.role for advice in self.columns}
        columns = tuple(advice.column for advice in self.columns)
        return find_design_weight(roles, Profile(self.rows, columns))

    @property
    def rules(self) -> JsonObject:
        """The proposed roles as rules, for ``dbanon.declare``.

        If two roles are proposed for a column, the first is used. An undecided column gets no rule,
        so a release that uses the rules is refused until the user adds one.
        """
        rule_by_name: JsonObject = {}
        design_weight = self.design_weight
        for column_advice in self.columns:
            name, role = column_advice.column.name, column_advice.role.role
            if name == self.entity:
                rule_by_name[name] = "entity"
            elif name == design_weight:
                rule_by_name[name] = "weight"
            elif role in (NOT_COPIED, CONSTANT):
                reason = REASONS[column_advice.role.reason]
                rule_by_name[name] = {"role": "drop", "reason": reason}
            elif role == QUASI_IDENTIFIER and name in self.kinds:
                rule_by_name[name] = {"role": role, "kind": self.kinds[name]}
            elif role != UNDECIDED:
                rule_by_name[name] = role
        return rule_by_name

    def to_dict(self) -> JsonObject:
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
            "risk": self.risk and self.risk.to_dict(),
            "synthetic_rows": self.synthetic_rows and self.synthetic_rows.to_dict(),
            "sweep": self.sweep.to_dict(),
            "recommendation": self.recommendation and self.recommendation.to_dict(),
            "start": dict(self.start),
            "seconds": dict(self.seconds),
            **({} if self.parted_loss is None else {"parted_loss": self.parted_loss}),
        }

    def table_rows(self) -> Iterator[AdviceRow]:
        """Yield the advice as rows for display."""
        yield "table", self.source, pluralize(self.rows, "row"), {"rows": self.rows}
        for column_advice in self.columns:
            name, role = column_advice.column.name, column_advice.role
            yield "role", name, str(role), column_advice.to_dict()
        for column_set in (self.singling.chosen, *self.singling.sets[:_N_SETS_SHOWN]):
            yield (
                "singles out",
                ", ".join(column_set.columns),
                describe_set(column_set),
                column_set.to_dict(),
            )
        for point in self.sweep.points:
            yield "tried", f"{point.curve}, k = {point.k}", _describe_trial(point), point.to_dict()
        for note in self.sweep.notes():
            yield "tried", "note", note, {}
        details = {_RISK_LABEL: self.risk.to_dict()} if self.risk is not None else {}
        if self.synthetic_rows is not None:
            details[SYNTHETIC_LABEL] = self.synthetic_rows.to_dict()
        for label, text in self.recommended():
            yield "recommended", label, text, details.get(label, {})

    def pairs(self) -> list[tuple[str, str]]:
        """The rows of ``table_rows`` as pairs of label and text."""
        return [(f"{section}: {subject}", text) for section, subject, text, _ in self.table_rows()]

    def recommended(self) -> list[tuple[str, str]]:
        """The recommendation, with notes on it, as pairs of label and text."""
        recommendation = self.recommendation
        risk = describe_missing_risk() if self.risk is None else self.risk.describe()
        pairs = [(_RISK_LABEL, risk)]
        pairs += [("entity", describe_entity(self.entity))] if self.entity else []
        pairs += [("nulls", str(self.nulls))] if self.nulls is not None else []
        design_weight = self.design_weight
        pairs += [
            ("design weight", describe_design_weight(each.column))
            for each in self.columns
            if each.column.name == design_weight
        ]
        synthetic_rows = [] if self.synthetic_rows is None else self.synthetic_rows.pairs()
        if recommendation is None:
            # Exactly one release was tried, so that there is no comparison.
            [point] = self.sweep.points
            return [
                *pairs,
                (
                    "release",
                    f"none: only one release was tried, {point.curve} with"
                    f" k = {point.k}, so there is no comparison. Allow a longer"
                    f" time_limit, or a smaller sample",
                ),
                *synthetic_rows,
            ]
        pairs += [
            ("release", _describe_with_suppression(recommendation.point)),
            ("rule", recommendation.rule),
        ]
        if recommendation.point.forecast is not None:
            duration = describe_seconds(recommendation.point.forecast)
            pairs.append(("forecast", f"{duration} to find the classes of all rows"))
        if recommendation.runner_up is not None:
            pairs.append(("runner-up", _describe_with_suppression(recommendation.runner_up)))
        if recommendation.note:
            pairs.append(("note", recommendation.note))
        if self.parted_loss is not None:
            pairs.append(
                ("persons", describe_parted_loss(recommendation.point.loss, self.parted_loss))
            )
        if self.chain is not None:
            chain_text = f"of the same persons stay private together in a chain: {self.chain}"
            pairs.append(("more releases", chain_text))
        # The authors of ``dcm`` and ``dcmdp``, whose paper has a rule for k.
        return [*pairs, *synthetic_rows, ("Liu and Li", _describe_rule_of_liu_and_li(self.rows))]


def _describe_trial(point: Point) -> str:
    return f"loss {point.loss:.4g}, linkage risk {point.risk:.4g}"


def _describe_with_suppression(point: Point) -> str:
    """Describe a trial release; if it withholds many rows, begin with their share."""
    if (point.suppressed.share or 0.0) <= _MAX_UNMENTIONED_SHARE:
        return str(point)
    return f"withholds {point.suppressed.percent()} of the rows; of the others {point}"


def describe_entity(name: str) -> str:
    """Explain why a person identifier is proposed as the entity, not as a quasi-identifier."""
    return (
        f"{json_text(name)} identifies persons: k counts its values, and it"
        " is not released. As a quasi-identifier it would make classes of one person each"
    )


def describe_design_weight(column: ColumnProfile) -> str:
    """Explain how a column that is proposed as design weight is released."""
    warning = describe_copied_weight(column)
    return f"{json_text(column.name)} is released as the mean of each class" + (
        f": {warning}" if warning else ""
    )


def describe_parted_loss(whole_loss: float, parted_loss: float) -> str:
    """Describe the effect of classes that split the rows of persons.

    The text continues the label "persons".

    Parameters
    ----------
    whole_loss : the loss if all rows of a person are in one class.
    parted_loss : the loss if classes may split the rows of a person.
    """
    return (
        f"have many rows each. The release keeps all rows of a person in one class: loss"
        f" {whole_loss:.4g}. With persons=rows, never the default, it would be"
        f" {parted_loss:.4g}, and someone who knows several rows of a person could join their"
        " classes"
    )


def _describe_rule_of_liu_and_li(rows: int) -> str:
    """Quote the rule for k of Liu and Li's paper on dcm and dcmdp, and describe its limits."""
    return (
        f"k >= sqrt(n), here {math.isqrt(max(rows - 1, 0)) + 1}, so that dcmdp adds no more noise"
        " than the Laplace mechanism; it makes nothing private, and no release here needs it"
    )


def describe_set(column_set: SetUniqueness) -> str:
    """Describe how many rows are unique or rare in a set of columns."""
    return (
        f"{column_set.unique.percent()} unique, {column_set.few.percent()} in groups of fewer than"
        f" {column_set.few.small}"
    )
