"""Reads, checks and runs job files. Only this package imports pydantic and PyYAML."""
