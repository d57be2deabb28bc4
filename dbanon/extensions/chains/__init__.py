"""Chains: successive releases of the same persons that stay private when combined."""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "chains",
    commands={
        "chain": Command(
            "dbanon.extensions.chains.commands:chain",
            "Releases of the same persons that stay private together.",
        )
    },
    runners={"chain": "dbanon.extensions.chains.runner:RUNNER"},
)
