"""Individual, household and attackers' risks equal their definitions and sdcMicro's figures."""

from __future__ import annotations

import csv
import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.attacker_risk import (
    measure_journalist_risk,
    measure_marketer_risk,
    measure_prosecutor_risk,
)
from dbanon.extensions.survey.frequencies import Frequencies, count_frequencies
from dbanon.extensions.survey.household_risk import compute_household_risks
from dbanon.extensions.survey.individual_risk import compute_global_risk, compute_individual_risks
from tests.prerequisites import import_or_skip, require_reference
from tests.reference import survey_risk as reference

KEYS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")


def frequencies_of(*pairs):
    sample, population = zip(*pairs, strict=True)
    return Frequencies(np.array(sample, np.int64), np.array(population, np.float64))


# --- the individual risk -------------------------------------------------------------------------


@pytest.mark.parametrize("f", [1, 2, 3, 5, 12, 19, 20, 21, 60, 400])
def test_the_risk_is_the_mean_over_the_negative_binomial(f):
    populations = [f * factor for factor in (1.0001, 1.1, 1.5, 1.99, 2.0, 2.01, 4.0, 50.0)]
    risks = compute_individual_risks(frequencies_of(*((f, size) for size in populations)))
    expected = [reference.individual_risk(f, size) for size in populations]
    assert risks == pytest.approx(expected, rel=1e-10)


def test_the_risk_is_that_of_the_hypergeometric_function():
    special = import_or_skip("scipy.special")
    rng = np.random.default_rng(1)
    f = rng.integers(1, 60, 2000)
    p = rng.uniform(0.02, 1, 2000)
    expected = p**f / f * special.hyp2f1(f, f, f + 1, 1 - p)
    risks = compute_individual_risks(Frequencies(f, f / p))
    assert risks == pytest.approx(expected, rel=1e-9)


def test_closed_forms():
    for population in (1.5, 3.0, 100.0, 1e6):
        p = 1 / population
        odds = p / (1 - p)
        risks = compute_individual_risks(frequencies_of((1, population), (2, 2 * population)))
        expected = [odds * math.log(1 / p), odds - odds**2 * math.log(1 / p)]
        assert risks == pytest.approx(expected, rel=1e-12)


@given(f=st.integers(1, 10**6), factor=st.floats(1, 1e6))
def test_the_risk_is_between_those_of_the_population_and_of_the_sample(f, factor):
    population = f * factor
    (risk,) = compute_individual_risks(frequencies_of((f, population)))
    # Jensen: E(1/F) is at least 1/E(F).
    assert 1 / population * (1 - 1e-12) <= risk <= 1 / f * (1 + 1e-12)


def test_the_risk_falls_with_the_population():
    populations = np.linspace(5, 500, 2000)
    for f in (1, 2, 5):
        frequencies = Frequencies(np.full(2000, f), populations)
        risks = compute_individual_risks(frequencies)
        assert (np.diff(risks) < 0).all()


@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_a_stratum_without_other_persons_has_the_risk_of_its_size(method):
    frequencies = frequencies_of((1, 1), (2, 2), (4, 4), (4, 3.5), (50, 50))
    risks = compute_individual_risks(frequencies, method=method)
    assert risks.tolist() == [1, 1 / 2, 1 / 4, 1 / 4, 1 / 50]


def test_the_approximation_differs_above_two_only():
    frequencies = frequencies_of((1, 10), (2, 20), (3, 30), (50, 500))
    exact = compute_individual_risks(frequencies)
    approximate = compute_individual_risks(frequencies, method="approximate")
    assert approximate[:2].tolist() == exact[:2].tolist()
    assert approximate[2:].tolist() == [0.1 / (3 - 0.9), 0.1 / (50 - 0.9)]
    assert approximate[2:] == pytest.approx(exact[2:], rel=0.08)


def test_wrong_frequencies_are_refused():
    with pytest.raises(InvalidParameter):
        compute_individual_risks(frequencies_of((0, 1)))
    with pytest.raises(InvalidParameter):
        compute_individual_risks(frequencies_of((1, math.nan)))
    with pytest.raises(InvalidParameter):
        compute_individual_risks(frequencies_of((1, 2)), method="fast")  # type: ignore[arg-type]


# --- files and households ------------------------------------------------------------------------


def test_the_global_risk_is_the_sum():
    risk = compute_global_risk(np.array([0.5, 0.25, 0.25, 0.0]))
    assert (risk.expected_reidentifications, risk.rate) == (1.0, 0.25)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0]), st.integers(-1, 4)), min_size=1
    )
)
def test_the_household_risk_is_that_of_its_members(members):
    risks = np.array([risk for risk, _ in members])
    households = np.array([household for _, household in members])
    expected = reference.household_risks(risks, households)
    assert compute_household_risks(risks, households) == pytest.approx(expected, abs=1e-15)


