"""Databases: one Store protocol, one store a database."""
