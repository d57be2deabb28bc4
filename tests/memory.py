"""Where files go that need not last: into memory, where there is enough of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 * 2**30


def memory() -> Path | None:
    """A directory in memory; None where there is none, or little room in it."""
    if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        return _MEMORY
    return None
