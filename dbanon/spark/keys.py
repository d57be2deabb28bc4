"""Which keys there are, as bits: whether two rows have the same is told without sorting them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Keys are numbered by their last bits in a page of so many.
_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS

# Pages hold 8 KiB: so many bytes a key are too many, and so many pages in all.
_BYTES_A_KEY = 64
_ALWAYS = 1 << 20
_MOST_PAGES = 1 << 15


@dataclass
class Keys:
    """Keys of some rows.

    Parameters
    ----------
    pages : by what stands before their last bits, uint8 (8192,), a bit for each.
    twice : two rows have the same.
    sparse : they are too far apart for bits, and somebody else has to look.
    """

    pages: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    twice: bool = False
    sparse: bool = False

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> Keys:
        """Of keys, int64 (n,), ascending."""
        if bool((keys[1:] == keys[:-1]).any()):
            return cls(twice=True)
        above, low = keys >> _PAGE_BITS, keys & (_PAGE - 1)
        starts = np.flatnonzero(np.diff(above, prepend=above[:1] - 1))
        if len(starts) * _PAGE // 8 > max(_BYTES_A_KEY * len(keys), _ALWAYS):
            return cls(sparse=True)
        pages = {}
        for own in np.split(np.arange(len(keys)), starts[1:]):
            if len(own):
                bits = np.zeros(_PAGE, np.bool_)
                bits[low[own]] = True
                pages[int(above[own[0]])] = np.packbits(bits)
        return cls(pages)

    def add(self, other: Keys) -> None:
        """Add those of other rows."""
        self.twice |= other.twice
        self.sparse |= other.sparse
        if self.twice or self.sparse:
            self.pages = {}
            return
        for above, bits in other.pages.items():
            own = self.pages.get(above)
            if own is not None and bool((own & bits).any()):
                self.twice = True
            self.pages[above] = bits if own is None else own | bits
        self.sparse |= len(self.pages) > _MOST_PAGES
