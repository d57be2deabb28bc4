"""Adult, 45,222 records with 8 quasi-identifiers: the losses to reach."""

import csv

import numpy as np
import pandas as pd
import pytest

import dbanon
from tests.iloss_evaluator import iloss, read_paths


@pytest.fixture(scope="module")
def adult(data_dir):
    folder = data_dir / "adult"
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
    [(5, None, 11_110), (10, None, 19_760), (5, "fast", 9_260), (10, "fast", 15_800)],
)
def test_losses(adult, k, refine, most):
    frame, files, rows, paths = adult
    partition = dbanon.partition(frame, k, method="gaa_cp", hierarchies=files, refine=refine)
    assert np.bincount(partition.labels).min() >= k
    counted = iloss(rows, partition.labels, paths)
    assert counted <= most
    measured = dbanon.generalization_loss(frame, partition, hierarchies=files)
    assert measured == pytest.approx(counted, rel=1e-12)
