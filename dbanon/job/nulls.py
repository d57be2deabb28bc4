"""Policies for NULLs in quasi-identifiers."""

from __future__ import annotations

# Refuse NULLs, withhold records with a NULL, build classes within each pattern of NULLs, or do so
# after rare patterns have joined larger ones.
ERROR, SUPPRESS, CATEGORY, MERGE = "error", "suppress", "category", "merge"
NULL_POLICIES = (ERROR, SUPPRESS, CATEGORY, MERGE)
# Policies that release records with a NULL.
RELEASED_NULLS = (CATEGORY, MERGE)
