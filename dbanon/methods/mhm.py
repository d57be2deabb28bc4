"""MHM: cut a path through all records into classes optimally, for several kinds of paths.

The path of ``npn_mhm`` (nearest point next) starts at the record farthest from the centroid and
always continues with the nearest record not yet visited. The other methods first run a base method
with classes of fixed size, and visit its classes one after the other. They start with the class
that contains the record farthest from the overall centroid, and continue with the class whose
centroid is nearest to that of the class just visited. Within a class the path starts at the record
nearest to the centroid of the previous class, and continues with the nearest record not yet
visited. The source only says that groups and their records are ordered; the order here is an
interpretation. The classes of the base method are one possible cut of the path, so the loss is
never larger than that of the base method.

Source: J. Domingo-Ferrer, A. Martínez-Ballesté, J. M. Mateo-Sanz and F. Sebé, "Efficient
multivariate data-oriented microaggregation", VLDB Journal 15 (2006).
Classes: k to 2k-1.
Cost: that of the base method, plus O(k n p) for the cut; a spatial index finds the path.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.kernels import Cbfs, Kernel, Md, Mdav, NearestPath, PathCut
from dbanon.methods.forecast import UNKNOWN, MethodForecast, PowerLaw
from dbanon.methods.registry import Method, Tick, drive
from dbanon.spaces.numeric import Space

# The progress, 0 to 1, when the base method has ended, and when the path is complete.
_PROGRESS_AFTER_BASE, _PROGRESS_AFTER_PATH = 0.6, 0.9


def _cut_path(space: Space, k: int, tick: Tick, groups: NDArray[np.int32] | None) -> Partition:
    """Build a path through all records, and cut it into classes optimally.

    Parameters
    ----------
    groups : int32 (n,), the class of each record by the base method; the path visits one class
        after the other. None for a path that ignores classes.
    """
    # Each record is labelled with its position on the path.
    path = drive(
        NearestPath(space.points, groups),
        lambda share: tick(
            _PROGRESS_AFTER_BASE + (_PROGRESS_AFTER_PATH - _PROGRESS_AFTER_BASE) * share
        ),
    )
    order = np.argsort(path.labels).astype(np.int32)
    return drive(
        PathCut(space.points, k, order),
        lambda share: tick(_PROGRESS_AFTER_PATH + (1 - _PROGRESS_AFTER_PATH) * share),
    )


def npn_mhm(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    return _cut_path(space, k, tick, groups=None)


def _run_after_base_method(
    base_kernel: Callable[[NDArray[np.float64], int], Kernel],
) -> Callable[..., Partition]:
    """Return a function that runs a base method and cuts the path through its classes."""

    def run(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        groups = drive(
            base_kernel(space.points, k), lambda share: tick(_PROGRESS_AFTER_BASE * share)
        )
        return _cut_path(space, k, tick, groups.labels)

    return run


def _build_method(
    name: str,
    run: Callable[..., Partition],
    path: str,
    cost: str,
    forecast: MethodForecast = UNKNOWN,
) -> Method:
    """Build a method of this module.

    Parameters
    ----------
    path : a description of the path that the method cuts, for the summary.
    """
    return Method(
        name=name,
        run=run,
        summary=f"The optimal cut of a path: {path}",
        cost=cost,
        reference="Domingo-Ferrer et al. 2006",
        forecast=forecast,
    )


NPN = _build_method(
    "npn_mhm",
    npn_mhm,
    path="always on to the nearest record",
    cost="O(n^2) at worst, by a spatial index",
)
MDAV = _build_method(
    "mdav_mhm",
    _run_after_base_method(Mdav),
    path="through MDAV's classes; never loses more than mdav",
    cost="that of mdav, and O(k n)",
)
CBFS = _build_method(
    "cbfs_mhm",
    _run_after_base_method(Cbfs),
    path="through CBFS' classes; never loses more than CBFS",
    cost="that of CBFS, and O(k n)",
    forecast=MethodForecast(
        numbers=PowerLaw(seconds=0.52, records=1.29, attributes=1.45, interaction=0.29)
    ),
)
MD = _build_method(
    "md_mhm",
    _run_after_base_method(Md),
    path="through MD's classes; never loses more than MD",
    cost="that of MD, and O(k n)",
)
