"""Checks a wheel in an environment with only numpy; run by cibuildwheel, and by hand.

python tests/installed.py
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

import dbanon
from dbanon import kernels
from dbanon.version import share_path


def main() -> None:
    """Raise if something is missing."""
    home = Path(dbanon.__file__).parent
    assert home != Path(__file__).resolve().parents[1] / "dbanon", "this is the checkout"
    assert dbanon.__version__ == version("dbanon")
    for name in ("sql/ledger.sql", "migrations/env.py"):
        assert (share_path(name.partition("/")[0]) / name.partition("/")[2]).is_file(), name
    assert not [*home.rglob("*.cpp"), *home.rglob("*.hpp")], "sources in a wheel"
    points = np.random.default_rng(7).normal(size=(3000, 7))
    labels = {}
    for level in kernels.simd_levels():
        kernels.set_simd_level(level)
        labels[level] = dbanon.partition(points, 5).labels
    first = labels["baseline"]
    assert np.bincount(first).min() >= 5
    for level, level_labels in labels.items():
        np.testing.assert_array_equal(first, level_labels, err_msg=level)
    print(
        f"dbanon {dbanon.__version__} on Python {sys.version.split()[0]}:"
        f" {first.max() + 1} classes, equal on {', '.join(labels)}"
    )


if __name__ == "__main__":
    main()
