"""Spark's daemon of Python workers, with what workers import imported: they are forks of it.

Each worker takes a second of CPU for that otherwise, and Spark starts some thirty in these tests.
After each task a worker looks for garbage, a tenth of a second in all that was imported: that is
left out here. Drivers of tests that are processes of their own have Spark's daemon as it is.
"""

from __future__ import annotations

import gc

import pandas
import pyarrow.compute
import pyspark.worker
from pyspark.daemon import manager

import dbanon.spark.workers

__all__ = ["dbanon", "pandas", "pyarrow", "pyspark"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
