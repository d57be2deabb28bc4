"""DCMDP as published: its figure 1, and the counterexamples to its proof."""

from __future__ import annotations

import numpy as np
import pytest

import dbanon
from dbanon.errors import (
    InvalidParameter,
    NotDifferentiallyPrivate,
    TooFewRecords,
    UnknownMethod,
    UnknownOption,
    UnsupportedType,
)
from dbanon.extensions.synthesis.dcmdp import (
    cluster_with_dbscan,
    compute_centroids,
    compute_noise_factor,
    dcmdp,
)
from tests.prerequisites import require_reference
from tests.reference.data import MAGIC_FILE, load_magic
from tests.reference.synthesis import CHAIN, EIGHT, EPSILONS, FIGURE_1, score
from tests.reference.variable import dbscan
from tests.synthetic_data import magic_like

PUBLISHED = {"method": "dcmdp", "k": 3, "epsilon": 1.0, "guarantee": "as_published"}


def test_it_is_refused_unless_asked_for_as_what_it_is():
    with pytest.raises(InvalidParameter, match="not differentially private") as refused:
        dbanon.synthesize(EIGHT, method="dcmdp", k=3, epsilon=1.0)
    assert "as_published" in refused.value.hint
    with pytest.warns(NotDifferentiallyPrivate, match="nothing is guaranteed"):
        synthetic = dbanon.synthesize(EIGHT, **PUBLISHED)
    assert synthetic.guarantee.startswith("none: ")
    assert "not k-anonymous" in synthetic.guarantee
    assert (synthetic.n_rows, synthetic.epsilon) == (8, None)
    with pytest.raises(ValueError, match="read-only"):
        synthetic.columns["column 0"][0] = 1.0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"k": 1}, InvalidParameter),
        ({"epsilon": 0.0}, InvalidParameter),
        ({"epsilon": float("nan")}, InvalidParameter),
        ({"radius": -1.0}, InvalidParameter),
        ({"reading": "B"}, InvalidParameter),
        ({"guarantee": "rows"}, InvalidParameter),
        ({"bounds": {}}, UnknownOption),
        ({"k": 9}, TooFewRecords),
        ({"method": "mdav"}, UnknownMethod),
    ],
)
def test_wrong_options_are_refused(options, error):
    with pytest.raises(error):
        dbanon.synthesize(EIGHT, **PUBLISHED | options)


def test_what_is_no_number_is_refused():
    with pytest.raises(UnsupportedType, match="name"):
        dbanon.synthesize({"age": [1, 2, 3], "name": list("abc")}, **PUBLISHED)
    with pytest.raises(UnsupportedType, match="NULL"):
        dbanon.synthesize({"age": [1, 2, None]}, **PUBLISHED)


@pytest.mark.filterwarnings("ignore::dbanon.errors.NotDifferentiallyPrivate")
def test_rows_keep_their_seed_and_not_their_order():
    synthetic, repeated = (dbanon.synthesize(EIGHT, **PUBLISHED, seed=seed) for seed in (0, 0))
    np.testing.assert_array_equal(synthetic.values, repeated.values)
    assert not np.array_equal(
        synthetic.values, dbanon.synthesize(EIGHT, **PUBLISHED, seed=1).values
    )
    values = np.arange(600.0).reshape(-1, 1)
    quiet = dbanon.synthesize(values, **PUBLISHED | {"epsilon": 1e9, "radius": 1e-9})
    assert quiet.values.max() - quiet.values.min() < 1.0  # all noise: the overall mean
    far = dbanon.synthesize(
        np.repeat(values, 3, axis=0), **PUBLISHED | {"epsilon": 1e9, "radius": 1e-9}
    )
    np.testing.assert_allclose(np.sort(far.values[:, 0]), np.repeat(values[:, 0], 3), atol=1e-3)
    assert (np.diff(far.values[:, 0]) < -1).any()


@pytest.mark.filterwarnings("ignore::dbanon.errors.NotDifferentiallyPrivate")
def test_it_says_the_source_s_rule_and_what_it_is_worth():
    """Eight records in one class, centroid .4988: all variance is lost, by hand."""
    rule, loss_sentence = dbanon.synthesize(EIGHT, **PUBLISHED, radius=0.34).method_notes
    assert "k >= sqrt(n), here 3, and k = 3 is within it" in rule
    assert "No k makes this private" in rule
    assert loss_sentence.startswith("Classes of DBSCAN: 1, noise: 0; 100% of the variance")
    spread = np.repeat([[0.0], [1.0]], 50, axis=0)
    rule, loss_sentence = dbanon.synthesize(spread, **PUBLISHED).method_notes
    assert "here 10, and k = 3 is below it" in rule
    assert loss_sentence.startswith("Classes of DBSCAN: 2, noise: 0; 0% of the variance")
    assert "; 0% of" in dbanon.synthesize(np.ones((9, 2)), **PUBLISHED).method_notes[1]