def test_wrong_households_and_risks_are_refused():
    risks = np.array([0.1, 0.2])
    for households in (np.array([0]), np.array([0.0, 1.0]), np.array([0, -2])):
        with pytest.raises(InvalidParameter):
            compute_household_risks(risks, households)
    with pytest.raises(InvalidParameter):
        compute_household_risks(np.array([0.1, 1.2]), np.array([0, 1]))
    with pytest.raises(InvalidParameter):
        compute_global_risk(np.zeros(0))


# --- attackers -----------------------------------------------------------------------------------


def test_attackers():
    codes = np.array([[0], [1], [1], [1], [1]], np.int32)
    frequencies = count_frequencies(codes, np.array([10.0, 5.0, 5.0, 5.0, 5.0]))
    prosecutor = measure_prosecutor_risk(frequencies)
    assert (prosecutor.highest, prosecutor.average, prosecutor.share_above) == (1.0, 0.4, 0.8 + 0.2)
    assert measure_prosecutor_risk(frequencies, threshold=0.25).share_above == 0.2
    journalist = measure_journalist_risk(frequencies, threshold=0.05)
    assert (journalist.highest, journalist.share_above) == (0.1, 0.2)
    assert journalist.average == pytest.approx((0.1 + 4 * 0.05) / 5)
    # Two classes of five records.
    assert measure_marketer_risk(frequencies) == pytest.approx(2 / 5)


def test_a_journalist_does_not_know_less_than_the_sample():
    codes = np.zeros((4, 1), np.int32)
    journalist = measure_journalist_risk(count_frequencies(codes, np.full(4, 0.5)))
    assert journalist.highest == 0.25


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_wrong_thresholds_are_refused(threshold):
    with pytest.raises(InvalidParameter):
        measure_prosecutor_risk(frequencies_of((1, 1)), threshold=threshold)


# --- sdcMicro ------------------------------------------------------------------------------------


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def test_each_record_has_the_risk_that_sdcmicro_computes():
    files = ("sdcmicro/testdata_full.csv", "sdcmicro/testdata_risk7.csv.gz")
    folder = require_reference(*files) / "sdcmicro"
    table, expected = (read(folder / name.partition("/")[2]) for name in files)
    codes = np.column_stack([np.unique(table[key], return_inverse=True)[1] for key in KEYS])
    frequencies = count_frequencies(
        codes.astype(np.int32), np.array(table["sampling_weight"], np.float64)
    )
    assert frequencies.sample.tolist() == np.array(expected["fk"], np.int64).tolist()
    assert frequencies.population.tolist() == np.array(expected["Fk"], np.float64).tolist()
    risks = compute_individual_risks(frequencies, method="approximate")
    # sdcMicro writes 15 digits.
    assert risks == pytest.approx(np.array(expected["risk"], np.float64), abs=1e-9)
    households = np.unique(table["ori_hid"], return_inverse=True)[1]
    household_risks = compute_household_risks(risks, households)
    assert household_risks == pytest.approx(np.array(expected["hier_risk"], np.float64), abs=1e-9)
    # The sums of the file's columns.
    assert compute_global_risk(risks).expected_reidentifications == pytest.approx(
        10.778299, abs=1e-6
    )
    assert compute_global_risk(household_risks).rate == pytest.approx(0.01131287, abs=1e-8)


def test_figures_of_sdcmicro_on_a_synthetic_survey():
    # The same formulas on a table of which all figures follow by hand: weights of 100.
    codes = np.array([[0]] + [[1]] * 2 + [[2]] * 5, np.int32)
    frequencies = count_frequencies(codes, np.full(8, 100.0))
    risks = compute_individual_risks(frequencies, method="approximate")
    odds = 0.01 / 0.99
    single, pair, five = odds * math.log(100), odds - odds**2 * math.log(100), 0.01 / (5 - 0.99)
    assert risks == pytest.approx([single] + [pair] * 2 + [five] * 5, rel=1e-12)
    households = np.array([0, 0, 1, 1, 2, 2, 2, 3])
    expected = [
        *[1 - (1 - single) * (1 - pair)] * 2,
        *[1 - (1 - pair) * (1 - five)] * 2,
        *[1 - (1 - five) ** 3] * 3,
        five,
    ]
    assert compute_household_risks(risks, households) == pytest.approx(expected, rel=1e-12)


def test_wildcards_are_those_of_sdcmicros_local_suppression():
    # kAnon(k = 3) blanks cells until each record matches three, missing values being wildcards.
    name = "sdcmicro/testdata_kanon7_k3.csv.gz"
    table = read(require_reference(name) / name)
    columns = [np.array(table[key]) for key in KEYS]
    is_missing = np.column_stack([np.isin(column, ["", "NA"]) for column in columns])
    assert is_missing.sum() == 293
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
    codes = np.where(is_missing, -1, codes).astype(np.int32)
    assert count_frequencies(codes).sample.min() == 3
    # By other definitions it would not be 3-anonymous.
    assert count_frequencies(codes, missing="category").sample.min() == 1
