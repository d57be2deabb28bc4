"""The workbench: a local web page that leads from a table to a job file and its release."""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "workbench",
    commands={
        "workbench": Command(
            "dbanon.extensions.workbench.command:workbench",
            "Open a local web page that leads from a table to a job file and its release.",
        )
    },
)
