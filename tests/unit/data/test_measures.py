"""Measures of a table: what each function measured by itself before, small, frozen, portable."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import CodedColumn, Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import STANDARDIZATIONS, Scale, Standardization, compute_whitening
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import resolve_hierarchies
from dbanon.measures import iloss
from dbanon.spaces.mixed import ROOT_COST, mixed_space
from dbanon.spaces.numeric import numeric_space
from tests.reference import measures as reference

ORDER = ("none", "low", "middle", "high")
ATTRIBUTES = (
    Attribute("count", Kind.INTEGER),
    Attribute("size", Kind.FLOAT),
    Attribute("grade", Kind.ORDINAL, order=ORDER),
    Attribute("money", Kind.DECIMAL, scale=2),
    Attribute("place", Kind.CATEGORY),
)
NUMBERS = ATTRIBUTES[:4]


@st.composite
def tables(draw, attributes=ATTRIBUTES, holes=True):
    """Numbers of all sizes, ranks, categories; columns that are constant, or all NULL."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    small = rng.integers(-9, 9, n).astype(float)
    numbers = {
        "count": draw(st.sampled_from([small, small * 2.0**60, small + 2.0**55, np.full(n, 7.0)])),
        "size": draw(
            st.sampled_from([rng.normal(size=n), rng.normal(size=n) * 1e300, small * 5e-324, small])
        ),
        "money": rng.integers(0, 500, n) / 100,
    }
    names = [a.name for a in attributes]
    valid = rng.random((n, len(attributes))) < draw(st.sampled_from([0.5, 0.9, 1.0]))
    if draw(st.booleans()):
        valid[:, int(rng.integers(len(attributes)))] = False
    if not holes:
        valid[:] = True
    coded = {
        "grade": (rng.integers(0, 4, n).astype(np.int32), sorted(ORDER)),
        "place": (rng.integers(0, 3, n).astype(np.int32), ["Bonn", "Kiel", "Ulm"]),
    }
    codes = np.empty((n, 0), np.int32)
    categories = []
    for name, (values, dictionary) in coded.items():
        if name in names:
            column = np.where(valid[:, names.index(name)], values, -1).astype(np.int32)
            codes = np.column_stack([codes, column])
            categories.append(dictionary)
    chunk = Chunk(
        np.arange(n, dtype=np.int64).reshape(-1, 1),
        np.column_stack([numbers[name] for name in names if name in numbers]),
        codes,
        valid,
        frozenset({"count"}) if np.abs(numbers["count"]).max() > 2**53 else frozenset(),
    )
    return microdata_from_chunks(attributes, [chunk], categories=categories)


@given(tables())
@settings(max_examples=200, deadline=None)
def test_scales_are_what_spaces_measured(microdata: Microdata) -> None:
    column_statistics = ColumnStatistics.of(microdata)
    valid = microdata.numeric_valid()
    scales = [column_statistics.scales[a.name] for a in microdata.numeric]
    for how in STANDARDIZATIONS:
        standardization = Standardization.of(scales, how)
        exponent, shift, scale, points = reference.standardized(microdata.numbers, how, valid)
        np.testing.assert_array_equal(standardization.exponent, exponent)
        np.testing.assert_array_equal(standardization.shift, shift)
        np.testing.assert_array_equal(standardization.scale, scale)
        np.testing.assert_array_equal(standardization.apply(microdata.numbers), points)


@given(tables(), st.data())
@settings(max_examples=200, deadline=None)
def test_costs_are_those_of_the_ranges_and_weights(
    microdata: Microdata, data: st.DataObject
) -> None:
    column_statistics = ColumnStatistics.of(microdata)
    weights = {"count": data.draw(st.sampled_from([1.0, 2.0, 0.5]))}
    space = mixed_space(
        microdata, column_statistics, standardize="zscore", weights=weights, hierarchies={}
    )(np.arange(microdata.n_records))
    for position, attribute in enumerate(NUMBERS):
        values = microdata.numbers[:, microdata.numeric.index(microdata.attributes[position])]
        valid = microdata.valid_column(attribute.name)
        np.testing.assert_array_equal(
            space.codes[:, position],
            reference.steps(values, valid, int(space.root_costs[position])),
        )
    assert space.root_costs.max() == ROOT_COST


