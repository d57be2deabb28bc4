"""DCM: scikit-learn's labels before the repair, the source's data, and the reason for the
repair.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import kernels
from dbanon.data.partition import Partition
from dbanon.doors.html.page import render_page
from dbanon.methods.registry import drive
from dbanon.spaces.numeric import Space
from tests.prerequisites import require_reference
from tests.reference import variable as reference
from tests.reference.data import MAGIC_FILE, load_magic
from tests.synthetic_data import magic_like

# Before the repair, first 1,012 records of MAGIC, r = 0.2: classes and noise.
PUBLISHED = {
    2: (16, 107),
    4: (2, 164),
    8: (4, 244),
    10: (4, 285),
    16: (1, 451),
    24: (1, 585),
    32: (1, 696),
    40: (1, 811),
    64: (0, 1012),
}


def dbscan(points, k, radius):
    """scikit-learn's labels; imported only here because the import takes a second."""
    from sklearn.cluster import DBSCAN

    return DBSCAN(eps=radius, min_samples=k, algorithm="kd_tree").fit(points).labels_


def before_repair(points, k, radius, budget=None):
    kernel = kernels.Dbscan(np.ascontiguousarray(points, np.float64), k, radius)
    while not (kernel.step() if budget is None else kernel.step(budget)):
        pass
    return kernel.labels()


@st.composite
def grids(draw):
    """Whole numbers, whose distances are exact and often equal, and radii that fall on them."""
    k = draw(st.integers(2, 7))
    n = draw(st.integers(k, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.integers(0, draw(st.integers(2, 25)), size=(n, draw(st.integers(1, 4))))
    return points.astype(float), k, draw(st.sampled_from([1.0, 2**0.5, 1.5, 2.0, 3.0, 5.0]))


@given(grids(), st.sampled_from([1, 100, 10**6]))
@settings(max_examples=400, deadline=None)
def test_labels_are_those_of_scikit_learn(table, budget):
    points, k, radius = table
    witness = dbscan(points, k, radius)
    np.testing.assert_array_equal(before_repair(points, k, radius, budget), witness)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 3, 6])
def test_labels_of_many_records_are_those_of_scikit_learn(p):
    rng = np.random.default_rng(p)
    points = np.concatenate((rng.normal(size=(3000, p)), rng.integers(-3, 4, size=(1000, p)) / 2.0))
    for k, radius in ((3, 0.2 * p), (10, 0.3 * p), (40, 0.25 * p)):
        witness = dbscan(points, k, radius)
        np.testing.assert_array_equal(before_repair(points, k, radius), witness)


@given(grids())
@settings(max_examples=150, deadline=None)
def test_classes_are_those_of_the_reference(table):
    points, k, radius = table
    np.testing.assert_array_equal(
        before_repair(points, k, radius), reference.dbscan(points, k, radius)
    )
    partition = dbanon.partition(points, k, method="dcm", radius=radius, standardize="none")
    np.testing.assert_array_equal(partition.labels, reference.dcm(points, k, radius))
    assert partition.sizes.min() >= k


def test_worked_example():
    """k = 3, r = 1: 1 and 11 are core; 5 is noise, nearer to the mean 1 than to the mean 11."""
    values = np.array([[10.0], [0.0], [1.0], [5.0], [2.0], [11.0], [12.0]])
    assert before_repair(values, 3, 1.0).tolist() == [1, 0, 0, -1, 0, 1, 1]
    partition = dbanon.partition(values, 3, method="dcm", radius=1.0, standardize="none")
    assert partition.labels.tolist() == [1, 0, 0, 0, 0, 1, 1]


def test_a_class_of_dbscan_can_be_smaller_than_k():
    """Why there is a repair: .1 is in the class that reaches it first, the other has 3 left."""
    values = np.array([[-0.1], [-0.1], [0.0], [0.1], [0.2], [0.3], [0.3]])
    labels = before_repair(values, 4, 0.1000001)
    assert np.bincount(labels).tolist() == [4, 3]
    partition = dbanon.partition(values, 4, method="dcm", radius=0.1000001, standardize="none")
    assert partition.sizes.tolist() == [7]


