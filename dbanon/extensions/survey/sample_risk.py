"""The disclosure risk of a sample: figures of the file, none of a record.

They are for whoever is responsible for the data, and not for publication: readers of a release
would learn from them how far their guesses can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dbanon.data.types import JsonObject
from dbanon.data.words import LabelledText
from dbanon.errors import pluralize
from dbanon.extensions.survey.attacker_risk import AttackerRisk
from dbanon.extensions.survey.individual_risk import GlobalRisk
from dbanon.extensions.survey.population_uniqueness import PopulationUniques

if TYPE_CHECKING:
    from dbanon.extensions.survey.risk_html import RiskView
    from dbanon.release.risk_figures import RiskRow

# Upper ends of the intervals in which individual risks are counted. They are the same for all
# files.
RISK_BORDERS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
RISK_EDGES = (0.0, *RISK_BORDERS)

# Two-way interactions underestimate the risk with fewer records per parameter, see ``log_linear``.
MIN_RECORDS_PER_PARAMETER = 50

NOT_FOR_PUBLICATION = "For the controller of the data, not for publication."

# What the individual risk is computed from, by its name in JSON.
WEIGHTS, FRACTION, POPULATION, CENSUS = "weights", "sampling_fraction", "population", "census"
_BASES = {
    WEIGHTS: "the design weights",
    FRACTION: "the sampling fraction",
    POPULATION: "the population table",
    CENSUS: "no weight: the records are taken as the entire population, so that the risk is that"
    " from someone who knows that a person is in the file",
}
_ESTIMATORS = {
    "pitman": "Pitman",
    "zayatz": "Zayatz",
    "slide_negative_binomial": "slide negative binomial",
}
_MODELS = {"main_effects": "main effects", "two_way": "two-way interactions"}


@dataclass(frozen=True)
class HouseholdRisk:
    """The risk that a member of a household is re-identified, for the records of a sample.

    Parameters
    ----------
    households : number of households, without records that have none.
    expected_reidentifications : the sum of the household risk over all records, in records.
    rate : that sum divided by the number of records, 0 to 1.
    highest : the largest household risk, 0 to 1.
    share_above : the share of records whose household risk is above the threshold, 0 to 1.
    """

    households: int
    expected_reidentifications: float
    rate: float
    highest: float
    share_above: float


@dataclass(frozen=True)
class LogLinearRisk:
    """The risk of sample uniques by a log-linear model.

    Parameters
    ----------
    model : ``main_effects`` or ``two_way``.
    expected_uniques : expected number of sample uniques that are unique in the population.
    standard_deviation : of that number, without the error of the fit.
    expected_matches : expected number of right matches if all sample uniques are matched.
    records_per_parameter : number of records per parameter of the model.
    """

    model: str
    expected_uniques: float
    standard_deviation: float
    expected_matches: float
    records_per_parameter: float

    @property
    def is_overfitted(self) -> bool:
        """Whether the model follows the sample's chance frequencies, and understates the risk."""
        has_few_records = self.records_per_parameter < MIN_RECORDS_PER_PARAMETER
        return self.model == "two_way" and has_few_records


@dataclass(frozen=True)
class PopulationMatch:
    """How many persons of a population table match the records, and how sure their presence is.

    Parameters
    ----------
    persons : number of persons in the population table.
    k_map : number of persons that match the rarest record; 0 if a record has no match.
    unmatched : number of records without a match.
    below : number of records that match fewer persons than 1 / threshold.
    lowest_presence, highest_presence : smallest and largest probability that a person of the
        population is in the sample, 0 to 1.
    """

    persons: int
    k_map: int
    unmatched: int
    below: int
    lowest_presence: float
    highest_presence: float


