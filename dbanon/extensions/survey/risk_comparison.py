"""The disclosure risk of a sample, next to that of a release of it.

Both have the same measures, each of its own values. The figures are for whoever is responsible for
the data, and not for publication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dbanon.data.types import JsonObject
from dbanon.data.words import LabelledText, escape_control_characters, format_pairs
from dbanon.errors import pluralize
from dbanon.extensions.survey.assess import RecordRisks, Sample, assess_sample
from dbanon.extensions.survey.request import RiskRequest
from dbanon.extensions.survey.sample_risk import (
    FRACTION,
    NOT_FOR_PUBLICATION,
    RISK_EDGES,
    WEIGHTS,
    SampleRisk,
)
from dbanon.measures.figure import Tick, ignore_progress

if TYPE_CHECKING:
    from dbanon.extensions.survey.risk_html import RiskView
    from dbanon.release.risk_figures import RiskRow

# Stands for a figure that only the other table has.
NO_FIGURE = "–"
# Measures whose note is part of their name.
_MEASURES_WITH_LIMIT = ("records_with_individual_risk", "prosecutor_above", "journalist_above")


@dataclass(frozen=True, repr=False)
class RiskComparison(LabelledText):
    """The disclosure risk of a sample before a release, and that of the release.

    Parameters
    ----------
    before : the risk of the sample.
    after : the risk of the release. Records match if their released values are equal.
    notes : what the figures of the release mean.
    """

    before: SampleRisk
    after: SampleRisk
    notes: tuple[str, ...] = ()

    @property
    def records_after(self) -> int:
        """The number of records in the release."""
        return self.after.records

    @property
    def highest_after(self) -> float:
        """The largest individual risk in the release, or household risk if it was measured."""
        return (self.after.household or self.after).highest

    @property
    def mean_after(self) -> float:
        """The mean of these risks over all records of the release, 0 to 1."""
        return (self.after.household or self.after.total).rate

    def to_dict(self) -> JsonObject:
        """The figures as plain values, for JSON."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "notes": list(self.notes),
        }

    def measure_rows(self) -> Iterator[RiskRow]:
        """Yield the figures as rows: measure, column, figure and note.

        Measures of the release have the prefix ``after_``.
        """
        for row in self.before.measure_rows():
            if row[3] != NOT_FOR_PUBLICATION:
                yield row
        for measure, column, figure, note in self.after.measure_rows():
            if note != NOT_FOR_PUBLICATION:
                yield f"after_{measure}", column, figure, note
        for note in (*self.notes, NOT_FOR_PUBLICATION):
            yield "note", None, None, note

    def table_rows(self) -> list[tuple[str, str, str]]:
        """The figures as rows: label, figure before, figure after."""
        columns = [_label_figures(risk) for risk in (self.before, self.after)]
        labels = dict.fromkeys(label for figures in columns for label in figures)
        return [
            (label, columns[0].get(label, NO_FIGURE), columns[1].get(label, NO_FIGURE))
            for label in labels
        ]

    def pairs(self) -> list[tuple[str, str]]:
        """What the figures are about, and what they mean, as pairs of label and text."""
        return [
            ("before", self.before.describe_basis()),
            ("after", self.after.describe_basis()),
            ("columns", ", ".join(self.before.quasi_identifiers)),
            *(("note", note) for note in self.notes),
            *(("note before", note) for note in self.before.notes),
            *(("note after", note) for note in self.after.notes),
            ("use", NOT_FOR_PUBLICATION),
        ]

    def __str__(self) -> str:
        rows = [("", "before", "after"), *self.table_rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"{escape_control_characters(label):{widths[0]}}  {before:>{widths[1]}}"
            f"  {after:>{widths[2]}}"
            for label, before, after in rows
        ]
        return "\n".join([*lines, "", format_pairs(self.pairs())])

    def view(self) -> RiskView:
        """What cards and pages show."""
        # Import only when displayed, to keep database backends small.
        from dbanon.extensions.survey.risk_html import RiskView

        headlines = (self.before.describe_headline(), self.after.describe_headline())
        return RiskView(
            kind="disclosure risk before and after",
            title=" and ".join(dict.fromkeys((self.before.source, self.after.source))),
            use=NOT_FOR_PUBLICATION,
            headline=[
                (label, after, f"after; {before} before")
                for (label, before), (_, after) in zip(*headlines, strict=True)
            ],
            edges=RISK_EDGES,
            series=[
                self.before.count_by_interval("before"),
                self.after.count_by_interval("after"),
            ],
            notes=(
                *self.notes,
                *(f"before: {note}" for note in self.before.notes),
                *(f"after: {note}" for note in self.after.notes),
            ),
            figures=self.table_rows(),
            pairs=self.pairs(),
        )

    def _repr_html_(self) -> str:
        """Return the card for notebooks."""
        from dbanon.extensions.survey.risk_html import render_risk_card

        return render_risk_card(self.view())