def test_a_report_says_what_dbscan_found_and_that_it_was_repaired():
    """4 and 3 of one column, twice as strata: counts add up; a refinement does not lose them."""
    values = [-0.1, -0.1, 0.0, 0.1, 0.2, 0.3, 0.3]
    frame = pd.DataFrame({"x": values * 2, "part": [0] * 7 + [1] * 7})
    arguments = {"quasi_identifiers": ["x"], "k": 4, "method": "dcm"}
    for options, finding in (
        ({"by": ["part"]}, "classes of DBSCAN: 4, noise: 0"),
        ({"by": ["part"], "refine": "fast"}, "classes of DBSCAN: 4, noise: 0"),
    ):
        _, report = dbanon.anonymize_frame(
            frame, **arguments, **options, options={"radius": 0.1000001}, standardize="none"
        )
        assert dict(report.rows())["counted by the method"] == finding
        assert f"<p>Found by the method: <bdi>{finding}</bdi>.</p>" in render_page(report)
        assert "as published, DCM does not ensure it; classes were repaired" in report.guarantee
    _, plain = dbanon.anonymize_frame(frame, **arguments | {"method": "mdav"})
    assert "counted by the method" not in dict(plain.rows())
    assert "Found by the method" not in render_page(plain)


def test_much_noise_forms_a_class_and_no_dense_records_form_one_class():
    values = np.array([[0.0], [0.1], [0.2], [5.0], [7.0], [9.0]])
    partition = dbanon.partition(values, 3, method="dcm", radius=0.5, standardize="none")
    assert partition.labels.tolist() == [0, 0, 0, 1, 1, 1]
    sparse = dbanon.partition(values * 100, 3, method="dcm", radius=0.5, standardize="none")
    assert sparse.n_classes == 1


def test_the_space_is_that_of_ranges_where_no_other_is_asked_for():
    values = np.repeat(np.arange(8.0), 5).reshape(-1, 1)
    plain = dbanon.partition(values, 3, method="dcm")
    ranges = dbanon.partition(values, 3, method="dcm", standardize="range")
    scores = dbanon.partition(values, 3, method="dcm", standardize="zscore")
    assert plain.labels.tolist() == ranges.labels.tolist()
    assert (plain.n_classes, scores.n_classes) == (1, 8)
    assert dbanon.Policy(k=3, method="dcm").arguments()["standardize"] == "range"
    assert dbanon.Policy(k=3).arguments()["standardize"] == "zscore"


def test_the_source_s_data():
    """MAGIC, first 1,012: the classes of DBSCAN, and the loss if noise gets the overall mean."""
    values = load_magic(require_reference(MAGIC_FILE)).values[:1012]
    low, high = values.min(axis=0), values.max(axis=0)
    space = Space(np.ascontiguousarray((values - low) / (high - low)), ())
    for k, (classes, noise) in PUBLISHED.items():
        partition = drive(kernels.Dbscan(space.points, k, 0.2), lambda share: None)
        assert (partition.n_classes, partition.n_suppressed) == (classes, noise)
        assert dbanon.partition(values, k, method="dcm").sizes.min() >= k
    # SSE/SST, before repair.
    for k, loss in ((2, 0.926), (10, 0.889), (32, 0.979), (64, 1.0)):
        partition = drive(kernels.Dbscan(space.points, k, 0.2), lambda share: None)
        assert loss_of_published(space.points, partition) == pytest.approx(loss, abs=5e-4)


@pytest.mark.parametrize("k", [2, 8, 20, 200])
def test_classes_and_loss_of_a_table_like_the_source_s(k):
    """A plain DBSCAN; the loss is the share of squares that remains within classes."""
    values = magic_like(400, 4)
    low, high = values.min(axis=0), values.max(axis=0)
    points = np.ascontiguousarray((values - low) / (high - low))
    partition = drive(kernels.Dbscan(points, k, 0.15), lambda share: None)
    labels = reference.dbscan(points, k, 0.15)
    np.testing.assert_array_equal(partition.labels, labels)
    assert (partition.n_classes, partition.n_suppressed) == (labels.max() + 1, (labels < 0).sum())
    assert (partition.n_classes == 0) is (k == 200)
    repaired = dbanon.partition(values, k, method="dcm", radius=0.15)
    np.testing.assert_array_equal(repaired.labels, reference.dcm(points, k, 0.15))
    centred = points - points.mean(axis=0)
    between = sum(
        np.square(centred[labels == label].sum(axis=0)).sum() / (labels == label).sum()
        for label in range(labels.max() + 1)
    )
    loss = 1 - between / np.square(centred).sum()
    assert loss_of_published(points, partition) == pytest.approx(loss, rel=1e-9)


def loss_of_published(points, partition: Partition):
    """SSE/SST where noise is released with the overall mean."""
    centred = points - points.mean(axis=0)
    released = np.zeros_like(centred)
    for label in range(partition.n_classes):
        released[partition.labels == label] = centred[partition.labels == label].mean(axis=0)
    return np.square(centred - released).sum() / np.square(centred).sum()