@given(tables(NUMBERS), st.floats(0.5, 4))
@settings(max_examples=100, deadline=None)
def test_points_are_weighted_z_scores_and_null_is_zero(microdata: Microdata, weight: float) -> None:
    space = numeric_space(
        microdata,
        ColumnStatistics.of(microdata),
        standardize="zscore",
        weights={"size": weight},
        hierarchies={},
    )(np.arange(microdata.n_records))
    valid = microdata.numeric_valid()
    points = reference.standardized(microdata.numbers, "zscore", valid)[3]
    points[:, 1] *= np.sqrt(weight)
    if valid is not None:
        points[~valid] = 0.0
    np.testing.assert_array_equal(space.points, points)


@given(tables(NUMBERS))
@settings(max_examples=100, deadline=None)
def test_each_pattern_of_nulls_has_the_covariance_of_all_that_hold_it(microdata: Microdata) -> None:
    column_statistics = ColumnStatistics.of(microdata, covariance=True)
    valid = microdata.numeric_valid()
    points = reference.standardized(microdata.numbers, "mahalanobis", valid)[3]
    full = np.ones((microdata.n_records, len(NUMBERS)), bool) if valid is None else valid
    for present in full:
        complete_points = np.where(present, points[full[:, present].all(axis=1)], 0.0)
        np.testing.assert_array_equal(
            column_statistics.whitening_of(present).factor,
            compute_whitening(complete_points).factor,
        )


@given(tables(), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_iloss_of_numbers_is_by_their_range(microdata: Microdata, size: int) -> None:
    column_statistics = ColumnStatistics.of(microdata)
    for column, attribute in enumerate(microdata.numeric):
        valid = microdata.valid_column(attribute.name)
        # No class has both kinds.
        kinds = np.zeros(microdata.n_records, int) if valid is None else ~valid * 1000
        numbers = np.where(kinds, 0.0, microdata.numbers[:, column])
        labels = np.unique(np.arange(len(numbers)) // size + kinds, return_inverse=True)[1]
        losses = iloss(numbers, column_statistics.scales[attribute.name], Partition(labels), valid)
        if np.isfinite(column_statistics.scales[attribute.name].spread):
            expected = reference.range_loss(numbers, Partition(labels), valid)
            assert losses == pytest.approx(expected, rel=1e-12)


@given(tables())
@settings(max_examples=100, deadline=None)
def test_dictionaries_are_the_values_with_their_counts(microdata: Microdata) -> None:
    column_statistics = ColumnStatistics.of(microdata)
    [tree] = resolve_hierarchies(microdata.attributes, {}, column_statistics)[4:]
    assert tree is not None
    assert set(column_statistics.categories) == {"place"}
    dictionary = column_statistics.categories["place"]
    assert dictionary.values == microdata.categories[0]
    codes = microdata.codes[:, 0]
    assert dictionary.counts.tolist() == [
        int((codes == c).sum()) for c in range(len(dictionary.values))
    ]
    assert tree.n_leaves == len(dictionary.values)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=40),
    st.integers(0, 2**32),
)
def test_distributions_are_what_models_measured(codes: list[int], seed: int) -> None:
    every = np.array(codes, np.int32)
    labels = np.random.default_rng(seed).integers(-1, 3, len(every))
    table = ValueFrequencies.of(every)
    for _ in range(2):
        places, shares, values = reference.released_shares(every, labels)
        left = table.after_withholding(every[labels < 0])
        np.testing.assert_array_equal(left.occurring_values().shares, shares)
        np.testing.assert_array_equal(
            left.occurring_positions[every[labels >= 0]], places[labels >= 0]
        )
        assert np.flatnonzero(left.counts).tolist() == values.tolist()
        labels[:1] = -1


