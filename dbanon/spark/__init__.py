"""Anonymize tables beyond one machine on Spark, in the same blocks as on one machine."""

from dbanon.extensions.spark.interface import anonymize, anonymize_table, open_session

__all__ = ["anonymize", "anonymize_table", "open_session"]
