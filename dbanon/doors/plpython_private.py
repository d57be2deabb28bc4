"""The module that the procedures ``dp_ranks`` and ``dp_marginals`` import inside PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.data.extension import load_runner


def synthetic(plpy: Any, sql_version: str, method: str, arguments: Mapping[str, Any]) -> str | None:
    """Make a synthetic release; see ``dbanon.extensions.synthesis.plpython.synthetic``."""
    error: str | None = load_runner("private_procedure")(plpy, sql_version, method, arguments)
    return error