def compare_samples(
    sample: Sample,
    released: Sample,
    request: RiskRequest,
    released_request: RiskRequest,
    *,
    with_records: bool = False,
    tick: Tick = ignore_progress,
) -> tuple[RiskComparison, RecordRisks]:
    """Measure the disclosure risk of a sample and of its release, and that of the sample's records.

    Parameters
    ----------
    released : the records of the release, with codes of its own.
    released_request : the request for the release. Without a weight, the sampling fraction of the
        sample is used.
    with_records : as in ``assess_sample``.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    TooFewRecords, InvalidParameter : as ``assess_sample``.
    """
    before, record_risks = assess_sample(
        sample, request, with_records=with_records, tick=lambda share: tick(share / 2)
    )
    if released.weights is None:
        fraction = _find_sampling_fraction(before)
        released_request = replace(released_request, sampling_fraction=fraction)
    after, _ = assess_sample(released, released_request, tick=lambda share: tick(0.5 + share / 2))
    notes = _list_notes(before, after, request, released_request)
    return RiskComparison(before, after, tuple(notes)), record_risks


def _find_sampling_fraction(before: SampleRisk) -> float | None:
    """Return the share of the population that is in the sample, above 0 and up to 1.

    None if the size of the population is not known.
    """
    if before.population_size is None:
        return None
    return min(before.records / before.population_size, 1.0)


def _list_notes(
    before: SampleRisk, after: SampleRisk, request: RiskRequest, released_request: RiskRequest
) -> Iterator[str]:
    """Say what the figures of a release mean."""
    smallest_class = round(1 / after.prosecutor.highest)
    yield (
        "after, records match if they have the same released values. An interval and a label"
        " are values of their own"
        + (", and NULL equals every value" if after.missing == "wildcard" else ", and so is NULL")
    )
    yield (
        f"in the release, the rarest record matches {pluralize(smallest_class, 'record')}, itself"
        " included."
        " If classes have k records or more, the prosecutor's risk is at most 1/k by these columns."
        " What the records of a class have in common is still shown, and other columns may"
        " show more"
    )
    if after.records != before.records:
        yield (
            f"the release has {pluralize(after.records, 'record')}, the sample has"
            f" {before.records}: each average is that of its own records"
        )
    released_names = released_request.quasi_identifiers
    left_out = [name for name in request.quasi_identifiers if name not in released_names]
    if left_out:
        names = ", ".join(f'"{name}"' for name in left_out)
        yield f"the release does not have {names}: after, the risk is that by the other columns"
    if after.basis == WEIGHTS:
        yield f'after, weights are those in the column "{released_request.weight}" of the release'
    elif after.basis == FRACTION and request.weight is not None:
        yield (
            f'the release does not have the weights "{request.weight}": after, each record stands'
            f" for {1 / (released_request.sampling_fraction or 1):.4g} persons, the mean of the"
            " sample (sampling fraction)"
        )
    elif after.basis == FRACTION and before.population is not None:
        yield (
            "released values cannot be looked up in the population table: after, the risk is by"
            " the sampling fraction"
        )
    if request.household is not None and after.household is None:
        yield (
            f'the release does not have the households "{request.household}": there is no household'
            " risk after"
        )


def _label_figures(risk: SampleRisk) -> dict[str, str]:
    """The figures of a table as text, by label."""
    figures = {}
    for measure, column, figure, note in risk.measure_rows():
        if measure == "note":
            continue
        label = measure.replace("_", " ").replace("reidentifications", "re-identifications")
        if measure in _MEASURES_WITH_LIMIT:
            label = f"{label.removesuffix(' above')} {note}".replace("individual risk", "risk")
        if column is not None:
            label = f"{label}: {column}"
        figures[label] = NO_FIGURE if figure is None else _format(figure)
    return figures


def _format(figure: float) -> str:
    return f"{figure:.0f}" if figure == int(figure) else f"{figure:.6g}"
