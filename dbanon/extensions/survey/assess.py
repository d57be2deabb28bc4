"""Assess the disclosure risk of a sample: all measures of this extension, in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter, TooFewRecords, pluralize
from dbanon.extensions.survey.attacker_risk import (
    measure_journalist_risk,
    measure_marketer_risk,
    measure_prosecutor_risk,
)
from dbanon.extensions.survey.frequencies import (
    Frequencies,
    Missing,
    count_class_sizes,
    count_frequencies,
    require_codes,
)
from dbanon.extensions.survey.household_risk import compute_household_risks
from dbanon.extensions.survey.individual_risk import (
    RiskMethod,
    compute_global_risk,
    compute_individual_risks,
)
from dbanon.extensions.survey.k_map import KMap, measure_k_map, measure_presence
from dbanon.extensions.survey.log_linear import Model, assess_sample_uniques
from dbanon.extensions.survey.population_uniqueness import estimate_population_uniques
from dbanon.extensions.survey.request import RiskRequest
from dbanon.extensions.survey.sample_risk import (
    CENSUS,
    FRACTION,
    MIN_RECORDS_PER_PARAMETER,
    POPULATION,
    RISK_BORDERS,
    WEIGHTS,
    HouseholdRisk,
    LogLinearRisk,
    PopulationMatch,
    SampleRisk,
    SudaSummary,
)
from dbanon.extensions.survey.suda import SudaRisk, measure_suda
from dbanon.measures.agreement import MISSING_CODE, Codes, Floats, Ints
from dbanon.measures.figure import Tick, ignore_progress

# Larger numbers of persons are not exact as float64.
_MAX_PERSONS = 2**53


@dataclass(frozen=True, eq=False)
class Sample:
    """The records of a sample, with coded columns.

    Parameters
    ----------
    source : the name of the table.
    codes : int32 (n, m), the codes of the quasi-identifiers, from 0; -1 for NULL.
    weights : float64 (n,), the number of persons that each record stands for; None if unknown.
    households : int32 (n,), the household of each record, from 0; -1 if it has none. None without a
        column of households.
    population : int32 (N, m), the same columns of the rows of the population table, with the same
        codes; None without such a table.
    population_counts : float64 (N,), the number of persons that each of these rows stands for; None
        if each is a person.
    """

    source: str
    codes: Codes
    weights: Floats | None = None
    households: NDArray[np.int32] | None = None
    population: Codes | None = None
    population_counts: Floats | None = None

    @property
    def n_persons(self) -> int:
        """Number of persons in the population table; 0 without one."""
        if self.population_counts is not None:
            return round(float(self.population_counts.sum()))
        return 0 if self.population is None else len(self.population)


@dataclass(frozen=True, eq=False)
class RecordRisks:
    """The risk of each record. For a private list of the owner only.

    Parameters
    ----------
    individual : float64 (n,), the individual risk, above 0 and up to 1.
    sample : int64 (n,), number of records with the same values.
    household : float64 (n,), the household risk, 0 to 1; None without households.
    suda : the minimal sample uniques; None unless requested.
    drops : float64 (n, m), how much lower the individual risk would be without each column.
    """

    individual: Floats
    sample: Ints
    household: Floats | None
    suda: SudaRisk | None
    drops: Floats | None


def assess_sample(
    sample: Sample,
    request: RiskRequest,
    *,
    with_records: bool = False,
    tick: Tick = ignore_progress,
) -> tuple[SampleRisk, RecordRisks]:
    """Measure the disclosure risk of a sample, and of its records.

    Parameters
    ----------
    sample : the records.
    request : the options; names of columns are in the order of the codes.
    with_records : whether to measure ``RecordRisks.drops``, which counts once for each column.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    TooFewRecords : there are no records.
    InvalidParameter : a weight is not a number above 0, the population is too large to be counted,
        or two-way interactions have too many cells.
    """
    codes, n = sample.codes, len(sample.codes)
    if not n:
        raise TooFewRecords(f"{sample.source} has no rows.")
    require_codes(codes)
    _require_countable_population(sample, request)
    assessment = _Assessment(sample, request)
    frequencies, risks = assessment.measure(list(range(codes.shape[1])))
    tick(0.2)
    household_risks = None
    if sample.households is not None:
        household_risks = compute_household_risks(risks, sample.households.astype(np.int64))
    suda = _search_suda(codes, request, tick) if request.suda else None
    tick(0.8)
    drops = assessment.measure_drops(risks) if with_records else None
    log_linear = assessment.fit_log_linear()
    journalist_frequencies = frequencies
    if assessment.k_map is not None:
        journalist_frequencies = Frequencies(
            frequencies.sample, assessment.k_map.frequencies.astype(np.float64)
        )
    result = SampleRisk(
        source=sample.source,
        records=n,
        quasi_identifiers=request.quasi_identifiers,
        basis=assessment.basis,
        missing=request.missing,
        incomplete=assessment.incomplete,
        population_size=assessment.population_size,
        sample_uniques=int((frequencies.sample == 1).sum()),
        classes=len(assessment.class_sizes),
        total=compute_global_risk(risks),
        highest=float(risks.max()),
        distribution=_count_risks(risks),
        prosecutor=measure_prosecutor_risk(frequencies, threshold=request.threshold),
        journalist=measure_journalist_risk(journalist_frequencies, threshold=request.threshold),
        marketer=measure_marketer_risk(frequencies),
        household=_summarize_households(sample, household_risks, request.threshold),
        uniqueness=None
        if assessment.larger_population is None
        else estimate_population_uniques(assessment.class_sizes, assessment.larger_population),
        log_linear=log_linear,
        population=assessment.match_population(),
        suda=_summarize_suda(suda, request),
        notes=tuple(assessment.list_notes(log_linear)),
    )
    tick(1.0)
    return result, RecordRisks(risks, frequencies.sample, household_risks, suda, drops)


class _Assessment:
    """A sample, and its population as far as it is known.

    Attributes
    ----------
    basis : what the individual risk is computed from, see ``SampleRisk``.
    population_size : number of persons in the population; None if it is not known.
    incomplete : number of records with NULL in a quasi-identifier.
    class_sizes : int64 (c,), number of records with each combination of values.
    k_map : number of persons that match each record; None without a population table.
    """

    def __init__(self, sample: Sample, request: RiskRequest) -> None:
        self._sample, self._request = sample, request
        self._missing: Missing = "wildcard" if request.missing == "wildcard" else "category"
        self.incomplete = int((sample.codes == MISSING_CODE).any(axis=1).sum())
        self.class_sizes = count_class_sizes(sample.codes)
        self.k_map: KMap | None = None
        if sample.population is not None:
            self.k_map = measure_k_map(
                sample.codes, sample.population, sample.population_counts, missing=self._missing
            )
        n = len(sample.codes)
        self.basis, self.population_size = CENSUS, None
        self._weights: Floats | None = None
        if sample.population is not None:
            self.basis, self.population_size = POPULATION, float(sample.n_persons)
        if request.sampling_fraction is not None:
            self.population_size = n / request.sampling_fraction
            if sample.population is None:
                self.basis = FRACTION
                self._weights = np.full(n, 1 / request.sampling_fraction)
        if sample.weights is not None:
            self.basis, self._weights = WEIGHTS, sample.weights
            if request.sampling_fraction is None:
                self.population_size = float(sample.weights.sum())

    @property
    def larger_population(self) -> float | None:
        """The number of persons in the population, if there are others than those of the sample."""
        n = len(self._sample.codes)
        size = self.population_size
        # Weights that are scaled to a mean of 1 add up to about n, because of rounding.
        return None if size is None or size <= n * (1 + 1e-9) else size

    def measure(self, columns: list[int]) -> tuple[Frequencies, Floats]:
        """Count frequencies by some of the columns, and compute the individual risks."""
        codes = _select_columns(self._sample.codes, columns)
        frequencies = count_frequencies(codes, self._weights, missing=self._missing)
        if self.basis == POPULATION and self._sample.population is not None:
            population = _select_columns(self._sample.population, columns)
            counts = self._sample.population_counts
            persons = measure_k_map(codes, population, counts, missing=self._missing).frequencies
            # The numbers of persons are known, so that nothing is to be estimated.
            return frequencies, 1 / np.maximum(persons, frequencies.sample)
        method: RiskMethod = "approximate" if self._request.risk_method != "exact" else "exact"
        return frequencies, compute_individual_risks(frequencies, method=method)

    def measure_drops(self, risks: Floats) -> Floats:
        """Measure how much lower each individual risk is without each column, float64 (n, m)."""
        n_columns = self._sample.codes.shape[1]
        drops = np.empty((len(risks), n_columns))
        for column in range(n_columns):
            others = [other for other in range(n_columns) if other != column]
            drops[:, column] = risks - self.measure(others)[1]
        return np.maximum(drops, 0.0)

    def fit_log_linear(self) -> LogLinearRisk | None:
        """Fit the log-linear model; None if the population is not larger than the sample."""
        if self.larger_population is None:
            return None
        model: Model = "two_way" if self._request.log_linear == "two_way" else "main_effects"
        uniques = assess_sample_uniques(self._sample.codes, self.larger_population, model=model)
        return LogLinearRisk(
            model=model,
            expected_uniques=uniques.expected_population_uniques,
            standard_deviation=uniques.standard_deviation,
            expected_matches=uniques.expected_matches,
            records_per_parameter=uniques.records_per_parameter,
        )

    def match_population(self) -> PopulationMatch | None:
        """Compare the records with the population table; None without one."""
        if self.k_map is None or self._sample.population is None:
            return None
        presence = measure_presence(
            self._sample.codes,
            self._sample.population,
            self.k_map,
            missing=self._missing,
        )
        threshold = self._request.threshold
        return PopulationMatch(
            persons=self._sample.n_persons,
            k_map=self.k_map.k,
            unmatched=self.k_map.n_unmatched,
            below=self.k_map.count_below(math.ceil(1 / threshold))
            if threshold
            else len(self._sample.codes),
            lowest_presence=presence.lowest,
            highest_presence=presence.highest,
        )

    def list_notes(self, log_linear: LogLinearRisk | None) -> list[str]:
        """Say what limits the figures."""
        notes = []
        n = len(self._sample.codes)
        if self.incomplete:
            is_wildcard = self._missing == "wildcard"
            meaning = "equals every value" if is_wildcard else "is a value of its own"
            notes.append(
                f"{pluralize(self.incomplete, 'record')} with NULL: it {meaning}; in combinations"
                " and for unique persons it is a value of its own, and SUDA leaves it out"
            )
        for name, column in zip(self._request.quasi_identifiers, self._sample.codes.T, strict=True):
            if n > 1 and len(np.unique(column)) == n:
                notes.append(
                    f'Column "{name}" has another value in each record, so that it singles out all'
                    " of them: give it in bands, or leave it out if nobody can know it"
                )
        if self._sample.weights is not None and self.larger_population is None:
            notes.append(
                f"the population of {self.population_size:.0f} persons is not larger than the"
                f" {pluralize(n, 'record')}, so the sample hides nobody. If the weights are scaled"
                " to a mean of 1, give the original ones"
            )
        if self.k_map is not None and self.k_map.n_unmatched:
            notes.append(
                f"{pluralize(self.k_map.n_unmatched, 'record')} without a person in the population"
                " table: compare how both tables write their values"
            )
        if log_linear is not None and log_linear.is_overfitted:
            notes.append(
                "two-way interactions underestimate the risk with fewer than about"
                f" {MIN_RECORDS_PER_PARAMETER} records per parameter"
            )
        return notes


def _require_countable_population(sample: Sample, request: RiskRequest) -> None:
    """Check that the persons of the population can be counted without rounding.

    Raises
    ------
    InvalidParameter : the population is too large.
    """
    fraction = request.sampling_fraction
    # Sums and quotients that overflow are infinite.
    with np.errstate(over="ignore"):
        sizes = {
            "The weights stand for": None if sample.weights is None else sample.weights.sum(),
            "The rows of the population table stand for": None
            if sample.population_counts is None
            else sample.population_counts.sum(),
            "The sampling fraction gives": None
            if fraction is None
            else len(sample.codes) / fraction,
        }
    for subject, size in sizes.items():
        if size is not None and size > _MAX_PERSONS:
            raise InvalidParameter(
                f"{subject} more than {_MAX_PERSONS} persons.",
                hint="Give numbers of persons (`weight`, `population_count`), or the share of them"
                " that is in the sample (`sampling_fraction`).",
            )


def _select_columns(codes: Codes, columns: list[int]) -> Codes:
    """Select columns of codes; without any, all records match: int32 (n, 1) of zeros."""
    return (
        np.ascontiguousarray(codes[:, columns]) if columns else np.zeros((len(codes), 1), np.int32)
    )


def _count_risks(risks: Floats) -> dict[float, int]:
    """Count the records by the upper end of the interval of their risk."""
    # Rounding must not move a risk above 1.
    positions = np.searchsorted(RISK_BORDERS, np.minimum(risks, 1.0), side="left")
    counts = np.bincount(positions, minlength=len(RISK_BORDERS))
    return dict(zip(RISK_BORDERS, counts.tolist(), strict=True))


def _summarize_households(
    sample: Sample, risks: Floats | None, threshold: float
) -> HouseholdRisk | None:
    """Summarize the household risks of all records, float64 (n,); None without households."""
    if risks is None or sample.households is None:
        return None
    total = compute_global_risk(risks)
    households = np.unique(sample.households[sample.households != MISSING_CODE])
    return HouseholdRisk(
        households=len(households),
        expected_reidentifications=total.expected_reidentifications,
        rate=total.rate,
        highest=float(risks.max()),
        share_above=float((risks > threshold).mean()),
    )


def _search_suda(codes: Codes, request: RiskRequest, tick: Tick) -> SudaRisk:
    """Search for minimal sample uniques."""
    return measure_suda(
        codes,
        max_size=request.suda_size,
        seconds=request.suda_seconds,
        dis_fraction=request.dis_fraction,
        tick=lambda share: tick(0.2 + 0.6 * share),
    )


def _summarize_suda(suda: SudaRisk | None, request: RiskRequest) -> SudaSummary | None:
    """Summarize minimal sample uniques; None if there was no search."""
    if suda is None:
        return None
    counts = np.bincount(suda.msu_sizes, minlength=1)
    return SudaSummary(
        max_size=suda.max_size,
        searched_size=suda.searched_size,
        records=int((suda.scores > 0).sum()),
        sets_by_size={int(size): int(counts[size]) for size in np.flatnonzero(counts)},
        highest_score=float(suda.scores.max(initial=0.0)),
        highest_dis_score=float(suda.dis_scores.max(initial=0.0)),
        above=int((suda.dis_scores > request.threshold).sum()),
        contributions=dict(
            zip(request.quasi_identifiers, suda.key_contributions().tolist(), strict=True)
        ),
        limit=suda.describe_limit(),
    )
