"""Blocks that sleep, to measure the gain of more workers without occupying cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from dbanon.extensions.spark.workers import ClusterBlocks


@dataclass(frozen=True, eq=False)
class SlowBlocks(ClusterBlocks):
    """Blocks that each take some seconds longer.

    Parameters
    ----------
    sleeps : the seconds.
    """

    sleeps: float = 0.0

    def _process_block(self, rows: pa.Table, number: int) -> Any:
        time.sleep(self.sleeps)
        return super()._process_block(rows, number)

    @classmethod
    def sleeping(cls, sleeps: float) -> Callable[..., SlowBlocks]:
        """Return a constructor with this delay."""
        return partial(cls, sleeps=sleeps)
