"""Tables beyond one machine: the same blocks as on one, worked on by Spark."""

from __future__ import annotations

from dbanon.errors import MissingDependency

try:
    from dbanon.spark.anonymize import anonymize
    from dbanon.spark.session import open_session
    from dbanon.spark.table import anonymize_table
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
        raise
    raise MissingDependency.of_spark("Spark needs the package pyspark.") from None

__all__ = ["anonymize", "anonymize_table", "open_session"]
