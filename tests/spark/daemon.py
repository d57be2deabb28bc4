"""Spark's daemon for Python workers with preloaded modules, which the forked workers share.

Otherwise each worker spends a second of CPU on imports, and Spark starts some thirty in these
tests. After each task a worker collects garbage, which takes a tenth of a second with all these
modules; that is left out here. Separate driver processes use Spark's own daemon.
"""

from __future__ import annotations

import gc

import pandas
import pyarrow.compute
import pyspark.worker
from pyspark.daemon import manager

import dbanon.extensions.spark.workers

__all__ = ["dbanon", "pandas", "pyarrow", "pyspark"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
