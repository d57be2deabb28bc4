"""Compiled kernels: methods, measures and other loops in C++.

A kernel works in slices (``Kernel.step``), so that long runs can report progress and be
interrupted. ``_kernels.pyi`` documents each of them. A budget is the number of elementary steps in
a slice. Some names need an explanation:

- ``Fitting``, ``Gathering`` and ``Pricing`` serve bounds: they fit prices of records, gather
  classes that cost less than their prices, and search all such classes.
- ``Merging`` is the methods KACA and EBKC, and ``Enforce`` and ``Split`` merge and split classes
  under privacy models (``Models``).
- ``Pass``, ``Refine`` and ``RefineLoss`` are the local searches of refinements: ``Pass`` of the
  effort ``pass``. ``recombined`` combines classes of several partitions into the best partition.
- ``NearestPath`` and ``PathCut`` build a path through all records, and cut it into classes.
  ``DensityFirst`` is the methods LDF and HDF, ``Neighbours`` finds the nearest records of each
  record, ``Linkage`` the nearest points of each query (a point that is not among them),
  and ``block_of`` assigns records to blocks by a tree of cuts.
- ``allow_whole_steps`` and ``set_simd_level`` choose between equivalent implementations, for tests
  and benchmarks; labels do not depend on them.
- ``grouped``, ``shuffled``, ``shuffled_classes`` and ``standardized`` return arrays: records by
  class, a random permutation, records of each class in random order, and scaled rows.
- ``CopyDrain``, ``RowJoin`` and ``split_rows`` process rows of PostgreSQL's binary COPY.
- The prefix ``Mixed`` stands for records of numbers and categories without coordinates.
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
