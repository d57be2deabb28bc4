"""Estimates of the analyses that readers make: on weighted rows, with standard errors.

All functions compute on arrays of one table. They know neither originals nor releases.
"""
