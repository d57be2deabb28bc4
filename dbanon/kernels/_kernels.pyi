"""Compiled kernels. Arrays are float64, C-contiguous, (n, p); labels are int32, (n,)."""

from typing import Literal

import numpy as np
import numpy.typing as npt

DEFAULT_BUDGET: int

def simd_level() -> str:
    """The instruction set that new kernels will use."""

def simd_levels() -> list[str]:
    """The instruction sets supported here, slowest first."""

def set_simd_level(name: str) -> list[str]:
    """Set the instruction set of kernels made from now on; returns the supported ones.

    Labels do not depend on it. Raises ValueError for a name not among them.
    """

class Kernel:
    """Work that is done in slices. Classes are numbered from 0 in the order they are made.

    The array given to a kernel is kept, not copied: it must not change before the last step.
    Wrong shapes, values that are not finite, k < 1 and n < k raise ValueError.
    """

    def step(self, budget: int = ...) -> bool:
        """Do about `budget` distance evaluations, without the GIL; True when finished."""

    @property
    def progress(self) -> float:
        """From 0 to 1."""

    def labels(self) -> npt.NDArray[np.int32]:
        """The class of each record, (n,). RuntimeError before step() has returned True."""

class Mdav(Kernel):
    """MDAV (Domingo-Ferrer & Torra 2005), exact; `search` changes the time, never the labels."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        search: Literal["auto", "index", "brute"] = "auto",
    ) -> None: ...

class GaaCp(Kernel):
    """GAA-CP (Jiang, Zeng & Ma 2017), exact. Arrays as ``MixedSpace.arrays`` gives them.

    codes: int32 (n, d). units: int64 (d,). leaves: int32 (d,), the leaves of each attribute's
    hierarchy, 0 when it is numeric. depths, gaps: int32 (sum of leaves,). All C-contiguous; none is
    kept. Values out of range raise ValueError.
    """

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        units: npt.NDArray[np.int64],
        leaves: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
        gaps: npt.NDArray[np.int32],
        k: int,
    ) -> None: ...

class KMember(Kernel):
    """k-member (Byun, Kamra, Bertino & Li 2007), exact. Arrays as for GaaCp."""

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        units: npt.NDArray[np.int64],
        leaves: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
        gaps: npt.NDArray[np.int32],
        k: int,
    ) -> None: ...

class Merging(Kernel):
    """KACA (threshold below 0) and EBKC (else: a distance, mean over the attributes).

    Arrays as for GaaCp.
    """

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        units: npt.NDArray[np.int64],
        leaves: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
        gaps: npt.NDArray[np.int32],
        k: int,
        seed: int,
        threshold: float,
    ) -> None: ...

class RefineLoss(Kernel):
    """Local search on the loss of classes, `rounds` long; the same for the same seed.

    labels: int32 (n,), classes of at least k records; -1 stays -1. Other arrays as for GaaCp.
    """

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        units: npt.NDArray[np.int64],
        leaves: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
        gaps: npt.NDArray[np.int32],
        labels: npt.NDArray[np.int32],
        k: int,
        rounds: int,
        seed: int,
    ) -> None: ...
