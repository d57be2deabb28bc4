"""What calls in SQL hand back of what went wrong, without a value of anybody's."""

from __future__ import annotations

from typing import Any

from dbanon.errors import DbanonError, InvalidParameter, MemoryLimit, VersionMismatch
from dbanon.stores.postgresql.errors import spi_error
from dbanon.version import version


def require_version(sql_version: str) -> None:
    """Check that functions and package are of one version; raises VersionMismatch."""
    if sql_version != version():
        raise VersionMismatch(
            f"The SQL functions are of version {sql_version}, Python has {version()}.",
            hint="Ask a superuser to run: dbanon upgrade",
        )


def refusal_of(plpy: Any, failure: Exception) -> DbanonError:
    """The error that a call raises for a failure."""
    if isinstance(failure, DbanonError):
        return failure
    if isinstance(failure, RecursionError):
        return InvalidParameter("An argument is nested too deep.")
    if isinstance(failure, MemoryError):
        return MemoryLimit("The backend has no more memory.")
    if hasattr(failure, "spidata"):
        return spi_error(failure)
    # The text of an exception may hold a value: only its type is told.
    kind = type(failure).__name__
    plpy.log(f"dbanon: unexpected {kind}")
    return DbanonError(f"dbanon failed unexpectedly ({kind}); nothing was published.")
