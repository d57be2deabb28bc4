"""Blocks that sleep, for what more workers gain: sleeping takes no core from anybody."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from dbanon.spark.workers import Blocks


@dataclass(frozen=True, eq=False)
class SlowBlocks(Blocks):
    """Blocks each of which takes some seconds more.

    Parameters
    ----------
    sleeps : the seconds.
    """

    sleeps: float = 0.0

    def _one(self, rows: pa.Table, number: int) -> Any:
        time.sleep(self.sleeps)
        return super()._one(rows, number)

    @classmethod
    def sleeping(cls, sleeps: float) -> Callable[..., SlowBlocks]:
        """What makes them."""
        return partial(cls, sleeps=sleeps)