def test_noise_is_laplace_of_the_reading():
    """E|x| of Laplace(b) is b; each attribute has its own range, however many there are."""
    values = np.column_stack((np.tile([0.0, 1.0], 10_000), np.tile([0.0, 50.0], 10_000)))
    for reading, factor in (("algorithm", 1 / 4), ("section_4", 20_000 / 16)):
        assert compute_noise_factor(len(values), 4, reading) == factor
        noisy = dcmdp(values, 4, 2.0, radius=0.1, reading=reading, rng=np.random.default_rng(0))
        deviation = np.abs(noisy - values).mean(axis=0)
        np.testing.assert_allclose(deviation, np.array([1.0, 50.0]) * factor / 2.0, rtol=0.03)


def test_theorem_1_does_not_hold():
    """k = 3: changing one record splits a class, and records that did not change move."""
    before = compute_centroids(EIGHT, cluster_with_dbscan(EIGHT, 3, 0.34))[:, 0]
    changed = EIGHT.copy()
    changed[4] = 0.0
    after = compute_centroids(changed, cluster_with_dbscan(changed, 3, 0.34))[:, 0]
    moved = np.abs(after - before)
    untouched = np.delete(moved, 4).max()
    assert untouched == pytest.approx(0.5012, abs=1e-4)
    assert untouched > 1 / 3
    assert moved.sum() == pytest.approx(3.667, abs=1e-3)


def test_theorem_1_does_not_hold_for_many_records_either():
    """k = 30: nine sites of ten records between two dense ones; one record splits the chain."""
    before = compute_centroids(CHAIN, cluster_with_dbscan(CHAIN, 30, 0.1000001))[:, 0]
    changed = CHAIN.copy()
    changed[np.flatnonzero(CHAIN[:, 0] == 0.5)[0]] = 0.0
    after = compute_centroids(changed, cluster_with_dbscan(changed, 30, 0.1000001))[:, 0]
    moved = np.abs(after - before)
    untouched = moved[(changed == CHAIN)[:, 0]]
    assert untouched.max() == pytest.approx(0.429, abs=1e-3)
    assert untouched.max() > 12 * (1 / 30)
    assert moved.sum() == pytest.approx(120.5, abs=0.1)


def test_figure_1():
    """SCORE of MAGIC's first 1,012 records, both readings, within 5 %."""
    values = load_magic(require_reference(MAGIC_FILE)).values[:1012]
    for k, rows in FIGURE_1.items():
        for epsilon, published in zip(EPSILONS, rows, strict=True):
            for reading, expected in zip(("algorithm", "section_4"), published, strict=True):
                measured = score(values, k, epsilon, reading, draws=5)
                assert measured == pytest.approx(expected, rel=0.05), (k, epsilon, reading)


@pytest.mark.parametrize("reading", ["algorithm", "section_4"])
@pytest.mark.parametrize("k", [8, 20])
def test_squared_errors_are_those_of_classes_and_of_noise(k, reading):
    """Like figure 1: the loss of classes by a plain DBSCAN, and twice the noise's scale^2."""
    values = magic_like(400, 4)
    spread = np.ptp(values, axis=0)
    labels = dbscan((values - values.min(axis=0)) / spread, k, 0.15)
    assert labels.max() >= 0 > labels.min()
    released = np.tile(values.mean(axis=0), (len(values), 1))
    for label in range(labels.max() + 1):
        released[labels == label] = values[labels == label].mean(axis=0)
    np.testing.assert_allclose(
        compute_centroids(values, cluster_with_dbscan(values, k, 0.15)), released, rtol=1e-12
    )
    class_loss = np.square((released - values) / spread).sum()
    for epsilon in EPSILONS:
        scale = (1 / k if reading == "algorithm" else len(values) / k**2) / epsilon
        errors = [
            np.square(
                (dcmdp(values, k, epsilon, radius=0.15, reading=reading, rng=rng) - values) / spread
            ).sum()
            for rng in map(np.random.default_rng, range(8))
        ]
        assert np.mean(errors) == pytest.approx(class_loss + values.size * 2 * scale**2, rel=0.05)
        # See figure 1.
        measured = score(values, k, epsilon, reading, draws=5, radius=0.15)
        assert measured == pytest.approx(np.mean(errors) / (values.size * 2 / 0.01**2), rel=0.07)
