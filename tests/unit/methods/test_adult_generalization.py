"""Adult, 45,222 records with 8 quasi-identifiers: the losses to reach; and a small one like it."""

import csv
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import KeptColumnTells
from tests.iloss_evaluator import iloss, published_iloss, read_paths
from tests.prerequisites import require_reference
from tests.reference.data import ADULT_FILES
from tests.synthetic_data import adult_like


@pytest.fixture(scope="module")
def adult():
    folder = require_reference(*ADULT_FILES) / "adult"
    with (folder / "adult.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=";")
    names = header[:8]
    rows = [row[:8] for row in rows]
    frame = pd.DataFrame(rows, columns=names).astype({"age": int})
    files = {name: folder / "hierarchies" / f"{name}.csv" for name in names if name != "age"}
    paths = [read_paths(files[name]) if name in files else None for name in names]
    return frame, files, rows, paths


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "refine", "most"),
    [
        (10, None, 19_760),
        # tests/docs/test_examples.py reaches it by the example.
        pytest.param(5, "fast", 9_260, marks=pytest.mark.campaign),
    ],
)
def test_losses(adult, k, refine, most):
    frame, files, rows, paths = adult
    partition = dbanon.partition(frame, k, method="gaa_cp", hierarchies=files, refine=refine)
    assert np.bincount(partition.labels).min() >= k
    counted = iloss(rows, partition.labels, paths)
    assert counted <= most
    measured = dbanon.generalization_loss(frame, partition, hierarchies=files)
    assert measured == pytest.approx(counted, rel=1e-12)


# The small table below has the same labels and losses.
@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize(("k", "published", "our_loss"), [(5, 8_900, 8_238), (10, 14_700, 13_856)])
def test_published_losses(adult, k, published, our_loss):
    """By default labels, computed from the classes' own ranges."""
    frame, files, rows, paths = adult
    row_numbers = np.arange(len(frame))
    with pytest.warns(KeptColumnTells, match="place"):
        released, report = dbanon.anonymize_frame(
            frame.assign(place=row_numbers),
            quasi_identifiers=list(frame.columns),
            keep=["place"],
            k=k,
            method="gaa_cp",
            refine="fast",
            hierarchies=files,
        )
    assert report.k_achieved >= k
    released = released.sort_values("place")[list(frame.columns)].to_numpy().tolist()
    counted = published_iloss(rows, released, paths)
    assert report.internal.information_loss * frame.size == pytest.approx(counted, rel=1e-12)
    assert counted <= published
    assert report.internal.information_loss_before_rounding * frame.size <= our_loss


# --- a table like Adult, which any clone has ------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return adult_like(400, tmp_path_factory.mktemp("adult") / "adult")


def labels_of_order(rows, k):
    """Classes of k records that follow each other in the order of their values, age last."""
    order = sorted(range(len(rows)), key=lambda i: (rows[i][1:], int(rows[i][0])))
    labels = np.empty(len(rows), int)
    labels[order] = np.minimum(np.arange(len(rows)) // k, len(rows) // k - 1)
    return labels


@pytest.mark.parametrize("k", [5, 10])
def test_losses_of_a_small_table(small, k):
    """Counted from the definition: as measured, below sorted classes, and less when refined."""
    frame, rows, paths = small.quasi_identifiers, small.rows, small.paths
    counted = {}
    for refine in (None, "fast"):
        options = {"method": "gaa_cp", "hierarchies": small.files, "refine": refine}
        partition = dbanon.partition(frame, k, **options)
        assert np.bincount(partition.labels).min() >= k
        counted[refine] = iloss(rows, partition.labels, paths)
        measured = dbanon.generalization_loss(frame, partition, hierarchies=small.files)
        assert measured == pytest.approx(counted[refine], rel=1e-12)
    sorted_loss = iloss(rows, labels_of_order(rows, k), paths)
    assert counted["fast"] < 0.95 * counted[None] < 0.95 * 0.8 * sorted_loss


@pytest.mark.parametrize("k", [5, 10])
def test_released_losses_of_a_small_table(small, k):
    """The labels of a frame are read back: each holds its value, and their loss is reported."""
    frame, rows = small.quasi_identifiers, small.rows
    with pytest.warns(KeptColumnTells, match="place"):
        released, report = dbanon.anonymize_frame(
            frame.assign(place=np.arange(len(frame))),
            quasi_identifiers=list(frame.columns),
            keep=["place"],
            k=k,
            method="gaa_cp",
            refine="fast",
            hierarchies=small.files,
        )
    assert report.k_achieved == released.groupby(list(frame.columns)).size().min() >= k
    labels = released.sort_values("place")[list(frame.columns)].to_numpy().tolist()
    counted = published_iloss(rows, labels, small.paths)
    assert report.internal.information_loss * frame.size == pytest.approx(counted, rel=1e-12)
    assert report.internal.information_loss_before_rounding * frame.size <= counted


def least_iloss(rows, k, paths):
    """Try all partitions into classes of k or more."""

    def partitions(remaining):
        if not remaining:
            yield []
        for size in range(k, len(remaining) + 1):
            if len(remaining) - size and len(remaining) - size < k:
                continue
            for others in combinations(remaining[1:], size - 1):
                members = (remaining[0], *others)
                for more in partitions([i for i in remaining if i not in members]):
                    yield [members, *more]

    least = np.inf
    for classes in partitions([*range(len(rows))]):
        labels = np.empty(len(rows), int)
        for label, members in enumerate(classes):
            labels[[*members]] = label
        least = min(least, iloss(rows, labels, paths))
    return least


@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 3), (2, 3), (3, 4)])
def test_refined_classes_of_few_records_are_the_optimum(tmp_path, seed, k):
    table = adult_like(8, tmp_path / "adult", seed)
    frame, rows, paths = table.quasi_identifiers, table.rows, table.paths
    least = least_iloss(rows, k, paths)
    options = {"method": "gaa_cp", "hierarchies": table.files}
    plain = dbanon.partition(frame, k, **options)
    refined = dbanon.partition(frame, k, refine="thorough", **options)
    assert iloss(rows, plain.labels, paths) >= least
    assert iloss(rows, refined.labels, paths) == pytest.approx(least, rel=1e-9)
