"""SPI's errors in dbanon's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from dbanon.errors import DbanonError
from dbanon.stores.postgresql.errors import translation


@contextmanager
def translated() -> Iterator[None]:
    """Raise SPI's errors as dbanon's own. A cancel becomes ``Cancelled``, which nothing stops."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "spidata"):
            raise
        raise spi_error(error) from None


def spi_error(error: Any) -> DbanonError:
    """The error of ours for one of SPI; the server's text is not passed on: it may quote values."""
    code, _, _, _, _, _, table, column, _, constraint = error.spidata
    # Five letters or digits, six bits each: there are SQLSTATEs that plpy has no class for.
    state = "".join(chr((code >> 6 * place & 0x3F) + ord("0")) for place in range(5))
    names = SimpleNamespace(table_name=table, column_name=column, constraint_name=constraint)
    return translation(SimpleNamespace(sqlstate=state, diag=names))
