"""Generalization trees: made, read, checked, asked."""

from dbanon.hierarchy.tree import Hierarchy

__all__ = ["Hierarchy"]
