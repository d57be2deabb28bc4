"""Anonymize tables beyond one machine on Spark, with the same blocks as on one machine."""

from __future__ import annotations

from dbanon.errors import MissingDependency

# The packages that the extra installs, by import name.
_PACKAGES = {
    "pyspark": "pyspark",
    "py4j": "pyspark",
    "pyarrow": "pyarrow",
    "sqlalchemy": "SQLAlchemy",
}

try:
    from dbanon.spark.anonymize import anonymize
    from dbanon.spark.session import open_session
    from dbanon.spark.table import anonymize_table
except ModuleNotFoundError as error:
    package = _PACKAGES.get((error.name or "").partition(".")[0])
    if package is None:
        raise
    raise MissingDependency.of_spark(f"Spark needs the package {package}.") from None

__all__ = ["anonymize", "anonymize_table", "open_session"]
