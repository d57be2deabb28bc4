"""Rows that stand for no row of the source: with noise as published, or differentially private."""
