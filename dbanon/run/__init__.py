"""Runs of jobs from the first check to the report, and later questions about a release."""
