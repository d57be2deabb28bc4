"""Tables beyond one machine: the same blocks as on one, worked on by Spark."""

from __future__ import annotations

from dbanon.errors import MissingDependency

# Of the packages that the extra brings: what is imported, and what it is called.
_NEEDED = {"pyspark": "pyspark", "py4j": "pyspark", "pyarrow": "pyarrow",
           "sqlalchemy": "SQLAlchemy"}  # fmt: skip

try:
    from dbanon.spark.anonymize import anonymize
    from dbanon.spark.session import open_session
    from dbanon.spark.table import anonymize_table
except ModuleNotFoundError as error:
    package = _NEEDED.get((error.name or "").partition(".")[0])
    if package is None:
        raise
    raise MissingDependency.of_spark(f"Spark needs the package {package}.") from None

__all__ = ["anonymize", "anonymize_table", "open_session"]