@dataclass(frozen=True)
class SudaSummary:
    """Minimal sample uniques: the smallest sets of columns that single out records.

    Parameters
    ----------
    max_size : the requested number of columns of the largest sets.
    searched_size : the number of columns of the largest sets that were searched.
    records : number of records with such a set.
    sets_by_size : number of such sets by their number of columns.
    highest_score : the largest SUDA score.
    highest_dis_score : the largest DIS-SUDA score, 0 to 1.
    above : number of records whose DIS-SUDA score is above the threshold.
    contributions : by column, the share of the sum of all scores from sets with it, 0 to 1.
    limit : what the search left out; None if it is complete.
    """

    max_size: int
    searched_size: int
    records: int
    sets_by_size: Mapping[int, int]
    highest_score: float
    highest_dis_score: float
    above: int
    contributions: Mapping[str, float]
    limit: str | None

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            **{name: value for name, value in vars(self).items() if name != "sets_by_size"},
            "sets_by_size": {str(size): count for size, count in self.sets_by_size.items()},
            "contributions": dict(self.contributions),
        }


@dataclass(frozen=True, repr=False)
class SampleRisk(LabelledText):
    """The disclosure risk of a sample.

    Parameters
    ----------
    source : the name of the table.
    records : number of records.
    quasi_identifiers : the columns that others may know.
    basis : what the individual risk is computed from: ``weights``, ``sampling_fraction``,
        ``population`` or ``census``.
    missing : ``category`` if NULL is a value of its own, ``wildcard`` if it equals every value.
    incomplete : number of records with NULL in a quasi-identifier.
    population_size : number of persons in the population; None if it is not known.
    sample_uniques : number of records that no other record matches.
    classes : number of combinations of values, with NULL as a value.
    total : the sum and the mean of all individual risks.
    highest : the largest individual risk, above 0 and up to 1.
    distribution : number of records by the upper end of the interval of their individual risk.
    prosecutor, journalist : the risk from someone who knows that a person is in the sample, and
        from someone who does not.
    marketer : expected share of right links if all records are linked, above 0 and up to 1.
    household : None without a column of households.
    uniqueness : estimated uniques in the population; None if its size is not known or not larger
        than the sample.
    log_linear : risk of sample uniques by a log-linear model; None like ``uniqueness``.
    population : comparison with a population table; None without one.
    suda : minimal sample uniques; None unless requested.
    notes : what limits the figures.
    """

    source: str
    records: int
    quasi_identifiers: tuple[str, ...]
    basis: str
    missing: str
    incomplete: int
    population_size: float | None
    sample_uniques: int
    classes: int
    total: GlobalRisk
    highest: float
    distribution: Mapping[float, int]
    prosecutor: AttackerRisk
    journalist: AttackerRisk
    marketer: float
    household: HouseholdRisk | None = None
    uniqueness: PopulationUniques | None = None
    log_linear: LogLinearRisk | None = None
    population: PopulationMatch | None = None
    suda: SudaSummary | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> JsonObject:
        """The figures as plain values, for JSON."""
        uniqueness = self.uniqueness
        return {
            "source": self.source,
            "records": self.records,
            "quasi_identifiers": list(self.quasi_identifiers),
            "basis": self.basis,
            "missing": self.missing,
            "incomplete": self.incomplete,
            "population_size": self.population_size,
            "sample_uniques": self.sample_uniques,
            "classes": self.classes,
            "individual": {
                **asdict(self.total),
                "highest": self.highest,
                "distribution": [
                    {"up_to": border, "records": count}
                    for border, count in self.distribution.items()
                ],
            },
            "household": self.household and asdict(self.household),
            "prosecutor": asdict(self.prosecutor),
            "journalist": asdict(self.journalist),
            "marketer": self.marketer,
            "uniqueness": uniqueness
            and {
                "uniques": uniqueness.uniques,
                "share": uniqueness.share,
                "selected": uniqueness.selected,
                "estimates": dict(uniqueness.estimates),
            },
            "log_linear": self.log_linear and asdict(self.log_linear),
            "population": self.population and asdict(self.population),
            "suda": self.suda and self.suda.to_dict(),
            "notes": list(self.notes),
        }

    def measure_rows(self) -> Iterator[RiskRow]:
        """Yield the figures as rows: measure, column, figure and note."""
        yield "records", None, self.records, None
        yield "sample_uniques", None, self.sample_uniques, None
        yield "classes", None, self.classes, None
        yield "population_size", None, self.population_size, None
        yield (
            "expected_reidentifications",
            None,
            self.total.expected_reidentifications,
            _BASES[self.basis],
        )
        yield "global_risk", None, self.total.rate, None
        yield "highest_individual_risk", None, self.highest, None
        for label, count in self.describe_distribution():
            yield "records_with_individual_risk", None, count, label
        household = self.household
        if household is not None:
            yield "households", None, household.households, None
            yield "household_reidentifications", None, household.expected_reidentifications, None
            yield "household_risk", None, household.rate, None
            yield "highest_household_risk", None, household.highest, None
        for name, risk in (("prosecutor", self.prosecutor), ("journalist", self.journalist)):
            yield f"{name}_risk", None, risk.highest, "the record most at risk"
            yield f"{name}_average", None, risk.average, None
            yield f"{name}_above", None, risk.share_above, f"share above {risk.threshold:g}"
        yield "marketer_risk", None, self.marketer, None
        yield from self._population_rows()
        if self.suda is not None:
            yield "suda_records", None, self.suda.records, self.suda.limit
            yield "highest_suda_score", None, self.suda.highest_score, None
            yield "highest_dis_suda_score", None, self.suda.highest_dis_score, None
            for name, share in self.suda.contributions.items():
                yield "suda_contribution", name, share, None
        for note in (*self.notes, NOT_FOR_PUBLICATION):
            yield "note", None, None, note

    def _population_rows(self) -> Iterator[RiskRow]:
        """Yield the figures about the population."""
        if self.uniqueness is not None:
            for name, estimate in self.uniqueness.estimates.items():
                is_selected = name == self.uniqueness.selected
                note = "no solution" if estimate is None else "selected" if is_selected else None
                yield f"population_uniques_{name}", None, estimate, note
        if self.log_linear is not None:
            note = _MODELS[self.log_linear.model]
            yield "log_linear_uniques", None, self.log_linear.expected_uniques, note
            yield "log_linear_matches", None, self.log_linear.expected_matches, note
        match = self.population
        if match is not None:
            yield "k_map", None, match.k_map, None
            yield "records_without_person", None, match.unmatched, None
            yield "lowest_presence", None, match.lowest_presence, None
            yield "highest_presence", None, match.highest_presence, None

    def describe_distribution(self) -> list[tuple[str, int]]:
        """The intervals of individual risk as text, with their numbers of records."""
        return [
            (f"above {low:g}, up to {border:g}", count)
            for low, (border, count) in zip(RISK_EDGES, self.distribution.items(), strict=False)
        ]

    def describe_basis(self) -> str:
        """The table, and what its individual risk is computed from, as text."""
        return f"{self.source}, {pluralize(self.records, 'record')}, by {_BASES[self.basis]}"

    def pairs(self) -> list[tuple[str, str]]:
        """The figures as pairs of label and text."""
        return [
            ("table", f"{self.source}, {pluralize(self.records, 'record')}"),
            ("columns", ", ".join(self.quasi_identifiers)),
            *self._record_pairs(),
            *self._attacker_pairs(),
            *self._population_pairs(),
            *self._suda_pairs(),
            *(("note", note) for note in self.notes),
            ("use", NOT_FOR_PUBLICATION),
        ]

    def _record_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs about individual and household risk."""
        share = _percent(self.sample_uniques / self.records)
        yield (
            "sample uniques",
            f"{pluralize(self.sample_uniques, 'record')} ({share}), {self.classes} combinations",
        )
        yield "individual risk", f"by {_BASES[self.basis]}"
        yield "global risk", _describe_sum(self.total.expected_reidentifications, self.total.rate)
        yield "highest", f"{self.highest:.4g}"
        for label, count in self.describe_distribution():
            if count:
                yield label, f"{pluralize(count, 'record')} ({_percent(count / self.records)})"
        household = self.household
        if household is not None:
            sums = _describe_sum(household.expected_reidentifications, household.rate)
            yield (
                "household risk",
                f"{sums}, highest {household.highest:.4g},"
                f" {_percent(household.share_above)} of the records above the threshold,"
                f" {pluralize(household.households, 'household')}",
            )

    def _attacker_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs about attackers."""
        for name, risk in (("prosecutor", self.prosecutor), ("journalist", self.journalist)):
            yield (
                name,
                f"highest {risk.highest:.4g}, average {risk.average:.4g},"
                f" {_percent(risk.share_above)} of the records above {risk.threshold:g}",
            )
        yield "marketer", f"{_percent(self.marketer)} of the links are right"

    def _population_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs about the population."""
        if self.uniqueness is not None:
            estimates = "; ".join(
                f"{_ESTIMATORS[name]} {'no solution' if value is None else f'{value:.1f}'}"
                for name, value in self.uniqueness.estimates.items()
            )
            yield (
                "unique persons",
                f"{self.uniqueness.uniques:.1f} of {self.uniqueness.population_size:.0f} in the"
                f" population, by {_ESTIMATORS[self.uniqueness.selected]} ({estimates})",
            )
        model = self.log_linear
        if model is not None:
            yield (
                "log-linear model",
                f"{model.expected_uniques:.4g} of the sample uniques are unique in the population"
                f" (standard deviation {model.standard_deviation:.2g}),"
                f" {model.expected_matches:.4g} right matches expected; {_MODELS[model.model]},"
                f" {model.records_per_parameter:.3g} records per parameter",
            )
        match = self.population
        if match is not None:
            yield (
                "population table",
                f"{pluralize(match.persons, 'person')}; k-map {match.k_map},"
                f" {pluralize(match.unmatched, 'record')} without a match,"
                f" {match.below} below the threshold; presence {match.lowest_presence:.4g} to"
                f" {match.highest_presence:.4g}",
            )

    def _suda_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs about minimal sample uniques."""
        suda = self.suda
        if suda is None:
            return
        sizes = ", ".join(
            f"{count} of {pluralize(size, 'column')}" for size, count in suda.sets_by_size.items()
        )
        yield (
            "SUDA",
            f"{pluralize(suda.records, 'record')} with a minimal sample unique"
            f" ({sizes or 'none'}); highest DIS-SUDA score {suda.highest_dis_score:.4g},"
            f" {pluralize(suda.above, 'record')} above the threshold",
        )
        for name, share in suda.contributions.items():
            yield f"SUDA: {name}", f"{_percent(share)} of all scores"
        if suda.limit is not None:
            yield "SUDA", suda.limit

    def describe_headline(self) -> list[tuple[str, str]]:
        """Label and text of the most important figures."""
        return [
            ("expected re-identifications", f"{self.total.expected_reidentifications:,.2f}"),
            ("highest individual risk", f"{self.highest:.4g}"),
            ("sample uniques", f"{self.sample_uniques:,}"),
        ]

    def count_by_interval(self, name: str) -> tuple[str, list[int], int]:
        """Name, numbers of records by interval of individual risk, and number of all records."""
        return name, list(self.distribution.values()), self.records

    def view(self) -> RiskView:
        """What cards and pages show."""
        # Import only when displayed, to keep database backends small.
        from dbanon.extensions.survey.risk_html import RiskView

        return RiskView(
            kind="disclosure risk",
            title=self.source,
            use=NOT_FOR_PUBLICATION,
            headline=[(label, text, "") for label, text in self.describe_headline()],
            edges=RISK_EDGES,
            series=[self.count_by_interval("share of records")],
            notes=self.notes,
            figures=(),
            pairs=self.pairs(),
        )

    def _repr_html_(self) -> str:
        """Return the card for notebooks."""
        from dbanon.extensions.survey.risk_html import render_risk_card

        return render_risk_card(self.view())


def _describe_sum(expected: float, rate: float) -> str:
    """Describe a sum of risks."""
    return f"{expected:.6g} expected re-identifications, {_percent(rate)} of the records"


def _percent(share: float) -> str:
    """Format a share of 0 to 1."""
    return f"{100 * share:.3g} %"
