"""Lower bounds: the minimum information loss of any partition into classes of k or more."""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "bounds",
    commands={
        "bound": Command(
            "dbanon.extensions.bounds.command:bound",
            "Compute a lower bound on the loss of any release of a table in classes of k or more"
            " rows.",
        )
    },
    evaluations={"certificate": "dbanon.extensions.bounds.compute:evaluate_bound"},
)
