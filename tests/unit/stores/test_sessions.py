"""Sessions: nothing keeps one in memory once it is dropped."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

import pytest

from dbanon.stores.postgresql.backend import PlpySession


@pytest.fixture
def _no_garbage_collection() -> Any:
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


@pytest.mark.usefixtures("_no_garbage_collection")
def test_a_backend_frees_the_session_of_a_failed_call_at_once() -> None:
    """Its arrays can take much of the memory that the backend may use."""
    session = PlpySession(cast(Any, None))
    reference = weakref.ref(session)
    del session
    assert reference() is None
