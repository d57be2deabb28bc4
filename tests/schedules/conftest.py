from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.prerequisites import skip_optional


@pytest.fixture
def scheduler(request: pytest.FixtureRequest) -> Path:
    """The program directory of the environment in the test's mark."""
    [name] = request.node.get_closest_marker("scheduler").args
    if (folder := os.environ.get("DBANON_SCHEDULERS")) is None:
        skip_optional("`make schedules` runs it")
    return Path(folder) / name / "bin"
