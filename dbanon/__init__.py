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
    from dbanon.measures import Model
    from dbanon.methods import METHODS
    from dbanon.partitions import Partition
    from dbanon.policy import Policy
    from dbanon.release import Report
    from dbanon.stored_hierarchies import (
        drop_hierarchy,
        list_hierarchies,
        load_hierarchy,
        store_hierarchy,
    )

_HOMES = {
    "METHODS": "dbanon.methods",
    "DbanonError": "dbanon.errors",
    "Hierarchy": "dbanon.hierarchy",
    "Model": "dbanon.measures",
    "Partition": "dbanon.partitions",
    "Policy": "dbanon.policy",
    "Report": "dbanon.release",
    "anonymize": "dbanon.api",
    "anonymize_frame": "dbanon.frame",
    "drop_hierarchy": "dbanon.stored_hierarchies",
    "generalization_loss": "dbanon.api",
    "information_loss": "dbanon.api",
    "list_hierarchies": "dbanon.stored_hierarchies",
    "load_hierarchy": "dbanon.stored_hierarchies",
    "partition": "dbanon.api",
    "store_hierarchy": "dbanon.stored_hierarchies",
}

__all__ = [
    "METHODS",
    "DbanonError",
    "Hierarchy",
    "Model",
    "Partition",
    "Policy",
    "Report",
    "anonymize",
    "anonymize_frame",
    "drop_hierarchy",
    "generalization_loss",
    "information_loss",
    "list_hierarchies",
    "load_hierarchy",
    "partition",
    "store_hierarchy",
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
