"""dbanon: k-anonymous releases of SQL tables, recounted before they are visible.

The public names load what they need when they are first used: ``import dbanon`` imports neither
SQLAlchemy nor pandas, because inside a database every import costs each connection.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbanon.api import anonymize, generalization_loss, information_loss, partition
    from dbanon.errors import DbanonError
    from dbanon.frame import anonymize_frame
    from dbanon.hierarchy import Hierarchy
    from dbanon.methods import METHODS
    from dbanon.partitions import Partition
    from dbanon.pipeline import Policy
    from dbanon.release import Report

_HOMES = {
    "METHODS": "dbanon.methods",
    "DbanonError": "dbanon.errors",
    "Hierarchy": "dbanon.hierarchy",
    "Partition": "dbanon.partitions",
    "Policy": "dbanon.pipeline",
    "Report": "dbanon.release",
    "anonymize": "dbanon.api",
    "anonymize_frame": "dbanon.frame",
    "generalization_loss": "dbanon.api",
    "information_loss": "dbanon.api",
    "partition": "dbanon.api",
}

__all__ = [
    "METHODS",
    "DbanonError",
    "Hierarchy",
    "Partition",
    "Policy",
    "Report",
    "anonymize",
    "anonymize_frame",
    "generalization_loss",
    "information_loss",
    "partition",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from dbanon.version import version

        return version()
    if name not in _HOMES:
        raise AttributeError(f"module 'dbanon' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
