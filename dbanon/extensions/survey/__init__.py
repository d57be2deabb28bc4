"""Survey microdata: disclosure risk of a sample whose records have design weights."""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "survey",
    commands={
        "risk": Command(
            "dbanon.extensions.survey.command:risk",
            "Measure the disclosure risk of a sample: how likely its records lead to their"
            " persons.",
        )
    },
    # The SQL function of the same name looks it up.
    runners={"sample_risk": "dbanon.extensions.survey.plpython:RUNNER"},
)
