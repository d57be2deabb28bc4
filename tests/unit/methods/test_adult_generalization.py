"""Adult, 45,222 records with 8 quasi-identifiers: the losses to reach."""

import csv

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import KeptColumnTells
from tests.iloss_evaluator import iloss, published_iloss, read_paths
from tests.prerequisites import require_reference
from tests.reference.data import ADULT_FILES


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "published", "own"),
    [(5, 8_900, 8_238), pytest.param(10, 14_700, 13_856, marks=pytest.mark.campaign)],
)
def test_published_losses(adult, k, published, own):
    """By default labels, and on the classes' own ranges."""
    frame, files, rows, paths = adult
    place = np.arange(len(frame))
    with pytest.warns(KeptColumnTells, match="place"):
        released, report = dbanon.anonymize_frame(
            frame.assign(place=place),
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
    assert report.information_loss * frame.size == pytest.approx(counted, rel=1e-12)
    assert counted <= published
    assert report.information_loss_before_rounding * frame.size <= own
