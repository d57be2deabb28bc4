"""Compiled kernels: each works in slices, so that a long run can be interrupted between them."""

import os

import numpy as np
import numpy.typing as npt

from dbanon.kernels import _kernels, sources

# Before any kernel is named: an older core may lack it.
sources.require_current(_kernels, os.path.dirname(__file__))

from dbanon.kernels._kernels import (  # noqa: E402
    DEFAULT_BUDGET,
    Cbfs,
    CopyDrain,
    Dbscan,
    DensityFirst,
    Enforce,
    GaaCp,
    Genetic,
    Kernel,
    KMember,
    Linkage,
    Md,
    Mdav,
    Merging,
    MixedCbfs,
    MixedDensityFirst,
    MixedLinkage,
    MixedMd,
    MixedMdav,
    MixedPass,
    MixedRefine,
    MixedTable,
    MixedTfrp,
    MixedVmdav,
    Models,
    Mst,
    NearestPath,
    Neighbours,
    Pass,
    PathCut,
    Pricing,
    Refine,
    RefineLoss,
    RowJoin,
    Split,
    Tfrp,
    Vmdav,
    Ward,
    allow_whole_steps,
    block_of,
    class_means,
    class_sizes,
    column_squares,
    exact_sums,
    floats_text,
    grouped,
    integer_class_means,
    integers_text,
    recombined,
    set_simd_level,
    shuffled,
    shuffled_classes,
    simd_level,
    simd_levels,
    split_rows,
    standardized,
)

__all__ = [
    "DEFAULT_BUDGET",
    "Cbfs",
    "CopyDrain",
    "Dbscan",
    "DensityFirst",
    "Enforce",
    "GaaCp",
    "Genetic",
    "KMember",
    "Kernel",
    "Linkage",
    "Md",
    "Mdav",
    "Merging",
    "MixedCbfs",
    "MixedDensityFirst",
    "MixedLinkage",
    "MixedMd",
    "MixedMdav",
    "MixedPass",
    "MixedRefine",
    "MixedTable",
    "MixedTfrp",
    "MixedVmdav",
    "Models",
    "Mst",
    "NearestPath",
    "Neighbours",
    "Pass",
    "PathCut",
    "Pricing",
    "Refine",
    "RefineLoss",
    "RowJoin",
    "Split",
    "Tfrp",
    "Vmdav",
    "Ward",
    "allow_whole_steps",
    "block_of",
    "class_means",
    "class_sizes",
    "column_squares",
    "exact_sums",
    "floats_text",
    "grouped",
    "integer_class_means",
    "integers_text",
    "mdav_brute",
    "recombined",
    "set_simd_level",
    "shuffled",
    "shuffled_classes",
    "simd_level",
    "simd_levels",
    "split_rows",
    "standardized",
]


def mdav_brute(points: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.int32]:
    """MDAV by scanning all records, in one go: the yardstick for the index.

    points: (n, p) float64, C-contiguous. Returns the class of each record, (n,).
    """
    kernel = Mdav(points, k, "brute")
    while not kernel.step():
        pass
    return kernel.labels()
