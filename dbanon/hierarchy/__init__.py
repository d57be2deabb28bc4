"""Generalization trees: building, reading, validating and querying them."""

from dbanon.hierarchy.tree import Hierarchy

__all__ = ["Hierarchy"]
