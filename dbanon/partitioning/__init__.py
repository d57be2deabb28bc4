"""Assign records to classes: strata, blocks, methods, refinement, privacy models."""
