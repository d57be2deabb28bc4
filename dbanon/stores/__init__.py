"""Databases and data frames: two ports that all of them answer, and the ledger."""
