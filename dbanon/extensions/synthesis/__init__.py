"""Synthetic rows: differentially private, or (``dcmdp``) with noise as published."""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "synthesis",
    commands={
        "budget": Command(
            "dbanon.extensions.synthesis.commands:budget",
            "Privacy budgets: how much the differentially private releases of a table may spend"
            " together.",
        )
    },
    # The core looks runners up by these names: for private jobs, for the SQL procedures, and for
    # advice.
    runners={
        "private": "dbanon.extensions.synthesis.runner:RUNNER",
        "private_procedure": "dbanon.extensions.synthesis.plpython:synthetic",
        "private_forecast": "dbanon.extensions.synthesis.forecast:forecast_synthetic_rows",
    },
)
