"""Attacks on released rows, with success rates: singling out, linkage, inference, membership."""

from __future__ import annotations

from dbanon.data.extension import Extension

EXTENSION = Extension(
    "attacks",
    evaluations={"attacks": "dbanon.extensions.attacks.control_group:evaluate_attacks"},
)
