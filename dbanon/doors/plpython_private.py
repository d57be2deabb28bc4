"""The module that the procedures ``dp_ranks`` and ``dp_marginals`` import inside PostgreSQL."""

from __future__ import annotations

from typing import Any

from dbanon.data.extension import load_runner
from dbanon.data.types import JsonMapping


def synthetic(plpy: Any, sql_version: str, method: str, arguments: JsonMapping) -> str | None:
    """Make a synthetic release; see ``dbanon.extensions.synthesis.plpython.synthetic``."""
    error: str | None = load_runner("private_procedure")(plpy, sql_version, method, arguments)
    return error
