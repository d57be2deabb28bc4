"""Spark's daemon of Python workers, with what workers import imported: they are forks of it.

Each worker takes a second of CPU for that otherwise, and Spark starts some thirty in these tests.
Drivers of tests that are processes of their own have Spark's daemon as it is.
"""

from __future__ import annotations

import pyarrow.compute
import pyspark.worker
from pyspark.daemon import manager

import dbanon.spark.workers

__all__ = ["dbanon", "pyarrow", "pyspark"]

if __name__ == "__main__":
    manager()
