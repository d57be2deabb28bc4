"""Parquet and CSV files of verified releases: their formats and destinations."""
