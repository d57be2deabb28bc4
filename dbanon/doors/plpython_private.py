"""The module that the procedures ``dp_ranks`` and ``dp_marginals`` import inside PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.data.extension import load_runner
from dbanon.data.types import JsonMapping

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython


def synthetic(plpy: PlPython, sql_version: str, method: str, arguments: JsonMapping) -> str | None:
    """Make a synthetic release; see ``dbanon.extensions.synthesis.plpython.synthetic``."""
    error: str | None = load_runner("private_procedure")(plpy, sql_version, method, arguments)
    return error
