"""Compiled kernels: methods, measures and other loops in C++.

A kernel works in slices (``Kernel.step``), so that long runs can report progress and be
interrupted. ``_kernels.pyi`` documents each of them. A budget is the number of elementary steps in
a slice.
"""

import os

import numpy as np
import numpy.typing as npt

from dbanon.kernels import _kernels, sources

# Check before importing names that an outdated build may lack.
sources.require_current(_kernels, os.path.dirname(__file__))

from dbanon.kernels._kernels import (  # noqa: E402
    DEFAULT_BUDGET,
    Cbfs,
    CopyDrain,
    Dbscan,
    DensityFirst,
    Enforce,
    Fitting,
    GaaCp,
    Gathering,
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
    Suda,
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
    hash_rows,
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
    take_numbers,
)

__all__ = [
    "DEFAULT_BUDGET",
    "Cbfs",
    "CopyDrain",
    "Dbscan",
    "DensityFirst",
    "Enforce",
    "Fitting",
    "GaaCp",
    "Gathering",
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
    "Suda",
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
    "hash_rows",
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
    "take_numbers",
]


def mdav_brute(points: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.int32]:
    """Run MDAV by brute force in a single call, as a reference for tests of the spatial index.

    Returns the class of each record, int32 (n,).

    Parameters
    ----------
    points : float64 (n, p), C-contiguous.
    """
    kernel = Mdav(points, k, "brute")
    while not kernel.step():
        pass
    return kernel.labels()