def test_a_distribution_knows_leaves_without_records_and_texts() -> None:
    distribution = ValueFrequencies.of(np.array([1, 1, -1, 3], np.int32), ["a", "b", "c", "d"], 6)
    assert distribution.counts.tolist() == [0, 2, 0, 1, 0, 0]
    assert distribution.occurring_values().values == ("b", "d")
    assert distribution.shares.tolist() == [0, 2 / 3, 0, 1 / 3, 0, 0]
    assert ValueFrequencies.of(np.empty(0, np.int32)).shares.tolist() == []


def test_nothing_and_one_value_have_a_scale() -> None:
    assert Scale.of(np.empty(0)) == Scale()
    assert Scale().is_constant
    smallest_scale = Scale.of(np.array([5e-324]))
    assert (
        smallest_scale.is_constant,
        smallest_scale.deviation,
        smallest_scale.spread,
        smallest_scale.is_integral,
    ) == (True, 0.0, 0.0, False)
    same = Scale.of(np.full(9, 0.1))
    assert (same.is_constant, same.deviation, same.count) == (True, 0.0, 9)


@pytest.fixture(scope="module")
def many() -> Microdata:
    rng = np.random.default_rng(0)
    n = 100_000
    attributes = (*ATTRIBUTES[:2], ATTRIBUTES[4])
    chunk = Chunk(
        np.arange(n, dtype=np.int64).reshape(-1, 1),
        rng.normal(size=(n, 2)),
        rng.integers(0, 3, (n, 1)).astype(np.int32),
    )
    return microdata_from_chunks(attributes, [chunk], categories=[["Bonn", "Kiel", "Ulm"]])


def test_measures_are_small_frozen_and_travel(many: Microdata) -> None:
    codes = np.arange(many.n_records, dtype=np.int32) % 7 - 1
    many = replace(many, sensitive={"ill": CodedColumn(codes, tuple("abcdef"))})
    column_statistics = ColumnStatistics.of(many, covariance=True)
    assert column_statistics.sensitive["ill"].counts.tolist() == np.bincount(codes % 7).tolist()
    packed = pickle.dumps(column_statistics)
    assert len(packed) < 4000
    back = pickle.loads(packed)
    assert back.scales == column_statistics.scales
    assert (
        back.categories["place"].counts.tolist()
        == column_statistics.categories["place"].counts.tolist()
    )
    assert (
        back.sensitive["ill"].shares.tolist() == column_statistics.sensitive["ill"].shares.tolist()
    )
    both = np.ones(2, bool)
    np.testing.assert_array_equal(
        back.whitening_of(both).factor, column_statistics.whitening_of(both).factor
    )
    with pytest.raises(AttributeError):
        column_statistics.scales = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        column_statistics.scales["count"] = Scale()  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        column_statistics.sensitive["ill"].counts[0] = 1


def test_measures_made_elsewhere_serve_as_well(many: Microdata) -> None:
    """From moments gathered in pieces: functions do not depend on their origin."""
    values = many.numbers[:, 0]
    count, mean = len(values), float(np.mean(values / 4))
    deviation = float(np.sqrt(np.sum(np.square(values / 4 - mean)) / (count - 1)))
    described_scale = Scale(
        count, float(values.min()), float(values.max()), 2 * mean, 2 * deviation, False
    )
    measured = Scale.of(values)
    assert described_scale.exponent == measured.exponent
    scale = 4.0 / 2.0**described_scale.exponent
    assert mean * scale == pytest.approx(measured.mean, rel=1e-9)
    assert deviation * scale == pytest.approx(measured.deviation, rel=1e-12)
    column_statistics = ColumnStatistics(
        scales={"count": measured, "size": Scale.of(many.numbers[:, 1])}
    )
    two_attributes = many.select_attributes(["count", "size"])
    space = numeric_space(
        two_attributes, column_statistics, standardize="zscore", weights={}, hierarchies={}
    )
    assert space(np.arange(10)).points.shape == (10, 2)


def test_mahalanobis_needs_a_covariance(many: Microdata) -> None:
    two_attributes = many.select_attributes(["count", "size"])
    space = numeric_space(
        two_attributes,
        ColumnStatistics.of(two_attributes),
        standardize="mahalanobis",
        weights={},
        hierarchies={},
    )
    with pytest.raises(InvalidParameter, match="covariance"):
        space(np.arange(10))
