"""MHM: the optimal cut of a path through all records, and the paths it is used on.

``npn_mhm`` follows nearest point next: from the record farthest from the centroid always on to the
nearest record not yet visited. The others take the classes of a fixed-size method and visit one
after the other: first the one that holds the record farthest from the centroid of all, then always
the one whose centroid is nearest to that of the class just left; a class is entered at its record
nearest to that centroid, and inside it goes on to the nearest record not yet visited. The source
says in one sentence that groups and their records are ordered; this is the reading chosen. Since
the classes of the base method are pieces of the path, the result never loses more than that
method.

Source: J. Domingo-Ferrer, A. Martínez-Ballesté, J. M. Mateo-Sanz and F. Sebé, "Efficient
multivariate data-oriented microaggregation", VLDB Journal 15 (2006).
Classes: k to 2k-1.
Cost: the base method's, plus O(k n p) for the cut; the path by a spatial index.
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

# Shares of the progress after which the base method and the path are done.
_BASE, _PATH = 0.6, 0.9


def _cut(space: Space, k: int, tick: Tick, groups: NDArray[np.int32] | None) -> Partition:
    position = drive(
        NearestPath(space.points, groups), lambda share: tick(_BASE + (_PATH - _BASE) * share)
    )
    order = np.argsort(position.labels).astype(np.int32)
    return drive(PathCut(space.points, k, order), lambda share: tick(_PATH + (1 - _PATH) * share))


def npn_mhm(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    return _cut(space, k, tick, None)


def _after(base: Callable[[NDArray[np.float64], int], Kernel]) -> Callable[..., Partition]:
    def run(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        groups = drive(base(space.points, k), lambda share: tick(_BASE * share))
        return _cut(space, k, tick, groups.labels)

    return run


def _method(
    name: str,
    run: Callable[..., Partition],
    path: str,
    cost: str,
    forecast: MethodForecast = UNKNOWN,
) -> Method:
    return Method(
        name=name,
        run=run,
        summary=f"The optimal cut of a path: {path}",
        cost=cost,
        reference="Domingo-Ferrer et al. 2006",
        forecast=forecast,
    )


NPN = _method(
    "npn_mhm", npn_mhm, "always on to the nearest record", "O(n^2) at worst, by a spatial index"
)
MDAV = _method(
    "mdav_mhm",
    _after(Mdav),
    "through MDAV's classes; never loses more than mdav",
    "that of mdav, and O(k n)",
)
CBFS = _method(
    "cbfs_mhm",
    _after(Cbfs),
    "through CBFS' classes; never loses more than CBFS",
    "that of CBFS, and O(k n)",
    MethodForecast(numbers=PowerLaw(0.52, 1.29, 1.45, 0.29)),
)
MD = _method(
    "md_mhm",
    _after(Md),
    "through MD's classes; never loses more than MD",
    "that of MD, and O(k n)",
)
