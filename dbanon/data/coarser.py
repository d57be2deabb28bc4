"""A partition of rows of which some attributes are released by coarser classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.partition import NOTHING, SUPPRESSED, Partition


@dataclass(frozen=True, eq=False)
class CoarserColumns(Partition):
    """Classes of rows; what an attribute is released with, several of them may share.

    What one class releases its rows share, as in every partition. Two classes that are in one
    coarser class of an attribute have the same value of it.

    Parameters
    ----------
    labels, told : as of ``Partition``.
    coarser : by attribute, int32 (n_classes,): the coarser class of each class, from 0 without
        gaps. Attributes that are not named are released by the classes themselves.
    """

    coarser: Mapping[str, NDArray[np.int32]]

    def __init__(
        self,
        labels: ArrayLike,
        coarser: Mapping[str, NDArray[np.int32]],
        told: Mapping[str, int] = NOTHING,
    ) -> None:
        super().__init__(labels, told)
        object.__setattr__(self, "coarser", MappingProxyType(dict(coarser)))

    def _grouped_alike(self) -> list[NDArray[np.int32]]:
        """The different ways from classes to coarser ones; the first leaves them as they are."""
        ways = [np.arange(self.n_classes, dtype=np.int32)]
        for way in self.coarser.values():
            if not any(np.array_equal(way, known) for known in ways):
                ways.append(way)
        return ways

    def rows(self) -> tuple[Partition, NDArray[np.int32]]:
        """What rows are released alike; and, int32 (n_classes, w), their class in each way."""
        return Partition(self.labels, self.told), np.column_stack(self._grouped_alike())

    def by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Which attributes, of these, are released by which classes; some ways may have none."""
        ways = self._grouped_alike()
        found: list[list[str]] = [[] for _ in ways]
        for name in names:
            way = self.coarser.get(name, ways[0])
            place = next(i for i, known in enumerate(ways) if np.array_equal(way, known))
            found[place].append(name)
        return [
            (own, Partition(np.append(way, np.int32(SUPPRESSED))[self.labels]))
            for own, way in zip(found, ways, strict=True)
        ]

    def of(self, records: NDArray[np.int64]) -> CoarserColumns:
        """The partition of other records, as ``Partition.of``; classes without any are left out."""
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        released = labels >= 0
        kept, places = np.unique(labels[released], return_inverse=True)
        labels[released] = places.reshape(-1)
        coarser = {
            name: np.unique(way[kept], return_inverse=True)[1].reshape(-1).astype(np.int32)
            for name, way in self.coarser.items()
        }
        return CoarserColumns(labels, coarser, self.told)
