"""A workbench on invented persons in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.workbench.client import Client, workbench
from tests.doors.workbench.people import COLUMNS, load, rows


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    columns = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    url = load(tmp_path, "people", columns, rows())
    with workbench(url, "people", tmp_path, key=("id",)) as opened:
        yield opened
