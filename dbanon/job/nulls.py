"""Policies for NULLs in quasi-identifiers."""

from __future__ import annotations

ERROR, SUPPRESS, CATEGORY, MERGE = "error", "suppress", "category", "merge"
NULL_POLICIES = (ERROR, SUPPRESS, CATEGORY, MERGE)
# Policies that release records with a NULL.
RELEASED_NULLS = (CATEGORY, MERGE)
