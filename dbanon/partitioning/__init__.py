"""Records into classes: strata, blocks, methods, refinement, privacy models."""
