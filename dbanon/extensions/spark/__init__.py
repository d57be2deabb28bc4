"""Spark: anonymize tables beyond one machine, in the same blocks as on one machine.

Users import ``dbanon.spark``.
"""

from __future__ import annotations

from dbanon.data.extension import Extension

EXTENSION = Extension("spark", engines={"spark": "dbanon.extensions.spark.interface:run_job"})
