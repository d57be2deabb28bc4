"""Policies for NULLs in quasi-identifiers."""

from __future__ import annotations

# A pattern of NULLs is the set of quasi-identifiers that are NULL in a record. In this order, the
# policies: refuse NULLs; withhold records with a NULL; build classes within each pattern of NULLs;
# do so after rare patterns have joined larger ones.
ERROR, SUPPRESS, CATEGORY, MERGE = "error", "suppress", "category", "merge"
NULL_POLICIES = (ERROR, SUPPRESS, CATEGORY, MERGE)
# Policies that release records with a NULL.
RELEASED_NULLS = (CATEGORY, MERGE)
